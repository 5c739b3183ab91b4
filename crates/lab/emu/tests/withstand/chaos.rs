//! Goal: whatever two hosts are set to and whatever lies between them, every connection ends with every byte
//! in its place and nothing is left. Each seed draws a world of its own.

use crate::harness::{Family, Pair, Setup, seeded};
use crate::peer::Plan;
use base::{Duration, Rate, Rng};
use emu::{PipeConfig, PortConfig, Queue};
use stack::CoreConfig;
use tcp::SocketOptions;

/// With RTO's ceiling at twenty seconds, a connection that lives moves something in this time.
const TIMEOUT: Duration = Duration::from_secs(1_200);

struct Dice(Rng);

impl Dice {
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// Between `low` and `high`, every magnitude as likely as the others.
    fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let bits = self.between(low.max(1).ilog2().into(), high.ilog2().into());
        self.between(1 << bits, (2 << bits) - 1).clamp(low, high)
    }

    fn chance(&mut self, p: f64) -> bool {
        self.0.chance(p)
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.0.below(items.len() as u64) as usize]
    }

    /// Nothing half of the time, else up to `most`.
    fn ill(&mut self, most: f64) -> f64 {
        if self.chance(0.5) { 0.0 } else { most * self.between(0, 1_000) as f64 / 1_000.0 }
    }

    fn path(&mut self, mtu: u64) -> PipeConfig {
        let delay = Duration::from_micros(self.magnitude(1, 200_000));
        let queue = match self.between(0, 3) {
            0 => Queue::Unlimited,
            1 => Queue::Slots(self.magnitude(4, 1_000) as u32),
            2 => Queue::Strict(self.magnitude(4 * (mtu + 14), 1 << 20)),
            _ => Queue::Loose(self.magnitude(2 * (mtu + 14), 1 << 20)),
        };
        PipeConfig {
            rate: self.chance(0.8).then(|| Rate::from_bits_per_sec(self.magnitude(500_000, 1_000_000_000))),
            overhead: 24 * u32::from(self.chance(0.5)),
            delay,
            jitter: if self.chance(0.5) { delay / 2 } else { Duration::ZERO },
            queue,
            loss: self.ill(0.08),
            duplicate: self.ill(0.05),
            corrupt: self.ill(0.02),
            reorder: self.ill(0.2),
            reorder_by: delay * 2 + Duration::from_millis(1),
            spares_neighbours: true,
            ..PipeConfig::default()
        }
    }

    fn core(&mut self, config: &mut CoreConfig) {
        config.allow_unfair = true;
        config.control = self.one_of(&cc::Registry::built_in().collect::<Vec<_>>());
        config.tcp.sack = self.chance(0.8);
        config.tcp.timestamps = self.chance(0.8);
        config.tcp.window_scaling = self.chance(0.8);
        // A short queue full of others' data can swallow the usual number of retries, one after the other.
        (config.tcp.syn_retries, config.tcp.synack_retries) = (30, 30);
        (config.tcp.data_retries, config.tcp.orphan_retries) = (60, 60);
        config.tcp.rto_max = Duration::from_secs(20);
        config.tcp.initial_window = self.between(1, 20) as u32;
        if self.chance(0.2) {
            config.tcp.rcvbuf = (self.magnitude(4_096, 1 << 18) as u32, 1 << 18);
        }
        if self.chance(0.2) {
            config.tcp.sndbuf = (self.magnitude(4_096, 1 << 18) as u32, 1 << 18);
        }
        if self.chance(0.2) {
            config.max_chunks = self.magnitude(64, 4_096) as u32;
        }
    }

    fn options(&mut self) -> SocketOptions {
        let mut options = SocketOptions {
            nodelay: self.chance(0.5),
            quickack: self.chance(0.2).then_some(true),
            cork: self.chance(0.1),
            keepalive: self.chance(0.3),
            ..SocketOptions::default()
        };
        if self.chance(0.2) {
            options.max_seg = self.between(536, 1_460) as u16;
        }
        if self.chance(0.1) {
            options.window_clamp = self.magnitude(4_096, 1 << 17) as u32;
        }
        if self.chance(0.1) {
            options.notsent_lowat = self.magnitude(1, 1 << 16) as u32;
        }
        options
    }
}

/// Draws the two hosts and what lies between.
fn draw(seed: u64, dice: &mut Dice) -> Pair {
    let family = Family::of(seed);
    let mtu = match family {
        Family::V4 => dice.between(576, 1_500),
        Family::V6 => dice.between(1_280, 9_000),
    };
    let mut setup = Setup::new(seed, family, PipeConfig::default());
    (setup.there, setup.back) = (dice.path(mtu), dice.path(mtu));
    setup.port.mtu = mtu as usize;
    if dice.chance(0.3) {
        let tso_max = if dice.chance(0.7) { 65_535 } else { 0 };
        let gathers = dice.chance(0.5).then(|| dice.magnitude(1, 1 << 14) as usize);
        setup.port =
            PortConfig { tx_checksum: true, tso_max, passes_whole: dice.chance(0.5), gathers, ..setup.port };
    }
    if dice.chance(0.2) {
        setup.port.frames = dice.between(16, 64) as u32;
        setup.port.tx_ring = dice.between(1, 64) as usize;
    }
    dice.core(&mut setup.client);
    dice.core(&mut setup.server);
    setup.build()
}

fn world(seed: u64) {
    let mut dice = Dice(Rng::new(seed ^ 0xc4a0_5000));
    let mut pair = draw(seed, &mut dice);
    let connections = dice.magnitude(1, 30);
    let (client, server) = Plan::both(dice.magnitude(1, 300_000), dice.magnitude(1, 300_000));
    let last = dice.between(0, 2);
    let lazy = dice.ill(0.02);
    let lends = if dice.chance(0.5) { 0.5 } else { 0.0 };
    let (client, server) = (Plan { lends, ..client }, Plan { lends, ..server });
    pair.serve(Plan { options: dice.options(), lazy, close_last: last == 1, ..server });
    for _ in 0..connections {
        pair.connect(Plan { options: dice.options(), lazy: dice.ill(0.02), close_last: last == 2, ..client });
        let pause = Duration::from_micros(dice.magnitude(1, 1 << 20));
        let later = pair.net.now() + pause;
        pair.net.run_until(later);
    }
    pair.finish(TIMEOUT);
    for host in [pair.client(), pair.server()] {
        assert_eq!(host.app.tally.complete, connections, "{}", pair.describe());
    }
    pair.assert_clean();
}

#[test]
fn any_world() {
    seeded(1..60, world);
}
