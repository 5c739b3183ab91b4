//! TCP_DEFER_ACCEPT as Linux does it: the acknowledgment that ends a handshake and says nothing else is ignored, as if
//! it had been lost, and what is half-open waits for data. The SYN-ACK goes again only once the time is up, and what
//! answers it makes the connection.

use base::Duration;
use wire::tcp::Segment;

use crate::Cx;
use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::scale::ts_before;

crate::bits::writer!(DEFERRED);

/// The longest timeout, seconds.
const LONGEST: u32 = 120;

/// Returns the length of the `n`th timeout, from 0, in seconds: each is twice as long as the one before.
fn timeout(n: u8) -> u32 {
    LONGEST.min(1 << n.min(7))
}

/// Returns how many timeouts last `seconds` or longer, 255 at most.
pub fn timeouts_of(seconds: u32) -> u8 {
    let mut end = 0;
    (0..u8::MAX)
        .find(|&n| {
            end >= seconds || {
                end += timeout(n);
                false
            }
        })
        .unwrap_or(u8::MAX)
}

/// Returns how many seconds so many timeouts last.
pub fn seconds_of(timeouts: u8) -> u32 {
    (0..timeouts).map(timeout).sum()
}

impl Connection {
    /// Returns true if `seg` ends the handshake of a half-open connection, brings nothing, and came before so many
    /// timeouts had passed: then it is to be ignored. Its round trip is measured, because the one that ends with data
    /// includes the time that the client took to ask.
    pub fn defers(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, timeouts: u8) -> bool {
        if self.timers.retries() >= timeouts || seg.seq_len() > 0 || !self.completes_handshake(seg) {
            return false;
        }
        if !self.bits.has(Bits::DEFERRED) {
            self.bits.set(Bits::DEFERRED, WRITER);
            self.timers.prolong_rtx(self.deferral());
            let left = self.snd.when_left(cx.pool.tx_times_mut(), seg.ack);
            self.measure_rtt(cx, seg, left);
        }
        if seg.options.timestamps.is_some_and(|ts| !ts_before(ts.val, self.rcv.ts_recent())) {
            self.note_timestamp(seg);
        }
        true
    }

    /// Returns true if an acknowledgment was ignored by [`Connection::defers`].
    pub fn is_deferred(&self) -> bool {
        self.bits.has(Bits::DEFERRED)
    }

    /// In the place of [`Connection::on_timeout`] for a half-open connection that [`Connection::is_deferred`], whose
    /// listener waits for so many timeouts.
    pub fn on_deferred_timeout(&mut self, cx: &mut Cx<'_>, timeouts: u8) {
        if !self.timers.is_rtx_due(cx.now) {
            return self.on_timeout(cx);
        }
        if self.timers.retries() >= self.opening_limit(cx.config).max(timeouts) {
            return self.fail(cx, self.silence());
        }
        self.count_retry(cx);
        if self.timers.retries() >= timeouts {
            self.request(Due::SYN);
        }
        self.timers.set_rtx(cx.now + self.deferral());
    }

    /// The length of the timeout under way.
    fn deferral(&self) -> Duration {
        Duration::from_secs(timeout(self.timers.retries()).into())
    }
}

#[cfg(test)]
mod tests;
