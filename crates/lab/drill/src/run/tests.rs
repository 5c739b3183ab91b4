//! Goal: what is not as the script says fails, at its line and with its reason; what is not here is unsupported.
//! The scripts under suites/ show that what is as the script says passes.
use super::*;

const OPEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
+.01 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
";

fn outcome(rest: &str) -> Outcome {
    run(Path::new("test.pkt"), &format!("{OPEN}{rest}"), &Config::default()).outcome
}

/// The line after the opening, and the first line of the reason.
fn failure(rest: &str) -> (usize, String) {
    match outcome(rest) {
        Outcome::Failed { line, why } => (line - 7, why.lines().next().unwrap_or_default().to_string()),
        other => panic!("{rest}: {other:?}"),
    }
}

#[test]
fn the_opening_passes() {
    assert_eq!(outcome(""), Outcome::Passed);
}

#[test]
fn every_field_of_a_packet_is_compared() {
    let sent = "+0 write(4, ..., 100) = 100\n";
    for (packet, why) in [
        ("> . 1:101(100) ack 1", "flags: expected ., seen P."),
        ("> P. 2:102(100) ack 1", "sequence number: expected 2, seen 1"),
        ("> P. 1:100(99) ack 1", "length of payload: expected 99, seen 100"),
        ("> P. 1:101(100) ack 2", "acknowledgment number: expected 2, seen 1"),
        ("> P. 1:101(100) ack 1 win 7", "window: expected 7, seen 65535"),
        ("> P. 1:101(100) ack 1 urg 3", "urgent pointer: expected 3, seen 0"),
        ("> P. 1:101(100) ack 1 <nop>", "options: expected <nop>, seen <>"),
        ("> (ttl 5) P. 1:101(100) ack 1", "TTL: expected 5, seen 64"),
        ("> (tos 0x20) P. 1:101(100) ack 1", "DSCP: expected 8, seen 0"),
        ("> [ect0] P. 1:101(100) ack 1", "ECN: expected ect0, seen noecn"),
        ("> icmp echo_reply", "a packet of TCP instead of ICMP"),
    ] {
        assert_eq!(failure(&format!("{sent}+0 {packet}\n")), (2, why.to_string()), "{packet}");
    }
    assert_eq!(outcome(&format!("{sent}+0 > P. 1:101(100) ack 1\n")), Outcome::Passed);
}

#[test]
fn times_are_compared_with_tolerance() {
    let late = "time: expected the packet at 0.050000, was at 0.010000 (tolerance 0.005000)";
    assert_eq!(failure("+0 write(4, ..., 9) = 9\n+.04 > P. 1:10(9) ack 1\n"), (2, late.to_string()));
    assert_eq!(outcome("+0 write(4, ..., 9) = 9\n+.004 > P. 1:10(9) ack 1\n"), Outcome::Passed);
    assert_eq!(outcome("+0 write(4, ..., 9) = 9\n+0~+.5 > P. 1:10(9) ack 1\n"), Outcome::Passed);
    let (line, why) = failure("+0 write(4, ..., 9) = 9\n+.2~+.3 > P. 1:10(9) ack 1\n");
    assert!(
        line == 2 && why.starts_with("time: expected the packet at 0.210000 to 0.310000, was at 0.010000")
    );
    assert_eq!(failure("+0 > . 1:1(0) ack 1\n"), (1, "no packet came".to_string()));
}

#[test]
fn calls_are_compared() {
    for (rest, why) in [
        ("+0 write(4, ..., 9) = 8\n", "write(): expected 8, got 9"),
        ("+0 write(4, ..., 9) = -1 EPIPE (Broken pipe)\n", "write(): expected -1 EPIPE, got 9"),
        ("+0 write(9, ..., 9) = 9\n", "write(): expected 9, got -1 EBADF"),
        (
            "+0 getsockopt(4, SOL_TCP, TCP_NODELAY, [1], [4]) = 0\n",
            "getsockopt(TCP_NODELAY): expected 1, got 0",
        ),
        ("+0 ioctl(4, SIOCINQ, [5]) = 0\n", "ioctl: expected 5, got 0"),
        (
            "+0 poll([{fd=4, events=POLLIN, revents=POLLIN}], 1, 0) = 0\n",
            "poll(): expected revents 0x1, got 0x0",
        ),
        ("+0 read(4, ..., 9) = 9\n", "read(): expected 9, got -1 EINTR"),
        ("+0...0.1 read(4, ..., 9) = 9\n", "read(): expected to return at 0.110000, still waits"),
        ("+0...0.1 write(4, ..., 9) = 9\n", "time: expected write() to return at 0.110000, was at 0.010000"),
        ("+0 %{ assert tcpi_state == TCP_LISTEN }%\n", "assertion failed: tcpi_state = 1; TCP_LISTEN = 10"),
    ] {
        assert_eq!(failure(rest), (1, why.to_string()), "{rest}");
    }
}

#[test]
fn what_is_not_here_is_unsupported_not_passed() {
    for (rest, what) in [
        ("+0 sendfile(4, 5, [0], 9) = 9\n", "the call sendfile()"),
        (
            "+0 setsockopt(4, SOL_TCP, TCP_MD5SIG, [1], 4) = 0\n",
            "keys that are not given with the socket option",
        ),
        ("+0 send(4, ..., 9, MSG_OOB) = 9\n", "MSG_OOB"),
        ("+0 `iptables -A INPUT`\n", "the command iptables"),
        (
            "+0 `sysctl -w net.inet.tcp.blackhole=1`\n",
            "the sysctl net.inet.tcp.blackhole=1 (this stack has 0)",
        ),
        ("+0 < udp (5)\n", "UDP"),
        ("+0 < gre: . 1:1(0) ack 1\n", "packets in tunnels"),
        ("+0 %{ assert bbr_bw == 1 }%\n", "the name bbr_bw"),
    ] {
        assert_eq!(outcome(rest), Outcome::Unsupported(what.into()), "{rest}");
    }
}

#[test]
fn what_the_peer_sends_is_read_byte_by_byte() {
    let (line, why) = failure(
        "+0 < . 1:11(10)! ack 1 win 65535\n+0 < P. 11:21(10) ack 1 win 65535\n+0 read(4, ..., 99) = 21\n",
    );
    assert_eq!((line, why.as_str()), (3, "read(): expected 21, got 20"));
    assert_eq!(
        outcome("+0 < P. 1:4001(4000) ack 1 win 65535\n+0 read(4, ..., 9999) = 4000\n"),
        Outcome::Passed
    );
}

#[test]
fn a_run_repeats_exactly() {
    let script = format!(
        "{OPEN}+0...0.3 read(4, ..., 9) = 9\n+.1 < P. 1:6(5) ack 1 win 9\n+.2 write(4, ..., 5) = 5\n"
    );
    let once = run(Path::new("test.pkt"), &script, &Config::default());
    for _ in 0..20 {
        assert_eq!(run(Path::new("test.pkt"), &script, &Config::default()), once);
    }
}
