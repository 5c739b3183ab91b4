//! An input as a packetdrill script, which expects what the kernel did.

use super::input::{Action, Call, Input, echoed};
use super::trace::{Moment, Trace};
use base::Duration;
use drill::lang::{Body, Packet, TcpOption};

/// Returns the script. `why` is its comment. It runs by itself: `packetdrill` on the kernel, `millstream drill` here.
pub fn script(input: &Input, kernel: &Trace, why: &[String]) -> String {
    let mut text: String = why.iter().map(|line| format!("// {line}\n")).collect();
    if input.v6 {
        text.push_str("--ip_version=ipv6\n");
    }
    // Time of the line before, since the step before.
    let mut at = Duration::ZERO;
    // What an echo of the latest timestamp is.
    let mut latest = 0;
    for (index, step) in input.steps.iter().enumerate() {
        let pause = step.pause().saturating_sub(at);
        let moment = kernel.moments.get(index).cloned().unwrap_or_default();
        match &step.action {
            Action::Call(call) => text.push_str(&calls(*call, pause, &moment)),
            Action::Send(packet, echo) => {
                let packet = echoed(packet, *echo, latest);
                text.push_str(&format!("{} {packet}\n", plus(pause)));
            }
        }
        at = Duration::ZERO;
        for seen in &moment.seen {
            let after = seen.at.saturating_sub(at);
            let time = if after < Duration::from_millis(4) {
                plus(Duration::ZERO)
            } else {
                let slack = super::compare::TOLERANCE.max(after / 4);
                format!("{}~{}", plus(after.saturating_sub(slack)), plus(after + slack))
            };
            text.push_str(&format!("{time} {}\n", without_window(&seen.packet)));
            at = seen.at;
            if let Some(stamp) = stamp(&seen.packet) {
                latest = stamp;
            }
        }
    }
    text
}

/// The kernel's window is not compared unless it is shut, and where PSH stands is not compared either.
fn without_window(packet: &Packet) -> Packet {
    let mut packet = packet.clone();
    packet.ip = drill::lang::IpInfo::default();
    if let Body::Tcp(tcp) = &mut packet.body {
        tcp.window = tcp.window.filter(|window| *window == 0);
    }
    packet
}

fn stamp(packet: &Packet) -> Option<u32> {
    let Body::Tcp(tcp) = &packet.body else { return None };
    tcp.options.iter().flatten().find_map(|option| match option {
        TcpOption::Timestamps { val, .. } => *val,
        _ => None,
    })
}

fn plus(time: Duration) -> String {
    format!("+{}.{:03}", time.as_secs(), time.subsec_millis())
}

/// The lines of a call, with the answer that the kernel gave.
fn calls(call: Call, pause: Duration, moment: &Moment) -> String {
    let answer = moment.answer.as_deref().unwrap_or("0");
    let answer = match answer.strip_prefix("-1 ") {
        Some(errno) => format!("-1 {errno} (as the kernel)"),
        None => answer.split(',').next().unwrap_or("0").to_owned(),
    };
    let first = plus(pause);
    match call {
        Call::Listen => format!(
            "{first} socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
             +0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n\
             +0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0\n\
             +0 bind(3, ..., ...) = 0\n\
             +0 {call} = {answer}\n"
        ),
        Call::Connect => format!(
            "{first} socket(..., SOCK_STREAM, IPPROTO_TCP) = 4\n\
             +0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n\
             +0 {call} = {answer}\n"
        ),
        Call::Accept if answer == "4" => {
            format!("{first} {call} = 4\n+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n")
        }
        Call::Poll => {
            let bits = answer.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
            let Some(bits) = bits else { return format!("// {call} = {answer}\n") };
            format!(
                "{first} poll([{{fd=4, events=POLLIN|POLLOUT|POLLRDHUP, revents={}}}], 1, 0) = {}\n",
                events(bits),
                u8::from(bits != 0)
            )
        }
        Call::Error => format!("{first} getsockopt(4, SOL_SOCKET, SO_ERROR, [{answer}], [4]) = 0\n"),
        _ => format!("{first} {call} = {answer}\n"),
    }
}

fn events(bits: u32) -> String {
    const NAMES: [(u32, &str); 5] =
        [(1, "POLLIN"), (4, "POLLOUT"), (8, "POLLERR"), (0x10, "POLLHUP"), (0x2000, "POLLRDHUP")];
    let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    if names.is_empty() { "0".into() } else { names.join("|") }
}
