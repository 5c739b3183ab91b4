//! The prefix of a packet: addresses, ECN, traffic class, flow label, hop limit, headers around it.

use super::{Parser, Result};
use crate::lang::ast::{Ecn, IpInfo, Outer};
use crate::lang::lex::Tok;
use crate::lang::source::Diagnostic;

/// Names of code points and their bits (RFC 2474, 2597, 3246, 5865, 8622).
const DSCP: &[(&str, u8)] = &[
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
    ("voice_admit", 44),
    ("le", 1),
];

impl Parser<'_> {
    /// `(tos 0x28)`, `[ect0, flowlabel 0x1]` or nothing.
    pub(super) fn ip_info(&mut self) -> Result<IpInfo> {
        let mut info = IpInfo::default();
        let close = match self.peek()?.kind {
            Tok::Mark('(') => ')',
            Tok::Mark('[') => ']',
            _ => return Ok(info),
        };
        self.next()?;
        loop {
            self.ip_item(&mut info)?;
            if !self.accept(',')? {
                break;
            }
        }
        self.mark(close, "after what is said about the IP header")?;
        Ok(info)
    }

    fn ip_item(&mut self, info: &mut IpInfo) -> Result<()> {
        const WHAT: &str = "noecn, ect0, ect1, ect01, ce, ecn, tos, class, dscp, flowlabel, ttl or hlim";
        let word = self.word(WHAT)?;
        match word {
            "ecn" => {
                let name = self.word("noecn, ect0, ect1, ect01 or ce")?;
                return self.ecn(name, info);
            }
            "tos" | "class" => {
                let byte = self.u8("the byte of the traffic class")?;
                info.ecn = Some(Ecn::Bits(byte & 3));
                info.dscp = Some(byte & !3);
            }
            "dscp" => info.dscp = Some(self.dscp()?),
            "flowlabel" => info.label = Some(self.number("a flow label", 0, 0xf_ffff)? as u32),
            "ttl" | "hlim" => info.ttl = Some(self.u8("a hop limit")?),
            _ => return self.ecn(word, info),
        }
        Ok(())
    }

    fn ecn(&mut self, name: &str, info: &mut IpInfo) -> Result<()> {
        info.ecn = Some(match name {
            "noecn" => Ecn::Bits(0),
            "ect1" => Ecn::Bits(1),
            "ect0" => Ecn::Bits(2),
            "ce" => Ecn::Bits(3),
            "ect01" => Ecn::Ect01,
            _ => {
                let found = format!("`{name}`");
                return Err(Diagnostic::new(
                    self.last,
                    found,
                    "noecn, ect0, ect1, ect01, ce, tos or another field",
                ));
            }
        });
        Ok(())
    }

    fn dscp(&mut self) -> Result<u8> {
        if self.peek()?.kind != Tok::Word {
            return Ok((self.number("a code point", 0, 63)? as u8) << 2);
        }
        let name = self.word("a code point")?.to_lowercase();
        match DSCP.iter().find(|(known, _)| *known == name) {
            Some((_, bits)) => Ok(bits << 2),
            None => {
                Err(Diagnostic::new(self.last, format!("`{name}`"), "a code point such as cs1, af11 or ef"))
            }
        }
    }

    /// Headers around the packet; the body comes next.
    pub(super) fn outer(&mut self) -> Result<Vec<Outer>> {
        let mut outer = Vec::new();
        loop {
            outer.push(if self.accept_word("ipv4")? || self.accept_word("ipv6")? {
                self.outer_ip()?
            } else if self.accept_word("gre")? || self.accept_word("GREv0")? {
                self.skip_to_colon("gre")?;
                Outer::Gre
            } else if self.accept_word("mpls")? {
                self.skip_to_colon("mpls")?;
                Outer::Mpls
            } else {
                return Ok(outer);
            });
        }
    }

    fn outer_ip(&mut self) -> Result<Outer> {
        let info = self.ip_info()?;
        let source = self.address()?;
        self.mark('>', "between the addresses")?;
        let destination = self.address()?;
        self.mark(':', "after the addresses")?;
        Ok(Outer::Ip(info, source, destination))
    }

    fn address(&mut self) -> Result<std::net::IpAddr> {
        let span = self.rewind().raw_address()?;
        match self.text(span).parse() {
            Ok(address) => Ok(address),
            Err(_) => Err(Diagnostic::new(span, format!("`{}`", self.text(span)), "an address")),
        }
    }

    /// Skips a tunnel's arguments: tunnels are not run.
    fn skip_to_colon(&mut self, name: &str) -> Result<()> {
        while !self.accept(':')? {
            if self.peek()?.kind == Tok::End {
                return self.complain(format!("`:` after the header of {name}"));
            }
            self.next()?;
        }
        Ok(())
    }
}
