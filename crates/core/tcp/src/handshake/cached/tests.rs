//! Goal: a connection made from the handshake cache is in every variable the one that would have been made without it,
//! its SYN or SYN-ACK too; and what is cached depends on nothing that a connection lived through.
use super::*;
use crate::tests::ends::{End, MTU, Pair, cx, open, policy};
use crate::{Config, Opening, Quirks, TxLimits};
use alloc::format;
use alloc::string::String;
use base::{Duration, Rng};

fn config(rng: &mut Rng) -> Config {
    Config {
        timestamps: rng.chance(0.8),
        sack: rng.chance(0.8),
        window_scaling: rng.chance(0.8),
        quick_acks: rng.below(20) as u8,
        rcvbuf: (2_048 << rng.below(8), 1 << 20),
        notsent_lowat: if rng.chance(0.2) { 40_000 } else { u32::MAX },
        quirks: Quirks {
            push_bursts: rng.chance(0.3),
            round_rcvbuf: rng.chance(0.3),
            charge_pieces: rng.chance(0.3),
            bsd_syn: rng.chance(0.3),
            window_ramp: rng.chance(0.3),
            ack_second_segment: rng.chance(0.3),
            ..Quirks::default()
        },
        ..Config::default()
    }
}

fn options(rng: &mut Rng) -> SocketOptions {
    let mut maybe = |value: u32| if rng.chance(0.3) { value } else { 0 };
    SocketOptions {
        nodelay: maybe(1) > 0,
        dated: maybe(1) > 0,
        keepalive: maybe(1) > 0,
        max_seg: maybe(700) as u16,
        rcvbuf: maybe(70_000),
        sndbuf: maybe(50_000),
        window_clamp: maybe(30_000),
        rcv_lowat: 1 + maybe(200_000),
        notsent_lowat: maybe(10_000),
        user_timeout: Duration::from_millis(maybe(1_234).into()),
        tos: maybe(0x28) as u8,
        ttl: Some(maybe(9) as u8).filter(|ttl| *ttl > 0),
        ..SocketOptions::default()
    }
}

/// Returns random options of a peer's SYN.
fn offer(rng: &mut Rng) -> Options {
    Options {
        mss: rng.chance(0.8).then_some(rng.below(3_000) as u16),
        window_scale: rng.chance(0.8).then_some(rng.below(15) as u8),
        sack_permitted: rng.chance(0.8),
        timestamps: rng.chance(0.8).then_some(Timestamps { val: 0, ecr: 0 }),
        ..Options::NONE
    }
}

/// A SYN that says this.
fn syn(rng: &mut Rng, mut options: Options) -> Segment<'static> {
    options.timestamps = options.timestamps.map(|_| Timestamps { val: rng.next_u32(), ecr: 0 });
    let (seq, window) = (Seq::new(rng.next_u32()), rng.next_u32() as u16);
    let (flags, payload, ecn) = (Flags::SYN, &[][..], Ecn::NotCapable);
    Segment { seq, ack: Seq::new(0), flags, window, urgent: 0, options, merged: 1, ecn, payload, rest: None }
}

fn fresh(rng: &mut Rng, open: &Open) -> Open {
    let hint = HostHint { rto_us: [0, 300_000][rng.below(2) as usize], ssthresh: 0 };
    Open { isn: Seq::new(rng.next_u32()), ts_offset: rng.next_u32(), hint, ..*open }
}

fn whole(conn: &Connection) -> String {
    format!("{conn:?}")
}

/// The opening of the one is the first segment of the other, and afterwards both are alike.
fn same_opening(again: &mut End, anew: &mut End, cached: &CachedState, now: Instant) {
    assert_eq!(whole(&again.conn), whole(&anew.conn));
    let opening = again.conn.poll_opening(cx!(again, now), cached).expect("nothing is special");
    let limits = TxLimits { max_payload: 1_448 };
    let tx = anew.conn.poll_transmit(cx!(anew, now), &limits).expect("a SYN");
    let Options { timestamps, .. } = tx.header.options;
    let Opening { seq, ack, window, stamps } = opening;
    let (h, shown) = (tx.header, (seq, ack, window, stamps));
    assert_eq!((h.seq, h.ack, h.window, timestamps), shown);
    assert_eq!(whole(&again.conn), whole(&anew.conn));
    assert_eq!(again.counters, anew.counters);
}

#[test]
fn made_again_as_made_anew() {
    let mut fitting = [0; 2];
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let (config, options) = (config(&mut rng), options(&mut rng));
        let now = Instant::from_secs(100 + seed);
        // Who connects.
        let first = End::connect(config.clone(), options, now);
        let mut lent = End::connect(config.clone(), options, now);
        let (cached, shown) = first.conn.cached_state(cx!(lent, now), &options, MTU).expect("plain");
        assert!(cached.is_for(&options, MTU) && !cached.is_for(&options, MTU - 1));
        let next = fresh(&mut rng, &open(true, options));
        let begin = |place: &mut Option<Connection>, cx: &mut Cx<'_>| {
            Connection::connect_again(place, cx, &next.fresh(), policy(), &cached);
        };
        let mut again = End::new(config.clone(), begin, now);
        let begin = |place: &mut Option<Connection>, cx: &mut Cx<'_>| {
            Connection::connect(place, cx, &next, policy());
        };
        let mut anew = End::new(config.clone(), begin, now);
        same_opening(&mut again, &mut anew, &cached, now);
        assert_eq!(shown.header.flags, Flags::SYN);
        // Who accepts.
        let (said, plain) = (offer(&mut rng), open(false, options));
        let one = syn(&mut rng, said);
        let begin = |place: &mut Option<Connection>, cx: &mut Cx<'_>| {
            Connection::accept(place, cx, &plain, policy(), &one);
        };
        let first = End::new(config.clone(), begin, now);
        let (cached, shown) = first.conn.cached_state(cx!(lent, now), &options, MTU).expect("plain");
        assert_eq!(shown.header.flags, Flags::SYN | Flags::ACK);
        let told = if rng.chance(0.5) { said } else { offer(&mut rng) };
        let (two, next) = (syn(&mut rng, told), fresh(&mut rng, &plain));
        let fits = cached.fits(&next.key, &two);
        assert!(fits || told != said, "the same SYN fits");
        fitting[usize::from(fits)] += 1;
        if !fits {
            continue;
        }
        let begin = |place: &mut Option<Connection>, cx: &mut Cx<'_>| {
            Connection::accept_again(place, cx, &next.fresh(), policy(), &cached, &two);
        };
        let mut again = End::new(config.clone(), begin, now);
        let begin = |place: &mut Option<Connection>, cx: &mut Cx<'_>| {
            Connection::accept(place, cx, &next, policy(), &two);
        };
        let mut anew = End::new(config, begin, now);
        same_opening(&mut again, &mut anew, &cached, now);
    }
    assert!(fitting.iter().all(|&count| count > 500), "{fitting:?}");
}

/// Poison everywhere: what is cached at the end of a life is what would have been at its beginning.
#[test]
fn nothing_of_a_life() {
    let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
    let mut pair = Pair::with(Config::default(), options);
    let cached = |pair: &mut Pair| {
        let Pair { now, a, b } = pair;
        let (one, two) = (
            a.conn.cached_state(cx!(a, *now), &options, MTU),
            b.conn.cached_state(cx!(b, *now), &options, MTU),
        );
        format!("{one:?}\n{two:?}")
    };
    let young = cached(&mut pair);
    for round in 0..40 {
        pair.a.write(pair.now, &[0xa5; 5_000]);
        pair.b.write(pair.now, &[0x5a; 3_000]);
        pair.pass(Duration::from_millis(30 + round));
        if round % 5 == 0 {
            // Lost.
            drop(pair.a.drain(pair.now));
            pair.fire();
        }
        pair.settle();
        pair.b.read(pair.now);
    }
    let other = SocketOptions { keepalive: true, tos: 0x20, ..options };
    pair.a.conn.set_options(cx!(pair.a, pair.now), other);
    let old = cached(&mut pair);
    assert!(pair.a.counters.retransmits > 0 && pair.a.conn.rcv.bytes() > 0);
    assert_eq!(old, young);
}

#[test]
fn what_is_special_is_not_cached() {
    let now = Instant::from_secs(1);
    let paced =
        SocketOptions { max_pacing: Some(base::Rate::from_bytes_per_sec(1_000)), ..Default::default() };
    let asks = Config { ecn: crate::EcnPolicy::On, ..Config::default() };
    let micros = Config { usec_timestamps: true, ..Config::default() };
    let plain = SocketOptions::default();
    for (config, options) in [(Config::default(), paced), (asks, plain), (micros, plain)] {
        let mut end = End::connect(config, options, now);
        let Cx { config, pool, counters, .. } = cx!(end, now);
        let cx = &mut Cx { now, config, pool, counters, probe: None, frames: None };
        assert!(end.conn.cached_state(cx, &options, MTU).is_none());
    }
}
