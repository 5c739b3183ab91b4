//! The points, one row each: what names it here and there, its arguments with their meaning, and when it is reached.

use crate::semaphores::{SEMAPHORES, is_watched};

/// A point, as shown to people.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Its name in the file, by which tools know it.
    pub name: &'static str,
    /// When it is reached.
    pub help: &'static str,
    /// Its arguments in order (`arg0`, ...): name, and meaning with unit. Each has 64 bits.
    pub args: &'static [(&'static str, &'static str)],
}

/// The code of one point: a `nop`, and the note about it.
///
/// ```text
/// note: 4 bytes   length of the name, of the description, and 3, the kind
///       name       "stapsdt"
///       8 bytes   where the nop is, where the section .stapsdt.base is, where the semaphore is
///       text       provider, point, arguments: "8@%rdi 8@%rsi", each with its size and place
/// ```
///
/// perf takes the distance between address and place in the file from that section, so it lies where the code is (`x`);
/// and it must be kept, though nothing that is loaded refers to it (`R`).
#[cfg(all(
    target_os = "linux",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
macro_rules! site {
    ($id:ident, $name:literal, $first:ident = $first_value:expr $(, $rest:ident = $value:expr)*) => {
        // SAFETY: a `nop` changes nothing; whatever else is here describes it, in sections of their own.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", \"note\"",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                ".8byte {semaphores} + {offset}",
                ".asciz \"millstream\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", place!($first), $(" ", place!($rest),)* "\""),
                "994: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"axGR\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                semaphores = sym SEMAPHORES,
                offset = const 2 * (Id::$id as usize),
                $first = in(reg) $first_value,
                $($rest = in(reg) $value,)*
                options(readonly, nostack, preserves_flags)
            );
        }
    };
}

/// Where an argument is, as the note says it: eight bytes, in a register.
#[cfg(target_arch = "x86_64")]
macro_rules! place {
    ($arg:ident) => {
        concat!("8@%{", stringify!($arg), "}")
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! place {
    ($arg:ident) => {
        concat!("8@{", stringify!($arg), "}")
    };
}

/// Nothing can look in here.
#[cfg(not(all(
    target_os = "linux",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
macro_rules! site {
    ($id:ident, $name:literal, $($arg:ident = $value:expr),+) => { let _ = (&SEMAPHORES, $($value),+); };
}

macro_rules! points {
    ($($id:ident $name:literal ($($arg:ident: $what:literal),+), $help:literal;)+) => {
        /// Which point.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Id {
            $(#[doc = $help] $id,)+
        }

        impl Id {
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();
            /// All of them, in the order of [`POINTS`].
            pub const ALL: &'static [Id] = &[$(Id::$id),+];
        }

        /// Every point.
        pub const POINTS: &[Point] = &[$(Point {
            name: $name,
            help: $help,
            args: &[$((stringify!($arg), $what)),+],
        }),+];

        $(
            #[doc = $help]
            ///
            #[doc = concat!("What the point `", $name, "` tells.")]
            #[derive(Clone, Copy, Debug)]
            pub struct $id {
                $(#[doc = $what] pub $arg: u64,)+
            }

            impl $id {
                /// Does an observer look at it?
                #[inline]
                pub fn is_watched() -> bool {
                    is_watched(Id::$id)
                }

                /// Reaches the point: the one place in the program where it is.
                #[inline(never)]
                pub fn reach(&self) {
                    site!($id, $name, $($arg = self.$arg),+);
                }
            }
        )+
    };
}

points! {
    SegmentReceived "segment__received" (
        flow: "struct flow *", seq: "sequence number", ack: "acknowledgment number",
        flags: "TCP flags as on the wire: FIN 1, SYN 2, RST 4, PSH 8, ACK 16", window: "the window field, not scaled",
        bytes: "bytes of data", segments: "segments on the wire, if they came merged"
    ), "A segment came for a connection, which has not processed it yet.";
    SegmentSent "segment__sent" (
        flow: "struct flow *", seq: "sequence number", ack: "acknowledgment number",
        flags: "TCP flags as on the wire", window: "the window field, not scaled", bytes: "bytes of data",
        segments: "segments on the wire that the port will make of it", in_flight: "bytes in flight with it",
        again: "1: it repeats what was sent before"
    ), "A connection made a segment that leaves.";
    StateChanged "state__changed" (
        flow: "struct flow *", from: "the old state, by Linux's number: ESTABLISHED 1, SYN_SENT 2, SYN_RECV 3, \
         FIN_WAIT1 4, FIN_WAIT2 5, CLOSE 7, CLOSE_WAIT 8, LAST_ACK 9, CLOSING 11", to: "the new one"
    ), "A connection changed its state.";
    Connected "connected" (flow: "struct flow *"), "A connection that we opened is established.";
    Accepted "accepted" (flow: "struct flow *"), "A connection that the peer opened is established.";
    Closed "closed" (flow: "struct flow *"), "A connection is over.";
    Failed "failed" (
        flow: "struct flow *", why: "its text, not terminated", length: "bytes of the text"
    ), "A connection is over because of an error.";
    RecoveryEntered "recovery__entered" (
        flow: "struct flow *"
    ), "Fast recovery began: a loss was found.";
    RecoveryLeft "recovery__left" (
        flow: "struct flow *", needless: "1: nothing had been lost"
    ), "A repair, by fast recovery or after a timeout, is over.";
    Timeout "timeout" (
        flow: "struct flow *", nth: "of how many in a row, 1 being the first"
    ), "The retransmission timer fired.";
    Congestion "congestion" (
        flow: "struct flow *", signal: "1 a loss, 2 a mark, 3 a timeout"
    ), "Congestion control was told of congestion.";
    WindowChanged "window__changed" (
        flow: "struct flow *", cwnd: "congestion window, bytes", before: "what it was, bytes",
        ssthresh: "slow start threshold, bytes; 4294967295: none yet"
    ), "The congestion window changed; seen with the connection's next segment, mostly in the same round.";
    RttMeasured "rtt__measured" (
        flow: "struct flow *", sample: "microseconds"
    ), "An acknowledgment measured the round-trip time.";
    SegmentDropped "segment__dropped" (
        flow: "struct flow *", why: "its text, not terminated", length: "bytes of the text"
    ), "A connection dropped a segment.";
    PacketDropped "packet__dropped" (
        why: "its text, not terminated", length: "bytes of the text", packets: "how many"
    ), "The stack dropped packets below TCP for this reason; told once a round.";
}

/// A text as points take it: where it lies, and its bytes.
pub fn text(text: &str) -> (u64, u64) {
    (text.as_ptr() as u64, text.len() as u64)
}
