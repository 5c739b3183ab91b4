//! Goal: ECN is agreed on as RFC 3168 says, marks are echoed until the sender has reduced, and an echo costs
//! window once for each window of data.

use std::sync::{Arc, Mutex};

use base::{Duration, Instant};
use cc::{AckSample, Control, Controller, EcnFeedback, Needs, PathInfo, Signal, SignalInfo, Window};
use tcp::{Config, EcnPolicy};
use wire::Ecn;
use wire::tcp::{Flags, Segment};

use crate::host::ms;
use crate::rig::{Rig, Setup};

const ASKS: Flags = Flags(Flags::SYN.0 | Flags::ECE.0 | Flags::CWR.0);
const AGREES: Flags = Flags(Flags::SYN.0 | Flags::ACK.0 | Flags::ECE.0);

fn setup(ecn: usize) -> Setup {
    let setup = Setup::sack();
    Setup { config: Config { ecn: EcnPolicy::ALL[ecn], ..setup.config }, ..setup }
}

/// Active open, ECN agreed on.
fn agreed() -> Rig {
    let setup = setup(1);
    let mut rig = setup.syn_sent_with(ASKS);
    rig.pass(ms(20));
    rig.peer_syn(&setup, AGREES);
    rig.one();
    rig.codepoints();
    assert!(rig.host.conn().info(rig.now).ecn);
    rig
}

fn window(rig: &Rig) -> u32 {
    rig.host.conn().info(rig.now).window.cwnd
}

/// The peer sends data that was marked on its way.
fn send_marked(rig: &mut Rig, payload: &[u8]) {
    let segment = Segment { ecn: Ecn::Marked, ..rig.segment(Flags::ACK, payload) };
    rig.inject(segment);
    rig.next += payload.len() as u32;
}

/// RFC 9293, SHLD-8; RFC 3168, 6.1.1-1 and 6.1.1-4.
#[test]
fn who_asks_and_who_agrees() {
    for ecn in 0..=2 {
        let asks = if ecn == 1 { ASKS } else { Flags::SYN };
        let (with, without) = (AGREES, Flags::SYN | Flags::ACK);
        // An answer with both bits comes from a box that sends back what it got.
        for (answer, agreed) in [(with, ecn == 1), (without, false), (with | Flags::CWR, false)] {
            let setup = setup(ecn);
            let mut rig = setup.syn_sent_with(asks);
            rig.peer_syn(&setup, answer);
            assert_eq!(rig.host.conn().info(rig.now).ecn, agreed, "active, ecn {ecn}, {answer:?}");
        }
        for (asked, agreed) in [(ASKS, ecn > 0), (Flags::SYN, false), (Flags::SYN | Flags::ECE, false)] {
            let mut rig = setup(ecn).listening();
            rig.peer_syn(&setup(ecn), asked);
            let expected = if agreed { AGREES } else { without };
            assert_eq!(rig.one().flags, expected, "passive, ecn {ecn}, {asked:?}");
        }
    }
}

/// RFC 3168, 6.1.1.1-1.
#[test]
fn a_lost_syn_no_longer_asks() {
    let setup = setup(1);
    let mut rig = setup.syn_sent_with(ASKS);
    rig.until_sent(ms(5_000));
    assert_eq!(rig.one().flags, Flags::SYN);
    rig.peer_syn(&setup, AGREES);
    assert!(!rig.host.conn().info(rig.now).ecn);
}

/// RFC 3168, 5-1, 6.1.1-3, 6.1.4-1 and 6.1.5-1.
#[test]
fn only_new_data_may_be_marked() {
    let mut rig = agreed();
    rig.write(&[1; 3 * 1460]).unwrap();
    let sent = rig.sent();
    assert!(sent.len() == 3 && rig.codepoints() == [2; 3]);
    rig.send(b"request");
    rig.read(100).unwrap();
    rig.until_sent(ms(100));
    assert!(rig.one().is_pure_ack() && rig.codepoints() == [0]);
    rig.until_sent(ms(5_000));
    assert_eq!((rig.one().seq, rig.codepoints()), (sent[0].seq, vec![0]), "a retransmission");
}

/// RFC 3168, 6.1.3-1.
#[test]
fn a_mark_is_echoed_until_the_sender_has_reduced() {
    let mut rig = agreed();
    send_marked(&mut rig, b"one");
    assert_eq!(rig.one().flags, Flags::ACK | Flags::ECE, "at once");
    for _ in 0..2 {
        rig.send(b"two");
        rig.until_sent(ms(100));
        assert!(rig.one().flags.has(Flags::ECE));
    }
    // The peer reduced; what it sends then may have been marked again.
    rig.inject(rig.segment(Flags::ACK | Flags::CWR, b"three"));
    rig.next += 5;
    assert_eq!(rig.one().flags, Flags::ACK);
    let segment = Segment { ecn: Ecn::Marked, ..rig.segment(Flags::ACK | Flags::CWR, b"four") };
    rig.inject(segment);
    assert_eq!(rig.one().flags, Flags::ACK | Flags::ECE);
}

/// RFC 3168, 6.1.2-1, 6.1.2-2, 6.1.2-3 and 6.1.2-5.
#[test]
fn an_echo_halves_the_window_once_for_each_window_of_data() {
    let mut rig = agreed();
    rig.write(&[1; 60_000]).unwrap();
    let sent = rig.sent();
    assert_eq!(sent.len(), 10);
    rig.pass(ms(20));
    let mut later = Vec::new();
    for (i, s) in sent.iter().enumerate() {
        rig.ack = s.end();
        rig.inject(rig.segment(Flags::ACK | Flags::ECE, &[]));
        let more = rig.sent();
        assert!(more.len() <= 1, "as much leaves as arrives, or less: {more:?}");
        later.extend(more);
        assert_eq!(window(&rig), 5 * 1460, "acknowledgment {i}");
    }
    assert_eq!(later.iter().filter(|s| s.flags.has(Flags::CWR)).count(), 1);
    assert!(later[0].flags.has(Flags::CWR), "the first new data says it");
    assert_eq!(rig.host.conn().info(rig.now).in_flight, 5 * 1460, "the window is full");
    assert_eq!(rig.host.counters.ecn_reductions, 1);
    rig.pass(ms(20));
    rig.ack = later[0].end();
    rig.inject(rig.segment(Flags::ACK | Flags::ECE, &[]));
    assert_eq!(rig.host.counters.ecn_reductions, 2, "the next window of data");
    assert_eq!(rig.host.counters.retransmits, 0);
}

/// RFC 3168, 6.1.2-2.
#[test]
fn a_loss_in_a_window_that_was_reduced_does_not_reduce_it_again() {
    let mut rig = agreed();
    rig.write(&[1; 60_000]).unwrap();
    let sent = rig.sent();
    rig.pass(ms(20));
    rig.ack = sent[0].end();
    rig.inject(rig.segment(Flags::ACK | Flags::ECE, &[]));
    rig.sent();
    assert_eq!(window(&rig), 5 * 1460);
    rig.ack(sent[0].end(), &[(sent[2].seq, sent[6].seq)]);
    let info = rig.host.conn().info(rig.now);
    assert!(info.recovery && info.window.ssthresh == 5 * 1460, "{info:?}");
    assert_eq!(rig.sent()[0].seq, sent[1].seq);
}

/// RFC 3168, 6.1.1-2.
#[test]
fn without_agreement_nothing_is_marked_echoed_or_reduced() {
    let mut rig = setup(2).connected();
    rig.codepoints();
    rig.write(&[1; 10 * 1460]).unwrap();
    let sent = rig.sent();
    assert_eq!(rig.codepoints(), [0; 10]);
    let before = window(&rig);
    rig.pass(ms(20));
    rig.ack = sent[0].end();
    rig.inject(rig.segment(Flags::ACK | Flags::ECE, &[]));
    assert!(window(&rig) >= before);
    send_marked(&mut rig, &[1; 1460]);
    assert!(rig.sent().iter().all(|s| !s.flags.has(Flags::ECE)));
}

/// RFC 3168, 6.1.6-1.
#[test]
fn window_probes_are_not_marked() {
    let mut rig = agreed();
    rig.write(&[1; 1460]).unwrap();
    let end = rig.one().end();
    rig.window = 0;
    rig.ack(end, &[]);
    rig.write(&[1; 1460]).unwrap();
    rig.codepoints();
    rig.until_sent(ms(5_000));
    assert!(rig.one().len() <= 1);
    assert_eq!(rig.codepoints(), [0]);
}

/// RFC 3168, 6.1.5-2.
#[test]
fn a_mark_outside_the_window_is_not_echoed() {
    let mut rig = agreed();
    let far = Segment { ecn: Ecn::Marked, ..rig.segment(Flags::ACK, b"guess") };
    rig.inject(Segment { seq: rig.next + (1 << 24), ..far });
    let answer = rig.one();
    assert_eq!((answer.flags, answer.ack), (Flags::ACK, rig.next));
}

/// Bytes that arrived, and marked ones of them, as they were told.
type Told = Arc<Mutex<Vec<(u32, u32)>>>;

/// A policy that counts marks, or does not.
struct Counter {
    counts: bool,
    told: Told,
}

impl Controller for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }
    fn needs(&self) -> Needs {
        Needs { echoes: self.counts, ..Needs::default() }
    }
    fn on_ack(&mut self, _: &AckSample) {}
    fn on_ecn(&mut self, feedback: &EcnFeedback) {
        self.told.lock().unwrap().push((feedback.bytes, feedback.marked_bytes));
    }
    fn on_congestion(&mut self, _: Signal, _: &SignalInfo) {}
    fn on_recovery_end(&mut self, _: &SignalInfo) {}
    fn on_idle_restart(&mut self, _: Instant, _: Duration, _: &PathInfo) {}
    fn on_mss_change(&mut self, _: u32) {}
    fn window(&self) -> Window {
        Window { cwnd: 14_600, ssthresh: u32::MAX, pacing: None }
    }
}

/// Returns what a policy is told of ten segments' acknowledgments, the third and fourth of which are echoes.
fn told(mut rig: Rig, counts: bool) -> Vec<(u32, u32)> {
    let told = Told::default();
    let control = Control::Boxed(Box::new(Counter { counts, told: told.clone() }));
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.set_control(cx, control));
    rig.write(&[1; 14_600]).unwrap();
    let sent = rig.sent();
    rig.pass(ms(20));
    for (i, s) in sent.iter().enumerate() {
        rig.ack = s.end();
        let echo = if i == 2 || i == 3 { Flags::ECE } else { Flags::default() };
        rig.inject(rig.segment(Flags::ACK | echo, &[]));
    }
    let told = told.lock().unwrap();
    told.clone()
}

#[test]
fn who_counts_marks_hears_of_every_acknowledgment() {
    let marked = |i| if i == 2 || i == 3 { 1460 } else { 0 };
    let all: Vec<(u32, u32)> = (0..10).map(|i| (1460, marked(i))).collect();
    assert_eq!(told(agreed(), true), all);
    assert!(told(agreed(), false).is_empty(), "others hear of echoes only");
    assert!(told(setup(2).connected(), true).is_empty(), "no agreement, no marks");
}
