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
mod tests {
    //! Goal: the order of sources, and lists that are not pairs.
    use super::*;
    use std::ptr::{null, null_mut};

    #[test]
    fn the_later_wins() {
        let path = std::env::temp_dir().join(format!("ms-capi-{}.toml", std::process::id()));
        std::fs::write(&path, "cores = 3\nspin_us = 5\nseed = 7\n").unwrap();
        let path_text = path.to_str().unwrap();
        let environment = [("MILLSTREAM_SPIN_US", "6"), ("MILLSTREAM_SEED", "8")];
        let vars = || environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let environment = |settings: &mut Settings| settings.from_env(vars());
        let given = settings(&[("seed", "9"), (CONFIG, path_text)], environment).unwrap();
        assert_eq!((given.cores, given.spin_us, given.seed), (3, 6, 9));
        std::fs::remove_file(&path).unwrap();
        let error = settings(&[(CONFIG, path_text)], environment).unwrap_err();
        assert!(error.0.contains(path_text), "{error}");
        assert!(settings(&[("colour", "red")], environment).unwrap_err().0.contains("colour"));
    }

    #[test]
    fn lists() {
        let whole = [c"cores".as_ptr(), c"2".as_ptr(), null()];
        let odd = [c"cores".as_ptr(), null()];
        // SAFETY: arrays that end in NULL.
        unsafe {
            assert_eq!(pairs(null_mut()).unwrap(), []);
            assert_eq!(pairs(whole.as_ptr()).unwrap(), [("cores", "2")]);
            assert!(pairs(odd.as_ptr()).is_err());
        }
    }
}
