//! Records that go into a ring together: a core gathers them in its own cache, as they will lie in the ring, and hands
//! them over with one copy when it has done all there is to do for now.

/// Bytes of a record's length.
pub(super) const HEAD: usize = 4;
/// Records that are gathered at most.
const RECORDS: usize = 64;

/// Records of one length that wait to be put in: of `PLACE - 4` bytes, a multiple of four.
pub struct Batch<const PLACE: usize> {
    places: Box<[[u8; PLACE]]>,
    len: usize,
}

impl<const PLACE: usize> Batch<PLACE> {
    const _WHOLE: () = assert!(PLACE > HEAD && PLACE.is_multiple_of(HEAD));

    /// An empty one.
    pub fn new() -> Batch<PLACE> {
        let () = Self::_WHOLE;
        let mut place = [0; PLACE];
        place[..HEAD].copy_from_slice(&((PLACE - HEAD) as u32).to_le_bytes());
        Batch { places: vec![place; RECORDS].into_boxed_slice(), len: 0 }
    }

    /// Where the next record is to be written, in whole; `None` if there is no room before those that wait have left.
    #[inline]
    pub fn spare(&mut self) -> Option<&mut [u8]> {
        let place = self.places.get_mut(self.len)?;
        self.len += 1;
        Some(&mut place[HEAD..])
    }

    /// Is there no room?
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == RECORDS
    }

    /// Does nothing wait?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The records that wait, in order.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.places[..self.len].iter().map(|place| &place[HEAD..])
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All of them as they are to lie in a ring.
    pub(super) fn bytes(&self) -> &[u8] {
        self.places[..self.len].as_flattened()
    }

    /// They have left.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl<const PLACE: usize> Default for Batch<PLACE> {
    fn default() -> Self {
        Batch::new()
    }
}
