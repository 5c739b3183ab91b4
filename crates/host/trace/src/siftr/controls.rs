//! The controls of `net.inet.siftr`: what can be read and set, and what that does.

use super::{Hook, Log, LogConfig, Profile, Summary};
use base::{Duration, Instant};
use pio::{regular, unix_socket};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The cores whose packets are logged.
pub trait Cores {
    /// The time of the cores at this moment, and from 1970 to its beginning.
    fn time(&self) -> (Instant, Duration);

    /// How many there are.
    fn count(&self) -> usize;

    /// Gives each core its hook.
    fn attach(&mut self, hooks: Vec<Hook>);

    /// Takes the hooks back, and drops them.
    fn detach(&mut self);
}

/// A control could not be set.
#[derive(Debug)]
pub enum ControlError {
    /// There is no such control.
    Unknown,
    /// It does not take this value; what it takes.
    Value(&'static str),
    /// Not while a log is written.
    Busy,
    /// The file, or what was to be written to it.
    File(PathBuf, io::Error),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::Unknown => {
                let known: Vec<_> = CONTROLS.iter().map(|control| control.name).collect();
                write!(f, "no such control; there are {}", known.join(", "))
            }
            ControlError::Value(takes) => write!(f, "takes {takes}"),
            ControlError::Busy => f.write_str("cannot be changed while it is enabled"),
            ControlError::File(path, error) => {
                write!(f, "{}: {error}", path.display())?;
                if error.kind() != io::ErrorKind::PermissionDenied {
                    return Ok(());
                }
                let user = unix_socket::user_name(unix_socket::own_user());
                let folder = path.parent().unwrap_or(path).display();
                write!(
                    f,
                    "; this process runs as {user}, who must be able to write to {folder}: name a file elsewhere in \
                     net.inet.siftr.logfile, or name this one in the settings of `millstream run` \
                     (`--set net.inet.siftr.logfile={}`), and it is opened before the program gives up rights",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for ControlError {}

/// A row of [`CONTROLS`].
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// Its name.
    pub name: &'static str,
    /// Form of a value.
    pub form: &'static str,
    /// Meaning or effect.
    pub help: &'static str,
}

/// Every control.
pub const CONTROLS: &[Control] = &[
    Control { name: "enabled", form: "0 or 1", help: "A log is written; setting it begins and ends one." },
    Control {
        name: "logfile",
        form: "an absolute path",
        help: "The file, which is appended to; a log that is being written goes on in the new one.",
    },
    Control {
        name: "ppl",
        form: "a number of packets, 1 or more",
        help: "Of how many packets of a flow, both directions together, one is logged.",
    },
    Control {
        name: "genhashes",
        form: "0 or 1",
        help: "Packets are hashed (IPv4 only), so that they are found again in another host's log.",
    },
    Control {
        name: "port_filter",
        form: "a port, or 0 for all",
        help: "Only packets to or from this port are logged.",
    },
    Control {
        name: "profile",
        form: "siftr-1.2, freebsd-9.3, siftr-1.2.4, siftr-1.3 or teacup",
        help: "The format of the log.",
    },
];

/// Returns the form of a value of `name`.
fn form(name: &str) -> &'static str {
    CONTROLS.iter().find(|control| control.name == name).map_or("", |control| control.form)
}

/// The file where none is named.
pub const LOGFILE: &str = "/var/log/siftr.log";

/// Files that were opened while this process might, for logs that begin later.
static KEPT: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// Opens a log's file, and keeps it open for a log that begins when this process may not open it any more.
///
/// # Errors
/// [`ControlError::File`].
pub fn keep(path: &Path) -> Result<(), ControlError> {
    let file = open(path)?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.retain(|(known, _)| known != path);
    kept.push((path.into(), file));
    Ok(())
}

/// The controls, and the log while there is one.
pub struct Siftr<C: Cores> {
    cores: C,
    config: LogConfig,
    logfile: PathBuf,
    log: Option<Log>,
}

impl<C: Cores> Siftr<C> {
    /// Controls as they are in the beginning: not enabled. `seed` is for what must not be guessed.
    pub fn new(cores: C, seed: u64) -> Siftr<C> {
        let config = LogConfig { seed, ..LogConfig::default() };
        Siftr { cores, config, logfile: PathBuf::from(LOGFILE), log: None }
    }

    /// The value of a control.
    ///
    /// # Errors
    /// [`ControlError::Unknown`].
    pub fn get(&self, name: &str) -> Result<String, ControlError> {
        let bit = |on: bool| u8::from(on).to_string();
        Ok(match name {
            "enabled" => bit(self.log.is_some()),
            "logfile" => self.logfile.display().to_string(),
            "ppl" => self.config.ppl.to_string(),
            "genhashes" => bit(self.config.genhashes),
            "port_filter" => self.config.port_filter.to_string(),
            "profile" => self.config.profile.name().into(),
            _ => return Err(ControlError::Unknown),
        })
    }

    /// Sets a control, and does what that means.
    ///
    /// # Errors
    /// Why not. Disabling a log whose file takes nothing any more disables it, and says so.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ControlError> {
        let refused = ControlError::Value(form(name));
        let bit = match value {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        match name {
            "enabled" => match bit.ok_or(refused)? {
                true => self.enable(),
                false => self.disable().map(|_| ()),
            },
            "logfile" if !Path::new(value).is_absolute() => Err(refused),
            "logfile" => self.set_logfile(Path::new(value)),
            "ppl" => {
                self.config.ppl = value.parse().ok().filter(|&ppl| ppl > 0).ok_or(refused)?;
                self.tell()
            }
            "genhashes" => {
                self.config.genhashes = bit.ok_or(refused)?;
                self.tell()
            }
            "port_filter" => {
                self.config.port_filter = value.parse().ok().ok_or(refused)?;
                self.tell()
            }
            "profile" if self.log.is_some() => Err(ControlError::Busy),
            "profile" => {
                self.config.profile = Profile::find(value).ok_or(refused)?;
                Ok(())
            }
            _ => Err(ControlError::Unknown),
        }
    }

    fn tell(&self) -> Result<(), ControlError> {
        if let Some(log) = &self.log {
            log.set(&self.config);
        }
        Ok(())
    }

    fn enable(&mut self) -> Result<(), ControlError> {
        if self.log.is_some() {
            return Ok(());
        }
        let file = open(&self.logfile)?;
        let (now, epoch) = self.cores.time();
        let config = LogConfig { cores: self.cores.count(), epoch, ..self.config.clone() };
        let begun = Log::begin(&config, Box::new(file), now);
        let (log, hooks) = begun.map_err(|error| ControlError::File(self.logfile.clone(), error))?;
        self.cores.attach(hooks);
        self.log = Some(log);
        Ok(())
    }

    /// Ends the log, if one is written; what its last line says.
    ///
    /// # Errors
    /// The file's error. The log is over nevertheless.
    pub fn disable(&mut self) -> Result<Option<Summary>, ControlError> {
        let Some(log) = self.log.take() else { return Ok(None) };
        self.cores.detach();
        let ended = log.end(self.cores.time().0);
        ended.map(Some).map_err(|error| ControlError::File(self.logfile.clone(), error))
    }

    /// The new file is opened first: if that fails, the old one stays.
    fn set_logfile(&mut self, path: &Path) -> Result<(), ControlError> {
        if let Some(log) = &self.log {
            let file = open(path)?;
            let old = std::mem::replace(&mut self.logfile, path.into());
            return log.switch(Box::new(file)).map_err(|error| ControlError::File(old, error));
        }
        self.logfile = path.into();
        Ok(())
    }
}

impl<C: Cores> Drop for Siftr<C> {
    /// Writes the logged records and the last line; an error of the file cannot be reported any more.
    fn drop(&mut self) {
        let _ = self.disable();
    }
}

fn open(path: &Path) -> Result<File, ControlError> {
    let options = &mut OpenOptions::new();
    let opened = regular::unwaiting(options.create(true).append(true).mode(0o644)).open(path);
    let opened = opened.or_else(|error| {
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == path).map_or(Err(error), |(_, file)| file.try_clone())
    });
    opened.map_err(|error| ControlError::File(path.into(), error))
}
