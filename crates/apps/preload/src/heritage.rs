//! Sockets across exec. A program that this one runs has its descriptors and none of its tables: a variable of the
//! environment tells the program's copy of this library which of them listen, or will, and which are connections that a
//! parent relays. Descriptors are named by the kernel's inode, so that any number will do, and another file under a
//! number is not taken for a socket.

use crate::boundary::inside;
use crate::description::{Description, Family, Kind, NONE, Relayed, StoredOption};
use crate::real;
use crate::table::{self, Held};
use crate::{kernel, listener, relay, stored};
use libc::c_int;
use std::ffi::CString;
use std::fmt::Write;

/// The variable, and the beginning of its entry in an environment.
const VARIABLE: &str = "MILLSTREAM_SOCKETS";
pub(crate) const ENTRY: &[u8] = b"MILLSTREAM_SOCKETS=";

/// One socket as the variable has it.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    inode: u64,
    kind: Kind,
    v6: bool,
    nonblocking: bool,
    fastened: bool,
    /// A listener whose master leaves connections to this program.
    serves: bool,
    /// Of a listener its backlog; of a connection that the program may take its number: those share one inode.
    backlog: c_int,
    stored_options: Vec<StoredOption>,
    relayed: Option<Relayed>,
    names: Option<(Vec<u8>, Vec<u8>)>,
}

impl Record {
    /// Returns what a program is told of `held` under the number `fd`; `None` of what means nothing to another program.
    fn of(held: &Held, fd: c_int) -> Option<Record> {
        let kind = held.kind();
        if !matches!(kind, Kind::Fresh | Kind::Listener | Kind::Relayed | Kind::Inherited) {
            return None;
        }
        let taken_later = (kind == Kind::Inherited)
            .then(|| Relayed { handle: relay::handle(held), channel: relay::channel() });
        let more = held.more();
        Some(Record {
            inode: kernel::inode(fd)?,
            kind,
            v6: held.is_v6(),
            nonblocking: held.is_nonblocking(),
            fastened: more.fastened,
            serves: matches!(held.family(), Family::Master | Family::Servant),
            backlog: if taken_later.is_some() { fd } else { more.backlog },
            stored_options: more.stored_options.clone(),
            relayed: taken_later.or(more.relayed),
            names: more.names.clone(),
        })
    }

    /// Returns what a spawned program is told of a relayed connection.
    pub(crate) fn relayed(
        fd: c_int,
        v6: bool,
        relayed: Relayed,
        names: (Vec<u8>, Vec<u8>),
    ) -> Option<Record> {
        Some(Record {
            inode: kernel::inode(fd)?,
            kind: Kind::Relayed,
            v6,
            nonblocking: false,
            fastened: false,
            serves: false,
            backlog: 0,
            stored_options: Vec::new(),
            relayed: Some(relayed),
            names: Some(names),
        })
    }

    /// Returns what a spawned program is told of a connection that it takes when it uses it.
    pub(crate) fn taken_later(fd: c_int, held: &Held, channel: c_int) -> Option<Record> {
        let relayed = Relayed { handle: held.name(), channel };
        let names = (Vec::new(), Vec::new());
        let record = Record::relayed(fd, held.is_v6(), relayed, names)?;
        let nonblocking = held.is_nonblocking();
        Some(Record { kind: Kind::Inherited, nonblocking, backlog: fd, names: None, ..record })
    }

    fn write(&self, to: &mut String) {
        let (flags, names) = (
            u8::from(self.v6)
                | u8::from(self.nonblocking) << 1
                | u8::from(self.fastened) << 2
                | u8::from(self.serves) << 3,
            self.names.clone().unwrap_or_default(),
        );
        let relayed = self.relayed.unwrap_or(Relayed { handle: 0, channel: NONE });
        // Writing to a string does not fail.
        let _ = write!(to, "{},{},{flags},{},", self.inode, self.kind as u8, self.backlog);
        let _ = write!(to, "{},{},", relayed.handle, relayed.channel);
        let _ = write!(to, "{},{}", relay::hex(&names.0), relay::hex(&names.1));
        for stored in &self.stored_options {
            let _ = write!(to, ",{}.{}.{}", stored.level, stored.name, relay::hex(&stored.value));
        }
        to.push(';');
    }

    /// Reads one; `None` for what this library did not write.
    fn read(text: &str) -> Option<Record> {
        let mut words = text.split(',');
        let mut number = || words.next()?.parse::<i64>().ok();
        let (inode, kind, flags, backlog) = (number()?, number()?, number()?, number()?);
        let (handle, channel) = (number()?, number()?);
        let (own, peer) = (relay::bytes(words.next()?)?, relay::bytes(words.next()?)?);
        let mut stored_options = Vec::new();
        for word in words {
            let mut parts = word.split('.');
            let mut number = || parts.next()?.parse::<c_int>().ok();
            let (level, name) = (number()?, number()?);
            stored_options.push(StoredOption { level, name, value: relay::bytes(parts.next()?)? });
        }
        let kinds = [Kind::Fresh, Kind::Listener, Kind::Relayed, Kind::Inherited];
        Some(Record {
            inode: u64::try_from(inode).ok()?,
            kind: kinds.into_iter().find(|known| i64::from(*known as u8) == kind)?,
            v6: flags & 1 != 0,
            nonblocking: flags & 2 != 0,
            fastened: flags & 4 != 0,
            serves: flags & 8 != 0,
            backlog: c_int::try_from(backlog).ok()?,
            stored_options,
            relayed: (handle != 0)
                .then_some(Relayed { handle: handle as usize, channel: c_int::try_from(channel).ok()? }),
            names: (!own.is_empty()).then_some((own, peer)),
        })
    }
}

/// Returns the entry for another program's environment: this process's sockets, and `more` besides. `None` if there are
/// none. Channels to those that relay stay open over the exec.
pub(crate) fn entry(more: Vec<Record>) -> Option<CString> {
    let mut records = more;
    let mut seen = Vec::new();
    for fd in table::all().0 {
        let Some(held) = table::ours(fd) else { continue };
        // SAFETY: numbers alone.
        let stays = unsafe { real::fcntl(fd, libc::F_GETFD, 0) } & libc::FD_CLOEXEC == 0;
        if held.kind() == Kind::Inherited {
            records.extend(Record::of(&held, fd).filter(|_| stays && relay::channel() != NONE));
        } else if !seen.contains(&held.name()) {
            seen.push(held.name());
            if stays {
                held.share();
                if held.kind() == Kind::Listener {
                    listener::leave_to_children(&held);
                }
            }
            records.extend(Record::of(&held, fd));
        }
    }
    if records.is_empty() {
        return None;
    }
    let mut text = String::from_utf8_lossy(ENTRY).into_owned();
    for record in &records {
        record.write(&mut text);
        if let Some(relayed) = record.relayed {
            // SAFETY: numbers alone. A channel that is gone stays gone.
            unsafe { real::fcntl(relayed.channel, libc::F_SETFD, 0) };
        }
    }
    CString::new(text).ok()
}

/// Returns the process's descriptors; none where /proc is not to be had.
pub(crate) fn numbers() -> Vec<c_int> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let number = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.ok()?.file_name().to_string_lossy().parse::<c_int>().ok()
    };
    folder.filter_map(number).collect()
}

/// Takes over what the program before this one had, as its variable says. Returns true if connections that the program
/// may yet take are among it: then forks matter.
pub(crate) fn adopt() -> bool {
    let Some(text) = std::env::var_os(VARIABLE) else { return false };
    inside(|| {
        // SAFETY: no other thread runs yet: the dynamic linker calls this before the program.
        unsafe { std::env::remove_var(VARIABLE) };
        let text = text.to_string_lossy();
        let records: Vec<Record> = text.split(';').filter_map(Record::read).collect();
        let numbers = numbers();
        let (later, named): (Vec<&Record>, Vec<&Record>) =
            records.iter().partition(|record| record.kind == Kind::Inherited);
        let takes_later = take_later(&later);
        for record in named {
            let mut known: Option<Held> = None;
            for fd in numbers.iter().copied().filter(|fd| kernel::inode(*fd) == Some(record.inode)) {
                let held = known.get_or_insert_with(|| record.make()).clone();
                table::put(fd, held);
            }
            if let (Some(_), Some(relayed)) = (known, record.relayed) {
                relay::adopt_channel(relayed.channel);
            }
        }
        takes_later
    })
}

/// Connections that the program takes when it uses them. Returns true if there are any.
fn take_later(records: &[&Record]) -> bool {
    let mut known: Vec<(usize, Held)> = Vec::new();
    for record in records {
        let (fd, Some(relayed)) = (record.backlog, record.relayed) else { continue };
        if kernel::inode(fd) != Some(record.inode) || kernel::inode(relayed.channel).is_none() {
            continue;
        }
        if known.is_empty() {
            relay::adopt_way(relayed.channel);
        }
        let found = known.iter().find(|(handle, _)| *handle == relayed.handle).map(|(_, held)| held.clone());
        let held = found.unwrap_or_else(|| {
            let held = record.make();
            known.push((relayed.handle, held.clone()));
            held
        });
        table::put(fd, held);
    }
    !known.is_empty()
}

impl Record {
    fn make(&self) -> Held {
        let held = Description::make(self.kind, self.v6, NONE);
        held.set_nonblocking(self.nonblocking);
        held.set_family(if self.serves { Family::Servant } else { Family::Heir });
        // The program that had it before may live on in another process.
        held.share();
        let mut more = held.more();
        (more.backlog, more.fastened) = (self.backlog, self.fastened);
        (more.stored_options, more.relayed, more.names) =
            (self.stored_options.clone(), self.relayed, self.names.clone());
        held.set_device(stored::device_of(&self.stored_options));
        drop(more);
        held
    }
}

#[cfg(test)]
mod tests;
