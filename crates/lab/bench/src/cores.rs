//! Short connections on one core and on more: a pair of stacks for each core, which share nothing but the machine.

use crate::Plan;
use crate::memory::{self, Load};
use lab::stats;
use serde_json::{Value, json};
use std::sync::Barrier;

/// Connections in flight on each core.
const IN_FLIGHT: u32 = 100;
/// Client addresses of each core.
const SOURCES: u32 = 8;
/// More cores are not asked.
const MOST: usize = 12;

/// Connections a second of so many cores together, all at the same time.
fn rate(cores: usize, seconds: f64) -> f64 {
    let start = Barrier::new(cores);
    let one = |cpu: usize| {
        // Where there are fewer CPUs it runs where the kernel puts it.
        sock::pin_to(cpu);
        start.wait();
        memory::measure(Load::Short, IN_FLIGHT, SOURCES, seconds, usize::MAX).0
    };
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..cores).map(|cpu| scope.spawn(move || one(cpu))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a measurement ends")).sum()
    })
}

/// The `cores` benchmark.
///
/// # Errors
/// None: it needs nothing but threads.
pub(crate) fn run(plan: &Plan) -> Result<Value, String> {
    let most = std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
    let mut rates = vec![Vec::new(); most];
    for _ in 0..plan.rounds {
        for (nth, rates) in rates.iter_mut().enumerate() {
            rates.push(rate(nth + 1, plan.seconds));
        }
    }
    let rows = rates.iter().enumerate().map(|(nth, all)| {
        let (cores, times) = (nth + 1, stats::ratio(all, &rates[0]));
        let per_s = stats::median(all);
        eprintln!("{cores:>2} cores  {per_s:>12.0}/s  {times:.2} times one");
        json!({
            "cores": cores, "per_s": per_s, "times_one": times, "efficiency": times / cores as f64, "all": all,
        })
    });
    Ok(json!({"bench": "cores", "rounds": plan.rounds, "rows": rows.collect::<Vec<_>>()}))
}

#[cfg(test)]
mod tests;
