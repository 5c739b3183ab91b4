//! `capture`: what passes the taps, as a file.

use super::refuse;
use crate::clients::Answer;
use crate::clock::{Clock, SystemClock, wall_clock};
use crate::net::Stack;
use crate::open::Tap;
use base::Duration;
use std::io::Write;
use wire::pcap::LinkType;

/// Bytes kept of a packet, and bytes that may wait for the writer.
const KEEP: usize = 65_536;
const ROOM: usize = 8 << 20;

/// Sends what passes the taps as one pcapng file, an interface per core, until the time is over or nothing reads; with
/// the state of each packet's connection in a comment, if so requested.
pub(super) fn answer(
    stacks: &[Stack],
    taps: &[Tap],
    client: &mut Answer,
    seconds: &str,
    state: bool,
) -> std::io::Result<()> {
    let Ok(seconds) = seconds.parse() else { return refuse(client, "capture takes whole seconds") };
    let mut captures: Vec<_> =
        taps.iter().map(|tap| trace::capture(&tap.switch, wall_clock, KEEP, ROOM)).collect();
    let mut probes = Vec::new();
    if state {
        for ((stack, tap), capture) in stacks.iter().zip(taps).zip(&mut captures) {
            let probe = Box::new(capture.annotate(link_of(tap)));
            stack.inspect(Box::new(|engine| probes.push(engine.core().attach(probe))));
        }
    }
    let result = record(taps, client, Duration::from_secs(seconds), &mut captures);
    for (stack, probe) in stacks.iter().zip(probes) {
        stack.inspect(Box::new(|engine| {
            engine.core().detach(probe);
        }));
    }
    result
}

fn link_of(tap: &Tap) -> LinkType {
    if tap.medium == pio::Medium::Ethernet { LinkType::Ethernet } else { LinkType::Raw }
}

fn record(
    taps: &[Tap],
    client: &mut Answer,
    time: Duration,
    captures: &mut [trace::Capture],
) -> std::io::Result<()> {
    let mut out = Vec::new();
    trace::write_start(&mut out, taps.iter().map(|tap| (link_of(tap), tap.name.as_str())));
    let clock = SystemClock::new();
    let end = clock.now() + time;
    let result = loop {
        let over = clock.now() >= end;
        if over {
            taps.iter().for_each(|tap| tap.switch.stop());
        }
        for (interface, capture) in captures.iter_mut().enumerate() {
            let drain = if over { trace::Capture::finish } else { trace::Capture::drain };
            drain(capture, interface as u32, &mut out);
        }
        let sent = client.write_all(&out).and_then(|()| client.flush());
        out.clear();
        if over || sent.is_err() {
            break sent;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    taps.iter().for_each(|tap| tap.switch.stop());
    result
}
