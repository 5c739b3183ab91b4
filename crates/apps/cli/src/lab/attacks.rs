//! `millstream lab attacks`: attackers beside honest clients, and a table of what the server did.

use crate::command::CliResult;
use ::lab::attacks::{ATTACKS, Attack, Finding, KEPT, Scale};
use std::time::Instant;

/// Arguments of `millstream lab attacks`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Run only these attacks (default: all).
    names: Vec<String>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run a twentieth of each attack, against a twentieth of the pool.
    #[arg(long)]
    small: bool,
}

/// Runs the attacks and prints a row for each.
///
/// # Errors
/// A name is unknown, or a promise did not hold.
pub(super) fn attacks(args: &Args) -> CliResult {
    let known = || ATTACKS.iter().map(|attack| attack.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = args.names.iter().find(|name| ATTACKS.iter().all(|attack| attack.name != **name)) {
        return Err(format!("no attack is called `{name}`; there are {}", known()).into());
    }
    let wanted =
        |attack: &&Attack| args.names.is_empty() || args.names.iter().any(|name| name == attack.name);
    let scale = if args.small { Scale::Small } else { Scale::Full };
    outln!("Honest clients: goodput in Mbit/s. Memory in MiB, connections: at most / bound.");
    outln!("Steps a packet: mean / at most / bound.\n");
    outln!(
        "{:<11} {:>6} {:>7} {:>5} {:>13} {:>15} {:>21} {:>9} {:>6}  verdict",
        "attack",
        "alone",
        "beside",
        "kept",
        "memory",
        "connections",
        "steps",
        "segments",
        "took"
    );
    let mut failed = 0;
    for attack in ATTACKS.iter().filter(wanted) {
        #[allow(clippy::disallowed_methods, reason = "an API is where time enters")]
        let begun = Instant::now();
        let finding = attack.run(scale, args.seed);
        failed += usize::from(!show(attack, &finding, begun.elapsed().as_secs_f64()));
    }
    outln!();
    ATTACKS.iter().filter(wanted).for_each(|attack| outln!("{:<11} {}", attack.name, attack.threat));
    match failed {
        0 => Ok(()),
        failed => {
            Err(format!("{failed} attacks did what they must not; honest clients must keep {KEPT}").into())
        }
    }
}

fn show(attack: &Attack, finding: &Finding, seconds: f64) -> bool {
    let verdict = finding.judge();
    let of = |[most, bound]: [u64; 2]| format!("{most} / {bound}");
    outln!(
        "{:<11} {:>6.1} {:>7.1} {:>5.2} {:>13} {:>15} {:>21} {:>9} {:>4.0} s  {}",
        attack.name,
        finding.alone,
        finding.beside,
        finding.kept(),
        of(finding.memory.map(|bytes| bytes.div_ceil(1 << 20))),
        of(finding.connections),
        format!("{:.1} / {}", finding.mean_steps, of(finding.steps)),
        finding.segments,
        seconds,
        verdict.as_ref().map_or_else(|why| format!("FAILS: {why}"), |()| "holds".to_owned())
    );
    verdict.is_ok()
}
