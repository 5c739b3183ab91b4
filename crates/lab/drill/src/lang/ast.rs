//! Syntax tree of a script. Numbers are the script's own: nothing here is mapped to a live connection.

use super::source::Span;
use base::Duration;
use std::net::IpAddr;

/// A whole script.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Script {
    /// `--name=value` lines at the top.
    pub options: Vec<Setting>,
    /// A shell command before the first event.
    pub init: Option<Shell>,
    /// Events, in order.
    pub events: Vec<Event>,
    /// A shell command after the last event.
    pub cleanup: Option<Shell>,
}

/// One `--name=value`; without a value, a switch.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The name, without its dashes.
    pub name: String,
    /// The value as written, without quotes.
    pub value: Option<String>,
    /// Where it stands.
    pub span: Span,
}

/// Text between backquotes.
#[derive(Clone, PartialEq, Debug)]
pub struct Shell {
    /// Text between them.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// Something at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// When.
    pub when: When,
    /// Action of the event.
    pub action: Action,
    /// Where it stands, time included.
    pub span: Span,
}

/// When an event happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// This long after the start.
    At(Duration),
    /// This long after the event before.
    After(Duration),
    /// Between these times after the start.
    Between(Duration, Duration),
    /// Between these times after the event before.
    AfterBetween(Duration, Duration),
    /// Whenever it does.
    Any,
}

/// Action of an event.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// A packet that arrives, or is expected.
    Packet(Box<Packet>),
    /// A system call.
    Call(Box<Call>),
    /// A shell command.
    Shell(Shell),
    /// Assertions on the connection's state.
    Code(Shell),
}

/// Direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// `<`: the script to the stack.
    In,
    /// `>`: the stack to the script.
    Out,
}

/// A packet.
#[derive(Clone, PartialEq, Debug)]
pub struct Packet {
    /// Direction of the packet.
    pub direction: Direction,
    /// Headers outside of the one that the body needs, outermost first.
    pub outer: Vec<Outer>,
    /// Expectations about the IP header.
    pub ip: IpInfo,
    /// Content of the packet.
    pub body: Body,
}

/// A header around the packet.
#[derive(Clone, PartialEq, Debug)]
pub enum Outer {
    /// IP in IP.
    Ip(IpInfo, IpAddr, IpAddr),
    /// Generic routing encapsulation.
    Gre,
    /// A label stack.
    Mpls,
    /// Google's PSP.
    Psp,
}

/// Expectations about an IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IpInfo {
    /// The ECN bits.
    pub ecn: Option<Ecn>,
    /// Traffic class without the ECN bits, in place (the lower two are zero).
    pub dscp: Option<u8>,
    /// Flow label.
    pub label: Option<u32>,
    /// Time to live, or hop limit.
    pub ttl: Option<u8>,
}

/// The ECN field of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ecn {
    /// Exactly these bits.
    Bits(u8),
    /// ECT(0) or ECT(1).
    Ect01,
}

/// Content of a packet.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram: ports if given, and bytes of payload.
    Udp(Option<Ports>, u32),
    /// A message of ICMP or ICMPv6.
    Icmp(Icmp),
}

/// `source > destination`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// The sender's.
    pub source: u16,
    /// The receiver's.
    pub destination: u16,
}

/// A TCP segment.
#[derive(Clone, PartialEq, Debug)]
pub struct Segment {
    /// Ports, where the script names them.
    pub ports: Option<Ports>,
    /// The flags.
    pub flags: Flags,
    /// Sequence numbers; `None` is `...`: any.
    pub seq: Option<Range>,
    /// Bytes of payload.
    pub len: u32,
    /// `!`: the sequence number is on the wire as written.
    pub absolute: bool,
    /// Acknowledgment number; the ACK flag goes with it or not.
    pub ack: Option<u32>,
    /// Window, as on the wire.
    pub window: Option<u16>,
    /// Urgent pointer.
    pub urgent: Option<u16>,
    /// Options; `None` is `<...>`: any.
    pub options: Option<Vec<TcpOption>>,
    /// Ports of the UDP header that it is wrapped in.
    pub udp: Option<Ports>,
}

/// Sequence numbers `start..end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First.
    pub start: u32,
    /// One past the last.
    pub end: u32,
}

/// TCP's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// FIN, SYN, RST, PSH, ACK, URG, ECE, CWR in bits 0 to 7, as on the wire.
    pub bits: u8,
    /// AE, the ninth (draft-ietf-tcpm-accurate-ecn).
    pub ae: bool,
    /// The three ECN flags as one number, where the script writes a digit: the ACE field.
    pub ace: Option<u8>,
}

impl Flags {
    /// FIN.
    pub const FIN: u8 = 1;
    /// SYN.
    pub const SYN: u8 = 2;
    /// RST.
    pub const RST: u8 = 4;
    /// PSH.
    pub const PSH: u8 = 8;
    /// ACK.
    pub const ACK: u8 = 16;
    /// URG.
    pub const URG: u8 = 32;
    /// ECE.
    pub const ECE: u8 = 64;
    /// CWR.
    pub const CWR: u8 = 128;

    /// Is any of `bits` set?
    pub fn has(self, bits: u8) -> bool {
        self.bits & bits != 0
    }
}

/// One TCP option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TcpOption {
    /// No operation.
    Nop,
    /// End of the list.
    Eol,
    /// Maximum segment size.
    Mss(u16),
    /// Window scale.
    WindowScale(u8),
    /// SACK permitted.
    SackPermitted,
    /// SACK blocks.
    Sack(Vec<Range>),
    /// Timestamps; a value of `None` is `...`: any.
    Timestamps {
        /// TSval.
        val: Option<u32>,
        /// TSecr.
        ecr: u32,
        /// `!`: the echo is on the wire as written.
        absolute: bool,
    },
    /// TCP Fast Open, with this cookie.
    FastOpen(Vec<u8>),
    /// TCP Fast Open as experimental option 254 with the magic 0xf989.
    FastOpenExp(Vec<u8>),
    /// An MD5 signature.
    Md5(Digest),
    /// TCP-AO.
    Ao {
        /// KeyID.
        key_id: u8,
        /// RNextKeyID.
        next: u8,
        /// The MAC, of twelve bytes unless it says otherwise.
        mac: Digest,
    },
    /// Accurate ECN counters, in wire order; the first is ECT(0)'s for kind 172, ECT(1)'s for 174.
    AccEcn {
        /// 172 or 174.
        kind: u8,
        /// At most three counters of 24 bits.
        counters: Vec<u32>,
    },
    /// Any other kind, with its data.
    Other(u8, Vec<u8>),
}

/// Value of a signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Digest {
    /// The right one for the script's keys.
    Valid,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// A message of ICMP or ICMPv6.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Icmp {
    /// Name of the type.
    pub kind: String,
    /// Name of the code.
    pub code: Option<String>,
    /// MTU of the next hop.
    pub mtu: Option<u32>,
    /// Identifier of an echo.
    pub id: Option<u16>,
    /// Quoted packet.
    pub quoted: Option<Quoted>,
    /// Where type and code stand.
    pub span: Span,
}

/// Part of the causing packet that an ICMP message quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quoted {
    /// A TCP segment of ours with these sequence numbers.
    Tcp(Range, u32),
    /// A UDP datagram.
    Udp(u32),
    /// Anything.
    Raw(u32),
}

/// A system call.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// For a blocking call, when it returns, as the time of its event is meant.
    pub until: Option<Duration>,
    /// Its name.
    pub name: String,
    /// Where the name stands.
    pub name_span: Span,
    /// Arguments.
    pub arguments: Vec<Expr>,
    /// Expected result.
    pub result: Expr,
    /// The name of the error.
    pub errno: Option<String>,
    /// Text in parentheses after it.
    pub note: Option<String>,
}

/// An expression with its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Kind of expression.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
}

/// Kind of an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// `...`
    Any,
    /// `NULL`, a number, or a string of digits in base 16.
    Int(i64),
    /// A name.
    Name(String),
    /// Text between quotes; adjacent texts are one.
    Text(String),
    /// Text and `...`: begins with it.
    TextAny(String),
    /// `a | b`
    Or(Box<Expr>, Box<Expr>),
    /// `name = value`, or `name(argument) = value`.
    Field(String, Option<Box<Expr>>, Box<Expr>),
    /// `name(arguments)`
    Apply(String, Vec<Expr>),
    /// `[a, b]`
    Array(Vec<Expr>),
    /// `{a, b}`
    Struct(Vec<Expr>),
}
