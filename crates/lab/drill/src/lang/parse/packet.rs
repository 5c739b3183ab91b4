//! Packets: TCP segments, UDP datagrams, ICMP messages.

use super::{Parser, Result};
use crate::lang::ast::{Body, Direction, Flags, IpInfo, Outer, Packet, Ports, Range, Segment};
use crate::lang::lex::Tok;
use crate::lang::source::Diagnostic;

/// Largest payload of a packet: IPv4's total length has 16 bits.
const PAYLOAD_MAX: i64 = 65_535;

impl Parser<'_> {
    pub(super) fn packet(&mut self) -> Result<Packet> {
        let direction = match self.next()?.kind {
            Tok::Mark('<') => Direction::In,
            _ => Direction::Out,
        };
        let mut outer = self.outer()?;
        let ip = self.ip_info()?;
        if self.accept_word("encap")? {
            for word in ["psp", "spi"] {
                if !self.accept_word(word)? {
                    return self.complain(format!("`{word}` of `encap psp spi NUMBER`"));
                }
            }
            self.u32("the number of a security association")?;
            outer.push(Outer::Psp);
        }
        let body = self.body()?;
        Ok(Packet { direction, outer, ip, body })
    }

    fn body(&mut self) -> Result<Body> {
        if self.accept_word("udp")? {
            let ports = self.ports()?;
            let len = self.length()?;
            return Ok(Body::Udp(ports, len));
        }
        if self.accept_word("icmp")? {
            return Ok(Body::Icmp(self.icmp()?));
        }
        Ok(Body::Tcp(self.segment()?))
    }

    /// `8080 > 12345`, if it stands here.
    fn ports(&mut self) -> Result<Option<Ports>> {
        if self.peek()?.kind != Tok::Int {
            return Ok(None);
        }
        let source = self.u16("a port")?;
        self.mark('>', "between the ports")?;
        let destination = self.u16("a port")?;
        Ok(Some(Ports { source, destination }))
    }

    /// `(1460)`
    fn length(&mut self) -> Result<u32> {
        self.mark('(', "before the length of the payload")?;
        let len = self.number("the length of the payload in bytes", 0, PAYLOAD_MAX)? as u32;
        self.mark(')', "after the length of the payload")?;
        Ok(len)
    }

    fn segment(&mut self) -> Result<Segment> {
        let ports = self.ports()?;
        let flags = self.flags()?;
        let (seq, len) = match self.peek()?.kind {
            Tok::Dots => {
                self.next()?;
                (None, self.length()?)
            }
            _ => {
                let (range, len) = self.sequence()?;
                (Some(range), len)
            }
        };
        let absolute = self.accept('!')?;
        let ack = if self.accept_word("ack")? { Some(self.u32("an acknowledgment number")?) } else { None };
        let window = if self.accept_word("win")? { Some(self.u16("a window")?) } else { None };
        let urgent = if self.accept_word("urg")? { Some(self.u16("an urgent pointer")?) } else { None };
        let options = self.options()?;
        let udp = self.encapsulation()?;
        Ok(Segment { ports, flags, seq, len, absolute, ack, window, urgent, options, udp })
    }

    /// `1:1461(1460)`; the end must be the start and the length (and so says the diagnostic).
    pub(super) fn sequence(&mut self) -> Result<(Range, u32)> {
        let start = self.u32("a sequence number, as in `1:1461(1460)`")?;
        let first = self.last;
        self.mark(':', "between the sequence numbers")?;
        let end = self.u32("the sequence number after the last byte")?;
        let len = self.length()?;
        if start.wrapping_add(len) != end {
            let found = format!("{len} bytes from {start} on do not end at {end}");
            let right = start.wrapping_add(len);
            return Err(Diagnostic::new(first.through(self.last), found, format!("{start}:{right}({len})")));
        }
        Ok((Range { start, end }, len))
    }

    /// `/udp(9899 > 12345)`
    pub(super) fn encapsulation(&mut self) -> Result<Option<Ports>> {
        if !self.accept('/')? {
            return Ok(None);
        }
        if !self.accept_word("udp")? {
            return self.complain("`udp(PORT > PORT)` after `/`");
        }
        self.mark('(', "before the ports of UDP")?;
        let ports = self.ports()?;
        self.mark(')', "after the ports of UDP")?;
        Ok(ports)
    }

    /// Letters, a point for ACK, a digit for the ACE field: `S`, `P.`, `.`, `-`, `SEW`, `S.5`.
    fn flags(&mut self) -> Result<Flags> {
        const WHAT: &str = "flags: letters of FSRPUEWA, `.` for ACK, `-` for none";
        let mut flags = Flags::default();
        if self.accept('-')? {
            return Ok(flags);
        }
        let mut found = false;
        while matches!(self.peek()?.kind, Tok::Word | Tok::Float | Tok::Mark('.')) {
            let token = self.next()?;
            found = true;
            for c in self.text(token.span).chars() {
                if !set_flag(&mut flags, c) {
                    return Err(Diagnostic::new(token.span, format!("`{c}` is no flag"), WHAT));
                }
            }
        }
        if !found {
            return self.complain(WHAT);
        }
        Ok(flags)
    }
}

fn set_flag(flags: &mut Flags, c: char) -> bool {
    let bit = match c {
        'F' => Flags::FIN,
        'S' => Flags::SYN,
        'R' => Flags::RST,
        'P' => Flags::PSH,
        '.' => Flags::ACK,
        'U' => Flags::URG,
        'E' => Flags::ECE,
        'W' => Flags::CWR,
        'A' => {
            flags.ae = true;
            return true;
        }
        '0'..='7' if flags.ace.is_none() => {
            flags.ace = Some(c as u8 - b'0');
            return true;
        }
        _ => return false,
    };
    flags.bits |= bit;
    true
}

impl IpInfo {
    /// Does it say nothing?
    pub fn is_empty(&self) -> bool {
        *self == IpInfo::default()
    }
}
