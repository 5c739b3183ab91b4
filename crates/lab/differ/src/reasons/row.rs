//! Type of a row of explained differences.

/// Kind of input in which a difference is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Programs of socket calls.
    Calls {
        /// The rest of the program is compared as well.
        goes_on: bool,
    },
    /// Peers that send packets.
    Packets,
}

/// Programs of calls, as an argument of [`super::of`].
pub const CALLS: Kind = Kind::Calls { goes_on: false };

/// One explained difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Short name, shown with `--explain` and in counts.
    pub name: &'static str,
    /// Kind of input.
    pub kind: Kind,
    /// Pattern or predicate that recognises the difference. Calls: a pattern of `CALL, CIRCUMSTANCE: KERNEL | STACK`,
    /// where `*` stands for any text. Packets: the name of a predicate (packets/explain.rs).
    pub key: &'static str,
    /// Why it is so: a section of an RFC, a setting, or a section of another page.
    pub reason: &'static str,
}
