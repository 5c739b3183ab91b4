//! Cached handshake: the state in which a connection begins, kept for the next of its kind (the bundle of FALTCON).
//! It is the result of processing settings, options and an equal SYN, and does not depend on the peer.
//!
//! State that must not be carried over has no field here. A [`CachedState`] holds the options that the application
//! asked for, to see whether they are the same; buffer sizes and segment sizes; and which options both ends agreed
//! on, which the SYN of the new connection must confirm. It has no sequence number, no timestamp, no byte of data,
//! no window of the peer, no counter, no date, no error, no policy, no key and no handle of any peer. Those come
//! from [`Fresh`] and from the segment at hand, and the connection is made anew of both.

use base::{FlowKey, Instant, Seq};
use cc::{Control, NewReno};
use wire::Ecn;
use wire::tcp::{Flags, Options, Segment, Timestamps};

use crate::connection::{Bits, Connection};
use crate::mtu::path;
use crate::scale::MAX_SHIFT;
use crate::sender::MIN_MSS;
use crate::start::{Fresh, Start};
use crate::{Cx, HostHint, Open, SocketOptions, State, Transmit};

/// The beginning of connections that are alike: all of them connect, or all accept.
#[derive(Clone, Copy, Debug)]
pub struct CachedState {
    /// Socket options for which the entry is valid.
    options: SocketOptions,
    start: Start,
    /// Features that our settings offer, whether or not the peer agreed.
    ours: Bits,
    /// On the side that accepts: what the peer's SYN led to.
    agreed: Agreed,
}

/// Result of a SYN without its numbers and its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Agreed {
    peer_mss: u16,
    snd_mss: u16,
    rcv_mss: u16,
    snd_scale: u8,
    /// Bytes from RCV.NXT to the edge of the window that the SYN-ACK offers.
    offered: u32,
}

impl CachedState {
    /// Returns true if connections with these options over a path of this MTU begin like this.
    // Inlined into a loop, every field of the options is loaded and spilled ahead of it: 80 instructions.
    #[inline(never)]
    pub fn is_for(&self, options: &SocketOptions, path_mtu: u16) -> bool {
        self.is_over(path_mtu) && self.options == *options
    }

    /// Returns true if the entry is for a path of this MTU (bytes); the options are known to match.
    #[inline]
    pub fn is_over(&self, path_mtu: u16) -> bool {
        self.start.path_mtu == path_mtu
    }

    /// Does it hold for the same connections?
    pub fn is_like(&self, other: &CachedState) -> bool {
        self.is_for(&other.options, other.start.path_mtu)
            && self.start.bits == other.start.bits
            && self.agreed == other.agreed
    }

    /// Would the SYN of `key`, which has neither payload nor signature, lead to the same agreement?
    #[inline]
    pub fn fits(&self, key: &FlowKey, syn: &Segment<'_>) -> bool {
        let CachedState { ours, agreed, start: Start { bits, .. }, .. } = self;
        let said = &syn.options;
        let both = |option: Bits, theirs: bool| (ours.has(option) && theirs) == bits.has(option);
        syn.flags == Flags::SYN
            && said.mss.unwrap_or(path::default_mss(key)).max(MIN_MSS) == agreed.peer_mss
            && both(Bits::SCALING.into(), said.window_scale.is_some())
            && (!bits.has(Bits::SCALING)
                || said.window_scale.is_some_and(|shift| shift.min(MAX_SHIFT) == agreed.snd_scale))
            && both(Bits::SACK.into(), said.sack_permitted)
            && both(Bits::TIMESTAMPS, said.timestamps.is_some())
    }

    /// Does the SYN, or SYN-ACK, of `conn` look like that of the connection that left this behind?
    #[inline]
    pub(crate) fn opens(&self, conn: &Connection) -> bool {
        let (was, is) = (&self.start, conn);
        was.bits == is.bits
            && (was.rcv_scale, was.path_mtu) == (is.rcv.scale(), is.snd.path_mtu())
            && was.options.opens_as(&is.options)
    }
}

impl Connection {
    /// Returns the state with which the next connection with the options `options` may begin over a path of this MTU
    /// (bytes), and its SYN or SYN-ACK except for addresses, ports, numbers, window and timestamps. `None` for what
    /// is special: signed connections, paced ones, ones with ECN or timestamps of microseconds, and accepted ones
    /// before the peer's SYN.
    ///
    /// It is worked out from what settings, options and the peer's SYN said, as if the connection began again; nothing
    /// of its life goes into it.
    pub fn cached_state(
        &self,
        cx: &mut Cx<'_>,
        options: &SocketOptions,
        path_mtu: u16,
    ) -> Option<(CachedState, Transmit)> {
        let active = self.bits.has(Bits::ACTIVE);
        if self.bits.has(Bits::NOT_CACHED)
            || options.max_pacing.is_some()
            || !options.times.is_predicted()
            || (!active && self.snd.peer_mss() == 0)
        {
            return None;
        }
        let (isn, hint) = (Seq::new(0), HostHint::default());
        let open = Open { key: *self.key(), isn, ts_offset: 0, path_mtu, options: *options, hint };
        let cx = &mut Cx { now: Instant::ZERO, probe: None, ..reborrow(cx) };
        let (mut place, control) = (None, Control::NewReno(NewReno::new()));
        let state = if active { State::SynSent } else { State::SynReceived };
        let conn = Connection::begin(&mut place, cx, &open, control, state);
        let ours = conn.bits;
        if ours.has(Bits::NOT_CACHED) {
            // This peer agreed to less than the next one may.
            return None;
        }
        if active {
            conn.ask(cx.config);
        } else {
            conn.take_syn(cx, &self.syn_of_peer());
        }
        let agreed = Agreed {
            peer_mss: conn.snd.peer_mss(),
            snd_mss: conn.snd.mss(),
            rcv_mss: conn.rcv.mss(),
            snd_scale: conn.snd.scale(),
            offered: conn.rcv.window(),
        };
        let start = Start {
            options: conn.options,
            bits: conn.bits,
            quick: conn.rcv.quick(),
            rcv_scale: conn.rcv.scale(),
            path_mtu: conn.snd.path_mtu(),
            rcvbuf: conn.rcv.limit(),
            sndbuf: conn.snd.buffer().limit(),
        };
        let shown = conn.show_opening(cx)?;
        Some((CachedState { options: *options, start, ours, agreed }, shown))
    }

    /// A SYN that says what the peer's must have said.
    fn syn_of_peer(&self) -> Segment<'static> {
        let bits = self.bits;
        Segment {
            seq: Seq::new(0),
            ack: Seq::new(0),
            flags: Flags::SYN,
            window: 0,
            urgent: 0,
            options: Options {
                mss: Some(self.snd.peer_mss()),
                window_scale: bits.has(Bits::SCALING).then_some(self.snd.scale()),
                sack_permitted: bits.has(Bits::SACK),
                timestamps: bits.has(Bits::TIMESTAMPS).then_some(Timestamps { val: 0, ecr: 0 }),
                ..Options::NONE
            },
            merged: 1,
            ecn: Ecn::NotCapable,
            payload: &[],
            rest: None,
        }
    }

    /// [`Connection::connect`] for a connection that begins like those before it: `cached` is for its options.
    pub fn connect_again<'p>(
        place: &'p mut Option<Connection>,
        cx: &mut Cx<'_>,
        fresh: &Fresh,
        control: Control,
        cached: &CachedState,
    ) -> &'p mut Connection {
        cx.counters.active_opens += 1;
        Connection::begin_cached(place, cx, fresh, control, cached, State::SynSent)
    }

    /// [`Connection::accept`] for a connection that begins like those before it: `cached` is for the listener's
    /// options and fits the SYN, and no observer wants to see each segment.
    pub fn accept_again<'p>(
        place: &'p mut Option<Connection>,
        cx: &mut Cx<'_>,
        fresh: &Fresh,
        control: Control,
        cached: &CachedState,
        syn: &Segment<'_>,
    ) -> &'p mut Connection {
        cx.counters.passive_opens += 1;
        cx.counters.segments_in += 1;
        cx.counters.unpredicted += 1;
        let conn = Connection::begin_cached(place, cx, fresh, control, cached, State::SynReceived);
        let Agreed { peer_mss, snd_mss, rcv_mss, snd_scale, offered } = cached.agreed;
        conn.counts.received(1);
        conn.rcv.begin_behind(syn.seq);
        conn.rcv.offer(offered);
        conn.snd.agree(peer_mss, snd_scale);
        conn.snd.set_mss(snd_mss);
        conn.rcv.set_mss(rcv_mss);
        if let Some(stamps) = syn.options.timestamps.filter(|_| conn.bits.has(Bits::TIMESTAMPS)) {
            conn.rcv.note_timestamp(stamps.val);
        }
        conn.set_send_window(syn.window.into(), syn.seq);
        conn
    }

    #[inline(always)]
    fn begin_cached<'p>(
        place: &'p mut Option<Connection>,
        cx: &mut Cx<'_>,
        fresh: &Fresh,
        control: Control,
        cached: &CachedState,
        state: State,
    ) -> &'p mut Connection {
        *place = None;
        let conn = place.insert(Connection::new(cx.now, &cached.start, fresh, control, state));
        conn.take_hint(cx.config, &fresh.hint);
        conn
    }
}

/// Reborrows the context for a shorter lifetime.
fn reborrow<'a>(cx: &'a mut Cx<'_>) -> Cx<'a> {
    Cx { now: cx.now, config: cx.config, pool: cx.pool, counters: cx.counters, probe: None, frames: None }
}

#[cfg(test)]
mod tests;
