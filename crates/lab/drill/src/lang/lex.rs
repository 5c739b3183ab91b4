//! Bytes to words. The language has no words that are reserved everywhere, and its cookies look like numbers:
//! so the parser asks for one token at a time and may ask for raw text instead.

use super::source::{Diagnostic, Span};

/// Kind of a token; its text is its span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tok {
    /// Letters, digits and underscores that are no number.
    Word,
    /// Decimal digits, perhaps after a minus.
    Int,
    /// `0x` and digits.
    Hex,
    /// Digits with one point in front of or among them.
    Float,
    /// Text between double quotes, which its span includes.
    Text,
    /// Text between backquotes.
    Shell,
    /// Text between `%{` and `}%`.
    Code,
    /// `--name`
    Option,
    /// `...`
    Dots,
    /// Any other character.
    Mark(char),
    /// Nothing is left.
    End,
}

/// A token and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) kind: Tok,
    pub(super) span: Span,
}

/// Walks through a script.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    pub(super) source: &'a str,
    at: usize,
    /// Where an `#ifdef` that holds stands, until its `#endif`.
    condition: Option<Span>,
    /// Names and what stands for them.
    pub(super) defines: &'a [(&'a str, &'a str)],
}

type Result<T> = std::result::Result<T, Diagnostic>;

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str, defines: &'a [(&'a str, &'a str)]) -> Self {
        Lexer { source, at: 0, condition: None, defines }
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn span(&self, from: usize, to: usize) -> Span {
        // Scripts are refused beyond 16 MiB, so offsets fit.
        Span { from: from as u32, to: to as u32 }
    }

    fn take(&mut self, kind: Tok, len: usize) -> Token {
        let token = Token { kind, span: self.span(self.at, self.at + len) };
        self.at += len;
        token
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Result<Token> {
        self.skip_blank()?;
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let Some(first) = rest.chars().next() else {
            return Ok(self.take(Tok::End, 0));
        };
        Ok(match first {
            '"' => self.quoted(Tok::Text, '"')?,
            '`' => self.quoted(Tok::Shell, '`')?,
            '%' if rest.starts_with("%{") => match rest.find("}%") {
                Some(end) => self.take(Tok::Code, end + 2),
                None => return Err(self.unclosed(2, "`%{`", "`}%` at its end")),
            },
            '.' if rest.starts_with("...") => self.take(Tok::Dots, 3),
            '.' if bytes.get(1).is_some_and(u8::is_ascii_digit) => {
                let len = 1 + digits(&bytes[1..]);
                self.take(Tok::Float, len)
            }
            '-' if rest.starts_with("--") && bytes.get(2).is_some_and(u8::is_ascii_alphabetic) => {
                let len = 2 + word(&bytes[2..]);
                self.take(Tok::Option, len)
            }
            '-' if bytes.get(1).is_some_and(u8::is_ascii_digit) => self.number(1),
            c if c.is_ascii_digit() => self.number(0),
            c if c.is_ascii_alphabetic() || c == '_' => self.take(Tok::Word, word(bytes)),
            c => self.take(Tok::Mark(c), c.len_utf8()),
        })
    }

    fn number(&mut self, sign: usize) -> Token {
        let bytes = &self.rest().as_bytes()[sign..];
        if sign == 0 && bytes.starts_with(b"0x") && bytes.get(2).is_some_and(u8::is_ascii_hexdigit) {
            return self.take(Tok::Hex, word(bytes));
        }
        let whole = digits(bytes);
        let fraction = match bytes.get(whole..) {
            Some([b'.', rest @ ..]) if rest.first().is_some_and(u8::is_ascii_digit) => 1 + digits(rest),
            _ => 0,
        };
        if fraction > 0 {
            return self.take(Tok::Float, sign + whole + fraction);
        }
        match word(bytes) {
            // Digits and letters together: a cookie.
            len if len > whole => self.take(Tok::Word, sign + len),
            len => self.take(Tok::Int, sign + len),
        }
    }

    fn quoted(&mut self, kind: Tok, mark: char) -> Result<Token> {
        let mut escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == mark => return Ok(self.take(kind, at + 1)),
                _ => {}
            }
        }
        Err(self.unclosed(1, &format!("`{mark}`"), &format!("another {mark} at its end")))
    }

    fn unclosed(&self, len: usize, what: &str, expected: &str) -> Diagnostic {
        Diagnostic::new(self.span(self.at, self.at + len), format!("this {what} has no end"), expected)
    }

    /// Spaces, comments and conditions.
    fn skip_blank(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                match trimmed.find("*/") {
                    Some(end) => self.at += end + 2,
                    None => return Err(self.unclosed(2, "`/*`", "`*/` at its end")),
                }
            } else if !self.condition(trimmed)? {
                return Ok(());
            }
        }
    }

    /// `#ifdef NAME`, `#ifndef NAME`, `#else`, `#endif`; true if there was one.
    fn condition(&mut self, rest: &str) -> Result<bool> {
        let len = rest.strip_prefix('#').map_or(0, |rest| 1 + word(rest.as_bytes()));
        let here = self.span(self.at, self.at + len);
        let wanted = match &rest[..len] {
            "#ifdef" => true,
            "#ifndef" => false,
            "#else" | "#endif" if self.condition.is_none() => {
                return Err(Diagnostic::new(
                    here,
                    format!("`{}` without a condition", &rest[..len]),
                    "#ifdef",
                ));
            }
            "#else" => {
                self.at += len;
                self.skip_branch(here)?;
                return Ok(true);
            }
            "#endif" => {
                self.at += len;
                self.condition = None;
                return Ok(true);
            }
            "" if rest.is_empty() => return self.condition.map_or(Ok(false), |open| Err(without_end(open))),
            _ => return Ok(false),
        };
        if self.condition.is_some() {
            return Err(Diagnostic::new(here, "a condition within a condition", "#endif of the first"));
        }
        let after = rest[len..].trim_start_matches([' ', '\t']);
        let name = &after[..word(after.as_bytes())];
        if name.is_empty() {
            return Err(Diagnostic::new(here, "a condition without a name", "#ifdef NAME"));
        }
        self.at += rest.len() - after.len() + name.len();
        self.condition = Some(here);
        if self.define(name).is_some() != wanted {
            self.skip_branch(here)?;
        }
        Ok(true)
    }

    /// Passes over what does not hold, up to and with its `#else` or `#endif`.
    fn skip_branch(&mut self, open: Span) -> Result<()> {
        while !self.rest().is_empty() {
            let line = self.rest().split_inclusive('\n').next().unwrap_or_default();
            let start = line.trim_start();
            self.at += line.len();
            if start.starts_with("#endif") {
                self.condition = None;
                return Ok(());
            }
            if start.starts_with("#else") {
                return Ok(());
            }
        }
        Err(without_end(open))
    }

    /// Returns the value behind the `=` of an option line: up to the next space, or what quotes hold.
    pub(super) fn raw_value(&mut self) -> Result<Span> {
        match self.rest().chars().next() {
            Some(mark @ ('"' | '`')) => Ok(inner(self.quoted(Tok::Text, mark)?.span)),
            _ => {
                let mut quote = None;
                let ends = |c: char| match quote {
                    Some(open) => {
                        if c == open {
                            quote = None;
                        }
                        false
                    }
                    None if c == '`' || c == '"' => {
                        quote = Some(c);
                        false
                    }
                    None => c.is_whitespace(),
                };
                let len = self.rest().find(ends).unwrap_or(self.rest().len());
                Ok(self.take(Tok::Word, len).span)
            }
        }
    }

    /// An address of the internet: hexadecimal digits, points and colons.
    pub(super) fn raw_address(&mut self) -> Result<Span> {
        self.skip_blank()?;
        let ends = |c: char| !(c.is_ascii_hexdigit() || c == '.' || c == ':');
        let run = &self.rest()[..self.rest().find(ends).unwrap_or(self.rest().len())];
        // The colon after the last address of a header is not part of it.
        let len = match run.strip_suffix(':') {
            Some(address) if !address.ends_with(':') => address.len(),
            _ => run.len(),
        };
        Ok(self.take(Tok::Word, len).span)
    }

    /// Returns the definition of `name`.
    pub(super) fn define(&self, name: &str) -> Option<&'a str> {
        self.defines.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Is the very next character, without any space, this one?
    pub(super) fn touches(&self, c: char) -> bool {
        self.rest().starts_with(c)
    }
}

fn without_end(open: Span) -> Diagnostic {
    Diagnostic::new(open, "this condition has no end", "#endif")
}

/// Without the marks at either end.
pub(super) fn inner(span: Span) -> Span {
    Span { from: span.from + 1, to: span.to - 1 }
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn word(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count()
}
