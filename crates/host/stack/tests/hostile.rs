//! Goal: floods, full tables and broken packets cost packets, never a panic, a leak or a healthy client's
//! service.

mod common;

use base::{Addr, Duration, Endpoint, Rng};
use common::*;
use pio::{PacketIo, PairConfig, RxBatch, TxBatch, TxMeta, TxPacket};
use stack::{Connect, OpError};
use tcp::Events;
use wire::packet::{Below, Checksum, Link};
use wire::tcp::{Flags, Header, Options};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);

/// Sends `fill`ed frames into a core from the other end of its wire, and takes away what comes back.
fn inject(port: &mut impl PacketIo, len: usize, fill: impl FnOnce(&mut [u8])) {
    let mut frame = port.take().expect("frames come back");
    frame.set_range(0, len);
    fill(frame.data_mut());
    let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
    port.tx(&mut batch).unwrap();
    batch.into_iter().for_each(|packet| port.retire(packet.frame));
}

fn drain(port: &mut impl PacketIo) -> u32 {
    let (mut batch, mut count) = (RxBatch::new(), 0);
    while port.rx(&mut batch).unwrap() > 0 {
        count += batch.len() as u32;
        batch.drain(..).for_each(|packet| port.retire(packet.frame));
    }
    count
}

fn spoofed_syn(rng: &mut Rng, port: &mut impl PacketIo, mac: [u8; 6]) {
    let src = Addr::v4([10, 0, 0, 3 + rng.below(200) as u8]);
    let link = Some(Link { dst: mac, src: port.caps().mac });
    let below = Below { link, src, dst: SERVER, tos: 0, ttl: 64, label: 0 };
    let header = Header {
        src_port: rng.next_u32() as u16,
        dst_port: PORT,
        seq: base::Seq::new(rng.next_u32()),
        ack: base::Seq::new(0),
        flags: Flags::SYN,
        window: 1000,
        options: Options { mss: Some(1460), ..Options::default() },
    };
    inject(port, below.len() + header.len(), |data| {
        below.emit_tcp(&header, 0, Checksum::Full, data);
    });
}

#[test]
fn a_flood_of_spoofed_syns_is_answered_by_cookies() {
    let (mut core, mut wire) = World::alone(&PairConfig::default(), |c| c.max_connections = 100);
    let mac = core.io().caps().mac;
    let mut now = base::Instant::from_secs(1);
    core.listen(now, &listen(HTTP, 32)).unwrap();
    let mut rng = Rng::new(1);
    for _ in 0..3000 {
        (0..16).for_each(|_| spoofed_syn(&mut rng, &mut wire, mac));
        core.turn(now).unwrap();
        drain(&mut wire);
        now += Duration::from_micros(100);
    }
    assert!(stat(&core, "connections") <= 32);
    assert!(stat(&core, "cookies_sent") > 40_000);
    for _ in 0..2000 {
        now = core.next_timeout().map_or(now, |at| at.max(now)) + Duration::from_millis(1);
        core.turn(now).unwrap();
        drain(&mut wire);
    }
    assert_eq!((stat(&core, "connections"), stat(&core, "flows"), stat(&core, "chunks_used")), (0, 0, 0));
}

/// Clients that speak first (what SYN cookies need: their data repeats the acknowledgment that was ignored
/// while the queue was full) all come through, however small the backlog.
fn all_get_through(backlog: u32, count: u32) -> u64 {
    let mut world = World::new(&PairConfig::default());
    let listener = world.listen(HTTP, backlog);
    let clients: Vec<_> = (0..count).map(|owner| world.connect(HTTP, owner)).collect();
    let (mut accepted, mut greeted) = (Vec::new(), vec![false; clients.len()]);
    for _ in 0..300 {
        world.settle();
        assert!(world.server.acceptable(listener) <= backlog + 1);
        accepted.extend(world.server.accept(listener, 100));
        for (id, greeted) in clients.iter().zip(&mut greeted) {
            let open = world.client.connection(*id).state() == tcp::State::Established;
            *greeted |= open && !*greeted && world.client.write(world.now, *id, b"hello").is_ok();
        }
        world.pass(Duration::from_millis(200));
    }
    assert_eq!(accepted.len(), clients.len());
    for id in accepted {
        let mut got = Vec::new();
        read_all(&mut world.server, world.now, id, &mut got);
        assert_eq!(got, b"hello");
    }
    stat(&world.server, "cookies_good")
}

#[test]
fn a_full_accept_queue_holds_and_recovers() {
    assert!(all_get_through(0, 2) + all_get_through(4, 12) > 0, "some came by cookie");
}

#[test]
fn noise_of_every_kind_is_dropped_by_name() {
    let (mut core, mut wire) = World::alone(&PairConfig::default(), |_| {});
    let mac = core.io().caps().mac;
    let mut now = base::Instant::from_secs(1);
    core.listen(now, &listen(HTTP, 32)).unwrap();
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let len = rng.below(200) as usize + 1;
        inject(&mut wire, len, |data| {
            rng.fill(data);
            if rng.chance(0.9) && len > 14 {
                data[..6].copy_from_slice(&mac);
                let kind: u16 = [0x0800, 0x86dd, 0x0806][rng.below(3) as usize];
                data[12..14].copy_from_slice(&kind.to_be_bytes());
                data[14..15].copy_from_slice(&[if kind == 0x0800 { 0x45 } else { 0x60 }]);
            }
        });
        if seed % 16 == 15 {
            core.turn(now).unwrap();
            drain(&mut wire);
            now += Duration::from_micros(10);
        }
    }
    let dropped: u64 = core.stats().iter().filter(|row| row.0.starts_with("drop_")).map(|row| row.1).sum();
    assert_eq!((stat(&core, "packets_in"), dropped), (20_000, 20_000), "each is counted once, by its reason");
    for reason in ["drop_parse", "drop_not_for_us"] {
        assert!(stat(&core, reason) > 0, "the noise has {reason}");
    }
    assert_eq!(stat(&core, "connections"), 0);
}

#[test]
fn no_chunks_no_data_but_no_panic() {
    let mut world = World::with(&PairConfig::default(), |client, server| {
        client.max_chunks = 4;
        server.max_chunks = 4;
    });
    let listener = world.listen(HTTP, 64);
    let pairs: Vec<_> = (0..8).map(|owner| world.establish(listener, HTTP, owner)).collect();
    let mut got = vec![Vec::new(); pairs.len()];
    for round in 0..400 {
        // A thread that writes first gets the chunks: each is first in turn.
        for i in (0..pairs.len()).map(|i| (i + round) % pairs.len()) {
            let (client, accepted) = pairs[i];
            let _ = world.client.write(world.now, client, &[round as u8; 1000]);
            read_all(&mut world.server, world.now, accepted, &mut got[i]);
        }
        world.pass(Duration::from_millis(20));
    }
    assert!(got.iter().all(|bytes| bytes.len() > 1000), "{:?}", got.iter().map(Vec::len).collect::<Vec<_>>());
    for (client, accepted) in pairs {
        world.client.abort(world.now, client);
        world.server.abort(world.now, accepted);
    }
    world.settle();
    assert_eq!((stat(&world.client, "chunks_used"), stat(&world.server, "chunks_used")), (0, 0));
}

#[test]
fn ports_are_reserved_given_back_and_run_out_cleanly() {
    let mut world = World::with(&PairConfig::default(), |client, _| client.ephemeral = (40_000, 40_003));
    world.listen(HTTP, 64);
    let core = &mut world.client;
    let here = Endpoint::new(CLIENT, 5000);
    assert_eq!(core.bind(here, false, false, false), Ok(here));
    assert_eq!(core.bind(here, false, false, false), Err(OpError::AddrInUse));
    let any = Endpoint::new(Addr::UNSPECIFIED_V6, 5000);
    assert_eq!(core.bind(any, false, false, false), Err(OpError::AddrInUse));
    assert_eq!(core.bind(any, false, false, true), Ok(any), "v6 only leaves v4 alone");
    core.unbind(any);
    core.unbind(here);
    assert_eq!(core.bind(here, false, true, false), Ok(here));
    assert_eq!(core.bind(here, false, true, false), Ok(here));
    core.unbind(here);
    core.unbind(here);
    let request = Connect { local: here, ..connect(HTTP, 1) };
    let one = core.connect(world.now, &request).unwrap();
    assert_eq!(core.connect(world.now, &request).err(), Some(OpError::AddrNotAvailable));
    let four: Vec<_> = (0..4).map(|i| core.connect(world.now, &connect(HTTP, i)).unwrap()).collect();
    assert_eq!(core.connect(world.now, &connect(HTTP, 9)).err(), Some(OpError::AddrNotAvailable));
    world.settle();
    let all: Vec<_> = four.into_iter().chain([one]).collect();
    assert!(told(&world.client_notices, 1).any(Events::CONNECTED));
    all.into_iter().for_each(|id| world.client.abort(world.now, id));
    world.settle();
    let core = &mut world.client;
    assert!(core.connect(world.now, &request).is_ok() && core.connect(world.now, &connect(HTTP, 9)).is_ok());
}
