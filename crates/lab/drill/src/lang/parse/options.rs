//! TCP options, to the bit.

use super::{Parser, Result};
use crate::lang::ast::{Digest, Range, TcpOption};
use crate::lang::lex::Tok;
use crate::lang::source::{Diagnostic, Span};

/// A TCP header is at most 60 bytes, 20 of which are fixed.
const OPTIONS_MAX: usize = 40;
/// ACCECN0 and ACCECN1 (draft-ietf-tcpm-accurate-ecn, section 3.2.3).
const ACCECN: [u8; 2] = [172, 174];
const ACCECN_MAX: i64 = 0xff_ffff;
/// The shared option for experiments (RFC 4727).
const EXPERIMENT: u8 = 254;
/// Its magic for ACK rate requests (draft-ietf-tcpm-ack-rate-request).
const TARR: u16 = 0x00ac;

impl Parser<'_> {
    /// `<mss 1460,nop,...>`, `<...>` or nothing; `None` means that any will do.
    pub(super) fn options(&mut self) -> Result<Option<Vec<TcpOption>>> {
        let mut options = Vec::new();
        // A `<` may also begin the next packet, but a time stands in front of that.
        if !self.accept('<')? {
            return Ok(Some(options));
        }
        let start = self.last;
        if self.peek()?.kind == Tok::Dots {
            self.next()?;
            self.mark('>', "after `...`")?;
            return Ok(None);
        }
        loop {
            options.push(self.option()?);
            if !self.accept(',')? {
                break;
            }
        }
        self.mark('>', "or `,` after a TCP option")?;
        let len: usize = options.iter().map(TcpOption::wire_len).sum();
        if len > OPTIONS_MAX {
            let found = format!("{len} bytes of options");
            return Err(Diagnostic::new(start.through(self.last), found, "at most 40"));
        }
        Ok(Some(options))
    }

    fn option(&mut self) -> Result<TcpOption> {
        const WHAT: &str = "a TCP option: mss, nop, eol, sackOK, sack, wscale, TS, FO, FOEXP, md5, ao, ECN, \
                            gen-KIND or exp-MAGIC";
        let name = self.word(WHAT)?;
        let at = self.last;
        Ok(match name {
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::Eol,
            "mss" => TcpOption::Mss(self.u16("a segment size")?),
            "wscale" => TcpOption::WindowScale(self.u8("a shift")?),
            "sackOK" => TcpOption::SackPermitted,
            "sack" => TcpOption::Sack(self.sack_blocks()?),
            "TS" => self.timestamps()?,
            "FO" => TcpOption::FastOpen(self.bytes()?),
            "FOEXP" => TcpOption::FastOpenExp(self.bytes()?),
            "md5" if self.accept_word("valid")? => TcpOption::Md5(Digest::Valid),
            "md5" => TcpOption::Md5(Digest::Bytes(self.bytes()?)),
            "ao" => TcpOption::Ao {
                key_id: self.u8("a KeyID")?,
                next: self.u8("a KeyID")?,
                mac: if self.accept_word("valid")? { Digest::Valid } else { Digest::Bytes(self.bytes()?) },
            },
            "ECN" => self.accecn()?,
            "AccECN0" => self.accecn_of(ACCECN[0])?,
            "AccECN1" => self.accecn_of(ACCECN[1])?,
            "gen" => {
                let kind = self.suffix()?.parse().map_err(|_| unknown(at, WHAT))?;
                TcpOption::Other(kind, self.bytes()?)
            }
            "exp" => self.experiment(at, WHAT)?,
            _ => return Err(Diagnostic::new(at, format!("`{name}`"), WHAT)),
        })
    }

    /// The rest of a name with a dash in it.
    fn suffix(&mut self) -> Result<String> {
        let token = self.next()?;
        let text = self.text(token.span).to_string();
        Ok(match token.kind {
            Tok::Int if text.starts_with('-') => text[1..].to_string(),
            Tok::Mark('-') => {
                let token = self.next()?;
                self.text(token.span).to_string()
            }
            _ => String::new(),
        })
    }

    fn experiment(&mut self, at: Span, what: &str) -> Result<TcpOption> {
        let name = self.suffix()?;
        let magic = match name.as_str() {
            "FO" => return Ok(TcpOption::FastOpenExp(self.bytes()?)),
            "tarr" => TARR,
            _ => u16::from_str_radix(&name, 16).map_err(|_| unknown(at, what))?,
        };
        let mut data = magic.to_be_bytes().to_vec();
        data.extend(self.bytes()?);
        Ok(TcpOption::Other(EXPERIMENT, data))
    }

    fn sack_blocks(&mut self) -> Result<Vec<Range>> {
        let mut blocks = Vec::new();
        while self.peek()?.kind == Tok::Int {
            let start = self.u32("the start of a block")?;
            self.mark(':', "within a block")?;
            blocks.push(Range { start, end: self.u32("the end of a block")? });
        }
        if blocks.is_empty() {
            return self.complain("a block, such as 1001:2001");
        }
        Ok(blocks)
    }

    fn timestamps(&mut self) -> Result<TcpOption> {
        if !self.accept_word("val")? {
            return self.complain("`val NUMBER ecr NUMBER`");
        }
        let val = match self.peek()?.kind {
            Tok::Dots => {
                self.next()?;
                None
            }
            _ => Some(self.u32("a timestamp")?),
        };
        if !self.accept_word("ecr")? {
            return self.complain("`ecr NUMBER`");
        }
        let ecr = self.u32("an echoed timestamp")?;
        Ok(TcpOption::Timestamps { val, ecr, absolute: self.accept('!')? })
    }

    /// `ECN e0b 1 ceb 0 e1b 1`: the name of the first counter chooses the kind.
    fn accecn(&mut self) -> Result<TcpOption> {
        let first = self.word("e0b or e1b")?;
        let (kind, order) = match first {
            "e0b" => (ACCECN[0], ["ceb", "e1b"]),
            "e1b" => (ACCECN[1], ["ceb", "e0b"]),
            _ => return Err(Diagnostic::new(self.last, format!("`{first}`"), "e0b or e1b")),
        };
        let mut counters = vec![self.number("a counter", 0, ACCECN_MAX)? as u32];
        for name in order {
            if !self.accept_word(name)? {
                break;
            }
            counters.push(self.number("a counter", 0, ACCECN_MAX)? as u32);
        }
        Ok(TcpOption::AccEcn { kind, counters })
    }

    /// FreeBSD's way to write the same.
    fn accecn_of(&mut self, kind: u8) -> Result<TcpOption> {
        let order = if kind == ACCECN[0] { ["ee0b", "eceb", "ee1b"] } else { ["ee1b", "eceb", "ee0b"] };
        let mut counters = Vec::new();
        for name in order {
            if !self.accept_word(name)? {
                break;
            }
            counters.push(self.number("a counter", 0, ACCECN_MAX)? as u32);
        }
        Ok(TcpOption::AccEcn { kind, counters })
    }

    /// Bytes as hexadecimal digits, perhaps none.
    fn bytes(&mut self) -> Result<Vec<u8>> {
        let token = self.peek()?;
        if !matches!(token.kind, Tok::Word | Tok::Int | Tok::Hex) {
            return Ok(Vec::new());
        }
        let text = self.text(token.span);
        let text = self.lexer.define(text).unwrap_or(text);
        let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        match bytes {
            Some(bytes) if digits.len().is_multiple_of(2) => {
                self.next()?;
                Ok(bytes)
            }
            _ => self.complain("an even number of hexadecimal digits"),
        }
    }
}

fn unknown(at: Span, what: &str) -> Diagnostic {
    Diagnostic::new(at, "an option that is not known", what)
}

impl TcpOption {
    /// Bytes on the wire.
    pub fn wire_len(&self) -> usize {
        match self {
            TcpOption::Nop | TcpOption::Eol => 1,
            TcpOption::Mss(_) => 4,
            TcpOption::WindowScale(_) => 3,
            TcpOption::SackPermitted => 2,
            TcpOption::Sack(blocks) => 2 + 8 * blocks.len(),
            TcpOption::Timestamps { .. } => 10,
            TcpOption::FastOpen(cookie) => 2 + cookie.len(),
            TcpOption::FastOpenExp(cookie) => 4 + cookie.len(),
            TcpOption::Md5(Digest::Valid) => 18,
            TcpOption::Md5(Digest::Bytes(bytes)) => 2 + bytes.len(),
            TcpOption::Ao { mac: Digest::Valid, .. } => 16,
            TcpOption::Ao { mac: Digest::Bytes(bytes), .. } => 4 + bytes.len(),
            TcpOption::AccEcn { counters, .. } => 2 + 3 * counters.len(),
            TcpOption::Other(_, data) => 2 + data.len(),
        }
    }
}
