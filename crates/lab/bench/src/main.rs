//! `millstream-bench NAME`: what `cargo xtask bench` runs.
#![forbid(unsafe_code)]

use bench::memory::Load;
use bench::{ALL, Plan};
use clap::Parser;
use std::process::ExitCode;

/// Run a benchmark and print its figures.
#[derive(Parser)]
struct Args {
    /// Which; without a name, lists them.
    name: Option<String>,
    /// A B A B pairs.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds each measurement lasts.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// For `exactly` only: workload, connections in flight (bulk and super: 1 with a log) and transactions, as
    /// callgrind is to count them.
    #[arg(num_args = 3, value_names = ["short|keep|idle|forward|transfer|bulk|super", "IN_FLIGHT", "COUNT"])]
    exactly: Vec<String>,
    /// For `budgets`: write down what moved, for this reason.
    #[arg(long, value_name = "REASON")]
    bless: Option<String>,
    /// Print only JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let Some(name) = args.name else {
        for bench in ALL {
            println!("{:<14} {}", bench.name, bench.help);
        }
        return ExitCode::SUCCESS;
    };
    if name == "exactly" {
        return exactly(&args.exactly);
    }
    let Some(bench) = ALL.iter().find(|bench| bench.name == name) else {
        let names: Vec<_> = ALL.iter().map(|bench| bench.name).collect();
        eprintln!("millstream-bench: no benchmark \"{name}\"; there are {}", names.join(", "));
        return ExitCode::FAILURE;
    };
    let missing = bench::demo::missing();
    if !missing.is_empty() && bench.needs_tools {
        eprintln!(
            "millstream-bench: {name} needs {}; as root, `make demo` installs them",
            missing.join(", ")
        );
        return ExitCode::FAILURE;
    }
    // A signal must not end us before namespaces and servers are gone: the programs we run end by it, and their
    // end is the error on which everything is dropped.
    let interrupted = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if let Err(e) = signal_hook::flag::register(signal, interrupted.clone()) {
            eprintln!("millstream-bench: {e}");
            return ExitCode::FAILURE;
        }
    }
    let outcome = match &args.bless {
        Some(reason) if name == "budgets" => bench::budget::bless(reason),
        Some(_) => Err("--bless is for budgets".into()),
        None => (bench.run)(&Plan { rounds: args.rounds.max(1), seconds: args.seconds }),
    };
    match outcome {
        Ok(figures) if args.json => println!("{figures}"),
        Ok(figures) => println!("{}", serde_json::to_string_pretty(&figures).unwrap_or_default()),
        Err(e) => {
            eprintln!("millstream-bench: {name}: {e}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Runs a fixed number of transactions and nothing else.
fn exactly(words: &[String]) -> ExitCode {
    let [load, in_flight, count] = words else {
        eprintln!(
            "millstream-bench: exactly short|keep|idle|forward|transfer|bulk|super|receive-on|... IN_FLIGHT COUNT"
        );
        return ExitCode::FAILURE;
    };
    match (in_flight.parse(), count.parse()) {
        (Ok(connections), Ok(turns)) if load == "idle" => bench::memory::idle_turns(connections, turns),
        (Ok(_), Ok(count)) if load == "forward" => drop(bench::emulator::forward(count)),
        (Ok(_), Ok(count)) if load == "transfer" => drop(bench::emulator::transfer(count)),
        (Ok(logged), Ok(count)) if load == "bulk" || load == "super" => {
            println!("{}", bench::flow::flow(load == "super", logged > 0, count)[0]);
        }
        (Ok(flows), Ok(bursts)) if bench::offload::WAYS.iter().any(|way| way.name == load) => {
            println!("{}", bench::offload::exactly(flows, bursts, load));
        }
        (Ok(in_flight), Ok(count)) => {
            let load = if load == "short" { Load::Short } else { Load::Keep };
            bench::memory::exactly(load, in_flight, count);
        }
        _ => {
            eprintln!("millstream-bench: exactly: two numbers, please");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
