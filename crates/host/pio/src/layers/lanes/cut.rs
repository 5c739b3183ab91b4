//! Reading what lies in pieces.

use std::io::IoSlice;

/// A place in a payload that lies in pieces; it goes on as it is read.
pub(super) struct Reader<'a> {
    pieces: &'a [IoSlice<'a>],
    /// Bytes of the first piece that are read.
    read: usize,
}

impl<'a> Reader<'a> {
    /// At the byte `offset`, or at the end if there are fewer.
    pub(super) fn at(pieces: &'a [IoSlice<'a>], offset: usize) -> Reader<'a> {
        let mut reader = Reader { pieces, read: offset };
        while let Some(first) = reader.pieces.first()
            && reader.read >= first.len()
        {
            reader.read -= first.len();
            reader.pieces = &reader.pieces[1..];
        }
        reader
    }

    /// Copies what follows.
    ///
    /// # Panics
    /// If less is left than `into` holds.
    pub(super) fn read(&mut self, mut into: &mut [u8]) {
        while !into.is_empty() {
            let rest = &self.pieces[0][self.read..];
            let count = rest.len().min(into.len());
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&rest[..count]);
            into = later;
            self.read += count;
            if count == rest.len() {
                (self.pieces, self.read) = (&self.pieces[1..], 0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
