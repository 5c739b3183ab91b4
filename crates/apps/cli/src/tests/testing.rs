//! Two stacks joined in memory, for the tests beside the modules.

use base::Addr;
use pio::{Pair, PairConfig, pair};
use sock::{Engine, Limits, Runner, Stack, SystemClock};
use stack::{Core, CoreConfig, OwnAddr};

/// A client, 10.0.0.2, and a server, 10.0.0.1.
pub(crate) fn stacks() -> (Stack, Stack) {
    let stack = |port: Pair, last| -> Stack {
        let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 24 }];
        let core = Core::new(CoreConfig { seed: 3, addresses, ..CoreConfig::default() }, Box::new(port));
        let engine = Engine::new(core, Box::new(SystemClock::new()), Limits::default());
        Runner::start(engine).expect("a watchdog thread")
    };
    let (client, server) = pair(&PairConfig::default()).expect("memory");
    (stack(client, 2), stack(server, 1))
}
