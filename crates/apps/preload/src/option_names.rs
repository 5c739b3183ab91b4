//! Names of socket options, for people: a number and a level explain nothing.

use libc::c_int;

/// Returns an option's name in C, or its numbers where the boundary's table has none.
pub(crate) fn of(level: c_int, name: c_int) -> String {
    let known = sock::boundary::name_of(level, name);
    known.map_or_else(|| format!("socket option {name} of level {level}"), ToOwned::to_owned)
}

#[cfg(test)]
mod tests;
