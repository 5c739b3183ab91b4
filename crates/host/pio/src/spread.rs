//! Where packets start in large slots.

/// Where the header in front of a packet starts in slot `index`. Slots lie a power of two apart, so if all
/// packets began alike their first lines would compete for the same few places in the caches. At most 52 KiB
/// into the slot.
pub(crate) const fn start_of(index: u32) -> usize {
    (index as usize % 32) * 128 + (index as usize / 32 % 12) * 4096
}
