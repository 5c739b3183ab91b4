//! Goal: what another user put into the way is refused at once, and the error names it and says what to do.
use super::*;
use std::ffi::CString;
use std::os::unix::fs::PermissionsExt;

fn fifo(path: &Path) {
    let name = CString::new(path.to_str().expect("text")).expect("no NUL");
    // SAFETY: a string that ends in NUL.
    sys::check(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }).expect("a FIFO");
}

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("ms-shared-{name}-{}", std::process::id()));
        make(&dir, 0o700).expect("a directory");
        Place(dir)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left over lies in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let place = Place::new("kinds");
    let path = place.0.join("x");
    fifo(&path);
    for options in [File::options().read(true), File::options().read(true).write(true)] {
        let why = open(options, &path).expect_err("a FIFO").to_string();
        assert!(why.contains("/x") && why.contains("FIFO") && why.contains("sudo rm"), "{why}");
    }
    fs::remove_file(&path).expect("it is there");
    std::os::unix::fs::symlink("/dev/zero", &path).expect("a link");
    open(File::options().read(true), &path).expect_err("links are not followed");
    fs::remove_file(&path).expect("it is there");
    fs::write(&path, "x").expect("a file");
    open(File::options().read(true), &path).expect("a file of our own");
    if sys::user() != 0 {
        return eprintln!("skipped: only root can give files away");
    }
    std::os::unix::fs::chown(&path, Some(65_534), None).expect("root may");
    let why = open(File::options().read(true), &path).expect_err("another user's").to_string();
    assert!(why.contains("65534") || why.contains("nobody"), "{why}");
}

#[test]
fn a_directory_that_is_not_ours_is_refused() {
    let place = Place::new("owner");
    let user = sys::user();
    check(&place.0, user).expect("ours");
    let why = check(&place.0, user + 1).expect_err("another user's").to_string();
    assert!(why.contains("ms-shared-owner") && why.contains("sudo rm -r"), "{why}");
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).expect("a mode");
    let why = check(&place.0, user).expect_err("others may write").to_string();
    assert!(why.contains("chmod go-w"), "{why}");
    let path = place.0.join("x");
    fifo(&path);
    assert!(check(&path, user).expect_err("a FIFO").to_string().contains("FIFO"));
    assert!(make(&path, 0o700).is_ok(), "what is there is looked at by `check`");
}

#[test]
fn our_directory_is_believed() {
    let own = own().expect("a directory");
    assert!(believed().contains(&own), "{own:?} {:?}", believed());
}
