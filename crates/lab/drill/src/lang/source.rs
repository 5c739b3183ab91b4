//! Where in a script something stands, and how to tell a person that it cannot be so.

use std::fmt::Write;

/// Bytes `from..to` of a script's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// First byte.
    pub from: u32,
    /// One past the last.
    pub to: u32,
}

impl Span {
    /// The smallest span that holds both.
    pub fn through(self, last: Span) -> Span {
        Span { from: self.from, to: last.to.max(self.from) }
    }

    /// The bytes themselves.
    pub fn text(self, source: &str) -> &str {
        source.get(self.from as usize..self.to as usize).unwrap_or_default()
    }

    /// Line and column of the first byte, both from 1; columns count characters.
    pub fn place(self, source: &str) -> (usize, usize) {
        let before = source.get(..self.from as usize).unwrap_or(source);
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

/// A script that does not say what it must.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Where.
    pub at: Span,
    /// Text found there, or its fault.
    pub found: String,
    /// Text that was expected; may be empty.
    pub expected: String,
}

impl Diagnostic {
    /// A complaint about what stands at `at`.
    pub fn new(at: Span, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Diagnostic { at, found: found.into(), expected: expected.into() }
    }

    /// The complaint in one sentence.
    pub fn sentence(&self) -> String {
        if self.expected.is_empty() {
            return self.found.clone();
        }
        format!("{}; expected {}", self.found, self.expected)
    }

    /// `file:line:column: what; expected that`, the line, and carets below the place.
    ///
    /// ```
    /// use drill::lang::{Diagnostic, Span};
    /// let source = "0 socket(...) = 3\n+0 lissen(3, 1) = 0\n";
    /// let complaint = Diagnostic::new(Span { from: 21, to: 27 }, "no call `lissen`", "listen");
    /// let text = complaint.render("a.pkt", source);
    /// assert!(text.starts_with("a.pkt:2:4: no call `lissen`; expected listen\n"));
    /// assert!(text.ends_with("\n   2 | +0 lissen(3, 1) = 0\n     |    ^^^^^^\n"));
    /// ```
    pub fn render(&self, file: &str, source: &str) -> String {
        let (line, column) = self.at.place(source);
        let mut out = format!("{file}:{line}:{column}: {}\n", self.sentence());
        let shown = source.lines().nth(line - 1).unwrap_or_default();
        let width = self.at.text(source).lines().next().unwrap_or_default().chars().count().max(1);
        // Tabs stay tabs below, so that the carets stand where the eye looks.
        let indent: String =
            shown.chars().take(column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
        let _ = writeln!(out, "{line:4} | {shown}\n     | {indent}{}", "^".repeat(width));
        out
    }
}
