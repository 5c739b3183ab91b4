//! Goal: data with a SYN arrives once, whatever of it the SYN-ACK acknowledges and whatever is lost (RFC 7413), and
//! only those who show a good cookie are served before the handshake ends.

use base::Duration;
use tcp::{
    Config, CookieWorth, Error, Events, FastOpenKeys, FastOpenOffer, IcmpError, Lesson, ReadError, State,
    WriteError,
};
use wire::tcp::{FastOpen, Flags, Options, Segment, Timestamps};

use crate::host::{flow, ms};
use crate::rig::{OURS, PEER, Rig, Sent, Setup};

const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

fn cookie(bytes: &[u8]) -> Option<FastOpen> {
    FastOpen::cookie(bytes, false)
}

/// We know a cookie, and an MSS.
fn knows(mss: u16) -> FastOpenOffer {
    FastOpenOffer { option: cookie(&[1, 2, 3, 4, 5, 6, 7, 8]), mss }
}

fn asks() -> FastOpenOffer {
    FastOpenOffer { option: Some(FastOpen::request(false)), mss: 0 }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| i as u8).collect()
}

/// The peer's SYN-ACK, acknowledging so many bytes beyond our SYN.
fn syn_ack(rig: &mut Rig, setup: &Setup, acked: u32) {
    rig.ack = OURS + 1 + acked;
    rig.pass(ms(20));
    rig.peer_syn(setup, SYN_ACK);
}

/// 600 bytes went with our SYN.
fn with_data(setup: &Setup) -> Rig {
    let (mut rig, taken) = setup.connect_fast(&knows(0), &bytes(600));
    let syn = rig.one();
    assert_eq!((taken, syn.flags, syn.seq, &syn.payload), (600, Flags::SYN, OURS, &bytes(600)));
    assert_eq!(syn.options.fast_open(), knows(0).option);
    rig
}

fn outcome(rig: &mut Rig) -> tcp::FastOpenOutcome {
    assert!(rig.events().any(Events::FAST_OPEN));
    rig.host.with(rig.now, |conn, _| conn.take_fast_open()).expect("an outcome")
}

fn syn_data(rig: &Rig) -> bool {
    rig.host.conn().info(rig.now).syn_data
}

/// RFC 7413, 4.1.3-1 and 4.2.2-1.
#[test]
fn a_cookie_is_asked_for_and_learned() {
    let setup = Setup { peer: Options { mss: Some(1200), ..Options::default() }, ..Setup::default() };
    let (mut rig, taken) = setup.connect_fast(&asks(), &bytes(100));
    let syn = rig.one();
    assert_eq!((taken, syn.len(), syn.options.fast_open()), (0, 0, asks().option));
    let setup = Setup { peer: setup.peer.with_fast_open(cookie(&[9; 8])), ..setup };
    syn_ack(&mut rig, &setup, 0);
    assert_eq!(rig.host.state(), State::Established);
    let learned = outcome(&mut rig);
    assert_eq!((learned.mss, learned.cookie, learned.lesson), (1200, cookie(&[9; 8]), Lesson::Answered));
    assert!(!syn_data(&rig));
}

#[test]
fn requests_without_an_answer_are_told_by_kind() {
    for experimental in [false, true] {
        let offer = FastOpenOffer { option: Some(FastOpen::request(experimental)), mss: 0 };
        let (mut rig, _) = Setup::default().connect_fast(&offer, &[]);
        assert_eq!(rig.one().options.fast_open(), offer.option);
        syn_ack(&mut rig, &Setup::default(), 0);
        assert_eq!(outcome(&mut rig).lesson, Lesson::NoCookie { experimental });
    }
    // A cookie that comes unasked is none.
    let (mut rig, _) = Setup::default().connect_fast(&FastOpenOffer { option: None, mss: 0 }, &bytes(10));
    assert_eq!(rig.one().options.fast_open(), None);
    let setup = Setup { peer: Setup::default().peer.with_fast_open(cookie(&[9; 8])), ..Setup::default() };
    syn_ack(&mut rig, &setup, 10);
    assert_eq!(outcome(&mut rig).cookie, None);
    assert!(syn_data(&rig));
}

#[test]
fn data_with_the_syn_is_acknowledged_with_it() {
    let setup = Setup::modern();
    let mut rig = with_data(&setup);
    assert_eq!(rig.write(b"more"), Err(WriteError::NotConnected));
    assert!(!syn_data(&rig));
    syn_ack(&mut rig, &setup, 600);
    assert!(rig.one().is_pure_ack());
    let info = rig.host.conn().info(rig.now);
    assert!(info.syn_data && info.bytes_acked == 600 && info.srtt == ms(20));
    assert_eq!(rig.host.counters.fastopen_active, 1);
    rig.write(b"more").unwrap();
    assert_eq!(rig.one().seq, OURS + 601);
    assert_eq!(rig.host.conn().unacked(), 4);
}

/// RFC 7413, 4.2.2-6.
#[test]
fn what_the_syn_ack_does_not_cover_goes_again_at_once() {
    for acked in 0..=600 {
        let setup = Setup::default();
        let mut rig = with_data(&setup);
        syn_ack(&mut rig, &setup, acked);
        let sent = rig.one();
        assert_eq!(sent.seq, OURS + 1 + acked);
        assert_eq!(sent.payload, bytes(600)[acked as usize..], "{acked}");
        assert_eq!(syn_data(&rig), acked == 600);
        assert_eq!(rig.host.counters.fastopen_active_fail, u64::from(acked < 600));
        rig.ack(OURS + 601, &[]);
        assert_eq!(rig.host.conn().unacked(), 0);
        rig.pass(Duration::from_secs(10));
        rig.none();
    }
}

#[test]
fn an_acknowledgment_of_what_was_never_sent_is_refused() {
    for beyond in [601, 1_000, 1 << 31] {
        let mut rig = with_data(&Setup::default());
        rig.ack = OURS + 1 + beyond;
        rig.peer_syn(&Setup::default(), SYN_ACK);
        let sent = rig.sent();
        assert_eq!((sent[0].flags, sent[0].seq), (Flags::RST, OURS + 1 + beyond));
        assert_eq!((sent[1].flags, sent[1].len(), sent.len()), (Flags::SYN, 0, 2), "a plain SYN follows it");
        rig.assert_state(State::SynSent);
    }
}

/// RFC 7413, 4.2.1-1.
#[test]
fn a_syn_that_is_sent_again_is_plain() {
    for acked in [0, 600] {
        let setup = Setup::default();
        let mut rig = with_data(&setup);
        assert_eq!(rig.until_sent(Duration::from_secs(5)), Duration::from_secs(1));
        let again = rig.one();
        assert_eq!((again.flags, again.seq, again.len()), (Flags::SYN, OURS, 0));
        assert_eq!(again.options.fast_open(), None);
        // The first may have arrived after all.
        syn_ack(&mut rig, &setup, acked);
        let sent = rig.one();
        assert_eq!((sent.seq, sent.len()), (OURS + 1 + acked, 600 - acked as usize));
        let lesson = if acked == 0 { Lesson::Lost } else { Lesson::Answered };
        assert_eq!(outcome(&mut rig).lesson, lesson);
        assert_eq!(
            rig.host.conn().info(rig.now).srtt,
            Duration::ZERO,
            "it is unknown which SYN was answered"
        );
    }
}

/// RFC 7413, 4.1.3.1-1.
#[test]
fn silence_is_a_reason_for_caution_the_third_time() {
    let mut rig = with_data(&Setup::default());
    rig.pass(Duration::from_secs(6));
    assert!(!rig.events().any(Events::FAST_OPEN));
    rig.pass(Duration::from_secs(2));
    assert_eq!(outcome(&mut rig).lesson, Lesson::Silence);
    assert_eq!(rig.host.counters.fastopen_blackhole, 1);
    // An end that comes before says as much.
    let options = tcp::SocketOptions { syn_count: 1, ..Default::default() };
    let mut rig = with_data(&Setup { options, ..Setup::default() });
    rig.pass(Duration::from_secs(4));
    rig.assert_state(State::Closed);
    assert_eq!(outcome(&mut rig).lesson, Lesson::Silence);
    assert_eq!(rig.host.conn().error(), Some(Error::TimedOut));
}

#[test]
fn refused_and_too_big() {
    let mut rig = with_data(&Setup::default());
    rig.next = PEER;
    rig.inject(rig.segment(Flags::RST | Flags::ACK, &[]));
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn().error(), Some(Error::Refused));
    assert_eq!(rig.host.pool.used(), 0);

    let mut rig = with_data(&Setup::default());
    rig.host.with(rig.now, |conn, cx| conn.on_icmp(cx, IcmpError::TooBig { mtu: 600 }, OURS));
    let again = rig.one();
    assert_eq!(
        (again.flags, again.len(), again.options.mss),
        (Flags::SYN, 0, Some(560)),
        "at once, and plain"
    );
    syn_ack(&mut rig, &Setup::default(), 0);
    assert_eq!(rig.sent().iter().map(Sent::len).collect::<Vec<_>>(), [560, 40]);
}

/// RFC 7413, 4.1.3-2.
#[test]
fn a_syn_takes_one_segment_less_the_most_options() {
    for (known, v4, fits) in [(0, true, 1420), (940, true, 900), (9_000, true, 1420), (0, false, 1400)] {
        let setup = Setup { v4, ..Setup::default() };
        let (mut rig, taken) = setup.connect_fast(&knows(known), &bytes(5_000));
        assert_eq!((taken, rig.one().len()), (fits, fits));
    }
    let options = tcp::SocketOptions { max_seg: 500, ..Default::default() };
    let (_, taken) = Setup { options, ..Setup::default() }.connect_fast(&knows(0), &bytes(5_000));
    assert_eq!(taken, 460);
}

#[test]
fn data_with_the_syn_ack_is_taken() {
    let setup = Setup::default();
    let mut rig = with_data(&setup);
    rig.ack = OURS + 601;
    let segment = Segment { options: setup.peer, ..rig.segment(SYN_ACK | Flags::FIN, b"answer") };
    rig.inject(segment);
    assert_eq!(rig.one().ack, PEER + 8);
    assert_eq!(rig.read(100).unwrap(), b"answer");
    assert_eq!(rig.read(100), Err(ReadError::Finished));
    rig.assert_state(State::CloseWait);
}

#[test]
fn both_at_once() {
    let setup = Setup::default();
    let mut rig = with_data(&setup);
    rig.peer_syn(&setup, Flags::SYN);
    let answer = rig.one();
    assert_eq!((answer.flags, answer.seq, answer.len()), (SYN_ACK, OURS, 0));
    rig.ack = OURS + 601;
    rig.next = PEER;
    rig.peer_syn(&setup, SYN_ACK);
    rig.assert_state(State::Established);
    assert_eq!(rig.host.conn().unacked(), 0);
}

fn keys() -> FastOpenKeys {
    FastOpenKeys::new(&[7; 16]).expect("16 bytes")
}

/// The cookie that `keys` give the peer.
fn good() -> Option<FastOpen> {
    keys().cookie(&flow(true), false)
}

/// A server that takes data with a SYN.
fn server(setup: &Setup) -> Rig {
    let config = Config { fastopen: 3, ..setup.config.clone() };
    let mut rig = Setup { config, peer: setup.peer, ..Setup::default() }.listening();
    rig.host.keys = Some(keys());
    rig
}

/// The peer's SYN with this option and data.
fn syn(rig: &mut Rig, setup: &Setup, option: Option<FastOpen>, data: &[u8]) {
    let options = setup.peer.with_fast_open(option);
    rig.inject(Segment { seq: PEER, options, ..rig.segment(Flags::SYN, data) });
    rig.clock = setup.peer.timestamps.map(|ts| ts.val);
    rig.next = PEER + 1;
}

/// A server that has 10 bytes of a client with a good cookie; its SYN-ACK is out.
fn early(setup: &Setup) -> Rig {
    let mut rig = server(setup);
    syn(&mut rig, setup, good(), b"0123456789");
    let answer = rig.one();
    assert_eq!((answer.flags, answer.seq, answer.ack), (SYN_ACK, OURS, PEER + 11));
    assert_eq!(answer.options.fast_open(), None);
    rig.next += 10;
    rig.assert_state(State::SynReceived);
    rig
}

/// RFC 7413, 4.2.2-4.
#[test]
fn a_good_cookie_opens_at_once() {
    let setup = Setup::modern();
    let mut rig = early(&setup);
    assert!(syn_data(&rig) && rig.host.conn().is_early());
    assert_eq!(rig.read(100).unwrap(), b"0123456789");
    assert_eq!(rig.read(100), Err(ReadError::Empty));
    assert!(rig.host.conn().writable() > 0);
    rig.write(&bytes(3_000)).unwrap();
    let sent = rig.sent();
    assert_eq!(sent.iter().map(Sent::len).sum::<usize>(), 3_000, "before the handshake's end");
    assert_eq!(sent[0].seq, OURS + 1);
    rig.pass(ms(30));
    // The bare ACK of the handshake, and then one of data.
    rig.ack(OURS + 1, &[]);
    rig.assert_state(State::Established);
    assert!(rig.events().any(Events::CONNECTED) && !rig.host.conn().is_early());
    assert_eq!(rig.host.conn().info(rig.now).srtt, ms(30));
    assert_eq!(rig.host.conn().unacked(), 3_000);
    rig.ack(OURS + 3_001, &[]);
    assert_eq!(rig.host.conn().unacked(), 0);
    rig.pass(Duration::from_secs(10));
    rig.none();
}

/// Data that came with the SYN lies in the buffer: the SYN-ACK offers the rest of it, and no window is withdrawn
/// later.
#[test]
fn data_with_the_syn_takes_room_in_the_window() {
    let setup = Setup::default();
    let mut rig = server(&setup);
    rig.host.options.rcvbuf = 3000;
    syn(&mut rig, &setup, good(), &bytes(1000));
    let answer = rig.one();
    assert_eq!((answer.ack, answer.window), (PEER + 1001, 2000));
}

#[test]
fn the_first_acknowledgment_may_cover_data() {
    for acked in 0..=100 {
        let mut rig = early(&Setup::default());
        rig.write(&bytes(100)).unwrap();
        rig.sent();
        rig.ack(OURS + 1 + acked, &[]);
        rig.assert_state(State::Established);
        assert_eq!(rig.host.conn().unacked(), 100 - acked);
    }
    let mut rig = early(&Setup::default());
    rig.write(&bytes(100)).unwrap();
    rig.sent();
    for wrong in [OURS, OURS + 102] {
        rig.ack(wrong, &[]);
        assert_eq!((rig.one().flags, rig.host.state()), (Flags::RST, State::SynReceived), "{wrong:?}");
    }
}

#[test]
fn a_syn_that_comes_again_is_answered_again() {
    let setup = Setup::modern();
    let mut rig = early(&setup);
    for data in [&b"0123456789"[..], b""] {
        let options = setup.peer.with_fast_open(good());
        rig.inject(Segment { seq: PEER, options, ..rig.segment(Flags::SYN, data) });
        let again = rig.one();
        assert_eq!((again.flags, again.seq, again.ack), (SYN_ACK, OURS, PEER + 11), "{}", data.len());
    }
    assert_eq!(rig.read(100).unwrap(), b"0123456789", "once");
    rig.ack(OURS + 1, &[]);
    rig.assert_state(State::Established);
}

/// RFC 7413, 4.2.1-2 and 4.2.2-5.
#[test]
fn only_the_syn_ack_is_sent_again_before_the_handshake_ends() {
    let mut rig = early(&Setup::default());
    rig.write(&bytes(100)).unwrap();
    assert_eq!(rig.one().len(), 100);
    for _ in 0..3 {
        rig.until_sent(Duration::from_secs(20));
        let again = rig.one();
        assert_eq!((again.flags, again.seq, again.ack, again.len()), (SYN_ACK, OURS, PEER + 11, 0));
    }
    rig.ack(OURS + 1, &[]);
    rig.none();
    // Then data has its turn.
    rig.until_sent(Duration::from_secs(20));
    let again = rig.one();
    assert_eq!((again.seq, again.len()), (OURS + 1, 100));

    let mut rig = early(&Setup::default());
    rig.pass(Duration::from_secs(300));
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn().error(), Some(Error::TimedOut));
}

#[test]
fn reset_and_unreachable_before_the_handshake_ends() {
    let mut rig = early(&Setup::default());
    rig.inject(rig.segment(Flags::RST, &[]));
    rig.assert_state(State::Closed);
    assert_eq!(rig.read(100).unwrap(), b"0123456789", "what came is not lost");
    assert_eq!(rig.read(100), Err(ReadError::Failed(Error::Reset)));

    for seq in [OURS, OURS + 1] {
        let mut rig = early(&Setup::default());
        rig.host.with(rig.now, |conn, cx| conn.on_icmp(cx, IcmpError::HostUnreachable, seq));
        let hit = seq == OURS;
        assert_eq!(rig.host.state() == State::Closed, hit, "the SYN-ACK is in flight, nothing else");
    }
}

#[test]
fn closing_before_the_handshake_ends() {
    // Unread data: the client must know that they are lost.
    let mut rig = early(&Setup::default());
    rig.close();
    let reset = rig.one();
    assert_eq!((reset.flags, reset.seq, reset.ack), (Flags::RST | Flags::ACK, OURS + 1, PEER + 11));
    assert_eq!(rig.host.pool.used(), 0);

    let mut rig = early(&Setup::default());
    rig.read(100).unwrap();
    rig.write(b"bye").unwrap();
    rig.sent();
    rig.close();
    let fin = rig.one();
    assert_eq!((fin.flags, fin.seq), (Flags::FIN | Flags::ACK, OURS + 4));
    assert_eq!(rig.host.state(), State::SynReceived);
    rig.ack(OURS + 4, &[]);
    rig.assert_state(State::FinWait1);
    rig.ack(OURS + 5, &[]);
    rig.assert_state(State::FinWait2);
    rig.send_fin();
    assert!(rig.host.wait.is_some());
}

/// RFC 7413, 4.2.1-3 and 4.2.2-2.
#[test]
fn without_a_good_cookie_data_waits_for_the_handshake() {
    let others = keys().cookie(&flow(true).reversed(), false);
    for (option, granted) in [(None, None), (Some(FastOpen::request(false)), good()), (others, good())] {
        let setup = Setup::modern();
        let mut rig = server(&setup);
        syn(&mut rig, &setup, option, b"0123456789");
        let answer = rig.one();
        assert_eq!((answer.ack, answer.options.fast_open()), (PEER + 1, granted));
        assert_eq!(rig.read(100), Err(ReadError::NotConnected));
        assert_eq!(rig.write(b"x"), Err(WriteError::NotConnected));
        assert_eq!(rig.until_sent(Duration::from_secs(2)), Duration::from_secs(1));
        assert_eq!(rig.one().options.fast_open(), None, "a SYN-ACK that is sent again is plain");
        rig.send(b"0123456789");
        rig.assert_state(State::Established);
        assert_eq!(rig.read(100).unwrap(), b"0123456789");
        assert!(!syn_data(&rig));
    }
}

#[test]
fn the_settings_decide() {
    let setup = Setup::default();
    for (fastopen, opens) in [(0, false), (1, false), (2, true), (0x202, true)] {
        let mut rig = server(&setup);
        rig.host.config.fastopen = fastopen;
        syn(&mut rig, &setup, good(), b"x");
        assert_eq!(rig.host.conn().is_early(), opens, "{fastopen}");
    }
    let mut rig = server(&setup);
    rig.host.config.fastopen = 0x202;
    syn(&mut rig, &setup, None, b"without");
    assert_eq!(rig.read(100).unwrap(), b"without");
}

/// RFC 7413, 4.1.2-2.
#[test]
fn an_older_key_is_believed_and_its_cookie_replaced() {
    let setup = Setup::default();
    let mut rig = server(&setup);
    let both = FastOpenKeys::new(&[[8; 16], [7; 16]].concat()).expect("32 bytes");
    rig.host.keys = Some(both);
    assert_eq!(both.judge(&flow(true), &good().expect("a cookie")), CookieWorth::Aging);
    syn(&mut rig, &setup, good(), b"x");
    assert_eq!(rig.one().options.fast_open(), both.cookie(&flow(true), false));
    assert_eq!(rig.read(100).unwrap(), b"x");
    assert_eq!(rig.host.counters.fastopen_passive_alt_key, 1);
}

#[test]
fn a_good_cookie_without_data_opens_too() {
    let setup = Setup::default();
    let mut rig = server(&setup);
    syn(&mut rig, &setup, good(), b"");
    assert_eq!(rig.one().ack, PEER + 1);
    rig.write(b"greeting").unwrap();
    assert_eq!(rig.one().payload, b"greeting");
    assert!(!syn_data(&rig));
    rig.send(b"thanks");
    rig.assert_state(State::Established);
    assert_eq!(rig.read(100).unwrap(), b"thanks");
}

/// RFC 7413, 4.1.3.1-1.
#[test]
fn what_speaks_against_fast_open_is_told() {
    for (acked, new, lesson) in
        [(0, false, Lesson::Refused), (0, true, Lesson::Answered), (1, false, Lesson::Answered)]
    {
        let mut rig = with_data(&Setup::default());
        let option = if new { cookie(&[9; 8]) } else { None };
        let setup = Setup { peer: Setup::default().peer.with_fast_open(option), ..Setup::default() };
        syn_ack(&mut rig, &setup, acked);
        assert_eq!(outcome(&mut rig).lesson, lesson, "{acked}");
    }
    let mut rig = with_data(&Setup::default());
    rig.host.with(rig.now, |conn, cx| conn.on_icmp(cx, IcmpError::HostUnreachable, OURS));
    assert_eq!(outcome(&mut rig).lesson, Lesson::Unreachable);
    assert_eq!(rig.host.conn().error(), Some(Error::HostUnreachable));
}

#[test]
fn a_stall_after_the_handshake_is_silence_unless_the_peer_spoke() {
    for spoke in [false, true] {
        let setup = Setup::default();
        let mut rig = with_data(&setup);
        syn_ack(&mut rig, &setup, 600);
        assert_eq!(outcome(&mut rig).lesson, Lesson::Answered);
        (rig.host.events, rig.host.fresh) = (Events::default(), Events::default());
        if spoke {
            rig.send(b"hello");
        }
        rig.write(b"more").unwrap();
        for _ in 0..20 {
            rig.pass(Duration::from_secs(1));
            rig.sent();
        }
        let told = rig.events().any(Events::FAST_OPEN);
        assert_eq!(told, !spoke);
        assert_eq!(rig.host.counters.fastopen_blackhole, u64::from(!spoke));
        if told {
            let outcome = rig.host.with(rig.now, |conn, _| conn.take_fast_open());
            assert_eq!(outcome.map(|outcome| outcome.lesson), Some(Lesson::Silence));
        }
    }
}

#[test]
fn segments_that_arrived_are_counted() {
    let delivered = |rig: &Rig| rig.host.conn().info(rig.now).delivered;
    // A SYN is one, with its data; what of them goes again counts when it arrives.
    for (acked, after) in [(600, 1), (0, 2), (100, 2)] {
        let setup = Setup::modern();
        let mut rig = with_data(&setup);
        syn_ack(&mut rig, &setup, acked);
        assert_eq!(delivered(&rig), 1);
        rig.sent();
        let again = rig.host.conn().info(rig.now).sent_again;
        assert_eq!(again, 600 - acked);
        rig.ack(OURS + 601, &[]);
        assert_eq!((delivered(&rig), rig.host.conn().info(rig.now).sent_again), (after, 0));
        rig.close();
        rig.ack(OURS + 602, &[]);
        assert_eq!(delivered(&rig), after + 1, "a FIN alone is a segment");
    }
    let setup = Setup::default();
    let mut rig = early(&setup);
    rig.write(&bytes(100)).unwrap();
    rig.sent();
    assert_eq!(delivered(&rig), 0);
    rig.ack(OURS + 1, &[]);
    assert_eq!(delivered(&rig), 1, "the first acknowledgment is no duplicate");
    rig.ack(OURS + 101, &[]);
    assert_eq!(delivered(&rig), 2);
}

/// RFC 7413, 4.2.2-6.
#[test]
fn what_goes_again_keeps_its_boundary() {
    let setup = Setup::default();
    let mut rig = with_data(&setup);
    syn_ack(&mut rig, &setup, 200);
    rig.write(&bytes(300)).unwrap();
    let sent = rig.sent();
    assert_eq!(
        sent.iter().map(|sent| (sent.seq, sent.len())).collect::<Vec<_>>(),
        [(OURS + 201, 400), (OURS + 601, 300)]
    );
    assert!(sent[0].flags.has(Flags::PSH));
    rig.ack(OURS + 901, &[]);
    assert_eq!(rig.host.conn().unacked(), 0);
}

#[test]
fn an_answer_echoes_a_timestamp_that_was_sent() {
    let setup = Setup::modern();
    // After the SYN by so many milliseconds; the answer comes after 500.
    for (after, taken) in [(0i32, true), (500, true), (501, false), (-2_000, false)] {
        let mut rig = with_data(&setup);
        let ecr = rig.echo.wrapping_add_signed(after);
        rig.pass(ms(500));
        let peer = Options { timestamps: Some(Timestamps { val: 1_000, ecr }), ..setup.peer };
        rig.ack = OURS + 601;
        rig.inject(Segment { seq: PEER, options: peer, ..rig.segment(SYN_ACK, b"") });
        assert_eq!(rig.host.state() == State::Established, taken, "{after}");
        let answer = rig.one();
        assert_eq!(answer.flags == Flags::RST && answer.seq == OURS + 601, !taken);
    }
    let mut rig = with_data(&setup);
    let peer = Options { timestamps: Some(Timestamps { val: 1_000, ecr: 0 }), ..setup.peer };
    rig.ack = OURS + 601;
    rig.inject(Segment { seq: PEER, options: peer, ..rig.segment(SYN_ACK, b"") });
    rig.assert_state(State::Established);
}
