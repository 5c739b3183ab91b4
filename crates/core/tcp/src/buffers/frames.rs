//! Received data in several pieces, and data that stays in the link's frames until the application reads it.
//!
//! ```text
//!   frames of a batch ── run of pieces ──> Connection::on_segment: received ──> read ──> frames go back
//!                                                 └── copied to chunks of the pool where the frames are wanted
//! ```
//! Adopted data is received data like any other: it is acknowledged, counted and read in its order. The owner of the
//! frames decides whether a payload may be adopted, and asks the connection to copy what is left when it wants the
//! frames back ([`crate::Connection::copy_adopted`]).

/// Holds adopted data. The payloads of a connection form a list in the order in which they were adopted, and each has a
/// number.
pub trait Frames {
    /// Adopts the payload of the segment that is being processed, behind payload `last` of the same connection. Returns
    /// its number, or `None` if it is to be copied: always where `bytes` is only a part of it.
    fn adopt(&mut self, bytes: u32, last: Option<u32>) -> Option<u32>;
    /// Copies the data of the payloads from `first` on, as much as there is room for.
    fn copy_out(&self, first: u32, into: &mut [u8]) -> usize;
    /// Calls `each` with the data of the payloads from `first` on, in order, until it returns false.
    fn for_each(&self, first: u32, each: &mut dyn FnMut(&[u8]) -> bool);
    /// Drops the `n` oldest bytes from `first` on. Returns the payload that begins with the next byte.
    fn consume(&mut self, first: u32, n: u32) -> u32;
}
