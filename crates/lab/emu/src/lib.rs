//! A network in virtual time: pipes with a rate, a delay and every ill of a real path, switches, and whole
//! hosts stepped together. Nothing reads a clock and every random choice follows from one seed, so a run is
//! repeated by its seed and a minute of network takes as long as its packets take to handle. The same pipes join two
//! ports of the real world ([`Bridge`]): there the owner tells the time.
//!
//! ```
//! use base::{Duration, Instant};
//! use emu::{Network, PipeConfig, PortConfig};
//! use pio::PacketIo;
//!
//! /// Sends back whatever it receives.
//! struct Mirror(emu::SimPort);
//! impl emu::Host for Mirror {
//!     fn step(&mut self, _now: Instant) -> Option<Instant> {
//!         let (mut rx, mut tx) = (pio::RxBatch::new(), pio::TxBatch::new());
//!         self.0.rx(&mut rx).expect("never fails");
//!         tx.extend(rx.drain(..).map(|p| pio::TxPacket { frame: p.frame, meta: Default::default() }));
//!         self.0.tx(&mut tx).expect("never fails");
//!         None
//!     }
//! }
//!
//! let mut net = Network::new(7);
//! let (left, right) = (net.port(&PortConfig::default()), net.port(&PortConfig::default()));
//! let (a, b) = (left.id(), right.id());
//! net.add_host(Mirror(left), &[a]);
//! net.add_host(Mirror(right), &[b]);
//! let path = PipeConfig { delay: Duration::from_millis(10), ..PipeConfig::default() };
//! let (there, back) = net.link(a, b, &path, &path);
//! net.inject(there, &[0; 60]);
//! net.run_until(Instant::from_millis(100));
//! assert_eq!(net.pipe(there).counters().delivered, 5);
//! assert_eq!(net.pipe(back).counters().delivered, 5);
//! ```
#![forbid(unsafe_code)]

mod bridge;
mod card;
mod clock;
mod core_host;
mod medium;
mod network;
mod nic;
mod pipe;
mod piped;
mod port;
mod positions;
mod router;
mod rss_card;
mod switch;

pub use bridge::{Bridge, BridgeCounters};
pub use card::{Card, CardConfig, CardCounters, Merging};
pub use clock::Clock;
pub use core_host::{App, CoreHost};
pub use network::{Host, HostId, Network, PipeId, PortId, Sight, SwitchId};
pub use nic::transmit;
pub use pipe::{
    Among, Aqm, CoDel, DropReason, DualPi2, GilbertElliott, LogRow, Named, PacketName, Pipe, PipeConfig,
    PipeCounters, PipeEvent, Queue, Red,
};
pub use piped::{NotEthernet, Piped};
pub use port::{PortConfig, SimPort};
pub use positions::{Positions, PositionsError};
pub use router::{Router, RouterCounters};
pub use rss_card::RssCard;
