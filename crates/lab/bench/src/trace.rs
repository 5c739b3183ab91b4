//! Cost of watching every packet: one bulk flow with SIFTR off and on, and with a capture, in turns.

use crate::Plan;
use crate::bed::{Bed, Programs, SERVER_ADDR, Server, of_file, our_command};
use crate::compare::ground::{self, Load};
use lab::stats;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A server of ours that can be watched while it serves.
struct Watched<'a> {
    bed: &'a Bed,
    programs: &'a Programs,
    server: Server,
}

/// One measurement: rate, and what the log and the traffic lost.
#[derive(Default)]
struct Sample {
    gbit: f64,
    /// Packets seen, those left out because the log was full, and those that belonged to no connection, as the log's
    /// last line has them.
    packets: u64,
    skipped: u64,
    strays: u64,
    /// Packets that the stack or its port dropped meanwhile, by the counters that say so. A client that closes while
    /// data are on their way answers each segment with a reset, which no thread waits for: those count here.
    dropped: Drops,
    /// Segments that the stack sent again: what was lost of the traffic that went out.
    again: u64,
}

/// Counts by their names.
type Drops = BTreeMap<String, u64>;

impl Watched<'_> {
    fn socket(&self) -> PathBuf {
        self.bed.dir.join(format!("{}.sock", self.server.pid()))
    }

    /// Asks the server's control socket.
    fn ask(&self, request: &str) -> Result<Vec<Value>, String> {
        let told = |e: std::io::Error| format!("{request}: {e}");
        let mut socket = UnixStream::connect(self.socket()).map_err(told)?;
        socket.write_all(format!("{request}\n").as_bytes()).map_err(told)?;
        let mut text = String::new();
        socket.read_to_string(&mut text).map_err(told)?;
        let lines =
            text.lines().map(|line| serde_json::from_str::<Value>(line).map_err(|e| format!("{line}: {e}")));
        let lines: Vec<Value> = lines.collect::<Result<_, _>>()?;
        match lines.iter().find_map(|line| line["error"].as_str()) {
            Some(error) => Err(format!("{request}: {error}")),
            None => Ok(lines),
        }
    }

    /// Packets dropped so far, by whichever part of the stack.
    fn dropped(&self) -> Result<Drops, String> {
        let mut all = Drops::new();
        for core in self.ask("stat")? {
            let rows = ["stack", "link"].into_iter().filter_map(|part| core[part].as_object()).flatten();
            for (name, count) in rows.filter(|(name, _)| name.contains("drop") || *name == "no_frame") {
                *all.entry(name.clone()).or_default() += count.as_u64().unwrap_or(0);
            }
        }
        Ok(all)
    }

    fn retransmits(&self) -> Result<u64, String> {
        Ok(self.ask("stat")?.iter().filter_map(|core| core["tcp"]["retransmits"].as_u64()).sum())
    }

    fn measure(&self, plan: &Plan, mode: &'static str) -> Result<Sample, String> {
        let (before, sent_again) = (self.dropped()?, self.retransmits()?);
        let (client, load) = (&self.programs.client, Load::new(mode, 1));
        let figures = ground::measure(self.bed, client, &self.server, &load, plan.seconds)?;
        if figures["errors"] > 0.0 {
            return Err(format!("bulk {mode}: {} errors", figures["errors"]));
        }
        let gbit = figures["gbit"];
        let mut dropped = self.dropped()?;
        dropped.iter_mut().for_each(|(name, count)| *count -= before.get(name).unwrap_or(&0));
        Ok(Sample { gbit, dropped, again: self.retransmits()? - sent_again, ..Sample::default() })
    }

    /// With a line of log for every packet.
    fn logged(&self, plan: &Plan, mode: &'static str) -> Result<Sample, String> {
        let file = self.bed.dir.join("siftr.log");
        self.ask(&format!("sysctl net.inet.siftr.logfile={}", file.display()))?;
        self.ask("sysctl net.inet.siftr.enabled=1")?;
        let sample = self.measure(plan, mode);
        self.ask("sysctl net.inet.siftr.enabled=0")?;
        let text = std::fs::read_to_string(&file).map_err(of_file(&file))?;
        std::fs::remove_file(&file).map_err(of_file(&file))?;
        let last = text.lines().last().unwrap_or("");
        let number = |key: &str| -> Result<u64, String> {
            let field = last.split('\t').find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
            field.and_then(|n| n.parse().ok()).ok_or_else(|| format!("the log's last line is {last:?}"))
        };
        let (packets, left_out) = (number("total_tcp_pkts")?, number("total_skipped_tcp_pkts")?);
        let full = ["num_inbound_skipped_pkts_malloc", "num_outbound_skipped_pkts_malloc"];
        let skipped = number(full[0])? + number(full[1])?;
        let lines = text.lines().count() as u64 - 2;
        if lines + left_out != packets {
            return Err(format!("{lines} lines and {left_out} left out are not {packets} packets"));
        }
        Ok(Sample { packets, skipped, strays: left_out - skipped, ..sample? })
    }

    /// With every packet in a pcapng file.
    fn captured(&self, plan: &Plan, mode: &'static str) -> Result<Sample, String> {
        let told = |e: std::io::Error| format!("capture: {e}");
        let file = self.bed.dir.join("capture.pcapng");
        let mut socket = UnixStream::connect(self.socket()).map_err(told)?;
        let request = format!("capture {}\n", plan.seconds.ceil() as u64 + 1);
        socket.write_all(request.as_bytes()).map_err(told)?;
        let mut out = std::fs::File::create(&file).map_err(told)?;
        let taking = std::thread::spawn(move || std::io::copy(&mut socket, &mut out));
        let sample = self.measure(plan, mode);
        let bytes = taking.join().map_err(|_| "the capture's reader failed")?.map_err(told)?;
        std::fs::remove_file(&file).map_err(told)?;
        if bytes == 0 {
            return Err("nothing was captured".into());
        }
        sample
    }
}

/// The `trace` benchmark.
pub fn run(plan: &Plan) -> Result<Value, String> {
    let mut rows = Vec::new();
    for (link, tap) in [("tap, offloads", true), ("AF_XDP, MTU 1500, no offloads", false)] {
        let bed = Bed::new(tap)?;
        let programs = Programs::build(&bed.dir, &our_command()?)?;
        let address = format!("{SERVER_ADDR}/16");
        // The log's thread may run where the clients do: a machine that logs has a core for it.
        let server = if tap {
            bed.tap_instead()?;
            bed.start_on(
                &bed.client,
                "0,1",
                &programs.ours,
                &["serve", "--link", "tap:mst0", "--address", &address],
            )?
        } else {
            bed.start_on(&bed.server, "0,1", &programs.ours, &["serve", "--link", "xdp:ms0"])?
        };
        let watched = Watched { bed: &bed, programs: &programs, server };
        for (way, mode) in [("in", "put"), ("out", "get")] {
            rows.push(one(plan, &watched, &format!("{link}, {way}"), mode)?);
        }
    }
    Ok(json!({"bench": "trace", "rounds": plan.rounds, "seconds": plan.seconds, "rows": rows}))
}

fn one(plan: &Plan, watched: &Watched<'_>, title: &str, mode: &'static str) -> Result<Value, String> {
    let mut samples: [Vec<Sample>; 3] = Default::default();
    watched.measure(plan, mode)?;
    for _ in 0..plan.rounds {
        samples[0].push(watched.measure(plan, mode)?);
        samples[1].push(watched.logged(plan, mode)?);
        samples[2].push(watched.captured(plan, mode)?);
    }
    let rates = samples.each_ref().map(|of| of.iter().map(|sample| sample.gbit).collect::<Vec<_>>());
    let sum = |of: usize, what: fn(&Sample) -> u64| samples[of].iter().map(what).sum::<u64>();
    let (siftr, capture) = (stats::ratio(&rates[1], &rates[0]), stats::ratio(&rates[2], &rates[0]));
    let medians = rates.each_ref().map(|of| stats::median(of));
    let (packets, skipped, strays) = (sum(1, |s| s.packets), sum(1, |s| s.skipped), sum(1, |s| s.strays));
    let again = [0, 1, 2].map(|of| sum(of, |s| s.again));
    let dropped = samples.each_ref().map(|of| {
        let mut all = Drops::new();
        for (name, count) in of.iter().flat_map(|sample| &sample.dropped).filter(|(_, count)| **count > 0) {
            *all.entry(name.clone()).or_default() += count;
        }
        all
    });
    eprintln!(
        "{title:<36} off {:>6.2} Gbit/s  siftr {:>6.2} ({siftr:.3})  capture {:>6.2} ({capture:.3})  \
         left out {skipped} of {packets}, strays {strays}  sent again {again:?}  dropped {dropped:?}",
        medians[0], medians[1], medians[2],
    );
    Ok(json!({
        "workload": title, "off_gbit": medians[0], "siftr_gbit": medians[1], "capture_gbit": medians[2],
        "siftr_ratio": siftr, "capture_ratio": capture, "siftr_packets": packets, "siftr_left_out": skipped,
        "siftr_strays": strays,
        "sent_again": again, "packets_dropped": dropped,
        "off_all": rates[0], "siftr_all": rates[1], "capture_all": rates[2],
    }))
}
