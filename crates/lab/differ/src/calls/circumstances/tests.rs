//! Goal: a circumstance holds for the connection that it is about, at both of its ends, and for no other.
use super::*;

fn steps(all: &[(&'static str, &[i64])]) -> Vec<Step> {
    all.iter().map(|(name, args)| Step { name, args: args.to_vec() }).collect()
}

/// Two connections to a listener of the peer: slots 0 and 1, the peer's 1 and 2.
const BEGIN: [(&str, &[i64]); 7] = [
    ("plisten", &[0, 1, 8, 0]),
    ("socket", &[0, 2, 1, 0]),
    ("connect", &[0, 0, 1, -1]),
    ("socket", &[1, 2, 1, 0]),
    ("connect", &[1, 0, 1, -1]),
    ("paccept", &[0, 1]),
    ("paccept", &[0, 2]),
];

#[test]
fn a_childs_connection_is_known_at_both_ends_and_the_other_is_not() {
    let rest: [(&str, &[i64]); 6] = [
        ("child", &[0, 1]),
        ("recv", &[0, 50, 64, 0, 0]),
        ("dup", &[0, 3, 0]),
        ("psend", &[1, 5, 0]),
        ("psend", &[2, 5, 0]),
        ("recv", &[3, 5, 0, 0, 0]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |at: usize| circumstance(&steps, at, &[format!("{}: 0", steps.len() - 1)], false);
    assert_eq!([8, 9, 10, 12].map(of), [", after a child"; 4]);
    assert_eq!(of(11), "");
}

#[test]
fn a_close_under_a_sleeper_is_not_that_of_another_connection() {
    let rest: [(&str, &[i64]); 5] = [
        ("recv", &[0, 50, 0, 0, 0]),
        ("close", &[1]),
        ("psend", &[2, 5, 0]),
        ("close", &[0]),
        ("psend", &[1, 5, 0]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let lines = ["7: asleep".to_owned(), "11: 5".to_owned()];
    assert_eq!(circumstance(&steps, 9, &lines, false), "");
    assert_eq!(circumstance(&steps, 11, &lines, false), ", closed while a call slept");
    // So is how many calls sleep.
    let mut more = steps.clone();
    more.push(Step { name: "kill", args: vec![0] });
    assert_eq!(
        circumstance(&more, 12, &["7: asleep".to_owned(), "12: sent".to_owned()], false),
        ", closed while a call slept"
    );
    let woken = ["7: asleep".to_owned(), "8: 0".to_owned(), "7 woke: 5".to_owned(), "11: 5".to_owned()];
    assert_eq!(circumstance(&steps, 11, &woken, false), "");
}

#[test]
fn a_step_for_which_no_thread_was_left_did_nothing() {
    let rest: [(&str, &[i64]); 3] =
        [("recv", &[0, 50, 0, 0, 0]), ("close", &[0]), ("recv", &[0, 5, 0, 0, 0])];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |lines: [&str; 3]| circumstance(&steps, 9, &lines.map(str::to_owned), false);
    assert_eq!(of(["7: asleep", "8: all threads sleep", "9: asleep"]), ", several reads asleep");
    assert_eq!(of(["7: asleep", "8: 0", "9: -1 EBADF"]), "");
}

#[test]
fn what_became_of_a_connection_is_known_to_the_calls_that_ask() {
    let rest: [(&str, &[i64]); 8] = [
        ("send", &[0, 5, 0x8000, 0, 0]),
        ("precv", &[1]),
        ("psend", &[1, 5, 0]),
        ("precv", &[1]),
        ("pclose", &[2, 1]),
        ("ioctl", &[1, 0x5411, 0, 0]),
        ("bind", &[1, 3, 1, -1]),
        ("precv", &[2]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |at: usize| circumstance(&steps, at, &[format!("{}: 0", steps.len() - 1)], false);
    assert_eq!([10, 12, 13].map(of), [", data held back", ", one end closed", ", once connected"]);
    assert_eq!([11, 14].map(of), [""; 2]);
    // What came later is not yet so for an earlier step.
    assert_eq!(circumstance(&steps, 8, &["8: 0".to_owned()], false), "");
}

/// Data that MSG_MORE holds back is seen by the peer and by what asks for it, until another send lets it go.
#[test]
fn data_held_back_explains_no_other_call() {
    let rest: [(&str, &[i64]); 8] = [
        ("send", &[0, 5, 0x8000, 0, 0]),
        ("psend", &[1, 5, 0]),
        ("recv", &[0, 5, 0, 0, 0]),
        ("ioctl", &[0, 0x5411, 0, 0]),
        ("ioctl", &[0, 0x541b, 0, 0]),
        ("send", &[0, 5, 0, 0, 0]),
        ("precv", &[1]),
        // All of a file but its first byte.
        ("send", &[0, 1, 0, 8, 0]),
    ];
    let mut steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |steps: &[Step], at: usize| circumstance(&steps[..=at], at, &[format!("{at}: 0")], false);
    assert_eq!([9, 10, 11, 13].map(|at| of(&steps, at)), ["", ", data held back", "", ""]);
    steps.swap(12, 14);
    assert_eq!(of(&steps, 13), ", data held back");
}

#[test]
fn data_held_back_tells_what_the_peer_sends_behind_its_end() {
    for (held, expected) in [(0x8000, ", data held back"), (0, "")] {
        let held = [0, 5, held, 0, 0];
        let rest: [(&str, &[i64]); 5] = [
            ("send", &held),
            ("psend", &[1, 5, 0]),
            ("psend", &[1, 5, 0]),
            ("pshut", &[1, 2]),
            ("psend", &[1, 5, 0]),
        ];
        let steps = steps(&[&BEGIN[..], &rest[..]].concat());
        let of = |at: usize| circumstance(&steps[..=at], at, &[format!("{at}: 0")], false);
        assert_eq!([9, 11].map(of), ["", expected]);
    }
}

/// A connect that waits for a place in the peer's queue, and the listener's.
#[test]
fn a_connect_shares_its_errors_with_a_read_that_sleeps() {
    for (slot, expected) in [(1, ", beside a connect asleep"), (0, "")] {
        let read = [slot, 5, 0, 0, 0];
        let rest: [(&str, &[i64]); 2] = [("recv", &read), ("shutdown", &[1, 0])];
        let steps = steps(&[&BEGIN[..5], &rest[..]].concat());
        let lines = ["4: asleep", "5: asleep", "6: 0"].map(str::to_owned);
        assert_eq!(circumstance(&steps, 4, &lines, false), expected);
    }
}

#[test]
fn a_wait_takes_edges_from_a_poll_of_its_set() {
    for (slot, expected) in [(1, ", beside a read asleep"), (0, "")] {
        let poll = [-1, 1, slot, 1];
        let rest: [(&str, &[i64]); 4] = [
            ("epoll", &[1, 0]),
            ("wait", &[1, 8, -1, 0, 0]),
            ("poll", &poll),
            ("ctl", &[1, 1, 0, 0x8000_0001, 0]),
        ];
        let steps = steps(&[&BEGIN[..3], &rest[..]].concat());
        let lines = ["4: asleep", "5: asleep", "6: 0"].map(str::to_owned);
        assert_eq!(circumstance(&steps, 5, &lines, false), expected);
    }
}

#[test]
fn a_cork_keeps_what_was_held_back() {
    let mut rest: [(&str, &[i64]); 5] = [
        ("send", &[0, 5, 0x8000, 0, 0]),
        ("psend", &[1, 5, 0]),
        ("setopt", &[0, 6, 3, 4, 1, 0, 0]),
        ("send", &[0, 2000, 0, 0, 0]),
        ("precv", &[1]),
    ];
    for (value, expected) in [(&[0, 6, 3, 4, 1, 0, 0], ", data held back"), (&[0, 6, 3, 4, 0, 0, 0], "")] {
        rest[2].1 = value;
        let steps = steps(&[&BEGIN[..], &rest[..]].concat());
        assert_eq!(circumstance(&steps, 11, &["11: 0".to_owned()], false), expected);
    }
}

#[test]
fn stamps_are_late_for_data_that_has_come_and_is_not_read() {
    let rest: [(&str, &[i64]); 7] = [
        ("psend", &[1, 5, 0]),
        ("setopt", &[0, 1, 29, 4, 1, 0, 0]),
        ("recv", &[0, 5, 0, 4, 0]),
        ("psend", &[2, 5, 0]),
        ("recv", &[1, 5, 0, 4, 0]),
        ("setopt", &[1, 1, 29, 4, 1, 0, 0]),
        ("recv", &[1, 5, 0, 4, 0]),
    ];
    for option in STAMPS {
        let mut steps = steps(&[&BEGIN[..], &rest[..]].concat());
        for at in [8, 12] {
            steps[at].args[2] = option.into();
        }
        let of = |at: usize| circumstance(&steps, at, &[format!("{}: 0", steps.len() - 1)], false);
        assert_eq!([9, 11, 13].map(of), [", stamps asked for late", "", ""]);
    }
}

/// A connection of the peer that waits in the queue of the listener in slot 0.
const QUEUED: [(&str, &[i64]); 4] =
    [("socket", &[0, 2, 1, 0]), ("bind", &[0, 1, 1, -1]), ("listen", &[0, 8]), ("pconnect", &[0, 2, 1])];

#[test]
fn a_listener_that_is_let_go_takes_its_queue_along() {
    let rest: [(&str, &[i64]); 3] = [("poll", &[-1, 1, 0, 2]), ("close", &[0]), ("psend", &[0, 5, 0])];
    let steps = steps(&[&QUEUED[..], &rest[..]].concat());
    let of = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        circumstance(&steps, 6, &lines, false)
    };
    assert_eq!(of(&["4: asleep", "6: 5"]), ", closed while a call slept");
    let pconnect = |port| {
        let steps = [&steps[..6], &[Step { name: "pconnect", args: vec![1, 2, port] }]].concat();
        circumstance(&steps, 6, &["4: asleep".to_owned(), "6: 0".to_owned()], false)
    };
    assert_eq!([1, 2].map(pconnect), [", closed while a call slept", ""]);
    assert_eq!(of(&["4: asleep", "4 woke: 1 0x2", "6: 5"]), "");
}

#[test]
fn a_connection_is_full_until_the_program_reads_a_segment() {
    let rest: [(&str, &[i64]); 8] = [
        ("pstuff", &[0]),
        ("psend", &[0, 5, 0]),
        ("accept", &[0, 1, 1, 0]),
        ("recv", &[1, 1000, 2, 0, 0]),
        ("recv", &[1, 100, 0, 0, 0]),
        ("psend", &[0, 5, 0]),
        ("recv", &[1, 1000, 0, 0, 0]),
        ("psend", &[0, 5, 0]),
    ];
    let steps = steps(&[&QUEUED[..], &rest[..]].concat());
    let of = |at: usize| circumstance(&steps[..=at], at, &[format!("{at}: 0")], false);
    assert_eq!([5, 7, 9, 11].map(of), [", of a full connection", "", ", of a full connection", ""]);
}

#[test]
fn an_option_concerns_the_read_that_slept_when_it_was_set() {
    let rest: [(&str, &[i64]); 5] = [
        ("recv", &[0, 9, 0, 4, 0]),
        ("setopt", &[0, 6, 36, 4, 1, 0, 0]),
        ("psend", &[1, 5, 0]),
        ("setopt", &[1, 6, 36, 4, 1, 0, 0]),
        ("recv", &[1, 9, 0, 4, 0]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let lines = ["7: asleep", "8: 0", "9: 5", "7 woke: flags 0 name 0 5", "10: 0", "11: asleep"];
    let lines = lines.map(str::to_owned);
    let of = |at: usize| circumstance(&steps, at, &lines, false);
    assert_eq!([7, 11].map(of), [", TCP_INQ set meanwhile", ""]);
}

#[test]
fn an_accepted_connection_has_its_listeners_mark() {
    for (value, expected) in
        [(&[0, 1, 18, 4, 4, 0, 0], ", short of SO_RCVLOWAT"), (&[0, 1, 18, 4, 1, 0, 0], "")]
    {
        let rest: [(&str, &[i64]); 3] =
            [("setopt", value), ("accept", &[0, 1, 1, 0]), ("recv", &[1, 9, 0, 0, 0])];
        let steps = steps(&[&QUEUED[..], &rest[..]].concat());
        assert_eq!(circumstance(&steps, 6, &["6: asleep".to_owned()], false), expected);
    }
}

#[test]
fn a_read_that_sleeps_with_a_mark_is_known() {
    let rest: [(&str, &[i64]); 9] = [
        ("setopt", &[0, 1, 18, 4, 4, 0, 0]),
        ("psend", &[1, 3, 0]),
        ("recv", &[0, 9, 0, 0, 0]),
        ("psend", &[2, 3, 0]),
        ("recv", &[1, 9, 0, 0, 0]),
        ("setopt", &[1, 1, 18, 4, 4, 0, 0]),
        ("recv", &[1, 9, 0, 0, 0]),
        ("poll", &[0, 1, 0, 1]),
        ("name", &[0, 0, 0]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |at: usize| circumstance(&steps[..=at], at, &[format!("{at}: asleep")], false);
    assert_eq!([9, 11, 13].map(of), [", short of SO_RCVLOWAT", "", ", short of SO_RCVLOWAT"]);
    // The mark may come while the read sleeps.
    let lines = ["11: asleep".to_owned(), "12: 0".to_owned()];
    assert_eq!(circumstance(&steps[..=12], 11, &lines, false), ", short of SO_RCVLOWAT");
    assert_eq!(circumstance(&steps, 9, &["9: -1 EAGAIN".to_owned()], false), "");
    let later = |at: usize| circumstance(&steps, at, &["9: asleep".to_owned(), "15: 0".to_owned()], false);
    assert_eq!([14, 15].map(later), [", short of SO_RCVLOWAT", ""]);
}

#[test]
fn refused_and_unaccepted_connections_have_ended() {
    let rest: [(&str, &[i64]); 6] = [
        ("socket", &[2, 2, 1, 0]),
        ("connect", &[2, 0, 1, -1]),
        ("socket", &[3, 2, 1, 0]),
        ("connect", &[3, 0, 7, -1]),
        ("pshut", &[0, 2]),
        ("ioctl", &[2, 0x5411, 0, 0]),
    ];
    let mut steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |steps: &[Step]| circumstance(steps, 12, &["12: 0".to_owned()], false);
    assert_eq!(of(&steps), ", one end closed");
    steps[12].args[0] = 3;
    assert_eq!(of(&steps), ", one end closed");
    steps[12].args[0] = 0;
    assert_eq!(of(&steps), "");
}

#[test]
fn a_socket_of_multipath_tcp_is_known() {
    let steps = steps(&[("socket", &[0, 2, 1, 262]), ("getopt", &[0, 6, 1, 4, 1, 0]), ("name", &[0, 0, 0])]);
    let of = |at: usize| circumstance(&steps, at, &["2: 0".to_owned()], false);
    assert_eq!([1, 2].map(of), [", of Multipath TCP", ""]);
}

#[test]
fn what_the_peer_closed_before_accept_has_ended() {
    let all: [(&str, &[i64]); 8] = [
        ("socket", &[0, 2, 1, 0]),
        ("bind", &[0, 1, 1, -1]),
        ("listen", &[0, 8]),
        ("pconnect", &[0, 2, 1]),
        ("pclose", &[0, 0]),
        ("pconnect", &[0, 2, 1]),
        ("accept", &[0, 1, 1, 0]),
        ("ioctl", &[1, 0x5411, 0, 0]),
    ];
    assert_eq!(circumstance(&steps(&all), 7, &["7: 0 100".to_owned()], false), ", one end closed");
}

#[test]
fn waits_for_one_set_share_it_and_not_what_it_watches() {
    let rest: [(&str, &[i64]); 6] = [
        ("epoll", &[2, 0]),
        ("ctl", &[2, 1, 0, 1, 0]),
        ("wait", &[2, 8, -1, 0, 0]),
        ("wait", &[2, 8, -1, 0, 0]),
        ("psend", &[1, 5, 0]),
        ("recv", &[0, 5, 0, 0, 0]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let lines = ["9: asleep".to_owned(), "10: asleep".to_owned(), "11: 5".to_owned()];
    assert_eq!(circumstance(&steps, 10, &lines, false), ", several reads asleep");
    assert_eq!(circumstance(&steps, 12, &lines, false), "");
}

#[test]
fn a_port_at_which_a_connection_was_accepted_is_known_unless_its_address_is_to_be_used_again() {
    let steps = steps(&[
        ("socket", &[0, 2, 1, 0]),
        ("bind", &[0, 1, 1, -1]),
        ("listen", &[0, 0]),
        ("pconnect", &[0, 2, 1]),
        ("accept", &[0, 1, 1, 1]),
        ("close", &[0]),
        ("socket", &[2, 2, 1, 0]),
        ("bind", &[2, 3, 1, -1]),
        ("socket", &[3, 2, 1, 0]),
        ("bind", &[3, 3, 2, -1]),
        ("setopt", &[3, 1, 2, 4, 1, 0, 0]),
        ("bind", &[3, 3, 1, -1]),
    ]);
    let of = |at: usize| circumstance(&steps, at, &[], false);
    assert_eq!([1, 7, 9, 11].map(of), ["", ", where a connection was accepted", "", ""]);
}

#[test]
fn connections_behind_options_that_linux_counts_and_does_not_send_are_known() {
    let of = |len: i64, from: &'static str| {
        let steps = steps(&[
            ("plisten", &[1, 2, 8, 0]),
            ("plisten", &[2, 3, 8, 0]),
            ("socket", &[0, 10, 2049, 0]),
            ("setopt", &[0, 41, 55, len, 0, 0, 0]),
            ("connect", &[0, 4, 2, -1]),
            ("paccept", &[1, 2]),
            ("paccept", &[2, 3]),
            ("poll", &[0, 1, 0, 4]),
        ]);
        let lines = ["4: -1 EINPROGRESS".to_owned(), "7: 0 0".to_owned()];
        [5, 6, 7].map(|at| circumstance(&steps, at, &lines, false)).map(|got| got == from)
    };
    assert_eq!(of(16, ", behind IPV6_RTHDRDSTOPTS"), [true, false, true]);
    assert_eq!(of(0, ""), [true; 3]);
}

#[test]
fn a_connect_over_the_loopback_beside_a_queue_of_the_link_is_known() {
    let rest: [(&str, &[i64]); 4] = [
        ("socket", &[1, 2, 1, 0]),
        ("connect", &[1, 3, 1, -1]),
        ("socket", &[2, 2, 1, 0]),
        ("connect", &[2, 2, 1, -1]),
    ];
    let steps = steps(&[&QUEUED[..], &rest[..]].concat());
    let of = |steps: &[Step], at: usize| circumstance(steps, at, &["7: 0".to_owned()], false);
    assert_eq!([5, 7].map(|at| of(&steps, at)), [", beside a queue of the link", ""]);
    let without = [&steps[..3], &steps[4..]].concat();
    assert_eq!(of(&without, 4), "");
}

#[test]
fn a_peer_that_reads_no_more_meets_data_that_was_held_back() {
    let mut all: [(&str, &[i64]); 4] = [
        ("send", &[0, 5, 0x8000, 0, 0]),
        ("psend", &[1, 5, 0]),
        ("pshut", &[1, 2]),
        ("getopt", &[0, 1, 4, 4, 1, 0]),
    ];
    for (how, expected) in [(&[1, 2], ", data held back"), (&[1, 0], ", data held back"), (&[1, 1], "")] {
        all[2].1 = how;
        let steps = steps(&[&BEGIN[..], &all[..]].concat());
        assert_eq!(circumstance(&steps, 10, &["10: 0".to_owned()], false), expected);
    }
}

#[test]
fn the_send_behind_a_peers_close_tells_of_what_was_held_back() {
    for (held, expected) in [(0x8000, ", data held back"), (0, "")] {
        let held = [0, 5, held, 0, 0];
        let rest: [(&str, &[i64]); 4] =
            [("send", &held), ("psend", &[1, 5, 0]), ("pclose", &[1, 0]), ("send", &[0, 5, 0, 0, 0])];
        let steps = steps(&[&BEGIN[..], &rest[..]].concat());
        assert_eq!(circumstance(&steps, 10, &["9: done".to_owned()], false), expected);
    }
}

/// The first wait after a change asks the kernel, too, and so does one for a set of one kind.
#[test]
fn a_later_wait_for_connections_and_pipes_is_of_both_kinds() {
    let rest: [(&str, &[i64]); 7] = [
        ("pair", &[2, 3, 2049]),
        ("epoll", &[4, 0]),
        ("ctl", &[4, 1, 0, 5, 0]),
        ("ctl", &[4, 1, 2, 5, 0]),
        ("wait", &[4, 8, 0, 0, 0]),
        ("close", &[3]),
        ("wait", &[4, 8, 0, 0, 0]),
    ];
    let both = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |steps: &[Step], at| circumstance(steps, at, &["12: 0".to_owned()], false);
    assert_eq!([11, 13].map(|at| of(&both, at)), ["", ", of both kinds"]);
    let mut one = both.clone();
    one[10].args[2] = 1;
    assert_eq!(of(&one, 13), "");
}

#[test]
fn a_send_behind_a_recvmmsg_of_bad_pointers_is_known() {
    let of = |how: i64, pointer: i64| {
        let steps = steps(&[
            ("plisten", &[1, 2, 8, 0]),
            ("socket", &[0, 2, 1, 0]),
            ("connect", &[0, 0, 2, -1]),
            ("paccept", &[1, 0]),
            ("psend", &[0, 3, 0]),
            ("recv", &[0, 100, 256, how, pointer]),
            ("send", &[0, 5, 0, 0, 0]),
        ]);
        circumstance(&steps, 6, &[], false)
    };
    let bad = [(5, 5), (5, 0), (4, 5)].map(|(how, pointer)| of(how, pointer));
    assert_eq!(bad, [", behind a recvmmsg of bad pointers", "", ", bad pointers"]);
}

#[test]
fn two_connects_of_one_socket_share_its_errors() {
    let rest: [(&str, &[i64]); 2] = [("connect", &[1, 0, 1, -1]), ("shutdown", &[1, 1])];
    let steps = steps(&[&BEGIN[..5], &rest[..]].concat());
    let lines = ["4: asleep", "5: asleep", "6: 0"].map(str::to_owned);
    assert_eq!(circumstance(&steps, 4, &lines, false), ", beside a connect asleep");
    let one = ["4: asleep", "5: -1 EALREADY", "6: 0"].map(str::to_owned);
    assert_eq!(circumstance(&steps, 4, &one, false), "");
}

#[test]
fn a_connection_from_one_of_two_queues_is_known_and_one_from_a_single_queue_is_not() {
    let rest: [(&str, &[i64]); 6] = [
        ("accept", &[0, 3, 0, 0]),
        ("socket", &[1, 2, 1, 0]),
        ("connect", &[1, 2, 1, -1]),
        ("pconnect", &[1, 2, 1]),
        ("accept", &[0, 4, 0, 0]),
        ("recv", &[4, 1, 0, 0, 0]),
    ];
    let steps = steps(&[&QUEUED[..], &rest[..]].concat());
    let of = |steps: &[Step], at: usize| circumstance(steps, at, &[format!("{}: 0", steps.len() - 1)], false);
    assert_eq!(of(&steps[..5], 4), "");
    assert_eq!([8, 9].map(|at| of(&steps, at)), [", of two queues"; 2]);
    let without = [&steps[..7], &steps[8..]].concat();
    assert_eq!([7, 8].map(|at| of(&without, at)), ["", ""]);
}

#[test]
fn an_option_that_one_with_new_changes_is_known() {
    let rest: [(&str, &[i64]); 3] = [
        ("setopt", &[0, 1, 65, 4, 24, 0, 0]),
        ("getopt", &[0, 1, 37, 4, 1, 0]),
        ("getopt", &[0, 1, 9, 4, 1, 0]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |at: usize| circumstance(&steps, at, &["9: 0".to_owned()], false);
    assert_eq!([8, 9].map(of), [", behind an option with _NEW", ""]);
}

#[test]
fn a_socket_that_was_taken_apart_with_a_limit_is_known_until_it_connects() {
    let rest: [(&str, &[i64]); 6] = [
        ("setopt", &[0, 6, 25, 4, 16384, 0, 0]),
        ("poll", &[0, 1, 0, 4]),
        ("connect", &[0, 12, 1, -1]),
        ("poll", &[0, 1, 0, 4]),
        ("connect", &[0, 0, 1, -1]),
        ("poll", &[0, 1, 0, 4]),
    ];
    let steps = steps(&[&BEGIN[..], &rest[..]].concat());
    let of = |at: usize| circumstance(&steps[..=at], at, &[format!("{at}: 0")], false);
    assert_eq!([8, 10, 12].map(of), ["", ", apart with TCP_NOTSENT_LOWAT", ""]);
}

#[test]
fn a_read_of_nothing_from_a_full_connection_is_known_and_another_one_is_not() {
    for (how, expected) in [(6, ", from a full connection"), (0, "")] {
        let read = [0, 100, 0, how, 0];
        let rest: [(&str, &[i64]); 2] = [("recv", &read), ("stuff", &[0])];
        let steps = steps(&[&BEGIN[..], &rest[..]].concat());
        let lines = ["7: asleep", "8: much -1 EAGAIN"].map(str::to_owned);
        assert_eq!(circumstance(&steps, 7, &lines, false), expected);
    }
}
