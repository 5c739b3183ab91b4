//! `struct tcp_info` in Linux's layout, from the connection's own snapshot.

use tcp::{AccEcnInfo, Info, State};

/// Bytes of the layout up to and including `tcpi_rehash` and its padding: what current tools read.
pub const LEN: usize = 280;

/// TCPI_OPT_*: timestamps, SACK, window scale, ECN, ECN seen (where its feedback is accurate), data in the SYN,
/// timestamps of microseconds.
fn option_bits(info: &Info) -> u8 {
    let scaled = info.scale != (0, 0);
    u8::from(info.timestamps)
        | u8::from(info.sack) << 1
        | u8::from(scaled) << 2
        | u8::from(info.ecn) << 3
        | u8::from(
            info.accecn.is_some_and(|ecn| ecn.received_ce > 0 || ecn.received_bytes != Default::default()),
        ) << 4
        | u8::from(info.syn_data) << 5
        | u8::from(info.usec_timestamps) << 6
}

/// tcpi_ca_state: TCP_CA_Open, Disorder, CWR, Recovery, Loss.
fn congestion_state(info: &Info) -> u8 {
    let states = [(info.loss, 4), (info.recovery, 3), (info.reduced, 2), (info.disorder, 1)];
    states.iter().find(|(holds, _)| *holds).map_or(0, |(_, number)| *number)
}

/// Fields that only connections with accurate ECN fill (tcpi_delivered_ce and what follows tcpi_total_rto_time).
fn put_accecn(info: &AccEcnInfo, out: &mut [u8; LEN]) {
    let words = [
        (196, info.delivered_ce),
        (248, info.received_ce),
        (252, info.delivered_bytes.ect1),
        (256, info.delivered_bytes.ect0),
        (260, info.delivered_bytes.ce),
        (264, info.received_bytes.ect1),
        (268, info.received_bytes.ect0),
        (272, info.received_bytes.ce),
        (276, u32::from(info.option_seen as u8) << 2 | u32::from(fail_mode(info)) << 4),
    ];
    for (at, value) in words {
        out[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
}

/// TCP_ACCECN_ACE_FAIL_SEND, _RECV, TCP_ACCECN_OPT_FAIL_SEND and _RECV.
fn fail_mode(info: &AccEcnInfo) -> u8 {
    u8::from(info.unsure)
        | u8::from(info.mangled) << 1
        | u8::from(info.option_blocked) << 2
        | u8::from(info.option_seen == tcp::OptionSeen::Zeroed) << 3
}

/// TCPI_ECN_MODE_*: none, RFC 3168's, accurate, pending.
fn ecn_mode(info: &Info) -> u8 {
    match (info.state, info.ecn, info.accecn) {
        (_, _, Some(_)) => 2,
        (State::SynSent, true, None) => 3,
        (_, ecn, None) => u8::from(ecn),
    }
}

/// `struct tcp_info` of a socket without a connection: only its state is known.
pub fn encode_state(listens: bool) -> [u8; LEN] {
    const CLOSE: u8 = State::Closed.number();
    const LISTEN: u8 = 10;
    let mut out = [0; LEN];
    out[0] = if listens { LISTEN } else { CLOSE };
    out
}

/// The snapshot as Linux lays it out (include/uapi/linux/tcp.h names in the comments below).
pub fn encode(info: &Info) -> [u8; LEN] {
    let mut out = [0; LEN];
    out[0] = info.state.number();
    out[1] = congestion_state(info);
    out[2] = info.timeouts; // tcpi_retransmits
    out[3] = info.probes;
    out[4] = info.backoff;
    out[5] = option_bits(info);
    out[6] = info.scale.0 & 0xf | info.scale.1 << 4;
    out[7] = u8::from(!info.window_limited); // tcpi_delivery_rate_app_limited
    let micros = |d: base::Duration| u32::try_from(d.as_micros()).unwrap_or(u32::MAX);
    let long = |d: base::Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    let millis = |d: base::Duration| u32::try_from(d.as_millis()).unwrap_or(u32::MAX);
    let whole = |bytes: u32| bytes / u32::from(info.snd_mss.max(1));
    // A segment that is not full is one all the same.
    let segments = |bytes: u32| bytes.div_ceil(u32::from(info.snd_mss.max(1)));
    let words: [(usize, u32); 36] = [
        (8, micros(info.rto)),
        (12, 40_000), // tcpi_ato
        (16, info.snd_mss.into()),
        (20, info.rcv_mss.into()),
        (24, segments(info.flight)), // tcpi_unacked
        (28, segments(info.sacked)),
        (32, segments(info.lost)),
        (36, segments(info.sent_again)), // tcpi_retrans
        (44, millis(info.last_sent)),
        (52, millis(info.last_received)), // tcpi_last_data_recv
        (56, millis(info.last_received)), // tcpi_last_ack_recv
        (60, info.path_mtu.into()),
        (64, info.rcvbuf.0), // tcpi_rcv_ssthresh
        (68, micros(info.srtt)),
        (72, micros(info.rttvar)),
        (76, if info.window.ssthresh == u32::MAX { i32::MAX as u32 } else { whole(info.window.ssthresh) }),
        (80, info.metered.map_or(whole(info.window.cwnd), segments).max(1)),
        (84, info.adv_mss.into()),
        (88, info.reordering.into()),
        (92, micros(info.rcv_rtt)),
        (96, info.rcv_wnd),      // tcpi_rcv_space
        (100, info.retransmits), // tcpi_total_retrans
        (136, info.segs_out as u32),
        (140, info.segs_in as u32),
        (144, info.unsent), // tcpi_notsent_bytes
        (148, micros(info.min_rtt)),
        (152, info.data_segs_in),
        (156, info.data_segs_out),
        (192, info.delivered),
        (196, info.delivered_marked),    // tcpi_delivered_ce
        (216, info.duplicates_reported), // tcpi_dsack_dups
        (220, info.reordering_seen),     // tcpi_reord_seen
        (224, info.out_of_order_in),     // tcpi_rcv_ooopack
        (228, info.snd_wnd),
        (232, info.rcv_wnd),
        (244, millis(info.timeout_time)), // tcpi_total_rto_time
    ];
    for (at, value) in words {
        out[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    out[240..242].copy_from_slice(&info.total_timeouts.to_ne_bytes()); // tcpi_total_rto
    out[242..244].copy_from_slice(&info.timeout_recoveries.to_ne_bytes());
    let rate = |rate: Option<base::Rate>| rate.map_or(u64::MAX, |rate| rate.bytes_per_sec());
    let longs = [
        (104, rate(info.pacing)),
        (112, rate(info.max_pacing)),
        (120, info.bytes_acked),
        (128, info.bytes_received),
        (160, info.delivery.map_or(0, |rate| rate.bytes_per_sec())),
        (168, long(info.busy)),
        (176, long(info.window_starved)), // tcpi_rwnd_limited
        (184, long(info.buffer_starved)), // tcpi_sndbuf_limited
        (200, info.bytes_sent + info.bytes_retransmitted),
        (208, info.bytes_retransmitted),
    ];
    for (at, value) in longs {
        out[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    if let Some(accecn) = &info.accecn {
        put_accecn(accecn, &mut out);
    }
    out[276] |= ecn_mode(info);
    out
}
