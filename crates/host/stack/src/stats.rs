//! A core's counters beside TCP's own, and its reasons to drop packets.

base::counters! {
    /// One core's counters below TCP.
    pub struct Stats {
        packets_in: "Packets received from the port.",
        packets_out: "Packets handed to the port.",
        bytes_in: "Bytes received, headers included.",
        turns: "Rounds of the stack.",
        looped: "Packets that stayed inside the stack: their destination is an address of its own.",
        kicks: "Batches handed to the port.",
        tx_blocked: "Times the port took less than was offered.",
        no_frame: "Times the port had no frame to build a packet in.",
        timers: "Timers that came up.",
        arp_in: "ARP packets received.",
        arp_out: "ARP packets sent.",
        nd_in: "Neighbour Discovery messages received.",
        nd_out: "Neighbour Discovery messages sent.",
        icmp_errors_in: "ICMP errors about connections of ours.",
        echo_replies: "Pings answered.",
        resets_out: "RSTs sent for segments that belong to nothing.",
        cookies_sent: "SYN cookies sent.",
        cookies_good: "Connections opened by a SYN cookie.",
        handed_over: "Connections left to another process that shares their port, before they were accepted.",
        taken_over: "Connections that another process has left to this one.",
        time_wait_in: "Connections that entered TIME-WAIT.",
        time_wait_evicted: "TIME-WAIT entries that made room before their time.",
        time_wait_taken_over: "TIME-WAIT entries whose port a connect took over (RFC 6191).",
        time_wait_reused: "TIME-WAIT entries replaced by a new connection (RFC 6191).",
        bytes_in_place: "Bytes received that stayed in the port's frames, to be copied by the application's read.",
        bytes_copied_late: "Bytes of those that were copied before, because they were not read in the same turn.",
        accept_queue_full: "SYNs and ACKs ignored because no call accepts them.",
        deferred: "ACKs ignored because the listener wants data first (TCP_DEFER_ACCEPT).",
        handshake_cache_hits: "Connections begun from the handshake cache.",
        handshake_cache_misses: "Connections for which the handshake cache had no entry.",
        handshake_cache_stale: "Connections whose entry in the handshake cache was of another path or other settings.",
        handshake_cache_kept: "Entries put into the handshake cache.",
        handshake_cache_evicted: "Entries of the handshake cache that made room for others.",
        partial_checksums: "Packets taken whose checksum was left open, by a sender on this machine.",
        net_events: "Changes of addresses, routes and neighbours taken in.",
    }
}

base::names! {
    /// Why a packet went no further than the stack.
    pub enum PacketDrop {
        Parse: "drop_parse", "Malformed below TCP, or not TCP, ICMP, ARP or ND.",
        Fragment: "drop_fragment", "A fragment: TCP sends none, and none is put together.",
        Extension: "drop_extension", "IPv6 extension headers that are malformed, too many or not obeyed here.",
        NotForUs: "drop_not_for_us", "Another host's link-layer or IP address.",
        TcpHeader: "drop_tcp_header", "Malformed TCP header.",
        Checksum: "drop_checksum", "TCP checksum wrong.",
        Pieces: "drop_pieces", "A packet in several frames whose pieces do not fit together.",
        NoFlow: "drop_no_flow", "Belongs to no connection or listener.",
        AnothersFlow: "drop_anothers_flow", "Of a port that processes share: another one's to answer.",
        MovedFlow: "drop_moved_flow", "Of a port that processes share: of no flow, and another one answered lately.",
        BadSyn: "drop_bad_syn", "A SYN that no connection may come of.",
        Signature: "drop_signature", "Without the signature that is demanded, or with a wrong or unexpected one.",
        BacklogFull: "drop_backlog_full", "The listener has as many connections as it wants.",
        NoRoom: "drop_no_room", "No connection, TIME-WAIT entry or flow table entry is left.",
        NoRoute: "drop_no_route", "No way back to the sender.",
        NoNeighbour: "drop_no_neighbour", "The next hop does not answer.",
        NoFrame: "drop_no_frame", "No frame for the answer.",
        RateLimited: "drop_rate_limited", "An answer not given because there were too many lately.",
        Icmp: "drop_icmp", "An ICMP message that is malformed or concerns nothing of ours.",
    }
}

/// Counts by reason.
#[derive(Clone, Debug)]
pub(crate) struct Drops([u64; PacketDrop::ALL.len()]);

impl Drops {
    pub(crate) fn new() -> Self {
        Drops([0; PacketDrop::ALL.len()])
    }

    /// One more.
    pub(crate) fn count(&mut self, why: PacketDrop) {
        self.0[why as usize] += 1;
    }

    /// All counts, in the order of [`PacketDrop::ALL`].
    pub(crate) fn counts(&self) -> [u64; PacketDrop::ALL.len()] {
        self.0
    }

    /// Every reason with its count.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PacketDrop::ALL.iter().map(|why| (why.name(), self.0[*why as usize]))
    }
}
