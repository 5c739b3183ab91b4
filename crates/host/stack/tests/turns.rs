//! Goal: a turn receives no more than its batches, says that more waits, and goes on there in the next; it measures no
//! round trip shorter than it was.

mod common;

use base::{Duration, Endpoint};
use common::{PORT, SERVER, World};
use pio::{BATCH_MAX, PacketIo, PairConfig, TxBatch, TxMeta, TxPacket};
use std::cell::{Cell, RefCell};

/// Returns the packets that each turn receives of `count` waiting ones, until none is left.
fn turns(batches: u8, count: usize) -> Vec<(u32, bool)> {
    let link = PairConfig { frames: 2_048, depth: 1_024, ..PairConfig::default() };
    let (mut core, mut far) = World::alone(&link, |config| config.batches = batches);
    let mut waiting = TxBatch::new();
    for _ in 0..count {
        let mut frame = far.take().expect("a frame");
        // Of a protocol that is unknown.
        frame.set_range(0, 60);
        frame.data_mut().fill(0xee);
        waiting.push_back(TxPacket { frame, meta: TxMeta::default() });
    }
    assert_eq!(far.tx(&mut waiting).expect("room"), count);
    let mut seen = Vec::new();
    loop {
        let turn = core.turn(base::Instant::from_secs(1)).expect("a turn");
        if turn.received == 0 {
            return seen;
        }
        seen.push((turn.received, turn.more));
    }
}

#[test]
fn a_turn_is_bounded() {
    let full = |batches: u8| (u32::from(batches) * BATCH_MAX as u32, true);
    assert_eq!(turns(2, 300), [full(2), full(2), (44, false)]);
    assert_eq!(turns(4, 300), [full(4), (44, false)]);
    assert_eq!(turns(1, 130), [full(1), full(1), (2, false)]);
    // A turn that is just full cannot know that nothing more waits.
    assert_eq!(turns(4, 256), [full(4)]);
    assert_eq!(turns(4, 255), [(255, false)]);
    // Outside the bounds the nearest is meant.
    assert_eq!((turns(0, 70), turns(99, 300)), (turns(1, 70), turns(4, 300)));
}

#[test]
fn two_batches_unless_said_otherwise() {
    assert_eq!(stack::CoreConfig::default().batches, 2);
}

/// The far end answers while the call that sends still runs, as on veth: the answer is received in the same turn. Time
/// passes with each look at the clock.
#[test]
fn an_answer_in_the_same_turn_took_its_time() {
    const TRIP: Duration = Duration::from_micros(40);
    let mut world = World::new(&PairConfig::default());
    world.listen(Endpoint::new(SERVER, PORT), 4);
    let id = world.connect(Endpoint::new(SERVER, PORT), 7);
    let World { client: mut core, server, now, .. } = world;
    let (server, now) = (RefCell::new(server), Cell::new(now));
    let clock = || {
        server.borrow_mut().turn(now.get()).expect("a turn");
        now.replace(now.get() + TRIP) + TRIP
    };
    let mut answered = 0;
    for _ in 0..20 {
        let turn = core.turn_by(&clock).expect("a turn");
        assert_eq!(core.now(), now.get(), "what was read last");
        answered += u32::from(turn.sent > 0 && turn.received > 0);
        core.write(core.now(), id, &[7; 3_000]).unwrap_or_default();
    }
    let info = core.connection(id).info(core.now());
    assert!(answered > 10 && info.bytes_acked > 3_000, "{answered} {info:?}");
    assert_eq!(info.min_rtt, TRIP);
}
