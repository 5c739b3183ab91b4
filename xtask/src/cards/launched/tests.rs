//! Goal: bytes that are missing are told.
use super::*;

#[test]
fn bytes_of_both_ends() {
    let report = |sent: u64, received: u64| {
        format!(
            r#"{{"intervals": [{{"sum": {{"bytes": 7}}}}], "end": {{"streams": [],
                   "sum_sent": {{"start": 0, "bytes": {sent}}},
                   "sum_received": {{"start": 0, "bytes": {received}}}}}}}"#
        )
    };
    assert_eq!(compared(&report(TRANSFER, TRANSFER)), Ok(()));
    assert_eq!(compared(&report(TRANSFER + 5, TRANSFER + 5 - UNDERWAY)), Ok(()));
    for (sent, received) in
        [(TRANSFER, TRANSFER - UNDERWAY - 1), (TRANSFER, TRANSFER + 1), (TRANSFER - 1, TRANSFER - 1)]
    {
        assert!(compared(&report(sent, received)).is_err_and(|why| why.contains("bytes came")));
    }
    assert!(
        compared(r#"{"error": "unable to connect"}"#).is_err_and(|why| why.contains("unable to connect"))
    );
}
