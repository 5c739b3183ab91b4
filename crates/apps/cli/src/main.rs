//! The `millstream` command: serve, load, look.
#![forbid(unsafe_code)]

#[macro_use]
mod out;
mod blackbox;
mod checksums;
mod command;
mod config;
mod doctor;
mod drill;
mod ending;
mod iperf;
mod lab;
mod load;
mod pipe;
mod run;
mod serve;
mod short;
mod show;
mod stacks;
mod sysctl;
mod tell;
mod top;
mod verdict;
mod why;

use clap::{Parser, Subcommand};
use std::io;
use std::process::ExitCode;

/// A user-level TCP stack: runs servers, load and unmodified programs, and shows their connections.
#[derive(Parser)]
#[command(name = "millstream", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a directory or generated bodies over HTTP/1.1 on this TCP stack.
    Serve(serve::Args),
    /// Send requests to an HTTP server, closed or open loop, and print rates and latencies.
    Load(load::Args),
    /// Run an unmodified program on this TCP stack.
    Run(run::Args),
    /// Serve iperf3 clients, to measure this stack's throughput.
    Iperf(iperf::Args),
    /// Run scripts of the packetdrill language against this stack, in virtual time.
    Drill(drill::Args),
    /// Run experiments on congestion control in virtual time and write a report.
    Lab(lab::Args),
    /// Join two links by an emulated path in real time, with rate, delay, queue and losses.
    Pipe(pipe::Args),
    /// Test an interface: show which links the interface, the kernel and your rights allow, how `nic:` opens it,
    /// whether packets pass, and which changes make it faster. Exit status 0: packets passed; 1: the interface cannot
    /// be used; 3: it opens, but no peer answered.
    Doctor(doctor::Args),
    /// List the connections of running stacks.
    Ss(show::SsArgs),
    /// Explain what limits a connection, with numbers, and name the remedy.
    Why(why::WhyArgs),
    /// Show counters, tables and memory of running stacks.
    Stat(show::StatArgs),
    /// Watch rates, load and the busiest connections of running stacks, refreshed every second.
    Top(top::TopArgs),
    /// Show the last events of open and ended connections of running stacks.
    Blackbox(blackbox::BlackboxArgs),
    /// Record packets of a running stack to a pcapng file.
    Capture(show::CaptureArgs),
    /// Read and set values of running stacks: congestion control, TCP settings, logs.
    Sysctl(sysctl::Args),
    /// List every setting with its default: flags, TOML keys and environment variables.
    Settings(config::StackArgs),
    /// List the socket calls and options, and how each differs from the kernel's for a launched program.
    Boundary,
}

fn main() -> ExitCode {
    if let Some((word, path)) = tell::role() {
        return tell::run(&word, path.as_ref());
    }
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Load(args) => load::run(args),
        Command::Run(args) => run::run(&args),
        Command::Iperf(args) => iperf::run(args),
        Command::Drill(args) => drill::run(&args),
        Command::Lab(args) => lab::run(args),
        Command::Pipe(args) => pipe::run(args),
        // It has exit statuses of its own.
        Command::Doctor(args) => return doctor::run(&args),
        Command::Ss(args) => show::ss(&args),
        Command::Why(args) => why::run(&args),
        Command::Stat(args) => show::stat(&args),
        Command::Top(args) => top::run(&args),
        Command::Blackbox(args) => blackbox::run(&args),
        Command::Capture(args) => show::capture(&args),
        Command::Sysctl(args) => sysctl::run(&args),
        Command::Settings(args) => config::print(&args),
        Command::Boundary => boundary(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough.
        Err(e) if e.downcast_ref().map(io::Error::kind) == Some(io::ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("millstream: {}", e.to_string().trim_end());
            ExitCode::FAILURE
        }
    }
}

/// `millstream boundary`.
fn boundary() -> command::CliResult {
    out!("{}", sock::boundary::page());
    Ok(())
}

#[cfg(test)]
mod tests;
