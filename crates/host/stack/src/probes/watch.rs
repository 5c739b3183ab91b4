//! Probes of a core.

use tcp::Probe;

/// A probe of this core.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProbeId(pub(super) u64);

/// Those that watch.
pub(crate) type Watch = Option<Box<dyn Probe + Send>>;
