//! A packet in the script's own words.

use crate::lang::{Body, Digest, Direction, Ecn, Flags, Icmp, IpInfo, Packet, Quoted, Segment, TcpOption};
use std::fmt::{self, Display, Formatter};

const LETTERS: [(u8, char); 6] = [
    (Flags::FIN, 'F'),
    (Flags::SYN, 'S'),
    (Flags::RST, 'R'),
    (Flags::PSH, 'P'),
    (Flags::URG, 'U'),
    (Flags::ACK, '.'),
];
const ECN_LETTERS: [(u8, char); 2] = [(Flags::ECE, 'E'), (Flags::CWR, 'W')];

impl Display for Packet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.direction == Direction::In { "<" } else { ">" })?;
        if !self.ip.is_empty() {
            write!(f, " ({})", self.ip)?;
        }
        match &self.body {
            Body::Tcp(segment) => write!(f, " {segment}"),
            Body::Udp(_, len) => write!(f, " udp ({len})"),
            Body::Icmp(icmp) => write!(f, " {icmp}"),
        }
    }
}

impl Display for IpInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ecn = self.ecn.map(|ecn| match ecn {
            Ecn::Ect01 => "ect01".to_string(),
            Ecn::Bits(bits) => ["noecn", "ect1", "ect0", "ce"][usize::from(bits & 3)].to_string(),
        });
        let parts = [
            ecn,
            self.dscp.map(|dscp| format!("dscp {:#x}", dscp >> 2)),
            self.label.map(|label| format!("flowlabel {label:#x}")),
            self.ttl.map(|ttl| format!("ttl {ttl}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl Display for Flags {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if *self == Flags::default() {
            return f.write_str("-");
        }
        let mut text: String = LETTERS.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, c)| *c).collect();
        if let Some(ace) = self.ace {
            return write!(f, "{text}{ace}");
        }
        text.extend(ECN_LETTERS.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, c)| *c));
        if self.ae {
            text.push('A');
        }
        f.write_str(&text)
    }
}

impl Display for Segment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(ports) = self.ports {
            write!(f, "{} > {} ", ports.source, ports.destination)?;
        }
        write!(f, "{} ", self.flags)?;
        match self.seq {
            Some(range) => write!(f, "{}:{}({})", range.start, range.end, self.len)?,
            None => write!(f, "...({})", self.len)?,
        }
        if self.absolute {
            f.write_str("!")?;
        }
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        if let Some(urgent) = self.urgent.filter(|&urgent| urgent != 0) {
            write!(f, " urg {urgent}")?;
        }
        match &self.options {
            None => f.write_str(" <...>"),
            Some(options) if options.is_empty() => Ok(()),
            Some(options) => {
                let texts: Vec<_> = options.iter().map(TcpOption::to_string).collect();
                write!(f, " <{}>", texts.join(","))
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Display for Digest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Digest::Valid => f.write_str("valid"),
            Digest::Bytes(bytes) => f.write_str(&hex(bytes)),
        }
    }
}

impl Display for TcpOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TcpOption::Nop => f.write_str("nop"),
            TcpOption::Eol => f.write_str("eol"),
            TcpOption::Mss(mss) => write!(f, "mss {mss}"),
            TcpOption::WindowScale(shift) => write!(f, "wscale {shift}"),
            TcpOption::SackPermitted => f.write_str("sackOK"),
            TcpOption::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|block| write!(f, " {}:{}", block.start, block.end))
            }
            TcpOption::Timestamps { val, ecr, .. } => match val {
                Some(val) => write!(f, "TS val {val} ecr {ecr}"),
                None => write!(f, "TS val ... ecr {ecr}"),
            },
            TcpOption::FastOpen(cookie) => write!(f, "FO {}", hex(cookie)),
            TcpOption::FastOpenExp(cookie) => write!(f, "FOEXP {}", hex(cookie)),
            TcpOption::Md5(digest) => write!(f, "md5 {digest}"),
            TcpOption::Ao { key_id, next, mac } => write!(f, "ao {key_id} {next} {mac}"),
            TcpOption::AccEcn { kind, counters } => {
                write!(f, "AccECN{} {counters:?}", u8::from(*kind == 174))
            }
            TcpOption::Other(kind, data) => write!(f, "gen-{kind} {}", hex(data)),
        }
    }
}

impl Display for Icmp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "icmp {}", self.kind)?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        if let Some(mtu) = self.mtu {
            write!(f, " mtu {mtu}")?;
        }
        if let Some(id) = self.id {
            write!(f, " id {id}")?;
        }
        match self.quoted {
            Some(Quoted::Tcp(range, len)) => write!(f, " [{}:{}({len})]", range.start, range.end),
            Some(Quoted::Udp(len)) => write!(f, " [udp ({len})]"),
            Some(Quoted::Raw(len)) => write!(f, " [raw ({len})]"),
            None => Ok(()),
        }
    }
}
