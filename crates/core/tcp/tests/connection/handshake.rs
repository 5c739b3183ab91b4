//! Goal: RFC 9293 sections 3.5 and 3.10.7 up to ESTABLISHED: who may open, refuse, retry, and what SYNs
//! agree on.

use base::{Duration, Seq};
use tcp::{Config, Error, Events, State, WriteError};
use wire::tcp::{Flags, Options, Segment};

use crate::host::ms;
use crate::rig::{OURS, PEER, Setup};

const RST_ACK: Flags = Flags(Flags::RST.0 | Flags::ACK.0);
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

/// RFC 9293, MUST-14, MUST-67, SHLD-5 and MAY-3; RFC 6298, 2-1; RFC 7323, 2.2-3.
#[test]
fn our_syn_offers_everything() {
    for v4 in [true, false] {
        let mut rig = Setup { v4, ..Setup::modern() }.syn_sent();
        assert_eq!(rig.until_sent(Duration::from_secs(3)), Duration::from_secs(1));
        let syn = rig.one();
        assert_eq!(syn.options.mss, Some(if v4 { 1460 } else { 1440 }));
        assert_eq!((syn.options.window_scale, syn.options.sack_permitted), (Some(9), true));
        assert!(syn.options.timestamps.is_some());
        assert_eq!(syn.window, 65_535, "the window of a SYN is not scaled");
    }
}

/// RFC 7323, 2.2-2 and 3.2-6.
#[test]
fn what_is_switched_off_is_not_offered_nor_taken() {
    let config = Config { timestamps: false, window_scaling: false, sack: false, ..Config::default() };
    let mut rig = Setup { config, ..Setup::modern() }.accepted();
    let info = rig.host.conn().info(rig.now);
    assert_eq!((info.timestamps, info.sack, info.scale), (false, false, (0, 0)));
    assert_eq!(info.snd_wnd, 65_535);
    rig.write(&[1; 10]).unwrap();
    assert_eq!(rig.one().options, Options::default());
}

/// RFC 7323, 2.2-1 and 3.2-1.
#[test]
fn we_offer_back_only_what_the_peer_offered() {
    let mut rig = Setup::default().syn_received();
    rig.until_sent(Duration::from_secs(2));
    let again = rig.one();
    assert_eq!(again.flags, SYN_ACK);
    assert_eq!(again.options, Options { mss: Some(1460), ..Options::default() });
    assert!(Setup::modern().accepted().host.conn().info(base::Instant::from_secs(100)).timestamps);
}

/// RFC 9293, MUST-1 and REC-1; RFC 7323, 2.2-3 and 2.3-2.
#[test]
fn the_scale_applies_after_the_syn_only() {
    for shift in [0, 1, 7, 14] {
        let mut setup = Setup::modern();
        setup.peer.window_scale = Some(shift);
        let mut rig = setup.connected();
        assert_eq!(rig.host.conn().info(rig.now).snd_wnd, 65_535, "from the SYN: unscaled");
        rig.ack(OURS + 1, &[]);
        assert_eq!(rig.host.conn().info(rig.now).snd_wnd, 65_535 << shift);
    }
}

/// RFC 9293, MUST-22 and MUST-23.
#[test]
fn syn_is_retried_with_backoff_and_then_given_up() {
    let mut rig = Setup::default().syn_sent();
    let began = rig.now;
    for n in 0..7 {
        assert_eq!(rig.until_sent(Duration::from_secs(200)), Duration::from_secs(1 << n));
        let syn = rig.one();
        assert_eq!((syn.flags, syn.seq), (Flags::SYN, OURS));
    }
    rig.pass(Duration::from_secs(120));
    assert!(rig.now.since(began) >= Duration::from_secs(180), "R2 of a SYN is three minutes at least");
    rig.none();
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn.as_mut().unwrap().take_error(), Some(Error::TimedOut));
    assert!(rig.events().any(Events::ERROR));
}

#[test]
fn a_reset_refuses_only_if_it_acknowledges_our_syn() {
    let mut rig = Setup::default().syn_sent();
    rig.inject(Segment { seq: Seq::new(0), ..rig.segment(Flags::RST, &[]) });
    rig.inject(Segment { seq: Seq::new(0), ack: OURS, ..rig.segment(RST_ACK, &[]) });
    rig.inject(Segment { seq: Seq::new(0), ack: OURS + 2, ..rig.segment(RST_ACK, &[]) });
    rig.assert_state(State::SynSent);
    rig.none();
    rig.inject(Segment { seq: Seq::new(0), ..rig.segment(RST_ACK, &[]) });
    rig.assert_state(State::Closed);
    rig.none();
    assert_eq!(rig.host.conn().error(), Some(Error::Refused));
    assert_eq!(rig.write(b"x"), Err(WriteError::Failed(Error::Refused)));
}

#[test]
fn an_old_duplicate_answer_to_our_syn_is_reset() {
    let mut rig = Setup::default().syn_sent();
    for (nth, (flags, ack)) in
        [(Flags::ACK, OURS), (Flags::ACK, OURS + 2), (SYN_ACK, OURS - 7)].into_iter().enumerate()
    {
        rig.pass(ms(100));
        rig.inject(Segment { ack, ..rig.segment(flags, &[]) });
        let sent = rig.sent();
        assert_eq!((sent[0].flags, sent[0].seq), (Flags::RST, ack), "<SEQ=SEG.ACK><CTL=RST>");
        assert_eq!(sent.len(), 1 + usize::from(nth == 0), "the SYN comes again, once");
        assert!(sent[1..].iter().all(|syn| (syn.flags, syn.seq) == (Flags::SYN, OURS)));
        rig.assert_state(State::SynSent);
    }
    // That of a half-open connection is no other.
    let mut rig = Setup::default().syn_sent();
    rig.inject(Segment { ack: OURS - 7, ..rig.segment(SYN_ACK, &[]) });
    assert_eq!(rig.sent().iter().map(|sent| sent.flags).collect::<Vec<_>>(), [Flags::RST, Flags::SYN]);
    // An acceptable ACK without SYN says nothing.
    rig.inject(rig.segment(Flags::ACK, &[]));
    rig.none();
    rig.assert_state(State::SynSent);
}

/// RFC 9293, figure 9: the peer has an old connection, and challenges the SYN.
#[test]
fn a_challenged_syn_that_comes_again_worsens_no_timer() {
    for setup in [Setup::default(), Setup::modern()] {
        let mut rig = setup.syn_sent();
        rig.pass(ms(400));
        rig.inject(Segment { ack: OURS - 7, ..rig.segment(Flags::ACK, &[]) });
        assert_eq!(rig.sent().len(), 2, "a reset and the SYN");
        // A whole timeout for that SYN, and the next is the first that is doubled.
        assert_eq!(rig.until_sent(ms(5_000)), ms(1_000));
        assert_eq!(rig.one().flags, Flags::SYN);
        assert_eq!(rig.until_sent(ms(5_000)), ms(2_000));
        rig.one();

        // FreeBSD leaves it to the timer.
        let mut waits = Setup { peer: setup.peer, ..Setup::default() };
        waits.config.quirks.syn_waits = true;
        let mut rig = waits.syn_sent();
        rig.inject(Segment { ack: OURS - 7, ..rig.segment(Flags::ACK, &[]) });
        assert_eq!(rig.one().flags, Flags::RST);
        assert_eq!(rig.until_sent(ms(5_000)), ms(1_000));

        // An answer late in that timeout, to the SYN that was first.
        let mut rig = setup.syn_sent();
        rig.pass(ms(900));
        rig.inject(Segment { ack: OURS - 7, ..rig.segment(Flags::ACK, &[]) });
        let first = rig.echo;
        rig.sent();
        rig.echo = first;
        rig.pass(ms(900));
        rig.peer_syn(&setup, SYN_ACK);
        rig.assert_state(State::Established);
        let info = rig.host.conn().info(rig.now);
        assert!(info.window.cwnd >= 10 * 1448, "the initial window: no SYN was lost");
    }
}

/// RFC 9293, MUST-10.
#[test]
fn both_ends_may_open_at_once() {
    for setup in [Setup::default(), Setup::modern()] {
        let mut rig = setup.syn_sent();
        rig.inject(Segment { options: setup.peer, ..rig.segment(Flags::SYN, &[]) });
        rig.assert_state(State::SynReceived);
        let answer = rig.one();
        assert_eq!((answer.flags, answer.seq, answer.ack), (SYN_ACK, OURS, PEER + 1));
        let mut options = setup.peer;
        if let Some(ts) = &mut options.timestamps {
            ts.ecr = rig.echo;
        }
        // It is sent later than the SYN, and echoed (RFC 7323, section 4.3).
        let later = options.timestamps.map(|ts| ts.val + 30);
        if let (Some(ts), Some(later)) = (&mut options.timestamps, later) {
            ts.val = later;
        }
        rig.clock = later;
        rig.inject(Segment { options, ..rig.segment(SYN_ACK, &[]) });
        rig.next += 1;
        assert_eq!(rig.one().options.timestamps.map(|ts| ts.ecr), later);
        rig.send(&[]);
        rig.assert_state(State::Established);
        assert!(rig.events().any(Events::CONNECTED));
        rig.send(b"hello");
        assert_eq!(rig.read(9).unwrap(), b"hello");
        assert!(rig.write(&[1; 100]).is_ok());
        assert_eq!(rig.sent().iter().map(|s| s.len()).sum::<usize>(), 100);
    }
}

#[test]
fn data_may_come_with_the_syn_ack_of_a_simultaneous_open() {
    let mut rig = Setup::default().syn_sent();
    rig.inject(rig.segment(Flags::SYN, &[]));
    rig.assert_state(State::SynReceived);
    rig.inject(rig.segment(SYN_ACK, b"whole"));
    rig.assert_state(State::Established);
    assert_eq!(rig.read(9).unwrap(), b"whole", "the SYN took a number, not a byte");
}

#[test]
fn a_repeated_syn_does_not_disturb_syn_received() {
    let setup = Setup::modern();
    let mut rig = setup.syn_received();
    rig.pass(ms(300));
    rig.inject(Segment { seq: PEER, options: setup.peer, ..rig.segment(Flags::SYN, &[]) });
    let answer = rig.one();
    assert!(answer.flags.has(Flags::ACK) && answer.ack == PEER + 1);
    rig.assert_state(State::SynReceived);
    rig.send(&[]);
    rig.assert_state(State::Established);
}

#[test]
fn an_ack_of_what_we_never_sent_is_reset_in_syn_received() {
    for ack in [OURS, OURS + 2, OURS - 100] {
        let mut rig = Setup::default().syn_received();
        rig.inject(Segment { ack, ..rig.segment(Flags::ACK, &[]) });
        let reset = rig.one();
        assert_eq!((reset.flags, reset.seq), (Flags::RST, ack));
        rig.assert_state(State::SynReceived);
    }
}

/// A SYN-ACK with the number of the peer's SYN: of a passive open it is reset, and when SYNs have crossed challenged.
#[test]
fn a_syn_ack_of_what_we_never_sent_gets_one_answer_in_syn_received() {
    let mut rig = Setup::default().syn_received();
    rig.inject(Segment { seq: PEER, ack: OURS, ..rig.segment(SYN_ACK, &[]) });
    let reset = rig.one();
    assert_eq!((reset.flags, reset.seq), (Flags::RST, OURS));
    rig.assert_state(State::SynReceived);
    let mut rig = Setup::default().syn_sent();
    rig.inject(rig.segment(Flags::SYN, &[]));
    rig.sent();
    rig.inject(Segment { ack: OURS + 1000, ..rig.segment(SYN_ACK, &[]) });
    let answer = rig.one();
    assert!(answer.is_pure_ack() && answer.ack == PEER + 1);
    rig.assert_state(State::SynReceived);
}

/// RFC 9293, MUST-11.
#[test]
fn a_reset_ends_syn_received() {
    let mut rig = Setup::default().syn_received();
    rig.inject(Segment { seq: PEER + 100, ..rig.segment(Flags::RST, &[]) });
    rig.assert_state(State::SynReceived);
    assert!(rig.sent().iter().all(|s| s.is_pure_ack()), "at most a challenge");
    rig.inject(rig.segment(Flags::RST, &[]));
    rig.assert_state(State::Closed);
    rig.none();
}

#[test]
fn syn_ack_is_retried_and_then_forgotten() {
    let mut rig = Setup::default().syn_received();
    for n in 0..5 {
        assert_eq!(rig.until_sent(Duration::from_secs(200)), Duration::from_secs(1 << n));
        let again = rig.one();
        assert_eq!((again.flags, again.seq, again.ack), (SYN_ACK, OURS, PEER + 1));
    }
    rig.pass(Duration::from_secs(32));
    rig.assert_state(State::Closed);
}

#[test]
fn data_may_come_with_the_last_ack_of_the_handshake() {
    let mut rig = Setup::default().syn_received();
    rig.send(b"early");
    rig.assert_state(State::Established);
    assert_eq!(rig.read(100).unwrap(), b"early");
    let mut rig = Setup::default().syn_received();
    rig.inject(rig.segment(Flags::ACK | Flags::FIN, b"all"));
    rig.assert_state(State::CloseWait);
    assert_eq!(rig.read(100).unwrap(), b"all");
}

#[test]
fn a_segment_without_ack_is_dropped_in_syn_received() {
    let mut rig = Setup::default().syn_received();
    rig.inject(rig.segment(Flags::FIN, b"x"));
    rig.assert_state(State::SynReceived);
    assert_eq!(rig.host.conn().readable(), 0);
}

/// RFC 9293, MUST-14, MUST-15 and MUST-16.
#[test]
fn mss_bounds_what_we_send() {
    for (mss, sent) in [(None, 536), (Some(100), 100), (Some(1460), 1460), (Some(9000), 1460)] {
        let mut setup = Setup::default();
        setup.peer.mss = mss;
        let mut rig = setup.connected();
        rig.write(&[1; 5000]).unwrap();
        let sizes: Vec<usize> = rig.sent().iter().map(|s| s.len()).collect();
        assert_eq!(sizes.iter().max(), Some(&sent), "{mss:?}: {sizes:?}");
    }
    // A silly MSS is not obeyed to the letter: it would be an attack on us.
    let mut setup = Setup::default();
    setup.peer.mss = Some(0);
    let mut rig = setup.connected();
    rig.write(&[1; 5000]).unwrap();
    assert!(rig.sent().iter().all(|s| s.len() >= 32));
}

/// RFC 9293, MUST-16.
#[test]
fn options_take_their_room_from_the_mss() {
    let mut rig = Setup::modern().connected();
    rig.write(&[1; 5000]).unwrap();
    assert!(rig.sent().iter().all(|s| s.len() <= 1448));
}

#[test]
fn the_final_ack_lost_is_repaired_by_the_repeated_syn_ack() {
    let setup = Setup::modern();
    let mut rig = setup.connected();
    let mut options = setup.peer;
    if let Some(ts) = &mut options.timestamps {
        ts.ecr = rig.echo;
    }
    rig.inject(Segment { seq: PEER, options, ..rig.segment(SYN_ACK, &[]) });
    let ack = rig.one();
    assert_eq!((ack.flags, ack.seq, ack.ack), (Flags::ACK, OURS + 1, PEER + 1));
    rig.assert_state(State::Established);
}

#[test]
fn writing_before_the_handshake_ends() {
    let mut rig = Setup::default().syn_sent();
    assert_eq!(rig.write(b"x"), Err(WriteError::NotConnected));
    assert_eq!(rig.read(1), Err(tcp::ReadError::NotConnected));
}

#[test]
fn closing_before_the_handshake_ends() {
    let mut rig = Setup::default().syn_sent();
    rig.close();
    rig.assert_state(State::Closed);
    rig.none();
    let mut rig = Setup::default().syn_received();
    rig.close();
    // RFC 9293, section 3.10.4: queue a FIN, or end at once with a RST; nothing may linger as if open.
    let sent = rig.sent();
    assert!(sent.iter().all(|s| s.flags.any(Flags::FIN | Flags::RST)), "{sent:?}");
}

/// RFC 9293, MUST-15.
#[test]
fn without_an_mss_option_the_default_of_the_family_counts() {
    for (v4, mss) in [(true, 536), (false, 1220)] {
        let mut rig = Setup { peer: Options::default(), v4, ..Setup::default() }.connected();
        rig.write(&[1; 5000]).unwrap();
        assert_eq!(rig.sent().iter().map(|s| s.len()).max(), Some(mss));
    }
}

/// RFC 9293, MUST-11: an active open that is reset was refused, whatever became of it meanwhile.
#[test]
fn a_reset_in_a_simultaneous_open_is_a_refusal() {
    let mut rig = Setup::default().syn_sent();
    rig.inject(rig.segment(Flags::SYN, &[]));
    rig.next += 1;
    rig.assert_state(State::SynReceived);
    rig.inject(rig.segment(Flags::RST, &[]));
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn().error(), Some(Error::Refused));
}

/// RFC 7323, 3.2-5.
#[test]
fn a_syn_echoes_nothing() {
    let mut rig = Setup::modern().syn_sent();
    rig.until_sent(Duration::from_secs(3));
    assert_eq!(rig.one().options.timestamps.map(|ts| ts.ecr), Some(0));
}

/// RFC 7323, 3.2-5: what echoes our SYN is its answer, also if the SYN's timer is late.
#[test]
fn an_answer_may_overtake_a_late_timer() {
    let setup = Setup::modern();
    let mut rig = setup.syn_sent();
    rig.now += ms(1_020);
    rig.peer_syn(&setup, SYN_ACK);
    rig.assert_state(State::Established);
    assert!(rig.one().is_pure_ack());
}
