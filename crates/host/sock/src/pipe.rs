//! A pipe between two descriptors of one engine, as mTCP programs use to wake themselves.

use crate::Errno;
use std::collections::VecDeque;

/// Default capacity of a pipe on Linux, bytes.
const CAPACITY: usize = 65_536;
/// Writes up to this size are all or nothing (POSIX PIPE_BUF).
const ATOMIC: usize = 4_096;

/// The bytes between two ends, and which ends are still open.
#[derive(Default)]
pub(crate) struct Pipe {
    data: VecDeque<u8>,
    /// The objects of the two ends, reader first.
    pub(crate) ends: [u32; 2],
    pub(crate) reader_gone: bool,
    pub(crate) writer_gone: bool,
}

impl Pipe {
    /// Bytes readable.
    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    /// May a small write succeed?
    pub(crate) fn writable(&self) -> bool {
        self.reader_gone || CAPACITY - self.data.len() >= ATOMIC
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        if self.data.is_empty() && !into.is_empty() {
            return if self.writer_gone { Ok(0) } else { Err(Errno::EAGAIN) };
        }
        let n = into.len().min(self.data.len());
        for (slot, byte) in into.iter_mut().zip(self.data.drain(..n)) {
            *slot = byte;
        }
        Ok(n)
    }

    pub(crate) fn write(&mut self, data: &[u8]) -> Result<usize, Errno> {
        if self.reader_gone {
            return Err(Errno::EPIPE);
        }
        let room = CAPACITY - self.data.len();
        if !data.is_empty() && (room == 0 || (data.len() <= ATOMIC && data.len() > room)) {
            return Err(Errno::EAGAIN);
        }
        let n = room.min(data.len());
        self.data.extend(&data[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
