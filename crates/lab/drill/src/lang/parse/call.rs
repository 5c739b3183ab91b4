//! System calls: their arguments, what they return, and expressions in general.

use super::{DEPTH_MAX, Parser, Result};
use crate::lang::ast::{Call, Expr, ExprKind, When};
use crate::lang::lex::{Tok, inner};
use crate::lang::source::{Diagnostic, Span};

impl Parser<'_> {
    pub(super) fn call(&mut self, when: When) -> Result<Call> {
        let mut until = None;
        if self.peek()?.kind == Tok::Dots {
            self.next()?;
            let end = self.time()?;
            let start = match when {
                When::At(at) | When::After(at) => Some(at),
                _ => None,
            };
            if start.is_none_or(|start| end < start) {
                let found = "a call that returns before it begins";
                return Err(Diagnostic::new(self.last, found, "`START...END`, both meant alike"));
            }
            until = Some(end);
        }
        let name = self.word("the name of a system call")?.to_string();
        let name_span = self.last;
        self.mark('(', "after the name of a system call")?;
        let arguments = self.list(')')?;
        self.mark('=', "and what the call returns")?;
        let result = self.expr()?;
        let mut errno = None;
        if self.peek()?.kind == Tok::Word {
            errno = Some(self.word("the name of an error")?.to_string());
        }
        let note = if self.accept('(')? { Some(self.note()?) } else { None };
        Ok(Call { until, name, name_span, arguments, result, errno, note })
    }

    /// The words of a note, up to its parenthesis.
    fn note(&mut self) -> Result<String> {
        let start = self.last;
        loop {
            if self.accept(')')? {
                let whole = inner(start.through(self.last));
                return Ok(self.text(whole).trim().to_string());
            }
            if self.peek()?.kind == Tok::End {
                return self.complain("`)` after a note");
            }
            self.next()?;
        }
    }

    /// Expressions up to `close`, which is taken.
    fn list(&mut self, close: char) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        if self.accept(close)? {
            return Ok(items);
        }
        loop {
            items.push(self.expr()?);
            if !self.accept(',')? {
                break;
            }
        }
        self.mark(close, "or `,` after an expression")?;
        Ok(items)
    }

    fn expr(&mut self) -> Result<Expr> {
        let depth = self.depth;
        self.deeper()?;
        let mut left = self.primary()?;
        while self.accept('|')? {
            // The tree leans to the left, as deep as the chain is long.
            self.deeper()?;
            let right = self.primary()?;
            let span = left.span.through(right.span);
            left = match left.kind {
                ExprKind::Field(name, argument, value) => {
                    let either = Expr { span: value.span.through(right.span), kind: or(*value, right) };
                    Expr { kind: ExprKind::Field(name, argument, Box::new(either)), span }
                }
                _ => Expr { kind: or(left, right), span },
            };
        }
        self.depth = depth;
        Ok(left)
    }

    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let found = format!("expressions nested more than {DEPTH_MAX} deep");
            return Err(Diagnostic::new(self.last, found, "a flatter one"));
        }
        Ok(())
    }

    fn primary(&mut self) -> Result<Expr> {
        const WHAT: &str = "an expression: a number, a name, `...`, \"text\", [array] or {struct}";
        let token = self.peek()?;
        let start = token.span;
        let kind = match token.kind {
            Tok::Dots => {
                self.next()?;
                ExprKind::Any
            }
            Tok::Int | Tok::Hex => ExprKind::Int(self.number(WHAT, i64::MIN, i64::MAX)?),
            Tok::Text => self.quoted_text()?,
            Tok::Mark('[') => {
                self.next()?;
                ExprKind::Array(self.list(']')?)
            }
            Tok::Mark('{') => {
                self.next()?;
                ExprKind::Struct(self.list('}')?)
            }
            Tok::Word => self.named()?,
            _ => return self.complain(WHAT),
        };
        Ok(Expr { kind, span: start.through(self.last) })
    }

    fn named(&mut self) -> Result<ExprKind> {
        let name = self.word("a name")?.to_string();
        if name == "NULL" {
            return Ok(ExprKind::Int(0));
        }
        let mut arguments = None;
        if self.is_mark('(')? {
            self.next()?;
            arguments = Some(self.list(')')?);
        }
        if self.accept('=')? {
            let value = Box::new(self.nested()?);
            let argument = arguments.and_then(|mut all| all.pop()).map(Box::new);
            return Ok(ExprKind::Field(name, argument, value));
        }
        Ok(match arguments {
            Some(arguments) => ExprKind::Apply(name, arguments),
            None => ExprKind::Name(name),
        })
    }

    /// The value of a field: a primary, so that `|` after it is the caller's.
    fn nested(&mut self) -> Result<Expr> {
        let depth = self.depth;
        self.deeper()?;
        let value = self.primary();
        self.depth = depth;
        value
    }

    fn quoted_text(&mut self) -> Result<ExprKind> {
        let mut text = String::new();
        while self.peek()?.kind == Tok::Text {
            let token = self.next()?;
            text.push_str(&unescape(self.text(inner(token.span)), token.span)?);
        }
        if self.peek()?.kind == Tok::Dots {
            self.next()?;
            return Ok(ExprKind::TextAny(text));
        }
        Ok(ExprKind::Text(text))
    }
}

fn or(left: Expr, right: Expr) -> ExprKind {
    ExprKind::Or(Box::new(left), Box::new(right))
}

/// Backslashes as in C: n, r, t, 0, quotes, x and two digits.
fn unescape(text: &str, at: Span) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('0') => '\0',
            Some('x') => {
                let digits: String = chars.by_ref().take(2).collect();
                match u8::from_str_radix(&digits, 16) {
                    Ok(byte) => char::from(byte),
                    Err(_) => return Err(Diagnostic::new(at, "`\\x` without two digits", "such as \\x1f")),
                }
            }
            Some(other) => other,
            None => return Err(Diagnostic::new(at, "a backslash at the end of a text", "\\n, \\\\ or \\\"")),
        });
    }
    Ok(out)
}
