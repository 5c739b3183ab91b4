//! Which policies a core offers, and how many of its connections use each.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::{Bbr, Cdg, Control, Controller, Cubic, Dctcp, HTcp, NewReno, TunableError, Vegas};

/// Makes a fresh policy for one connection.
pub type Factory = Arc<dyn Fn() -> Box<dyn Controller> + Send + Sync>;

/// Most policies a registry holds.
const POLICIES_MAX: usize = 64;

/// Nobody registered a policy under that name (ENOENT at the doors).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

/// A policy could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// The name is taken.
    Exists,
    /// What the factory makes calls itself by another name.
    Misnamed,
    /// Sixty-four policies are registered already.
    Full,
}

/// A policy could not be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveError {
    /// There is none of that name.
    Unknown,
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
}

#[derive(Clone)]
enum Make {
    NewReno,
    Cubic,
    Boxed(fn() -> Box<dyn Controller>),
    Custom(Factory),
}

/// What every registry starts with; the first row is the default.
const BUILT_IN: [(&str, Make); 8] = [
    (Cubic::NAME, Make::Cubic),
    (NewReno::NAME, Make::NewReno),
    (HTcp::NAME, Make::Boxed(|| Box::new(HTcp::new()))),
    (Cdg::NAME, Make::Boxed(|| Box::new(Cdg::new()))),
    (Vegas::NAME, Make::Boxed(|| Box::new(Vegas::new()))),
    (Dctcp::NAME, Make::Boxed(|| Box::new(Dctcp::new()))),
    (Bbr::NAME, Make::Boxed(|| Box::new(Bbr::new()))),
    (Cubic::NAME_OF_2009, Make::Boxed(|| Box::new(Cubic::of_2009()))),
];

struct Entry {
    name: &'static str,
    make: Make,
    connections: u32,
    /// What new policies are told at birth, in the order it was set.
    tunables: Vec<(String, i64)>,
}

impl Entry {
    fn new(name: &'static str, make: Make) -> Entry {
        Entry { name, make, connections: 0, tunables: Vec::new() }
    }

    fn make(&self) -> Control {
        let mut control = match &self.make {
            Make::NewReno => Control::NewReno(NewReno::new()),
            Make::Cubic => Control::Cubic(Cubic::new()),
            Make::Boxed(make) => Control::Boxed(make()),
            Make::Custom(factory) => Control::Boxed(factory()),
        };
        for (name, value) in &self.tunables {
            let set = control.set_tunable(name, *value);
            debug_assert_eq!(set, Ok(()), "it was tried before it was kept");
        }
        control
    }
}

/// One core's policies: an owned value, so nothing is locked. The first is CUBIC, also the default at first.
///
/// Every policy made by [`create`](Registry::create) goes back through [`retire`](Registry::retire), so that the
/// counts are true and a policy in use cannot be removed.
pub struct Registry {
    entries: Vec<Entry>,
    default: &'static str,
}

impl Registry {
    /// The built-in policies, CUBIC first.
    pub fn new() -> Self {
        let entries = BUILT_IN.into_iter().map(|(name, make)| Entry::new(name, make));
        Registry { entries: entries.collect(), default: BUILT_IN[0].0 }
    }

    /// The names of the policies that every registry starts with, the default first.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The same policies for another core, used by nobody there yet.
    pub fn for_another_core(&self) -> Self {
        let fresh = |entry: &Entry| Entry {
            tunables: entry.tunables.clone(),
            ..Entry::new(entry.name, entry.make.clone())
        };
        Registry { entries: self.entries.iter().map(fresh).collect(), default: self.default }
    }

    /// Offers what `factory` makes under `name`.
    pub fn register(&mut self, name: &'static str, factory: Factory) -> Result<(), RegisterError> {
        if self.find(name).is_some() {
            return Err(RegisterError::Exists);
        }
        if self.entries.len() == POLICIES_MAX {
            return Err(RegisterError::Full);
        }
        if factory().name() != name {
            return Err(RegisterError::Misnamed);
        }
        self.entries.push(Entry::new(name, Make::Custom(factory)));
        Ok(())
    }

    /// Offers `name` no more. Built-in policies may be removed too.
    pub fn remove(&mut self, name: &str) -> Result<(), RemoveError> {
        let index = self.index(name).ok_or(RemoveError::Unknown)?;
        if self.entries[index].name == self.default {
            return Err(RemoveError::IsDefault);
        }
        match self.entries[index].connections {
            0 => {
                self.entries.remove(index);
                Ok(())
            }
            connections => Err(RemoveError::InUse { connections }),
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
    pub fn set_default(&mut self, name: &str) -> Result<(), Unknown> {
        self.default = self.entries[self.index(name).ok_or(Unknown)?].name;
        Ok(())
    }

    /// A fresh policy for one connection, counted until it is retired.
    /// RFC 9293, MAY-18.
    pub fn create(&mut self, name: &str) -> Result<Control, Unknown> {
        let index = self.index(name).ok_or(Unknown)?;
        let entry = &mut self.entries[index];
        entry.connections += 1;
        Ok(entry.make())
    }

    /// Tells every policy that is made as `name` from now on to set a tunable; those that live keep what they have.
    ///
    /// # Errors
    /// There is no such policy or tunable, or the value is out of its range: nothing changes.
    pub fn set_tunable(&mut self, name: &str, tunable: &str, value: i64) -> Result<(), SetError> {
        let index = self.index(name).ok_or(SetError::Policy)?;
        let entry = &mut self.entries[index];
        entry.make().set_tunable(tunable, value).map_err(SetError::Tunable)?;
        match entry.tunables.iter_mut().find(|(known, _)| known == tunable) {
            Some((_, kept)) => *kept = value,
            None => entry.tunables.push((tunable.into(), value)),
        }
        Ok(())
    }

    /// What policies made as `name` are told at birth.
    pub fn tunables(&self, name: &str) -> &[(String, i64)] {
        self.index(name).map_or(&[], |index| &self.entries[index].tunables)
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

    fn listed(&self, entry: &Entry) -> Listed {
        Listed { name: entry.name, default: entry.name == self.default, connections: entry.connections }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Registry::new()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: every refusal is honest, counts follow connections, and an unknown name is never a default.
    use super::*;
    use crate::{AckSample, PathInfo, Signal, SignalInfo, Window};
    use base::{Duration, Instant};

    struct Fixed(&'static str);

    impl Controller for Fixed {
        fn name(&self) -> &'static str {
            self.0
        }
        fn on_ack(&mut self, _: &AckSample) {}
        fn on_congestion(&mut self, _: Signal, _: &SignalInfo) {}
        fn on_recovery_end(&mut self, _: &SignalInfo) {}
        fn on_idle_restart(&mut self, _: Instant, _: Duration, _: &PathInfo) {}
        fn on_mss_change(&mut self, _: u32) {}
        fn window(&self) -> Window {
            Window { cwnd: 4242, ssthresh: u32::MAX, pacing: None }
        }
        fn recycle(&mut self, _: &PathInfo) {}
    }

    fn fixed(name: &'static str) -> Factory {
        Arc::new(move || Box::new(Fixed(name)))
    }

    /// RFC 9293, MAY-18.
    #[test]
    fn a_registered_policy_is_made_counted_and_removed() {
        let mut registry = Registry::new();
        registry.register("fixed", fixed("fixed")).unwrap();
        assert_eq!(registry.register("fixed", fixed("fixed")), Err(RegisterError::Exists));
        assert_eq!(registry.register("cubic", fixed("cubic")), Err(RegisterError::Exists));
        assert_eq!(registry.register("other", fixed("fixed")), Err(RegisterError::Misnamed));

        let control = registry.create("fixed").unwrap();
        assert_eq!((control.name(), control.window().cwnd), ("fixed", 4242));
        assert!(matches!(control, Control::Boxed(_)));
        let _second = registry.create("fixed").unwrap();
        assert_eq!(registry.remove("fixed"), Err(RemoveError::InUse { connections: 2 }));
        registry.retire("fixed");
        registry.retire(control.name());
        assert_eq!(registry.remove("fixed"), Ok(()));
        assert_eq!(registry.remove("fixed"), Err(RemoveError::Unknown));
        assert!(registry.create("fixed").is_err());
    }

    #[test]
    fn the_default_is_cubic_until_changed_and_cannot_be_removed() {
        let mut registry = Registry::new();
        assert_eq!(registry.default_name(), "cubic");
        assert_eq!(registry.remove("cubic"), Err(RemoveError::IsDefault));
        assert_eq!(registry.set_default("bbr9"), Err(Unknown));
        assert_eq!(registry.default_name(), "cubic");
        registry.set_default("newreno").unwrap();
        assert!(matches!(registry.create(registry.default_name()), Ok(Control::NewReno(_))));
        assert_eq!(registry.remove("cubic"), Ok(()));
        assert_eq!(registry.create("cubic").err(), Some(Unknown));
    }

    #[test]
    fn the_list_shows_order_default_and_counts() {
        let mut registry = Registry::new();
        registry.register("fixed", fixed("fixed")).unwrap();
        let _one = registry.create("newreno").unwrap();
        let rows: Vec<_> = registry.available().map(|row| (row.name, row.default, row.connections)).collect();
        let built_in =
            BUILT_IN.iter().map(|(name, _)| (*name, *name == "cubic", u32::from(*name == "newreno")));
        let wanted: Vec<_> = built_in.chain([("fixed", false, 0)]).collect();
        assert_eq!(rows, wanted);
        let elsewhere = registry.for_another_core();
        assert!(elsewhere.available().all(|row| row.connections == 0));
        assert_eq!(elsewhere.available().count(), BUILT_IN.len() + 1);
        assert_eq!(registry.find("newreno").map(|row| row.connections), Some(1));
        assert_eq!(registry.find("reno"), None);
    }

    #[test]
    fn tunables_are_tried_kept_and_told_to_the_newborn() {
        let mut registry = Registry::new();
        assert_eq!(registry.set_tunable("magic", "hystart", 0), Err(SetError::Policy));
        assert_eq!(registry.set_tunable("vegas", "magic", 0), Err(SetError::Tunable(TunableError::Unknown)));
        let out = TunableError::OutOfRange { min: 0, max: 255 };
        assert_eq!(registry.set_tunable("newreno", "abc_limit", 256), Err(SetError::Tunable(out)));
        assert!(registry.tunables("newreno").is_empty());

        for limit in [0, 1] {
            assert_eq!(registry.set_tunable("newreno", "abc_limit", limit), Ok(()));
        }
        assert_eq!(registry.tunables("newreno"), [("abc_limit".into(), 1)]);
        let grown = |registry: &mut Registry| {
            let mut lab = crate::testing::Lab::new(registry.create("newreno").unwrap(), 10, None);
            lab.ack(2 * crate::testing::MSS);
            lab.cwnd()
        };
        assert_eq!(grown(&mut registry), 11.0);
        assert_eq!(grown(&mut registry.for_another_core()), 11.0);
    }

    #[test]
    fn a_full_registry_says_so() {
        let mut registry = Registry::new();
        for i in registry.entries.len()..POLICIES_MAX {
            let name: &'static str = alloc::format!("policy{i}").leak();
            registry.register(name, fixed(name)).unwrap();
        }
        assert_eq!(registry.register("more", fixed("more")), Err(RegisterError::Full));
    }
}
