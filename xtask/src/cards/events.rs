//! Events while serving: what people and cards do to an interface under a server. A connection survives what one of the
//! kernel's would, also that the card is pulled out and put back.

use std::net::SocketAddr;

use super::guest::{GUEST4, GUEST6, Guest, HOST4, HOST6, MAC, TAP};
use super::http::{Client, pattern};
use super::roles::{self, COMMAND, Outcome, SIZES, Setting};
use crate::run;

/// An event, and the commands in the guest that make it. Their failure is the driver's refusal: nothing happened then.
struct Event {
    name: &'static str,
    script: &'static str,
}

const fn event(name: &'static str, script: &'static str) -> Event {
    Event { name, script }
}

/// In this order: some undo what others did.
const EVENTS: &[Event] = &[
    event("MTU 1300", "ip link set card0 mtu 1300"),
    event("MTU 1500", "ip link set card0 mtu 1500"),
    event("MTU 3000", "ip link set card0 mtu 3000"),
    event("MTU 9000", "ip link set card0 mtu 9000"),
    event("MTU 1500 again", "ip link set card0 mtu 1500"),
    event("down and up", "ip link set card0 down && ip link set card0 up"),
    event("ethtool -G", "ethtool -G card0 rx 512 tx 512"),
    event("ethtool -L, one less", "ethtool -L card0 combined $(($(nproc) > 1 ? $(nproc) - 1 : 1))"),
    event("ethtool -L, all", "ethtool -L card0 combined $(nproc)"),
    event("ethtool -K", "ethtool -K card0 gro off && ethtool -K card0 gro on"),
    event("ethtool -r", "ethtool -r card0"),
    event("tcpdump", "timeout 2 tcpdump -c 1 -nni card0; true"),
];

/// Serves, and has everything happen in turn. An error means that the guest is lost.
pub(super) fn play(guest: &mut Guest, setting: &Setting<'_>, millstream: &str) -> Result<Outcome, String> {
    let Setting { files, link, cores, .. } = setting;
    let serve = format!("{millstream} serve --link {link} --cores {cores} --listen [::]:80 --dir {files}");
    let ready = "grep -q ^serving /run/log";
    let started = roles::start(guest, &serve, ready)?;
    if started.status != 0 {
        roles::stop(guest)?;
        return Ok(roles::refusal(&started));
    }
    let way = roles::way(guest)?;
    // Longer frames than the guest's shall not be what fails.
    run::tool("ip").args(["link", "set", TAP, "mtu", "9000"]).output()?;
    let mut failed = Vec::new();
    let mut clients = Vec::new();
    for Event { name, script } in EVENTS {
        if clients.is_empty() {
            match connect(2 * cores) {
                Ok(open) => clients = open,
                Err(why) => {
                    failed.push(format!("before {name}: {why}"));
                    break;
                }
            }
        }
        let told = guest.run(script, COMMAND)?;
        if told.status != 0 {
            println!("    {name}: refused by the driver: {}", told.text.replace('\n', " "));
        }
        settle(guest)?;
        let old = clients.iter_mut().try_for_each(ask);
        let new = connect(2 * cores);
        let outcome = old.map_err(|why| format!("{name}: an open connection: {why}"));
        match outcome.and(new.map_err(|why| format!("{name}: a new connection: {why}"))) {
            Ok(_) => println!("    {name}: connections go on"),
            Err(why) => {
                println!("    {why}");
                failed.push(why);
                clients.clear();
            }
        }
    }
    if link.starts_with("nic") || link.starts_with("xdp") {
        second_program(guest, millstream, &way, &mut failed)?;
    }
    for how in &PULLS {
        pull(guest, how, &mut clients, 2 * cores, &mut failed)?;
    }
    roles::stop(guest)?;
    run::tool("ip").args(["link", "set", TAP, "mtu", "1500"]).output()?;
    Ok(if failed.is_empty() {
        Outcome::Works(way)
    } else {
        Outcome::Dead(format!("{way}: {}", failed.join("; ")))
    })
}

/// The addresses are there again and packets pass.
fn settle(guest: &mut Guest) -> Result<(), String> {
    let script = format!(
        "ip -6 addr show dev card0 | grep -q {GUEST6} || ip addr add {GUEST6}/64 dev card0 nodad; \
         for i in $(seq 100); do ping -c1 -W1 {HOST4} && ping -c1 -W1 {HOST6} && exit_status=0 && break; \
         exit_status=1; sleep 0.2; done; (exit $exit_status)"
    );
    let answer = guest.run(&script, COMMAND)?;
    if answer.status == 0 {
        Ok(())
    } else {
        Err(format!("no packet of the kernel's passes: {}", answer.text))
    }
}

fn connect(count: u32) -> Result<Vec<Client>, String> {
    let addresses = [roles::address(GUEST4)?, roles::address(GUEST6)?];
    let open = |number: u32| {
        let to = SocketAddr::new(addresses[number as usize % addresses.len()], 80);
        let mut client = Client::connect(to)?;
        ask(&mut client).map(|()| client)
    };
    (0..count.max(2)).map(open).collect()
}

fn ask(client: &mut Client) -> Result<(), String> {
    SIZES.iter().try_for_each(|&len| client.get(&format!("/{len}"), &pattern(len)))
}

/// Another program cannot take the interface away, and hears who has it.
fn second_program(
    guest: &mut Guest,
    millstream: &str,
    way: &str,
    failed: &mut Vec<String>,
) -> Result<(), String> {
    if way == "packet sockets" {
        return Ok(());
    }
    let second = format!("timeout 20 {millstream} serve --link xdp:card0 --listen 81");
    let answer = guest.run(&second, COMMAND)?;
    let refused = answer.text.contains("is in use") && answer.text.contains("pid");
    println!("    second XDP program: {}", answer.text.replace('\n', " "));
    if answer.status == 0 || !refused {
        failed.push(format!("a second XDP program: status {}: {}", answer.status, answer.text));
    }
    Ok(())
}

/// A way in which a card goes and comes back.
struct Pull {
    name: &'static str,
    out: fn(&mut Guest) -> Result<(), String>,
    back: fn(&mut Guest) -> Result<(), String>,
}

/// By the guest's kernel, and out of the slot.
const PULLS: [Pull; 2] = [
    Pull { name: "remove and rescan", out: remove, back: rescan },
    Pull {
        name: "device_del and device_add",
        out: |guest| guest.pull_card(),
        back: |guest| guest.put_card(),
    },
];

fn remove(guest: &mut Guest) -> Result<(), String> {
    let script = "card=$(readlink -f /sys/class/net/card0/device); \
                  while [ ! -e $card/remove ]; do card=${card%/*}; done; echo 1 >$card/remove";
    guest.run(script, COMMAND).map(drop)
}

fn rescan(guest: &mut Guest) -> Result<(), String> {
    guest.run("echo 1 >/sys/bus/pci/rescan", COMMAND).map(drop)
}

/// Pulls the card out and puts it back: the server waits and says so, and connections go on.
fn pull(
    guest: &mut Guest,
    how: &Pull,
    open: &mut [Client],
    count: u32,
    failed: &mut Vec<String>,
) -> Result<(), String> {
    let Pull { name, out, back } = how;
    let before = guest.run("grep -c 'is gone' /run/log", COMMAND)?.text;
    if let Err(why) = out(guest) {
        failed.push(format!("{name}: {why}"));
        return Ok(());
    }
    // A kernel that is asked for its card takes some seconds.
    let wait = format!(
        "for i in $(seq 200); do [ $(grep -c 'is gone' /run/log) -gt {before} ] && break; sleep 0.2; done; \
         tail -1 /run/log; [ $(grep -c 'is gone' /run/log) -gt {before} ] && kill -0 $(cat /run/pid)"
    );
    let answer = guest.run(&wait, COMMAND)?;
    println!("    {name}, out: {}", answer.text.replace('\n', " "));
    if answer.status != 0 {
        failed.push(format!("{name}, out: status {}: {}", answer.status, answer.text));
    }
    back(guest)?;
    let there = format!(
        "for i in $(seq 300); do grep -q {MAC} /sys/class/net/*/address && break; sleep 0.1; done; \
         grep -q {MAC} /sys/class/net/*/address"
    );
    if guest.run(&there, COMMAND)?.status != 0 {
        return Err(format!("{name}: the guest's kernel does not find the card again"));
    }
    guest.connect()?;
    settle(guest)?;
    let old = open.iter_mut().try_for_each(ask).map_err(|why| format!("an open connection: {why}"));
    let new = connect(count).map_err(|why| format!("a new connection: {why}"));
    match old.and(new) {
        Ok(_) => println!("    {name}, back: connections go on"),
        Err(why) => failed.push(format!("{name}, back: {why}")),
    }
    Ok(())
}
