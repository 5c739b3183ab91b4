//! Inputs: what a peer sends and what an application calls, in order.

use base::Duration;
use drill::lang::{Body, Packet, TcpOption};
use std::fmt;

/// The peer's Maximum Segment Size.
pub const MSS: u16 = 1_000;

/// One half of a connection, or both, for shutdown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// SHUT_RD.
    Read,
    /// SHUT_WR.
    Write,
    /// SHUT_RDWR.
    Both,
}

/// An option that the application sets on its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// TCP_NODELAY.
    NoDelay,
    /// TCP_CORK, on or off.
    Cork(bool),
    /// SO_LINGER with a time of 0.
    LingerZero,
    /// TCP_QUICKACK, on or off.
    QuickAck(bool),
}

/// A call of the application. All calls are non-blocking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// socket, bind, listen.
    Listen,
    /// socket, connect.
    Connect,
    /// accept; the new descriptor is the connection.
    Accept,
    /// read of at most so many bytes.
    Read(u32),
    /// write of so many bytes.
    Write(u32),
    /// shutdown.
    Shutdown(Half),
    /// close of the connection.
    Close,
    /// close of the listener.
    CloseListener,
    /// poll of the connection, for everything.
    Poll,
    /// getsockopt SO_ERROR.
    Error,
    /// setsockopt.
    Set(Switch),
}

/// The peer's echo of a timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Echo {
    /// As the packet has it.
    AsIs,
    /// The latest of the near end, and this much more.
    Latest(i32),
}

/// Action of a step.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// The application calls.
    Call(Call),
    /// The peer sends.
    Send(Box<Packet>, Echo),
}

/// One step of an input.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Time since the step before, ms.
    pub after: u32,
    /// Event of the step.
    pub action: Action,
}

impl Step {
    /// Time since the step before.
    pub fn pause(&self) -> Duration {
        Duration::from_millis(self.after.into())
    }
}

/// One input.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// The seed that made it.
    pub seed: u64,
    /// The peer's initial sequence number.
    pub isn: u32,
    /// Over IPv6.
    pub v6: bool,
    /// Steps, in order.
    pub steps: Vec<Step>,
}

/// Time after the last step in which the near end is still watched. Longer than the first retransmission takes.
pub const AFTERMATH: Duration = Duration::from_millis(450);

impl Input {
    /// Returns the same input with these steps.
    pub fn with(&self, steps: &[Step]) -> Input {
        Input { steps: steps.to_vec(), ..*self }
    }
}

/// Returns the packet with the echo that it is to have when `latest` is the near end's latest timestamp, or 0.
pub fn echoed(packet: &Packet, echo: Echo, latest: u32) -> Packet {
    let mut packet = packet.clone();
    if let (Body::Tcp(tcp), Echo::Latest(more)) = (&mut packet.body, echo) {
        for option in tcp.options.iter_mut().flatten() {
            if let TcpOption::Timestamps { ecr, .. } = option {
                // Nothing was sent yet that could be echoed.
                *ecr = if latest == 0 { 0 } else { latest.wrapping_add_signed(more) };
            }
        }
    }
    packet
}

/// The call as packetdrill writes it, its result left out. The connection is descriptor 4, the listener 3.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Listen => f.write_str("listen(3, 8)"),
            Call::Connect => f.write_str("connect(4, ..., ...)"),
            Call::Accept => f.write_str("accept(3, ..., ...)"),
            Call::Read(len) => write!(f, "read(4, ..., {len})"),
            Call::Write(len) => write!(f, "write(4, ..., {len})"),
            Call::Shutdown(Half::Read) => f.write_str("shutdown(4, SHUT_RD)"),
            Call::Shutdown(Half::Write) => f.write_str("shutdown(4, SHUT_WR)"),
            Call::Shutdown(Half::Both) => f.write_str("shutdown(4, SHUT_RDWR)"),
            Call::Close => f.write_str("close(4)"),
            Call::CloseListener => f.write_str("close(3)"),
            Call::Poll => f.write_str("poll(4)"),
            Call::Error => f.write_str("getsockopt(4, SOL_SOCKET, SO_ERROR, ...)"),
            Call::Set(Switch::NoDelay) => f.write_str("setsockopt(4, IPPROTO_TCP, TCP_NODELAY, [1], 4)"),
            Call::Set(Switch::Cork(on)) => {
                write!(f, "setsockopt(4, IPPROTO_TCP, TCP_CORK, [{}], 4)", u8::from(*on))
            }
            Call::Set(Switch::QuickAck(on)) => {
                write!(f, "setsockopt(4, IPPROTO_TCP, TCP_QUICKACK, [{}], 4)", u8::from(*on))
            }
            Call::Set(Switch::LingerZero) => {
                f.write_str("setsockopt(4, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8)")
            }
        }
    }
}

#[test]
fn an_echo_is_none_until_the_near_end_has_a_timestamp() {
    use drill::lang::{Direction, Flags, IpInfo, Range, Segment};
    let stamp = TcpOption::Timestamps { val: Some(7), ecr: 0, absolute: false };
    let tcp = Segment {
        ports: None,
        flags: Flags { bits: Flags::ACK, ..Flags::default() },
        seq: Some(Range { start: 1, end: 1 }),
        len: 0,
        absolute: false,
        ack: Some(1),
        window: Some(9),
        urgent: None,
        options: Some(vec![stamp]),
        udp: None,
    };
    let ip = IpInfo::default();
    let packet = Packet { direction: Direction::In, outer: Vec::new(), ip, body: Body::Tcp(tcp) };
    let ecr = |echo, latest| match echoed(&packet, echo, latest).body {
        Body::Tcp(Segment { options: Some(options), .. }) => match options[..] {
            [TcpOption::Timestamps { ecr, .. }] => ecr,
            _ => u32::MAX,
        },
        _ => u32::MAX,
    };
    assert_eq!(ecr(Echo::Latest(1_000), 0), 0);
    assert_eq!(ecr(Echo::Latest(1_000), 1_010), 2_010);
    assert_eq!(ecr(Echo::AsIs, 1_010), 0);
}
