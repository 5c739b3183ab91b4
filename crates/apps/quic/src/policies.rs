//! The registry, shared by the connections of an endpoint.

use crate::Adapter;
use cc::{Control, HyStartLimits, Listed, Registry, Withheld};
use quinn_proto::congestion::{Controller, ControllerFactory};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A registry that QUIC connections take their policies from. Connections of quinn live on several threads, so unlike
/// a core's own registry this one is locked: when a connection begins and when it ends, not in between.
#[derive(Clone)]
pub struct Policies(Arc<Shared>);

struct Shared {
    registry: Mutex<Registry>,
    substituted: AtomicU64,
    hystart: Mutex<HyStartLimits>,
}

impl Policies {
    /// Offers what `registry` holds.
    pub fn new(registry: Registry) -> Self {
        let hystart = Mutex::new(HyStartLimits::STANDARD);
        Policies(Arc::new(Shared { registry: Mutex::new(registry), substituted: AtomicU64::new(0), hystart }))
    }

    /// Returns the factory of the policy `name` for the connections of an endpoint.
    ///
    /// # Errors
    /// No policy has that name, or it is not for new connections.
    pub fn factory(&self, name: &str) -> Result<Factory, Withheld> {
        let name = self.registry().offered(name)?;
        Ok(Factory { policies: self.clone(), name })
    }

    /// Every policy, and how many connections use it now.
    pub fn available(&self) -> Vec<Listed> {
        self.registry().available().collect()
    }

    /// Works on the registry: registers, removes, sets tunables.
    pub fn with<T>(&self, work: impl FnOnce(&mut Registry) -> T) -> T {
        work(&mut self.registry())
    }

    /// How connections and paths that begin from now on find the end of their first slow start.
    pub fn set_hystart(&self, limits: HyStartLimits) {
        *self.0.hystart.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Returns the limits set by [`set_hystart`](Self::set_hystart); RFC 9406's recommendation until then.
    pub fn hystart(&self) -> HyStartLimits {
        *self.0.hystart.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections that got the registry's default because theirs had been removed after its [`Factory`] was made.
    pub fn substituted(&self) -> u64 {
        self.0.substituted.load(Ordering::Relaxed)
    }

    pub(crate) fn create(&self, name: &str) -> Control {
        let mut registry = self.registry();
        registry.create(name).unwrap_or_else(|_| {
            self.0.substituted.fetch_add(1, Ordering::Relaxed);
            registry.create_or_default(None)
        })
    }

    pub(crate) fn retire(&self, name: &str) {
        self.registry().retire(name);
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        // A panic under the lock leaves counts, no broken policy.
        self.0.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes one policy for each connection; goes into [`quinn_proto::TransportConfig::congestion_controller_factory`].
#[derive(Clone)]
pub struct Factory {
    policies: Policies,
    name: &'static str,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Adapter::begin(self.policies.clone(), self.name, now, current_mtu))
    }
}
