//! Goal: what comes of an earlier step, or is in one step with something else, has a row, and nothing beside it has.
use super::edges::{
    ACK, FIN_ACK, RST, SYN_ACK, data, icmp, keys, opened, seg, sends, timed_out, with_block, wrote,
};
use super::tests::{call, send};
use super::*;
use drill::lang::{Packet, TcpOption};

/// A segment with timestamps.
pub(super) fn stamped(mut packet: Packet, val: u32, ecr: u32) -> Packet {
    if let Body::Tcp(tcp) = &mut packet.body {
        tcp.options = Some(vec![TcpOption::Timestamps { val: Some(val), ecr, absolute: false }]);
    }
    packet
}

#[test]
fn a_timestamp_that_linux_does_not_take_is_not_the_latest_there() {
    let judged = |val| {
        let syn_ack = sends(&[(0, stamped(seg(SYN_ACK, 0, 0, 1, 65_535), 1, 100))]);
        let fin = sends(&[(0, stamped(seg(FIN_ACK, 1, 0, 1, 65_535), 2, 101))]);
        let story = vec![
            (send(stamped(seg(Flags::SYN, 0, 0, 0, 65_535), 100, 0)), syn_ack),
            (send(stamped(seg(ACK, 1, 0, 1, 65_535), 101, 1)), sends(&[])),
            (call(Call::Close), fin),
            (send(stamped(seg(ACK, 1, 0, 2, 65_535), 101, 2)), sends(&[])),
            (send(stamped(seg(ACK, 1, 0, 2, 65_535), 500, 2)), sends(&[])),
        ];
        let kernel = sends(&[(0, stamped(seg(ACK, 2, 0, 1, 65_535), 3, 101))]);
        keys(story, send(stamped(seg(0, 2, 100, 0, 65_535), val, 0)), kernel, sends(&[]))
    };
    assert_eq!(judged((1 << 31) + 400), Some(vec!["old_ack_stamp"]));
    assert_eq!(judged(600), None, "it is later for both");
}

#[test]
fn another_connection_begins_with_the_timestamp_of_its_syn() {
    let judged = |val: u32, ours| {
        let answer = |ecr| {
            let mut syn_ack = stamped(seg(SYN_ACK, 0, 0, 1, 65_535), 1, ecr);
            if let Body::Tcp(tcp) = &mut syn_ack.body {
                tcp.options.get_or_insert_default().push(TcpOption::Mss(1_460));
            }
            sends(&[(0, syn_ack)])
        };
        let mut story = opened();
        story.push((send(seg(RST, 1, 0, 0, 0)), sends(&[])));
        story.push((send(stamped(seg(Flags::SYN, 0, 0, 0, 65_535), 100, 0)), answer(100)));
        let again = send(stamped(seg(Flags::SYN, 0, 0, 0, 65_535), val, 0));
        keys(story, again, answer(100), answer(ours))
    };
    assert_eq!(judged(130, 130), Some(vec!["repeated_syn_echo"]));
    assert_eq!(judged(130, 120), None, "the echo of neither");
}

#[test]
fn the_first_of_several_early_fins_is_the_end() {
    let judged = |first, ours| {
        let ack = |number| sends(&[(0, seg(ACK, 1, 0, number, 65_535))]);
        let mut story = opened();
        story.push((send(seg(FIN_ACK, first, 100, 1, 65_535)), ack(1)));
        story.push((send(seg(FIN_ACK, 1_302, 100, 1, 65_535)), ack(1)));
        keys(story, send(seg(ACK, 1, 1_000, 1, 65_535)), ack(1_001), ack(ours))
    };
    assert_eq!(judged(2, 103), Some(vec!["text_across_fin"]));
    assert_eq!(judged(1_102, 103), None, "no FIN is in the text");
}

#[test]
fn a_second_fin_is_taken_on_linux_where_the_first_was_acknowledged_before() {
    let judged = |seq, number| {
        let ack = |number| sends(&[(0, seg(ACK, 1, 0, number, 65_535))]);
        let mut story = opened();
        story.push((send(seg(FIN_ACK, 1, 100, 1, 65_535)), ack(102)));
        keys(story, send(seg(FIN_ACK, seq, 0, 1, 65_535)), ack(number), sends(&[]))
    };
    assert_eq!(judged(102, 103), Some(vec!["fin_before_data"]));
    assert_eq!(judged(202, 203), None, "it is not behind the first");
}

#[test]
fn a_connection_without_timestamps_has_none_in_time_wait_here() {
    let judged = |ecr| {
        let mut story = opened();
        story[1].0 = send(stamped(seg(ACK, 1, 0, 1, 65_535), 77, 0));
        story.push((call(Call::Close), sends(&[(0, seg(FIN_ACK, 1, 0, 1, 65_535))])));
        let ack = seg(ACK, 2, 0, 2, 65_535);
        story.push((send(seg(FIN_ACK, 1, 0, 2, 65_535)), sends(&[(0, ack.clone())])));
        let kernel = sends(&[(0, stamped(ack.clone(), 1, ecr))]);
        keys(story, send(seg(ACK, 1 << 31, 0, 2, 65_535)), kernel, sends(&[(0, ack)]))
    };
    assert_eq!(judged(77), Some(vec!["time_wait_stamp"]));
    assert_eq!(judged(78), None, "no segment told that");
}

#[test]
fn a_probe_behind_a_timeout_may_be_cut_anew() {
    let judged = |len| {
        let piece = |at, start, len| (at, seg(ACK, start, len, 1, 65_535));
        let mut story = opened();
        story.push((call(Call::Write(100)), sends(&[piece(0, 1, 100), piece(230, 1, 100)])));
        story.push((send(seg(ACK, 1, 0, 101, 65_535)), sends(&[])));
        story.push((call(Call::Write(len)), sends(&[piece(0, 101, len)])));
        let last = piece(0, 101 + len, 10);
        let kernel = sends(&[last.clone(), piece(40, 101 + len, 10), piece(260, 101, len)]);
        let ours = sends(&[last, piece(40, 101, len + 10), piece(260, 101, len + 10)]);
        keys(story, call(Call::Write(10)), kernel, ours)
    };
    assert_eq!(judged(11), Some(vec!["cut_again"; 2]), "the probe, and what follows it");
    assert_eq!(judged(995), None, "more than a segment");
}

#[test]
fn a_duplicate_behind_a_hole_lets_a_later_write_send_more() {
    let judged = |seq, more: u32| {
        let mut story = wrote(opened(), 1, 1_000);
        story.push((send(seg(ACK, seq, 0, 1, 65_535)), sends(&[])));
        let burst = |count| {
            let cut = |n: u32| (0, seg(ACK, 1_001 + n * 1_000, 1_000, 1, 65_535));
            sends(&(0..count).map(cut).collect::<Vec<_>>())
        };
        keys(story, call(Call::Write(20_000)), burst(9), burst(9 + more))
    };
    assert_eq!(judged(2, 1), Some(vec!["duplicate_behind"]));
    assert_eq!(judged(2, 3), None, "more than limited transmit allows");
}

#[test]
fn what_was_lost_in_a_shut_window_follows_on_linux() {
    let judged = |window| {
        let mut story = wrote(opened(), 2, 1_000);
        story.push((send(seg(ACK, 1, 0, 2, window)), sends(&[(220, seg(ACK, 2, 1_000, 1, 65_535))])));
        let kernel = sends(&[(0, seg(ACK, 1_002, 999, 1, 65_535))]);
        keys(story, send(seg(ACK, 1, 0, 1_002, 65_535)), kernel, sends(&[]))
    };
    assert_eq!(judged(0), Some(vec!["shut_window"]));
    assert_ne!(judged(65_535), Some(vec!["shut_window"]), "the window was open");
}

#[test]
fn a_segment_of_before_packet_too_big_lets_linuxs_window_grow_by_one() {
    let judged = |error| {
        let mut story = wrote(opened(), 10, 1_000);
        let again: Vec<_> = (0..10).map(|n| (0, seg(ACK, 1 + n * 500, 500, 1, 65_535))).collect();
        story.push((send(error), sends(&again)));
        story.push((send(seg(ACK, 1, 0, 10_001, 65_535)), sends(&[])));
        let burst = |count: u32| {
            let cut = |n: u32| (0, seg(ACK, 10_001 + n * 500, 500, 1, 65_535));
            sends(&(0..count).map(cut).collect::<Vec<_>>())
        };
        keys(story, call(Call::Write(20_000)), burst(27), burst(31))
    };
    assert_eq!(judged(icmp("frag_needed", Some(540), 1)), Some(vec!["window_in_segments"]));
    assert_eq!(judged(icmp("host_unreachable", None, 1)), None, "the segments are as large as before");
}

#[test]
fn what_a_bare_acknowledgment_explains_leaves_the_rest_to_other_rows() {
    let judged = |val| {
        let syn_ack = sends(&[(0, stamped(seg(SYN_ACK, 0, 0, 1, 65_535), 1, 100))]);
        let data = |at, start, len| (at, stamped(seg(ACK, start, len, 1, 65_535), 2, 101));
        let story = vec![
            (send(stamped(seg(Flags::SYN, 0, 0, 0, 65_535), 100, 0)), syn_ack),
            (send(stamped(seg(ACK, 1, 0, 1, 65_535), 101, 1)), sends(&[])),
            (call(Call::Write(100)), sends(&[data(0, 1, 100)])),
            (send(stamped(seg(ACK, 1, 0, 50, 65_535), 101, 2)), sends(&[])),
        ];
        let last = send(stamped(seg(ACK, 1, 0, 50, 65_535), val, 2));
        let ours = sends(&[(0, stamped(seg(ACK, 101, 0, 1, 65_535), 3, 101))]);
        keys(story, last, sends(&[data(200, 50, 51)]), ours)
    };
    assert_eq!(judged(9), Some(vec!["cut_again", "old_stamp_unanswered", "partial_ack"]));
    assert_eq!(judged(102), None, "nothing asks for the acknowledgment");
}

#[test]
fn a_syn_ack_that_ends_at_the_expected_number_counts_for_a_half_open_connection_here() {
    let judged = |seq| {
        let story = vec![
            (send(seg(Flags::SYN, 102, 0, 0, 65_535)), sends(&[(0, seg(SYN_ACK, 0, 0, 103, 65_535))])),
            (send(seg(SYN_ACK, seq, 0, 1, 65_535)), sends(&[(0, seg(ACK, 1, 0, 103, 65_535))])),
        ];
        let last = send(seg(ACK, 103, 0, u32::MAX, 65_535));
        keys(story, last, sends(&[(0, seg(RST, u32::MAX, 0, 0, 0))]), sends(&[]))
    };
    assert_eq!(judged(102), Some(vec!["half_open_old_data"]));
    assert_eq!(judged(202), None, "another SYN");
}

#[test]
fn data_has_the_blocks_of_an_acknowledgment_beside_it() {
    let judged = |end| {
        let block = |packet: Packet| with_block(packet, 101, end);
        let kernel = sends(&[(0, data(2_001)), (0, with_block(seg(ACK, 3_001, 0, 1, 65_535), 101, 201))]);
        let ours = sends(&[(0, block(data(2_001)))]);
        keys(wrote(opened(), 2, 1_000), send(seg(ACK, 101, 100, 1_001, 65_535)), kernel, ours)
    };
    assert_eq!(judged(201), Some(vec!["ack_beside_data"]));
    assert_eq!(judged(151), None, "a part is missing");
}

#[test]
fn data_of_a_repair_leaves_on_linux_before_the_text_beside_an_acknowledgment_is_taken() {
    let judged = |is_repair: bool, number| {
        let story = if is_repair { timed_out(None) } else { wrote(opened(), 3, 1_000) };
        let kernel = sends(&[(0, data(3_001)), (45, seg(ACK, 4_001, 0, number, 65_535))]);
        let ours = sends(&[(0, seg(ACK, 3_001, 1_000, 101, 65_535))]);
        keys(story, send(seg(ACK, 1, 100, 1_001, 65_535)), kernel, ours)
    };
    assert_eq!(judged(true, 101), Some(vec!["delayed_ack"]));
    assert_eq!(judged(true, 51), None, "a part is missing");
    assert_eq!(judged(false, 101), None, "nothing was sent again");
}

#[test]
fn the_wait_for_reordering_may_end_behind_the_next_step() {
    let judged = |at| {
        let mut story = opened();
        let all = [(0, data(1)), (0, data(1_001)), (0, data(2_001)), (20, data(3_001))];
        story.push((call(Call::Write(4_000)), sends(&all)));
        let (mut steps, mut common): (Vec<_>, Vec<_>) = story.into_iter().unzip();
        steps.extend([send(with_block(seg(ACK, 1, 0, 1_001, 65_535), 3_001, 4_001)), call(Call::Poll)]);
        let mut kernel = common.clone();
        kernel.extend([sends(&[(0, data(4_001))]), sends(&[(at, data(1_001))])]);
        common.extend([sends(&[(0, data(1_001)), (0, data(4_001))]), sends(&[])]);
        let pauses: Vec<_> = [10, 10, 10, 40, 10, 450].map(Duration::from_millis).into();
        let trace = |moments| Trace { moments, pauses: pauses.clone(), ..Trace::default() };
        let input = Input { seed: 0, isn: 0, v6: false, steps };
        let verdict = judge(&input, &trace(kernel), &trace(common));
        verdict.open.is_none().then(|| verdict.explained.iter().map(|row| row.key).collect::<Vec<_>>())
    };
    assert_eq!(judged(5), Some(vec!["round_trip_of_latest"]));
    assert_ne!(judged(200), Some(vec!["round_trip_of_latest"]), "a timeout");
}
