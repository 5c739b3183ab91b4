//! Roles tried on a card: our server, our client and programs under the launcher, against the kernel's sockets.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;

use super::dpdk;
use super::events;
use super::guest::{Answer, GUEST4, GUEST6, Guest, HOST4, HOST6};
use super::http::{self, Server};
use super::launched;
use super::shapes;

/// How a role ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// Every byte came, over IPv4 and IPv6; how the link was opened.
    Works(String),
    /// The program said why it does not run.
    Refused(String),
    /// Neither.
    Dead(String),
}

/// Role of the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Serve,
    Load,
    Nginx,
    Haproxy,
    Iperf3,
    /// Everything that happens to an interface while it serves, in turn ([`super::events`]).
    Events,
    /// Interfaces above others ([`super::shapes`]).
    Shapes,
}

impl Role {
    /// Roles that have a column in the table.
    pub(super) const ALL: [Role; 5] = [Role::Serve, Role::Load, Role::Nginx, Role::Haproxy, Role::Iperf3];

    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Serve => "serve",
            Role::Load => "load",
            Role::Nginx => "nginx",
            Role::Haproxy => "haproxy",
            Role::Iperf3 => "iperf3",
            Role::Events => "events",
            Role::Shapes => "shapes",
        }
    }
}

/// The way of a card that the kernel gave up.
pub(super) const DPDK: &str = "DPDK";
/// Programs start slowly in a guest.
pub(super) const START: Duration = Duration::from_secs(120);
/// The longest command otherwise.
pub(super) const COMMAND: Duration = Duration::from_secs(180);
/// Time limit of a client's requests, seconds: one that hangs is found in this time.
const LOAD_SECONDS: u32 = 40;
/// The least share of the requests that every core of a client must have, in percent.
const SHARE_MIN: u64 = 15;
/// Files that servers have: their names are their lengths.
pub(super) const SIZES: [usize; 2] = [1_000, 300_000];

/// Environment of the roles.
pub(super) struct Setting<'a> {
    /// The folder of the programs under test.
    pub(super) programs: &'a str,
    /// The folder with files to serve.
    pub(super) files: &'a str,
    /// The link as `--link` takes it.
    pub(super) link: &'a str,
    pub(super) cores: u32,
}

impl Setting<'_> {
    fn is_dpdk(&self) -> bool {
        self.link.starts_with("dpdk:")
    }
}

/// Tries one role. An error means that the guest is lost.
pub(super) fn play(role: Role, guest: &mut Guest, setting: &Setting<'_>) -> Result<Outcome, String> {
    if setting.link == "dpdk:" {
        let place = match dpdk::take(guest)? {
            Ok(place) => place,
            Err(outcome) => return Ok(outcome),
        };
        let (programs, link) = (dpdk::programs().display().to_string(), dpdk::link(&place));
        return play(role, guest, &Setting { programs: &programs, link: &link, ..*setting });
    }
    let Setting { programs, files, link, cores } = setting;
    let millstream = format!("{programs}/millstream");
    match role {
        Role::Serve => {
            let command =
                format!("{millstream} serve --link {link} --cores {cores} --listen [::]:80 --dir {files}");
            served(guest, &command, "grep -q ^serving /run/log", setting)
        }
        Role::Nginx => launched::nginx(guest, setting),
        Role::Haproxy => launched::haproxy(guest, setting),
        Role::Iperf3 => launched::iperf3(guest, setting),
        Role::Events => events::play(guest, setting, &millstream),
        Role::Shapes => shapes::play(guest, &millstream),
        Role::Load => load(guest, &millstream, setting),
    }
}

/// Starts a server in the guest and waits until `ready` holds; status 0 if it does.
pub(super) fn start(guest: &mut Guest, command: &str, ready: &str) -> Result<Answer, String> {
    let start = format!(
        "{command} >/run/log 2>&1 & echo $! >/run/pid; for i in $(seq 200); do {ready} && break; \
         kill -0 $(cat /run/pid) 2>/dev/null || break; sleep 0.3; done; {ready} && exit_status=0 || exit_status=1; \
         cat /run/log; (exit $exit_status)"
    );
    guest.run(&start, START)
}

/// Starts a server in the guest, and asks for every file over both protocols.
fn served(guest: &mut Guest, command: &str, ready: &str, setting: &Setting<'_>) -> Result<Outcome, String> {
    let started = start(guest, command, ready)?;
    if started.status != 0 {
        stop(guest)?;
        return Ok(refusal(&started));
    }
    let way = if setting.is_dpdk() { DPDK.into() } else { way(guest)? };
    let told = if setting.is_dpdk() { vec![dpdk::abilities(guest, command)?] } else { Vec::new() };
    let asked = ask(setting.cores);
    let notes = if asked.is_err() { notes(guest)? } else { String::new() };
    stop(guest)?;
    Ok(match asked {
        Ok(()) => Outcome::Works(with(&way, &told)),
        Err(why) => Outcome::Dead(format!("{way}: {why}{notes}")),
    })
}

/// Several clients at once, so that every queue of the card gets some.
pub(super) fn ask(cores: u32) -> Result<(), String> {
    let addresses: [IpAddr; 2] = [address(GUEST4)?, address(GUEST6)?];
    for to in addresses {
        let to = SocketAddr::new(to, 80);
        // The first connection alone: the program that fails is told by name.
        http::get(to, &format!("/{}", SIZES[0]), &http::pattern(SIZES[0]))?;
        let clients: Vec<_> = (0..2 * cores)
            .map(|number| {
                let len = SIZES[number as usize % SIZES.len()];
                std::thread::spawn(move || http::get(to, &format!("/{len}"), &http::pattern(len)))
            })
            .collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked".to_string())??;
        }
    }
    Ok(())
}

pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

/// Our client against the kernel's server. The server counts, the client reports errors and each core's share.
fn load(guest: &mut Guest, millstream: &str, setting: &Setting<'_>) -> Result<Outcome, String> {
    let Setting { link, cores, .. } = setting;
    let (mut ways, mut told) = (String::new(), Vec::new());
    for host in [HOST4, HOST6] {
        let server = Server::start(address(host)?)?;
        let url = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
        let requests = 40 * cores;
        let command = format!(
            "{millstream} load --link {link} --cores {cores} --json -c {} -n {requests} --rate {} -s {LOAD_SECONDS} \
             http://{url}:{}/10000 >/run/log 2>/run/err & pid=$!; : >/run/way; while kill -0 $pid 2>/dev/null; do \
             way=$(ip -d link show card0 2>/dev/null | grep -o 'xdp[a-z]*' | head -1); \
             [ -z \"$way\" ] || echo $way >/run/way; \
             sleep 0.1; done; wait $pid; s=$?; cat /run/log; grep -v 300 /run/err | tail -3; (exit $s)",
            4 * cores,
            // Every core wants as much, however fast another is.
            20 * cores,
            server.port
        );
        let answer = guest.run(&command, COMMAND)?;
        if answer.status != 0 {
            return Ok(refusal(&answer));
        }
        let said = object(&answer.text);
        let (done, errors) = (said["requests"].as_u64(), said["errors"].as_u64());
        let enough = done.is_some_and(|done| done >= u64::from(requests));
        if !enough || server.served() < u64::from(requests) || errors != Some(0) {
            let done = done.map_or("no".into(), |done| done.to_string());
            let (served, errors) =
                (server.served(), errors.map_or("unknown".into(), |errors| errors.to_string()));
            return Ok(Outcome::Dead(format!(
                "{done} of {requests} requests to {host} came back within {LOAD_SECONDS} s, {served} were answered, \
                 errors {errors}"
            )));
        }
        let shares = said["core_requests"].as_array().into_iter().flatten();
        let shares: Vec<u64> = shares.filter_map(Value::as_u64).collect();
        if shares.len() != *cores as usize || !is_even(&shares) {
            return Ok(Outcome::Dead(format!("the cores' shares of the requests to {host} are {shares:?}")));
        }
        told.extend((*cores > 1).then(|| shared("requests of the cores", &shares)));
        ways = guest.run("cat /run/way", COMMAND)?.text;
    }
    let way = if setting.is_dpdk() { DPDK.to_string() } else { named(&ways) };
    Ok(Outcome::Works(with(&way, &told)))
}

/// Has each its least part of the whole?
pub(super) fn is_even(shares: &[u64]) -> bool {
    let all: u64 = shares.iter().sum();
    all > 0 && shares.iter().all(|share| share * 100 >= all * SHARE_MIN)
}

/// Shares in words.
pub(super) fn shared(what: &str, shares: &[u64]) -> String {
    format!("{what}: {}", shares.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
}

/// The way of the packets, and what else was seen.
pub(super) fn with(way: &str, told: &[String]) -> String {
    [&[way.to_string()], told].concat().join("; ")
}

/// The object of JSON among the lines that a program said.
fn object(text: &str) -> Value {
    let mut objects = text.lines().filter(|line| line.starts_with('{'));
    objects.find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

/// By which way the link that is open has its packets: the kernel knows of XDP programs.
pub(super) fn way(guest: &mut Guest) -> Result<String, String> {
    let answer = guest.run("ip -d link show card0 | grep -o 'xdp[a-z]*' | head -1", COMMAND)?;
    Ok(named(&answer.text))
}

fn named(word: &str) -> String {
    match word.trim() {
        "xdp" => "XDP in the driver",
        "xdpgeneric" => "generic XDP",
        _ => "packet sockets",
    }
    .into()
}

/// Counters that tell why nothing came.
pub(super) fn notes(guest: &mut Guest) -> Result<String, String> {
    let script = "for p in $(cat /run/pid); do ls -d /proc/$p >/dev/null 2>&1 || echo the program ended; done; \
                  tail -3 /run/log; MILLSTREAM=$(tr '\\0' '\\n' </proc/$(cat /run/pid)/cmdline | head -1); \
                  $MILLSTREAM stat 2>/dev/null | grep -E 'drop_|retrans|xdp|partial|rx_frames|resets' | tr -s ' ' | \
                  tr '\\n' ';'";
    let answer = guest.run(script, COMMAND)?;
    Ok(format!(" [{}]", answer.text.replace('\n', "; ")))
}

pub(super) fn stop(guest: &mut Guest) -> Result<(), String> {
    let script = "pid=$(cat /run/pid); kill $pid 2>/dev/null; \
                  for i in $(seq 50); do kill -0 $pid 2>/dev/null || break; \
                  sleep 0.2; done; kill -9 $pid 2>/dev/null; sleep 0.2";
    guest.run(script, COMMAND).map(drop)
}

/// Is a line a complaint of ours? The launcher's report of a program that ended by itself is none.
pub(super) fn complains(line: &str) -> bool {
    line.starts_with("millstream") && !line.ends_with("nothing was on the stack")
}

/// A program that ended with words of its own has refused; one that panicked or said nothing is dead.
pub(super) fn refusal(answer: &Answer) -> Outcome {
    let text = answer.text.replace('\n', " ");
    // The shell's words hold the program's path: `sh: 7: .../millstream: not found`.
    let told = answer.text.lines().any(|line| line.starts_with("error") || complains(line));
    if told && !text.contains("panicked") && !text.contains("no request was answered") {
        Outcome::Refused(text)
    } else {
        Outcome::Dead(format!("status {}: {text}", answer.status))
    }
}

#[cfg(test)]
mod tests;
