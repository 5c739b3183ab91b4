//! A connection's row of `ss`, and its limits.

use base::{Instant, Rate};
use serde_json::{Value, json};
use stack::{Core, Row};
use tcp::{Info, Limit};

/// Every listener, connection and TIME-WAIT entry of a core.
pub(super) fn rows(core: &Core, now: Instant) -> Vec<Value> {
    let mut rows = Vec::new();
    core.for_each(now, &mut |row| {
        rows.push(match row {
            Row::Listener { local, waiting, backlog } => json!({
                "state": "LISTEN", "local": local.to_string(), "waiting": waiting, "backlog": backlog,
            }),
            Row::TimeWait(entry) => json!({
                "state": "TIME-WAIT",
                "local": entry.key.local().to_string(),
                "remote": entry.key.remote().to_string(),
            }),
            Row::Connection(conn) => connection(conn, core, now),
        });
    });
    rows
}

fn connection(conn: &tcp::Connection, core: &Core, now: Instant) -> Value {
    let (info, config) = (conn.info(now), core.config());
    let mut row = json!({
        "state": info.state.name(),
        "local": conn.key().local().to_string(),
        "remote": conn.key().remote().to_string(),
        "recv_q": conn.readable(),
        "send_q": conn.unacked(),
        "unsent": conn.unsent(),
        "cc": info.control,
        "cwnd": info.window.cwnd,
        "ssthresh": (info.window.ssthresh != u32::MAX).then_some(info.window.ssthresh),
        "srtt_us": info.srtt.as_micros() as u64,
        "rttvar_us": info.rttvar.as_micros() as u64,
        "min_rtt_us": info.min_rtt.as_micros() as u64,
        "rcv_rtt_us": info.rcv_rtt.as_micros() as u64,
        "rto_us": info.rto.as_micros() as u64,
        "mss": info.snd_mss,
        "in_flight": info.in_flight,
        "retransmits": info.retransmits,
        "delivered": info.delivered,
        "busy_us": info.busy.as_micros() as u64,
        "window_starved_us": info.window_starved.as_micros() as u64,
        "buffer_starved_us": info.buffer_starved.as_micros() as u64,
        "snd_wnd": info.snd_wnd,
        "rcv_wnd": info.rcv_wnd,
        "sndbuf": info.sndbuf.0,
        "rcvbuf": info.rcvbuf.0,
        "pacing": conn.pacing_rate(config).map(Rate::bytes_per_sec),
        "max_pacing": info.max_pacing.map(Rate::bytes_per_sec),
        "nodelay": info.nodelay,
        "bytes_acked": info.bytes_acked,
        "bytes_received": info.bytes_received,
        "bytes_sent": info.bytes_sent,
        "bytes_retransmitted": info.bytes_retransmitted,
        "timeouts": info.total_timeouts,
        "reassembly": info.reassembly.runs,
        "reassembly_bytes": info.reassembly.bytes,
        "reassembly_memory": info.reassembly.memory,
        "reassembly_limit": info.reassembly.limit,
        "reassembly_refused": info.reassembly.refused,
        "timestamps": info.timestamps,
        "sack": info.sack,
        "recovery": info.recovery || info.loss,
    });
    limits(&info, &mut row);
    row["memory_scarce"] = core.is_memory_scarce().into();
    row["now_us"] = now.as_micros().into();
    row
}

/// Adds its limits and the time under each: RFC 4898's SndLim figures, and those of the reader.
fn limits(info: &Info, row: &mut Value) {
    let idle = info.limit == Limit::Application && info.sndbuf.1 == 0;
    row["limit"] = if idle { "idle" } else { info.limit.name() }.into();
    row["receive_limit"] = info.receive_limit.name().into();
    let held = Limit::ALL.iter().filter(|&&limit| limit != Limit::Application);
    let time = |&limit: &Limit| (limit.name().to_string(), info.limited.time(limit).as_micros() as u64);
    row["limited_us"] = held.map(time).map(|(name, micros)| (name, Value::from(micros))).collect();
    row["reader_us"] = (info.limited.reader().as_micros() as u64).into();
    let (receiver, congestion) = info.limited.times_by_receiver_and_congestion();
    row["snd_lim"] = json!({
        "trans_rwin": info.limited.receiver_transitions(),
        "trans_cwin": info.limited.congestion_transitions(),
        "trans_snd": info.limited.sender_transitions(),
        "time_rwin_us": receiver.as_micros() as u64,
        "time_cwin_us": congestion.as_micros() as u64,
    });
}
