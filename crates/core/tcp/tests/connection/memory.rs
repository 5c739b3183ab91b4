//! Goal: an exhausted pool slows connections down and breaks none; buffers exist only while they hold data.

use base::Duration;
use tcp::{Events, Pool, State, WriteError};

use crate::host::ms;
use crate::rig::{OURS, Setup};

#[test]
fn an_idle_connection_holds_no_chunk() {
    let mut rig = Setup::modern().accepted();
    assert_eq!(rig.host.pool.used(), 0);
    rig.send(&[1; 5000]);
    assert!(rig.host.pool.used() > 0);
    while rig.read(10_000).is_ok() {}
    assert_eq!(rig.host.pool.used(), 0);
    rig.write(&[1; 5000]).unwrap();
    let end = rig.sent().last().unwrap().end();
    rig.ack(end, &[]);
    assert_eq!(rig.host.pool.used(), 0);
}

#[test]
fn a_write_without_memory_continues_later() {
    // Where there is some left, a connection that holds its share finds its buffer full.
    for (chunks, error) in [(1, WriteError::NoMemory), (4, WriteError::Full)] {
        let mut rig = Setup::default().connected();
        rig.host.pool = Pool::new(chunks);
        let took = rig.write(&[1; 100_000]).unwrap();
        assert!(took <= chunks as usize * 2048, "{took}");
        assert_eq!(rig.write(&[1; 100]), Err(error));
        rig.events();
        let end = rig.sent().last().unwrap().end();
        rig.ack(end, &[]);
        rig.pass(ms(500));
        let end = rig.sent().last().map_or(end, |s| s.end());
        rig.ack(end, &[]);
        assert!(rig.events().any(Events::WRITABLE), "WRITABLE follows a write that found no memory");
        assert!(rig.write(&[1; 100]).is_ok());
    }
}

#[test]
fn memory_that_others_free_is_noticed() {
    let mut rig = Setup::default().connected();
    rig.host.pool = Pool::new(0);
    assert_eq!(rig.write(&[1; 100]), Err(WriteError::NoMemory));
    rig.events();
    rig.host.pool = Pool::new(100);
    rig.pass(Duration::from_secs(5));
    assert!(rig.events().any(Events::WRITABLE), "nothing of ours is in flight: only time can tell");
}

#[test]
fn data_without_memory_is_not_acknowledged() {
    let mut rig = Setup::sack().accepted();
    rig.host.pool = Pool::new(1);
    rig.send(&[1; 2048]);
    rig.pass(ms(500));
    rig.sent();
    rig.inject(rig.segment(wire::tcp::Flags::ACK, &[2; 1000]));
    rig.send_at(10_000, &[3; 100]);
    rig.pass(ms(500));
    assert!(rig.sent().iter().all(|s| s.ack == rig.next && s.options.sack.is_empty()));
    rig.assert_state(State::Established);
    assert_eq!(rig.read(4000).unwrap(), [1; 2048]);
    rig.send(&[2; 1000]);
    assert_eq!(rig.read(4000).unwrap(), [2; 1000]);
}

#[test]
fn the_next_byte_has_right_of_way_over_later_ones() {
    let mut rig = Setup::sack().accepted();
    rig.host.pool = Pool::new(4);
    for i in 1..4 {
        rig.send_at(2048 * i, &[9; 1000]);
    }
    rig.sent();
    rig.send(&[1; 2048]);
    assert_eq!(rig.read(2048).unwrap(), [1; 2048], "out-of-order data may not lock the connection");
    assert_eq!(rig.host.conn().info(rig.now).snd_una, OURS + 1);
}

#[test]
fn tiny_segments_are_bounded() {
    let mut rig = Setup::sack().accepted();
    for i in 0..20_000 {
        rig.send_at(1 + 2 * i, b"x");
        assert!(!rig.sent().is_empty(), "segment {i} gets an acknowledgment, kept or not");
    }
    let reassembly = rig.host.conn().info(rig.now).reassembly;
    // As many as the bound says are held, and the others were refused: the bound was met.
    assert_eq!(reassembly.runs, reassembly.limit, "{reassembly:?}");
    assert_eq!(u32::from(reassembly.runs) + reassembly.refused, 20_000, "{reassembly:?}");
    assert!(reassembly.memory < 64 << 10, "{reassembly:?}");
    rig.host.finish();
}

#[test]
fn everything_goes_back_whenever_the_connection_ends() {
    for cut in 0..3 {
        let mut rig = Setup::sack().accepted();
        rig.send(&[1; 3000]);
        rig.send_at(5000, &[1; 3000]);
        rig.write(&[1; 50_000]).unwrap();
        match cut {
            0 => rig.close(),
            1 => {
                rig.inject(rig.segment(wire::tcp::Flags::RST, &[]));
            }
            _ => {}
        }
        rig.host.finish();
    }
}
