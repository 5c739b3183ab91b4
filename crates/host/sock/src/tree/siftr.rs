//! `net.inet.siftr`: a line about a connection for each of its packets, turned on and off while they flow.

use super::{Access, Branch, Cores, Node, TreeError};
use crate::clock::wall_clock;
use crate::clock::{Clock, SystemClock};
use crate::net::Stack;
use crate::settings::Settings;
use base::{Duration, Instant};
use stack::ProbeId;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trace::siftr::{CONTROLS, ControlError, Hook, LOGFILE, Siftr};

const PREFIX: &str = "net.inet.siftr";

/// Opens the log's file that the settings name, or that of a log that they begin, and keeps it open: this process is
/// about to give up rights, and may begin the log afterwards.
///
/// # Errors
/// The file cannot be opened; says which and why.
pub fn keep_log(settings: &Settings) -> Result<(), String> {
    let assigned = |wanted: &str| {
        let name = format!("{PREFIX}.{wanted}");
        settings.sysctl.0.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    };
    let begun = (assigned("enabled") == Some("1")).then_some(LOGFILE);
    // The tree refuses a path that is not absolute.
    match assigned("logfile").or(begun).filter(|path| Path::new(path).is_absolute()) {
        Some(path) => trace::siftr::keep(path.as_ref()).map_err(|error| format!("{PREFIX}.logfile: {error}")),
        None => Ok(()),
    }
}

/// The branch.
pub(super) struct Logging(Mutex<Siftr<Watched>>);

impl Logging {
    pub(super) fn new(cores: &[Stack]) -> Logging {
        let cores = Watched { stacks: cores.to_vec(), hooks: Vec::new() };
        Logging(Mutex::new(Siftr::new(cores, RandomState::new().build_hasher().finish())))
    }

    fn siftr(&self) -> MutexGuard<'_, Siftr<Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Branch for Logging {
    fn prefix(&self) -> &str {
        PREFIX
    }

    fn reaches_out(&self, name: &str, value: &str) -> bool {
        match control(name) {
            "logfile" => true,
            "enabled" => value != "0",
            _ => false,
        }
    }

    fn nodes(&self, _: &Cores) -> Vec<Node> {
        let node = |control: &trace::siftr::Control| Node {
            name: format!("{PREFIX}.{}", control.name),
            access: Access::ReadWrite,
            form: control.form.into(),
            help: control.help.into(),
        };
        CONTROLS.iter().map(node).collect()
    }

    fn get(&self, _: &Cores, name: &str) -> Result<String, TreeError> {
        self.siftr().get(control(name)).map_err(|error| told(name, &error))
    }

    fn set(&self, _: &Cores, name: &str, value: &str) -> Result<(), TreeError> {
        self.siftr().set(control(name), value).map_err(|error| told(name, &error))
    }
}

/// The last part of a name.
fn control(name: &str) -> &str {
    name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

fn told(name: &str, error: &ControlError) -> TreeError {
    let text = format!("{name}: {error}");
    match error {
        ControlError::Unknown => TreeError::Unknown(text),
        ControlError::Value(_) => TreeError::Invalid(text),
        ControlError::Busy => TreeError::Busy(text),
        ControlError::File(_, error) => match error.kind() {
            ErrorKind::NotFound => TreeError::Missing(text),
            ErrorKind::PermissionDenied => TreeError::Access(text),
            _ => TreeError::Invalid(text),
        },
    }
}

/// The cores of a process, each with its hook while a log is written.
struct Watched {
    stacks: Vec<Stack>,
    hooks: Vec<ProbeId>,
}

impl trace::siftr::Cores for Watched {
    fn time(&self) -> (Instant, Duration) {
        let now = SystemClock::new().now();
        (now, wall_clock().since(now))
    }

    fn count(&self) -> usize {
        self.stacks.len()
    }

    fn attach(&mut self, hooks: Vec<Hook>) {
        for (stack, hook) in self.stacks.iter().zip(hooks) {
            let ids = &mut self.hooks;
            stack.inspect(Box::new(|engine| ids.push(engine.core().attach(Box::new(hook)))));
        }
    }

    fn detach(&mut self) {
        for (stack, id) in self.stacks.iter().zip(self.hooks.drain(..)) {
            stack.inspect(Box::new(move |engine| drop(engine.core().detach(id))));
        }
    }
}
