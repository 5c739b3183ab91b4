//! `blackbox`: the last moments of connections, and turning the recording on and off.

use super::refuse;
use crate::Engine;
use crate::clients::Answer;
use crate::net::Stack;
use base::{Endpoint, FlowKey};
use serde_json::{Value, json};
use std::io::Write;
use std::net::SocketAddr;
use tcp::Incident;
use trace::blackbox::{BlackBox, Record, Ring, Segment, Size, What};

/// Answers `on RECORDS`, `off`, or `lines` and `records`, each of all connections or of `LOCAL REMOTE`.
pub(super) fn answer(stacks: &[Stack], client: &mut Answer, words: &[&str]) -> std::io::Result<()> {
    match *words {
        ["on", records] => match records.parse() {
            Ok(records) => switch(stacks, Some(Size { records, ..Size::default() })),
            Err(_) => refuse(client, "blackbox on takes a number of records"),
        },
        ["off"] => switch(stacks, None),
        ["lines", ref flow @ ..] => match flow_of(flow) {
            Ok(flow) => tell(stacks, client, flow.as_ref(), lines),
            Err(why) => refuse(client, why),
        },
        ["records", ref flow @ ..] => match flow_of(flow) {
            Ok(flow) => tell(stacks, client, flow.as_ref(), records),
            Err(why) => refuse(client, why),
        },
        _ => refuse(client, "ask blackbox lines [LOCAL REMOTE], records [LOCAL REMOTE], on RECORDS or off"),
    }
}

fn flow_of(words: &[&str]) -> Result<Option<FlowKey>, &'static str> {
    const WANT: &str = "a flow is written LOCAL REMOTE, each like 192.0.2.1:80 or [2001:db8::1]:80";
    let end = |word: &str| word.parse::<SocketAddr>().map(Endpoint::from).map_err(|_| WANT);
    match *words {
        [] => Ok(None),
        [local, remote] => Ok(Some(FlowKey::new(end(local)?, end(remote)?))),
        _ => Err(WANT),
    }
}

/// Turns recording on, if it is not, or off.
fn switch(stacks: &[Stack], size: Option<Size>) -> std::io::Result<()> {
    for stack in stacks {
        stack.inspect(Box::new(|engine: &mut Engine| {
            let core = engine.core();
            let running = core.probe::<BlackBox>().map(|(id, _)| id);
            match (running, size) {
                (None, Some(size)) => {
                    core.attach(Box::new(BlackBox::new(size)));
                }
                (Some(id), None) => {
                    core.detach(id);
                }
                _ => {}
            }
        }));
    }
    Ok(())
}

/// One object a ring. The rings are copied while the core waits, and written down when it goes on.
fn tell(
    stacks: &[Stack],
    client: &mut Answer,
    flow: Option<&FlowKey>,
    content: fn(&Ring) -> (&'static str, Value),
) -> std::io::Result<()> {
    let mut off = true;
    for (core, stack) in stacks.iter().enumerate() {
        let mut rings: Vec<Ring> = Vec::new();
        stack.inspect(Box::new(|engine| {
            if let Some((_, box_)) = engine.core().probe::<BlackBox>() {
                off = false;
                rings.extend(box_.rings(flow).cloned());
            }
        }));
        rings.sort_by_key(|ring| ring.begun);
        for ring in rings {
            let (key, value) = content(&ring);
            let mut row = json!({
                "core": core,
                "local": ring.key.local().to_string(),
                "remote": ring.key.remote().to_string(),
                "end": ring.end(),
                "made": ring.made,
                "overwritten": ring.overwritten(),
                "begun_us": ring.begun.as_micros(),
                "closed_us": ring.closed.map(|at| at.as_micros()),
            });
            row[key] = value;
            writeln!(client, "{row}")?;
        }
    }
    match off {
        true => refuse(client, "nothing is recorded; `millstream blackbox --on 100` begins"),
        false => Ok(()),
    }
}

fn lines(ring: &Ring) -> (&'static str, Value) {
    ("text", ring.to_string().into())
}

fn records(ring: &Ring) -> (&'static str, Value) {
    ("records", ring.records().map(|record| as_json(ring, record)).collect())
}

fn as_json(ring: &Ring, record: &Record) -> Value {
    let segment = |what: &str, segment: &Segment| {
        json!({
            "what": what, "seq": segment.seq.raw(), "ack": segment.ack.raw(), "len": segment.len,
            "window": segment.window, "flags": format!("{:?}", segment.flags),
        })
    };
    let mut value = match &record.what {
        What::In(one) => segment("in", one),
        What::Out(one) => segment("out", one),
        What::Again(one) => segment("again", one),
        What::State(from, to) => json!({ "what": "state", "from": from.name(), "to": to.name() }),
        What::Window { cwnd, ssthresh } => json!({
            "what": "window", "cwnd": cwnd, "ssthresh": (*ssthresh != u32::MAX).then_some(ssthresh),
        }),
        What::Incident(incident) => {
            let what = match incident {
                Incident::Timer(_) => "timer",
                Incident::Timeout { .. } => "timeout",
                Incident::RecoveryEntered | Incident::RecoveryLeft { .. } => "recovery",
                Incident::Congestion(_) => "congestion",
                Incident::Dropped(_) => "dropped",
                Incident::Failed(_) => "failed",
            };
            json!({ "what": what, "line": ring.line(record) })
        }
    };
    value["at_us"] = record.at.as_micros().into();
    value
}
