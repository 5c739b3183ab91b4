//! Connections without work: the one that rests longest is the next, and any may leave at once.

use sock::Fd;
use std::collections::VecDeque;

/// A queue of descriptors that each stand in it at most once.
#[derive(Default)]
pub(super) struct Idle {
    queue: VecDeque<Fd>,
    /// Descriptors that left at the front so far.
    left: usize,
    /// By descriptor: its place, counted from the first that ever came.
    places: Vec<Option<usize>>,
}

impl Idle {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// To the end.
    pub(super) fn push(&mut self, fd: Fd) {
        let index = fd as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, None);
        }
        debug_assert_eq!(self.places[index], None);
        self.places[index] = Some(self.left + self.queue.len());
        self.queue.push_back(fd);
    }

    /// From the front.
    pub(super) fn pop(&mut self) -> Option<Fd> {
        let fd = self.queue.pop_front()?;
        self.left += 1;
        self.places[fd as usize] = None;
        Some(fd)
    }

    /// From wherever it stands, if it does; the last takes its place.
    pub(super) fn remove(&mut self, fd: Fd) {
        let Some(place) = self.places.get_mut(fd as usize).and_then(Option::take) else { return };
        self.queue.swap_remove_back(place - self.left);
        if let Some(&moved) = self.queue.get(place - self.left) {
            self.places[moved as usize] = Some(place);
        }
    }
}

#[cfg(test)]
mod tests;
