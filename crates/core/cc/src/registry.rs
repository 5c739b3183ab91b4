//! Which policies a core offers, and how many of its connections use each.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::{
    Bbr, Cdg, Control, Controller, Cubic, Dctcp, HTcp, MulTcp, MulWin, NewReno, Prague, Tunable,
    TunableError, Vegas,
};

/// Makes a fresh policy for one connection; `None` if it cannot.
pub type Factory = Arc<dyn Fn() -> Option<Box<dyn Controller>> + Send + Sync>;

/// The policy that cannot be removed: connections whose own is removed by force go on with it.
pub const REFUGE: &str = NewReno::NAME;

/// Most policies a registry holds.
const POLICIES_MAX: usize = 64;

/// Nothing offers a policy under that name, or no more (ENOENT at the APIs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

/// A policy is not for connections that begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// See [`Unknown`].
    Unknown,
    /// It takes more than one flow's share, and nothing has [allowed](Registry::allow_unfair) that (EPERM at the APIs).
    Unfair,
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Withheld::Unknown => "is not registered, or withdrawn",
            Withheld::Unfair => "takes the share of several flows, and cc_allow_unfair is not set",
        })
    }
}

/// No policy could be made for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// See [`Withheld`].
    Withheld(Withheld),
    /// Its [`Factory`] failed.
    Failed,
}

/// A policy could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// The name is taken.
    Exists,
    /// The factory's policy has another name.
    Misnamed,
    /// The factory makes nothing.
    Failed,
    /// Sixty-four policies are registered already.
    Full,
}

/// A policy could not be withdrawn or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveError {
    /// There is none of that name.
    Unknown,
    /// It is [`REFUGE`], which takes the connections of those that go by force (EPERM).
    Refuge,
    /// New connections would get it: choose another default first.
    IsDefault,
    /// Connections live by it.
    InUse {
        /// How many.
        connections: u32,
    },
}

/// A policy's tunable could not be set for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No policy has that name.
    Policy,
    /// None could be made to try it on.
    Failed,
    /// The policy does not take it.
    Tunable(TunableError),
}

/// One row of [`Registry::available`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The policy's name.
    pub name: &'static str,
    /// Does a connection that asks for nothing get it?
    pub default: bool,
    /// How many of this core's connections use it now.
    pub connections: u32,
    /// Is it withdrawn? Then those that use it keep it, and no new connection gets it.
    pub quiesced: bool,
    /// Does it take more than one flow's share?
    pub unfair: bool,
    /// May new connections have it: neither withdrawn nor, where that is not allowed, unfair?
    pub offered: bool,
}

#[derive(Clone)]
enum Make {
    NewReno,
    Cubic,
    Boxed(fn() -> Box<dyn Controller>),
    Custom(Factory),
}

/// Policies of every new registry; the first row is the default.
const BUILT_IN: [(&str, Make); 11] = [
    (Cubic::NAME, Make::Cubic),
    (NewReno::NAME, Make::NewReno),
    (HTcp::NAME, Make::Boxed(|| Box::new(HTcp::new()))),
    (Cdg::NAME, Make::Boxed(|| Box::new(Cdg::new()))),
    (Vegas::NAME, Make::Boxed(|| Box::new(Vegas::new()))),
    (Dctcp::NAME, Make::Boxed(|| Box::new(Dctcp::new()))),
    (Bbr::NAME, Make::Boxed(|| Box::new(Bbr::new()))),
    (Cubic::NAME_OF_2009, Make::Boxed(|| Box::new(Cubic::of_2009()))),
    (MulWin::NAME, Make::Boxed(|| Box::new(MulWin::new()))),
    (MulTcp::NAME, Make::Boxed(|| Box::new(MulTcp::new()))),
    (Prague::NAME, Make::Boxed(|| Box::new(Prague::new()))),
];

/// Those of them that take more than one flow's share.
const UNFAIR: [&str; 2] = [MulWin::NAME, MulTcp::NAME];

struct Entry {
    name: &'static str,
    make: Make,
    connections: u32,
    quiesced: bool,
    unfair: bool,
    /// Tunables of new policies, in the order in which they were set.
    tunables: Vec<(String, i64)>,
}

impl Entry {
    /// Makes an entry. A policy that a program adds is never withheld as unfair.
    fn new(name: &'static str, make: Make) -> Entry {
        let unfair = UNFAIR.contains(&name) && !matches!(make, Make::Custom(_));
        Entry { name, make, connections: 0, quiesced: false, unfair, tunables: Vec::new() }
    }

    #[inline]
    fn make(&self) -> Option<Control> {
        let mut control = match &self.make {
            Make::NewReno => Control::NewReno(NewReno::new()),
            Make::Cubic => Control::Cubic(Cubic::new()),
            Make::Boxed(make) => Control::Boxed(make()),
            Make::Custom(factory) => Control::Boxed(factory()?),
        };
        for (name, value) in &self.tunables {
            let set = control.set_tunable(name, *value);
            debug_assert_eq!(set, Ok(()), "it was tried before it was kept");
        }
        Some(control)
    }
}

/// One core's policies: an owned value, so nothing is locked. The first is CUBIC, also the default at first.
///
/// Every policy made by [`create`](Registry::create) goes back through [`retire`](Registry::retire), so that the
/// counts are true and a policy in use cannot be removed.
pub struct Registry {
    entries: Vec<Entry>,
    default: &'static str,
    allow_unfair: bool,
}

impl Registry {
    /// The built-in policies, CUBIC first.
    pub fn new() -> Self {
        let entries = BUILT_IN.into_iter().map(|(name, make)| Entry::new(name, make));
        Registry { entries: entries.collect(), default: BUILT_IN[0].0, allow_unfair: false }
    }

    /// May connections have policies that take more than one flow's share? At first they may not. Those that have one
    /// keep it.
    ///
    /// # Errors
    /// [`RemoveError::IsDefault`] if it shall no longer be allowed and the default is such a policy: nothing changes.
    pub fn allow_unfair(&mut self, allow: bool) -> Result<(), RemoveError> {
        if !allow && self.entries.iter().any(|entry| entry.unfair && entry.name == self.default) {
            return Err(RemoveError::IsDefault);
        }
        self.allow_unfair = allow;
        Ok(())
    }

    /// See [`allow_unfair`](Registry::allow_unfair).
    pub fn allows_unfair(&self) -> bool {
        self.allow_unfair
    }

    /// The names of the policies that every registry starts with, the default first.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Returns a registry with the same policies for another core, without users.
    pub fn for_another_core(&self) -> Self {
        let fresh = |entry: &Entry| Entry {
            tunables: entry.tunables.clone(),
            quiesced: entry.quiesced,
            ..Entry::new(entry.name, entry.make.clone())
        };
        Registry { entries: self.entries.iter().map(fresh).collect(), ..*self }
    }

    /// Offers what `factory` makes under `name`.
    pub fn register(&mut self, name: &'static str, factory: Factory) -> Result<(), RegisterError> {
        if self.find(name).is_some() {
            return Err(RegisterError::Exists);
        }
        if self.entries.len() == POLICIES_MAX {
            return Err(RegisterError::Full);
        }
        match factory() {
            None => return Err(RegisterError::Failed),
            Some(policy) if policy.name() != name => return Err(RegisterError::Misnamed),
            Some(_) => {}
        }
        self.entries.push(Entry::new(name, Make::Custom(factory)));
        Ok(())
    }

    /// Offers `name` to no new connection; those that use it keep it. Once they have gone it can be
    /// [removed](Self::remove).
    ///
    /// # Errors
    /// There is no such policy, it is the default, or [`REFUGE`].
    pub fn quiesce(&mut self, name: &str) -> Result<(), RemoveError> {
        let index = self.index_to_remove(name)?;
        self.entries[index].quiesced = true;
        Ok(())
    }

    /// Offers `name` again.
    pub fn resume(&mut self, name: &str) -> Result<(), Unknown> {
        let index = self.index(name).ok_or(Unknown)?;
        self.entries[index].quiesced = false;
        Ok(())
    }

    /// Forgets `name`. Built-in policies may be removed too, but for [`REFUGE`].
    ///
    /// # Errors
    /// As [`quiesce`](Self::quiesce), and while connections use it: nothing changes.
    pub fn remove(&mut self, name: &str) -> Result<(), RemoveError> {
        let index = self.index_to_remove(name)?;
        match self.entries[index].connections {
            0 => {
                self.entries.remove(index);
                Ok(())
            }
            connections => Err(RemoveError::InUse { connections }),
        }
    }

    /// May it be removed, but for connections that use it?
    ///
    /// # Errors
    /// As [`quiesce`](Self::quiesce).
    pub fn removable(&self, name: &str) -> Result<(), RemoveError> {
        self.index_to_remove(name).map(|_| ())
    }

    fn index_to_remove(&self, name: &str) -> Result<usize, RemoveError> {
        let index = self.index(name).ok_or(RemoveError::Unknown)?;
        match self.entries[index].name {
            REFUGE => Err(RemoveError::Refuge),
            name if name == self.default => Err(RemoveError::IsDefault),
            _ => Ok(index),
        }
    }

    /// The row of `name`, if it is registered.
    pub fn find(&self, name: &str) -> Option<Listed> {
        self.index(name).map(|index| self.listed(&self.entries[index]))
    }

    /// Every policy, in the order of registration.
    pub fn available(&self) -> impl Iterator<Item = Listed> {
        self.entries.iter().map(|entry| self.listed(entry))
    }

    /// The policy of a connection that asks for none.
    pub fn default_name(&self) -> &'static str {
        self.default
    }

    /// Changes the default; connections that live keep theirs.
    pub fn set_default(&mut self, name: &str) -> Result<(), Withheld> {
        self.default = self.offered(name)?;
        Ok(())
    }

    /// The registry's own copy of a policy's name, if new connections may have it.
    pub fn offered(&self, name: &str) -> Result<&'static str, Withheld> {
        Ok(self.entries[self.offer(name)?].name)
    }

    /// A fresh policy for one connection, counted until it is retired.
    /// RFC 9293, MAY-18.
    #[inline]
    pub fn create(&mut self, name: &str) -> Result<Control, CreateError> {
        let index = self.offer(name).map_err(CreateError::Withheld)?;
        let entry = &mut self.entries[index];
        let control = entry.make().ok_or(CreateError::Failed)?;
        entry.connections += 1;
        Ok(control)
    }

    /// As `create`, where a failure cannot be reported: falls back to the default, and then to [`REFUGE`]. The
    /// policy's own name says which it is.
    pub fn create_or_default(&mut self, name: Option<&str>) -> Control {
        match self.create(name.unwrap_or(self.default)) {
            Ok(control) => control,
            Err(_) => self.substitute(),
        }
    }

    #[cold]
    fn substitute(&mut self) -> Control {
        let default = self.default;
        self.create(default).unwrap_or_else(|_| {
            self.create(REFUGE).expect("the refuge can be neither withdrawn nor removed, and takes no memory")
        })
    }

    /// Tells every policy that is made as `name` from now on to set a tunable; those that live keep what they have.
    ///
    /// # Errors
    /// There is no such policy or tunable, or the value is out of its range: nothing changes.
    pub fn set_tunable(&mut self, name: &str, tunable: &str, value: i64) -> Result<(), SetError> {
        let index = self.index(name).ok_or(SetError::Policy)?;
        let entry = &mut self.entries[index];
        let mut fresh = entry.make().ok_or(SetError::Failed)?;
        fresh.set_tunable(tunable, value).map_err(SetError::Tunable)?;
        match entry.tunables.iter_mut().find(|(known, _)| known == tunable) {
            Some((_, kept)) => *kept = value,
            None => entry.tunables.push((tunable.into(), value)),
        }
        Ok(())
    }

    /// Returns the tunables of `name` with the values for new policies; `None` if there is no such policy or
    /// none can be made.
    pub fn tunables(&self, name: &str) -> Option<Vec<(&'static Tunable, i64)>> {
        let fresh = self.entries[self.index(name)?].make()?;
        let rows = fresh.tunables().into_iter().flatten();
        Some(rows.filter_map(|row| Some((row, fresh.tunable(row.name)?))).collect())
    }

    /// A connection no longer uses the policy `name` that [`create`](Registry::create) made for it.
    pub fn retire(&mut self, name: &str) {
        let Some(index) = self.index(name) else {
            debug_assert!(false, "retired a policy that was never created here: {name}");
            return;
        };
        let connections = &mut self.entries[index].connections;
        debug_assert!(*connections > 0, "retired one {name} more than were created");
        *connections = connections.saturating_sub(1);
    }

    fn index(&self, name: &str) -> Option<usize> {
        // Mostly it is the very name that a policy gave, and nothing need be compared.
        self.entries.iter().position(|entry| core::ptr::eq(entry.name, name) || entry.name == name)
    }

    /// Where `name` is, if new connections may have it.
    fn offer(&self, name: &str) -> Result<usize, Withheld> {
        let index = self.index(name).ok_or(Withheld::Unknown)?;
        self.withheld(&self.entries[index]).map_or(Ok(index), Err)
    }

    fn withheld(&self, entry: &Entry) -> Option<Withheld> {
        match entry {
            Entry { quiesced: true, .. } => Some(Withheld::Unknown),
            Entry { unfair: true, .. } if !self.allow_unfair => Some(Withheld::Unfair),
            _ => None,
        }
    }

    fn listed(&self, entry: &Entry) -> Listed {
        let &Entry { name, connections, quiesced, unfair, .. } = entry;
        let offered = self.withheld(entry).is_none();
        Listed { name, default: name == self.default, connections, quiesced, unfair, offered }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Registry::new()
    }
}

#[cfg(test)]
mod tests;
