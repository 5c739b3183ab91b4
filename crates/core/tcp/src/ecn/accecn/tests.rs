//! Goal: counts come out right however much of what tells of them is lost, the counters that matter are on
//! the wire, and what cannot be is noticed.

use base::{Rng, Seq};
use wire::Ecn;
use wire::tcp::{AccEcn as Counters, CounterOrder, EcnBytes, MAX_OPTIONS_LEN};

use super::handshake::Mode;
use super::receiver::{Room, Telling};
use super::sender::{Feedback, Told};
use super::{Receiver, Sender};
use crate::{AccEcnInfo, Config, EcnPolicy, OptionSeen};

const MSS: u32 = 1_000;

fn feedback(ace: u32, counters: Option<Counters>, bytes: u32) -> Feedback {
    Feedback { ace: (ace & 7) as u8, counters, bytes, fin: false, mss: MSS, orderly: true }
}

fn told_by(sender: &Sender) -> AccEcnInfo {
    let mut info = AccEcnInfo::default();
    sender.describe(&mut info);
    info
}

fn counters(ect0: u32, ce: u32, ect1: u32) -> Option<Counters> {
    Some(Counters::new(CounterOrder::Ect0First, 3, &EcnBytes { ect0, ce, ect1 }))
}

/// RFC 9768, 3.1.2-1, 3.1.2-2, 3.1.2-3, 3.1.2-4, 3.1.2-5, 3.1.3-1 and 3.1.3-2.
#[test]
fn table_2() {
    use Mode::{Accurate, Classic, Without};
    let client = [Without, Classic, Accurate, Accurate, Accurate, Accurate, Accurate, Without];
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(Mode::of_syn_ack), client);
    let server = |ecn| {
        let config = Config { ecn, ..Config::default() };
        [0, 1, 2, 3, 4, 5, 6, 7].map(|ace| Mode::of_syn(&config, ace))
    };
    for policy in [EcnPolicy::Accurate, EcnPolicy::OnAccurate, EcnPolicy::PassiveAccurate] {
        let all = [Without, Accurate, Accurate, Classic, Accurate, Accurate, Accurate, Accurate];
        assert_eq!(server(policy), all);
    }
    for policy in [EcnPolicy::On, EcnPolicy::Passive] {
        assert_eq!(server(policy), [Without, Without, Without, Classic, Without, Without, Without, Classic]);
    }
    assert_eq!(server(EcnPolicy::Off), [Without; 8]);
}

/// RFC 9768, 3.2.2.5.2-1: the examples of appendix A.2.
#[test]
fn cycles_of_the_count() {
    // Bytes and ACE's step; whether stretches are usual; bytes marked by the counters, if any; the count.
    let rows = [
        (9, 2, false, None, 2),
        (10, 2, false, None, 10),
        (10, 2, true, None, 2),
        (20, 0, false, None, 16),
        (7, 7, false, None, 7),
        // An ACE that moved further than data was acknowledged is right: control packets were marked.
        (1, 5, false, None, 5),
        (10, 2, false, Some(1_460), 2),
        (10, 2, false, Some(10_000), 10),
        (18, 0, false, Some(0), 0),
        (18, 0, false, Some(8_000), 8),
        (18, 0, false, Some(15_500), 16),
        (30, 3, false, Some(19_000), 19),
    ];
    for (segments, step, stretched, marked, count) in rows {
        let mut sender = Sender::new();
        sender.on_sent(MSS, MSS);
        for _ in 0..50 {
            let bytes = if stretched { 6 * MSS } else { MSS };
            assert_eq!(sender.on_feedback(&feedback(5, None, bytes)).marks, 0);
        }
        let bytes = segments * MSS;
        let counters = marked.and_then(|marked| counters(1 + bytes - marked, marked, 1));
        let told = sender.on_feedback(&feedback(5 + step, counters, bytes));
        assert_eq!(told.marks, count, "{segments} {step} {stretched} {marked:?}");
        assert_eq!(told_by(&sender).delivered_ce, count);
        assert_eq!(told.marked_bytes, marked.unwrap_or((count * MSS).min(bytes)));
    }
}

/// The whole path of a count: packets arrive or not, marked or not, and what tells of them is lost or not. With
/// counters in every acknowledgment the bytes are exact, and packets too; without, packets are as long as each
/// acknowledgment that arrives is of fewer than eight.
/// RFC 9768, 3.2.2.2-2, 3.2.2.5.2-1 and 3.2.3.1-2.
#[test]
fn counts_survive_lost_acknowledgments() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (with, mark, lose) = (seed % 2 == 0, rng.below(100) as f64 / 100.0, rng.below(90) as f64 / 100.0);
        let (mut receiver, mut sender) = (Receiver::new(Ecn::NotCapable), Sender::new());
        let mut truth = EcnBytes { ect0: 0, ce: 0, ect1: 0 };
        let (mut marked, mut waits, mut bytes) = (0, 0, 0);
        sender.on_sent(MSS, MSS);
        for packet in 0..2_000 {
            let codepoint = match rng.chance(mark) {
                true => Ecn::Marked,
                false => [Ecn::Capable0, Ecn::Capable1][usize::from(rng.chance(0.1))],
            };
            receiver.on_packet(codepoint, 1, MSS, true);
            (waits, bytes) = (waits + 1, bytes + MSS);
            marked += u32::from(codepoint == Ecn::Marked);
            match codepoint {
                Ecn::Marked => truth.ce += MSS,
                Ecn::Capable0 => truth.ect0 += MSS,
                _ => truth.ect1 += MSS,
            }
            // Without counters a gap of more than seven packets is ambiguous.
            let last = packet == 1_999 || (!with && waits == 7);
            if rng.chance(lose) && !last {
                continue;
            }
            let room = Room { stamps: true, blocks: 0, linux: seed % 4 == 0 };
            let option = receiver.option(0, room).map(|(option, _)| option).filter(|_| with);
            let told = sender.on_feedback(&feedback(receiver.packets(), option, bytes));
            assert!(!told.absurd, "seed {seed}: {told:?}");
            receiver.on_told();
            (waits, bytes) = (0, 0);
            let info = told_by(&sender);
            if with {
                assert_eq!(info.delivered_bytes, truth, "seed {seed}, packet {packet}");
            }
            assert_eq!(info.delivered_ce, marked, "seed {seed}, packet {packet}");
        }
    }
}

/// RFC 9768, 3.2.3.2.3-1, 3.2.3.2.4-1 and 3.2.3-2.
#[test]
fn first_options() {
    let seen = |counters| {
        let mut sender = Sender::new();
        sender.meet_option(counters);
        told_by(&sender).option_seen
    };
    assert_eq!(seen(None), OptionSeen::Never);
    assert_eq!(seen(counters(1, 0, 1)), OptionSeen::Counters);
    assert_eq!(seen(counters(0, 0, 1)), OptionSeen::Zeroed);
    assert_eq!(seen(counters(1, 0, 0)), OptionSeen::Zeroed);
    assert_eq!(seen(counters(77, 5, 9)), OptionSeen::Counters, "others begin as they like");
    assert_eq!(
        seen(Some(Counters::new(CounterOrder::Ect1First, 0, &EcnBytes::default()))),
        OptionSeen::Empty
    );
    let mut sender = Sender::new();
    sender.meet_option(counters(0, 0, 0));
    let told = sender.on_feedback(&feedback(6, counters(1, 900, 1), 1_000));
    assert_eq!((told.marks, told.marked_bytes), (1, 1_000), "zeroed once, ignored for ever");
}

/// RFC 9768, 3.2.3.1-2.
#[test]
fn counters_wrap_and_do_not_go_back() {
    let mut sender = Sender::new();
    let mut ce = 0u32;
    for _ in 0..40 {
        ce = ce.wrapping_add(1 << 22);
        let told = sender.on_feedback(&feedback(5, counters(1, ce & 0xff_ffff, 1), 1 << 22));
        assert_eq!(told.marked_bytes, 1 << 22);
    }
    let back = sender.on_feedback(&feedback(5, counters(1, (ce - 1) & 0xff_ffff, 1), 1_000));
    assert_eq!((back.marks, back.marked_bytes), (0, 0));
    assert_eq!(told_by(&sender).delivered_bytes.ce, ce);
}

/// RFC 9768, 3.2.3.2.5-2.
#[test]
fn bytes_marked_in_no_packet() {
    let absurd = |bytes, orderly| {
        let mut sender = Sender::new();
        sender.on_sent(MSS, MSS);
        sender.on_feedback(&Feedback { orderly, ..feedback(5, counters(1, 1_000, 1), bytes) }).absurd
    };
    assert!(absurd(2 * MSS, true));
    assert!(!absurd(8 * MSS, true), "a cycle may have passed");
    assert!(!absurd(2 * MSS, false), "what arrived twice was marked twice");
}

/// RFC 9768, 3.2.2.3-3.
#[test]
fn everything_marked_for_four_rounds() {
    let run = |sound: Option<u32>| {
        let mut sender = Sender::new();
        let mut found = None;
        for round in 0..8u32 {
            let una = Seq::new(round * 10);
            for nth in 0..10 {
                let marks = u32::from(sound != Some(round));
                let told = Told { segments: 1, marks, ..Told::default() };
                if sender.finds_fault(&told, una + nth, una + 10) {
                    assert_eq!(found.replace(round), None, "once");
                }
            }
        }
        found
    };
    assert_eq!(run(None), Some(4));
    assert_eq!(run(Some(3)), None, "one packet without a mark is enough");
    assert_eq!(run(Some(6)), Some(4));
}

/// RFC 9768, 3.2.2.5.1-1 and 3.2.2.5.1-2.
#[test]
fn which_packets_earn_an_acknowledgment() {
    let mut receiver = Receiver::new(Ecn::NotCapable);
    assert!(!receiver.on_packet(Ecn::Capable0, 1, 100, true));
    assert!(receiver.on_packet(Ecn::Marked, 1, 100, true), "a change");
    receiver.on_told();
    assert!(!receiver.on_packet(Ecn::Marked, 1, 100, true));
    assert!(receiver.on_packet(Ecn::Marked, 1, 100, true), "two marks");
    receiver.on_told();
    assert!(receiver.on_packet(Ecn::Marked, 5, 500, true), "five packets in one");
    assert_eq!(receiver.packets(), 5 + 8);
    receiver.on_told();
    assert!(!receiver.on_packet(Ecn::Capable0, 1, 100, true), "back to none");
    assert!(!receiver.on_packet(Ecn::Marked, 1, 0, false), "no data, no change");
    assert!(!receiver.on_packet(Ecn::Marked, 1, 0, false));
    assert!(receiver.on_packet(Ecn::Marked, 1, 0, false), "three marks on acknowledgments");
    receiver.on_told();
    assert!(!receiver.on_packet(Ecn::Marked, 0, 100, true), "the rest of a packet that came in pieces");
    assert_eq!(receiver.packets(), 5 + 11);
}

/// Against the rules as they are written: the header never overflows, two blocks are never given up, what changed is
/// always there, and an option that would fit is not left out.
/// RFC 9768, 3.2.3.3-2, 3.2.3.3-5 and 3.2.3.3-6.
#[test]
fn options_fit() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let mut receiver = Receiver::new(Ecn::NotCapable);
        let mut sent = EcnBytes { ect0: 1, ce: 0, ect1: 1 };
        let mut now = sent;
        for _ in 0..10 {
            let codepoint =
                [Ecn::NotCapable, Ecn::Capable0, Ecn::Capable1, Ecn::Marked][rng.below(4) as usize];
            receiver.on_packet(codepoint, 1, 10, true);
            match codepoint {
                Ecn::NotCapable => {}
                Ecn::Capable0 => now.ect0 += 10,
                Ecn::Capable1 => now.ect1 += 10,
                Ecn::Marked => now.ce += 10,
            }
            let stamps = rng.chance(0.5);
            let blocks = rng.below(if stamps { 4 } else { 5 }) as usize;
            let room = Room { stamps, blocks, linux: rng.chance(0.3) };
            let base = if stamps { 12 } else { 0 };
            let Some((option, kept)) = receiver.option(0, room) else {
                assert!(blocks > 0 && now != sent, "seed {seed}: it would have fitted");
                continue;
            };
            let sack = if kept > 0 { 4 + 8 * kept } else { 0 };
            let len = base + sack + Counters::padded_len(option.fields(), kept > 0);
            assert!(len <= MAX_OPTIONS_LEN && kept <= blocks && kept >= blocks.min(2), "seed {seed}");
            let told = |counter: Option<u32>, before| counter.unwrap_or(before);
            let shown = EcnBytes {
                ect0: told(option.ect0(), sent.ect0),
                ce: told(option.ce(), sent.ce),
                ect1: told(option.ect1(), sent.ect1),
            };
            assert_eq!(shown, now, "seed {seed}: {option:?}");
            sent = now;
        }
    }
}

/// RFC 9768, 3.2.3.3-1 and 3.2.3.2.2-2.
#[test]
fn when_options_are_due() {
    let mut receiver = Receiver::new(Ecn::NotCapable);
    let beacon = Some(1_000);
    receiver.option(0, Room { stamps: false, blocks: 0, linux: false });
    assert!(!receiver.owes_option(Telling::Changed, 500, beacon));
    assert!(receiver.owes_option(Telling::Changed, 1_000, beacon));
    assert!(!receiver.owes_option(Telling::Changed, 1_000, None));
    assert!(receiver.owes_option(Telling::Always, 500, None));
    receiver.on_packet(Ecn::Capable0, 1, 10, true);
    assert!(receiver.owes_option(Telling::Changed, 500, beacon));
    assert!(!receiver.owes_option(Telling::Never, 500, beacon));
    assert!(!receiver.on_repeated(Seq::new(7)));
    assert!(!receiver.on_repeated(Seq::new(8)), "other data");
    assert!(receiver.on_repeated(Seq::new(8)));
    assert!(!receiver.on_repeated(Seq::new(8)), "told once");
    assert!(!receiver.owes_option(Telling::Always, 500, beacon));
    assert!(receiver.owes_option(Telling::Stubborn, 500, beacon));
}
