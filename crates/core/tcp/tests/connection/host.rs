//! One end: a connection with all it borrows, and its rest in TIME-WAIT.

use base::{Addr, Duration, Endpoint, FlowKey, Instant, Seq};
use tcp::{
    Config, Connection, CookieJar, Counters, Cx, Disposition, Events, FastOpenAnswer, FastOpenKeys,
    FastOpenOffer, HostHint, Open, Pool, SocketOptions, State, TimeWait, TimeWaitAnswer, TxLimits,
};
use wire::tcp::{Flags, Header, Segment};

/// A segment on its way: the bytes of header and payload.
pub(crate) type Bytes = Vec<u8>;

pub(crate) fn parse(bytes: &[u8]) -> Segment<'_> {
    wire::tcp::parse(bytes).expect("a connection emits what parses").2
}

/// The flow of the tests, seen from the client.
pub(crate) fn flow(v4: bool) -> FlowKey {
    let addr = |last| match v4 {
        true => Addr::v4([192, 0, 2, last]),
        false => Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
    };
    FlowKey::new(Endpoint::new(addr(1), 40_000), Endpoint::new(addr(2), 80))
}

pub(crate) fn emit(header: &Header, payload: &[u8]) -> Bytes {
    let mut bytes = vec![0; header.len() + payload.len()];
    let len = header.emit(&mut bytes);
    bytes[len..].copy_from_slice(payload);
    bytes
}

pub(crate) struct Host {
    pub(crate) conn: Option<Connection>,
    pub(crate) wait: Option<TimeWait>,
    pub(crate) key: FlowKey,
    pub(crate) isn: Seq,
    pub(crate) ts_offset: u32,
    pub(crate) config: Config,
    pub(crate) options: SocketOptions,
    pub(crate) hint: HostHint,
    pub(crate) control: &'static str,
    pub(crate) mtu: u16,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
    /// Accepts a SYN when there is no connection.
    pub(crate) listens: bool,
    /// Answers SYNs without keeping anything, as with a full backlog.
    pub(crate) jar: Option<CookieJar>,
    /// Takes data with a SYN from those who show a cookie made with these.
    pub(crate) keys: Option<FastOpenKeys>,
    /// Everything `poll_event` ever said, and what it said since the application last looked.
    pub(crate) events: Events,
    pub(crate) fresh: Events,
    /// Timers come this much late.
    pub(crate) late: Duration,
    pub(crate) limits: TxLimits,
    /// Segments to send: control before ACK before data is the stack's business, not the test's.
    pub(crate) out: Vec<Bytes>,
    /// The port copies payloads, and says so.
    pub(crate) copies: bool,
    /// The ECN codepoint of each segment of the connection.
    pub(crate) codepoints: Vec<u8>,
    /// When how many bytes of data left.
    pub(crate) tx_times: Vec<(Instant, u32)>,
    /// The connection's path MTU when something last left.
    pub(crate) last_mtu: u16,
}

impl Host {
    pub(crate) fn new(key: FlowKey, isn: Seq) -> Self {
        Host {
            conn: None,
            wait: None,
            key,
            isn,
            ts_offset: isn.raw().rotate_left(7),
            config: Config::default(),
            options: SocketOptions::default(),
            hint: HostHint::default(),
            control: "cubic",
            mtu: 1500,
            pool: Pool::new(1 << 16),
            counters: Counters::default(),
            listens: false,
            jar: None,
            keys: None,
            events: Events::default(),
            fresh: Events::default(),
            late: Duration::ZERO,
            limits: TxLimits { max_payload: 65_000 },
            out: Vec::new(),
            copies: false,
            codepoints: Vec::new(),
            tx_times: Vec::new(),
            last_mtu: 0,
        }
    }

    fn open(&self) -> (Open, cc::Control) {
        let open = Open {
            key: self.key,
            isn: self.isn,
            ts_offset: self.ts_offset,
            path_mtu: self.mtu,
            options: self.options,
            hint: self.hint,
        };
        let mut registry = cc::Registry::new();
        registry.allow_unfair(true).expect("to allow is always possible");
        (open, registry.create(self.control).expect("a built-in policy"))
    }

    /// Active open.
    pub(crate) fn connect(&mut self, now: Instant) {
        let (open, control) = self.open();
        let mut conn = None;
        Connection::connect(&mut conn, &mut self.cx(now), &open, control);
        self.conn = conn;
        self.settle(now);
    }

    /// Active open with Fast Open; how many bytes go with the SYN.
    pub(crate) fn connect_fast(&mut self, now: Instant, offer: &FastOpenOffer, data: &[u8]) -> usize {
        let (open, control) = self.open();
        let mut conn = None;
        let taken = Connection::connect_fast(&mut conn, &mut self.cx(now), &open, control, offer, data);
        self.conn = conn;
        self.settle(now);
        taken
    }

    /// Passive open, as a listener with room does it.
    fn accept(&mut self, now: Instant, seg: &Segment<'_>) {
        let (open, control) = self.open();
        let mut conn = None;
        let mut answer = FastOpenAnswer::Handshake(None);
        if let Some(keys) = self.keys.filter(|_| FastOpenAnswer::concerns(&self.config, seg)) {
            answer = FastOpenAnswer::to(&self.config, &keys, &self.key, seg, &mut self.counters);
        }
        match answer {
            FastOpenAnswer::Handshake(cookie) => {
                Connection::accept(&mut conn, &mut self.cx(now), &open, control, seg).grant(cookie);
            }
            FastOpenAnswer::Open(cookie) => {
                Connection::accept_fast(&mut conn, &mut self.cx(now), &open, control, seg, cookie);
            }
        }
        self.conn = conn;
        self.settle(now);
    }

    fn cx(&mut self, now: Instant) -> Cx<'_> {
        Cx {
            now,
            config: &self.config,
            pool: &mut self.pool,
            counters: &mut self.counters,
            probe: None,
            frames: None,
        }
    }

    /// Calls the connection and then polls it, as a stack does.
    pub(crate) fn with<R>(
        &mut self,
        now: Instant,
        call: impl FnOnce(&mut Connection, &mut Cx<'_>) -> R,
    ) -> R {
        let mut conn = self.conn.take().expect("there is a connection");
        let result = call(&mut conn, &mut self.cx(now));
        self.conn = Some(conn);
        self.settle(now);
        result
    }

    /// The connection, to ask.
    pub(crate) fn conn(&self) -> &Connection {
        self.conn.as_ref().expect("there is a connection")
    }

    pub(crate) fn state(&self) -> State {
        self.conn().state()
    }

    /// Polls events and transmissions.
    pub(crate) fn settle(&mut self, now: Instant) {
        let Some(mut conn) = self.conn.take() else { return };
        self.fresh |= conn.poll_event();
        let limits = self.limits;
        let mut budget = 100_000;
        while let Some(tx) = conn.poll_transmit(&mut self.cx(now), &limits) {
            assert!(tx.len <= limits.max_payload && (tx.len == 0 || tx.mss > 0), "{tx:?} obeys the port");
            if tx.len > 0 {
                self.tx_times.push((now, tx.len));
                self.last_mtu = conn.info(now).path_mtu;
            }
            let queued = self.out.len();
            let mut payload = vec![0xa5; tx.len as usize];
            conn.copy_payload(&self.pool, &tx, &mut payload);
            if self.copies && conn.counts_copies() {
                conn.on_copied(&tx);
            }
            self.segment_and_queue(&tx.header, &payload, usize::from(tx.mss));
            self.codepoints.resize(self.codepoints.len() + self.out.len() - queued, tx.tos & 3);
            budget -= 1;
            assert!(budget > 0, "poll_transmit ends");
        }
        self.fresh |= conn.poll_event();
        self.events |= self.fresh;
        self.conn = Some(conn);
    }

    /// Cuts a super-segment as a port with segmentation offload does: FIN and PSH go with the last piece only, CWR
    /// with the first.
    fn segment_and_queue(&mut self, header: &Header, payload: &[u8], mss: usize) {
        if payload.len() <= mss {
            return self.out.push(emit(header, payload));
        }
        let pieces = payload.chunks(mss).count();
        for (i, piece) in payload.chunks(mss).enumerate() {
            let mut header = *header;
            header.seq += (i * mss) as u32;
            if i + 1 < pieces {
                header.flags = Flags(header.flags.0 & !(Flags::FIN | Flags::PSH).0);
            }
            if i > 0 {
                header.flags = Flags(header.flags.0 & !Flags::CWR.0);
            }
            self.out.push(emit(&header, piece));
        }
    }

    /// A segment arrives: to the connection, its rest, the listener, or none.
    pub(crate) fn receive(&mut self, now: Instant, seg: &Segment<'_>) -> Option<Disposition> {
        if self.wait.is_some() {
            self.receive_waiting(now, seg);
            return None;
        }
        if self.conn.as_ref().is_some_and(|conn| conn.state() != State::Closed) {
            let disposition = self.with(now, |conn, cx| conn.on_segment(cx, seg));
            if disposition == Disposition::TimeWait {
                let conn = self.conn.take().expect("it was just there");
                self.wait = Some(conn.time_wait(&self.cx(now)));
                self.conn = Some(conn);
            }
            return Some(disposition);
        }
        if self.conn.is_none() && self.listens && self.jar.is_some() {
            return self.receive_stateless(now, seg);
        }
        if self.conn.is_none()
            && self.listens
            && seg.flags.has(Flags::SYN)
            && !seg.flags.any(Flags::ACK | Flags::RST)
        {
            self.accept(now, seg);
            return None;
        }
        if let Some(reset) = tcp::reset_for(&self.key, seg) {
            self.out.push(emit(&reset, &[]));
        }
        None
    }

    /// RFC 4987: the SYN is answered with a cookie, and the connection begins with the ACK that brings it
    /// back.
    fn receive_stateless(&mut self, now: Instant, seg: &Segment<'_>) -> Option<Disposition> {
        let jar = self.jar.as_ref()?;
        if seg.flags.has(Flags::SYN) {
            let answer = jar.answer(now, &self.config, &self.key, self.mtu, seg);
            self.out.push(emit(&answer, &[]));
            return None;
        }
        // Data that overtakes the handshake's ACK does not bring the cookie back in a form that can be
        // checked; a stack under a flood is wise not to reset it.
        let cookie = jar.check(now, &self.key, seg)?;
        let (open, control) = self.open();
        let mut conn = None;
        Connection::accept_cookie(&mut conn, &mut self.cx(now), &open, control, &cookie, seg);
        self.conn = conn;
        self.receive(now, seg)
    }

    fn receive_waiting(&mut self, now: Instant, seg: &Segment<'_>) {
        let Some(wait) = &mut self.wait else { return };
        match wait.on_segment(now, &self.config, seg) {
            TimeWaitAnswer::Ignore => {}
            TimeWaitAnswer::Ack(header) => self.out.push(emit(&header, &[])),
            TimeWaitAnswer::Remove | TimeWaitAnswer::Reuse { .. } => self.wait = None,
        }
    }

    /// When something must happen here next.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let conn = self.conn.as_ref().filter(|_| self.wait.is_none()).and_then(Connection::poll_timeout);
        let conn = conn.map(|at| at + self.late);
        Instant::earliest(conn, self.wait.as_ref().map(|wait| wait.until))
    }

    /// Runs what is due.
    pub(crate) fn on_time(&mut self, now: Instant) {
        if self.wait.as_ref().is_some_and(|wait| wait.until <= now) {
            self.wait = None;
        }
        if self.wait.is_none() && self.timeout().is_some_and(|at| at <= now) {
            self.with(now, |conn, cx| conn.on_timeout(cx));
            let again = self.conn().poll_timeout();
            assert!(again.is_none_or(|at| at > now), "on_timeout at {now:?} leaves {again:?} due");
        }
    }

    /// Drops the connection as a stack does; its chunks must all have gone back.
    pub(crate) fn finish(&mut self) {
        if let Some(mut conn) = self.conn.take() {
            conn.release(&mut self.pool);
        }
        assert_eq!(self.pool.used(), 0, "every chunk went back to the pool");
        assert_eq!(self.pool.out_of_order(), 0, "and nothing counts as out of order");
    }
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
