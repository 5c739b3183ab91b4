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
