//! The tree of named values of a running process, in the manner of FreeBSD's sysctl: `net.inet.tcp.cc.algorithm` and
//! its kin, read and written as text, on all cores.
//!
//! A [`Branch`] owns the names under its prefix. [`Tree::new`] hangs in those of TCP: its settings (`net.inet.tcp`) and
//! congestion control (`net.inet.tcp.cc`); others add theirs with [`Tree::add`]. `millstream sysctl`, the settings
//! `sysctl` and `net...`, and the C library are APIs to this tree.
//!
//! A core is told on its own thread, between two turns, one core after the other: a connection never sees half a
//! change, and for a moment two cores may differ.

mod config;
mod hystart;
mod policies;
mod siftr;
#[cfg(test)]
mod tests;

pub use siftr::keep_log;

use crate::net::Stack;
use crate::{Engine, Errno};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Access to a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It tells how things are.
    Read,
    /// It can be set.
    ReadWrite,
    /// Writing it does something; there is nothing to read.
    Write,
}

/// One name of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// All of it, from `net` on.
    pub name: String,
    /// Read it, write it, or both?
    pub access: Access,
    /// Form of a value: "0 to 1", "a name of net.inet.tcp.cc.available".
    pub form: String,
    /// Meaning, in a sentence.
    pub help: String,
}

impl Node {
    /// Returns the description for programs: `name`, `access` (`r`, `rw` or `w`), `form` and `help`.
    pub fn json(&self) -> Value {
        let access = match self.access {
            Access::Read => "r",
            Access::ReadWrite => "rw",
            Access::Write => "w",
        };
        json!({ "name": self.name, "access": access, "form": self.form, "help": self.help })
    }
}

/// A name could not be read or written. The text says which, why, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeError {
    /// There is no such name (ENOENT).
    Unknown(String),
    /// It can only be read, or only be written (EPERM).
    Access(String),
    /// The value is not one of its kind, or out of its range (EINVAL).
    Invalid(String),
    /// Not now: what is to be changed is in use (EBUSY).
    Busy(String),
    /// A name in the value does not exist (ENOENT).
    Missing(String),
    /// A name in the value exists already (EEXIST).
    Exists(String),
}

impl TreeError {
    /// The error number for APIs that speak in numbers.
    pub fn errno(&self) -> Errno {
        match self {
            TreeError::Unknown(_) | TreeError::Missing(_) => Errno::ENOENT,
            TreeError::Access(_) => Errno::EPERM,
            TreeError::Invalid(_) => Errno::EINVAL,
            TreeError::Busy(_) => Errno::EBUSY,
            TreeError::Exists(_) => Errno::EEXIST,
        }
    }
}

impl std::fmt::Display for TreeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (TreeError::Unknown(text)
        | TreeError::Access(text)
        | TreeError::Invalid(text)
        | TreeError::Busy(text)
        | TreeError::Missing(text)
        | TreeError::Exists(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for TreeError {}

/// The names under one prefix.
///
/// Calls come one at a time. `get` and `set` are asked only for names that `nodes` lists, and only where its access
/// says so.
pub trait Branch: Send + Sync {
    /// The prefix, such as `net.inet.siftr`; no other branch has it.
    fn prefix(&self) -> &str;
    /// Every name that there is now.
    fn nodes(&self, cores: &Cores) -> Vec<Node>;
    /// A value.
    ///
    /// # Errors
    /// It has gone since it was listed.
    fn get(&self, cores: &Cores, name: &str) -> Result<String, TreeError>;
    /// Sets a value on all cores, or on none.
    ///
    /// # Errors
    /// Why not, and what would be right.
    fn set(&self, cores: &Cores, name: &str, value: &str) -> Result<(), TreeError>;
    /// Returns true if setting `name` to `value` loads code or writes files: the control socket refuses that unless the
    /// setting `control` allows it.
    fn reaches_out(&self, _name: &str, _value: &str) -> bool {
        false
    }
}

/// The cores of a process, to ask and to tell.
pub struct Cores(Vec<Stack>);

impl Cores {
    /// Asks the first core: what all cores agree on.
    ///
    /// # Panics
    /// If there is none; [`Tree::new`] wants one.
    pub fn first<T: Send>(&self, ask: impl FnOnce(&mut Engine) -> T + Send) -> T {
        let mut answer = None;
        self.0[0].inspect(Box::new(|engine| answer = Some(ask(engine))));
        answer.expect("a stack looks at its engine when it is asked to")
    }

    /// Asks or tells each core in turn, on its own thread or at a moment when it waits.
    pub fn each<T: Send>(&self, ask: impl Fn(&mut Engine) -> T + Sync) -> Vec<T> {
        let mut answers = Vec::with_capacity(self.0.len());
        for stack in &self.0 {
            stack.inspect(Box::new(|engine| answers.push(ask(engine))));
        }
        answers
    }

    /// Tells one core after the other; if one refuses, those before it are told to undo.
    fn all_or_none<E: Send>(
        &self,
        tell: impl Fn(&mut Engine) -> Result<(), E> + Sync,
        undo: impl Fn(&mut Engine) + Sync,
    ) -> Result<(), E> {
        for (nth, stack) in self.0.iter().enumerate() {
            let mut outcome = Ok(());
            stack.inspect(Box::new(|engine| outcome = tell(engine)));
            if outcome.is_err() {
                self.0[..nth].iter().for_each(|stack| stack.inspect(Box::new(|engine| undo(engine))));
                return outcome;
            }
        }
        Ok(())
    }
}

/// All the names of a process, with what they stand for.
pub struct Tree {
    cores: Cores,
    /// Held while anything is read or written: one change at a time.
    branches: Mutex<Vec<Arc<dyn Branch>>>,
}

impl Tree {
    /// The tree of the process that these cores are all of, with TCP's branches.
    ///
    /// # Panics
    /// Without a core.
    pub fn new(cores: &[Stack]) -> Tree {
        assert!(!cores.is_empty(), "a tree stands on a core");
        let branches: Vec<Arc<dyn Branch>> = vec![
            Arc::new(policies::Policies),
            Arc::new(config::Settings),
            Arc::new(hystart::HyStart),
            Arc::new(siftr::Logging::new(cores)),
        ];
        Tree { cores: Cores(cores.to_vec()), branches: Mutex::new(branches) }
    }

    /// Hangs in another branch.
    ///
    /// # Errors
    /// Its prefix is taken.
    pub fn add(&self, branch: Arc<dyn Branch>) -> Result<(), TreeError> {
        let mut branches = self.lock();
        if branches.iter().any(|other| other.prefix() == branch.prefix()) {
            return Err(TreeError::Exists(format!("{} is there already", branch.prefix())));
        }
        branches.push(branch);
        Ok(())
    }

    /// Every name that is `prefix` or below it, in alphabetical order; of all names where it is empty.
    ///
    /// # Errors
    /// There is none.
    pub fn list(&self, prefix: &str) -> Result<Vec<Node>, TreeError> {
        let branches = self.lock();
        let found = self.below(&branches, prefix);
        if found.is_empty() { Err(self.unknown(&branches, prefix)) } else { Ok(found) }
    }

    /// The value of `name`.
    ///
    /// # Errors
    /// There is no such name, or it can only be written.
    pub fn get(&self, name: &str) -> Result<String, TreeError> {
        let branches = self.lock();
        let (branch, node) = self.find(&branches, name)?;
        if node.access == Access::Write {
            return Err(TreeError::Access(format!("{name} can only be written: {}", node.form)));
        }
        branch.get(&self.cores, name)
    }

    /// Gives `name` a value, on all cores.
    ///
    /// # Errors
    /// There is no such name, it can only be read, or the value is not for it: nothing changes.
    pub fn set(&self, name: &str, value: &str) -> Result<(), TreeError> {
        let branches = self.lock();
        let (branch, node) = self.find(&branches, name)?;
        if node.access == Access::Read {
            return Err(TreeError::Access(format!("{name} can only be read")));
        }
        branch.set(&self.cores, name, value.trim())
    }

    /// Returns true if setting `name` to `value` loads code or writes files.
    pub(crate) fn reaches_out(&self, name: &str, value: &str) -> bool {
        let branches = self.lock();
        branches
            .iter()
            .any(|branch| is_below(name, branch.prefix()) && branch.reaches_out(name, value.trim()))
    }

    /// Offers a policy of the program's own on all cores, as `net.inet.tcp.cc.load` offers that of a file; it goes by
    /// the same names.
    ///
    /// # Errors
    /// Its name is taken, or a core has no room for it or cannot make one: nothing changes.
    pub fn offer(&self, policy: &Arc<policy::Library>) -> Result<(), TreeError> {
        let _one_change_at_a_time = self.lock();
        policies::offer(&self.cores, policy)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn Branch>>> {
        self.branches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The branch whose prefix fits `name` best, and the node.
    fn find(&self, branches: &[Arc<dyn Branch>], name: &str) -> Result<(Arc<dyn Branch>, Node), TreeError> {
        let mut candidates: Vec<_> =
            branches.iter().filter(|branch| is_below(name, branch.prefix())).collect();
        candidates.sort_by_key(|branch| std::cmp::Reverse(branch.prefix().len()));
        for branch in candidates {
            if let Some(node) = branch.nodes(&self.cores).into_iter().find(|node| node.name == name) {
                return Ok((branch.clone(), node));
            }
        }
        Err(self.unknown(branches, name))
    }

    fn below(&self, branches: &[Arc<dyn Branch>], prefix: &str) -> Vec<Node> {
        let all = branches.iter().flat_map(|branch| branch.nodes(&self.cores));
        let mut found: Vec<_> = all.filter(|node| is_below(&node.name, prefix)).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// There is no `name`; but what is there, next to where it would be?
    fn unknown(&self, branches: &[Arc<dyn Branch>], name: &str) -> TreeError {
        let mut above = name;
        let (above, found) = loop {
            above = above.rsplit_once('.').map_or("", |(above, _)| above);
            let found = self.below(branches, above);
            if !found.is_empty() || above.is_empty() {
                break (above, found);
            }
        };
        let skip = if above.is_empty() { 0 } else { above.len() + 1 };
        let parts = found.iter().filter_map(|node| node.name.get(skip..)?.split('.').next());
        let mut parts: Vec<_> = parts.collect();
        parts.dedup();
        let place =
            if above.is_empty() { "names begin with".into() } else { format!("under {above} there are") };
        TreeError::Unknown(format!("there is no {name}; {place} {}", parts.join(", ")))
    }
}

/// Is `name` `prefix`, or under it?
fn is_below(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix);
    prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
