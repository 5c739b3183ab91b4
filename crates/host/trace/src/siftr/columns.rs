//! The columns of a line that are numbers: of most of them the last line had the same, whose digits are at hand.

use super::digits::digits;

/// Columns a line has at most.
pub(super) const MOST: usize = 21;
/// Bytes of the longest: a comma and twenty digits, and some, so that copying has one length.
const WIDTH: usize = 24;

/// A column as it was last written.
#[derive(Clone, Copy)]
struct Column {
    value: u64,
    text: [u8; WIDTH],
    len: usize,
}

impl Column {
    fn of(value: u64) -> Column {
        let (digits, from) = digits(value);
        let (mut text, len) = ([0; WIDTH], 1 + digits.len() - from);
        text[0] = b',';
        text[1..len].copy_from_slice(&digits[from..]);
        Column { value, text, len }
    }
}

/// The numbers of the last line, and room for those of the next.
pub(super) struct Columns {
    last: [Column; MOST],
    line: [u8; MOST * WIDTH],
}

impl Columns {
    pub(super) fn new() -> Columns {
        Columns { last: [Column::of(0); MOST], line: [0; MOST * WIDTH] }
    }

    /// Appends a comma and a number for each of `values`, the first [`MOST`] of them.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, values: &[u64]) {
        let mut at = 0;
        for (column, &value) in self.last.iter_mut().zip(values) {
            if column.value != value {
                *column = Column::of(value);
            }
            self.line[at..at + WIDTH].copy_from_slice(&column.text);
            at += column.len;
        }
        out.extend_from_slice(&self.line[..at]);
    }
}

#[cfg(test)]
mod tests;
