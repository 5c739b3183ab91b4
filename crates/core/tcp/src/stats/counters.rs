//! A core's TCP counters, and its reasons to drop.

base::counters! {
    /// One core's TCP counters (RFC 4022 and RFC 4898 terms where they have one).
    pub struct Counters {
        active_opens: "Connections opened by connect.",
        passive_opens: "Connections opened by a peer.",
        established: "Handshakes that finished.",
        attempt_fails: "Handshakes that failed.",
        established_resets: "Established connections that ended by a reset, either side's.",
        closed: "Connections that reached CLOSED.",
        time_waits: "Connections that entered TIME-WAIT.",
        segments_in: "Segments received.",
        segments_out: "Segments sent, retransmissions and super-segments counted once each.",
        bytes_in: "Bytes of data received in order.",
        bytes_out: "Bytes of data sent, retransmissions included.",
        acks_in: "Segments that acknowledged something new.",
        pure_acks_out: "Segments sent only to acknowledge or to update the window.",
        delayed_acks: "Acknowledgments sent because their delay ran out.",
        duplicate_acks_in: "Duplicate acknowledgments (RFC 5681, section 2).",
        predicted_data: "Data segments that header prediction took (TCPHPHits).",
        predicted_acks: "Acknowledgments of new data that it took (TCPHPAcks).",
        unpredicted: "Segments that it did not take: all checks were made. The rest of segments_in was predicted.",
        retransmits: "Data segments retransmitted, whatever the cause.",
        fast_retransmits: "Entries into fast recovery.",
        timeouts: "Retransmission timeouts of data.",
        rehashes: "Flow labels changed after a timeout (RFC 6438).",
        syn_retransmits: "SYN and SYN-ACK retransmissions.",
        reordering_timeouts: "Losses found when the reordering timer ran out (RFC 8985, section 6.2).",
        tail_probes: "Tail loss probes sent (RFC 8985, section 7).",
        fastopen_active: "Connects whose data with the SYN were acknowledged (TCPFastOpenActive).",
        fastopen_active_fail: "Connects whose data with the SYN were not (TCPFastOpenActiveFail).",
        fastopen_passive: "Connections opened by a SYN with a good cookie (TCPFastOpenPassive).",
        fastopen_passive_fail: "SYNs with a bad cookie (TCPFastOpenPassiveFail).",
        fastopen_passive_alt_key: "Cookies made with the second key, and replaced (TCPFastOpenPassiveAltKey).",
        fastopen_cookie_requests: "SYNs that asked for a cookie (TCPFastOpenCookieReqd).",
        fastopen_listen_overflow: "SYNs with data that met too many unproven connections (TCPFastOpenListenOverflow).",
        fastopen_blackhole: "Connects with Fast Open that no peer answered (TCPFastOpenBlackhole).",
        tail_probe_recoveries: "Losses that only the tail loss probe repaired.",
        spurious_recoveries: "Recoveries and timeouts found needless by timestamps (RFC 3522) or reported duplicates.",
        dsacks_in: "Reports of duplicates received (RFC 2883).",
        marks_in: "Segments received with a congestion mark (RFC 3168).",
        echoes_in: "Acknowledgments that echo a congestion mark.",
        ecn_reductions: "Windows reduced because of such an echo.",
        accecn_agreed: "Connections that agreed on accurate ECN feedback (RFC 9768).",
        accecn_mangled: "Those of them that found ECN's fields changed on the way.",
        accecn_options_out: "Segments sent with counters of bytes.",
        accecn_options_off: "Connections that stopped sending them, because what carried them seemed lost.",
        marks_told: "Packets of ours of which accurate feedback told that they arrived marked.",
        sack_blocks_in: "SACK blocks received.",
        sack_blocks_out: "SACK blocks sent.",
        dsacks_out: "Duplicate-SACK blocks sent (RFC 2883).",
        list_steps: "Entries compared or moved in the lists that SACKs, retransmissions and out-of-order data make.",
        out_of_order_in: "Data segments that left a hole before them.",
        duplicates_in: "Data segments that held nothing new.",
        reassembly_refused: "Out-of-order segments refused because a connection held too many runs.",
        reassembly_full: "Those refused because such data took its share of the pool.",
        beyond_fin: "Data segments that lay beyond the peer's FIN.",
        send_buffers_bounded: "Times a send buffer got less room because more than half of the pool was in use.",
        out_of_order_pruned: "Times a connection gave up out-of-order data that pinned too much of it (TCPOFODrop).",
        orphans_reset: "Connections reset after their application closed them, because there were too many of them or \
                        the pool was used up (TCPAbortOnMemory).",
        no_memory: "Data segments refused because the pool of chunks was exhausted.",
        paws_drops: "Segments dropped by PAWS (RFC 7323, section 5).",
        missing_timestamps: "Segments dropped because they lacked the negotiated timestamp.",
        out_of_window: "Segments outside the receive window.",
        bad_acks: "Segments that acknowledged what was never sent, or was forgotten long ago.",
        challenge_acks: "Challenge ACKs sent (RFC 5961).",
        challenged_resets: "Of these, those that answer a RST that is not exactly the next byte (section 3).",
        challenged_syns: "Those that answer a SYN in a synchronized state (section 4).",
        challenged_acks: "Those that answer an acknowledgment out of range (section 5).",
        challenged_places: "Those that answer a segment without data that is old or outside the window.",
        challenge_acks_withheld: "Challenge ACKs the rate limit withheld.",
        md5_missing: "Segments dropped because they lacked the MD5 signature (TCPMD5NotFound).",
        md5_unexpected: "Segments dropped because of an MD5 signature without a key for it (TCPMD5Unexpected).",
        md5_bad: "Segments dropped because their MD5 signature was wrong (TCPMD5Failure).",
        ao_missing: "Segments dropped because they lacked TCP-AO (TCPAORequired).",
        ao_unexpected: "Segments dropped because of TCP-AO without a key for it.",
        ao_unknown_key: "Segments dropped because their KeyID is unknown (TCPAOKeyNotFound).",
        ao_bad: "Segments dropped because their TCP-AO was wrong (TCPAOBad).",
        ao_icmp_ignored: "ICMP errors not believed about connections with TCP-AO (TCPAODroppedIcmps).",
        several_signatures: "Segments dropped because they carried several signatures.",
        unwanted_signatures: "Signed segments for ports where nothing listens, dropped.",
        no_acks: "Segments dropped because they lacked ACK in a synchronized state.",
        bad_resets: "RSTs dropped because they were not exactly the next byte (RFC 5961, section 3).",
        bad_syns: "SYNs dropped in a synchronized state (RFC 5961, section 4), and the first one come again.",
        resets_in: "Valid RSTs received.",
        resets_out: "RSTs sent by connections.",
        window_probes: "Zero-window probes sent.",
        window_updates: "Window updates sent because the application read.",
        keepalive_probes: "Keepalive probes sent.",
        keepalive_failures: "Connections that failed because no keepalive probe was answered.",
        user_timeouts: "Connections that failed because data stayed unacknowledged too long.",
        orphan_timeouts: "Orphans given up: retransmissions or FIN-WAIT-2 ran out.",
        abort_on_data: "Connections reset because data met a closed reader (RFC 2525, section 2.17).",
        icmp_soft: "ICMP errors noted for later.",
        icmp_hard: "ICMP errors that ended a handshake.",
        icmp_ignored: "ICMP errors about bytes that are not in flight (RFC 5927).",
        mtu_reductions: "Path MTU reductions by ICMP.",
        resegments_withheld: "Of these, those after which the rate limit let nothing be sent again at once.",
        mtu_probes: "Segments sent larger than the others, to find the path's MTU (RFC 8899).",
        mtu_probes_lost: "Of these, those that alone were lost.",
        mtu_raises: "Of these, those that arrived: the path's MTU is larger.",
        black_holes: "Times segments became smaller because nothing got through any more (RFC 4821, section 7.7).",
        paced: "Times something waited for the pace to let it go.",
        idle_restarts: "Congestion windows restarted after idleness (RFC 5681, section 4.1).",
        limited_send_buffer_us: "Time that senders waited because their send buffers were too small, summed up.",
        limited_peer_window_us: "Time that senders waited for the peers' windows (RFC 4898's SndLimTimeRwin).",
        limited_congestion_window_us: "Time that senders waited for their congestion windows (of SndLimTimeCwin).",
        limited_pacing_us: "Time that senders waited for the rate that a policy or an application set.",
        limited_loss_recovery_us: "Time that senders repaired losses (the rest of SndLimTimeCwin).",
        limited_stack_us: "Time that senders waited for a frame, or room in the port.",
        limited_reader_us: "Time that the windows offered were shut because applications did not read.",
    }
}

impl Counters {
    /// Counts a segment that was dropped, where the check that dropped it has not.
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        match reason {
            DropReason::NoAck => self.no_acks += 1,
            DropReason::BadReset => self.bad_resets += 1,
            DropReason::BadSyn => self.bad_syns += 1,
            DropReason::Paws
            | DropReason::NoTimestamp
            | DropReason::OutOfWindow
            | DropReason::BadAck
            | DropReason::NoMemory
            | DropReason::Reassembly
            | DropReason::Closed => {}
        }
    }
}

base::names! {
    /// Why a segment was dropped; each is counted and shown.
    pub enum DropReason {
        Paws: "paws", "Timestamp older than the last one (RFC 7323, section 5).",
        NoTimestamp: "no-timestamp", "Negotiated timestamp missing (RFC 7323, section 3.2).",
        OutOfWindow: "out-of-window", "Outside the receive window (RFC 9293, section 3.10.7.4).",
        NoAck: "no-ack", "Without ACK in a synchronized state (RFC 9293, section 3.10.7.4).",
        BadAck: "bad-ack", "Acknowledges what is not in flight (RFC 5961, section 5).",
        BadReset: "bad-reset", "RST that is not exactly the next byte (RFC 5961, section 3).",
        BadSyn: "bad-syn", "SYN in a synchronized state (RFC 5961, section 4).",
        NoMemory: "no-memory", "No chunk left for its data.",
        Reassembly: "reassembly", "More out-of-order data than may be held.",
        Closed: "closed", "The connection is over.",
    }
}
