//! The options that sign a segment: TCP MD5 (RFC 2385) and TCP-AO (RFC 5925). What they sign is the caller's affair;
//! here is how they lie among the other options.

use super::options::next_option;
use core::ops::Range;

const NOP: u8 = 1;
const MD5: u8 = 19;
const AO: u8 = 29;
/// Kind, length and digest.
const MD5_LEN: usize = 18;
/// Kind, length, KeyID and RNextKeyID.
const AO_HEAD: usize = 4;

/// The signature that a segment carries, or shall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signature {
    /// TCP MD5.
    Md5,
    /// TCP-AO.
    Ao {
        /// KeyID: which key signed.
        key_id: u8,
        /// RNextKeyID: with which key the sender would like to be answered.
        next: u8,
        /// Bytes of the MAC.
        mac_len: u8,
    },
    /// More than one: the end that receives this drops it (RFC 5925, section 2.2).
    Several,
}

/// Where a signature lies in the bytes of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signed {
    /// The whole option.
    pub option: Range<usize>,
    /// Its digest or MAC.
    pub mac: Range<usize>,
}

impl Signature {
    /// Bytes that it takes among the options, padding included.
    pub const fn len(self) -> usize {
        match self {
            Signature::Md5 => 2 + MD5_LEN,
            Signature::Ao { mac_len, .. } => (AO_HEAD + mac_len as usize).next_multiple_of(4),
            Signature::Several => 0,
        }
    }

    /// Does it take none?
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The option (kind, length, data) as a signature, if it is one.
    pub(super) fn read(option: &[u8]) -> Option<Signature> {
        match *option {
            [MD5, _, ..] if option.len() == MD5_LEN => Some(Signature::Md5),
            [AO, len, key_id, next, ..] => Some(Signature::Ao { key_id, next, mac_len: len - AO_HEAD as u8 }),
            _ => None,
        }
    }

    /// The option with zeros for its MAC at the front of `into`, padded.
    #[cold]
    pub(super) fn emit(self, into: &mut [u8]) {
        let into = &mut into[..self.len()];
        into.fill(0);
        match self {
            Signature::Md5 => into[..4].copy_from_slice(&[NOP, NOP, MD5, MD5_LEN as u8]),
            Signature::Ao { key_id, next, mac_len } => {
                let len = AO_HEAD as u8 + mac_len;
                into[..AO_HEAD].copy_from_slice(&[AO, len, key_id, next]);
                into[usize::from(len)..].fill(NOP);
            }
            Signature::Several => {}
        }
    }

    /// Where the first signature of a segment lies: `tcp` begins with its header.
    pub fn find(tcp: &[u8]) -> Option<Signed> {
        let header = usize::from(tcp.get(12)? >> 4) * 4;
        let options = tcp.get(20..header)?;
        let mut rest = options;
        while let Some((option, after)) = next_option(rest) {
            let end = header - after.len();
            let start = end - option.len();
            match Signature::read(option) {
                Some(Signature::Md5) => return Some(Signed { option: start..end, mac: start + 2..end }),
                Some(_) => return Some(Signed { option: start..end, mac: start + AO_HEAD..end }),
                None => rest = after,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
