//! Unmodified programs under `millstream run --require` in the guest: nginx, haproxy and iperf3.
//!
//! Each is one process. A worker for each core would be a process for each core, of which one has the card's queues
//! and the others packet sockets.

use super::guest::{Answer, GUEST4, GUEST6, Guest, HOST4, HOST6};
use super::http::{Server, THREAD};
use super::roles::{
    COMMAND, Outcome, START, Setting, address, ask, complains, is_even, notes, refusal, shared, stop, way,
    with,
};
use crate::run;

/// Time within which a program has its listeners, seconds.
const READY_SECONDS: u64 = START.as_secs() - 30;

/// A program, and what tells that it is there.
struct Program<'a> {
    /// Its command line.
    command: &'a str,
    /// A port on which it listens.
    port: u16,
    /// The number of sockets with which it does.
    listeners: usize,
}

/// nginx with one process serves the laboratory's files.
pub(super) fn nginx(guest: &mut Guest, setting: &Setting<'_>) -> Result<Outcome, String> {
    let files = setting.files;
    let config = format!(
        "daemon off; master_process off; error_log stderr; pid /run/nginx.pid; events {{ }} \
         http {{ access_log off; client_body_temp_path /run/b; proxy_temp_path /run/p; \
         fastcgi_temp_path /run/f; uwsgi_temp_path /run/u; scgi_temp_path /run/s; \
         server {{ listen 80; listen [::]:80; root {files}; }} }}"
    );
    write(guest, "/run/nginx.conf", &config)?;
    let program = Program { command: "nginx -c /run/nginx.conf", port: 80, listeners: 2 };
    serving(guest, setting, &program, |_| ask(setting.cores).map(|()| Vec::new()))
}

/// Rounds of requests with which the threads of a program are tried.
const ROUNDS: u32 = 4;

/// haproxy in the guest, with a thread for each core, forwards to servers on the wire's other end, of the client's own
/// family. Both of its sides are the stack's. The server must have seen as many requests as clients got answers, and no
/// thread may have had less than its part of them. A header tells the thread of each.
pub(super) fn haproxy(guest: &mut Guest, setting: &Setting<'_>) -> Result<Outcome, String> {
    let (four, six) = (Server::start(address(HOST4)?)?, Server::start(address(HOST6)?)?);
    let part = |name: &str, bind: &str, host: &str, port: u16| {
        format!(
            "frontend {name}\n bind {bind}\n http-request set-header {THREAD} %[thread]\n \
             default_backend to_{name}\nbackend to_{name}\n server a {host}:{port}\n"
        )
    };
    let config = format!(
        "global\n nbthread {}\n maxconn 200\ndefaults\n mode http\n timeout connect 60s\n timeout client 60s\n \
         timeout server 60s\n{}{}",
        setting.cores,
        part("four", "0.0.0.0:80", HOST4, four.port),
        part("six", "[::]:80 v6only", &format!("[{HOST6}]"), six.port)
    );
    write(guest, "/run/haproxy.conf", &config)?;
    let program = Program { command: "haproxy -db -f /run/haproxy.conf", port: 80, listeners: 2 };
    let rounds = if setting.cores > 1 { ROUNDS } else { 1 };
    serving(guest, setting, &program, |_| {
        (0..rounds).try_for_each(|_| ask(setting.cores))?;
        let wanted = u64::from(rounds * (2 * setting.cores + 1));
        let served = [four.served(), six.served()];
        if served != [wanted; 2] {
            return Err(format!("the servers behind it answered {served:?} requests of {wanted} each"));
        }
        if setting.cores == 1 {
            return Ok(Vec::new());
        }
        let both = four.served_by_thread().into_iter().zip(six.served_by_thread());
        let shares: Vec<_> = both.map(|(four, six)| four + six).take(setting.cores as usize).collect();
        let told = shared("requests of the threads", &shares);
        let all = shares.iter().sum::<u64>() == 2 * wanted;
        if all && is_even(&shares) { Ok(vec![told]) } else { Err(told) }
    })
}

/// Bytes of one transfer of iperf3; there are four.
pub(super) const TRANSFER: u64 = 256 << 20;
/// Socket buffers of iperf3, bytes. The kernel doubles what it is told.
const BUFFER: u64 = 128 << 10;
/// Bytes that may be on their way when iperf3 stops counting: both buffers, doubled, and a block of the sender.
const UNDERWAY: u64 = 4 * BUFFER + (128 << 10);
/// Time limit of a transfer, seconds.
const TRANSFER_SECONDS: &str = "300";

/// An iperf3 server in the guest takes from a client on the kernel and sends to it, over IPv4 and IPv6.
pub(super) fn iperf3(guest: &mut Guest, setting: &Setting<'_>) -> Result<Outcome, String> {
    let program = Program { command: "iperf3 -s -p 5201 --forceflush", port: 5201, listeners: 1 };
    serving(guest, setting, &program, |guest| {
        let runs = [GUEST4, GUEST6].into_iter().flat_map(|to| [(to, &[][..]), (to, &["-R"])]);
        for (number, (to, direction)) in (1..).zip(runs) {
            // After each test the server closes its listener and opens another.
            listens_again(guest, number)?;
            let (bytes, buffer) = (TRANSFER.to_string(), BUFFER.to_string());
            let command = [TRANSFER_SECONDS, "iperf3", "-c", to, "-p", "5201", "--json", "-n", &bytes];
            let client = run::tool("timeout").args(command).args(["-w", &buffer]).args(direction);
            let told = client.output().map_err(|why| format!("{to} {direction:?}: {why}"))?;
            compared(&told).map_err(|why| format!("{to} {direction:?}: {why}"))?;
        }
        Ok(Vec::new())
    })
}

/// Waits until the iperf3 server has said for the `number`th time that it listens.
fn listens_again(guest: &mut Guest, number: u32) -> Result<(), String> {
    let wait = format!(
        "end=$(($(date +%s) + {READY_SECONDS})); \
         while [ $(grep -c 'Server listening' /run/log) -lt {number} ]; do [ $(date +%s) -lt $end ] || break; \
         sleep 0.1; done; [ $(grep -c 'Server listening' /run/log) -ge {number} ]"
    );
    match guest.run(&wait, START)?.status {
        0 => Ok(()),
        _ => Err(format!("the server does not listen for test {number}")),
    }
}

/// Compares the bytes that both ends of iperf3 counted. Each end tells its own in the client's report. The receiver
/// stops counting when the sender has written all, so that it may lack what is on its way, and no more.
fn compared(report: &str) -> Result<(), String> {
    let value: serde_json::Value =
        serde_json::from_str(report).map_err(|why| format!("iperf3's report is no JSON: {why}: {report}"))?;
    let sum = |name: &str| value["end"][name]["bytes"].as_u64();
    match (sum("sum_sent"), sum("sum_received")) {
        (Some(sent), Some(received)) => {
            let all = sent >= TRANSFER && received <= sent && received + UNDERWAY >= sent;
            all.then_some(()).ok_or(format!("{received} of {sent} bytes came, {TRANSFER} were wanted"))
        }
        _ => Err(format!("iperf3 counted nothing: {}", report.replace('\n', " "))),
    }
}

fn write(guest: &mut Guest, path: &str, text: &str) -> Result<(), String> {
    let written = guest.run(&format!("printf '%s\\n' '{text}' >{path}"), COMMAND)?;
    if written.status == 0 { Ok(()) } else { Err(format!("{path}: {}", written.text)) }
}

/// Starts a program under the launcher, waits until the stack has its listeners, and runs `client` against it,
/// which tells what else was seen. With `--require` a program goes without the stack for no socket that listens on
/// the card: it is refused, and that the launcher or the library says.
fn serving(
    guest: &mut Guest,
    setting: &Setting<'_>,
    program: &Program<'_>,
    client: impl FnOnce(&mut Guest) -> Result<Vec<String>, String>,
) -> Result<Outcome, String> {
    let millstream = format!("{}/millstream", setting.programs);
    let Program { command, port, listeners } = program;
    let start = format!(
        "{millstream} run --exec --require --link {} -- {command} >/run/log 2>&1 & pid=$!; echo $pid >/run/pid; s=1; \
         end=$(($(date +%s) + {READY_SECONDS})); while [ $(date +%s) -lt $end ]; do \
         kill -0 $pid 2>/dev/null || break; \
         n=$({millstream} ss --json --pid $pid 2>/dev/null | grep LISTEN | grep -c ':{port}\"'); \
         [ \"$n\" -lt {listeners} ] || {{ s=0; break; }}; sleep 0.2; done; cat /run/log; (exit $s)",
        setting.link
    );
    let started = guest.run(&start, START)?;
    if started.status != 0 {
        stop(guest)?;
        // The program may have gone on complaining; the reason is in the launcher's words.
        let told: Vec<_> = started.text.lines().filter(|line| complains(line)).collect();
        let text = if told.is_empty() { started.text.clone() } else { told.join("\n") };
        return Ok(refusal(&Answer { status: started.status, text }));
    }
    let way = way(guest)?;
    let outcome = client(guest);
    let notes = if outcome.is_err() { notes(guest)? } else { String::new() };
    stop(guest)?;
    Ok(match outcome {
        Ok(told) => Outcome::Works(with(&way, &told)),
        Err(why) => Outcome::Dead(format!("{way}: {why}{notes}")),
    })
}

#[cfg(test)]
mod tests;
