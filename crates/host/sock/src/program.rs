//! Programs on disk: can one be run on our stack by loading a library into it?

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Scripts whose interpreter is a script, and so on, end here.
const DEPTH: u32 = 4;
/// Bytes of a file that say what it is.
const HEAD: u64 = 8_192;
/// PT_INTERP, of the program headers of ELF: the loader that links the program when it starts.
const PT_INTERP: u32 = 3;

/// Kind of program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// Linked when it starts, with what it is told to load.
    Dynamic,
    /// Linked for good.
    Static,
    /// It gets another user's privileges, and loads nothing that it is told to.
    Privileged,
    /// Linked when it starts, but it makes its system calls itself, without the C library: Go's run time does.
    OwnCalls,
    /// Of 32 bits, where the library has 64.
    Narrow,
    /// Not to be read, or not a program.
    Unknown,
}

impl Program {
    /// Of the file at `path`; of a script, its interpreter.
    pub fn of(path: &Path) -> Program {
        of(path, DEPTH)
    }

    /// Why a library cannot be loaded into it, if so.
    pub fn complaint(self) -> Option<&'static str> {
        match self {
            Program::Static => Some("is linked statically"),
            Program::Privileged => Some("changes its privileges when it starts"),
            Program::OwnCalls => Some("makes its system calls without the C library (Go)"),
            Program::Narrow => Some("is a program of 32 bits"),
            Program::Dynamic | Program::Unknown => None,
        }
    }
}

fn of(path: &Path, depth: u32) -> Program {
    let Ok(file) = File::open(path) else { return Program::Unknown };
    let Ok(data) = file.metadata() else { return Program::Unknown };
    let mut head = Vec::new();
    if file.take(HEAD).read_to_end(&mut head).is_err() {
        return Program::Unknown;
    }
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line);
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let interpreter = words.next().map(|word| PathBuf::from(OsString::from_vec(word.to_vec())));
        return match interpreter.filter(|_| depth > 0) {
            Some(interpreter) => of(&interpreter, depth - 1),
            None => Program::Unknown,
        };
    }
    let others =
        data.mode() & 0o4000 != 0 && std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() != data.uid());
    match linked_at_start(&head) {
        None if head.starts_with(b"\x7fELF\x01") => Program::Narrow,
        None => Program::Unknown,
        Some(_) if others => Program::Privileged,
        Some(true) if is_go(&head) => Program::OwnCalls,
        Some(true) => Program::Dynamic,
        Some(false) => Program::Static,
    }
}

/// Returns true if a note among the first bytes is Go's: its linker puts the build's number right behind the headers.
fn is_go(head: &[u8]) -> bool {
    // The length of the name, that of the number, the kind (4), and the name.
    head.windows(16).any(|note| note[..4] == [4, 0, 0, 0] && note[8..] == *b"\x04\0\0\0Go\0\0")
}

/// Does a 64-bit little-endian ELF program name a dynamic linker? `None` for anything else.
fn linked_at_start(head: &[u8]) -> Option<bool> {
    if head.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let number = |at: usize, len: usize| {
        let mut word = [0; 8];
        word[..len].copy_from_slice(head.get(at..at.checked_add(len)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    // e_phoff, e_phentsize, e_phnum.
    let (at, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut kinds = (0..count).map(|row| number(at.checked_add(row.checked_mul(size)?)?, 4));
    Some(kinds.any(|kind| kind == Some(PT_INTERP as usize)))
}

/// Where a program is that is called `name`, as execvp(3) looks for it.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests;
