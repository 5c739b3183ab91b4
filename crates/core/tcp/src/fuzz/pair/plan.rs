//! TxPlan of a run: settings of both ends, the path between them, and the applications' actions. Drawn from bytes.

use base::{Addr, Duration, Endpoint, FlowKey, Input, Instant, Seq, SipKey};
use cc::{Control, Cubic, NewReno};
use wire::tcp::FastOpen;

use super::end::{Act, App, End};
use super::path::Link;
use crate::{
    Config, CookieJar, EcnPolicy, FastOpenKeys, FastOpenOffer, Pool, Quirks, SocketOptions, TxLimits,
};

/// How the connection begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opening {
    /// One connects, the other listens.
    Plain,
    /// Both connect.
    Cross,
    /// The listener keeps nothing until the handshake is complete.
    Cookie,
    /// The SYN asks for a cookie of TCP Fast Open, or carries one and data, or data alone.
    Fast(Option<FastOpenOffer>),
}

const KEYS: [u8; 16] = *b"a key for a pair";

fn ms(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

fn one_in(n: u32, input: &mut Input<'_>) -> bool {
    input.below(256) < 256 / n
}

/// Below 2^`bits`, every magnitude as likely as the others.
fn magnitude(bits: u32, input: &mut Input<'_>) -> u32 {
    let magnitude = 1 << input.below(bits + 1).min(16);
    input.below(magnitude)
}

/// Both ends of one flow.
pub(super) fn ends(input: &mut Input<'_>, now: Instant) -> [End; 2] {
    let v4 = input.u8() & 1 == 0;
    let addr = |last| match v4 {
        true => Addr::v4([192, 0, 2, last]),
        false => Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
    };
    let key = FlowKey::new(Endpoint::new(addr(1), 40_000), Endpoint::new(addr(2), 80));
    let mtu = [1500, 1500, 1280, 9000][input.below(4) as usize];
    let mut isn = || match input.u8() & 1 {
        0 => Seq::new(input.u32()),
        // Wraps soon.
        _ => Seq::new(u32::MAX - u32::from(input.u16())),
    };
    let isns = [isn(), isn()];
    let flows = [key, key.reversed()];
    [0, 1].map(|i| {
        let mut end = End::new(flows[i], isns[i], app(input, now));
        end.mtu = mtu;
        end.config = config(input);
        end.options = options(input);
        end.control = match input.u8() & 1 {
            0 => || Control::Cubic(Cubic::new()),
            _ => || Control::NewReno(NewReno::new()),
        };
        end.limits = TxLimits { max_payload: [65_000, mtu.into(), 0][input.below(3) as usize] };
        if one_in(8, input) {
            end.late = ms(input.below(40));
        }
        if one_in(8, input) {
            end.pool = Pool::new(12 + input.below(32));
        }
        end
    })
}

fn config(input: &mut Input<'_>) -> Config {
    let bits = input.u16();
    let on = |bit: u32| bits >> bit & 3 != 3;
    let mut config = Config {
        timestamps: on(0),
        sack: on(2),
        window_scaling: on(4),
        frto: on(6),
        tail_loss_probe: on(8),
        quirks: Quirks {
            push_bursts: !on(10),
            ack_second_segment: !on(12),
            tell_all_room: !on(14),
            ..Quirks::default()
        },
        ecn: EcnPolicy::ALL[input.below(6) as usize],
        initial_window: 1 + input.below(16),
        quick_acks: (input.below(20)) as u8,
        delayed_ack: ms(input.below(200)),
        reassembly_runs: 1 + input.below(64) as u16,
        ..Config::default()
    };
    if one_in(3, input) {
        let size = 2048 + magnitude(15, input);
        config.rcvbuf = (size, size.max(60_000));
    }
    if one_in(3, input) {
        config.sndbuf = (2048 + magnitude(15, input), 1 << 20);
    }
    if one_in(3, input) {
        config.mtu_probing = 1 + input.below(2) as u8;
        config.base_mss = 48 + input.below(1_400) as u16;
        config.mtu_probes = 1 + input.below(3) as u8;
    }
    config.usec_timestamps = one_in(4, input);
    config
}

fn options(input: &mut Input<'_>) -> SocketOptions {
    let bits = input.u8();
    let mut options = SocketOptions {
        nodelay: bits & 3 == 3,
        cork: bits & 28 == 28,
        quickack: (bits & 96 == 96).then_some(true),
        ..SocketOptions::default()
    };
    if one_in(4, input) {
        options.rcvbuf = 1500 + magnitude(15, input);
    }
    if one_in(4, input) {
        options.sndbuf = 1500 + magnitude(15, input);
    }
    if one_in(6, input) {
        options.max_seg = 88 + input.below(1400) as u16;
    }
    // Under a cork each little write would wait for the cork's timer.
    if one_in(8, input) && !options.cork {
        options.notsent_lowat = 1 + magnitude(14, input);
    }
    if one_in(8, input) {
        options.window_clamp = 500 + magnitude(14, input);
    }
    if one_in(10, input) {
        options.linger = Some(ms(input.below(2) * 500));
    }
    if one_in(8, input) {
        options.user_timeout = ms(50 + u32::from(input.u16()));
    }
    options
}

fn app(input: &mut Input<'_>, now: Instant) -> App {
    let mut app = App {
        total: magnitude(16, input),
        write_max: 40 + magnitude(16, input),
        read_max: 1 + magnitude(15, input).max(200),
        hasty: one_in(12, input),
        ..App::default()
    };
    if one_in(4, input) {
        app.rest = ms(input.below(80));
        app.read_max = app.read_max.max(1000);
    }
    if one_in(4, input) {
        app.stall = Some((magnitude(15, input), ms(u32::from(input.u16()) / 3)));
    }
    if one_in(4, input) {
        const ACTS: [Act; 8] = [
            Act::Close,
            Act::Abort,
            Act::ShutRead,
            Act::ShutWrite,
            Act::Options,
            Act::Options,
            Act::Options,
            Act::Close,
        ];
        app.act = Some((now + ms(magnitude(14, input)), ACTS[input.below(8) as usize]));
    }
    app
}

/// One direction of the path; half of the runs have a fair one.
pub(super) fn link(input: &mut Input<'_>, fair: bool, now: Instant, least: u16) -> Link {
    let delay = Duration::from_micros(u64::from(1 + magnitude(16, input)));
    if fair {
        return Link { delay, ..Link::default() };
    }
    let mut share = || (input.below(64).saturating_sub(24)) as u8;
    let mut link =
        Link { delay, loss: share(), twice: share() / 2, held: share(), mark: share(), ..Link::default() };
    link.damage = share() / 8;
    if one_in(2, input) {
        link.jitter = Duration::from_micros(magnitude(15, input).into());
    }
    if one_in(6, input) {
        link.narrows = Some((now + ms(magnitude(10, input)), least + input.below(600) as u16));
    }
    if one_in(4, input) {
        let from = now + ms(magnitude(10, input));
        link.outage = Some((from, from + ms(4 * magnitude(16, input))));
    }
    link
}

/// How it begins; sets both ends up for it.
pub(super) fn opening(input: &mut Input<'_>, ends: &mut [End; 2]) -> Opening {
    let choice = input.u8();
    ends[1].listens = true;
    match choice % 16 {
        0 => {
            ends[1].listens = false;
            Opening::Cross
        }
        1 | 2 => {
            ends[1].jar = Some(CookieJar::new(SipKey::new(input.u32().into(), 1)));
            // The end that says nothing after a lost ACK leaves the other end without a connection.
            ends[0].app.total = ends[0].app.total.max(1);
            Opening::Cookie
        }
        3..=6 => fast(input, ends),
        _ => Opening::Plain,
    }
}

fn fast(input: &mut Input<'_>, ends: &mut [End; 2]) -> Opening {
    let keys = FastOpenKeys::new(&KEYS);
    let kind = input.u8();
    ends[0].config.fastopen = 1;
    // Some listeners know nothing of it, some take data without a cookie.
    (ends[1].keys, ends[1].config.fastopen) = match kind & 3 {
        0 => (None, 1),
        1 => (keys, 2 | 0x200 | 0x400),
        _ => (keys, 2 | 0x400),
    };
    let experimental = kind & 4 != 0;
    let cookie = keys.and_then(|keys| keys.cookie(&ends[1].key, experimental));
    let option = match kind >> 3 & 3 {
        0 => Some(FastOpen::request(experimental)),
        1 => FastOpen::cookie(&[kind; 8], experimental),
        2 => None,
        _ => cookie,
    };
    Opening::Fast(Some(FastOpenOffer { option, mss: [0, 536, 1400][input.below(3) as usize] }))
}

/// When it begins: clocks of 32 bits wrap, microseconds after 71 minutes, milliseconds after 49 days.
pub(super) fn start(input: &mut Input<'_>) -> Instant {
    let wraps = [10_000_000, u64::from(u32::MAX), 1_000 * u64::from(u32::MAX)];
    let near = u64::from(input.u16()) * 64;
    Instant::from_micros(wraps[input.below(3) as usize] - near)
}
