//! Flags of a connection: which options were offered and agreed on, and what decides its way through the code. They
//! share a word, because the warm path looks at many of them at once; each is changed by one module alone.

/// Yes-or-no facts, one bit each; above them lies what limits the sender: see `limit`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Bits(u64);

/// One fact, and its place.
#[derive(Clone, Copy)]
pub(crate) struct Flag<const PLACE: u8>;

/// A flag that a module changes: the one that can make a `Writer`. There is one such module for a flag.
pub(crate) trait Owned {
    type Writer;
}

/// Makes a module the one that changes these flags: `bits.set(Bits::ECN, WRITER)`.
macro_rules! writer {
    ($($name:ident),+) => {
        /// Right to change the flags of this module.
        pub(crate) struct Writer(());

        const WRITER: Writer = Writer(());

        $(impl $crate::bits::Owned for $crate::bits::Flag<{ $crate::bits::Place::$name as u8 }> {
            type Writer = Writer;
        })+
    };
}
pub(crate) use writer;

/// Gives each fact a bit of its own.
macro_rules! bits {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        pub(crate) enum Place { $($name,)+ }

        impl Bits {
            $($(#[$doc])+ pub(crate) const $name: Flag<{ Place::$name as u8 }> = Flag;)+
        }

        const _: () = assert!([$(stringify!($name)),+].len() <= Bits::FACTS as usize);
    };
}

bits! {
    /// Timestamps of milliseconds were offered (SYN-SENT) or negotiated.
    MILLIS,
    /// Timestamps in microseconds were offered (SYN-SENT) or negotiated.
    MICROS,
    /// SACK was offered or negotiated.
    SACK,
    /// Window scaling was offered or negotiated.
    SCALING,
    /// We connected; otherwise the peer did.
    ACTIVE,
    /// The application is done writing: a FIN follows the data.
    WRITE_CLOSED,
    /// The application is done reading: what arrives is thrown away.
    READ_CLOSED,
    /// The application said that it is done reading; what arrives is kept nevertheless.
    READ_SHUT,
    /// The peer's FIN was taken.
    PEER_FIN,
    /// The application closed the connection.
    ORPHAN,
    /// A write found too little room; WRITABLE is owed.
    NO_SPACE,
    /// The congestion window, not the application or the peer, stopped the last transmission.
    CWND_LIMITED,
    /// The application answers what it receives, so acknowledgments wait for the answers.
    INTERACTIVE,
    /// Data came with PSH since the last acknowledgment.
    PUSHED,
    /// One byte beyond SND.NXT was sent as a zero-window probe.
    PROBED,
    /// The override timer ran out: send what fits, however little.
    FORCE,
    /// All unsent data leaves regardless of Nagle and TCP_CORK, as far as the peer's window allows: until nothing
    /// is unsent.
    FLUSH,
    /// TIME-WAIT was entered.
    TIME_WAIT,
    /// The SYN was retransmitted.
    SYN_LOST,
    /// The pending RST carries `reset_seq` and no ACK (the answer to a bad acknowledgment in a handshake).
    RESET_AT,
    /// ECN was asked for (SYN-SENT) or agreed on (RFC 3168).
    ECN,
    /// Accurate ECN was asked for (SYN-SENT) or agreed on (RFC 9768).
    ACCECN,
    /// The next acknowledgment says how the SYN-ACK arrived.
    GREETING,
    /// MSG_MORE: the application is about to write more.
    MORE,
    /// The last bytes written came with MSG_MORE: the receiver need not hand on yet.
    UNPUSHED,
    /// Records or calls that end in the send buffer: see `marks`.
    MARKED,
    /// The application wants to know when data arrived.
    DATED,
    /// A mark arrived, and the peer has not said that it reduced: acknowledgments echo it.
    ECHO,
    /// The window was reduced because of an echo: the next new data says so.
    REDUCED,
    /// Super-segments are bounded, and end with PSH.
    BURSTS,
    /// Super-segments are bounded by the pace, because the path is long.
    AUTOSIZED,
    /// The peer's window has become larger than ever in this round trip, perhaps by the packet.
    OPENING,
    /// Our FIN left without data.
    LONE_FIN,
    /// The retransmission timer stands for the reordering timer (RFC 8985, section 6.2).
    REORDERING,
    /// The retransmission timer stands for the tail loss probe's (RFC 8985, section 7).
    TAIL_PROBE,
    /// A tail loss probe is out: `probe_end`.
    PROBING,
    /// It was a retransmission.
    PROBE_RESENT,
    /// The SYN carried data or asked for a cookie, and how that went is not known yet (RFC 7413).
    FAST_OPEN,
    /// The next SYN or SYN-ACK carries a Fast Open option.
    COOKIE,
    /// Data went with our SYN.
    SYN_DATA,
    /// Data that went with a SYN was acknowledged, by the peer or by us.
    SYN_DATA_TAKEN,
    /// In SYN-RECEIVED with a good cookie: the application reads and writes already, and SND.UNA stands behind the
    /// SYN-ACK.
    EARLY,
    /// The acknowledgment due is a challenge, which carries nothing else.
    CHALLENGED,
    /// Unsent data is held back by the peer's window alone.
    WINDOW_STARVED,
    /// The application waits for room in a send buffer of which everything was sent.
    BUFFER_STARVED,
    /// TxTimes are paced.
    PACED,
    /// Something waits for the pace to let it go.
    PACE_WAIT,
    /// The policy wants delivery rate samples.
    SAMPLED,
    /// The send buffer is charged by the piece.
    CHARGED,
    /// Writes are bounded by more than the bytes there is room for: they are charged, or TCP_NOTSENT_LOWAT is set.
    PIECES,
    /// Segments are signed: `Cold::auth`.
    SIGNED,
    /// Timeouts asked for another path: `Cold::path`.
    REHASHED,
    /// A path MTU search is under way.
    SEARCHING,
    /// A segment larger than the others is in flight.
    PROBING_MTU,
    /// The window offered is shut because the application does not read.
    SHUT,
    /// It is one of [`Pool::orphans`].
    COUNTED,
    /// [`Quirks::window_ramp`](crate::Quirks::window_ramp).
    RAMP,
    /// [`Quirks::tell_all_room`](crate::Quirks::tell_all_room).
    TELLS_ALL,
    /// [`Quirks::repeat_fin`](crate::Quirks::repeat_fin).
    REPEATS_FIN,
    /// Half-open, the peer's acknowledgment of our SYN was ignored: see `defer`.
    DEFERRED,
}

impl Bits {
    /// Bits that are facts of their own lie below these.
    pub(crate) const FACTS: u32 = 61;

    /// Timestamps were offered (SYN-SENT) or negotiated.
    pub(crate) const TIMESTAMPS: Bits = Bits::MILLIS.or(Bits::MICROS);
    /// Its SYN or SYN-ACK differs from those of the connections before it: the handshake cache neither takes nor gives
    /// it anything.
    pub(crate) const NOT_CACHED: Bits = Bits::SIGNED.or(Bits::ECN).or(Bits::ACCECN).or(Bits::MICROS);
    /// Its SYN or SYN-ACK may say more than a cached one.
    pub(crate) const OWN_SYN: Bits =
        Bits::NOT_CACHED.or(Bits::COOKIE).or(Bits::EARLY).or(Bits::FAST_OPEN).or(Bits::MARKED);
    /// Every segment of it carries more than its timestamps, or carries it otherwise.
    pub(crate) const OWN_HEADER: Bits = Bits::NOT_CACHED.or(Bits::REPEATS_FIN).or(Bits::TELLS_ALL);

    /// Those of a word that [`Bits::raw`] gave.
    pub(crate) const fn of(raw: u64) -> Bits {
        Bits(raw)
    }

    /// Returns all of them as a word.
    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// Returns these and another one.
    pub(crate) const fn or<const PLACE: u8>(self, _: Flag<PLACE>) -> Bits {
        Bits(self.0 | 1 << PLACE)
    }

    /// Returns true if one of `flags` is set.
    #[inline(always)]
    pub(crate) fn has(self, flags: impl Into<Bits>) -> bool {
        self.0 & flags.into().0 != 0
    }

    #[inline(always)]
    pub(crate) fn set<const PLACE: u8>(&mut self, _: Flag<PLACE>, _: <Flag<PLACE> as Owned>::Writer)
    where
        Flag<PLACE>: Owned,
    {
        self.0 |= 1 << PLACE;
    }

    #[inline(always)]
    pub(crate) fn clear<const PLACE: u8>(&mut self, _: Flag<PLACE>, _: <Flag<PLACE> as Owned>::Writer)
    where
        Flag<PLACE>: Owned,
    {
        self.0 &= !(1 << PLACE);
    }

    #[inline(always)]
    pub(crate) fn put<const PLACE: u8>(
        &mut self,
        flag: Flag<PLACE>,
        on: bool,
        writer: <Flag<PLACE> as Owned>::Writer,
    ) where
        Flag<PLACE>: Owned,
    {
        if on { self.set(flag, writer) } else { self.clear(flag, writer) }
    }

    /// Returns what lies above the facts.
    pub(crate) fn rest(self) -> u64 {
        self.0 >> Bits::FACTS
    }

    /// Replaces what lies above the facts: the module's that watches the peer's window.
    pub(crate) fn set_rest(
        &mut self,
        rest: u64,
        _: <Flag<{ Place::WINDOW_STARVED as u8 }> as Owned>::Writer,
    ) {
        self.0 = self.0 & ((1 << Bits::FACTS) - 1) | rest << Bits::FACTS;
    }
}

impl<const PLACE: u8> Flag<PLACE> {
    pub(crate) const fn raw(self) -> u64 {
        1 << PLACE
    }

    /// Returns this and another one.
    pub(crate) const fn or<const OTHER: u8>(self, other: Flag<OTHER>) -> Bits {
        Bits(1 << PLACE).or(other)
    }

    /// Returns it alone if it is `on`, else nothing: of what a connection begins with.
    pub(crate) fn when(self, on: bool) -> Bits {
        Bits(u64::from(on) << PLACE)
    }
}

impl<const PLACE: u8> From<Flag<PLACE>> for Bits {
    #[inline(always)]
    fn from(_: Flag<PLACE>) -> Bits {
        Bits(1 << PLACE)
    }
}

impl<R: Into<Bits>> core::ops::BitOr<R> for Bits {
    type Output = Bits;
    #[inline(always)]
    fn bitor(self, rhs: R) -> Bits {
        Bits(self.0 | rhs.into().0)
    }
}

impl<R: Into<Bits>, const PLACE: u8> core::ops::BitOr<R> for Flag<PLACE> {
    type Output = Bits;
    #[inline(always)]
    fn bitor(self, rhs: R) -> Bits {
        Bits::from(self) | rhs
    }
}
