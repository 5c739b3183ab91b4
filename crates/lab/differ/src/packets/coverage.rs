//! Coverage of the inputs so far on this stack: states joined by events, counters, drop reasons.

use super::input::{Action, Call, Step};
use drill::lang::{Body, Flags};
use std::collections::{BTreeMap, BTreeSet};

/// States, as columns of the table of what was reached.
const STATES: [&str; 10] = [
    "",
    "SYN-SENT",
    "SYN-RECEIVED",
    "ESTABLISHED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "CLOSE-WAIT",
    "CLOSING",
    "LAST-ACK",
    "TIME-WAIT",
];
/// Events, as rows of the table.
const EVENTS: [&str; 21] = [
    "SYN",
    "SYN-ACK",
    "ACK",
    "data",
    "FIN",
    "FIN and data",
    "RST",
    "RST-ACK",
    "URG",
    "ECN",
    "other flags",
    "ICMP",
    "connect",
    "accept",
    "read",
    "write",
    "shutdown",
    "close",
    "listen",
    "set",
    "look",
];

/// Things that were reached.
#[derive(Default)]
pub struct Coverage {
    /// State before, event, state after; and how often.
    pairs: BTreeMap<(String, &'static str, String), u64>,
    counters: BTreeSet<&'static str>,
}

/// Returns the kind of event that a step is.
pub fn event(step: &Step) -> &'static str {
    match &step.action {
        Action::Call(call) => match call {
            Call::Listen | Call::CloseListener => "listen",
            Call::Connect => "connect",
            Call::Accept => "accept",
            Call::Read(_) => "read",
            Call::Write(_) => "write",
            Call::Shutdown(_) => "shutdown",
            Call::Close => "close",
            Call::Set(_) => "set",
            Call::Poll | Call::Error => "look",
        },
        Action::Send(packet, _) => {
            let Body::Tcp(tcp) = &packet.body else { return "ICMP" };
            let bits = tcp.flags.bits & !Flags::PSH;
            match bits {
                Flags::SYN => "SYN",
                _ if bits == Flags::SYN | Flags::ACK => "SYN-ACK",
                Flags::ACK if tcp.len > 0 => "data",
                Flags::ACK => "ACK",
                _ if bits == Flags::FIN | Flags::ACK && tcp.len > 0 => "FIN and data",
                _ if bits == Flags::FIN | Flags::ACK => "FIN",
                Flags::RST => "RST",
                _ if bits == Flags::RST | Flags::ACK => "RST-ACK",
                _ if bits & !(Flags::ECE | Flags::CWR) == Flags::ACK => "ECN",
                _ if bits == Flags::URG | Flags::ACK => "URG",
                _ => "other flags",
            }
        }
    }
}

impl Coverage {
    /// Marks a step between two states.
    pub fn reached(&mut self, before: &str, step: &Step, after: &str) {
        *self.pairs.entry((before.into(), event(step), after.into())).or_default() += 1;
    }

    /// Marks counters that are not zero.
    pub fn counters(&mut self, names: &[&'static str]) {
        self.counters.extend(names);
    }

    /// Number of different things reached.
    pub fn count(&self) -> usize {
        self.pairs.len() + self.counters.len()
    }

    /// Returns the table of states by events with the number of steps, and a line of those never reached.
    pub fn table(&self) -> String {
        let mut text = String::from("| Event |");
        STATES.iter().for_each(|state| {
            text.push_str(&format!(" {} |", if state.is_empty() { "none" } else { state }))
        });
        text.push_str("\n|---|");
        STATES.iter().for_each(|_| text.push_str("---:|"));
        let mut never = Vec::new();
        for event in EVENTS {
            text.push_str(&format!("\n| {event} |"));
            for state in STATES {
                let pairs = self.pairs.iter().filter(|((before, of, _), _)| *of == event && before == state);
                let count: u64 = pairs.map(|(_, count)| count).sum();
                if count == 0 {
                    never.push(format!("{event} in {}", if state.is_empty() { "no state" } else { state }));
                }
                text.push_str(&format!(" {count} |"));
            }
        }
        let joined: BTreeSet<_> = self.pairs.keys().map(|(before, _, after)| (before, after)).collect();
        text.push_str(&format!(
            "\n\n{} transitions, {} counters and drop reasons. Never reached: {}.\n",
            joined.len(),
            self.counters.len(),
            never.join(", ")
        ));
        text
    }
}
