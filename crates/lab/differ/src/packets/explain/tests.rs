//! Goal: a row explains what its reason says and nothing beside it.
use super::super::trace::{Moment, Seen};
use super::*;
use drill::lang::{Direction, IpInfo, Packet, Segment, TcpOption};

#[test]
fn every_key_has_a_row_and_every_row_a_predicate() {
    let keys: Vec<&str> = PREDICATES
        .iter()
        .chain(repair::PREDICATES)
        .map(|(key, ..)| *key)
        .chain(super::super::changes::CHANGES.iter().map(|(key, _)| *key))
        .collect();
    for key in &keys {
        assert!(reasons::by_key(Kind::Packets, key).is_some(), "no row has the key {key}");
    }
    for row in reasons::of(Kind::Packets) {
        assert!(keys.contains(&row.key), "no predicate has the key {}", row.key);
    }
}

pub(super) fn packet(bits: u8, seq: u32, len: u32, ack: Option<u32>, window: u16) -> Packet {
    let tcp = Segment {
        ports: None,
        flags: Flags { bits, ..Flags::default() },
        seq: Some(Range { start: seq, end: seq.wrapping_add(len) }),
        len,
        absolute: false,
        ack,
        window: Some(window),
        urgent: None,
        options: None,
        udp: None,
    };
    let ip = IpInfo::default();
    Packet { direction: Direction::Out, outer: Vec::new(), ip, body: Body::Tcp(tcp) }
}

fn answer(packet: Packet) -> Moment {
    let (at, gap, unread) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    Moment { answer: None, seen: vec![Seen { at, gap, unread, packet }] }
}

/// Judges a segment of the peer in an established connection, answered by acknowledgments of `kernel` and `ours`, after
/// windows of 64240 and 65535 bytes.
fn judged(flags: u8, seq: u32, len: u32, kernel: u32, ours: u32) -> Verdict {
    let send = |packet| Step { after: 10, action: Action::Send(Box::new(packet), Echo::Latest(0)) };
    let syn = packet(Flags::SYN, 0, 0, None, 65_535);
    let ack = packet(Flags::ACK, 1, 0, Some(1), 65_535);
    let steps = vec![send(syn), send(ack), send(packet(flags, seq, len, Some(1), 65_535))];
    let trace = |window, last: u32| Trace {
        moments: vec![
            answer(packet(Flags::SYN | Flags::ACK, 0, 0, Some(1), window)),
            Moment::default(),
            answer(packet(Flags::ACK, 1, 0, Some(last), 60_000)),
        ],
        ..Trace::default()
    };
    judge(&Input { seed: 0, isn: 0, v6: false, steps }, &trace(64_240, kernel), &trace(65_535, ours))
}

#[test]
fn what_lies_beyond_both_windows_is_refused_by_both() {
    let names = |verdict: &Verdict| verdict.explained.iter().map(|row| row.key).collect::<Vec<_>>();
    let between = judged(Flags::ACK, 65_535, 1, 1, 2);
    assert_eq!((names(&between), between.open), (vec!["beyond_window"], None));
    assert!(judged(Flags::ACK, 65_535, 2, 1, 65_537).open.is_some(), "more than was offered");
    let across = judged(Flags::ACK, 64_000, 1_000, 1, 2);
    assert_eq!((names(&across), across.open), (vec!["beyond_window"], None));
    assert!(judged(Flags::ACK, 65_536, 1, 1, 2).open.is_some(), "beyond both");
    assert!(judged(Flags::ACK, 63_000, 1_000, 1, 2).open.is_some(), "within both");
}

const SYN_ACK: u8 = Flags::SYN | Flags::ACK;

pub(super) fn send(packet: Packet) -> Step {
    Step { after: 10, action: Action::Send(Box::new(packet), Echo::Latest(0)) }
}

pub(super) fn call(call: Call) -> Step {
    Step { after: 10, action: Action::Call(call) }
}

fn with(mut packet: Packet, option: TcpOption) -> Packet {
    if let Body::Tcp(tcp) = &mut packet.body {
        tcp.options.get_or_insert_default().push(option);
    }
    packet
}

fn stamped(packet: Packet, val: u32) -> Packet {
    with(packet, TcpOption::Timestamps { val: Some(val), ecr: 0, absolute: false })
}

/// Packets of the near end, and how many milliseconds after the step each left.
pub(super) fn moment(packets: &[(u64, &Packet)]) -> Moment {
    let seen = packets.iter().map(|(at, packet)| {
        let at = Duration::from_millis(*at);
        Seen { at, gap: at, unread: Duration::ZERO, packet: (*packet).clone() }
    });
    Moment { answer: None, seen: seen.collect() }
}

/// Judges an input by what both did (`common`), and by what each did after the last step. Returns the keys of the rows,
/// and whether a difference is open.
pub(super) fn judge_last(
    steps: Vec<Step>,
    common: &[Moment],
    kernel: Moment,
    ours: Moment,
) -> (Vec<&'static str>, bool) {
    let pauses = steps.iter().map(Step::pause).chain([Duration::from_millis(450)]).collect::<Vec<_>>();
    let trace = |last: Moment| Trace {
        moments: common.iter().cloned().chain([last]).collect(),
        pauses: pauses.clone(),
        ..Trace::default()
    };
    let (kernel, ours) = (trace(kernel), trace(ours));
    let verdict = judge(&Input { seed: 0, isn: 0, v6: false, steps }, &kernel, &ours);
    (verdict.explained.iter().map(|row| row.key).collect(), verdict.open.is_some())
}

/// Steps that open a connection from the peer's side, and what follows them.
fn opened() -> (Vec<Step>, Vec<Moment>) {
    let syn = stamped(packet(Flags::SYN, 0, 0, None, 65_535), 100);
    let syn_ack = stamped(packet(SYN_ACK, 0, 0, Some(1), 65_535), 1_000);
    let ack = stamped(packet(Flags::ACK, 1, 0, Some(1), 65_535), 101);
    (vec![send(syn), send(ack)], vec![moment(&[(0, &syn_ack)]), Moment::default()])
}

#[test]
fn an_old_stamp_is_unanswered_and_changes_nothing_else() {
    let fin = stamped(packet(Flags::ACK | Flags::FIN, 1, 0, Some(1), 60_000), 1_010);
    let ack = stamped(packet(Flags::ACK, 2, 0, Some(1), 60_000), 1_020);
    let judged = |val, kernel: &[u64], ours: &[u64]| {
        let (mut steps, mut common) = opened();
        steps.push(call(Call::Shutdown(Half::Write)));
        common.push(moment(&[(0, &fin)]));
        steps.push(send(stamped(packet(Flags::ACK, 1, 0, Some(1), 65_535), val)));
        let fins = |at: &[u64]| at.iter().map(|at| (*at, &fin)).collect::<Vec<_>>();
        judge_last(steps, &common, moment(&fins(kernel)), moment(&[vec![(0, &ack)], fins(ours)].concat()))
    };
    assert_eq!(judged(50, &[], &[]), (vec!["old_stamp_unanswered"], false));
    // The last one may have left after the watch.
    assert_eq!(judged(50, &[220, 440], &[220, 440]), (vec!["old_stamp_unanswered"], false));
    assert!(judged(50, &[220], &[]).1, "a retransmission is missing");
    assert!(judged(150, &[], &[]).1, "the timestamp is new");
}

#[test]
fn a_timeout_is_undone_at_once_by_what_was_sent_once() {
    let data = |start| packet(Flags::ACK, start, 1_000, Some(1), 60_000);
    let [first, second, third] = [1, 1_001, 2_001].map(data);
    let judged = |ack, ours: &Packet| {
        let (mut steps, mut common) = opened();
        steps.push(call(Call::Write(3_000)));
        common.push(moment(&[(0, &first), (0, &second), (0, &third), (230, &first)]));
        steps.push(send(packet(Flags::ACK, 1, 0, Some(ack), 65_535)));
        judge_last(steps, &common, Moment::default(), moment(&[(0, ours)]))
    };
    assert_eq!(judged(2_001, &third), (vec!["undone_at_once"], false));
    assert!(judged(1_001, &second).1, "it acknowledges what was sent again alone");
}

#[test]
fn what_comes_with_a_syn_ack_is_taken_here_alone() {
    let syn = packet(Flags::SYN, 0, 0, None, 65_535);
    let ack = |ack| packet(Flags::ACK, 1, 0, Some(ack), 60_000);
    let judged = |flags, len, kernel, ours| {
        let steps = vec![call(Call::Connect), send(packet(flags, 0, len, Some(1), 65_535))];
        judge_last(steps, &[moment(&[(0, &syn)])], moment(&[(0, &ack(kernel))]), moment(&[(0, &ack(ours))]))
    };
    assert_eq!(judged(SYN_ACK | Flags::FIN, 0, 1, 2), (vec!["synack_text"], false));
    assert_eq!(judged(SYN_ACK, 10, 1, 11), (vec!["synack_text"], false));
    assert!(judged(SYN_ACK, 0, 1, 2).1, "there was no FIN");
    assert!(judged(SYN_ACK | Flags::FIN, 10, 1, 13).1, "more than came");
    assert!(judged(SYN_ACK, 10, 5, 11).1, "the kernel took a part");
}

#[test]
fn what_comes_with_a_syn_ack_to_a_half_open_connection_is_taken_here_alone() {
    let ack = |ack| moment(&[(0, &packet(Flags::ACK, 1, 0, Some(ack), 60_000))]);
    let judged = |is_open: bool, len, ours| {
        let (mut steps, mut common) = opened();
        if !is_open {
            steps.pop();
            common.pop();
        }
        steps.push(send(packet(SYN_ACK, 0, len, Some(1), 65_535)));
        judge_last(steps, &common, ack(1), ack(ours))
    };
    assert_eq!(judged(false, 10, 11), (vec!["synack_text"], false));
    assert!(judged(false, 10, 12).1, "more than came");
    assert!(judged(true, 10, 11).1, "the connection is established");
}

#[test]
fn a_reset_at_the_end_of_a_told_block_is_taken_by_the_kernel_alone() {
    let block = |end| TcpOption::Sack(vec![Range { start: 101, end }]);
    let ack = stamped(packet(Flags::ACK, 1, 0, Some(1), 60_000), 1_010);
    let judged = |seq, told: &Packet| {
        let (mut steps, mut common) = opened();
        steps.push(send(stamped(packet(Flags::ACK, 101, 100, Some(1), 65_535), 102)));
        common.push(moment(&[(0, told)]));
        steps.push(send(packet(Flags::RST, seq, 0, None, 0)));
        judge_last(steps, &common, Moment::default(), moment(&[(0, told)]))
    };
    let told = with(ack.clone(), block(201));
    let mut both = opened();
    both.0.push(send(stamped(packet(Flags::ACK, 101, 100, Some(1), 65_535), 102)));
    both.1.push(moment(&[(0, &told)]));
    both.0.push(send(packet(Flags::RST, 201, 0, None, 0)));
    both.1.push(Moment::default());
    both.0.push(send(packet(Flags::ACK, 1, 10, Some(1), 65_535)));
    let answer = |number| moment(&[(0, &packet(Flags::ACK, 1, 0, Some(number), 60_000))]);
    let goes_on = |kernel| judge_last(both.0.clone(), &both.1, kernel, answer(11));
    let reset = moment(&[(0, &packet(Flags::RST, 1, 0, None, 0))]);
    assert_eq!(goes_on(reset), (vec!["reset_apart"], false));
    assert!(goes_on(answer(12)).1, "the connection has ended on neither");
    assert_eq!(judged(201, &told), (vec!["reset_apart"], false));
    assert!(judged(151, &told).1, "within the block");
    assert!(judged(201, &ack).1, "no block was told");
}

#[test]
fn a_syn_opens_another_connection_where_a_reset_at_the_fin_was_taken() {
    let ack = packet(Flags::ACK, 1, 0, Some(2), 60_000);
    let judged = |seq, kernel: &Packet| {
        let (mut steps, mut common) = opened();
        steps.push(send(packet(Flags::ACK | Flags::FIN, 1, 0, Some(1), 65_535)));
        common.push(moment(&[(0, &ack)]));
        steps.push(send(packet(Flags::RST, seq, 0, None, 0)));
        common.push(Moment::default());
        steps.push(send(packet(Flags::SYN, 2, 0, None, 65_535)));
        judge_last(steps, &common, moment(&[(0, kernel)]), moment(&[(0, &ack)]))
    };
    let syn_ack = packet(SYN_ACK, 0, 0, Some(3), 65_535);
    assert_eq!(judged(1, &syn_ack), (vec!["reset_apart"], false));
    assert!(judged(9, &syn_ack).1, "not the number of the FIN");
    assert!(judged(1, &packet(Flags::ACK, 1, 0, Some(3), 60_000)).1, "no other connection");
}

#[test]
fn a_half_open_connection_that_an_old_reset_ended_is_gone_here_alone() {
    let judged = |val| {
        let (mut steps, mut common) = opened();
        _ = (steps.pop(), common.pop());
        steps.push(send(stamped(packet(Flags::RST | Flags::ACK, 1, 0, Some(1), 0), val)));
        common.push(Moment::default());
        let pauses = steps.iter().map(Step::pause).chain([Duration::from_millis(450)]).collect::<Vec<_>>();
        let trace = |end: &str| Trace {
            moments: common.clone(),
            pauses: pauses.clone(),
            end: end.into(),
            ..Trace::default()
        };
        let (kernel, ours) = (trace("SYN-RECEIVED"), trace(""));
        let verdict = judge(&Input { seed: 0, isn: 0, v6: false, steps }, &kernel, &ours);
        (verdict.explained.iter().map(|row| row.key).collect::<Vec<_>>(), verdict.open.is_some())
    };
    assert_eq!(judged(50), (vec!["reset_apart"], false));
    assert!(judged(150).1, "the timestamp is new");
}

#[test]
fn what_a_half_open_connection_does_after_another_echo() {
    let ack = packet(Flags::ACK, 1, 0, Some(1), 60_000);
    let data = packet(Flags::ACK, 1, 100, Some(1), 60_000);
    let judged = |echo, kernel: &Packet| {
        let (mut steps, mut common) = opened();
        let Action::Send(_, last) = &mut steps[1].action else { unreachable!("the last ACK") };
        *last = echo;
        steps.push(send(stamped(packet(Flags::ACK, 1, 10, Some(1), 65_535), 102)));
        common.truncate(2);
        let taken = stamped(packet(Flags::ACK, 1, 0, Some(11), 60_000), 1_010);
        judge_last(steps, &common, moment(&[(0, kernel)]), moment(&[(0, &taken)]))
    };
    assert_eq!(judged(Echo::Latest(1_000), &ack), (vec!["half_open_echo"], false));
    assert!(judged(Echo::Latest(1_000), &data).1, "a half-open connection sends no data");
    assert!(judged(Echo::Latest(0), &ack).1, "it was the right echo");
}

#[test]
fn a_window_in_segments_changes_where_data_ends_alone() {
    let short = packet(Flags::ACK, 1, 100, Some(1), 60_000);
    let data = |len, ack| packet(Flags::ACK, 101, len, Some(ack), 60_000);
    let judged = |kernel: &Packet, ours: &Packet| {
        let (mut steps, mut common) = opened();
        steps.push(call(Call::Write(100)));
        common.push(moment(&[(0, &short)]));
        steps.push(call(Call::Write(20_000)));
        judge_last(steps, &common, moment(&[(0, kernel)]), moment(&[(0, ours)]))
    };
    assert_eq!(judged(&data(1_000, 1), &data(500, 1)), (vec!["window_in_segments"], false));
    assert!(judged(&data(1_000, 1), &data(1_000, 2)).1, "it ends at the same place");
    assert!(judged(&data(1_000, 1), &data(500, 2)).1, "it acknowledges something else");
    assert!(judged(&data(2_000, 1), &data(500, 1)).1, "more than the short one counts for");
}

#[test]
fn a_retransmission_is_cut_anew_and_says_the_same() {
    let data = |start, ack| packet(Flags::ACK, start, 1_501 - start, Some(ack), 60_000);
    let first = data(1, 1);
    let judged = |kernel: &Packet, ours: &Packet| {
        let (mut steps, mut common) = opened();
        steps.push(call(Call::Write(1_500)));
        common.push(moment(&[(0, &first)]));
        steps.push(call(Call::Poll));
        judge_last(steps, &common, moment(&[(200, kernel)]), moment(&[(200, ours)]))
    };
    assert_eq!(judged(&data(1_001, 1), &data(501, 1)), (vec!["cut_again"], false));
    assert!(judged(&data(1_001, 1), &data(501, 2)).1, "it acknowledges something else");
}

#[test]
fn a_fin_that_the_kernel_holds_back_leaves_its_acknowledgment() {
    let data = packet(Flags::ACK, 1, 100, Some(1), 60_000);
    let ack = |number| packet(Flags::ACK, 101, 0, Some(number), 60_000);
    let fin = packet(Flags::ACK | Flags::FIN, 101, 0, Some(11), 60_000);
    let judged = |repeated: bool, kernel: &Packet| {
        let (mut steps, mut common) = opened();
        steps.push(call(Call::Write(100)));
        common.push(moment(&[(0, &data), (230, &data)][..1 + usize::from(repeated)]));
        steps.push(send(packet(Flags::ACK, 1, 10, Some(1), 65_535)));
        judge_last(steps, &common, moment(&[(0, kernel)]), moment(&[(0, &fin)]))
    };
    assert_eq!(judged(true, &ack(11)), (vec!["fin_beyond_window"], false));
    assert!(judged(true, &ack(12)).1, "another number");
    assert!(judged(false, &ack(11)).1, "the congestion window is open");
}

#[test]
fn a_reset_after_syns_crossed_is_named_by_each() {
    let syn = packet(Flags::SYN, 0, 0, None, 65_535);
    let syn_ack = packet(SYN_ACK, 0, 0, Some(1), 65_535);
    let named = |name: &str| Moment { answer: Some(format!("-1 {name}")), seen: Vec::new() };
    let judged = |flags, kernel| {
        let mut steps =
            vec![call(Call::Connect), send(syn.clone()), send(packet(flags, 1, 0, Some(1), 65_535))];
        steps.push(call(Call::Read(10)));
        let common = [moment(&[(0, &syn)]), moment(&[(0, &syn_ack)]), Moment::default()];
        judge_last(steps, &common, named(kernel), named("ECONNREFUSED"))
    };
    assert_eq!(judged(Flags::RST | Flags::ACK, "ECONNRESET"), (vec!["crossed_reset"], false));
    assert!(judged(Flags::RST | Flags::ACK, "ETIMEDOUT").1, "another name");
    assert!(judged(Flags::ACK, "ECONNRESET").1, "there was no reset");
}

#[test]
fn an_old_fin_in_time_wait_is_not_echoed_by_the_kernel() {
    let fin = stamped(packet(Flags::ACK | Flags::FIN, 1, 0, Some(1), 60_000), 1_010);
    let ack = |ecr| {
        with(
            packet(Flags::ACK, 2, 0, Some(2), 60_000),
            TcpOption::Timestamps { val: Some(1_020), ecr, absolute: false },
        )
    };
    let judged = |seq, kernel: &Packet| {
        let (mut steps, mut common) = opened();
        steps.push(call(Call::Shutdown(Half::Write)));
        common.push(moment(&[(0, &fin)]));
        steps.push(send(stamped(packet(Flags::ACK | Flags::FIN, 1, 0, Some(2), 65_535), 110)));
        common.push(moment(&[(0, &ack(110))]));
        steps.push(send(stamped(packet(Flags::ACK | Flags::FIN, seq, 0, Some(2), 65_535), 120)));
        judge_last(steps, &common, moment(&[(0, kernel)]), moment(&[(0, &ack(120))]))
    };
    assert_eq!(judged(1, &ack(110)), (vec!["old_ack_stamp"], false));
    assert!(judged(2, &ack(110)).1, "it is not old");
}
