//! A host that is one core's stack with an application on it.

use crate::Host;
use base::Instant;
use stack::{Core, Notice};

/// An application in virtual time. It uses the core's own calls; the APIs are not needed.
pub trait App {
    /// Something happened to connections or listeners, or the date of the last step has come. The date of the
    /// next step, if nothing happens before.
    fn step(&mut self, core: &mut Core, now: Instant, notices: &[Notice]) -> Option<Instant>;
}

/// A stack and its application, stepped together: one round of the stack, then the application, and again
/// while either wants it.
pub struct CoreHost<A> {
    /// The stack.
    pub core: Core,
    /// The application.
    pub app: A,
    notices: Vec<Notice>,
}

impl<A: App> CoreHost<A> {
    /// A host of both.
    pub fn new(core: Core, app: A) -> Self {
        CoreHost { core, app, notices: Vec::new() }
    }
}

impl<A: App> Host for CoreHost<A> {
    /// # Panics
    /// If the port fails, which a simulated one never does.
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let turn = self.core.turn(now).expect("a simulated port does not fail");
        self.notices.clear();
        self.core.notices(&mut self.notices);
        let wake_at = self.app.step(&mut self.core, now, &self.notices);
        if turn.more {
            return Some(now);
        }
        Instant::earliest(self.core.rest(now), wake_at)
    }
}
