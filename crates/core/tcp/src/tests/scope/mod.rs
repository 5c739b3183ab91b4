//! Goal: in a universe small enough to visit every state, a part and its plain oracle agree on every sequence of
//! operations. A state is what decides the part's future: where the search finds no new one, sequences of any length
//! are covered, since all numbers of the circle look alike to a part that only subtracts them.
//!
//! `cargo test -p millstream-tcp scope` visits small universes; with `MILLSTREAM_SCOPE=large`, larger ones. What was
//! proven stands in docs/CONFORMANCE.md.

extern crate std;

mod assembler;
mod scoreboard;
mod sent;

use std::collections::HashSet;
use std::hash::Hash;
use std::vec::Vec;

/// A universe with more states than this is not small, or its states are not told apart by what matters.
const STATES_MAX: usize = 4_000_000;

/// A part, its oracle, and all that can be done to them.
pub(super) trait Universe: Clone {
    /// State that decides all later behaviour.
    type State: Hash + Eq;
    /// One operation.
    type Step: Copy;

    /// Every operation possible now.
    fn steps(&self) -> Vec<Self::Step>;
    /// Performs one on both.
    fn take(&mut self, step: Self::Step);
    /// Asks both everything there is to ask.
    ///
    /// # Panics
    /// When they disagree.
    fn compare(&self);
    /// The state reached.
    fn state(&self) -> Self::State;
}

/// How far a search went.
pub(super) struct Explored {
    pub(super) states: usize,
    pub(super) transitions: usize,
    /// Operations from the start to the last new state.
    pub(super) depth: usize,
}

/// Visits every state that can be reached from `start`, by breadth.
pub(super) fn explore<U: Universe>(name: &str, start: U) -> Explored {
    let mut seen = HashSet::from([start.state()]);
    let mut frontier = Vec::from([start]);
    let (mut transitions, mut depth) = (0, 0);
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for world in &frontier {
            for step in world.steps() {
                let mut after = world.clone();
                after.take(step);
                transitions += 1;
                assert!(seen.len() < STATES_MAX, "{name}: no end in sight");
                if seen.insert(after.state()) {
                    after.compare();
                    next.push(after);
                }
            }
        }
        depth += usize::from(!next.is_empty());
        frontier = next;
    }
    let explored = Explored { states: seen.len(), transitions, depth };
    let Explored { states, transitions, depth } = explored;
    std::eprintln!("{name}: all {states} states that exist, {transitions} steps between them, {depth} deep");
    explored
}

/// Is there time for the large universes?
pub(super) fn large() -> bool {
    std::env::var_os("MILLSTREAM_SCOPE").is_some_and(|scope| scope == "large")
}
