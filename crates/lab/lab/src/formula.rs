//! Formulas in an experiment's file: what theory says a measure is, from the file's own parameters.
//!
//! ```text
//! 1448 * 8 / path.rtt_ms / 1000 * sqrt(3 / (2 * path.loss))
//! ```
//!
//! Numbers, places of numbers in the file, `+ - * / ^`, parentheses, and the functions `sqrt`, `cbrt`, `min`, `max`
//! and `htcp`; `mulwin(n, p)`, `mulwin_each(n, w, p)`, `mulwin_lan(n)` and `mulwin_wan(n)` (see [`crate::mulwin`]:
//! (18), (13) and both of f); `newreno_chance`, `cubic_chance` and `htcp_chance` (see [`crate::chance`]).

use crate::chance::{self, htcp_evenly};
use crate::mulwin::{self, Locks, locks_leave};
use crate::spec::SpecError;

/// Parentheses and signs inside each other.
const DEPTH_MAX: u32 = 50;

/// The value of `text`, where `place` knows the numbers of the file.
pub(crate) fn evaluate(text: &str, place: &dyn Fn(&str) -> Option<f64>) -> Result<f64, SpecError> {
    let mut reader = Reader { rest: text, place, depth: 0 };
    let value = reader.sum().and_then(|value| match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.wants("an operator")),
    });
    let value = value.map_err(|error| SpecError(format!("formula `{text}`: {error}")))?;
    if value.is_finite() { Ok(value) } else { Err(SpecError(format!("formula `{text}`: is {value}"))) }
}

struct Reader<'a> {
    rest: &'a str,
    place: &'a dyn Fn(&str) -> Option<f64>,
    depth: u32,
}

type Value = Result<f64, SpecError>;

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn takes(&mut self, sign: char) -> bool {
        let takes = self.peek() == Some(sign);
        if takes {
            self.rest = &self.rest[sign.len_utf8()..];
        }
        takes
    }

    fn wants(&self, what: &str) -> SpecError {
        let seen = if self.rest.is_empty() { "the end" } else { self.rest };
        SpecError(format!("want {what} before `{seen}`"))
    }

    fn sum(&mut self) -> Value {
        let mut value = self.product()?;
        loop {
            if self.takes('+') {
                value += self.product()?;
            } else if self.takes('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Value {
        let mut value = self.power()?;
        loop {
            if self.takes('*') {
                value *= self.power()?;
            } else if self.takes('/') {
                value /= self.power()?;
            } else {
                return Ok(value);
            }
        }
    }

    /// `-2 ^ 2` is -4, and `2 ^ 3 ^ 2` is 512.
    fn power(&mut self) -> Value {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wants("less depth"));
        }
        let value = if self.takes('-') {
            -self.power()?
        } else {
            let base = self.atom()?;
            if self.takes('^') { base.powf(self.power()?) } else { base }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn atom(&mut self) -> Value {
        if self.takes('(') {
            let value = self.sum()?;
            return self.closed().map(|()| value);
        }
        match self.peek() {
            Some(first) if first.is_ascii_digit() => self.number(),
            Some(first) if first.is_ascii_alphabetic() => {
                let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
                if self.takes('(') { self.function(name) } else { self.at(name) }
            }
            _ => Err(self.wants("a number, a name or `(`")),
        }
    }

    fn closed(&mut self) -> Result<(), SpecError> {
        if self.takes(')') { Ok(()) } else { Err(self.wants("`)`")) }
    }

    fn number(&mut self) -> Value {
        let digits = self.word(|c| c.is_ascii_digit() || c == '.');
        digits.parse().map_err(|_| SpecError(format!("no number: `{digits}`")))
    }

    fn at(&self, name: &str) -> Value {
        (self.place)(name).ok_or_else(|| SpecError(format!("no number at `{name}` in this file")))
    }

    fn function(&mut self, name: &str) -> Value {
        let mut values = vec![self.sum()?];
        while self.takes(',') {
            values.push(self.sum()?);
        }
        self.closed()?;
        match (name, values.as_slice()) {
            ("sqrt", [x]) => Ok(x.sqrt()),
            ("exp", [x]) => Ok(x.exp()),
            ("cbrt", [x]) => Ok(x.cbrt()),
            ("min", [x, y]) => Ok(x.min(*y)),
            ("max", [x, y]) => Ok(x.max(*y)),
            ("htcp", [p, rtt]) => Ok(htcp_evenly(*p, *rtt)),
            ("mulwin", [n, p]) => Ok(mulwin::unlimited(*n, *p)),
            ("mulwin_each", [n, w, p]) => mulwin::limited_each(*n, *w, *p)
                .ok_or_else(|| SpecError(format!("{name}({n}, {w}, {p}): want w from 0 to sqrt(8 / (3 p))"))),
            ("mulwin_lan" | "mulwin_wan", [n]) => {
                let locks = if name == "mulwin_lan" { Locks::Lan } else { Locks::Wan };
                locks_leave(locks, *n).ok_or_else(|| SpecError(format!("{name}({n}): want 1 to 16")))
            }
            (law @ ("newreno_chance" | "cubic_chance" | "htcp_chance"), [p, rtt]) => {
                // Beyond these the scale of windows would have no room.
                if !(1e-9..=0.1).contains(p) || !(1e-6..=100.0).contains(rtt) {
                    return Err(SpecError(format!("{law}({p}, {rtt}): want 1e-9 to 0.1 and 1e-6 to 100")));
                }
                Ok(match law {
                    "newreno_chance" => chance::newreno(*p, *rtt),
                    "cubic_chance" => chance::cubic(*p, *rtt),
                    _ => chance::htcp(*p, *rtt),
                })
            }
            _ => Err(SpecError(format!("no function `{name}` of {}", values.len()))),
        }
    }
}

impl<'a> Reader<'a> {
    /// The letters in front that are `of` a kind.
    fn word(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !of(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}

#[cfg(test)]
mod tests;
