//! Times that a socket chose otherwise than the stack's settings: TCP_RTO_MIN_US, TCP_DELACK_MAX_US and TCP_LINGER2.

use alloc::boxed::Box;

use base::Duration;

use crate::connection::Connection;
use crate::options::Switch;
use crate::{Config, Cx, Times};

impl Connection {
    /// Returns what the socket chose.
    pub(crate) fn times(&self) -> Times {
        match self.options.has(Switch::OWN_TIMES) {
            true => self.cold().and_then(|cold| cold.times.0.as_deref()).copied().unwrap_or_default(),
            false => Times::default(),
        }
    }

    /// Keeps what the socket chose; its packed options say already whether that is anything.
    pub(crate) fn set_times(&mut self, times: Times) {
        self.cold_mut().times.0 = (!times.is_predicted()).then(|| Box::new(times));
    }

    /// Returns the longest delay of an acknowledgment (RFC 9293, MUST-40).
    #[inline]
    pub(crate) fn longest_delay(&self, config: &Config) -> Duration {
        if self.options.has(Switch::OWN_TIMES) { self.own_delay(config) } else { config.delayed_ack }
    }

    #[cold]
    fn own_delay(&self, config: &Config) -> Duration {
        let own = self.times().delayed_ack;
        if own.is_zero() { config.delayed_ack } else { own.min(config.delayed_ack) }
    }

    /// An orphan begins to wait for the peer's FIN: as long as TCP_LINGER2 or the setting `fin_wait2` says, and not at
    /// all, so that it resets, where TCP_LINGER2 is negative.
    pub(crate) fn await_fin(&mut self, cx: &mut Cx<'_>) {
        self.forget_orphan(cx.pool);
        let own = if self.options.has(Switch::OWN_TIMES) { self.times().fin_wait2 } else { None };
        let time = own.unwrap_or(cx.config.fin_wait2);
        if time.is_zero() {
            return self.abort(cx);
        }
        self.timers.set_idle(cx.now + time);
    }
}
