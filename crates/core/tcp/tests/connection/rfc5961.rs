//! Goal: blind attackers cannot reset, inject or stall: RFC 5961, and RFC 9293's acceptability table.

use base::Duration;
use tcp::{Disposition, DropReason, Error, ReadError, State};
use wire::tcp::{Flags, Options, Segment};

use crate::host::ms;
use crate::rig::{OURS, PEER, Rig, Setup};

fn challenged(rig: &mut Rig) {
    let ack = rig.one();
    assert!(ack.is_pure_ack());
    assert_eq!((ack.seq, ack.ack), (rig.ack, rig.next));
    rig.assert_state(State::Established);
}

/// RFC 9293, MUST-12; RFC 5961, 3.2-1, 3.2-2, 3.2-3 and 3.2-4.
#[test]
fn only_the_exact_reset_counts() {
    for setup in [Setup::default(), Setup::modern()] {
        let mut rig = setup.connected();
        for offset in [1, 1000, 60_000] {
            let seq = rig.next + offset;
            let disposition = rig.inject(Segment { seq, ..rig.segment(Flags::RST, &[]) });
            assert_eq!(disposition, Some(Disposition::Dropped(DropReason::BadReset)), "{offset}");
            challenged(&mut rig);
            rig.pass(Duration::from_secs(2));
        }
        for seq in [rig.next - 1, rig.next - 70_000, rig.next + 20_000_000] {
            rig.inject(Segment { seq, ..rig.segment(Flags::RST, &[]) });
            rig.none();
            rig.assert_state(State::Established);
        }
        let disposition = rig.inject(rig.segment(Flags::RST, &[]));
        assert_eq!(disposition, Some(Disposition::Closed));
        rig.none();
        assert_eq!(rig.read(1), Err(ReadError::Failed(Error::Reset)));
        // The RST is looked at before the SYN.
        let mut rig = setup.connected();
        assert_eq!(rig.inject(rig.segment(Flags::RST | Flags::SYN, &[])), Some(Disposition::Closed));
        rig.none();
    }
}

/// RFC 7323, 5.3-4.
#[test]
fn a_reset_is_taken_at_a_zero_window_and_without_timestamp() {
    let mut rig = Setup::modern().connected();
    let segment = Segment { options: Default::default(), ..rig.segment(Flags::RST, &[]) };
    assert_eq!(rig.inject(segment), Some(Disposition::Closed));
}

/// RFC 5961, 4.2-1 and 4.2-2.
#[test]
fn a_syn_is_only_challenged() {
    let mut rig = Setup::default().connected();
    for offset in [0, 5, 70_000, u32::MAX - 50] {
        rig.inject(Segment { seq: rig.next + offset, ..rig.segment(Flags::SYN, &[]) });
        challenged(&mut rig);
        rig.pass(Duration::from_secs(2));
    }
}

/// The host that sends it has restarted, or another one shares the peer's address: its answer to the challenge, a
/// reset, is what ends the old connection. RFC 5961, 4.2-1.
#[test]
fn a_syn_without_the_agreed_timestamp_is_challenged_in_every_state() {
    type Enter = fn(&mut Rig);
    let states: [(State, Enter); 6] = [
        (State::Established, |_| {}),
        (State::CloseWait, |rig| {
            rig.send_fin();
        }),
        (State::FinWait1, |rig| rig.shutdown()),
        (State::FinWait2, |rig| {
            rig.shutdown();
            rig.ack(OURS + 2, &[]);
        }),
        (State::Closing, |rig| {
            rig.shutdown();
            rig.send_fin();
        }),
        (State::LastAck, |rig| {
            rig.send_fin();
            rig.shutdown();
        }),
    ];
    for (tolerate_missing_timestamps, (state, enter)) in
        [true, false].into_iter().flat_map(|how| states.map(|state| (how, state)))
    {
        let mut setup = Setup::modern();
        setup.config.tolerate_missing_timestamps = tolerate_missing_timestamps;
        let mut rig = setup.accepted();
        enter(&mut rig);
        rig.assert_state(state);
        rig.pass(ms(100));
        rig.sent();
        for (seq, flags) in [(rig.next + 70_000, Flags::SYN), (rig.next, Flags::SYN | Flags::ACK)] {
            rig.inject(Segment { seq, options: Options::default(), ..rig.segment(flags, &[]) });
            let answer = rig.one();
            assert!(answer.is_pure_ack() && answer.ack == rig.next, "{state:?}: {answer:?}");
            rig.assert_state(state);
            rig.pass(ms(150));
            rig.sent();
        }
    }
}

/// RFC 5961, 4.2-1.
#[test]
fn a_syn_in_syn_received_is_answered_whatever_its_timestamp() {
    let setup = Setup::modern();
    let mut strict = Setup::modern();
    strict.config.tolerate_missing_timestamps = false;
    for setup in [setup, strict] {
        // The client gives its options up.
        let mut rig = setup.syn_received();
        rig.inject(Segment { seq: PEER, options: Options::default(), ..rig.segment(Flags::SYN, &[]) });
        let answer = rig.one();
        assert_eq!((answer.flags, answer.seq, answer.ack), (Flags::SYN | Flags::ACK, OURS, PEER + 1));
        // The client has restarted, and its clock with it.
        rig.clock = rig.clock.map(|clock| clock - 500);
        rig.inject(Segment { seq: PEER + 70_000, ..rig.segment(Flags::SYN, &[]) });
        let answer = rig.one();
        assert!(answer.is_pure_ack() && answer.ack == PEER + 1, "{answer:?}");
        rig.assert_state(State::SynReceived);
    }
}

/// The sequence check comes before that of the ACK bit (RFC 9293, section 3.10.7.4).
#[test]
fn an_old_segment_without_ack_is_answered_in_syn_received() {
    for (flags, text) in [(Flags::FIN, &b""[..]), (Flags::PSH, b"a"), (Flags::FIN, b"ab")] {
        let mut rig = Setup::default().syn_received();
        let seq = rig.next - text.len() as u32 - u32::from(flags.has(Flags::FIN));
        rig.inject(Segment { seq, ..rig.segment(flags, text) });
        let answer = rig.one();
        assert!(answer.is_pure_ack() && answer.ack == PEER + 1, "{answer:?}");
        rig.assert_state(State::SynReceived);
        // One in the window is dropped for want of an ACK, and not answered.
        rig.inject(rig.segment(flags, text));
        rig.none();
        rig.assert_state(State::SynReceived);
    }
}

/// RFC 5961, 7-1.
#[test]
fn challenges_are_rationed() {
    let mut rig = Setup::default().connected();
    let burst = |rig: &mut Rig| {
        for _ in 0..1000 {
            rig.inject(Segment { seq: rig.next + 5, ..rig.segment(Flags::RST, &[]) });
        }
        rig.sent().len()
    };
    let first = burst(&mut rig);
    assert!((1..=10).contains(&first), "{first} challenges");
    rig.pass(Duration::from_secs(1));
    let second = burst(&mut rig);
    assert!((1..=10).contains(&second), "{second} challenges");
}

/// RFC 9293, MAY-12; RFC 5961, 5.2-1 and 5.2-2.
#[test]
fn data_needs_a_plausible_acknowledgment() {
    let mut rig = Setup::default().connected();
    rig.write(&[1; 1000]).unwrap();
    rig.sent();
    rig.ack(OURS + 1001, &[]);
    for ack in [rig.ack + 1, rig.ack + 100_000, rig.ack - 70_000, rig.ack + (1 << 31) - 1] {
        let disposition = rig.inject(Segment { ack, ..rig.segment(Flags::ACK, b"evil") });
        assert_eq!(disposition, Some(Disposition::Dropped(DropReason::BadAck)), "{ack:?}");
        challenged(&mut rig);
        assert_eq!(rig.host.conn().readable(), 0);
        rig.pass(Duration::from_secs(2));
    }
    // An old one within the window is no attack.
    rig.inject(Segment { ack: rig.ack - 500, ..rig.segment(Flags::ACK, b"good") });
    assert_eq!(rig.read(10).unwrap(), b"good");
}

#[test]
fn segments_outside_the_window_are_acknowledged_and_dropped() {
    let mut rig = Setup::default().connected();
    rig.send(&[7; 500]);
    rig.sent();
    let far = 1 << 20;
    for (offset, len) in [(far, 10), (u32::MAX - 600, 100), (u32::MAX - 99, 100)] {
        rig.inject(Segment { seq: rig.next + offset, ..rig.segment(Flags::ACK, &[9; 100][..len]) });
        let answer = rig.one();
        assert_eq!((answer.flags, answer.ack), (Flags::ACK, rig.next));
        assert_eq!(rig.host.conn().readable(), 500);
    }
    // Also a bare ACK far away.
    rig.inject(Segment { seq: rig.next + far, ..rig.segment(Flags::ACK, &[]) });
    rig.one();
}

#[test]
fn without_ack_nothing_is_taken() {
    let mut rig = Setup::default().connected();
    let disposition = rig.inject(rig.segment(Flags::PSH, b"data"));
    assert_eq!(disposition, Some(Disposition::Dropped(DropReason::NoAck)));
    rig.none();
    assert_eq!(rig.host.conn().readable(), 0);
}

/// RFC 6093, 4-1.
#[test]
fn urgent_data_is_ordinary() {
    let mut rig = Setup::default().connected();
    rig.inject(Segment { urgent: 3, ..rig.segment(Flags::ACK | Flags::URG, b"urgent") });
    assert_eq!(rig.read(10).unwrap(), b"urgent", "RFC 6093: in line, the pointer ignored");
}

#[test]
fn a_guessed_timestamp_does_not_stop_the_peer() {
    let mut rig = Setup::modern().connected();
    let clock = rig.clock.unwrap();
    for seq in [rig.next - 1_000_000, rig.next - 1, rig.next, rig.next + 5, rig.next + 1_000_000] {
        rig.clock = Some(clock + (1 << 30));
        rig.inject(Segment { seq, ack: rig.ack + 12_345, ..rig.segment(Flags::ACK, b"evil") });
        rig.pass(Duration::from_secs(1));
    }
    rig.clock = Some(clock + 1);
    rig.send(b"good");
    assert_eq!(rig.read(10).unwrap(), b"good");
}

/// RFC 5961, 7-1.
#[test]
fn the_ration_of_challenges_survives_a_long_silence() {
    let mut rig = Setup::default().connected();
    for days in [0, 20, 30, 100] {
        rig.pass(Duration::from_secs(days * 24 * 3600));
        rig.inject(Segment { seq: rig.next + 5, ..rig.segment(Flags::RST, &[]) });
        challenged(&mut rig);
    }
}

/// RFC 9293, SHLD-2.
#[test]
fn a_reset_may_carry_data() {
    let mut rig = Setup::default().connected();
    assert_eq!(rig.inject(rig.segment(Flags::RST, b"why")), Some(Disposition::Closed));
    assert_eq!(rig.read(9), Err(ReadError::Failed(Error::Reset)), "what it says is not data");
}
