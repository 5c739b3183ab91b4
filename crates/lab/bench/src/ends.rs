//! The two ends of a bulk flow between stacks in memory: their addresses, and how each begins.

use base::{Addr, Endpoint, Instant};
use pio::PacketIo;
use stack::{ConnId, Connect, Core, CoreConfig, Listen, ListenerId, Offload, OwnAddr};
use tcp::SocketOptions;

/// Address of the sender.
pub(crate) const SOURCE: Addr = Addr::v4([10, 0, 0, 1]);
/// Address of the receiver.
pub(crate) const SINK: Addr = Addr::v4([10, 0, 0, 2]);
/// Where the receiver listens.
pub(crate) const PORT: u16 = 5_001;

/// A stack with this address.
pub(crate) fn core(seed: u64, addr: Addr, port: Box<dyn PacketIo>) -> Core {
    core_with(seed, addr, CoreConfig::default().offload, port)
}

/// Makes a core with another receive offload.
pub(crate) fn core_with(seed: u64, addr: Addr, offload: Offload, port: Box<dyn PacketIo>) -> Core {
    let addresses = vec![OwnAddr { addr, prefix: 24 }];
    Core::new(CoreConfig { seed, addresses, offload, ..CoreConfig::default() }, port)
}

/// The receiver listens.
pub(crate) fn listen(core: &mut Core, now: Instant, options: SocketOptions) -> ListenerId {
    let listen = Listen { options, ..Listen::new(Endpoint::new(SINK, PORT), 64, 1) };
    core.listen(now, &listen).expect("a fresh stack listens").0
}

/// The sender connects.
pub(crate) fn connect(core: &mut Core, now: Instant, options: SocketOptions) -> ConnId {
    let (local, remote) = (Endpoint::new(SOURCE, 0), Endpoint::new(SINK, PORT));
    let connect = Connect { options, ..Connect::new(local, remote, 0) };
    core.connect(now, &connect).expect("ports suffice")
}
