//! Comparison of a call's result with the script's expectation, and the run's knowledge from it.

use super::{Answer, Got, Request, Stop, message};
use crate::lang::{Call, Expr, ExprKind};
use crate::run::flow::{Flow, Stage, byte};
use crate::run::known::Known;
use crate::run::symbols::errno_name;
use sock::{EpollEvent, PollFd};

type Result<T> = std::result::Result<T, Stop>;

/// Checks result, error and what came with it, and takes in new descriptors.
pub(in crate::run) fn check(known: &mut Known, call: &Call, request: &Request, answer: Answer) -> Result<()> {
    let shown = shown(&answer);
    let wrong = |expected: String| Stop::fail(format!("{}(): expected {expected}, got {shown}", call.name));
    let expected = match &call.result.kind {
        ExprKind::Any => None,
        _ => Some(known.int(&call.result)?),
    };
    match (expected, answer.result) {
        (Some(-1), Ok(_)) => return wrong(format!("-1 {}", call.errno.as_deref().unwrap_or(""))),
        (Some(-1), Err(errno)) => {
            let Some(name) = &call.errno else { return Ok(()) };
            return match crate::run::symbols::find(name) {
                Some(number) if number == i64::from(errno) => Ok(()),
                Some(_) => wrong(format!("-1 {name}")),
                None => Stop::unsupported(format!("the error {name}")),
            };
        }
        (Some(value), Err(errno)) => {
            if errno == libc::ENOPROTOOPT {
                return Stop::unsupported(format!("the socket option {}", option_name(call)));
            }
            return wrong(value.to_string());
        }
        (None, Err(_)) => return wrong("...".into()),
        (Some(value), Ok(result)) => {
            // A descriptor has the number that the script gives it.
            if !matches!(answer.got, Got::Descriptor(..)) && result != value {
                return wrong(value.to_string());
            }
        }
        (None, Ok(_)) => {}
    }
    learn(known, call, request, &answer, expected)?;
    compare(known, call, request, &answer.got)
}

fn shown(answer: &Answer) -> String {
    match answer.result {
        Ok(value) if matches!(answer.got, Got::Descriptor(..)) && value == 0 => "a descriptor".into(),
        Ok(value) => value.to_string(),
        Err(errno) => format!("-1 {}", errno_name(errno)),
    }
}

/// The option as the script calls it.
fn option_name(call: &Call) -> String {
    match call.arguments.get(2).map(|argument| &argument.kind) {
        Some(ExprKind::Name(name)) => name.clone(),
        other => format!("{other:?}"),
    }
}

/// Records descriptors, stages of connections, bytes written and read.
fn learn(
    known: &mut Known,
    call: &Call,
    request: &Request,
    answer: &Answer,
    expected: Option<i64>,
) -> Result<()> {
    match (request, &answer.got) {
        (Request::Socket(_), Got::Descriptor(fd, _)) => {
            let number = known.name_descriptor(expected, *fd);
            known.begin_flow(Flow::new(Stage::Fresh, Some(number)));
        }
        (_, Got::Descriptor(fd, peer)) => {
            let number = known.name_descriptor(expected, *fd);
            if let Some(peer) = peer {
                known.accepted(number, *peer);
            }
        }
        (Request::Send { .. }, _) => {
            let script_fd = known.int(&call.arguments[0])?;
            if let (Some(flow), Ok(sent)) = (known.flow_of_mut(script_fd), answer.result) {
                flow.written += sent as u64;
            }
        }
        (_, Got::Pair(read, write)) => {
            let Some(ExprKind::Array(ends)) = call.arguments.first().map(|a| &a.kind) else { return Ok(()) };
            for (end, fd) in ends.clone().iter().zip([*read, *write]) {
                let number = known.int(end)?;
                known.fds.insert(number, fd);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Compares the output arguments of the call.
fn compare(known: &mut Known, call: &Call, request: &Request, got: &Got) -> Result<()> {
    match (request, got) {
        (Request::RecvMessage { .. }, Got::Message(_, received)) => message::received(known, call, received)?,
        (Request::RecvError(_), Got::Error(report)) => return message::error(known, call, report),
        _ => {}
    }
    match (request, got) {
        (
            Request::Recv { flags, .. } | Request::RecvMessage { flags, .. },
            Got::Bytes(bytes) | Got::Message(bytes, _),
        ) => {
            let script_fd = known.int(&call.arguments[0])?;
            let Some(flow) = known.flow_of_mut(script_fd) else { return Ok(()) };
            let first = flow.read as u32 + 1;
            // What is thrown away (MSG_TRUNC) is not shown.
            let shown = if flags.discard { 0 } else { bytes.len() };
            if let Some(i) = (0..shown).find(|&i| bytes[i] != byte(first.wrapping_add(i as u32))) {
                return Stop::fail(format!("{}(): byte {i} is not what the peer sent there", call.name));
            }
            if !flags.peek {
                flow.read += bytes.len() as u64;
            }
            Ok(())
        }
        (Request::GetOption { .. }, Got::Bytes(bytes)) => option_value(known, call, bytes),
        (_, Got::Number(number)) => {
            let Some(ExprKind::Array(values)) = call.arguments.get(2).map(|a| &a.kind) else { return Ok(()) };
            let Some(value) = values.first() else { return Ok(()) };
            same(known, &call.name, value, *number)
        }
        (_, Got::Rows(rows)) => poll_rows(known, call, rows),
        (_, Got::Events(events)) => epoll_events(known, call, events),
        _ => Ok(()),
    }
}

/// `...` is anything.
pub(super) fn same(known: &Known, what: &str, expected: &Expr, seen: i64) -> Result<()> {
    if expected.kind == ExprKind::Any {
        return Ok(());
    }
    match known.int(expected)? {
        value if value == seen => Ok(()),
        value => Stop::fail(format!("{what}: expected {value}, got {seen}")),
    }
}

fn option_value(known: &Known, call: &Call, bytes: &[u8]) -> Result<()> {
    let name = option_name(call);
    let words: Vec<i32> = bytes.as_chunks::<4>().0.iter().map(|word| i32::from_ne_bytes(*word)).collect();
    match call.arguments.get(3).map(|argument| &argument.kind) {
        Some(ExprKind::Array(values)) => {
            for (i, value) in values.iter().enumerate() {
                let seen = words.get(i).copied().unwrap_or(0);
                let expected = if value.kind == ExprKind::Any { seen } else { known.int(value)? as i32 };
                if expected != seen {
                    return Stop::fail(format!("getsockopt({name}): expected {expected}, got {seen}"));
                }
            }
            Ok(())
        }
        Some(ExprKind::Struct(fields)) => {
            for (field, seen) in fields.iter().zip(words) {
                if let ExprKind::Field(field_name, _, value) = &field.kind {
                    same(known, &format!("getsockopt({name}).{field_name}"), value, seen.into())?;
                }
            }
            Ok(())
        }
        Some(ExprKind::Text(text)) => {
            let end = bytes.iter().position(|&o| o == 0).unwrap_or(bytes.len());
            let seen = String::from_utf8_lossy(&bytes[..end]);
            if seen == *text {
                return Ok(());
            }
            Stop::fail(format!("getsockopt({name}): expected \"{text}\", got \"{seen}\""))
        }
        _ => Ok(()),
    }
}

fn poll_rows(known: &Known, call: &Call, rows: &[PollFd]) -> Result<()> {
    let Some(ExprKind::Array(items)) = call.arguments.first().map(|argument| &argument.kind) else {
        return Ok(());
    };
    for (item, row) in items.iter().zip(rows) {
        let expected = known.field(item, "revents")?.map_or(Ok(0), |revents| known.int(revents))?;
        if expected != i64::from(row.ready.0) {
            return Stop::fail(format!("poll(): expected revents {expected:#x}, got {:#x}", row.ready.0));
        }
    }
    Ok(())
}

fn epoll_events(known: &Known, call: &Call, events: &[EpollEvent]) -> Result<()> {
    let Some(argument) = call.arguments.get(1) else { return Ok(()) };
    let items = match &argument.kind {
        ExprKind::Array(items) => items.as_slice(),
        ExprKind::Struct(_) => std::slice::from_ref(argument),
        _ => return Ok(()),
    };
    for (item, event) in items.iter().zip(events) {
        let expected = known.field(item, "events")?.map_or(Ok(0), |events| known.int(events))?;
        if expected as u32 != event.ready.0 {
            return Stop::fail(format!(
                "epoll_wait(): expected events {expected:#x}, got {:#x}",
                event.ready.0
            ));
        }
        let data = known.event_data(item)?;
        if data != event.data {
            return Stop::fail(format!("epoll_wait(): expected data {data}, got {}", event.data));
        }
    }
    Ok(())
}
