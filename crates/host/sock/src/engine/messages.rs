//! Metadata of messages: hints with bytes sent, reports about them (the error queue of recvmsg(2)), and
//! what is told with those received.

use super::{Engine, edges};
use crate::Errno;
use crate::object::{Dates, Extras, Kind};
use crate::sockets::{ErrorReport, Fd, Ready, Received, SendFlags};
use crate::transport::Transport;
use tcp::{Events, Hints, Report, Stamps};

/// SOF_TIMESTAMPING_* of include/uapi/linux/net_tstamp.h.
pub(crate) mod sof {
    pub(crate) const TX_SOFTWARE: u32 = 1 << 1;
    pub(crate) const RX_SOFTWARE: u32 = 1 << 3;
    pub(crate) const SOFTWARE: u32 = 1 << 4;
    pub(crate) const OPT_ID: u32 = 1 << 7;
    pub(crate) const TX_SCHED: u32 = 1 << 8;
    pub(crate) const TX_ACK: u32 = 1 << 9;
    pub(crate) const OPT_CMSG: u32 = 1 << 10;
    pub(crate) const OPT_TSONLY: u32 = 1 << 11;
    pub(crate) const OPT_ID_TCP: u32 = 1 << 16;
    /// Timestamping flags of this stack; no port stamps in hardware.
    pub(crate) const KNOWN: u32 = TX_SOFTWARE
        | RX_SOFTWARE
        | SOFTWARE
        | OPT_ID
        | TX_SCHED
        | TX_ACK
        | OPT_CMSG
        | OPT_TSONLY
        | OPT_ID_TCP;
}

/// SO_EE_ORIGIN_TIMESTAMPING and SO_EE_ORIGIN_ZEROCOPY, and SO_EE_CODE_ZEROCOPY_COPIED, of
/// include/uapi/linux/errqueue.h.
const ORIGIN_TIMESTAMPING: u8 = 4;
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

impl Dates {
    /// Which moments of sending are asked for.
    fn stamps(&self) -> Stamps {
        const TABLE: [(u32, Stamps); 3] = [
            (sof::TX_SCHED, Stamps::SCHEDULED),
            (sof::TX_SOFTWARE, Stamps::SENT),
            (sof::TX_ACK, Stamps::ACKNOWLEDGED),
        ];
        let wanted = TABLE.iter().filter(|(flag, _)| self.stamping & flag != 0);
        Stamps(wanted.fold(0, |all, (_, one)| all | one.0))
    }

    /// Is the time asked for at which bytes arrived?
    pub(crate) fn arrivals(&self) -> bool {
        let both = sof::RX_SOFTWARE | sof::SOFTWARE;
        self.micros || self.nanos || self.stamping & both == both
    }

    /// A report of the connection as Linux's error queue shows it.
    fn show(&self, report: Report) -> ErrorReport {
        match report {
            Report::Complete { first, last, copied } => ErrorReport {
                errno: None,
                origin: ORIGIN_ZEROCOPY,
                code: if copied { CODE_COPIED } else { 0 },
                info: first,
                data: last,
                at: None,
                truncated: false,
            },
            Report::Stamp { what, byte, at } => ErrorReport {
                errno: Some(Errno::ENOMSG),
                origin: ORIGIN_TIMESTAMPING,
                code: 0,
                info: match what {
                    Stamps::SENT => 0,
                    Stamps::SCHEDULED => 1,
                    _ => 2,
                },
                data: if self.stamping & sof::OPT_ID != 0 { byte.wrapping_sub(self.first) } else { 0 },
                at: (self.stamping & sof::SOFTWARE != 0).then_some(at),
                truncated: self.stamping & sof::OPT_TSONLY == 0,
            },
        }
    }
}

impl<T: Transport> Engine<T> {
    /// Returns the hints of a send with these flags; `None` if there are none.
    pub(crate) fn hints(&self, fd: Fd, flags: SendFlags) -> Option<Hints> {
        let extras = match &self.object(fd).ok()?.kind {
            Kind::Stream(stream) => stream.extras.as_deref(),
            _ => None,
        };
        let hints = Hints {
            more: flags.more,
            end_of_record: flags.end_of_record,
            completion: flags.zero_copy && extras.is_some_and(|extras| extras.zero_copy),
            stamps: extras.map(|extras| extras.dates.stamps()).unwrap_or_default(),
            waits: false,
        };
        (hints != Hints::default()).then_some(hints)
    }

    /// See [`crate::Sockets::send`]: what fits now, with what the call says about it.
    pub fn send(&mut self, fd: Fd, data: &[u8], hints: &Hints) -> Result<usize, Errno> {
        let Kind::Stream(stream) = &self.object(fd)?.kind else { return self.write(fd, data) };
        let conn = stream.conn;
        match self.core.write_hinted(self.now(), conn, data, hints) {
            Err(Errno::ENOTCONN) if self.stream(fd)?.connecting => Err(Errno::EAGAIN),
            result => result,
        }
    }

    /// Sends with what the call says, if it says anything.
    pub(crate) fn put(&mut self, fd: Fd, data: &[u8], hints: Option<&Hints>) -> Result<usize, Errno> {
        match hints {
            None => self.write(fd, data),
            Some(hints) => self.send(fd, data, hints),
        }
    }

    /// A call that waited ends before it sent everything.
    pub(crate) fn end_call(&mut self, fd: Fd, hints: &Hints) -> Result<(), Errno> {
        let conn = self.stream(fd)?.conn;
        self.core.end_call(self.now(), conn, hints);
        Ok(())
    }

    /// Sends data that is held back, as each setting of TCP_NODELAY does (tcp(7)).
    pub(crate) fn push(&mut self, fd: Fd) {
        if let Ok(conn) = self.stream(fd).map(|stream| stream.conn) {
            self.core.push(self.now(), conn);
        }
    }

    /// Sends what MSG_MORE holds back, as each end of a cork does, unless data in flight makes it wait (Nagle).
    pub(crate) fn uncork(&mut self, fd: Fd) {
        if let Ok(conn) = self.stream(fd).map(|stream| stream.conn) {
            let (unacknowledged, unsent) = self.core.unsent(conn);
            if unsent > 0 && unsent == unacknowledged {
                self.core.push(self.now(), conn);
            }
        }
    }

    /// Makes what can be read, or the peer's FIN, an edge again, as each setting of SO_RCVLOWAT does on Linux.
    pub(crate) fn tell_readable(&mut self, fd: Fd) -> Result<(), Errno> {
        let object = self.index(fd)?;
        let Ok(conn) = self.stream(fd).map(|stream| stream.conn) else { return Ok(()) };
        let enough = self.core.readable(conn) >= self.core.options(conn).rcv_lowat.max(1);
        if enough || self.core.peer_closed(conn) {
            self.mark(object, edges(Events::READABLE));
        }
        Ok(())
    }

    /// Makes room to send an edge again, as each setting of TCP_NOTSENT_LOWAT does on Linux.
    pub(crate) fn tell_writable(&mut self, fd: Fd) -> Result<(), Errno> {
        let has_room = self.peer_addr(fd).is_err() || self.tells_room(fd);
        if has_room { self.wake(fd, edges(Events::WRITABLE)) } else { Ok(()) }
    }

    /// Wakes whatever sleeps on a socket: watches that look for any of `edges`, and reads of nothing.
    pub(super) fn wake(&mut self, fd: Fd, edges: Ready) -> Result<(), Errno> {
        let object = self.object_mut(fd)?;
        object.wakes = object.wakes.wrapping_add(1);
        self.mark(self.index(fd)?, edges);
        Ok(())
    }

    /// See [`crate::Sockets::recv_error`].
    pub fn recv_error(&mut self, fd: Fd) -> Result<ErrorReport, Errno> {
        let dates = self.extras(fd).dates;
        let conn = match &self.object(fd)?.kind {
            Kind::Stream(stream) => stream.conn,
            Kind::Fresh(_) | Kind::Listener(_) => return Err(Errno::EAGAIN),
            _ => return Err(Errno::ENOTSOCK),
        };
        self.core.take_report(conn).map(|report| dates.show(report)).ok_or(Errno::EAGAIN)
    }

    /// Returns the metadata of `len` bytes just received.
    pub(crate) fn received(&mut self, fd: Fd, len: usize) -> Received {
        let Extras { inq, dates, .. } = self.extras(fd);
        let Ok(conn) = self.stream(fd).map(|stream| stream.conn) else { return Received::bytes(len) };
        let left = inq.then(|| match self.core.readable(conn) {
            // The end is worth another read (Linux's tcp_inq_hint).
            0 => u32::from(self.core.peer_closed(conn)),
            left => left,
        });
        // As on Linux a read of nothing tells of what is there.
        let is_there = len > 0 || self.core.readable(conn) > 0;
        let arrived = if dates.arrivals() && is_there { self.core.last_read_arrived(conn) } else { None };
        Received { len, left, arrived }
    }
}
