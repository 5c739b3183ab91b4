//! Keys of signed segments: a struct of the script, field by field, in Linux's layout.

use super::Stop;
use super::prepare::endpoint_of;
use crate::lang::{Expr, ExprKind};
use crate::run::known::Known;
use base::Addr;

type Result<T> = std::result::Result<T, Stop>;

/// Offset and bytes of each field, by its name in C, for one option.
type Layout = (&'static str, i32, usize, &'static [(&'static str, usize, usize)]);

/// Options with their structs' lengths.
const LAYOUTS: &[Layout] = &[
    ("TCP_MD5SIG", 14, 216, MD5SIG),
    ("TCP_MD5SIG_EXT", 32, 216, MD5SIG),
    (
        "TCP_AO_ADD_KEY",
        38,
        288,
        &[
            ("addr", 0, 128),
            ("alg_name", 128, 64),
            ("ifindex", 192, 4),
            ("set_current", 196, BIT),
            ("set_rnext", 196, BIT + 1),
            ("prefix", 202, 1),
            ("sndid", 203, 1),
            ("rcvid", 204, 1),
            ("maclen", 205, 1),
            ("keyflags", 206, 1),
            ("keylen", 207, 1),
            ("key", 208, 80),
        ],
    ),
    (
        "TCP_AO_DEL_KEY",
        39,
        144,
        &[
            ("addr", 0, 128),
            ("set_current", 132, BIT),
            ("set_rnext", 132, BIT + 1),
            ("prefix", 138, 1),
            ("sndid", 139, 1),
            ("rcvid", 140, 1),
            ("current_key", 141, 1),
            ("rnext", 142, 1),
        ],
    ),
    (
        "TCP_AO_INFO",
        40,
        48,
        &[
            ("set_current", 0, BIT),
            ("set_rnext", 0, BIT + 1),
            ("ao_required", 0, BIT + 2),
            ("accept_icmps", 0, BIT + 4),
            ("current_key", 6, 1),
            ("rnext", 7, 1),
        ],
    ),
];

const MD5SIG: &[(&str, usize, usize)] = &[
    ("tcpm_addr", 0, 128),
    ("tcpm_flags", 128, 1),
    ("tcpm_prefixlen", 129, 1),
    ("tcpm_keylen", 130, 2),
    ("tcpm_ifindex", 132, 4),
    ("tcpm_key", 136, 80),
];

/// A length from here on is a bit's place in the word at the offset.
const BIT: usize = 256;

/// Is this one of the options about keys?
pub(super) fn concerns(level: i32, name: i32) -> bool {
    level == libc::IPPROTO_TCP && LAYOUTS.iter().any(|&(_, number, ..)| number == name)
}

/// The bytes of the struct. What it does not name is zero; an address that is `...` is the peer's.
pub(super) fn value(known: &Known, name: i32, expr: &Expr) -> Result<Vec<u8>> {
    let row = LAYOUTS.iter().find(|&&(_, number, ..)| number == name);
    let (Some(&(option, _, len, layout)), ExprKind::Struct(fields)) = (row, &expr.kind) else {
        return Stop::unsupported("keys that are not given with the socket option");
    };
    let mut bytes = vec![0; len];
    for field in fields {
        let ExprKind::Field(name, _, value) = &field.kind else {
            return Stop::fail(format!("{option} wants {{field=value, ...}}"));
        };
        let Some(&(_, at, len)) = layout.iter().find(|(known, ..)| known == name) else {
            return Stop::unsupported(format!("{option} with a field {name}"));
        };
        match (&value.kind, len) {
            (_, 128) => put_addr(&mut bytes, endpoint_of(known, value, known.options.remote, 0)?.addr),
            (ExprKind::Text(text), _) => {
                let text: Vec<u8> = text.chars().map(|c| c as u8).take(len).collect();
                bytes[at..at + text.len()].copy_from_slice(&text);
            }
            (_, BIT..) => bytes[at] |= u8::from(known.int(value)? != 0) << (len - BIT),
            _ => {
                let number = known.int(value)?.to_ne_bytes();
                bytes[at..at + len].copy_from_slice(number.get(..len).unwrap_or_default());
            }
        }
    }
    Ok(bytes)
}

fn put_addr(bytes: &mut [u8], addr: Addr) {
    let (family, at, addr) = match addr.v4_bytes() {
        Some(v4) => (libc::AF_INET, 4, v4.to_vec()),
        None => (libc::AF_INET6, 8, addr.bytes().to_vec()),
    };
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    bytes[at..at + addr.len()].copy_from_slice(&addr);
}
