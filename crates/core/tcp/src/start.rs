//! Initial state of a connection: the part that settings and options decide, and the part that is new for each.

use base::{FlowKey, Seq};

use crate::bits::Bits;
use crate::options::{PackedOptions, Switch};
use crate::scale::shift_for;
use crate::{Config, HostHint, SocketOptions};

/// Initial state that settings and options decide, for any peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) options: PackedOptions,
    pub(crate) bits: Bits,
    /// Acknowledgments that are not delayed.
    pub(crate) quick: u8,
    pub(crate) rcv_scale: u8,
    pub(crate) path_mtu: u16,
    pub(crate) rcvbuf: u32,
    pub(crate) sndbuf: u32,
}

impl Start {
    #[inline(always)]
    pub(crate) fn of(config: &Config, options: &SocketOptions, path_mtu: u16) -> Start {
        let options = PackedOptions::from(options);
        let greatest = if options.rcvbuf() == 0 { config.rcvbuf.1 } else { options.rcvbuf() };
        Start {
            options,
            bits: config.offered() | Bits::DATED.when(options.has(Switch::DATED)),
            quick: if options.has(Switch::NO_QUICKACK) { 0 } else { config.quick_acks },
            rcv_scale: shift_for(greatest.min(options.clamp())),
            path_mtu,
            rcvbuf: if options.rcvbuf() == 0 { config.rcvbuf.0 } else { options.rcvbuf() },
            sndbuf: if options.sndbuf() == 0 { config.sndbuf.0 } else { options.sndbuf() },
        }
    }
}

/// Initial state that is new for every connection: none of it may come from another one.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// Its two ends.
    pub key: FlowKey,
    /// Our initial sequence number (RFC 6528, see [`crate::IsnSource`]).
    pub isn: Seq,
    /// Offset added to our timestamp clock (RFC 7323, section 5.4).
    pub ts_offset: u32,
    /// Knowledge of the path from earlier connections.
    pub hint: HostHint,
}

/// Arguments of a new connection.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Its two ends.
    pub key: FlowKey,
    /// Our initial sequence number (RFC 6528, see [`crate::IsnSource`]).
    pub isn: Seq,
    /// Offset added to our timestamp clock (RFC 7323, section 5.4: random per connection).
    pub ts_offset: u32,
    /// MTU of the path as far as known, bytes of IP packet.
    pub path_mtu: u16,
    /// The socket's options.
    pub options: SocketOptions,
    /// Knowledge of the path from earlier connections.
    pub hint: HostHint,
}

impl Open {
    #[inline(always)]
    pub(crate) fn fresh(&self) -> Fresh {
        let Open { key, isn, ts_offset, hint, .. } = *self;
        Fresh { key, isn, ts_offset, hint }
    }
}
