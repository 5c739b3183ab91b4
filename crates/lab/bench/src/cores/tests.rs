//! Goal: every core does its part, and both are counted.
use super::*;

#[test]
fn rates_add_up() {
    let rows = run(&Plan { rounds: 1, seconds: 0.02 }).unwrap()["rows"].clone();
    let rows = rows.as_array().unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["per_s"].as_f64().unwrap() > 0.0), "{rows:?}");
    assert_eq!(rows[0]["times_one"], 1.0);
}
