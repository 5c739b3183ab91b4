//! Segment sizes that the path lets through.

use base::FlowKey;
use cc::Controller;

use crate::connection::{Bits, Connection};
use crate::sender::MIN_MSS;
use crate::{Config, Cx};

/// First guess of the peer's full segments, before the first arrives.
pub(crate) const RCV_MSS_GUESS: u16 = 536;
/// Bytes of the timestamps option, padded (RFC 7323, appendix A).
pub(crate) const TIMESTAMPS_LEN: u16 = 12;
/// Bytes of accurate ECN's three counters, padded (RFC 9768, section 3.2.3).
pub(crate) const ACCECN_LEN: u16 = 12;
/// Bytes of a SACK option without its blocks, padded.
pub(crate) const SACK_HEAD: u16 = 4;
/// Bytes of one SACK block.
pub(crate) const SACK_BLOCK: u16 = 8;

const TCP_HEADER: u16 = 20;

/// The peer's MSS if it did not say (RFC 9293, MUST-15; RFC 8200, section 8.3).
pub(crate) fn default_mss(key: &FlowKey) -> u16 {
    if key.is_v4() { 536 } else { 1220 }
}

/// IP and TCP headers without options.
fn headers(key: &FlowKey) -> u16 {
    TCP_HEADER + if key.is_v4() { 20 } else { 40 }
}

impl Connection {
    /// RFC 6928: min(10 MSS, max(2 MSS, 14600)), for the configured number of segments. One segment only if
    /// the SYN was lost more than once; a single loss is more often a timeout too short (RFC 6928, section
    /// 2).
    /// RFC 6928, 2-1 and 2-2; RFC 5681, 3.1-12.
    pub(crate) fn initial_window(&self, cx: &Cx<'_>) -> u32 {
        let mss = u32::from(self.snd.mss());
        if self.timers.retries() > 1 {
            return mss;
        }
        let segments = cx.config.initial_window;
        (segments * mss).min((2 * mss).max(segments * 1460))
    }

    /// The MSS option of our SYN: what our end of the path can receive (RFC 9293, section 3.7.1).
    /// RFC 9293, MUST-67.
    pub(crate) fn advertised_mss(&self) -> u16 {
        self.payload_of(self.route_mtu())
    }

    /// Bytes that a packet of `mtu` has room for behind headers without options, and that the application allows.
    fn payload_of(&self, mtu: u16) -> u16 {
        let mss = mtu.saturating_sub(headers(self.key())).max(MIN_MSS);
        if self.options.max_seg() == 0 { mss } else { mss.min(self.options.max_seg().max(MIN_MSS)) }
    }

    /// Bytes of the options that every segment carries; `counters` of them are accurate ECN's.
    fn options_len(&self, counters: u16) -> u16 {
        let stamps = if self.bits.has(Bits::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        stamps + counters + self.signature_len()
    }

    /// Bytes of data in a full segment if the path takes packets of `mtu`.
    pub(crate) fn mss_for(&self, config: &Config, mtu: u16) -> u16 {
        self.payload_of(mtu).min(self.snd.peer_mss()) - self.options_len(self.counters_len(config))
    }

    /// Bytes of data in a full segment, as the application is told. Before the peer's SYN they are what a peer without
    /// the option takes, or what the application allows.
    pub(crate) fn told_mss(&self) -> u16 {
        if self.snd.peer_mss() > 0 {
            return self.snd.mss();
        }
        let own = self.payload_of(self.route_mtu());
        let mss = if self.options.max_seg() > 0 { own } else { own.min(default_mss(self.key())) };
        mss - self.options_len(0)
    }

    /// The packet that holds `mss` bytes of data.
    pub(crate) fn mtu_for(&self, config: &Config, mss: u16) -> u16 {
        let options = self.options_len(self.counters_len(config));
        mss.saturating_add(options).saturating_add(headers(self.key()))
    }

    /// Eff.snd.MSS (RFC 9293, section 3.7.1) less the timestamps and the signature that every segment carries, and
    /// accurate ECN's counters. SACK blocks are taken off segment by segment.
    /// RFC 9293, MUST-16.
    #[inline]
    pub(crate) fn refresh_mss(&mut self, config: &Config) {
        // Nothing else has counters.
        let counters = if self.bits.has(Bits::ACCECN) { self.counters_len(config) } else { 0 };
        self.leave_room(counters);
    }

    /// The signature has become another; with one there are no counters.
    pub(crate) fn fit_signature(&mut self) {
        if self.snd.peer_mss() > 0 {
            self.leave_room(0);
        }
    }

    fn leave_room(&mut self, counters: u16) {
        let mss = self.payload_of(self.snd.path_mtu()).min(self.snd.peer_mss()) - self.options_len(counters);
        let before = self.snd.set_mss(mss);
        if mss != before && self.state().is_synchronized() {
            // A window below one segment would never open again with nothing in flight.
            self.control.on_mss_change(mss.into());
        }
    }
}
