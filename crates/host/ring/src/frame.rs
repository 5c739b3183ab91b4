//! Frames: owned slots of a pool.
// CONTRACT (to be implemented by the owner of this room; signatures are what the other rooms use).

/// An owned slot of a [`FramePool`]: not `Clone`, so one owner at a time reads and writes it.
/// `data()` is `start..start+len` inside the slot; headroom lies before it.
pub struct Frame {
    _private: (),
}

impl Frame {
    /// The octets that hold the packet.
    pub fn data(&self) -> &[u8] { todo!() }
    /// The octets that hold the packet, to change.
    pub fn data_mut(&mut self) -> &mut [u8] { todo!() }
    /// Places the packet at `start..start + len` of the slot. Panics if that is outside it.
    pub fn set_range(&mut self, start: usize, len: usize) { let _ = (start, len); todo!() }
    /// Octets before the packet.
    pub fn headroom(&self) -> usize { todo!() }
    /// Slot size.
    pub fn capacity(&self) -> usize { todo!() }
    /// Packet length.
    pub fn len(&self) -> usize { todo!() }
    /// Is the packet empty?
    pub fn is_empty(&self) -> bool { todo!() }
    /// Index of the slot in its pool (its UMEM offset is `index * slot_size`).
    pub fn index(&self) -> u32 { todo!() }
}

/// A fixed number of equal slots in one mapping (huge pages where the machine has them).
pub struct FramePool { _private: () }

impl FramePool {
    /// Map `slots` slots of `slot_size` octets (a power of two).
    pub fn new(slots: u32, slot_size: usize) -> std::io::Result<FramePool> { let _ = (slots, slot_size); todo!() }
    /// Take a free slot; its data range is empty at offset 0.
    pub fn take(&mut self) -> Option<Frame> { todo!() }
    /// Give a slot back.
    pub fn retire(&mut self, frame: Frame) { let _ = frame; todo!() }
    /// Free slots.
    pub fn available(&self) -> u32 { todo!() }
}
