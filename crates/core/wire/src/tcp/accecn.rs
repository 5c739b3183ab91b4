//! The AccECN option (RFC 9768, section 3.2.3): how many bytes arrived under each codepoint.
//!
//! ```text
//!   kind  | length |     first counter    |      CE's counter    |     last counter
//!  172 174|2 5 8 11| ECT(0)        ECT(1) |   24 bits, or absent | ECT(1)        ECT(0)
//! ```

/// Kinds of the option, by which counter comes first.
const ECT0_FIRST: u8 = 172;
const ECT1_FIRST: u8 = 174;
/// Bytes of a counter, and how many there are.
const FIELD: usize = 3;
const FIELDS: u8 = 3;

/// Which counter comes first, so that it can stay when others must go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterOrder {
    /// ECT(0), CE, ECT(1): kind 172.
    Ect0First,
    /// ECT(1), CE, ECT(0): kind 174.
    Ect1First,
}

/// Bytes of payload under each codepoint; the option carries the low 24 bits of each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EcnBytes {
    /// ECT(0).
    pub ect0: u32,
    /// CE.
    pub ce: u32,
    /// ECT(1).
    pub ect1: u32,
}

/// An AccECN option with none to three of the counters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AccEcn {
    bytes: [u8; FIELD * FIELDS as usize],
    fields: u8,
    order: CounterOrder,
}

impl AccEcn {
    /// The first `fields` (three at most) of the counters in this order.
    pub fn new(order: CounterOrder, fields: u8, counters: &EcnBytes) -> AccEcn {
        let fields = fields.min(FIELDS);
        let (first, last) = match order {
            CounterOrder::Ect0First => (counters.ect0, counters.ect1),
            CounterOrder::Ect1First => (counters.ect1, counters.ect0),
        };
        let mut bytes = [0; FIELD * FIELDS as usize];
        let places = bytes.as_chunks_mut::<FIELD>().0.iter_mut().take(fields.into());
        for (place, counter) in places.zip([first, counters.ce, last]) {
            let [_, a, b, c] = counter.to_be_bytes();
            *place = [a, b, c];
        }
        AccEcn { bytes, fields, order }
    }

    /// How many counters it carries.
    pub const fn fields(&self) -> u8 {
        self.fields
    }

    /// Returns the option with only the first `fields` of its counters.
    pub(super) const fn cut(self, fields: u8) -> AccEcn {
        AccEcn { fields, ..self }
    }

    /// The counter at a place, 0 to 2, if it is there.
    fn field(&self, at: u8) -> Option<u32> {
        let bytes = self.bytes.as_chunks::<FIELD>().0.get(usize::from(at)).filter(|_| at < self.fields)?;
        let [a, b, c] = *bytes;
        Some(u32::from_be_bytes([0, a, b, c]))
    }

    /// ECT(0)'s counter (EE0B), 24 bits.
    pub fn ect0(&self) -> Option<u32> {
        self.field(if self.order == CounterOrder::Ect0First { 0 } else { 2 })
    }

    /// CE's (ECEB).
    pub fn ce(&self) -> Option<u32> {
        self.field(1)
    }

    /// ECT(1)'s (EE1B).
    pub fn ect1(&self) -> Option<u32> {
        self.field(if self.order == CounterOrder::Ect1First { 0 } else { 2 })
    }

    /// Is this the kind of such an option?
    pub(super) const fn is_kind(kind: u8) -> bool {
        matches!(kind, ECT0_FIRST | ECT1_FIRST)
    }

    const fn kind(&self) -> u8 {
        match self.order {
            CounterOrder::Ect0First => ECT0_FIRST,
            CounterOrder::Ect1First => ECT1_FIRST,
        }
    }

    /// Reads the option behind kind and length. Whole counters count, whatever the length; more than three and the
    /// rest of a broken one are padding. RFC 9768, 3.2.3-2.
    pub(super) fn read(kind: u8, data: &[u8]) -> AccEcn {
        let fields = (data.len() / FIELD).min(FIELDS.into());
        let mut bytes = [0; FIELD * FIELDS as usize];
        bytes[..fields * FIELD].copy_from_slice(&data[..fields * FIELD]);
        let order = if kind == ECT0_FIRST { CounterOrder::Ect0First } else { CounterOrder::Ect1First };
        AccEcn { bytes, fields: fields as u8, order }
    }

    /// Bytes it takes in a header; less where an option follows that is preceded by two bytes of padding, in which
    /// this one may end (`pair`).
    pub const fn padded_len(fields: u8, pair: bool) -> usize {
        match (fields, pair) {
            (0, true) => 0,
            (0, false) | (1, true) => 4,
            (1 | 2, _) => 8,
            (_, _) => 12,
        }
    }

    /// Its words, given to `word`; what is left over, if anything, comes back for the place of the padding that
    /// follows.
    /// RFC 9768, 3.2.3-1.
    pub(super) fn emit(&self, nop: u8, mut word: impl FnMut([u8; 4])) -> Option<[u8; 2]> {
        let [a, b, c, d, e, f, g, h, i] = self.bytes;
        let (kind, len) = (self.kind(), 2 + FIELD as u8 * self.fields);
        if self.fields == 0 {
            return Some([kind, len]);
        }
        word([kind, len, a, b]);
        if self.fields == 1 {
            return Some([c, nop]);
        }
        word([c, d, e, f]);
        if self.fields > 2 {
            word([g, h, i, nop]);
        }
        None
    }
}

impl core::fmt::Display for AccEcn {
    /// As packetdrill writes it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = match self.order {
            CounterOrder::Ect0First => ["e0b", "ceb", "e1b"],
            CounterOrder::Ect1First => ["e1b", "ceb", "e0b"],
        };
        f.write_str("ECN")?;
        for (name, field) in names.iter().zip((0..FIELDS).map_while(|at| self.field(at))) {
            write!(f, " {name} {field}")?;
        }
        Ok(())
    }
}

impl core::fmt::Debug for AccEcn {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}
