//! Tokens to a tree: the frame of a script. Packets and calls have files of their own.

mod call;
mod icmp;
mod ip;
mod options;
mod packet;

use super::ast::{Action, Event, Script, Setting, Shell, When};
use super::lex::{Lexer, Tok, Token, inner};
use super::source::{Diagnostic, Span};
use base::Duration;

/// Longest script, bytes.
const SCRIPT_MAX: usize = 1 << 24;
/// Deepest nesting of expressions.
const DEPTH_MAX: u32 = 64;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Reads a script; `defines` are names and what stands for them, where the language wants a number or bytes. A
/// defined name is also one for which `#ifdef` holds.
///
/// # Errors
/// The first place that the language does not allow.
///
/// ```
/// let script = drill::lang::parse("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 > S 0:0(0) <...>\n", &[]);
/// assert_eq!(script.unwrap().events.len(), 2);
/// let wrong = drill::lang::parse("0 > S 0:0(0", &[]).unwrap_err();
/// assert_eq!(wrong.sentence(), "the end of the script; expected `)` after the length of the payload");
/// ```
pub fn parse(source: &str, defines: &[(&str, &str)]) -> Result<Script> {
    if source.len() > SCRIPT_MAX {
        return Err(Diagnostic::new(Span::default(), "a script of more than 16 MiB", "a shorter one"));
    }
    let mut parser =
        Parser { lexer: Lexer::new(source, defines), ahead: None, depth: 0, last: Span::default() };
    parser.script()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// One token that was looked at but not taken, and the lexer before it.
    ahead: Option<(Token, Lexer<'a>)>,
    depth: u32,
    /// The token taken last.
    last: Span,
}

impl<'a> Parser<'a> {
    // --- tokens --------------------------------------------------------------------------------------------

    fn peek(&mut self) -> Result<Token> {
        if let Some((token, _)) = &self.ahead {
            return Ok(*token);
        }
        let before = self.lexer.clone();
        let token = self.lexer.next()?;
        self.ahead = Some((token, before));
        Ok(token)
    }

    fn next(&mut self) -> Result<Token> {
        let token = self.peek()?;
        self.ahead = None;
        self.last = token.span;
        Ok(token)
    }

    /// Undoes a peek, so that the lexer can read raw text.
    fn rewind(&mut self) -> &mut Lexer<'a> {
        if let Some((_, before)) = self.ahead.take() {
            self.lexer = before;
        }
        &mut self.lexer
    }

    fn text(&self, span: Span) -> &'a str {
        let source: &'a str = self.lexer.source;
        source.get(span.from as usize..span.to as usize).unwrap_or_default()
    }

    /// A complaint about the next token.
    fn complain<T>(&mut self, expected: impl Into<String>) -> Result<T> {
        let token = self.peek()?;
        let found = match token.kind {
            Tok::End => "the end of the script".to_string(),
            _ => format!("`{}`", self.text(token.span).lines().next().unwrap_or_default()),
        };
        Err(Diagnostic::new(token.span, found, expected))
    }

    fn is_mark(&mut self, mark: char) -> Result<bool> {
        Ok(self.peek()?.kind == Tok::Mark(mark))
    }

    /// Takes `mark` if it is next.
    fn accept(&mut self, mark: char) -> Result<bool> {
        let found = self.is_mark(mark)?;
        if found {
            self.next()?;
        }
        Ok(found)
    }

    /// Takes `mark`, which must be next; `place` says where.
    fn mark(&mut self, mark: char, place: &str) -> Result<()> {
        if self.accept(mark)? { Ok(()) } else { self.complain(format!("`{mark}` {place}")) }
    }

    fn is_word(&mut self, word: &str) -> Result<bool> {
        let token = self.peek()?;
        Ok(token.kind == Tok::Word && self.text(token.span) == word)
    }

    /// Takes `word` if it is next.
    fn accept_word(&mut self, word: &str) -> Result<bool> {
        let found = self.is_word(word)?;
        if found {
            self.next()?;
        }
        Ok(found)
    }

    fn word(&mut self, what: &str) -> Result<&'a str> {
        if self.peek()?.kind != Tok::Word {
            return self.complain(what);
        }
        let token = self.next()?;
        Ok(self.text(token.span))
    }

    /// A decimal or hexadecimal number within bounds.
    fn number(&mut self, what: &str, min: i64, max: i64) -> Result<i64> {
        let token = self.peek()?;
        let text = self.text(token.span);
        let value = match token.kind {
            Tok::Int | Tok::Hex => number(text),
            Tok::Word => match self.lexer.define(text) {
                Some(value) => number(value),
                None => return self.complain(what),
            },
            _ => return self.complain(what),
        };
        match value {
            Some(value) if (min..=max).contains(&value) => {
                self.next()?;
                Ok(value)
            }
            _ => self.complain(format!("{what}, from {min} to {max}")),
        }
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(self.number(what, 0, u32::MAX.into())? as u32)
    }

    fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(self.number(what, 0, u16::MAX.into())? as u16)
    }

    fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.number(what, 0, u8::MAX.into())? as u8)
    }

    // --- the frame -----------------------------------------------------------------------------------------

    fn script(&mut self) -> Result<Script> {
        let mut script = Script::default();
        while self.peek()?.kind == Tok::Option {
            script.options.push(self.setting()?);
        }
        if self.peek()?.kind == Tok::Shell {
            script.init = Some(self.quoted()?);
        }
        loop {
            match self.peek()?.kind {
                Tok::End => return Ok(script),
                Tok::Shell => {
                    script.cleanup = Some(self.quoted()?);
                    if self.peek()?.kind != Tok::End {
                        return self.complain("the end of the script after a command without a time");
                    }
                    return Ok(script);
                }
                _ => script.events.push(self.event()?),
            }
        }
    }

    fn setting(&mut self) -> Result<Setting> {
        let option = self.next()?.span;
        let name = self.text(option)[2..].to_string();
        let mut span = option;
        let value = match self.lexer.touches('=') {
            true => {
                self.next()?;
                let raw = self.lexer.raw_value()?;
                span = span.through(raw);
                if raw.from == raw.to {
                    return Err(Diagnostic::new(span, "an option without its value", "--name=value"));
                }
                Some(self.text(raw).to_string())
            }
            false => None,
        };
        Ok(Setting { name, value, span })
    }

    fn quoted(&mut self) -> Result<Shell> {
        let token = self.next()?;
        let inside = match token.kind {
            Tok::Code => Span { from: token.span.from + 2, to: token.span.to - 2 },
            _ => inner(token.span),
        };
        Ok(Shell { text: self.text(inside).to_string(), span: token.span })
    }

    fn event(&mut self) -> Result<Event> {
        let start = self.peek()?.span;
        let when = self.when()?;
        let action = match self.peek()?.kind {
            Tok::Mark('<' | '>') => Action::Packet(Box::new(self.packet()?)),
            Tok::Dots | Tok::Word => Action::Call(Box::new(self.call(when)?)),
            Tok::Shell => Action::Shell(self.quoted()?),
            Tok::Code => Action::Code(self.quoted()?),
            _ => return self.complain("a packet (`<` or `>`), a call, `command` or %{ assertion }%"),
        };
        Ok(Event { when, action, span: start.through(self.last) })
    }

    fn when(&mut self) -> Result<When> {
        if self.accept('*')? {
            return Ok(When::Any);
        }
        if self.accept('+')? {
            let from = self.time()?;
            if !self.accept('~')? {
                return Ok(When::After(from));
            }
            self.mark('+', "before the end of a relative range")?;
            return Ok(When::AfterBetween(from, self.not_before(from)?));
        }
        let from = self.time()?;
        if !self.accept('~')? {
            return Ok(When::At(from));
        }
        Ok(When::Between(from, self.not_before(from)?))
    }

    fn not_before(&mut self, from: Duration) -> Result<Duration> {
        let to = self.time()?;
        if to < from {
            return Err(Diagnostic::new(self.last, "a range that ends before it begins", "a later time"));
        }
        Ok(to)
    }

    /// Seconds, to the nanosecond.
    fn time(&mut self) -> Result<Duration> {
        const WHAT: &str = "a time in seconds, such as 0, +.1, 0.5~0.6 or *";
        /// Scripts run in virtual time, but not for ever.
        const TIME_MAX: u64 = 100_000_000;
        let token = self.peek()?;
        if !matches!(token.kind, Tok::Int | Tok::Float) {
            return self.complain(WHAT);
        }
        let text = self.text(token.span);
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let seconds = if whole.is_empty() { Ok(0) } else { whole.parse::<u64>() };
        match (seconds, format!("{fraction:0<9.9}").parse::<u32>()) {
            (Ok(seconds), Ok(nanos)) if seconds <= TIME_MAX => {
                self.next()?;
                Ok(Duration::new(seconds, nanos))
            }
            _ => self.complain(WHAT),
        }
    }
}

/// Decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|v| v as i64),
        None => text.parse().ok(),
    }
}
