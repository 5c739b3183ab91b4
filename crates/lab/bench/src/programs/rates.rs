//! Rates in the clients' output.

use serde_json::Value;

/// The number before `label`, thousands' points and all.
fn before(text: &str, label: &str) -> Option<f64> {
    text.split(label).next().filter(|_| text.contains(label))?.split_whitespace().last()?.parse().ok()
}

/// The number after `label`.
fn after(text: &str, label: &str) -> Option<f64> {
    text.split_once(label)?.1.split_whitespace().next()?.trim_end_matches(',').parse().ok()
}

/// wrk's, unless it counted errors.
pub(super) fn wrk(text: &str, _: f64) -> Option<f64> {
    let bad = text.contains("Socket errors:") || text.contains("Non-2xx");
    after(text, "Requests/sec:").filter(|_| !bad)
}

/// ab's, unless it counted errors.
pub(super) fn ab(text: &str, _: f64) -> Option<f64> {
    after(text, "Requests per second:").filter(|_| after(text, "Failed requests:") == Some(0.0))
}

/// redis-benchmark's, as CSV, of its only test.
pub(super) fn redis(text: &str, _: f64) -> Option<f64> {
    text.lines().last()?.split(',').nth(1)?.trim_matches('"').parse().ok()
}

/// pgbench's.
pub(super) fn pgbench(text: &str, _: f64) -> Option<f64> {
    after(text, "tps =").filter(|_| text.contains("number of failed transactions: 0 "))
}

/// iperf3's, in MB/s, as the receiver sees it.
pub(super) fn iperf3(text: &str, _: f64) -> Option<f64> {
    let said: Value = serde_json::from_str(text).ok()?;
    Some(said["end"]["sum_received"]["bits_per_second"].as_f64()? / 8e6)
}

/// `asker`'s.
pub(super) fn asker(text: &str, _: f64) -> Option<f64> {
    Some(before(text, " answers in")? / after(text, "answers in")?)
}

/// openssl s_time's, which counts in whole seconds: by our clock.
pub(super) fn s_time(text: &str, took: f64) -> Option<f64> {
    Some(before(text, " connections in")? / took)
}

/// The sum of what curl says of its speed, in MB/s: the mean over its transfers.
pub(super) fn curl(text: &str, _: f64) -> Option<f64> {
    let speeds: Vec<f64> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64 / 1e6)
}

/// How many the client did, which it says last, by our clock.
pub(super) fn counted(text: &str, took: f64) -> Option<f64> {
    Some(text.lines().last()?.trim().parse::<f64>().ok()? / took)
}

#[cfg(test)]
mod tests;
