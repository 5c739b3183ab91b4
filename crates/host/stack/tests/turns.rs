//! Goal: a turn receives no more than its batches, says that more waits, and goes on there in the next.

mod common;

use common::World;
use pio::{BATCH_MAX, PacketIo, PairConfig, TxBatch, TxMeta, TxPacket};

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
