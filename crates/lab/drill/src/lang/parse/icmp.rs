//! ICMP messages and what they quote.

use super::{Parser, Result};
use crate::lang::ast::{Icmp, Quoted};
use crate::lang::lex::Tok;

impl Parser<'_> {
    pub(super) fn icmp(&mut self) -> Result<Icmp> {
        let kind = self.word("a type of ICMP, such as unreachable")?.to_string();
        let mut span = self.last;
        let mut icmp = Icmp { kind, code: None, mtu: None, id: None, quoted: None, span };
        if self.peek()?.kind == Tok::Word && !self.is_word("mtu")? && !self.is_word("id")? {
            let code = self.word("a code of ICMP")?;
            icmp.code = Some(self.lexer.define(code).unwrap_or(code).to_string());
            span = span.through(self.last);
        }
        icmp.span = span;
        if self.accept_word("mtu")? {
            icmp.mtu = Some(self.u32("an MTU")?);
        }
        if self.accept_word("id")? {
            icmp.id = Some(self.u16("the identifier of an echo")?);
        }
        if self.accept('[')? {
            icmp.quoted = Some(self.quoted_packet()?);
            self.mark(']', "after the quoted packet")?;
        }
        Ok(icmp)
    }

    fn quoted_packet(&mut self) -> Result<Quoted> {
        if self.accept_word("udp")? || self.accept_word("UDP")? {
            return Ok(Quoted::Udp(self.parenthesised()?));
        }
        if self.accept_word("raw")? || self.accept_word("RAW")? {
            return Ok(Quoted::Raw(self.parenthesised()?));
        }
        let (range, len) = self.sequence()?;
        self.encapsulation()?;
        Ok(Quoted::Tcp(range, len))
    }

    fn parenthesised(&mut self) -> Result<u32> {
        self.mark('(', "before the length")?;
        let len = self.u32("a length")?;
        self.mark(')', "after the length")?;
        Ok(len)
    }
}
