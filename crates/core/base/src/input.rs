//! Bytes as a source of numbers, for models that are both seeded tests and fuzz targets.

/// Takes numbers from bytes; zeros once they are used up.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// From the first byte on.
    pub fn new(data: &'a [u8]) -> Self {
        Input(data)
    }

    /// Is there nothing left?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// A number below `bound`, which is at most 65,536.
    pub fn below(&mut self, bound: u32) -> u32 {
        if bound <= 256 { u32::from(self.u8()) % bound.max(1) } else { u32::from(self.u16()) % bound }
    }
}
