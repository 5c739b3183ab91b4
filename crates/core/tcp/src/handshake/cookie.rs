//! Stateless SYN answers.
//!
//! ```text
//!  ISN    |31              hash of flow, client ISN, time, options              3|2  MSS  0|
//!  TSval  |31        our timestamp clock        6|  5 ECN  |  4 SACK  |3   window scale    0|
//! ```

use base::{FlowKey, Instant, Seq, SipKey};
use wire::tcp::{Flags, Header, Options, Segment, Timestamps};

use crate::Config;
use crate::ecn::accecn;
use crate::ecn::accecn::Mode;
use crate::handshake::isn::Offsets;
use crate::scale::{Clock, shift_for, to_field, ts_before};

/// Tells apart what one secret is used for.
const COOKIE: u64 = 0x636f_6f6b_6965_0000;

/// Values of the three low bits of the ISN: the peer's MSS in bytes, rounded down to common ones.
const MSS: [u16; 8] = [88, 536, 1220, 1360, 1400, 1440, 1460, 8940];
const MSS_BITS: u32 = 3;
const _: () = assert!(MSS.len() == 1 << MSS_BITS);

/// A cookie is good in the period it was made in and in the next one: for 64 to 128 seconds.
const PERIOD_SECS: u64 = 64;

/// Low bits of our timestamp that remember the peer's options.
const TS_BITS: u32 = 6;
const TS_MASK: u32 = (1 << TS_BITS) - 1;
const TS_SACK: u32 = 1 << 4;
const TS_ECN: u32 = 1 << 5;
const TS_SCALE: u32 = 15;
/// Scale bits that say "no scaling"; real shifts end at 14.
const NO_SCALE: u32 = 15;

/// Stateless SYN answers (RFC 4987): a keyed, aging cookie that carries MSS, and by timestamp: scale, SACK
/// and ECN.
pub struct CookieJar {
    key: SipKey,
    offsets: Offsets,
}

/// Contents of a valid cookie.
#[derive(Clone, Copy, Debug)]
pub struct Cookie {
    /// Peer's MSS.
    pub mss: u16,
    /// Peer's window scale; ours is then the one for `Config::rcvbuf`'s greatest size.
    pub window_scale: Option<u8>,
    /// SACK.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
    /// ECN was asked for and granted (RFC 3168).
    pub ecn: bool,
    /// Offset of the timestamp clock that the SYN-ACK used: the connection must go on with it, or the peer's
    /// PAWS would drop its segments.
    pub ts_offset: u32,
}

impl CookieJar {
    /// From a secret.
    pub fn new(key: SipKey) -> Self {
        CookieJar { key, offsets: Offsets::new(key) }
    }

    /// The SYN-ACK that answers `syn` without keeping anything. Window scale, SACK and ECN are granted only to
    /// peers that send timestamps, because those bring the memory of them back.
    pub fn answer(
        &self,
        now: Instant,
        config: &Config,
        key: &FlowKey,
        path_mtu: u16,
        syn: &Segment<'_>,
    ) -> Header {
        let default_mss = if key.is_v4() { 536 } else { 1220 };
        let peer_mss = syn.options.mss.unwrap_or(default_mss);
        let mss = MSS.iter().rposition(|&mss| mss <= peer_mss).unwrap_or(0) as u32;
        let peer_ts = syn.options.timestamps.filter(|_| config.timestamps);
        let peer_scale = syn.options.window_scale.filter(|_| config.window_scaling && peer_ts.is_some());
        let sack = syn.options.sack_permitted && config.sack && peer_ts.is_some();
        let ecn = peer_ts.is_some() && Mode::of_syn(config, syn.flags.ace()) == Mode::Classic;
        let memory = peer_ts.map(|_| {
            let scale = peer_scale.map_or(NO_SCALE, |shift| u32::from(shift.min(14)));
            scale | if sack { TS_SACK } else { 0 } | if ecn { TS_ECN } else { 0 }
        });
        let setup = accecn::stateless_setup(config, syn);
        let headers = if key.is_v4() { 40 } else { 60 };
        Header {
            src_port: key.local().port,
            dst_port: key.remote().port,
            seq: self.cookie(period(now), key, syn.seq, mss, memory),
            ack: syn.seq + 1,
            flags: Flags::SYN | Flags::ACK | setup.unwrap_or(if ecn { Flags::ECE } else { Flags::default() }),
            window: to_field(config.rcvbuf.0, 0),
            options: Options {
                mss: Some(path_mtu.saturating_sub(headers).max(MSS[0])),
                window_scale: peer_scale.map(|_| shift_for(config.rcvbuf.1)),
                sack_permitted: sack,
                timestamps: peer_ts.zip(memory).map(|(ts, memory)| Timestamps {
                    val: remember(Clock::of(config).value(now, self.offsets.of(key)), memory),
                    ecr: ts.val,
                }),
                accecn: setup.and_then(|_| accecn::stateless_option(config)),
                layout: config.syn_layout(),
                ..Options::default()
            },
        }
    }

    /// Is this ACK the answer to a cookie we gave, within the last two minutes? Data may come with it: the
    /// bare ACK of the handshake may have been lost.
    pub fn check(&self, now: Instant, key: &FlowKey, ack: &Segment<'_>) -> Option<Cookie> {
        if !ack.flags.has(Flags::ACK) || ack.flags.any(Flags::SYN | Flags::RST) {
            return None;
        }
        let cookie = ack.ack - 1;
        let mss = cookie.raw() & ((1 << MSS_BITS) - 1);
        let memory = ack.options.timestamps.map(|ts| ts.ecr & TS_MASK);
        let period = period(now);
        [period, period.wrapping_sub(1)]
            .into_iter()
            .find(|&p| self.cookie(p, key, ack.seq - 1, mss, memory) == cookie)?;
        let scale = memory.map_or(NO_SCALE, |bits| bits & TS_SCALE);
        Some(Cookie {
            mss: MSS[mss as usize],
            window_scale: (scale != NO_SCALE).then_some(scale as u8),
            sack: memory.is_some_and(|bits| bits & TS_SACK != 0),
            timestamps: memory.is_some(),
            ecn: memory.is_some_and(|bits| bits & TS_ECN != 0),
            ts_offset: self.offsets.of(key),
        })
    }

    /// The cookie of a client's SYN in one period. All that comes back with the ACK is under the hash, so
    /// none of it can be changed on the way.
    fn cookie(&self, period: u32, key: &FlowKey, client_isn: Seq, mss: u32, memory: Option<u32>) -> Seq {
        let [a, b, c, d, e] = key.words();
        let time = u64::from(client_isn.raw()) << 32 | u64::from(period);
        let options = u64::from(mss) << 32 | u64::from(memory.unwrap_or(u32::MAX));
        let hash = self.key.strong(&[COOKIE, a, b, c, d, e, time, options]) as u32;
        Seq::new(hash << MSS_BITS | mss)
    }
}

fn period(now: Instant) -> u32 {
    (now.as_millis() / 1_000 / PERIOD_SECS) as u32
}

/// The latest clock value, not in the future, whose low bits are `memory`: the connection's later timestamps
/// must not be older than this one.
fn remember(clock: u32, memory: u32) -> u32 {
    let value = clock & !TS_MASK | memory;
    if ts_before(clock, value) { value.wrapping_sub(1 << TS_BITS) } else { value }
}

#[cfg(test)]
mod tests;
