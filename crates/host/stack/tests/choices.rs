//! Goal: what settings choose at the edges of a stack: whom a full accept queue resets, and which way the segments of a
//! flow take through routers that look at its label; and that each packet dropped below TCP is counted by its cause.

mod common;

use base::{Duration, Endpoint, Instant, Seq};
use common::*;
use pio::{PacketIo, PairConfig, RxBatch, TxBatch, TxMeta, TxPacket};
use stack::Core;
use tcp::{Events, State};
use wire::packet::{Below, Checksum, Link};
use wire::tcp::{Flags, Header, Options};
use wire::{ethernet, protocol};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);

/// Two clients are half-open when the backlog shrinks so that one may wait: what becomes of the second.
fn overflow(abort: bool) -> (World, [stack::ConnId; 2], stack::ListenerId) {
    let mut world = World::with(&PairConfig::default(), |_, server| server.tcp.abort_on_overflow = abort);
    let listener = world.listen(HTTP, 8);
    let clients = [world.connect(HTTP, 1), world.connect(HTTP, 2)];
    // Until both are half-open; the first turns ask for link-layer addresses.
    while stat(&world.server, "connections") < 2 {
        world.client.turn(world.now).unwrap();
        world.server.turn(world.now).unwrap();
    }
    world.server.set_backlog(listener, 0);
    world.settle();
    (world, clients, listener)
}

#[test]
fn a_full_accept_queue_ignores_or_resets() {
    for abort in [false, true] {
        let (mut world, [first, second], listener) = overflow(abort);
        assert_eq!(stat(&world.server, "accept_queue_full"), 1);
        assert_eq!(world.client.connection(first).state(), State::Established);
        let errors = told(&world.client_notices, 2).any(Events::ERROR);
        assert_eq!(errors, abort, "the second is reset at once, or never hears of it");
        assert!(world.server.accept(listener, 1).is_some());
        if !abort {
            // Its data says again what was ignored, and now there is room.
            world.client.write(world.now, second, b"hello").unwrap();
            world.settle();
            assert!(world.server.accept(listener, 2).is_some());
        }
    }
}

/// A frame from the other end of the wire, for the server.
fn inject(port: &mut impl PacketIo, bytes: &[u8]) {
    let mut frame = port.take().expect("frames come back");
    frame.set_range(0, bytes.len());
    frame.data_mut().copy_from_slice(bytes);
    let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
    port.tx(&mut batch).unwrap();
    batch.into_iter().for_each(|packet| port.retire(packet.frame));
}

/// A SYN over IPv6, in a frame.
fn syn(core: &mut Core, wire: &mut impl PacketIo) -> Vec<u8> {
    let link = Some(Link { dst: core.io().caps().mac, src: wire.caps().mac });
    let below = Below { link, src: CLIENT_V6, dst: SERVER_V6, tos: 0, ttl: 64, label: 0 };
    let header = Header {
        src_port: 5_000,
        dst_port: PORT,
        seq: Seq::new(7),
        ack: Seq::new(0),
        flags: Flags::SYN,
        window: 1_000,
        options: Options { mss: Some(1_440), ..Options::default() },
    };
    let mut frame = vec![0; below.len() + header.len()];
    below.emit_tcp(&header, 0, Checksum::Full, &mut frame);
    frame
}

/// Flow labels of the TCP packets that have left.
fn labels(port: &mut impl PacketIo) -> Vec<u32> {
    let (mut batch, mut labels) = (RxBatch::new(), Vec::new());
    while port.rx(&mut batch).unwrap() > 0 {
        for packet in batch.drain(..) {
            let ip = &packet.frame.data()[ethernet::HEADER_LEN..];
            if ip[0] >> 4 == 6 && ip[6] == protocol::TCP {
                labels.push(u32::from_be_bytes([0, ip[1] & 15, ip[2], ip[3]]));
            }
            port.retire(packet.frame);
        }
    }
    labels
}

/// RFC 6438, 3-1.
#[test]
fn a_timeout_changes_the_flow_label() {
    for rehash in [false, true] {
        let (mut core, mut wire) = World::alone(&PairConfig::default(), |c| c.tcp.rehash = rehash);
        let mut now = Instant::from_secs(1);
        core.listen(now, &listen(Endpoint::new(SERVER_V6, PORT), 8)).unwrap();
        let first = syn(&mut core, &mut wire);
        let mut seen = Vec::new();
        for _ in 0..40 {
            if seen.len() < 2 {
                // The peer says it again before any timeout: that alone changes nothing.
                inject(&mut wire, &first);
            }
            core.turn(now).unwrap();
            seen.extend(labels(&mut wire));
            now += Duration::from_millis(200);
        }
        assert!(seen.len() >= 4 && seen[0] == seen[1], "{seen:?}");
        let changes = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, if rehash { seen.len() - 2 } else { 0 }, "{seen:?}");
        assert_eq!(changes > 1, rehash);
    }
}

/// Extension headers: a chain that may be skipped is, one that may not is counted.
#[test]
fn extension_headers_are_skipped_or_counted() {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const OPTIONS: u8 = 60;
    let chains: [(&[u8], [u64; 3]); 8] = [
        (&[HOP_BY_HOP, OPTIONS, ROUTING, OPTIONS], [1, 0, 0]),
        (&[OPTIONS; 8], [1, 0, 0]),
        (&[OPTIONS; 9], [0, 1, 0]),
        (&[OPTIONS, HOP_BY_HOP], [0, 1, 0]),
        (&[FRAGMENT], [0, 0, 1]),
        (&[OPTIONS, FRAGMENT], [0, 0, 1]),
        (&[ROUTING], [1, 0, 0]),
        (&[], [1, 0, 0]),
    ];
    for (chain, [opened, extension, fragment]) in chains {
        let (mut core, mut wire) = World::alone(&PairConfig::default(), |_| {});
        let now = Instant::from_secs(1);
        core.listen(now, &listen(Endpoint::new(SERVER_V6, PORT), 8)).unwrap();
        let mut frame = syn(&mut core, &mut wire);
        let (ip, upper) = (ethernet::HEADER_LEN, ethernet::HEADER_LEN + 40);
        let mut kinds = chain.to_vec();
        kinds.push(protocol::TCP);
        frame[ip + 6] = kinds[0];
        let len = frame.len() - upper + 8 * chain.len();
        frame[ip + 4..ip + 6].copy_from_slice(&(len as u16).to_be_bytes());
        // Each of eight bytes, with padding for options; no segments left in a routing header.
        let headers: Vec<u8> = kinds[1..].iter().flat_map(|&next| [next, 0, 0, 0, 0, 0, 0, 0]).collect();
        frame.splice(upper..upper, headers);
        inject(&mut wire, &frame);
        core.turn(now).unwrap();
        let counts = ["connections", "drop_extension", "drop_fragment"].map(|name| stat(&core, name));
        assert_eq!(counts, [opened, extension, fragment], "{chain:?}");
    }
}
