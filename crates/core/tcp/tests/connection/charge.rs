//! Goal: a send buffer that is charged by the piece (`Quirks::charge_pieces`) takes what Linux's takes, and stays
//! bounded.

use tcp::{Config, Quirks, SocketOptions, WriteError};
use wire::tcp::Options;

use crate::rig::{OURS, Setup};

fn charged(sndbuf: u32, window: u16, notsent_lowat: u32) -> Setup {
    Setup {
        config: Config {
            tail_loss_probe: false,
            quirks: Quirks { charge_pieces: true, push_bursts: true, ..Quirks::default() },
            notsent_lowat,
            ..Config::default()
        },
        options: SocketOptions { sndbuf, ..SocketOptions::default() },
        peer: Options { mss: Some(1000), ..Options::default() },
        window,
        ..Setup::default()
    }
}

#[test]
fn a_write_takes_what_leaves_and_whole_pieces() {
    const NONE: u32 = u32::MAX;
    for (sndbuf, window, lowat, taken) in [
        // 10 segments leave at twice 6280; pieces of 16 segments begin at 12560, 29840 and 47120, below 50000.
        (50_000, 32_792, NONE, 58_000),
        // Pieces of 25 segments begin at 12560 and 38840.
        (42_000, 50_000, NONE, 60_000),
        // Two segments leave at 2280 each; one more begins at 4560.
        (4_608, 2_000, NONE, 3_000),
        // The mark lets one piece begin; or two.
        (262_144, 32_792, 4_000, 26_000),
        (262_144, 32_792, 32_000, 42_000),
        // Not even what could leave is taken: bursts of 5 segments begin at 0 and at 6280.
        (8_000, 50_000, NONE, 10_000),
        (6_000, 50_000, NONE, 5_000),
    ] {
        let mut rig = charged(sndbuf, window, lowat).accepted();
        assert_eq!(rig.write(&[1; 100_000]), Ok(taken), "{sndbuf} {window} {lowat}");
        assert_eq!(rig.host.conn().options().notsent_lowat, 0, "the stack's mark is not the socket's");
        assert_eq!(rig.host.conn().writable(), 0);
    }
}

#[test]
fn small_writes_fill_no_more_than_large_ones() {
    let mut rig = charged(50_000, 32_792, u32::MAX).accepted();
    let mut total = 0;
    loop {
        match rig.write(&[1; 700]) {
            Ok(taken) => total += taken,
            Err(why) => break assert_eq!(why, WriteError::Full),
        }
    }
    assert!((48_000..=66_000).contains(&total), "{total}");
}

#[test]
fn an_acknowledgment_makes_room_when_a_third_is_free() {
    let mut rig = charged(50_000, 32_792, u32::MAX).accepted();
    rig.write(&[1; 100_000]).unwrap();
    let mut acked = 0;
    while rig.host.conn().writable() == 0 {
        acked += 1_000;
        assert!(acked <= 58_000, "room at the latest when all is acknowledged");
        rig.ack(OURS + 1 + acked, &[]);
        rig.sent();
    }
    assert!((20_000..=32_000).contains(&acked), "{acked}");
}
