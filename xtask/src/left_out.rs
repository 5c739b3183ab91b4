//! Parts of the gate that were left out, told at once and again in the last lines, with what brings them.

use std::sync::{Mutex, PoisonError};

static ALL: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Tells that `what` is left out, and what brings it.
pub(crate) fn tell(what: &str) {
    println!("LEFT OUT: {what}");
    ALL.lock().unwrap_or_else(PoisonError::into_inner).push(what.into());
}

/// Returns everything that was told so far, a paragraph each.
pub(crate) fn all() -> String {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().map(|what| format!("LEFT OUT: {}\n", what.trim_end())).collect()
}
