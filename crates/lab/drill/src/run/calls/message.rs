//! Control messages: what recvmsg tells beside the bytes, against what the script says it tells.

use super::Stop;
use super::check::same;
use crate::lang::{Call, Expr, ExprKind};
use crate::run::known::Known;
use base::Instant;
use sock::{ErrorReport, Received};

type Result<T> = std::result::Result<T, Stop>;

/// TCP_CM_INQ, SCM_TIMESTAMPING.
const CM_INQ: i64 = 36;

/// One control message that the stack gave.
enum Seen<'a> {
    Left(u32),
    Time(Instant),
    Report(&'a ErrorReport),
}

impl Seen<'_> {
    /// Level and type, as Linux numbers them.
    fn kind(&self, known: &Known) -> (i64, i64) {
        match self {
            Seen::Left(_) => (libc::SOL_TCP.into(), CM_INQ),
            Seen::Time(_) => (libc::SOL_SOCKET.into(), libc::SO_TIMESTAMPING.into()),
            Seen::Report(_) => known.options.error_level(),
        }
    }
}

/// With bytes.
pub(super) fn received(known: &Known, call: &Call, seen: &Received) -> Result<()> {
    let mut list = Vec::new();
    list.extend(seen.arrived.map(Seen::Time));
    list.extend(seen.left.map(Seen::Left));
    compare(known, call, 0, &list)
}

/// From the error queue.
pub(super) fn error(known: &Known, call: &Call, report: &ErrorReport) -> Result<()> {
    let mut list = Vec::new();
    list.extend(report.at.map(Seen::Time));
    list.push(Seen::Report(report));
    let truncated = if report.truncated { libc::MSG_TRUNC } else { 0 };
    compare(known, call, libc::MSG_ERRQUEUE | truncated, &list)
}

fn compare(known: &Known, call: &Call, flags: i32, seen: &[Seen<'_>]) -> Result<()> {
    let Some(message) = call.arguments.get(1) else { return Ok(()) };
    if let Some(expected) = known.field(message, "msg_flags")? {
        same(known, "recvmsg(): msg_flags", expected, flags.into())?;
    }
    let Some(expected) = known.field(message, "msg_control")? else { return Ok(()) };
    let ExprKind::Array(expected) = &expected.kind else { return Ok(()) };
    if expected.len() != seen.len() {
        return Stop::fail(format!(
            "recvmsg(): expected {} control messages, got {}",
            expected.len(),
            seen.len()
        ));
    }
    expected.iter().zip(seen).try_for_each(|(expected, seen)| one(known, expected, seen))
}

fn one(known: &Known, expected: &Expr, seen: &Seen<'_>) -> Result<()> {
    let (level, kind) = seen.kind(known);
    for (name, value) in [("cmsg_level", level), ("cmsg_type", kind)] {
        if let Some(field) = known.field(expected, name)? {
            same(known, name, field, value)?;
        }
    }
    let Some(data) = known.field(expected, "cmsg_data")? else { return Ok(()) };
    match seen {
        Seen::Left(left) => same(known, "TCP_CM_INQ", data, i64::from(*left)),
        Seen::Time(at) => time(known, data, *at),
        Seen::Report(report) => {
            let fields = [
                ("ee_errno", report.errno.map_or(0, |errno| errno.raw().into())),
                ("ee_origin", i64::from(report.origin)),
                ("ee_type", 0),
                ("ee_code", i64::from(report.code)),
                ("ee_info", i64::from(report.info)),
                ("ee_data", i64::from(report.data)),
            ];
            fields.iter().try_for_each(|(name, value)| match known.field(data, name)? {
                Some(field) => same(known, name, field, *value),
                None => Ok(()),
            })
        }
    }
}

/// Times count from the beginning of the script.
fn time(known: &Known, expected: &Expr, at: Instant) -> Result<()> {
    let number = |name: &str| known.field(expected, name)?.map_or(Ok(0), |value| known.int(value));
    let expected = number("scm_sec")? * 1_000_000_000 + number("scm_nsec")?;
    let seen = at.as_nanos() as i64 - crate::run::world::START.as_nanos() as i64;
    if expected.abs_diff(seen) > known.options.tolerance.as_nanos() as u64 {
        return Stop::fail(format!("scm_nsec: expected {expected} ns, got {seen} ns"));
    }
    Ok(())
}
