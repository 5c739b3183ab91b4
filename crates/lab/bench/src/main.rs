//! `millstream-bench NAME`: what `cargo xtask bench` runs.
#![forbid(unsafe_code)]

use bench::flow::Kind;
use bench::memory::{Between, Load};
use bench::{ALL, Plan, compare};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Run a benchmark and print its figures.
#[derive(Parser)]
struct Args {
    /// Which; without a name, lists them.
    name: Option<String>,
    /// A B A B pairs (5; with --quick, and where a measurement takes long, 3).
    #[arg(long)]
    rounds: Option<u32>,
    /// Seconds each measurement lasts (1; with --all 0.4, with --quick 0.2).
    #[arg(long)]
    seconds: Option<f64>,
    /// For `exactly` only: workload, connections in flight (bulk and super: 1 with a log) and transactions, as
    /// callgrind is to count them. For `programs` and `beside-linux`: rows whose names begin with these. For `interop`:
    /// rows whose names hold one of these.
    #[arg(value_name = "short|keep|idle|forward|transfer|bulk|late|super IN_FLIGHT COUNT")]
    words: Vec<String>,
    /// For `interop`: megabytes of each row.
    #[arg(long, default_value_t = 1_000)]
    megabytes: u64,
    /// For `interop`: every random choice follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For `budgets`: write down what moved, for this reason.
    #[arg(long, value_name = "REASON")]
    bless: Option<String>,
    /// Print only JSON; for --all, the file that results are kept in (bench.json): what is in it is not measured again.
    #[arg(long, num_args = 0..=1, value_name = "FILE")]
    json: Option<Option<PathBuf>>,
    /// Run the workloads, kernel, ours and peers in turns: `bench workloads` lists them, `bench report` makes a page.
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// For --all: workloads that begin with these words, with commas between them.
    #[arg(long, requires = "all", value_delimiter = ',')]
    only: Vec<String>,
    /// For --all: fewer points, rounds and seconds: under four minutes.
    #[arg(long, requires = "all")]
    quick: bool,
    /// For --all: measure again what the file has already.
    #[arg(long, requires = "all")]
    again: bool,
    /// For --all: only what can be done in so many seconds, so that a run can be made in pieces.
    #[arg(long, requires = "all", value_name = "SECONDS")]
    within: Option<f64>,
    /// For report: results of --all. With several, of several machines, a table of ranges instead of a page.
    #[arg(long, default_value = "bench.json")]
    from: Vec<PathBuf>,
    /// For report: the page.
    #[arg(long, default_value = "bench.html")]
    to: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.all {
        return told("--all", side_by_side(args));
    }
    let Some(name) = args.name.clone() else {
        for bench in ALL {
            println!("{:<14} {}", bench.name, bench.help);
        }
        println!(
            "--all          The workloads on kernel, ours and peers: --quick, --only NAME,..., --within S, --json F."
        );
        println!(
            "programs       Unmodified programs on the kernel and under `millstream run`: [ROW...], all without."
        );
        println!(
            "interop        smoltcp, lwIP and gVisor's netstack over a bad path: [ROW...], all without; --megabytes N."
        );
        println!(
            "beside-linux   Paths of the laboratory's family, the kernel's TCP and ours in turns: [ROW...]."
        );
        println!("walk           The functions that a segment passes, in and out: [in] [out].");
        println!("workloads      Lists them.");
        println!(
            "report         Makes a page of what --all measured: --from FILE --to FILE. Several --from: a table."
        );
        return ExitCode::SUCCESS;
    };
    match name.as_str() {
        "exactly" => return exactly(&args.words),
        "contest" => return contest(&args.words),
        "walk" => return told("walk", walk(&args.words)),
        "programs" => return programs(args),
        "interop" => {
            let (seed, bytes) = (args.seed, args.megabytes * 1_000_000);
            let chosen = bench::interop::Chosen { seed, bytes, names: args.words };
            return told("interop", bench::interop::run(&chosen));
        }
        "beside-linux" => return beside_linux(args),
        "workloads" => {
            print!("{}", compare::listing());
            return ExitCode::SUCCESS;
        }
        "report" => {
            let made = match &args.from[..] {
                [from] => compare::report(from, &args.to),
                several => compare::ranges(several).map(|table| print!("{table}")),
            };
            return told("report", made);
        }
        _ => {}
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
    if let Err(e) = on_signal() {
        eprintln!("millstream-bench: {e}");
        return ExitCode::FAILURE;
    }
    let outcome = match &args.bless {
        Some(reason) if name == "budgets" => bench::budget::bless(reason),
        Some(_) => Err("--bless is for budgets".into()),
        None => {
            let rounds = args.rounds.unwrap_or(5).max(1);
            (bench.run)(&Plan { rounds, seconds: args.seconds.unwrap_or(1.0) })
        }
    };
    match outcome {
        Ok(figures) if args.json.is_some() => println!("{figures}"),
        Ok(figures) => println!("{}", serde_json::to_string_pretty(&figures).unwrap_or_default()),
        Err(e) => {
            eprintln!("millstream-bench: {name}: {e}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// A signal must not end us before namespaces and servers are gone: the programs we run end by it, and their end is the
/// error on which everything is dropped. Whether one came.
fn on_signal() -> std::io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    Ok(interrupted)
}

fn told(what: &str, outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("millstream-bench: {what}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The workloads, side by side.
fn side_by_side(args: Args) -> Result<(), String> {
    let stop = on_signal().map_err(|e| e.to_string())?;
    let out = args.json.flatten().unwrap_or_else(|| "bench.json".into());
    let Args { only, quick, rounds, seconds, again, within, .. } = args;
    compare::run(&compare::Chosen { only, quick, rounds, seconds, out, again, within, stop })
}

/// One of our own entries in memory.
fn contest(words: &[String]) -> ExitCode {
    match compare::contest::contest(words) {
        Ok(figures) => println!("{}", serde_json::json!(figures)),
        Err(e) => return told("contest", Err(e)),
    }
    ExitCode::SUCCESS
}

/// The laboratory's family beside the kernel.
fn beside_linux(args: Args) -> ExitCode {
    let rounds = args.rounds.unwrap_or(3).max(1);
    let ran = on_signal().map_err(|e| e.to_string()).and_then(|stop| {
        bench::beside_linux::run(&bench::beside_linux::Chosen { rounds, names: args.words, stop })
    });
    told("beside-linux", ran)
}

/// Unmodified programs, on the kernel and on our stack.
fn programs(args: Args) -> ExitCode {
    let measured = on_signal().map_err(|e| e.to_string()).and_then(|stop| {
        let (rounds, seconds) = (args.rounds.unwrap_or(5).max(1), args.seconds.unwrap_or(2.0));
        bench::programs::run(&bench::programs::Chosen { rounds, seconds, names: args.words, stop })
    });
    told("programs", measured.map(|figures| println!("{figures}")))
}

/// Prints the way of a segment, both without a name.
fn walk(words: &[String]) -> Result<(), String> {
    let ways = if words.is_empty() { vec!["in", "out"] } else { words.iter().map(String::as_str).collect() };
    for way in ways {
        println!("The way {way}, with instructions a segment:\n{}", bench::walk::walk(way)?);
    }
    Ok(())
}

/// Runs a fixed number of transactions and nothing else.
fn exactly(words: &[String]) -> ExitCode {
    let [load, in_flight, count] = words else {
        eprintln!(
            "millstream-bench: exactly short|keep[-tap|-late]|idle|forward|transfer|bulk|late|super|receive-on|... \
             IN_FLIGHT COUNT"
        );
        return ExitCode::FAILURE;
    };
    match (in_flight.parse(), count.parse()) {
        (Ok(connections), Ok(turns)) if load == "idle" => bench::memory::idle_turns(connections, turns),
        (Ok(_), Ok(count)) if load == "forward" => drop(bench::emulator::forward(count)),
        (Ok(_), Ok(count)) if load == "transfer" => drop(bench::emulator::transfer(count)),
        (Ok(logged), Ok(count)) if Kind::parse(load).is_some() => {
            let kind = Kind::parse(load).unwrap_or(Kind::Plain);
            println!("{}", bench::flow::flow(kind, logged > 0, count)[0]);
        }
        (Ok(flows), Ok(bursts)) if bench::offload::WAYS.iter().any(|way| way.name == load) => {
            println!("{}", bench::offload::exactly(flows, bursts, load));
        }
        (Ok(in_flight), Ok(count)) if load.contains(':') => {
            match bench::again::Case::parse(load, in_flight) {
                Some(case) => drop(bench::again::exactly(case, count)),
                None => {
                    eprintln!("millstream-bench: exactly on|off|keep:BYTES:PERCENT:PEERS, please");
                    return ExitCode::FAILURE;
                }
            }
        }
        (Ok(in_flight), Ok(count)) => {
            let (load, between) = load.split_once('-').unwrap_or((load, ""));
            let between = match between {
                "tap" => Between::Tap,
                "late" => Between::Late,
                _ => Between::Nothing,
            };
            let load = if load == "short" { Load::Short } else { Load::Keep };
            bench::memory::exactly(load, between, in_flight, count);
        }
        _ => {
            eprintln!("millstream-bench: exactly: two numbers, please");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
