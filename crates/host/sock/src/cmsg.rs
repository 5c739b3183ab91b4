//! Control messages of recvmsg, as Linux lays them out (cmsg(3)).

use crate::sockets::{ErrorReport, Received};
use base::Instant;

/// TCP_CM_INQ.
const CM_INQ: i32 = 36;
/// Bytes of `struct cmsghdr`, and what everything is aligned to.
const HEADER: usize = 16;
const ALIGN: usize = 8;

/// How times of arrival are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// SO_TIMESTAMP: `struct timeval`.
    Micros,
    /// SO_TIMESTAMPNS: `struct timespec`.
    Nanos,
    /// SO_TIMESTAMPING: three of them, the first by software.
    Three,
}

/// Control messages, one after the other.
#[derive(Default)]
pub struct Control {
    bytes: Vec<u8>,
}

impl Control {
    /// Returns the control messages of received bytes.
    pub fn of_data(seen: &Received, stamp: Stamp) -> Control {
        let mut control = Control::default();
        if let Some(at) = seen.arrived {
            control.time(at, stamp);
        }
        if let Some(left) = seen.left {
            control.put(libc::SOL_TCP, CM_INQ, &left.to_ne_bytes());
        }
        control
    }

    /// A report of the error queue; `v6` is the socket's family.
    pub fn of_report(report: &ErrorReport, v6: bool) -> Control {
        let mut control = Control::default();
        if let Some(at) = report.at {
            control.time(at, Stamp::Three);
        }
        // struct sock_extended_err, and the address of the offender: none.
        let mut data = Vec::new();
        data.extend(report.errno.map_or(0, |errno| errno.raw()).to_ne_bytes());
        data.extend([report.origin, 0, report.code, 0]);
        data.extend(report.info.to_ne_bytes());
        data.extend(report.data.to_ne_bytes());
        let (level, kind, offender) = match v6 {
            false => (libc::SOL_IP, libc::IP_RECVERR, 16),
            true => (libc::SOL_IPV6, libc::IPV6_RECVERR, 28),
        };
        data.resize(data.len() + offender, 0);
        control.put(level, kind, &data);
        control
    }

    fn time(&mut self, at: Instant, stamp: Stamp) {
        let (seconds, nanos) =
            ((at.as_nanos() / 1_000_000_000) as i64, (at.as_nanos() % 1_000_000_000) as i64);
        let pair = |part: i64| [seconds.to_ne_bytes(), part.to_ne_bytes()].concat();
        match stamp {
            Stamp::Micros => self.put(libc::SOL_SOCKET, libc::SO_TIMESTAMP, &pair(nanos / 1_000)),
            Stamp::Nanos => self.put(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &pair(nanos)),
            Stamp::Three => {
                let mut data = pair(nanos);
                data.resize(3 * 16, 0);
                self.put(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &data);
            }
        }
    }

    fn put(&mut self, level: i32, kind: i32, data: &[u8]) {
        self.bytes.extend((HEADER + data.len()).to_ne_bytes());
        self.bytes.extend(level.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }

    /// The messages that fit whole into so much room; do all?
    pub fn fit(&self, room: usize) -> (&[u8], bool) {
        let mut end = 0;
        while let Some(header) = self.bytes.get(end..).and_then(|rest| rest.first_chunk::<8>()) {
            let next = (end + usize::from_ne_bytes(*header)).next_multiple_of(ALIGN);
            if next > room {
                break;
            }
            end = next;
        }
        (&self.bytes[..end], end == self.bytes.len())
    }
}

#[cfg(test)]
mod tests;
