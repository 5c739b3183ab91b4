//! Which ports connections leave from that the owner of an interface's XDP program has, for other processes to see.
//!
//! Such a port has no socket in the kernel (`xdp::claims` says why), and the XDP program takes what comes for it:
//! another process that used it too would never get an answer. So the owner notes its ports in a file, a bit each, and
//! who is about to use a port looks there. The owner notes before it asks the kernel, the others ask the kernel before
//! they look: of two who want the same port at once, one at least sees the other. A note counts while its author
//! lives, who holds a lock on the file.

use crate::sys::{self, Lock};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Octets of the notes.
const LEN: usize = (1 << 16) / 8;
/// The octet that the author locks, behind the notes.
const AUTHOR: i64 = LEN as i64;

/// The author's side.
pub(crate) struct Ledger {
    path: PathBuf,
    file: File,
    notes: Box<[u8; LEN]>,
}

/// How the names of all ledgers begin.
const NAME: &str = "millstream.xdp.";
/// How often one that was taken for a dead author's is begun again.
const TRIES: u32 = 5;

fn path(ifindex: u32) -> io::Result<PathBuf> {
    Ok(Path::new(sys::SHARED_DIRECTORY).join(format!("{NAME}{}.{ifindex}", sys::network()?)))
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW).open(path)
}

impl Ledger {
    /// Begins the notes on interface `ifindex` of the caller's network.
    pub(crate) fn new(ifindex: u32) -> io::Result<Ledger> {
        let path = path(ifindex)?;
        sweep()?;
        for _ in 0..TRIES {
            // What somebody else put in our way.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = open(File::options().read(true).write(true).create_new(true).mode(0o644), &path)?;
            file.set_len(LEN as u64)?;
            Lock::Take.of(file.as_fd(), AUTHOR)?;
            if file.metadata()?.nlink() > 0 {
                return Ok(Ledger { path, file, notes: Box::new([0; LEN]) });
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Notes that connections leave from `port`, or no more.
    pub(crate) fn note(&mut self, port: u16, ours: bool) -> io::Result<()> {
        let (at, bit) = (usize::from(port / 8), 1 << (port % 8));
        let octet = &mut self.notes[at];
        *octet = if ours { *octet | bit } else { *octet & !bit };
        self.file.write_all_at(&[*octet], at as u64)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Left behind it counts for nothing.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what dead authors left.
fn sweep() -> io::Result<()> {
    for entry in fs::read_dir(sys::SHARED_DIRECTORY)?.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME)) {
            continue;
        }
        // What goes away meanwhile, or is another user's, is no matter of ours.
        let Ok(file) = open(File::options().read(true), &entry.path()) else { continue };
        if !Lock::is_others(file.as_fd(), AUTHOR)? {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Does the owner of the XDP program on interface `ifindex`, if there is one, let connections leave from `port`?
pub(crate) fn is_taken(ifindex: u32, port: u16) -> io::Result<bool> {
    let file = match open(File::options().read(true), &path(ifindex)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    // Only root and we ourselves are believed.
    let author = file.metadata()?.uid();
    if author != 0 && author != sys::user() || !Lock::is_others(file.as_fd(), AUTHOR)? {
        return Ok(false);
    }
    let mut octet = [0];
    file.read_exact_at(&mut octet, u64::from(port / 8))?;
    Ok(octet[0] >> (port % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    //! Goal: what the owner of the XDP program uses nobody else takes, while it lives, and the other way round.
    use crate::testnet::{addr, cable, own_namespace};
    use crate::{ClaimError, PortClaim};

    #[test]
    fn a_port_of_the_program_is_nobody_elses() {
        if !own_namespace() {
            return;
        }
        let (_index, _far) = cable("ms-l0", "ms-l1", 11);
        let open = || crate::open("nic:ms-l0", 1).expect("a port").remove(0);
        let (mut xdp, mut packet) = (open(), open());
        if !xdp.caps().name.starts_with("xdp") {
            return eprintln!("SKIPPED: no AF_XDP");
        }
        let leave = |port| PortClaim {
            addr: addr("0.0.0.0"),
            port,
            reuse_port: false,
            ephemeral: true,
            v6_only: true,
        };
        let listen = |port| PortClaim { ephemeral: false, ..leave(port) };
        let in_use = |result| assert!(matches!(result, Err(ClaimError::InUse)), "{result:?}");
        xdp.claim(&leave(50_000)).expect("free");
        in_use(packet.claim(&leave(50_000)));
        in_use(packet.claim(&listen(50_000)));
        packet.claim(&leave(50_001)).expect("free");
        in_use(xdp.claim(&leave(50_001)));
        in_use(xdp.claim(&listen(50_001)));
        xdp.release(&leave(50_000));
        packet.claim(&leave(50_000)).expect("free again");
        xdp.claim(&leave(50_002)).expect("free");
        drop(xdp);
        packet.claim(&listen(50_002)).expect("its owner is gone");
    }
}
