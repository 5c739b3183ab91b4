//! Why a port could not be opened, and what to do about it.

use std::fmt;
use std::io;

/// Why a port could not be opened. Its text says what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The text of the link is invalid.
    Spec {
        /// Text of the link.
        spec: String,
        /// Its fault.
        why: String,
    },
    /// No such interface.
    NoInterface {
        /// The one asked for.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// Something this port needs does not exist on the machine.
    Missing {
        /// Missing object.
        what: String,
        /// How to get it.
        help: String,
    },
    /// Not permitted.
    Privilege {
        /// Purpose.
        what: String,
        /// How to get the privilege, or do without.
        help: String,
    },
    /// Another program has it.
    Busy {
        /// Failed object.
        what: String,
        /// Remedy.
        help: String,
    },
    /// It exists but cannot be used this way.
    Unusable {
        /// Object.
        what: String,
        /// Remedy.
        help: String,
    },
    /// Anything else the kernel said.
    Os {
        /// Attempted action.
        doing: String,
        /// The kernel's error.
        error: io::Error,
    },
}

impl OpenError {
    /// The kernel's `error` while `doing` something.
    pub fn os(doing: &str, error: io::Error) -> OpenError {
        OpenError::Os { doing: doing.into(), error }
    }

    /// There is no interface `name`; says which there are, those with the nearest names first.
    pub fn no_interface(name: &str) -> OpenError {
        let known = crate::netlink::interfaces().unwrap_or_default();
        let mut known: Vec<_> = known.into_iter().filter(|i| !i.loopback).map(|i| i.name).collect();
        let near: Vec<_> =
            base::nearest(name, known.iter().map(String::as_str)).into_iter().map(String::from).collect();
        known.sort_by_key(|other| near.iter().position(|n| n == other).unwrap_or(near.len()));
        OpenError::NoInterface { name: name.into(), known }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Spec { spec, why } => write!(f, "'{spec}': {why}"),
            OpenError::NoInterface { name, known } if known.is_empty() => {
                write!(f, "no interface '{name}', and no other but loopback")
            }
            OpenError::NoInterface { name, known } => {
                write!(f, "no interface '{name}'; there are: {}", known.join(", "))
            }
            OpenError::Missing { what, help } => write!(f, "{what} is missing: {help}"),
            OpenError::Privilege { what, help } => write!(f, "no permission for {what}: {help}"),
            OpenError::Busy { what, help } => write!(f, "{what} is in use: {help}"),
            OpenError::Unusable { what, help } => write!(f, "{what} cannot be used: {help}"),
            OpenError::Os { doing, error } => write!(f, "cannot {doing}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Os { error, .. } => Some(error),
            _ => None,
        }
    }
}
