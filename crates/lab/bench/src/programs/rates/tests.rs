//! Goal: each report is read right, and one with errors is none.
use super::*;

#[test]
fn reports() {
    assert_eq!(wrk("Requests/sec:  91823.45\nTransfer/sec: 1MB\n", 1.0), Some(91_823.45));
    assert_eq!(wrk("Socket errors: connect 0, read 3\nRequests/sec: 9.5\n", 1.0), None);
    let of_ab = "Failed requests:        0\nRequests per second:    35.10 [#/sec] (mean)\n";
    assert_eq!(ab(of_ab, 1.0), Some(35.1));
    assert_eq!(ab(&of_ab.replace(" 0\n", " 2\n"), 1.0), None);
    assert_eq!(redis("\"test\",\"rps\"\n\"GET\",\"83264.0\",\"0.3\"\n", 1.0), Some(83_264.0));
    let of_pgbench =
        "number of failed transactions: 0 (0.000%)\ntps = 14151.5 (without initial connection time)\n";
    assert_eq!(pgbench(of_pgbench, 1.0), Some(14_151.5));
    assert_eq!(pgbench("tps = 5\n", 1.0), None);
    assert_eq!(iperf3("{\"end\":{\"sum_received\":{\"bits_per_second\":8e9}}}", 1.0), Some(1_000.0));
    assert_eq!(asker("1000 answers in 2.5 s\n", 9.0), Some(400.0));
    let of_s_time =
        "500 connections in 1.05s; 476.19 connections/user sec\n500 connections in 3 real seconds\n";
    assert_eq!(s_time(of_s_time, 2.5), Some(200.0));
    assert_eq!(curl("2000000\n4000000\n", 1.0), Some(3.0));
    assert_eq!(counted("noise\n8\n", 2.0), Some(4.0));
}
