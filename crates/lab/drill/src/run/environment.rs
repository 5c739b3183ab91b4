//! Changes by the shell lines of a script: settings of the stack, the route, the interface. Lines before the stack
//! is made apply when it is made; later ones apply at once.

use super::profile::set_sysctl;
use super::shell::{Grant, read};
use super::world::World;
use base::Addr;
use pio::{NetEvent, Route};
use stack::{CoreConfig, Row};
use std::path::Path;

/// Why a line did not do what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A stack in virtual time has nothing of the kind.
    Unsupported(String),
    /// The line checks something, and it is not so.
    Failed(String),
}

/// The machine around a stack, as far as shell lines change it.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Settings of the stack.
    pub config: CoreConfig,
    /// The interface's MTU, bytes.
    mtu: usize,
    /// The largest packet that the route takes, bytes, where a line said so.
    route_mtu: Option<u32>,
    /// The interface cuts super-segments.
    offload: bool,
    /// The script wants to see super-segments whole where the interface cuts them.
    strict_segments: bool,
}

impl Environment {
    /// Of a stack with these settings, on an interface with this MTU in bytes.
    pub fn new(config: CoreConfig, mtu: usize, strict_segments: bool) -> Environment {
        Environment { config, mtu, route_mtu: None, offload: true, strict_segments }
    }

    /// Makes the stack.
    ///
    /// # Errors
    /// There is no memory for its port.
    pub fn start(&self) -> std::io::Result<World> {
        let world = World::new(self.config.clone(), self.mtu, self.strict_segments && self.offload)?;
        self.share_route(&world);
        Ok(world)
    }

    /// Lets the commands of `line` do what they do, for `world` too if there is one. Files that the line names are
    /// looked for in `folder`.
    ///
    /// # Errors
    /// The first command that cannot be run here, or that checks something which is not so; those before it are done.
    pub fn run(&mut self, line: &str, folder: &Path, world: Option<&World>) -> Result<(), Refusal> {
        for grant in read(line, folder) {
            self.grant(grant, world)?;
        }
        Ok(())
    }

    /// Returns the first command of `line` that cannot be run here, if any.
    pub fn unsupported(line: &str, folder: &Path) -> Option<String> {
        read(line, folder).into_iter().find_map(|grant| match grant {
            Grant::Unsupported(what) => Some(what),
            _ => None,
        })
    }

    fn grant(&mut self, grant: Grant, world: Option<&World>) -> Result<(), Refusal> {
        match grant {
            Grant::Sysctl(name, value) => {
                set_sysctl(&mut self.config, &name, &value).map_err(Refusal::Unsupported)?;
                self.share_settings(world)?;
            }
            Grant::Route(row, value) => {
                let refused = |_| Refusal::Unsupported(format!("a route with {row}={value}"));
                self.config.tcp.set(row, &value).map_err(refused)?;
                self.share_settings(world)?;
            }
            Grant::Mtu(mtu) => {
                self.route_mtu = Some(mtu);
                if let Some(world) = world {
                    self.share_route(world);
                }
            }
            Grant::Offload(on) => {
                self.offload = on;
                if let Some(world) = world {
                    world.wire.lock().whole = self.strict_segments && on;
                }
            }
            Grant::Pacing(on) => {
                self.config.tcp.pacing = on;
                self.share_settings(world)?;
            }
            Grant::Forget => {
                if let Some(world) = world {
                    world.engine().core().forget_fast_open();
                }
            }
            Grant::Listed(state, port) => must_list(world, state, port)?,
            Grant::Unsupported(what) => return Err(Refusal::Unsupported(what)),
        }
        Ok(())
    }

    /// Settings that changed hold for a stack that runs, too.
    fn share_settings(&self, world: Option<&World>) -> Result<(), Refusal> {
        world.map_or(Ok(()), |world| world.set(&self.config).map_err(Refusal::Unsupported))
    }

    /// Applies the limits of the default routes to a running stack, too.
    fn share_route(&self, world: &World) {
        let Some(mtu) = self.route_mtu else { return };
        let mut engine = world.engine();
        let now = engine.now();
        // As on Linux, a route may take more than the interface says.
        let most = self.mtu.max(mtu as usize);
        engine.core().on_net_event(now, &NetEvent::Mtu(most));
        for &gateway in &self.config.gateways {
            let dst = if gateway.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
            let gateway = Some(gateway);
            let route = Route { dst, prefix: 0, gateway, src: None, metric: 0, mtu: Some(mtu) };
            engine.core().on_net_event(now, &NetEvent::RouteAdded(route));
        }
    }
}

/// Fails unless a socket on this port is in this state of Linux's.
fn must_list(world: Option<&World>, state: u8, port: u16) -> Result<(), Refusal> {
    const LISTEN: u8 = 10;
    let mut found = false;
    if let Some(world) = world {
        let mut engine = world.engine();
        let now = engine.now();
        engine.core().for_each(now, &mut |row| {
            found |= match row {
                Row::Listener { local, .. } => state == LISTEN && local.port == port,
                Row::Connection(tcp) => tcp.key().local().port == port && tcp.state().number() == state,
                Row::TimeWait(_) => false,
            };
        });
    }
    if found { Ok(()) } else { Err(Refusal::Failed(format!("no socket on port {port} in state {state}"))) }
}
