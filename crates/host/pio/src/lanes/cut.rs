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
mod tests {
    //! Goal: reading pieces from any place on is reading the whole from there.
    use super::*;
    use base::Rng;

    #[test]
    fn pieces_read_like_the_whole() {
        let whole: Vec<u8> = (0..1_000u32).map(|n| n as u8).collect();
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut cuts: Vec<usize> = (0..rng.below(12)).map(|_| rng.below(1_001) as usize).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            // Empty pieces too, where two cuts fall together.
            let pieces: Vec<IoSlice<'_>> =
                cuts.windows(2).map(|ends| IoSlice::new(&whole[ends[0]..ends[1]])).collect();
            let mut at = rng.below(1_001) as usize;
            let mut reader = Reader::at(&pieces, at);
            while at < whole.len() {
                let count = (1 + rng.below(200) as usize).min(whole.len() - at);
                let mut into = vec![0; count];
                reader.read(&mut into);
                assert_eq!(into, whole[at..at + count], "seed {seed}");
                at += count;
            }
            reader.read(&mut []);
        }
    }
}
