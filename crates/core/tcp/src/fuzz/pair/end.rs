//! One end: a connection with all it borrows, its rest in TIME-WAIT, and what a stack does for it.

use alloc::vec;
use alloc::vec::Vec;

use base::{Duration, FlowKey, Instant, Seq};
use cc::Control;
use wire::tcp::{Flags, Header, Segment};

use crate::fuzz::frames::{Cut, Store};
use crate::{
    Config, Connection, CookieJar, Counters, Cx, Disposition, Error, Events, FastOpenAnswer, FastOpenKeys,
    FastOpenOffer, HostHint, Open, Pool, SocketOptions, State, TimeWait, TimeWaitAnswer, TxLimits,
};

/// No call makes a connection send more than this without hearing from its peer.
const BURST_MAX: u32 = 4096;

/// Payloads that stay in frames at most.
const KEPT_MAX: usize = 3;

/// A segment on its way out: header and payload as bytes, and the ECN codepoint.
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    pub(super) ecn: u8,
}

/// Action of the application at its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// close, whatever is under way.
    Close,
    /// RST.
    Abort,
    /// shutdown(SHUT_RD).
    ShutRead,
    /// shutdown(SHUT_WR), however little was written.
    ShutWrite,
    /// Nagle, cork and quick acknowledgments the other way round.
    Options,
}

/// Application at one end: its plan and its progress.
#[derive(Default)]
pub(super) struct App {
    /// Bytes to write, in pieces of at most `write_max`; no less, once the input is used up.
    pub(super) total: u32,
    pub(super) write_max: u32,
    /// Reads at most so many bytes at once, and rests then.
    pub(super) read_max: u32,
    pub(super) rest: Duration,
    /// Reads nothing for so long once this many bytes were read.
    pub(super) stall: Option<(u32, Duration)>,
    /// Lets go as soon as all is written, instead of at the end of the peer's stream.
    pub(super) hasty: bool,
    pub(super) act: Option<(Instant, Act)>,

    pub(super) written: u32,
    pub(super) read: u32,
    /// Our half is shut.
    pub(super) shut: bool,
    /// The peer's stream ended, or the application stopped looking at it.
    pub(super) done_reading: bool,
    /// It shut its reading half: what still comes is only thrown away.
    pub(super) drains: bool,
    /// It ended as it should, with everything in it.
    pub(super) finished: bool,
    pub(super) let_go: bool,
    pub(super) error: Option<Error>,
    pub(super) wake: Option<Instant>,
    pub(super) may_read: bool,
    pub(super) may_write: bool,
}

pub(super) struct End {
    pub(super) conn: Option<Connection>,
    pub(super) wait: Option<TimeWait>,
    pub(super) key: FlowKey,
    pub(super) isn: Seq,
    pub(super) config: Config,
    pub(super) options: SocketOptions,
    pub(super) control: fn() -> Control,
    pub(super) mtu: u16,
    pub(super) pool: Pool,
    frames: Store,
    pub(super) counters: Counters,
    /// Accepts a SYN while there is no connection.
    pub(super) listens: bool,
    /// Answers SYNs without keeping anything.
    pub(super) jar: Option<CookieJar>,
    /// Takes data with a SYN from those who show a cookie made with these.
    pub(super) keys: Option<FastOpenKeys>,
    pub(super) limits: TxLimits,
    /// Timers come this much late.
    pub(super) late: Duration,
    /// Transmissions of new data beyond the congestion window since something arrived or a timer fired.
    beyond: u32,
    pub(super) fresh: Events,
    pub(super) out: Vec<Outgoing>,
    pub(super) app: App,
}

impl End {
    pub(super) fn new(key: FlowKey, isn: Seq, app: App) -> End {
        End {
            conn: None,
            wait: None,
            key,
            isn,
            config: Config::default(),
            options: SocketOptions::default(),
            control: || Control::Cubic(cc::Cubic::new()),
            mtu: 1500,
            pool: Pool::new(4096),
            frames: Store::default(),
            counters: Counters::default(),
            listens: false,
            jar: None,
            keys: None,
            limits: TxLimits { max_payload: 65_000 },
            late: Duration::ZERO,
            beyond: 0,
            fresh: Events::default(),
            out: Vec::new(),
            app,
        }
    }

    fn open(&self) -> (Open, Control) {
        let open = Open {
            key: self.key,
            isn: self.isn,
            ts_offset: self.isn.raw().rotate_left(7),
            path_mtu: self.mtu,
            options: self.options,
            hint: HostHint::default(),
        };
        (open, (self.control)())
    }

    fn cx(&mut self, now: Instant) -> Cx<'_> {
        Cx {
            now,
            config: &self.config,
            pool: &mut self.pool,
            counters: &mut self.counters,
            probe: None,
            frames: Some(&mut self.frames),
        }
    }

    /// Active open.
    pub(super) fn connect(&mut self, now: Instant) {
        let (open, control) = self.open();
        let mut conn = None;
        Connection::connect(&mut conn, &mut self.cx(now), &open, control);
        self.conn = conn;
        self.settle(now);
    }

    /// Active open with Fast Open; how many bytes went with the SYN.
    pub(super) fn connect_fast(&mut self, now: Instant, offer: &FastOpenOffer, data: &[u8]) -> usize {
        let (open, control) = self.open();
        let mut conn = None;
        let taken = Connection::connect_fast(&mut conn, &mut self.cx(now), &open, control, offer, data);
        self.conn = conn;
        self.settle(now);
        taken
    }

    fn accept(&mut self, now: Instant, syn: &Segment<'_>) {
        let (open, control) = self.open();
        let mut conn = None;
        let mut answer = FastOpenAnswer::Handshake(None);
        if let Some(keys) = self.keys.filter(|_| FastOpenAnswer::concerns(&self.config, syn)) {
            answer = FastOpenAnswer::to(&self.config, &keys, &self.key, syn, &mut self.counters);
        }
        let cx = &mut self.cx(now);
        match answer {
            FastOpenAnswer::Handshake(cookie) => {
                Connection::accept(&mut conn, cx, &open, control, syn).grant(cookie);
            }
            FastOpenAnswer::Open(cookie) => {
                Connection::accept_fast(&mut conn, cx, &open, control, syn, cookie);
            }
        }
        self.conn = conn;
        self.settle(now);
    }

    /// Calls the connection and polls it then, as a stack does.
    pub(super) fn with<R>(
        &mut self,
        now: Instant,
        call: impl FnOnce(&mut Connection, &mut Cx<'_>) -> R,
    ) -> R {
        let conn = self.conn.as_mut().expect("there is a connection");
        let cx = &mut Cx {
            now,
            config: &self.config,
            pool: &mut self.pool,
            counters: &mut self.counters,
            probe: None,
            frames: Some(&mut self.frames),
        };
        let result = call(conn, cx);
        self.settle(now);
        result
    }

    /// Is there a connection that is not over?
    pub(super) fn lives(&self) -> bool {
        self.conn.as_ref().is_some_and(|conn| conn.state() != State::Closed)
    }

    /// Neither a connection nor its rest in TIME-WAIT.
    pub(super) fn is_over(&self) -> bool {
        self.wait.is_none() && !self.lives()
    }

    fn settle(&mut self, now: Instant) {
        let Some(mut conn) = self.conn.take() else { return };
        self.fresh |= conn.poll_event();
        let limits = self.limits;
        for sent in 0.. {
            assert!(sent < BURST_MAX, "sending does not end in {:?}", conn.state());
            let before = conn.info(now);
            let Some(tx) = conn.poll_transmit(&mut self.cx(now), &limits) else { break };
            assert!(tx.len <= limits.max_payload.max(tx.mss.into()) && tx.header.len() <= 60, "{tx:?}");
            self.look_at_window(&before, &conn.info(now), &tx);
            let mut payload = vec![0xa5; tx.len as usize];
            conn.copy_payload(&self.pool, &tx, &mut payload);
            if conn.counts_copies() {
                conn.on_copied(&tx);
            }
            self.queue(&tx.header, &payload, usize::from(tx.mss), tx.tos & 3);
        }
        self.fresh |= conn.poll_event();
        if self.fresh.any(Events::FAST_OPEN) {
            assert!(conn.take_fast_open().is_some() && conn.take_fast_open().is_none());
            self.fresh.0 &= !Events::FAST_OPEN.0;
        }
        self.conn = Some(conn);
    }

    /// New data leaves within the congestion window, and two segments more while duplicates come (RFC 3042); beyond
    /// that only a tail loss probe and a window probe, each of one segment.
    fn look_at_window(&mut self, before: &crate::Info, after: &crate::Info, tx: &crate::Transmit) {
        let troubled = before.recovery || before.loss || before.reduced;
        let new = tx.len > 0 && !tx.retransmit && !tx.header.flags.has(Flags::SYN);
        let limited = if before.disorder { 2 * u32::from(tx.mss) } else { 0 };
        // A FIN takes no room.
        let fin = u32::from(tx.header.flags.has(Flags::FIN));
        if !new || troubled || after.in_flight <= before.window.cwnd + limited + fin {
            return;
        }
        self.beyond += 1;
        assert!(
            tx.len <= u32::from(tx.mss) && self.beyond <= 2,
            "{tx:?} leaves {} times\nbefore: {before:#?}\nafter: {after:#?}",
            self.beyond
        );
    }

    /// Cuts a super-segment as a port does: FIN and PSH go with the last piece only.
    fn queue(&mut self, header: &Header, payload: &[u8], mss: usize, ecn: u8) {
        let mut rest = payload;
        let mut header = *header;
        let flags = header.flags;
        loop {
            let (piece, behind) = rest.split_at(rest.len().min(mss.max(1)));
            let last = behind.is_empty();
            header.flags = if last { flags } else { Flags(flags.0 & !(Flags::FIN | Flags::PSH).0) };
            self.out.push(Outgoing { bytes: emit(&header, piece), ecn });
            if last {
                return;
            }
            header.seq += piece.len() as u32;
            rest = behind;
        }
    }

    /// Delivers a segment; a merged one in pieces, which may stay where they are until a few more came.
    fn deliver(&mut self, now: Instant, seg: &Segment<'_>) -> Disposition {
        if self.frames.payloads.len() > KEPT_MAX {
            self.with(now, |conn, cx| conn.copy_adopted(cx));
            self.frames.payloads.clear();
        }
        if seg.merged < 2 {
            return self.with(now, |conn, cx| conn.on_segment(cx, seg));
        }
        self.frames.offered = Some(seg.payload.to_vec());
        let size = seg.payload.len().div_ceil(seg.merged.into());
        let (payload, data) = seg.payload.split_at(size);
        let cut = Cut { data, size };
        let run = Segment { payload, rest: Some(&cut), ..*seg };
        let disposition = self.with(now, |conn, cx| conn.on_segment(cx, &run));
        self.frames.offered = None;
        disposition
    }

    /// A segment arrives: for the connection, its rest, the listener, or none.
    pub(super) fn receive(&mut self, now: Instant, seg: &Segment<'_>) {
        self.beyond = 0;
        if self.wait.is_some() {
            return self.receive_waiting(now, seg);
        }
        if self.lives() {
            if self.deliver(now, seg) == Disposition::TimeWait {
                let conn = self.conn.take().expect("it was just there");
                let wait = conn.time_wait(&self.cx(now));
                assert!(wait.until >= now && wait.key == self.key);
                (self.conn, self.wait) = (Some(conn), Some(wait));
            }
            return;
        }
        let syn = seg.flags.has(Flags::SYN) && !seg.flags.any(Flags::ACK | Flags::RST);
        match (&self.conn, self.listens) {
            (None, true) if self.jar.is_some() => self.receive_stateless(now, seg),
            (None, true) if syn => self.accept(now, seg),
            _ => {
                if let Some(reset) = crate::reset_for(&self.key, seg) {
                    self.queue(&reset, &[], 1, 0);
                }
            }
        }
    }

    /// RFC 4987: the SYN is answered with a cookie, and the connection begins with the ACK that brings it back.
    fn receive_stateless(&mut self, now: Instant, seg: &Segment<'_>) {
        let Some(jar) = &self.jar else { return };
        if seg.flags.has(Flags::SYN) {
            let answer = jar.answer(now, &self.config, &self.key, self.mtu, seg);
            return self.queue(&answer, &[], 1, 0);
        }
        let Some(cookie) = jar.check(now, &self.key, seg) else { return };
        let (open, control) = self.open();
        let mut conn = None;
        Connection::accept_cookie(&mut conn, &mut self.cx(now), &open, control, &cookie, seg);
        self.conn = conn;
        self.receive(now, seg);
    }

    fn receive_waiting(&mut self, now: Instant, seg: &Segment<'_>) {
        let Some(wait) = &mut self.wait else { return };
        match wait.on_segment(now, &self.config, seg) {
            TimeWaitAnswer::Ignore => {}
            TimeWaitAnswer::Ack(header) => self.queue(&header, &[], 1, 0),
            TimeWaitAnswer::Remove | TimeWaitAnswer::Reuse { .. } => self.wait = None,
        }
    }

    /// When something must happen here next.
    pub(super) fn timeout(&self) -> Option<Instant> {
        match (&self.wait, &self.conn) {
            (Some(wait), _) => Some(wait.until),
            (None, Some(conn)) => conn.poll_timeout().map(|at| at + self.late),
            (None, None) => None,
        }
    }

    /// When the application wants to be called next: what was received can be read after the connection's end.
    pub(super) fn app_due(&self) -> Option<Instant> {
        let act = self.app.act.filter(|_| self.lives()).map(|(at, _)| at);
        Instant::earliest(self.app.wake.filter(|_| !self.app.let_go), act)
    }

    /// Runs what is due.
    pub(super) fn on_time(&mut self, now: Instant) {
        if self.timeout().is_none_or(|at| at > now) {
            return;
        }
        self.beyond = 0;
        if self.wait.take().is_some() {
            return;
        }
        self.with(now, |conn, cx| conn.on_timeout(cx));
        let again = self.conn.as_ref().and_then(Connection::poll_timeout);
        assert!(again.is_none_or(|at| at > now), "on_timeout at {now:?} leaves {again:?} due");
    }

    /// Drops the connection as a stack does: its chunks must all have gone back.
    pub(super) fn finish(&mut self) {
        if let Some(conn) = &mut self.conn {
            conn.release(&mut self.pool);
        }
        assert_eq!(self.pool.used(), 0, "a chunk leaked");
    }
}

fn emit(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header.len() + payload.len()];
    let len = header.emit(&mut bytes);
    bytes[len..].copy_from_slice(payload);
    bytes
}
