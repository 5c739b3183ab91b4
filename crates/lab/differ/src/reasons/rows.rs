//! Rows of peers that send packets, in the order of the page; those of calls are in [`super::calls`].

use super::row::{Kind, Row};

/// All rows of this kind. A predicate is as narrow as its reason.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "duplicates in SACK blocks",
        kind: Kind::Packets,
        key: "duplicate_block",
        reason: "Linux reports every old segment as a duplicate. RFC 2883, section 4, lets a receiver choose; here \
                 what lies before the window is acknowledged without a block. The block takes room of data.",
    },
    Row {
        name: "FIN in a SACK block",
        kind: Kind::Packets,
        key: "block_with_fin",
        reason: "Linux counts the FIN of a segment out of order in its block. RFC 2018, section 3, speaks of data, \
                 and a FIN is not data.",
    },
    Row {
        name: "options when SYNs cross",
        kind: Kind::Packets,
        key: "crossed_syn_options",
        reason: "Linux repeats the options of its own SYN. RFC 7323, sections 1.3 and 2.2, and RFC 2018, section 2, \
                 allow in a SYN-ACK what the peer's SYN had.",
    },
    Row {
        name: "shut window of a SYN when SYNs cross",
        kind: Kind::Packets,
        key: "crossed_shut",
        reason: "Linux counts its own SYN as beyond the window of 0 that the peer's SYN tells, and acknowledges with \
                 the SYN's number. Here it is SND.NXT, as RFC 9293, section 3.10.7.4, has it: the peer takes no other \
                 number.",
    },
    Row {
        name: "ACK before sequence in SYN-RECEIVED",
        kind: Kind::Packets,
        key: "half_open_ack_first",
        reason: "Linux looks at the acknowledgment first and resets. RFC 9293, section 3.10.7.4, has the sequence \
                 check first.",
    },
    Row {
        name: "echo of another timestamp in SYN-RECEIVED",
        kind: Kind::Packets,
        key: "half_open_echo",
        reason: "Linux takes the last ACK of a handshake only with the echo of a SYN-ACK's timestamp. RFC 7323, \
                 section 4.3, uses the echo for round trips and has no such check.",
    },
    Row {
        name: "echo of a repeated SYN",
        kind: Kind::Packets,
        key: "repeated_syn_echo",
        reason: "Linux echoes the timestamp of the first SYN when another copy comes. RFC 7323, section 4.3, has the \
                 latest one echoed, as here: the peer would take its own timeout for the round trip.",
    },
    Row {
        name: "old timestamp on a pure ACK",
        kind: Kind::Packets,
        key: "old_stamp_unanswered",
        reason: "Linux drops an old pure ACK with an old timestamp in silence. RFC 7323, section 5.3, has every such \
                 segment acknowledged, as here.",
    },
    Row {
        name: "window lowered by equal numbers",
        kind: Kind::Packets,
        key: "window_lowered",
        reason: "Linux ignores a smaller window in a segment whose numbers are those of the one before. RFC 9293, \
                 section 3.10.7.4, takes it (SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK), as here.",
    },
    Row {
        name: "beyond the kernel's window",
        kind: Kind::Packets,
        key: "beyond_window",
        reason: "How large the window is follows from the memory that each of the two counts (RFC 9293, section \
                 3.8.6.2), and one of them refuses what lies between the edges. Linux takes what lies across its edge \
                 whole, or not at all while data waits to be read; section 3.10.7.4 has it cut at the edge, as here. \
                 Without window scaling Linux takes more than its field can tell.",
    },
    Row {
        name: "tail loss probe of a FIN",
        kind: Kind::Packets,
        key: "fin_probed",
        reason: "Linux sends a lone FIN again after two round trips. Here it waits for the retransmission timeout: \
                 RFC 8985, section 7.2, arms the probe for data in flight.",
    },
    Row {
        name: "tail loss probe of less than a segment in pieces",
        kind: Kind::Packets,
        key: "probe_of_pieces",
        reason: "Linux counts segments. Here an MSS in flight counts as one segment, of which RFC 8985, section 7.2, \
                 has the acknowledgment delayed, also where SACK blocks made two of it.",
    },
    Row {
        name: "urgent data",
        kind: Kind::Packets,
        key: "urgent_in_stream",
        reason: "Linux takes the urgent byte out of the stream. Here it stays there, as with SO_OOBINLINE and as RFC \
                 6093, section 6, recommends.",
    },
    Row {
        name: "old acknowledgment",
        kind: Kind::Packets,
        key: "old_ack",
        reason: "Linux refuses an acknowledgment of less than the connection has sent. RFC 5961, section 5.2, takes \
                 those within MAX.SND.WND, as here.",
    },
    Row {
        name: "FIN acknowledged at once",
        kind: Kind::Packets,
        key: "fin_acked_at_once",
        reason: "Linux may delay the acknowledgment of a FIN by 40 ms. RFC 9293, section 3.8.6.3 (RFC 1122, section \
                 4.2.3.2), permits the delay and does not ask for it.",
    },
    Row {
        name: "SACK blocks on what is sent again",
        kind: Kind::Packets,
        key: "blocks_on_repeated",
        reason: "Linux cuts a retransmission smaller to make room for SACK blocks, and has them on resets. Here a \
                 retransmission keeps its size: RFC 2018, section 3, asks for blocks in acknowledgments, and one of \
                 these tells them.",
    },
    Row {
        name: "timestamp of an acknowledgment that is not acceptable",
        kind: Kind::Packets,
        key: "old_ack_stamp",
        reason: "Linux does not echo the timestamp of a segment whose acknowledgment is old, in TIME-WAIT that of one \
                 that is too new or an old FIN, and in FIN-WAIT-2, once the application has closed, that of one with \
                 nothing new. \
                 RFC 7323, section 4.3, asks for the sequence number; here what RFC 5961, section 5.2, refuses is not \
                 looked at further.",
    },
    Row {
        name: "acknowledgment beside data",
        kind: Kind::Packets,
        key: "ack_beside_data",
        reason: "Data that leaves at the same time carries the acknowledgment, or has it beside it. RFC 9293, section \
                 3.8.6.3, permits both; a duplicate counts only without data (RFC 5681, section 2).",
    },
    Row {
        name: "acknowledgment that the other end sent before",
        kind: Kind::Packets,
        key: "late_ack",
        reason: "One of the two delayed an acknowledgment that the other one sent at once (RFC 9293, section 3.8.6.3, \
                 permits up to 0.5 s).",
    },
    Row {
        name: "segment before what the kernel has acknowledged",
        kind: Kind::Packets,
        key: "old_for_one",
        reason: "Linux checks numbers by what it has acknowledged last, so it takes the acknowledgment and the window \
                 of a segment before RCV.NXT while it delays an acknowledgment. RFC 9293, section 3.10.7.4, first \
                 step, compares with RCV.NXT, as here.",
    },
    Row {
        name: "half-open connection of a closed listener",
        kind: Kind::Packets,
        key: "listener_closed",
        reason: "Linux forgets half-open connections with their listener, and a later segment is answered as one that \
                 belongs to none. Here the reset has the acknowledgment: RFC 9293, section 3.10.5, has the ABORT of a \
                 connection send it.",
    },
    Row {
        name: "segment without ACK",
        kind: Kind::Packets,
        key: "no_ack_flag",
        reason: "Linux drops a segment without ACK before it looks at anything else, but answers it in TIME-WAIT. RFC \
                 9293, section 3.10.7.4, has the sequence check first, and RFC 7323, section 5.3, that of the \
                 timestamp: both answer. In the window it is dropped.",
    },
    Row {
        name: "old data that acknowledges the FIN of a closed socket",
        kind: Kind::Packets,
        key: "closed_old_data",
        reason: "Linux goes to FIN-WAIT-2 without looking at the text. RFC 9293, section 3.10.7.4, first step, has old \
                 segments acknowledged, as here.",
    },
    Row {
        name: "acknowledgment of data never sent, at the end",
        kind: Kind::Packets,
        key: "future_ack_at_end",
        reason: "Linux does not look at acknowledgments in TIME-WAIT, nor in FIN-WAIT-2 once the application has \
                 closed. RFC 5961, section 5.2, has them challenged, as here.",
    },
    Row {
        name: "answers in TIME-WAIT",
        kind: Kind::Packets,
        key: "time_wait_spaced",
        reason: "In TIME-WAIT what holds neither data nor a FIN is answered once in 0.5 s (RFC 5961, section 7); \
                 Linux's limit is off here (`tcp_invalid_ratelimit`).",
    },
    Row {
        name: "SYN with FIN in TIME-WAIT",
        kind: Kind::Packets,
        key: "time_wait_syn_fin",
        reason: "Linux ends TIME-WAIT at a SYN that proves newer, and drops it then for its FIN. Here `drop_synfin` \
                 drops it first, and TIME-WAIT goes on (RFC 9293, section 3.6.1).",
    },
    Row {
        name: "SYN with a timestamp after a connection without",
        kind: Kind::Packets,
        key: "time_wait_stamped_syn",
        reason: "Linux asks for a higher sequence number in TIME-WAIT. RFC 6191, section 2, has the SYN taken if \
                 the connection in TIME-WAIT had no timestamps and the new one has them, as here.",
    },
    Row {
        name: "timestamp in TIME-WAIT of a connection without",
        kind: Kind::Packets,
        key: "time_wait_stamp",
        reason: "Linux echoes in TIME-WAIT what the last ACK of the handshake told, though the SYNs agreed on no \
                 timestamps. RFC 7323, section 3.2, has none sent then, as here.",
    },
    Row {
        name: "the last bytes of a window",
        kind: Kind::Packets,
        key: "silly_window",
        reason: "Linux fills the peer's window with less than a segment behind full ones. RFC 9293, section \
                 3.8.6.2.1, has that wait.",
    },
    Row {
        name: "data before a FIN beyond the window",
        kind: Kind::Packets,
        key: "data_before_fin",
        reason: "Linux joins the FIN to the last data, which waits with it where the peer's window takes the data \
                 alone. RFC 9293, section 3.8.6.2.1, sends what the window takes, as here, and the FIN follows.",
    },
    Row {
        name: "a window of a few bytes",
        kind: Kind::Packets,
        key: "few_bytes",
        reason: "Linux cuts no segment smaller than 68 bytes with its headers, and leaves less to the timer that \
                 probes a shut window; behind that it waits for a timeout. RFC 9293, section 3.8.6.2.1, has data sent \
                 that fills half of the largest window, and RFC 8985, section 7.2, has a tail loss probe follow, \
                 which is no sign of congestion.",
    },
    Row {
        name: "room for small segments",
        kind: Kind::Packets,
        key: "small_segments_in_buffer",
        reason: "Linux counts the memory of each segment against `SO_SNDBUF`, and cuts what waits for a window of a \
                 few bytes into many. Here the bytes count.",
    },
    Row {
        name: "retransmission in a window that was shut",
        kind: Kind::Packets,
        key: "shut_window",
        reason: "Linux sends the first segment in flight again although the peer has shut its window meanwhile, which \
                 RFC 9293, section 3.8.6 (MAY-7), permits, and counts that as a timeout. Here the timer probes the \
                 window (section 3.8.6.1), which is no sign of congestion.",
    },
    Row {
        name: "acknowledgment beyond a window that was taken back",
        kind: Kind::Packets,
        key: "edge_by_scale",
        reason: "Linux keeps SND.NXT as the number of an acknowledgment beyond the peer's window by less than the unit \
                 of its own window field. Here the unit is that of the peer's, by which its edge may move (RFC 7323, \
                 section 2.4).",
    },
    Row {
        name: "number of an acknowledgment beyond a lowered window",
        kind: Kind::Packets,
        key: "bare_beyond_window",
        reason: "Linux leaves SND.NXT in it where the peer took back less than a unit of the window scale that Linux \
                 offers. RFC 7323, section 2.4, has the peer's own unit, as here.",
    },
    Row {
        name: "a timer beside a step",
        kind: Kind::Packets,
        key: "timer_beside_step",
        reason: "A retransmission timer ran out before a step on one of the two, and would have behind it on the other \
                 one, within the tolerance for times: RFC 6298, section 2, leaves the granularity of clocks open.",
    },
    Row {
        name: "FIN beyond the congestion window",
        kind: Kind::Packets,
        key: "fin_beyond_window",
        reason: "Linux holds a lone FIN back while the congestion window is full. RFC 5681, section 2, counts data in \
                 it, and a FIN holds none.",
    },
    Row {
        name: "duplicate acknowledgment behind a hole",
        kind: Kind::Packets,
        key: "duplicate_behind",
        reason: "Linux takes an acknowledgment whose number lies behind that of the last window update for a new one \
                 of these. RFC 5681, section 2, asks for an unchanged window, not number; limited transmit (RFC 3042) \
                 answers such a duplicate here.",
    },
    Row {
        name: "SACK blocks behind a FIN",
        kind: Kind::Packets,
        key: "blocks_beyond_fin",
        reason: "Linux reports what a peer sent behind its FIN, in order or not. Here that is forgotten, which RFC \
                 2018, section 8, permits: nothing follows a FIN.",
    },
    Row {
        name: "retransmission cut anew",
        kind: Kind::Packets,
        key: "cut_again",
        reason: "Linux mostly repeats a segment as it was first cut. Here a retransmission is as large as the MSS \
                 lets it be: RFC 9293, section 3.8.1, has bytes retransmitted, not segments.",
    },
    Row {
        name: "delayed acknowledgment",
        kind: Kind::Packets,
        key: "delayed_ack",
        reason: "One of the two delays an acknowledgment that the other one sends sooner (RFC 9293, section 3.8.6.3, \
                 permits up to 0.5 s).",
    },
    Row {
        name: "delayed acknowledgment of a SYN-ACK",
        kind: Kind::Packets,
        key: "synack_delayed",
        reason: "Linux delays it by 200 ms if the application has switched `TCP_QUICKACK` off. RFC 9293, section \
                 3.10.7.3, fourth step, has it sent, as here: the peer is not established before it comes.",
    },
    Row {
        name: "another SYN",
        kind: Kind::Packets,
        key: "other_syn",
        reason: "Linux resets at a SYN in the window of a half-open connection, and of one in FIN-WAIT-2 that the \
                 application has closed, where it drops one with text that begins before the window. RFC 5961, section \
                 4.2, has it challenged, as here.",
    },
    Row {
        name: "text beside the acknowledgment of a FIN",
        kind: Kind::Packets,
        key: "text_beside_fin_ack",
        reason: "Once the application has closed, Linux forgets old text in the segment that acknowledges the FIN. \
                 RFC 9293, section 3.10.7.4, has old text acknowledged, as here.",
    },
    Row {
        name: "FIN beyond a hole",
        kind: Kind::Packets,
        key: "fin_beyond_hole",
        reason: "Linux resets when a FIN comes out of order after the application has closed. RFC 9293, section \
                 3.10.7.4, has it acknowledged: it holds no data that would be lost.",
    },
    Row {
        name: "what leaves before a reset",
        kind: Kind::Packets,
        key: "sent_before_reset",
        reason: "Data for a socket that the application has closed is reset (RFC 2525, section 2.17). Linux sends what \
                 the acknowledgment beside that data lets go before the reset; here the reset ends the connection \
                 first.",
    },
    Row {
        name: "SYN after a refused answer",
        kind: Kind::Packets,
        key: "syn_again",
        reason: "After an answer that acknowledges something else Linux repeats its SYN two ticks later, and counts \
                 that as a timeout, so its window may be one segment later on. Here it follows the reset at once, as \
                 in RFC 9293, section 3.5, figure 9, and the timer begins anew: nothing was lost.",
    },
    Row {
        name: "text behind a FIN",
        kind: Kind::Packets,
        key: "text_behind_fin",
        reason: "Linux resets at text across the peer's FIN, and takes a FIN there once more. RFC 9293, section \
                 3.10.7.4, seventh and eighth steps, has both ignored.",
    },
    Row {
        name: "FIN before data",
        kind: Kind::Packets,
        key: "fin_before_data",
        reason: "Linux takes a FIN in the place of data that came before, and a second one behind the first. Nothing \
                 follows a FIN (RFC 9293, section 3.6), so here such FINs are not the peer's.",
    },
    Row {
        name: "text or FIN of a SYN-ACK",
        kind: Kind::Packets,
        key: "synack_text",
        reason: "Linux lets the peer send it again. RFC 9293, sections 3.10.7.3, fourth step, and 3.10.7.4, seventh \
                 and eighth, have it taken, as here.",
    },
    Row {
        name: "SYN with FIN when SYNs cross",
        kind: Kind::Packets,
        key: "crossed_syn_fin",
        reason: "Linux drops a SYN with FIN in LISTEN alone. `drop_synfin` has it dropped where it would answer a \
                 connect, too.",
    },
    Row {
        name: "close when SYNs cross",
        kind: Kind::Packets,
        key: "crossed_close",
        reason: "Linux closes, and sends its FIN, before its SYN is acknowledged. Here it follows the handshake, as \
                 RFC 9293, section 3.10.4, has it for a connection with data to send.",
    },
    Row {
        name: "acknowledgment before the SYN when SYNs cross",
        kind: Kind::Packets,
        key: "crossed_old_ack",
        reason: "Linux is established by an acknowledgment that does not cover its SYN. RFC 9293, section 3.10.7.4, \
                 fifth step, has it reset, as here.",
    },
    Row {
        name: "reset of a half-open connection",
        kind: Kind::Packets,
        key: "half_open_reset",
        reason: "Linux forgets a half-open connection by a reset anywhere in the window. RFC 5961, section 3.2, has it \
                 challenged unless its number is exact, as here.",
    },
    Row {
        name: "segments that were small enough",
        kind: Kind::Packets,
        key: "too_big",
        reason: "After packet too big Linux sends again what is larger than the new MSS. Here everything in flight \
                 is cut anew, as RFC 1191, section 6.4, has it for what was in flight.",
    },
    Row {
        name: "packet too big without a size",
        kind: Kind::Packets,
        key: "too_big_unsized",
        reason: "Linux goes to 552 bytes (`net.ipv4.route.min_pmtu`). Here the next common size below that of what \
                 was sent is tried, as RFC 1191, sections 5 and 7, have it.",
    },
    Row {
        name: "ICMP error that Linux alone takes",
        kind: Kind::Packets,
        key: "icmp_edge",
        reason: "Linux takes an ICMP error that quotes SND.NXT, which no segment in flight begins with; RFC 5927, \
                 section 4.1, has it refused (SND.UNA =< SEG.SEQ < SND.NXT), as here. When SYNs have crossed it ends \
                 the attempt; here it is soft (RFC 9293, section 3.9.2.2).",
    },
    Row {
        name: "names of ICMP errors",
        kind: Kind::Packets,
        key: "icmp_names",
        reason: "Linux tells protocol unreachable as ENOPROTOOPT, prohibited (IPv6) as EACCES, and keeps port \
                 unreachable as a soft error. Here the first is ECONNREFUSED, the second EHOSTUNREACH, and the last \
                 is not kept in a standing connection (RFC 5927, section 5.2).",
    },
    Row {
        name: "ICMP error behind a reset",
        kind: Kind::Packets,
        key: "icmp_after_reset",
        reason: "Linux keeps a soft error beyond the end of the connection, and SO_ERROR tells it behind the reset's. \
                 Here the end forgets it: RFC 9293, section 3.9.2.2, has soft errors told about a connection.",
    },
    Row {
        name: "timeout after unreachable",
        kind: Kind::Packets,
        key: "backoff_reverted",
        reason: "Linux takes one doubling of the timeout back when network or host unreachable comes, which RFC 6069 \
                 (an experiment) permits. Here the timeout stays (RFC 6298, section 5).",
    },
    Row {
        name: "ICMP error that waits in a queue",
        kind: Kind::Packets,
        key: "icmp_queued",
        reason: "Over IPv4 Linux queues an ICMP error about a SYN for MSG_ERRQUEUE although nobody has set \
                 `IP_RECVERR`, and poll tells POLLERR until it is taken. ip(7) has the queue for sockets that set the \
                 option, and over IPv6 Linux asks for it, too.",
    },
    Row {
        name: "reset that Linux alone takes or refuses",
        kind: Kind::Packets,
        key: "reset_apart",
        reason: "Linux refuses the reset of a half-open connection for an old timestamp, from which RFC 7323, section \
                 5.2, exempts resets, or for its echo. It takes one that has the number of the peer's FIN, and in \
                 FIN-WAIT-2 of a closed socket any in the window, and one at the end of the last SACK block; RFC 5961, \
                 section 3.2, asks for the exact number.",
    },
    Row {
        name: "reset outside of the window, at the end",
        kind: Kind::Packets,
        key: "reset_answered",
        reason: "Linux answers a reset outside of the window in TIME-WAIT, and in FIN-WAIT-2 once the application has \
                 closed. RFC 9293, section 3.10.7.4, first step, has resets dropped there, as here.",
    },
    Row {
        name: "round trip when SYNs cross",
        kind: Kind::Packets,
        key: "crossed_round_trip",
        reason: "Linux takes the round trip from the SYN-ACK. Its number was sent twice, so RFC 6298, section 3 \
                 (Karn), takes no sample, and the first timeout here is the one before a sample.",
    },
    Row {
        name: "half-open connection and old data",
        kind: Kind::Packets,
        key: "half_open_old_data",
        reason: "Linux takes an acknowledgment beside data or a FIN that ends at RCV.NXT once established only. Here \
                 it is taken in SYN-RECEIVED as well, as RFC 9293, section 3.10.7.4, has valid acknowledgments taken.",
    },
    Row {
        name: "close after both FINs",
        kind: Kind::Packets,
        key: "last_ack_reset",
        reason: "Linux resets at a close with unread data also in CLOSING and LAST-ACK. RFC 9293, section 3.10.5, has \
                 nothing sent there, as here.",
    },
    Row {
        name: "what a timer sends into a small window",
        kind: Kind::Packets,
        key: "forced_probe",
        reason: "Into a window of less than a segment, or of what TCP_CORK held. On Linux no tail loss probe follows \
                 it: its first repetition is a timeout, and lowers the congestion window. Nor does Nagle's algorithm \
                 count it. RFC 8985, section 7.2, arms the probe whenever data was sent, and RFC 9293, section 3.7.4, \
                 waits for all of it.",
    },
    Row {
        name: "when a timer sends into a small window",
        kind: Kind::Packets,
        key: "override_apart",
        reason: "Linux starts the timer again when an acknowledgment comes. RFC 9293, section 3.8.6.2.1, has the \
                 override timeout count from when the data has to wait, as here.",
    },
    Row {
        name: "what a timer sends into a small window, behind other timeouts",
        kind: Kind::Packets,
        key: "override_backed_off",
        reason: "Linux waits as long as its timer was doubled before. RFC 9293, section 3.8.6.2.1, has the override \
                 timeout between 0.1 s and 1 s, as here.",
    },
    Row {
        name: "timeout behind a tail loss probe",
        kind: Kind::Packets,
        key: "probe_timeout",
        reason: "Linux counts the timeout from when the segment left first. RFC 8985, section 7.3, starts it again \
                 when the probe leaves, as here.",
    },
    Row {
        name: "echo of another timestamp",
        kind: Kind::Packets,
        key: "false_echo",
        reason: "A false echo tells a false round trip (RFC 7323, section 4.1). The two take samples from echoes at \
                 different times, so their timeouts differ.",
    },
    Row {
        name: "text across an early FIN",
        kind: Kind::Packets,
        key: "text_across_fin",
        reason: "Linux takes text across a FIN that came out of order. Here that FIN is the end, as RFC 9293, section \
                 3.10.7.4, eighth step, has it.",
    },
    Row {
        name: "SACK blocks after close",
        kind: Kind::Packets,
        key: "blocks_after_close",
        reason: "Linux keeps what came out of order when the application closes. Here it is forgotten, which RFC 2018, \
                 section 8, permits: nothing will read it.",
    },
    Row {
        name: "congestion window behind a timer",
        kind: Kind::Packets,
        key: "restart_by_timer",
        reason: "Linux begins again with the initial window when the application writes, or the peer's window changes, \
                 after a pause, not when a timer sends into a small window. RFC 5681, section 4.1, has any data do so \
                 that nothing came before for longer than a timeout, as here.",
    },
    Row {
        name: "congestion window in bytes",
        kind: Kind::Packets,
        key: "window_in_segments",
        reason: "Linux counts its congestion window in segments, short ones as well, and what is acknowledged in whole \
                 ones. Here it counts bytes, as in RFC 5681, section 3.1, so the two differ behind short segments.",
    },
    Row {
        name: "part of a segment in the congestion window",
        kind: Kind::Packets,
        key: "part_in_segments",
        reason: "Linux's congestion window grows by whole segments, here by bytes (RFC 5681, section 3.1).",
    },
    Row {
        name: "needless timeout undone at once",
        kind: Kind::Packets,
        key: "undone_at_once",
        reason: "Linux undoes a timeout at the first acknowledgment of data that was sent once. RFC 5682, section 3.1, \
                 step 2, sends two segments and waits for the next one, or without new data or a window goes on \
                 sending again, without tail loss probes, and step 1 tests no second timeout in a row, as here.",
    },
    Row {
        name: "round trip of several segments",
        kind: Kind::Packets,
        key: "round_trip_of_several",
        reason: "Linux measures an acknowledgment of what left at different times by what left first. RFC 6298, \
                 section 3, leaves the choice: here it is what left last, which holds no time of waiting.",
    },
    Row {
        name: "round trip of what left last",
        kind: Kind::Packets,
        key: "round_trip_of_latest",
        reason: "Linux's RACK.rtt is that of the segment which it looked at last, an acknowledged one; RFC 8985, \
                 section 6.2, step 2, does not order them. Here it is that of what left last, which a SACK block \
                 reports, so what is missing is sent again without a further wait.",
    },
    Row {
        name: "acknowledgment of a part of a segment",
        kind: Kind::Packets,
        key: "partial_ack",
        reason: "Linux restarts its timer when a whole segment is acknowledged. RFC 6298, rule 5.3, has it restarted \
                 by an acknowledgment of new data, as here.",
    },
    Row {
        name: "retransmission behind a part of a segment",
        kind: Kind::Packets,
        key: "cut_middle",
        reason: "A peer that acknowledges a part of a segment finds the rest cut anew, and each of the two goes on \
                 where its own segment ended, as far as the windows let it: RFC 9293, section 3.8.1, has bytes \
                 retransmitted, not segments.",
    },
    Row {
        name: "reset after SYNs crossed",
        kind: Kind::Packets,
        key: "crossed_reset",
        reason: "Linux says ECONNRESET. RFC 9293, section 3.10.7.4, has an active open that is reset in SYN-RECEIVED \
                 told as refused (MUST-11), as here.",
    },
];
