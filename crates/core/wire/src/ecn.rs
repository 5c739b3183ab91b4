//! The ECN field of an IP header.

/// ECN codepoint: the last two bits of TOS or traffic class (RFC 3168, section 5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: routers drop this packet rather than mark it.
    #[default]
    NotCapable = 0b00,
    /// ECT(1): it may be marked; the sender asks for little delay (RFC 9331).
    Capable1 = 0b01,
    /// ECT(0): it may be marked.
    Capable0 = 0b10,
    /// CE: a router marked it.
    Marked = 0b11,
}

impl Ecn {
    /// The codepoint in a TOS byte or traffic class.
    #[inline(always)]
    pub const fn of(tos: u8) -> Ecn {
        match tos & 3 {
            0b00 => Ecn::NotCapable,
            0b01 => Ecn::Capable1,
            0b10 => Ecn::Capable0,
            _ => Ecn::Marked,
        }
    }
}
