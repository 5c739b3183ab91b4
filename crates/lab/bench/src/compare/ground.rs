//! Where contenders are measured: beds, programs and peers, made when they are first needed and gone at the end.

use super::contender::{Contender, Kind, Program, network};
use super::figure::OTHERS;
use super::{Figures, Where};
use crate::bed::{
    Bed, CLIENT_ADDRS, CLIENT_BASE, CLIENT_CPU, Programs, SERVER_ADDR, Server, busy_us, of_file, sh,
};
use crate::bed::{SERVER_CPU, our_command};
use crate::now;
use crate::peers::Dir;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Load of a client.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// The client's mode.
    pub(super) mode: &'static str,
    /// Connections at a time.
    pub(super) connections: u32,
    /// Further arguments: bytes of an answer, and requests a connection or a second.
    pub(super) more: Vec<String>,
}

impl Load {
    pub(crate) fn new(mode: &'static str, connections: u32) -> Load {
        Load { mode, connections, more: Vec::new() }
    }

    pub(crate) fn with(mut self, number: f64) -> Load {
        self.more.push(format!("{number}"));
        self
    }
}

/// Namespaces with a link between them.
struct Field {
    bed: Bed,
    programs: Programs,
}

/// Everything that is set up.
#[derive(Default)]
pub(crate) struct Ground {
    /// The round that is measured, from 1 on.
    pub(super) round: u32,
    /// By offloads, and whether ours is on a tap device.
    fields: BTreeMap<(bool, bool), Field>,
    peers: BTreeMap<&'static str, PathBuf>,
    dir: Option<Dir>,
}

impl Ground {
    fn field(&mut self, offloads: bool, tap: bool) -> Result<&Field, String> {
        match self.fields.entry((offloads, tap)) {
            Slot::Occupied(made) => Ok(made.into_mut()),
            Slot::Vacant(slot) => Ok(slot.insert(Field::new(offloads, tap)?)),
        }
    }

    /// A server and its client over a link.
    pub(crate) fn served(
        &mut self,
        contender: &Contender,
        place: Where,
        load: &Load,
        seconds: f64,
    ) -> Result<Figures, String> {
        self.beside(contender, place, load, seconds, None)
    }

    /// Runs under a flood of so many SYNs a second.
    pub(super) fn flooded(
        &mut self,
        contender: &Contender,
        load: &Load,
        seconds: f64,
        rate: f64,
    ) -> Result<Figures, String> {
        self.beside(
            contender,
            Where::Veth { offloads: true },
            load,
            seconds,
            Some(rate).filter(|rate| *rate > 0.0),
        )
    }

    fn beside(
        &mut self,
        contender: &Contender,
        place: Where,
        load: &Load,
        seconds: f64,
        flood: Option<f64>,
    ) -> Result<Figures, String> {
        let Where::Veth { offloads } = place else { return Err("this workload has no link".into()) };
        // Bulk with offloads: on a tap device a super-segment is copied once on its way, AF_XDP copies it twice.
        let bulk = matches!(load.mode, "put" | "get");
        let tap = bulk && offloads && matches!(contender.kind, Kind::Ours(_));
        let field = self.field(offloads, tap)?;
        let server = field.start(contender, load, tap)?;
        std::thread::sleep(Duration::from_millis(100));
        let flood = flood.map(|rate| field.flood(rate, seconds + 1.0)).transpose()?;
        let figures = measure(&field.bed, &field.programs.client, &server, load, seconds)?;
        drop(flood);
        Ok(figures)
    }

    /// Runs a contender with both stacks in one process, on one core; by way of a program of `peers/`, if one is named.
    pub(super) fn in_memory(
        &mut self,
        contender: &Contender,
        wrapper: Option<&'static str>,
        words: &[&str],
    ) -> Result<Figures, String> {
        let wrapper = wrapper.map(|name| self.compiled(name, &[])).transpose()?;
        let wrapper: Vec<_> = wrapper.iter().map(|path| path.to_string_lossy()).collect();
        let wrapper: Vec<&str> = wrapper.iter().map(|path| &**path).collect();
        let (program, first) = match contender.kind {
            Kind::Ours(_) => {
                (std::env::current_exe().map_err(|e| e.to_string())?, vec!["contest", "millstream"])
            }
            Kind::InMemory(Program::Own(name)) => {
                (std::env::current_exe().map_err(|e| e.to_string())?, vec!["contest", name])
            }
            Kind::InMemory(Program::Lwip) => {
                (self.compiled("lwip", &["-I/usr/include/lwip", "-ldl"])?, vec![])
            }
            Kind::InMemory(Program::Gvisor) => (self.gvisor()?, vec![]),
            Kind::Kernel | Kind::Ideal => return Err("it does not run in memory".into()),
        };
        let program = program.to_string_lossy();
        let limit = ["120", "env", "GOMAXPROCS=1", "taskset", "-c", SERVER_CPU];
        let used = || Ok::<_, String>((busy_us("")?, children_us()?, now()));
        let before = used()?;
        let said = sh("timeout", &[&limit, &wrapper[..], &[&*program], &first, words].concat())?;
        let after = used()?;
        let said = said.lines().last().unwrap_or_default();
        let mut figures: Figures =
            serde_json::from_str(said).map_err(|e| format!("it said {said:?}: {e}"))?;
        let others = (after.0 - before.0) as f64 - (after.1 - before.1) as f64;
        figures.insert(OTHERS.into(), others.max(0.0) / 1e6 / (after.2 - before.2).as_secs_f64());
        Ok(figures)
    }

    /// The folder for programs, made when it is first needed.
    fn dir(&mut self) -> Result<&Dir, String> {
        match &mut self.dir {
            Some(dir) => Ok(dir),
            none => Ok(none.insert(Dir::new("ms-compare")?)),
        }
    }

    /// A program of `peers/` in C.
    fn compiled(&mut self, name: &'static str, flags: &[&str]) -> Result<PathBuf, String> {
        self.built(name, |dir| dir.c(name, flags))
    }

    fn gvisor(&mut self) -> Result<PathBuf, String> {
        self.built("gvisor", |dir| dir.gvisor("gvisor"))
    }

    fn built(
        &mut self,
        name: &'static str,
        build: impl FnOnce(&Dir) -> Result<PathBuf, String>,
    ) -> Result<PathBuf, String> {
        if let Some(path) = self.peers.get(name) {
            return Ok(path.clone());
        }
        let out = build(self.dir()?)?;
        self.peers.insert(name, out.clone());
        Ok(out)
    }
}

/// CPU time of the programs that this one has started and that have ended, microseconds (10 ms ticks).
fn children_us() -> Result<u64, String> {
    let stat = std::fs::read_to_string("/proc/self/stat").map_err(of_file("/proc/self/stat"))?;
    // Behind the name, which may hold anything, the first field is the state; cutime and cstime are the 14th and 15th.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<u64> = fields.skip(13).take(2).filter_map(|field| field.parse().ok()).collect();
    if ticks.len() < 2 {
        return Err("/proc/self/stat is odd".into());
    }
    Ok(ticks.iter().sum::<u64>() * 10_000)
}

impl Field {
    fn new(offloads: bool, tap: bool) -> Result<Field, String> {
        let bed = Bed::new(offloads)?;
        if tap {
            bed.tap_instead()?;
        } else {
            // The one that is asked by addresses that do not exist answers to the clients' side, which drops it.
            sh("ip", &["-n", &bed.server, "route", "add", "198.18.0.0/15", "via", CLIENT_BASE])?;
        }
        let programs = Programs::build(&bed.dir, &our_command()?)?;
        Ok(Field { bed, programs })
    }

    fn start(&self, contender: &Contender, load: &Load, tap: bool) -> Result<Server, String> {
        let size = load.more.first().map_or("64", String::as_str);
        let (namespace, program, args) = match contender.kind {
            Kind::Kernel => {
                let mut args = vec![SERVER_ADDR.to_string(), "80".into(), size.into()];
                args.push(
                    match load.mode {
                        "put" => "sink",
                        "get" => "source",
                        _ => "serve",
                    }
                    .into(),
                );
                args.push(load.connections.to_string());
                (&self.bed.server, &self.programs.server, args)
            }
            Kind::Ideal => {
                (&self.bed.server, &self.programs.ideal, vec!["ms0".to_string(), "80".into(), size.into()])
            }
            Kind::Ours(_) if tap => (
                &self.bed.client,
                &self.programs.ours,
                contender.serve("tap:mst0", Some(&network())).unwrap_or_default(),
            ),
            Kind::Ours(_) => {
                (&self.bed.server, &self.programs.ours, contender.serve("xdp:ms0", None).unwrap_or_default())
            }
            Kind::InMemory(_) => return Err("it has no link".into()),
        };
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.bed.start(namespace, program, &args)
    }

    /// SYNs from addresses that do not exist, beside the client, for so long.
    fn flood(&self, rate: f64, seconds: f64) -> Result<Server, String> {
        let (rate, seconds) = (rate.to_string(), seconds.to_string());
        self.bed.start_on(
            &self.bed.client,
            CLIENT_CPU,
            &self.programs.flood,
            &[SERVER_ADDR, "80", &rate, &seconds],
        )
    }
}

/// Runs the client; figures of the time in which it measured.
fn measure(bed: &Bed, client: &Path, server: &Server, load: &Load, seconds: f64) -> Result<Figures, String> {
    let (n, secs, count) = (load.connections.to_string(), seconds.to_string(), CLIENT_ADDRS.to_string());
    let mut args = vec![load.mode, SERVER_ADDR, "80", &n, &secs, CLIENT_BASE, &count];
    args.extend(load.more.iter().map(String::as_str));
    // What it costs a server to say how long it has looked for packets is not part of what it is measured for.
    let used = || Ok::<_, String>((server.cpu_ns()?, busy_us("")?));
    let client = bed.start_on(&bed.client, CLIENT_CPU, client, &args)?;
    let (spun, before) = (bed.spin_us(server)?, used()?);
    let said = client.wait()?;
    let (after, spin) = (used()?, bed.spin_us(server)? - spun);
    let said: Value =
        serde_json::from_str(said.trim()).map_err(|e| format!("the client said {said:?}: {e}"))?;
    let number = |key: &str| said[key].as_f64().unwrap_or(0.0);
    let (requests, seconds) = (number("requests"), number("seconds"));
    let bulk = matches!(load.mode, "put" | "get");
    if (bulk && number("bytes") == 0.0) || (!bulk && requests == 0.0) {
        return Err(format!("nothing was answered, {} errors", number("errors")));
    }
    let (cpu, spin) = ((after.0 - before.0) as f64 / 1e3, spin as f64);
    let mut figures = Figures::new();
    let mut put = |name: &str, value: f64| {
        figures.insert(name.into(), value);
    };
    put("cores", cpu / 1e6 / seconds);
    put("worked", (cpu - spin).max(0.0) / 1e6 / seconds);
    put("errors", number("errors"));
    let others = (after.1 - before.1) as f64 - cpu - number("cpu_us");
    put(OTHERS, others.max(0.0) / 1e6 / seconds);
    put("gbit", number("bytes") * 8e-9 / seconds);
    if !bulk {
        put("per_s", requests / seconds);
        put("cpu_us", cpu / requests);
        put("spin_us", spin / requests);
        put("client_us", number("cpu_us") / requests);
        put("machine_us", (after.1 - before.1) as f64 / requests);
        ["p50_us", "p99_us", "p999_us"].iter().for_each(|name| put(name, number(name)));
    }
    Ok(figures)
}
