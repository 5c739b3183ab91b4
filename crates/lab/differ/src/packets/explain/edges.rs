//! Goal: rows about windows, ends and timers explain what their reasons say and nothing beside it.
use super::super::input::Switch;
use super::super::trace::Moment;
use super::later::stamped;
use super::tests::{call, judge_last, moment, packet, send};
use super::*;
use drill::lang::{Icmp, Packet, Quoted, Span, TcpOption};

pub(super) const ACK: u8 = Flags::ACK;
pub(super) const FIN_ACK: u8 = Flags::ACK | Flags::FIN;
pub(super) const SYN_ACK: u8 = Flags::SYN | Flags::ACK;
pub(super) const RST: u8 = Flags::RST;

/// A segment with the numbers `seq` to `seq + len`.
pub(super) fn seg(bits: u8, seq: u32, len: u32, ack: u32, window: u16) -> Packet {
    packet(bits, seq, len, (bits & ACK != 0).then_some(ack), window)
}

/// Packets that an end sent, each so many milliseconds after the step.
pub(super) fn sends(packets: &[(u64, Packet)]) -> Moment {
    moment(&packets.iter().map(|(at, packet)| (*at, packet)).collect::<Vec<_>>())
}

fn answers(answer: &str) -> Moment {
    Moment { answer: Some(answer.into()), seen: Vec::new() }
}

/// Steps, each with what both ends did then.
pub(super) type Story = Vec<(Step, Moment)>;

/// A connection that the peer has opened.
pub(super) fn opened() -> Story {
    let syn_ack = sends(&[(0, seg(SYN_ACK, 0, 0, 1, 65_535))]);
    vec![(send(seg(Flags::SYN, 0, 0, 0, 65_535)), syn_ack), (send(seg(ACK, 1, 0, 1, 65_535)), sends(&[]))]
}

/// Adds a write of `count` segments of `len` bytes.
pub(super) fn wrote(mut story: Story, count: u32, len: u32) -> Story {
    let all: Vec<_> = (0..count).map(|n| (0, seg(ACK, 1 + n * len, len, 1, 65_535))).collect();
    story.push((call(Call::Write(count * len)), sends(&all)));
    story
}

/// Returns the keys of the rows of what the kernel and this stack did after the last step, `None` where no row explains
/// it.
pub(super) fn keys(story: Story, last: Step, kernel: Moment, ours: Moment) -> Option<Vec<&'static str>> {
    let (mut steps, common): (Vec<_>, Vec<_>) = story.into_iter().unzip();
    steps.push(last);
    let (keys, is_open) = judge_last(steps, &common, kernel, ours);
    (!is_open).then_some(keys)
}

#[test]
fn an_acknowledgment_lies_within_a_window_that_equal_numbers_lowered() {
    let ack = |at| sends(&[(0, seg(ACK, at, 0, 1, 65_535))]);
    let judged = |window, ours| {
        keys(wrote(opened(), 5, 1_000), send(seg(ACK, 1, 0, 1, window)), ack(5_001), ack(ours))
    };
    assert_eq!(judged(1, 2), Some(vec!["window_lowered"]));
    assert_eq!(judged(1, 3), None, "another number");
    assert_eq!(judged(65_535, 2), None, "the window is the same");
}

#[test]
fn a_number_beyond_the_window_by_less_than_the_scale_is_changed_in_every_segment() {
    let judged = |window, bits| {
        let moment = |at| sends(&[(0, seg(bits, at, 0, 1, 65_535))]);
        let story = wrote(opened(), 1, 1_000);
        keys(story, send(seg(ACK, 2, 0, 1, window)), moment(1_001), moment(1 + u32::from(window)))
    };
    assert_eq!(judged(999, RST | ACK), Some(vec!["edge_by_scale"]));
    assert!(judged(873, ACK).is_some());
    assert_eq!(judged(800, RST | ACK), None, "by more");
}

#[test]
fn a_fin_waits_on_linux_while_as_many_segments_as_the_window_are_in_flight() {
    let fin = |at| (0, seg(FIN_ACK, at, 0, 1, 65_535));
    let judged = |count, kernel: &[(u64, Packet)], rest: &[(u64, Packet)]| {
        let ours = [&[fin(1 + count * 100)], rest].concat();
        keys(wrote(opened(), count, 100), call(Call::Close), sends(kernel), sends(&ours))
    };
    let again = [(220, seg(ACK, 1, 100, 1, 65_535))];
    assert_eq!(judged(10, &[], &[]), Some(vec!["fin_beyond_window"]));
    assert!(judged(10, &again, &again).is_some());
    assert!(judged(10, &[], &again).is_some(), "the kernel's comes after the watch");
    assert_eq!(judged(9, &[], &[]), None, "a segment less");
    let other = [(0, seg(ACK, 1_001, 100, 1, 65_535))];
    assert_eq!(judged(10, &other, &[]), None, "the kernel sends something else");
}

#[test]
fn what_a_timer_lets_go_is_repeated_later_on_linux() {
    let byte = |at| (at, seg(ACK, 1, 1, 1, 65_535));
    let judged = |corks| {
        let mut story = opened();
        story.push((call(Call::Set(Switch::Cork(corks))), sends(&[])));
        story.push((call(Call::Write(1)), sends(&[byte(210), byte(420)])));
        keys(story, call(Call::Poll), sends(&[byte(400)]), sends(&[byte(150)]))
    };
    assert_eq!(judged(true), Some(vec!["forced_probe"]));
    assert_eq!(judged(false), None);
}

#[test]
fn a_false_echo_moves_the_tail_loss_probe() {
    let judged_of = |first: Packet, echo, fresh: &[u32]| {
        let ack = stamped(seg(ACK, 1, 0, 1_001, 65_535), 100, 0);
        let mut story = opened();
        story.push((call(Call::Write(1_000)), sends(&[(0, first)])));
        story.push((Step { after: 10, action: Action::Send(Box::new(ack), Echo::Latest(echo)) }, sends(&[])));
        let data = |at: u32, after: u64| (after, seg(ACK, at, 1_000, 1, 65_535));
        let kernel = [data(1_001, 0), data(2_001, 0)];
        let later = fresh.iter().map(|at| data(*at, 30)).collect();
        let ours = [kernel.to_vec(), later].concat();
        keys(story, call(Call::Write(30_000)), sends(&kernel), sends(&ours))
    };
    let judged = |echo, fresh: &[u32]| judged_of(stamped(data(1), 1, 100), echo, fresh);
    assert_eq!(judged(9, &[3_001]), Some(vec!["false_echo"]));
    assert_eq!(judged_of(data(1), 9, &[3_001]), None, "there are no timestamps");
    assert_eq!(judged(9, &[4_001]), None, "not what comes next");
    assert_eq!(judged(9, &[3_001, 4_001]), None, "more than a probe");
    assert_eq!(judged(0, &[3_001]), None, "a true echo");
}

#[test]
fn what_a_timer_sends_after_a_pause_ends_the_growth_of_the_window() {
    let judged = |at, ours| {
        let mut story = wrote(opened(), 10, 1_000);
        story.push((send(seg(ACK, 1, 0, 10_001, 500)), sends(&[])));
        story.push((call(Call::Write(30_000)), sends(&[(at, seg(ACK, 10_001, 500, 1, 65_535))])));
        let burst = |count| {
            let data = |n: u32| (0, seg(ACK, 10_501 + n * 1_000, 1_000, 1, 65_535));
            sends(&(0..count).map(data).collect::<Vec<_>>())
        };
        keys(story, send(seg(ACK, 1, 0, 10_501, 65_535)), burst(21), burst(ours))
    };
    assert_eq!(judged(220, 10), Some(vec!["restart_by_timer"]));
    assert_eq!(judged(220, 15), None, "not the initial window");
    assert_eq!(judged(0, 10), None, "no timer's");
}

#[test]
fn a_reset_of_crossed_syns_is_told_by_so_error_as_well() {
    let judged = |resets, ours| {
        let mut story = vec![
            (call(Call::Connect), sends(&[(0, seg(Flags::SYN, 0, 0, 0, 65_535))])),
            (send(seg(Flags::SYN, 0, 0, 0, 65_535)), sends(&[(0, seg(SYN_ACK, 0, 0, 1, 65_535))])),
        ];
        if resets {
            story.push((send(seg(RST, 1, 0, 0, 0)), sends(&[])));
        }
        // To what is gone.
        story.push((send(seg(ACK, 1, 0, 1, 65_535)), sends(&[(0, seg(RST, 1, 0, 0, 0))])));
        keys(story, call(Call::Error), answers("ECONNRESET"), answers(ours))
    };
    assert_eq!(judged(true, "ECONNREFUSED"), Some(vec!["crossed_reset"]));
    assert_eq!(judged(true, "EPIPE"), None);
    assert_eq!(judged(false, "ECONNREFUSED"), None);
}

#[test]
fn another_syn_leaves_a_connection_half_open() {
    let judged = |syn: Packet| {
        let story = vec![
            (call(Call::Connect), sends(&[(0, seg(Flags::SYN, 0, 0, 0, 65_535))])),
            (send(seg(Flags::SYN, 0, 0, 0, 65_535)), sends(&[(0, seg(SYN_ACK, 0, 0, 1, 65_535))])),
            (send(syn), sends(&[(0, seg(ACK, 1, 0, 1, 65_535))])),
        ];
        let fin = sends(&[(0, seg(FIN_ACK, 1, 0, 1, 65_535))]);
        keys(story, call(Call::Close), fin, sends(&[(300, seg(SYN_ACK, 0, 0, 1, 65_535))]))
    };
    assert_eq!(judged(seg(SYN_ACK, 1, 0, 1, 65_535)), Some(vec!["crossed_close"]));
    assert_ne!(judged(seg(SYN_ACK, 0, 0, 1, 65_535)), Some(vec!["crossed_close"]));
}

#[test]
fn linux_sends_once_more_before_the_reset_that_text_for_a_closed_socket_gets() {
    let data = (0, seg(ACK, 2_001, 1_000, 1, 65_535));
    let judged = |len, ack, ours: u32| {
        let mut story = wrote(opened(), 2, 1_000);
        story.push((call(Call::Close), sends(&[])));
        let reset = |at| (0, seg(RST, at, 0, 0, 0));
        let kernel = sends(&[data.clone(), reset(ack)]);
        keys(story, send(seg(ACK, 1, len, ack, 65_535)), kernel, sends(&[reset(ours)]))
    };
    assert_eq!(judged(100, 1_001, 1_001), Some(vec!["sent_before_reset"]));
    assert_eq!(judged(100, 1_001, 1), None, "another reset");
    assert_eq!(judged(100, 1, 1), None, "nothing is acknowledged");
}

/// A connection in TIME-WAIT.
fn over() -> Story {
    let mut story = opened();
    story.push((call(Call::Shutdown(Half::Write)), sends(&[(0, seg(FIN_ACK, 1, 0, 1, 65_535))])));
    story.push((send(seg(FIN_ACK, 1, 0, 2, 65_535)), sends(&[(0, seg(ACK, 2, 0, 2, 65_535))])));
    story
}

#[test]
fn a_syn_with_fin_ends_time_wait_on_linux() {
    let judged = |bits| {
        let mut story = over();
        story.push((send(seg(bits, 9, 0, 0, 65_535)), sends(&[])));
        let reset = sends(&[(0, seg(RST, 2, 0, 0, 0))]);
        keys(story, send(seg(ACK, 2, 0, 2, 65_535)), reset, sends(&[]))
    };
    assert_eq!(judged(Flags::SYN | Flags::FIN), Some(vec!["time_wait_syn_fin"]));
    assert_eq!(judged(Flags::FIN), None);
}

#[test]
fn a_syn_with_a_timestamp_follows_a_connection_without_one() {
    let judged = |is_stamped| {
        let mut syn = seg(Flags::SYN, 2, 0, 0, 65_535);
        if let (Body::Tcp(tcp), true) = (&mut syn.body, is_stamped) {
            tcp.options = Some(vec![TcpOption::Timestamps { val: Some(100), ecr: 0, absolute: false }]);
        }
        let kernel = sends(&[(0, seg(ACK, 2, 0, 2, 65_535))]);
        keys(over(), send(syn), kernel, sends(&[(0, seg(SYN_ACK, 0, 0, 3, 65_535))]))
    };
    assert_eq!(judged(true), Some(vec!["time_wait_stamped_syn"]));
    assert_eq!(judged(false), None);
}

#[test]
fn an_acknowledgment_behind_a_hole_is_a_duplicate_here() {
    let fresh = sends(&[(0, seg(ACK, 2_001, 1_000, 1, 65_535))]);
    let judged = |seq, ack| {
        keys(wrote(opened(), 2, 1_000), send(seg(ACK, seq, 0, ack, 65_535)), sends(&[]), fresh.clone())
    };
    assert_eq!(judged(2, 1), Some(vec!["duplicate_behind"]));
    assert_eq!(judged(1, 1), None, "the number of the last window update");
    assert_eq!(judged(2, 1_001), None, "it acknowledges something");
}

#[test]
fn text_beside_the_acknowledgment_of_the_last_fin_is_answered_here_alone() {
    let judged = |ack| {
        let mut story = opened();
        story.push((send(seg(FIN_ACK, 1, 0, 1, 65_535)), sends(&[(0, seg(ACK, 1, 0, 2, 65_535))])));
        story.push((call(Call::Shutdown(Half::Write)), sends(&[(0, seg(FIN_ACK, 1, 0, 2, 65_535))])));
        let ours = sends(&[(0, seg(ACK, 2, 0, 2, 65_535))]);
        keys(story, send(seg(ACK, 1, 1, ack, 65_535)), sends(&[]), ours)
    };
    assert_eq!(judged(2), Some(vec!["text_beside_fin_ack"]));
    assert_eq!(judged(1), None);
}

#[test]
fn every_segment_leaves_room_for_the_block_of_an_early_fin() {
    let judged = |bits, len| {
        let mut story = opened();
        story.push((send(seg(bits, 2, 1, 1, 65_535)), sends(&[(0, seg(ACK, 1, 0, 1, 65_535))])));
        let data = |len| {
            let cut = |n| (0, seg(ACK, 1 + n * len, len, 1, 65_535));
            sends(&(0..10).map(cut).collect::<Vec<_>>())
        };
        keys(story, call(Call::Write(20_000)), data(len), data(1_000))
    };
    assert_eq!(judged(FIN_ACK, 988), Some(vec!["block_with_fin"]));
    assert_eq!(judged(FIN_ACK, 950), None, "more than all blocks take");
    assert_eq!(judged(ACK, 988), None, "no FIN");
}

#[test]
fn a_repeated_syn_is_echoed_here_alone() {
    let stamped = |mut packet: Packet, val, ecr| {
        if let Body::Tcp(tcp) = &mut packet.body {
            tcp.options =
                Some(vec![TcpOption::Timestamps { val: Some(val), ecr, absolute: false }, TcpOption::Mss(9)]);
        }
        packet
    };
    let syn = |val| stamped(seg(Flags::SYN, 0, 0, 0, 65_535), val, 0);
    let answer = |ecr| sends(&[(0, stamped(seg(SYN_ACK, 0, 0, 1, 65_535), 1, ecr))]);
    let judged = |ours| keys(vec![(send(syn(100)), answer(100))], send(syn(130)), answer(100), answer(ours));
    assert_eq!(judged(130), Some(vec!["repeated_syn_echo"]));
    assert_eq!(judged(120), None);
}

pub(super) fn icmp(code: &str, mtu: Option<u32>, at: u32) -> Packet {
    let quoted = Some(Quoted::Tcp(Range { start: at, end: at }, 0));
    let (kind, code) = ("unreachable".to_owned(), Some(code.to_owned()));
    let body = Body::Icmp(Icmp { kind, code, mtu, id: None, quoted, span: Span::default() });
    Packet { body, ..seg(ACK, 0, 0, 0, 0) }
}

#[test]
fn an_icmp_error_about_a_syn_waits_in_linuxs_queue_beyond_the_attempt() {
    let judged = |fails_first| {
        let error = (send(icmp("host_prohibited", None, 0)), sends(&[]));
        let late = (send(seg(SYN_ACK, 0, 0, 1, 65_535)), sends(&[(0, seg(RST, 1, 0, 0, 0))]));
        let mut story = vec![(call(Call::Connect), sends(&[(0, seg(Flags::SYN, 0, 0, 0, 65_535))]))];
        story.extend(if fails_first { [error, late] } else { [late, error] });
        keys(story, call(Call::Poll), answers("0x201d"), answers("0x2015"))
    };
    assert_eq!(judged(true), Some(vec!["icmp_queued"]));
    assert_eq!(judged(false), None, "it came about an open connection");
}

#[test]
fn a_half_open_connection_of_a_closed_listener_ends_with_a_reset_here() {
    let judged = |closes| {
        let mut story = opened();
        story.pop();
        story.push((call(if closes { Call::CloseListener } else { Call::Poll }), sends(&[])));
        keys(story, call(Call::Poll), sends(&[]), sends(&[(300, seg(RST | ACK, 1, 0, 1, 0))]))
    };
    assert_eq!(judged(true), Some(vec!["listener_closed"]));
    assert_eq!(judged(false), None);
}

#[test]
fn after_packet_too_big_each_cuts_anew_what_is_in_flight() {
    let judged = |step| {
        let cut = |from, count: u32| {
            let piece = |n| (0, seg(ACK, from + n * 500, 500, 1, 65_535));
            sends(&(0..count).map(piece).collect::<Vec<_>>())
        };
        let mut story = wrote(opened(), 4, 1_000);
        story.push((call(Call::Poll), sends(&[(30, seg(ACK, 3_001, 1_000, 1, 65_535))])));
        keys(story, step, cut(1_001, 2), cut(1, 8))
    };
    assert_eq!(judged(send(icmp("frag_needed", Some(552), 2_001))), Some(vec!["too_big"]));
    assert_eq!(judged(send(seg(ACK, 1, 0, 1, 65_535))), None, "no error came");
}

#[test]
fn the_timer_behind_a_refused_answer_runs_on_when_syns_cross() {
    let judged = |acks, at| {
        let mut story = vec![(call(Call::Connect), sends(&[(0, seg(Flags::SYN, 0, 0, 0, 65_535))]))];
        if acks {
            story.push((send(seg(ACK, 1, 0, 9, 65_535)), sends(&[(0, seg(RST, 9, 0, 0, 0))])));
        }
        let answer = sends(&[(0, seg(SYN_ACK, 0, 0, 1, 65_535))]);
        story.push((send(seg(Flags::SYN, 0, 0, 0, 65_535)), answer));
        keys(story, call(Call::Poll), sends(&[(at, seg(SYN_ACK, 0, 0, 1, 65_535))]), sends(&[]))
    };
    assert_eq!(judged(true, 200), Some(vec!["syn_again"]));
    assert_eq!(judged(false, 200), None, "no answer was refused");
    assert_eq!(judged(true, 0), None, "no timer's");
}

#[test]
fn a_block_across_an_early_fin_is_cut_there() {
    let told = |end| {
        let mut ack = seg(ACK, 1, 0, 1, 65_535);
        if let (Body::Tcp(tcp), Some(end)) = (&mut ack.body, end) {
            tcp.options = Some(vec![TcpOption::Sack(vec![Range { start: 101, end }])]);
        }
        sends(&[(0, ack)])
    };
    let judged = |ours| {
        let mut story = opened();
        story.push((send(seg(FIN_ACK, 101, 100, 1, 65_535)), told(Some(201))));
        keys(story, send(seg(ACK, 202, 100, 1, 65_535)), told(Some(302)), told(ours))
    };
    assert_eq!(judged(Some(201)), Some(vec!["blocks_beyond_fin"]));
    assert_eq!(judged(Some(151)), None, "a part is missing");
    assert_eq!(judged(None), None, "the data before the FIN is not reported");
}

#[test]
fn an_answer_before_the_syn_is_reset_here_though_a_timer_repeats_the_syn_ack() {
    let judged = |ack| {
        let syn_ack = || seg(SYN_ACK, 0, 0, 1, 65_535);
        let story = vec![
            (call(Call::Connect), sends(&[(0, seg(Flags::SYN, 0, 0, 0, 65_535))])),
            (send(seg(Flags::SYN, 0, 0, 0, 65_535)), sends(&[(0, syn_ack())])),
        ];
        let here = sends(&[(0, seg(RST, ack, 0, 0, 0)), (300, syn_ack())]);
        keys(story, send(seg(ACK, 1, 0, ack, 65_535)), sends(&[]), here)
    };
    assert_eq!(judged(0), Some(vec!["crossed_old_ack"]));
    assert_eq!(judged(1), None, "it acknowledges the SYN");
}

/// SYNs that crossed, the peer's with this window.
fn crossed(window: u16) -> Story {
    vec![
        (call(Call::Connect), sends(&[(0, seg(Flags::SYN, 0, 0, 0, 65_535))])),
        (send(seg(Flags::SYN, 0, 0, 0, window)), sends(&[(0, seg(SYN_ACK, 0, 0, 1, 65_535))])),
    ]
}

#[test]
fn a_shut_window_of_a_crossing_syn_changes_the_number_of_an_acknowledgment() {
    let judged = |window, ours| {
        let ack = |at| sends(&[(0, seg(ACK, at, 0, 1, 65_535))]);
        keys(crossed(window), send(seg(ACK, 70_001, 0, 9, 65_535)), ack(0), ack(ours))
    };
    assert_eq!(judged(0, 1), Some(vec!["crossed_shut"]));
    assert_eq!(judged(0, 2), None, "another number");
    assert_eq!(judged(1, 1), None, "the window has room for the SYN");
}

#[test]
fn a_syn_ack_is_acknowledged_late_on_linux_without_quick_acknowledgments() {
    let judged = |on, bits| {
        let story = vec![
            (call(Call::Connect), sends(&[(0, seg(Flags::SYN, 0, 0, 0, 65_535))])),
            (call(Call::Set(Switch::QuickAck(on))), sends(&[])),
        ];
        keys(story, send(seg(bits, 0, 0, 1, 65_535)), sends(&[]), sends(&[(0, seg(ACK, 1, 0, 1, 65_535))]))
    };
    assert_eq!(judged(false, SYN_ACK), Some(vec!["synack_delayed"]));
    assert_eq!(judged(true, SYN_ACK), None);
    assert_eq!(judged(false, Flags::SYN), None, "it is no SYN-ACK");
}

#[test]
fn a_timer_fills_a_small_window_later_on_linux() {
    let judged = |window, kernel, ours| {
        let byte = |at| (at, seg(ACK, 1, 1, 1, 65_535));
        let story = wrote(opened(), 0, 1_000);
        let both = |at: &[u64]| sends(&at.iter().map(|at| byte(*at)).collect::<Vec<_>>());
        keys(story, send(seg(FIN_ACK, 9, 0, 1, window)), both(&[kernel]), both(&[ours, ours + 210]))
    };
    assert_eq!(judged(1, 220, 65), Some(vec!["override_apart"]));
    assert_eq!(judged(1, 65, 65), None, "at the same time");
    assert_eq!(judged(2, 220, 65), None, "the window is not full");
}

#[test]
fn a_segment_beyond_the_window_acknowledges_nothing() {
    let judged = |seq| {
        let mut story = wrote(opened(), 1, 988);
        story.push((call(Call::Write(11)), sends(&[(0, seg(ACK, 989, 11, 1, 65_535))])));
        let last = seg(ACK, 989, 11, 1, 65_535);
        keys(story, send(seg(FIN_ACK, seq, 0, 989, 65_535)), sends(&[(20, last)]), sends(&[]))
    };
    assert_eq!(judged(0x8000_0001), Some(vec!["probe_of_pieces"]));
    assert_ne!(judged(1), Some(vec!["probe_of_pieces"]), "one piece is left");
}

/// Data of 1000 bytes.
pub(super) fn data(start: u32) -> Packet {
    seg(ACK, start, 1_000, 1, 65_535)
}

/// A segment with a SACK block.
pub(super) fn with_block(mut packet: Packet, start: u32, end: u32) -> Packet {
    if let Body::Tcp(tcp) = &mut packet.body {
        tcp.options = Some(vec![TcpOption::Sack(vec![Range { start, end }])]);
    }
    packet
}

/// Three segments, the first of them sent again, and an acknowledgment that both leave unanswered.
pub(super) fn timed_out(ack: Option<u32>) -> Story {
    let mut story = opened();
    let all = sends(&[(0, data(1)), (0, data(1_001)), (0, data(2_001)), (230, data(1))]);
    story.push((call(Call::Write(3_000)), all));
    story.extend(ack.map(|ack| (send(seg(ACK, 1, 0, ack, 65_535)), sends(&[]))));
    story
}

#[test]
fn a_window_that_was_undone_at_once_stays_wide() {
    let judged = |ack, again| {
        let kernel = sends(&[(0, data(3_001)), (200, data(again))]);
        keys(timed_out(Some(ack)), call(Call::Write(1_000)), kernel, sends(&[(200, data(again))]))
    };
    assert_eq!(judged(2_001, 2_001), Some(vec!["undone_at_once"]));
    assert_eq!(judged(1_001, 1_001), None, "it acknowledges what was sent again alone");
}

#[test]
fn a_window_that_was_undone_at_once_takes_what_the_other_end_sends_next() {
    let judged = |ack| {
        let again = |at| (at, data(ack));
        let kernel = sends(&[(0, data(3_001)), (57, seg(ACK, 4_001, 13, 1, 65_535)), again(300)]);
        let ours = sends(&[(57, data(3_001)), again(300)]);
        keys(timed_out(Some(ack)), call(Call::Write(1_013)), kernel, ours)
    };
    assert_eq!(judged(2_001), Some(vec!["undone_at_once"]));
    assert_eq!(judged(1_001), None, "it acknowledges what was sent again alone");
}

#[test]
fn the_last_data_waits_with_a_fin_beyond_the_window_on_linux_alone() {
    let judged = |window, written: u32| {
        let mut story = opened();
        story[1].0 = send(seg(ACK, 1, 0, 1, window));
        story.push((call(Call::Set(Switch::Cork(true))), answers("0")));
        let first = (0, seg(ACK, 1, 976, 1, 65_535));
        let wrote = Moment { answer: Some(written.to_string()), ..sends(&[first]) };
        story.push((call(Call::Write(written)), wrote));
        keys(story, call(Call::Close), sends(&[]), sends(&[(0, seg(ACK, 977, 24, 1, 65_535))]))
    };
    assert_eq!(judged(1_000, 1_000), Some(vec!["data_before_fin"]));
    assert_eq!(judged(1_001, 1_000), None, "the FIN has a place");
    assert_eq!(judged(1_000, 1_001), None, "there is more data");
}

#[test]
fn what_was_undone_at_once_leaves_the_rest_to_the_timer() {
    let judged = |ack| {
        let again = |at| sends(&[(at, data(ack))]);
        keys(timed_out(None), send(seg(ACK, 1, 0, ack, 65_535)), again(62), again(0))
    };
    assert_eq!(judged(2_001), Some(vec!["undone_at_once"]));
    assert_eq!(judged(1_001), None, "it acknowledges what was sent again alone");
}

#[test]
fn a_part_of_a_segment_lets_the_window_grow_here_alone() {
    let judged = |ack| {
        let mut story = opened();
        story.push((call(Call::Write(1_000)), sends(&[(0, data(1)), (230, data(1))])));
        story.push((call(Call::Write(1_000)), sends(&[])));
        keys(story, send(seg(ACK, 1, 0, ack, 65_535)), sends(&[]), sends(&[(0, data(1_001))]))
    };
    assert_eq!(judged(499), Some(vec!["part_in_segments"]));
    assert_eq!(judged(1_001), None, "a whole segment");
}

#[test]
fn a_part_of_a_segment_leaves_linuxs_timer_as_it_was() {
    let judged = |ack, at| {
        let mut story = wrote(opened(), 1, 100);
        story.push((send(seg(ACK, 1, 0, ack, 65_535)), sends(&[])));
        keys(story, call(Call::Write(1)), sends(&[(at, seg(ACK, 101, 1, 1, 65_535))]), sends(&[]))
    };
    assert_eq!(judged(50, 40), Some(vec!["partial_ack"]));
    assert_eq!(judged(50, 0), None, "no timer's");
    assert_eq!(judged(101, 40), None, "a whole segment");
}

#[test]
fn the_fin_of_a_refused_syn_is_none() {
    let judged = |bits| {
        let ack = |number| sends(&[(0, seg(ACK, 1, 0, number, 65_535))]);
        let mut story = opened();
        story.push((send(seg(bits, 2, 0, 1, 65_535)), ack(1)));
        story.push((send(seg(Flags::SYN | Flags::FIN, 499, 0, 0, 65_535)), ack(1)));
        keys(story, send(seg(ACK, 1, 100, 1, 65_535)), ack(101), ack(3))
    };
    assert_eq!(judged(FIN_ACK), Some(vec!["text_across_fin"]));
    assert_eq!(judged(ACK), None, "no FIN came early");
}

#[test]
fn the_number_0_is_one_that_may_be_expected() {
    let judged = |acks| {
        let syn_ack = sends(&[(0, seg(SYN_ACK, 0, 0, 0, 65_535))]);
        let mut story = vec![(send(seg(Flags::SYN, u32::MAX, 0, 0, 65_535)), syn_ack)];
        if acks {
            story.push((send(seg(ACK, 0, 0, 1, 65_535)), sends(&[])));
        }
        let kernel = sends(&[(0, seg(ACK, 1, 0, 0, 65_535))]);
        keys(story, send(seg(ACK, 0, 0, 0, 65_535)), kernel, sends(&[]))
    };
    assert_eq!(judged(true), Some(vec!["old_ack"]));
    assert_eq!(judged(false), None, "the connection is half open");
}

#[test]
fn a_timer_stands_beside_each_step_within_the_tolerance() {
    let judged = |pause: u64| {
        let (mut steps, mut common): (Vec<_>, Vec<_>) = opened().into_iter().unzip();
        steps.extend([call(Call::Write(1_000)), call(Call::Poll), call(Call::Write(1_000))]);
        common.extend([sends(&[(0, data(1))]), answers("0x4"), sends(&[])]);
        let mut kernel = common.clone();
        kernel[2] = sends(&[(0, data(1)), (200, data(1))]);
        let last = common.len() - 1;
        common[last] = sends(&[(0, data(1_001))]);
        let pauses: Vec<_> = [10, 10, 10, 227, pause, 450].map(Duration::from_millis).into();
        let trace = |moments| Trace { moments, pauses: pauses.clone(), ..Trace::default() };
        let input = Input { seed: 0, isn: 0, v6: false, steps };
        let verdict = judge(&input, &trace(kernel), &trace(common));
        verdict.open.is_none().then(|| verdict.explained.iter().map(|row| row.key).collect::<Vec<_>>())
    };
    assert_eq!(judged(10), Some(vec!["timer_beside_step"]));
    assert_eq!(judged(40), None, "the tolerance is over");
}

#[test]
fn linux_leaves_less_than_a_segment_to_a_timer_that_was_doubled() {
    let judged = |again: bool, len| {
        let mut story = opened();
        story.push((
            call(Call::Write(1_000)),
            sends(&[(0, data(1)), (230, data(1))][..1 + usize::from(again)]),
        ));
        let last = send(seg(ACK, 1, 0, 1_001, 500));
        keys(story, last, sends(&[]), sends(&[(210, seg(ACK, 1_001, len, 1, 65_535))]))
    };
    assert_eq!(judged(true, 500), Some(vec!["override_backed_off"]));
    assert_eq!(judged(true, 400), None, "the window is not full");
    assert_eq!(judged(false, 500), None, "the timer was not doubled");
}

#[test]
fn linux_waits_for_reordering_by_what_was_acknowledged() {
    let judged = |at| {
        let mut story = opened();
        let all = [(0, data(1)), (0, data(1_001)), (0, data(2_001)), (at, data(3_001))];
        story.push((call(Call::Write(4_000)), sends(&all)));
        let ack = with_block(seg(ACK, 1, 0, 1_001, 65_535), 3_001, 4_001);
        let kernel = sends(&[(0, data(4_001)), (10, data(1_001))]);
        keys(story, send(ack), kernel, sends(&[(0, data(1_001)), (0, data(4_001))]))
    };
    assert_eq!(judged(20), Some(vec!["round_trip_of_latest"]));
    assert_ne!(judged(0), Some(vec!["round_trip_of_latest"]), "all left at once");
}

#[test]
fn many_small_segments_fill_linuxs_send_buffer() {
    let judged = |window, ours| {
        let mut story = opened();
        story.pop();
        story.push((send(seg(ACK, 1, 0, 1, window)), sends(&[])));
        keys(story, call(Call::Write(20_000)), answers("4471"), answers(ours))
    };
    assert_eq!(judged(1, "20000"), Some(vec!["small_segments_in_buffer"]));
    assert_eq!(judged(1_000, "20000"), None, "the window takes a segment");
    assert_eq!(judged(1, "100"), None, "the kernel took more");
}

#[test]
fn a_syn_that_begins_before_the_window_of_a_closed_socket_is_dropped_on_linux() {
    let judged = |closes, seq| {
        let mut story = opened();
        let end = if closes { Call::Close } else { Call::Shutdown(Half::Write) };
        story.push((call(end), sends(&[(0, seg(FIN_ACK, 1, 0, 1, 65_535))])));
        story.push((send(seg(ACK, 1, 0, 2, 65_535)), sends(&[])));
        let last = send(seg(Flags::SYN, seq, 10, 0, 65_535));
        keys(story, last, sends(&[]), sends(&[(0, seg(ACK, 2, 0, 1, 65_535))]))
    };
    assert_eq!(judged(true, 0), Some(vec!["other_syn"]));
    assert_eq!(judged(false, 0), None, "the socket is open");
    assert_eq!(judged(true, 2), None, "it begins in the window");
}

#[test]
fn two_repetitions_of_a_syn_leave_linux_a_window_of_one_segment() {
    let judged = |acks, kernel| {
        let mut story = vec![(call(Call::Connect), sends(&[(0, seg(Flags::SYN, 0, 0, 0, 65_535))]))];
        if acks {
            story.push((send(seg(ACK, 1, 0, 9, 65_535)), sends(&[(0, seg(RST, 9, 0, 0, 0))])));
        }
        story.push((send(seg(SYN_ACK, 0, 0, 1, 65_535)), sends(&[(0, seg(ACK, 1, 0, 1, 65_535))])));
        let kernel = sends(&[(0, seg(ACK, 1, kernel, 1, 65_535))]);
        keys(story, call(Call::Write(3_000)), kernel, sends(&[(0, data(1)), (0, data(1_001))]))
    };
    assert_eq!(judged(true, 1_000), Some(vec!["syn_again"]));
    assert_eq!(judged(false, 1_000), None, "no answer was refused");
}

#[test]
fn a_listener_that_closes_now_resets_its_half_open_connection_here() {
    let judged = |last| {
        let mut story = opened();
        story.pop();
        keys(story, call(last), sends(&[]), sends(&[(300, seg(RST | ACK, 1, 0, 1, 0))]))
    };
    assert_eq!(judged(Call::CloseListener), Some(vec!["listener_closed"]));
    assert_eq!(judged(Call::Poll), None);
}

#[test]
fn what_both_sent_is_not_left_out_for_what_one_sent_beside_it() {
    let judged = |kernel: u32| {
        let ours = sends(&[(0, seg(ACK, 1_001, 0, 1, 65_535)), (440, data(1))]);
        let kernel = sends(&[(440, data(kernel))]);
        keys(wrote(opened(), 1, 1_000), send(seg(0, 200_001, 0, 1, 65_535)), kernel, ours)
    };
    assert_eq!(judged(1), Some(vec!["no_ack_flag"]));
    assert_eq!(judged(1_001), None, "it sent something else");
}
