//! The rows, in the order of the pages, but for those of Multipath TCP.

use super::row::{CALLS, Kind, Row};

/// All rows. A predicate is as narrow as its reason.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a call that sleeps holds its descriptor",
        kind: CALLS,
        key: "*, closed while a call slept: *",
        reason: "On Linux a call that sleeps in another thread keeps a closed connection open until it returns. Here \
                 close(2) closes, as its manual page warns under `Multithreaded processes and close()`.",
    },
    Row {
        name: "a reset within a call",
        kind: CALLS,
        key: "sendmmsg*: lens * | lens *",
        reason: "The second message meets the peer's reset for the first if that was processed by then. On veth, a \
                 link without a delay, it may be, on either side; sendmmsg(2) says how many were sent.",
    },
    Row {
        name: "a relayed connection",
        kind: CALLS,
        key: "*, after a child: *",
        reason: "A connection that a child uses is relayed by a thread of its parent (LAUNCHER.md, `Fork`): errors and \
                 ends come later, a reset comes as the end, and the parent's own descriptors of it end with the \
                 child's.",
    },
    Row {
        name: "several reads of one socket",
        kind: CALLS,
        key: "*, several reads asleep: *",
        reason: "Which of several calls that sleep for data of one socket, or for events of one set, gets them is not \
                 defined: recv(2), accept(2) and epoll_wait(2) promise no order.",
    },
    Row {
        name: "SIOCOUTQ after a reset",
        kind: Kind::Calls { goes_on: true },
        key: "ioctl 0x5411, one end closed: 0 * | 0 0",
        reason: "RFC 9293, section 3.10.7.4: segment queues are flushed at a reset, so nothing is unsent. Linux counts \
                 what was not acknowledged, and after connect(2) to AF_UNSPEC a number of its own.",
    },
    Row {
        name: "SIOCOUTQNSD after a reset",
        kind: Kind::Calls { goes_on: true },
        key: "ioctl 0x894b, one end closed: 0 * | 0 0",
        reason: "As `SIOCOUTQ` (RFC 9293, section 3.10.7.4): Linux counts what was not sent when the reset came.",
    },
    Row {
        name: "a read over the edge of what is mapped",
        kind: CALLS,
        key: "re*, over the edge*:* ? | -1 EFAULT",
        reason: "Linux reads packet by packet as they lie in its queue, where later ones are merged with earlier ones \
                 or not, and returns what it had read before the fault. Here data has no such borders: what a read \
                 would take is looked at first, and recv(2) takes nothing then (EFAULT).",
    },
    Row {
        name: "an error behind the first message of recvmmsg",
        kind: CALLS,
        key: "s*, behind a recvmmsg of bad pointers: -1 EFAULT | *",
        reason: "Linux keeps EFAULT of a later message as the socket's error, so a send fails with it. recvmmsg(2) \
                 has it for the next call of recvmmsg, and here that finds the pointer itself.",
    },
    Row {
        name: "data held back by MSG_MORE",
        kind: CALLS,
        key: "*, data held back: *",
        reason: "Data that MSG_MORE holds back leaves at the latest after 200 ms (tcp(7), `TCP_CORK`). Here a segment \
                 of the peer lets it go before; on Linux one with data does, unless its window and acknowledgment are \
                 those of the one before. What the peer has read, `SIOCOUTQ`, and the peer's close tell which, and so \
                 does what the peer sends behind its shutdown(2), as it resets if something comes after that.",
    },
    Row {
        name: "timestamps that are asked for late",
        kind: Kind::Calls { goes_on: true },
        key: "recvmsg*, stamps asked for late: flags * name ? cmsg 1:?? ? | flags * name ? ?",
        reason: "Data that came before `SO_TIMESTAMP` (socket(7)) or the like was set has a timestamp on Linux if any \
                 socket of the machine had asked for timestamps by then, and none otherwise. Here it has none.",
    },
    Row {
        name: "a peek that sleeps beside a read",
        kind: CALLS,
        key: "recv*MSG_PEEK*, raced by a read: woke: * | woke: *",
        reason: "What a call with MSG_PEEK tells that sleeps while another one takes the data is not defined \
                 (recv(2)): Linux counts bytes again that it has seen already, and logs a bug of the application.",
    },
    Row {
        name: "a wait beside a read",
        kind: Kind::Calls { goes_on: true },
        key: "*, beside a read asleep: woke: * | woke: *",
        reason: "Of a poll(2) and a recv(2) of one socket that sleep in two threads, a reset wakes both. Whether the \
                 poll tells of the error depends on which of them runs first, on either side.",
    },
    Row {
        name: "a wait beside a read that takes all",
        kind: CALLS,
        key: "*, beside a read asleep: *asleep*",
        reason: "Of a poll(2) and a recv(2) or accept(2) of one socket that sleep in two threads, data wakes both; so \
                 does an edge a poll(2) and an epoll_wait(2) of one set. The poll goes on sleeping if the other call \
                 runs first: which does, on either side, is not defined.",
    },
    Row {
        name: "a wait for connections and pipes",
        kind: Kind::Calls { goes_on: true },
        key: "epoll_wait, of both kinds: ? ?:0x* | ? ?:0x*",
        reason: "While connections are ready, a pipe, eventfd or UNIX socket that becomes ready is told of in the \
                 eighth wait at the latest (LAUNCHER.md, `Descriptors`): a wait that finds connections seldom asks \
                 the kernel as well.",
    },
    Row {
        name: "a connect beside a read",
        kind: Kind::Calls { goes_on: true },
        key: "*, beside a connect asleep: woke: -1 * | woke: -1 *",
        reason: "Of a connect(2) and a recv(2) of one socket that sleep in two threads, the first that runs takes the \
                 error of an end. Which does is not defined.",
    },
    Row {
        name: "a wait beside a connect",
        kind: Kind::Calls { goes_on: true },
        key: "*, beside a connect asleep: woke: ? * | woke: ? *",
        reason: "Of a poll(2) and a connect(2) of one socket that sleep in two threads, the end of the attempt wakes \
                 both. Whether the poll tells of the error depends on which of them runs first, on either side.",
    },
    Row {
        name: "window updates behind shutdown(SHUT_RD)",
        kind: CALLS,
        key: "*, filled behind a shut end: *",
        reason: "Linux sends no window update once the receiving side is shut, so a peer whose window was full goes on \
                 when its timer probes the window. RFC 9293, section 3.8.6.2.2, has the update sent, as here.",
    },
    Row {
        name: "room of a full connection",
        kind: CALLS,
        key: "psend*, of a full connection: ? | -1 EAGAIN",
        reason: "A sender whose buffers are full takes more at an acknowledgment. Linux delays one, or has a read send \
                 it (RFC 9293, section 3.8.6.3), that is sent at once here, so the peer had that room before.",
    },
    Row {
        name: "growth of a full send buffer",
        kind: CALLS,
        key: "*, of a full connection: n | -1 EAGAIN",
        reason: "How large a send buffer becomes by itself is not defined (tcp(7), `tcp_wmem`). Here it has twice the \
                 congestion window. On Linux any segment of the peer's makes it grow that finds less in flight than \
                 the congestion window, even if its window stays shut.",
    },
    Row {
        name: "a read with a low-water mark",
        kind: CALLS,
        key: "*, short of SO_RCVLOWAT: *",
        reason: "A read that sleeps takes what comes, and returns with the smaller of `SO_RCVLOWAT` and what it asked \
                 for (POSIX.1, `SO_RCVLOWAT`). On Linux it sleeps until so many bytes have come since it began, even \
                 if it asked for fewer or has some, and leaves them to other calls until then.",
    },
    Row {
        name: "TCP_INQ set while a read sleeps",
        kind: Kind::Calls { goes_on: true },
        key: "recvmsg*, TCP_INQ set meanwhile: woke: flags * | woke: flags *",
        reason: "Linux looks at `TCP_INQ` when recvmsg(2) begins, and at `SO_TIMESTAMP` when it has the data. Here it \
                 looks at both when it has the data.",
    },
    Row {
        name: "two queues of a listener",
        kind: CALLS,
        key: "*, beside a queue of the link: *",
        reason: "A listener has one queue for the link's connections and one for the kernel's loopback (LAUNCHER.md), \
                 each with the whole backlog of listen(2). On Linux the link's connections may fill the only one.",
    },
    Row {
        name: "options in front of a routing header that is not there",
        kind: CALLS,
        key: "*, behind IPV6_RTHDRDSTOPTS: *",
        reason: "Linux takes them without a routing header, in front of which they would stand (RFC 8200, section \
                 4.1), and counts them in the length of each packet without sending them: nothing arrives. Here \
                 there are no extension headers.",
    },
    Row {
        name: "timestamps by the options with _NEW",
        kind: Kind::Calls { goes_on: true },
        key: "recvmsg*: *flags * name ? cmsg 1:6? * | *flags * name ? ?",
        reason: "A socket that is not connected is the kernel's, which takes `SO_TIMESTAMP_NEW` and the like. On a \
                 connection of the stack they are refused, so what was set before brings nothing.",
    },
    Row {
        name: "timestamps that an option with _NEW ends",
        kind: Kind::Calls { goes_on: true },
        key: "recvmsg*, behind an option with _NEW: *flags * name * | *flags * name ? cmsg 1:?? *",
        reason: "On Linux `SO_TIMESTAMP_NEW` and the like end what the options without _NEW have begun. On a \
                 connection of the stack they are refused, so these go on.",
    },
    Row {
        name: "an IPv6 connection behind one to a mapped address",
        kind: CALLS,
        key: "*, over IPv6 behind IPv4: *",
        reason: "A socket of Linux that has connected to a mapped address has the functions of IPv4 for good: what it \
                 sends over IPv6 afterwards does not arrive. RFC 3493, section 3.7, has both families of one socket, \
                 and here they work in any order.",
    },
    Row {
        name: "the loopback after a connection over the link",
        kind: CALLS,
        key: "bind to the loopback*, once connected: 0 | -1 EADDRNOTAVAIL",
        reason: "A socket that was connected over the link stays the stack's, which does not have the addresses of the \
                 kernel's loopback (LAUNCHER.md). bind(2) of a new socket succeeds there.",
    },
    Row {
        name: "a taken port of the loopback after a connection over the link",
        kind: CALLS,
        key: "bind to the loopback*, once connected: -1 EADDRINUSE | -1 EADDRNOTAVAIL",
        reason: "As the row before (LAUNCHER.md): at an address that is not there no port is looked for.",
    },
    Row {
        name: "the loopback beside a connection that was accepted",
        kind: CALLS,
        key: "bind to the loopback*, where a connection was accepted: 0 | -1 EADDRINUSE",
        reason: "A listener's port is kept with its address until its last connection is over (LAUNCHER.md).",
    },
    Row {
        name: "duplicates in SACK blocks",
        kind: Kind::Packets,
        key: "duplicate_block",
        reason: "Linux reports every old segment as a duplicate. RFC 2883, section 4, lets a receiver choose; here \
                 what lies before the window is acknowledged without a block.",
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
        name: "the last bytes of a window",
        kind: Kind::Packets,
        key: "silly_window",
        reason: "Linux fills the peer's window with less than a segment behind full ones. RFC 9293, section \
                 3.8.6.2.1, has that wait.",
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
                 application has closed. RFC 5961, section 4.2, has it challenged, as here.",
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
                 that as a timeout. Here it follows the reset at once, as in RFC 9293, section 3.5, figure 9, and the \
                 timer begins anew: nothing was lost.",
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
