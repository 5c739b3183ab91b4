//! Goal: `why` names what whole stacks do, from their own counters: ten situations whose truth is known, in virtual
//! time over an emulated path.

use super::*;
use crate::{short, why};
use base::{Addr, Duration, Endpoint, Instant, Rate};
use emu::{PipeConfig, Piped, Queue};
use pio::{PairConfig, pair};
use sock::{Clock, Engine, Errno, Family, Fd, Limits, control};
use stack::{Core, CoreConfig, OwnAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NEAR: Addr = Addr::v4([10, 0, 0, 1]);
const FAR: Endpoint = Endpoint::new(Addr::v4([10, 0, 0, 2]), 80);
/// Process number of the near stack.
const PID: u32 = 7;
const STEP: Duration = Duration::from_micros(100);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Virtual(Arc<AtomicU64>);

impl Clock for Virtual {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Answers of the near stack to `stat` and `ss`.
type Answers = [Vec<(u32, Value)>; 2];

/// Two stacks with a path of 20 ms between them. `why` asks the near one.
struct World {
    near: Engine,
    far: Engine,
    clock: Virtual,
    /// The near thread works between turns, and never sleeps.
    computes: bool,
    /// The far stack is gone.
    silent: bool,
    slept: Duration,
}

/// A path's direction: 10 ms, no limit.
fn way() -> PipeConfig {
    PipeConfig { delay: Duration::from_millis(10), ..PipeConfig::default() }
}

fn engine(addr: Addr, port: impl pio::PacketIo + 'static, clock: &Virtual) -> Engine {
    let addresses = vec![OwnAddr { addr, prefix: 24 }];
    let config = CoreConfig { seed: 7, addresses, ..CoreConfig::default() };
    Engine::new(Core::new(config, Box::new(port)), Box::new(clock.clone()), Limits::default())
}

impl World {
    /// With `out` as the way from the near stack to the far one.
    fn new(out: PipeConfig) -> World {
        let clock = Virtual(Arc::new(AtomicU64::new(1_000_000_000)));
        let (a, b) = pair(&PairConfig { frames: 8_192, ..PairConfig::default() }).unwrap();
        let time = clock.clone();
        let a = Piped::new(Box::new(a), [way(), out], 7, move || time.now()).unwrap();
        let (near, far) = (engine(NEAR, a, &clock), engine(FAR.addr, b, &clock));
        World { near, far, clock, computes: false, silent: false, slept: Duration::ZERO }
    }

    /// Runs for `time`, with what the two applications do in each step.
    fn run(&mut self, time: Duration, mut each: impl FnMut(&mut World)) {
        for _ in 0..time.as_micros() / STEP.as_micros() {
            self.clock.0.fetch_add(STEP.as_nanos() as u64, Ordering::Relaxed);
            self.near.turn().unwrap();
            if !self.computes {
                self.slept += STEP;
            }
            if !self.silent {
                self.far.turn().unwrap();
            }
            each(self);
        }
    }

    fn listener(&mut self) -> Fd {
        let listener = self.far.socket(Family::V4).unwrap();
        self.far.bind(listener, FAR).unwrap();
        self.far.listen(listener, 512).unwrap();
        listener
    }

    /// A connection's near and far end.
    fn connected(&mut self) -> (Fd, Fd) {
        let listener = self.listener();
        let near = self.near.socket(Family::V4).unwrap();
        assert_eq!(self.near.connect(near, FAR), Err(Errno::EINPROGRESS));
        self.run(SECOND / 10, |_| {});
        (near, self.far.accept(listener).unwrap().0)
    }

    fn look(&mut self) -> Answers {
        let mut stat = control::stats(&mut self.near);
        // The near thread sleeps in this world, not in its engine.
        stat["sock"]["sleep_us"] = (self.slept.as_micros() as u64).into();
        let rows = control::rows(&mut self.near);
        let named = |mut row: Value| {
            row["core"] = 0.into();
            (PID, row)
        };
        [vec![named(stat)], rows.into_iter().map(named).collect()]
    }

    /// Two looks, a second apart, after two seconds of `each`.
    fn watch(&mut self, mut each: impl FnMut(&mut World)) -> (Answers, Answers) {
        self.run(2 * SECOND, &mut each);
        let before = self.look();
        self.run(SECOND, &mut each);
        (before, self.look())
    }

    /// The verdict on the one connection.
    fn verdict(&mut self, each: impl FnMut(&mut World)) -> Verdict {
        let ([cores, before], [cores_now, now]) = self.watch(each);
        let load = why::loads(&cores, &cores_now).get(&(PID, 0)).copied();
        let pairs = short::pairs(&before, &now);
        assert_eq!(pairs.len(), 1, "{now:?}");
        println!("{}\n{}", pairs[0].1, pairs[0].2);
        Looks { before: pairs[0].1, now: pairs[0].2, load }.verdict()
    }
}

fn set(engine: &mut Engine, fd: Fd, name: i32, value: i32) {
    engine.setsockopt(fd, libc::SOL_SOCKET, name, &value.to_ne_bytes()).unwrap();
}

/// Writes as much as is taken.
fn fill(engine: &mut Engine, fd: Fd) {
    while engine.write(fd, &[0x5a; 65_536]).is_ok() {}
}

/// Reads all there is.
fn drain(engine: &mut Engine, fd: Fd) {
    while engine.read(fd, &mut [0; 65_536]).is_ok_and(|n| n > 0) {}
}

#[track_caller]
fn says(verdict: &Verdict, word: &str, least: f64, parts: &[&str]) {
    assert!(verdict.word == word && verdict.share.is_none_or(|share| share >= least), "{word}: {verdict:?}");
    for part in parts {
        assert!(verdict.text.contains(part), "{part:?} is not in {verdict:?}");
    }
}

/// Sends without end to a reader that keeps up, over `out`, with `prepare` before.
fn sends(out: PipeConfig, prepare: impl FnOnce(&mut World, Fd, Fd)) -> Verdict {
    let mut world = World::new(out);
    let (near, far) = world.connected();
    prepare(&mut world, near, far);
    world.verdict(|world| {
        fill(&mut world.near, near);
        drain(&mut world.far, far);
    })
}

#[test]
fn idle() {
    let mut world = World::new(way());
    let (near, far) = world.connected();
    let mut steps = 0;
    let verdict = world.verdict(|world| {
        steps += 1;
        if steps % 2_000 == 0 {
            world.near.write(near, &[0; 1_000]).unwrap();
        }
        drain(&mut world.far, far);
    });
    says(&verdict, "idle", 0.8, &["nothing to send", "gave 40.0 kbit/s"]);
}

#[test]
fn a_slow_reader() {
    let mut world = World::new(way());
    let (near, far) = world.connected();
    let mut steps = 0;
    let verdict = world.verdict(|world| {
        steps += 1;
        fill(&mut world.far, far);
        if steps % 10 == 0 {
            let _ = world.near.read(near, &mut [0; 2_000]).is_ok();
        }
    });
    says(&verdict, "reader", 0.0, &["reads slowly"]);
}

#[test]
fn a_small_send_buffer() {
    let verdict = sends(way(), |world, near, _| set(&mut world.near, near, libc::SO_SNDBUF, 8_192));
    says(&verdict, "send-buffer", 0.8, &["16 KiB over 20", "SO_SNDBUF"]);
}

#[test]
fn a_small_receive_buffer() {
    let mut world = World::new(way());
    let listener = world.listener();
    let near = world.near.socket(Family::V4).unwrap();
    set(&mut world.near, near, libc::SO_RCVBUF, 16_384);
    assert_eq!(world.near.connect(near, FAR), Err(Errno::EINPROGRESS));
    world.run(SECOND / 10, |_| {});
    let far = world.far.accept(listener).unwrap().0;
    let verdict = world.verdict(|world| {
        fill(&mut world.far, far);
        drain(&mut world.near, near);
    });
    says(&verdict, "receive-buffer", 0.0, &["SO_RCVBUF"]);
}

#[test]
fn the_rate_of_the_path() {
    let rate = Some(Rate::from_bits_per_sec(8_000_000));
    let verdict = sends(PipeConfig { rate, queue: Queue::Strict(20_000), ..way() }, |_, _, _| {});
    says(&verdict, "congestion-window", 0.5, &["what the path carries"]);
}

#[test]
fn losses() {
    let verdict = sends(PipeConfig { loss: 0.1, ..way() }, |_, _, _| {});
    says(&verdict, "loss-recovery", 0.5, &["The path loses packets"]);
}

#[test]
fn the_peers_window() {
    let verdict = sends(way(), |world, _, far| set(&mut world.far, far, libc::SO_RCVBUF, 16_384));
    says(&verdict, "peer-window", 0.5, &["The peer's window was full"]);
}

#[test]
fn pacing() {
    let verdict =
        sends(way(), |world, near, _| set(&mut world.near, near, libc::SO_MAX_PACING_RATE, 125_000));
    says(&verdict, "pacing", 0.9, &["SO_MAX_PACING_RATE to 1.0 Mbit/s"]);
}

#[test]
fn many_short_ones() {
    let mut world = World::new(way());
    let listener = world.listener();
    let (mut open, mut steps) = (Vec::new(), 0);
    let ([cores, before], [cores_now, now]) = world.watch(|world| {
        steps += 1;
        // One every 10 ms, which lives for 50.
        if steps % 100 == 0 {
            let fd = world.near.socket(Family::V4).unwrap();
            assert_eq!(world.near.connect(fd, FAR), Err(Errno::EINPROGRESS));
            open.push((steps, fd));
        }
        open.retain(|&(begun, fd)| {
            if steps == begun + 450 {
                assert_eq!(world.near.write(fd, &[0; 1_000]), Ok(1_000));
            } else if steps == begun + 500 {
                world.near.close(fd).unwrap();
            }
            steps < begun + 500
        });
        while let Ok((fd, _)) = world.far.accept(listener) {
            world.far.close(fd).unwrap();
        }
    });
    assert!(short::pairs(&before, &now).is_empty(), "none lives for a second");
    let all = short::all((&cores, &cores_now), (&before, &now));
    let text = all[&PID].as_text(PID);
    assert!(
        (100..=110).contains(&all[&PID].count) && text.contains("what limits them is not known"),
        "{text}"
    );
}

#[test]
fn a_busy_application() {
    let mut world = World::new(way());
    let (near, far) = world.connected();
    world.computes = true;
    let mut steps = 0;
    let verdict = world.verdict(|world| {
        steps += 1;
        // 49 ms of work bring the next thousand bytes.
        if steps % 490 == 0 {
            world.near.write(near, &[0; 1_000]).unwrap();
        }
        drain(&mut world.far, far);
    });
    says(&verdict, "cpu", 0.95, &["had no time left (100 % busy)"]);
}

#[test]
fn a_stalled_peer() {
    let mut world = World::new(way());
    let (near, _far) = world.connected();
    let stopped = world.verdict(|world| fill(&mut world.near, near));
    says(&stopped, "peer-window", 0.9, &["does not read"]);

    let mut world = World::new(way());
    let (near, far) = world.connected();
    world.run(SECOND, |world| {
        fill(&mut world.near, near);
        drain(&mut world.far, far);
    });
    world.silent = true;
    let gone = world.verdict(|world| fill(&mut world.near, near));
    says(&gone, "loss-recovery", 0.9, &["acknowledged nothing", "timeouts"]);
}
