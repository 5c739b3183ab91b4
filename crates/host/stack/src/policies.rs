//! Congestion control policies of a core: which there are, which connection has which, and how they come and go under
//! connections that live.

use base::Instant;
use cc::{CreateError, Registry, RemoveError, TunableError, Withheld};

use crate::core::Core;
use crate::error::OpError;
use crate::tables::conns::ConnId;
use crate::tables::listeners::ListenerId;

impl From<CreateError> for OpError {
    fn from(error: CreateError) -> OpError {
        match error {
            CreateError::Withheld(why) => why.into(),
            CreateError::Failed => OpError::NoBuffers,
        }
    }
}

impl From<Withheld> for OpError {
    fn from(why: Withheld) -> OpError {
        match why {
            Withheld::Unknown => OpError::NoControl,
            Withheld::Unfair => OpError::UnfairControl,
        }
    }
}

impl Core {
    /// The congestion control policies of this core. [`Core::remove_control`] knows of listeners, too.
    pub fn controls(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// The registry's own copy of a policy's name, if new connections may have it.
    ///
    /// # Errors
    /// [`OpError::NoControl`] for an unknown or withdrawn name, [`OpError::UnfairControl`].
    pub fn find_control(&self, name: &str) -> Result<&'static str, OpError> {
        Ok(self.registry.offered(name)?)
    }

    /// The policy of those that ask for none.
    pub fn default_control(&self) -> &'static str {
        self.registry.default_name()
    }

    /// Replace a connection's policy; the one that it has already goes on as it was. The new one is made first: if that
    /// fails nothing changes.
    ///
    /// # Errors
    /// Those of [`Core::find_control`], [`OpError::NoBuffers`] if the policy cannot be made, [`OpError::Invalid`] for a
    /// dead connection.
    pub fn set_control(&mut self, now: Instant, id: ConnId, name: &str) -> Result<(), OpError> {
        let Some((_, tcp)) = self.conns.get_mut(id.0) else { return Err(OpError::Invalid) };
        let before = tcp.control_name();
        if before == name {
            return Ok(());
        }
        let control = self.registry.create(name)?;
        tcp.set_control(&mut self.shared.cx(now), control);
        self.registry.retire(before);
        self.touch_open(id.0);
        Ok(())
    }

    /// A tunable of a connection's policy: sets it to `value`, if there is one; what it then is.
    ///
    /// # Errors
    /// [`TunableError::Unknown`], for a dead connection too, or the value is out of its range: nothing changes.
    pub fn tune(&mut self, id: ConnId, name: &str, value: Option<i64>) -> Result<i64, TunableError> {
        let (_, tcp) = self.conns.get_mut(id.0).ok_or(TunableError::Unknown)?;
        if let Some(value) = value {
            tcp.set_control_tunable(name, value)?;
        }
        tcp.control_tunable(name).ok_or(TunableError::Unknown)
    }

    /// Returns what `tune` would give on a connection that began with this policy; nothing changes.
    ///
    /// # Errors
    /// As [`Core::tune`].
    pub fn would_tune(&self, policy: &str, name: &str, value: Option<i64>) -> Result<i64, TunableError> {
        let rows = self.registry.tunables(policy).unwrap_or_default();
        let (row, default) = rows.iter().find(|(row, _)| row.name == name).ok_or(TunableError::Unknown)?;
        value.map_or(Ok(*default), |value| row.checked(value))
    }

    /// Replace the policy that connections accepted from now on begin with; a name of the registry.
    pub fn set_listener_control(&mut self, id: ListenerId, name: &'static str) {
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.request.control = Some(name);
        }
    }

    /// Connections and listeners of this core that name a policy.
    pub fn control_users(&self, name: &str) -> u32 {
        let connections = self.registry.find(name).map_or(0, |row| row.connections);
        connections + self.listeners_with(name)
    }

    fn listeners_with(&self, name: &str) -> u32 {
        self.listeners.iter().filter(|listener| listener.request.control == Some(name)).count() as u32
    }

    /// Removes a policy that nothing uses.
    ///
    /// # Errors
    /// As [`Registry::remove`]; listeners count as users.
    pub fn remove_control(&mut self, name: &str) -> Result<(), RemoveError> {
        match self.listeners_with(name) {
            0 => self.registry.remove(name),
            _ => self
                .registry
                .removable(name)
                .and(Err(RemoveError::InUse { connections: self.control_users(name) })),
        }
    }

    /// Removes a policy even while in use: connections and listeners go on with [`cc::REFUGE`], windows and thresholds
    /// as they are, and so does the default if it was this one. How many connections changed over.
    ///
    /// # Errors
    /// There is no such policy, or it is [`cc::REFUGE`].
    pub fn evict_control(&mut self, now: Instant, name: &str) -> Result<u32, RemoveError> {
        if self.registry.default_name() == name && name != cc::REFUGE {
            self.registry.set_default(cc::REFUGE).expect("the refuge is always there");
        }
        self.registry.quiesce(name)?;
        let users: Vec<u32> = self
            .conns
            .iter()
            .filter(|(_, _, tcp)| tcp.control_name() == name)
            .map(|(index, _, _)| index)
            .collect();
        for &index in &users {
            self.set_control(now, ConnId(index), cc::REFUGE)
                .expect("the refuge is offered, and the connection lives");
        }
        for listener in self.listeners.iter_mut().filter(|listener| listener.request.control == Some(name)) {
            listener.request.control = Some(cc::REFUGE);
        }
        self.registry.remove(name)?;
        Ok(users.len() as u32)
    }
}
