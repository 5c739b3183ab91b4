//! How the engine behaves.

use base::Duration;

/// Hard bound on how long anything is held.
pub const HOLD_MAX: Duration = Duration::from_millis(1);

/// The engine's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Flows remembered at once; rounded up to a power of two, 4 at least. One more evicts the one used longest ago.
    pub flows: u16,
    /// Packets that may be in the engine at once.
    pub packets: u16,
    /// How long data in order may wait for more after it came, where more is expected; zero hands it up with its batch.
    /// At most [`HOLD_MAX`].
    pub hold: Duration,
    /// How long a packet that came too early may wait for what is missing before it; zero hands it up at once. At most
    /// [`HOLD_MAX`]: so much later at most the peer learns of a loss.
    pub reorder: Duration,
    /// A flow not heard of for so long is learned anew.
    pub age: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            flows: 64,
            packets: 256,
            hold: Duration::ZERO,
            reorder: Duration::ZERO,
            age: Duration::from_secs(60),
        }
    }
}

impl Config {
    /// Returns the configuration within its bounds.
    pub(crate) fn bounded(self) -> Config {
        Config {
            flows: self.flows.clamp(4, 4096).next_power_of_two(),
            packets: self.packets.max(2),
            hold: self.hold.min(HOLD_MAX),
            reorder: self.reorder.min(HOLD_MAX),
            ..self
        }
    }
}
