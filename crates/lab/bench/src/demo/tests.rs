//! Goal: wrk's report is read right, errors included.
use super::*;

#[test]
fn wrk_reports() {
    let text = "Running 1s test @ http://x/\n  1 threads and 64 connections\n  Latency Distribution\n\
                    \x20    50%  312.00us\n     75%    1.02ms\n     90%    2.00ms\n     99%    4.50ms\n\
                    \x20 91823 requests in 1.00s, 10.86MB read\n\
                    \x20 Socket errors: connect 0, read 3, write 0, timeout 1\n\
                    Requests/sec:  91823.45\nTransfer/sec:     10.86MB\n";
    let wrk = parse_wrk(text).unwrap();
    assert_eq!((wrk.requests, wrk.p50_us, wrk.p99_us, wrk.bad), (91_823.0, 312.0, 4_500.0, 4));
    assert!((wrk.rate - 91_823.45).abs() < 1e-6);
    assert!(parse_wrk("unable to connect").is_none());
}
