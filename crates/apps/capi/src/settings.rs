//! Settings as C programs give them: names and values in turn, a NULL at the end.

use crate::boundary::{Outcome, refuse};
use crate::memory;
use libc::c_char;
use sock::{SettingError, Settings};
use std::path::Path;

/// The key that names a file with more of them.
const CONFIG: &str = "config";

/// Names and values.
///
/// # Safety
/// `list` is NULL or an array of strings that ends in NULL.
pub(crate) unsafe fn pairs<'a>(list: *const *const c_char) -> Outcome<Vec<(&'a str, &'a str)>> {
    let mut pairs = Vec::new();
    if list.is_null() {
        return Ok(pairs);
    }
    loop {
        // SAFETY: the caller vouches for the array up to its NULL, which has not come yet.
        let (name, value) = unsafe {
            let at = list.add(2 * pairs.len());
            if (*at).is_null() {
                return Ok(pairs);
            }
            let name = memory::text(*at)?;
            if (*at.add(1)).is_null() {
                return Err(refuse(libc::EINVAL, &format!("the setting {name} has no value")));
            }
            (name, memory::text(*at.add(1))?)
        };
        pairs.push((name, value));
    }
}

/// Reads settings from file, environment and list, in this order: the later wins.
pub(crate) fn settings(
    list: &[(&str, &str)],
    environment: impl FnOnce(&mut Settings) -> Result<(), SettingError>,
) -> Result<Settings, SettingError> {
    let mut settings = Settings::default();
    let (files, plain): (Vec<_>, Vec<_>) = list.iter().partition(|(name, _)| *name == CONFIG);
    for (_, path) in files {
        settings.from_file(Path::new(path))?;
    }
    environment(&mut settings)?;
    for (name, value) in plain {
        settings.set(name, value)?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests;
