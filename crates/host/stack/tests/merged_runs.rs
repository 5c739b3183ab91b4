//! Goal: who watches sees a merged run of segments as one packet with all its bytes and their number; who must see each
//! sees each, and so does every observer beside it.

mod common;

use base::{Duration, Endpoint, FlowKey, Instant};
use common::*;
use pio::PairConfig;
use stack::Offload;
use std::sync::{Arc, Mutex};
use tcp::{Probe, Seen, State};

/// Segments that came in as one, and their bytes.
type Notes = Arc<Mutex<Vec<(u32, Vec<u8>)>>>;

struct Watcher {
    notes: Notes,
    each: bool,
}

impl Probe for Watcher {
    fn packet(&mut self, seen: &Seen<'_>) {
        if seen.outbound || seen.payload.is_empty() {
            return;
        }
        let mut data = Vec::new();
        seen.payload.for_each(|piece| data.extend_from_slice(piece));
        assert_eq!(data.len() as u32, seen.payload.len());
        self.notes.lock().unwrap().push((seen.segments(), data));
    }

    fn wants_each(&self) -> bool {
        self.each
    }

    fn state(&mut self, _: Instant, _: &FlowKey, _: State, _: State) {}
}

const HOLD: Offload = Offload::Hold(Duration::from_micros(50));

/// Returns the view of a server's observers on ten segments that arrive together.
fn seen_by(offload: Offload, watchers: &[bool]) -> Vec<Vec<(u32, Vec<u8>)>> {
    const SEGMENT: usize = 1448;
    let http = Endpoint::new(SERVER, PORT);
    let mut world = World::with(&PairConfig::default(), |_, server| server.offload = offload);
    let listener = world.listen(http, 16);
    let (client, server) = world.establish(listener, http, 7);
    let notes: Vec<Notes> = watchers
        .iter()
        .map(|each| {
            let notes = Notes::default();
            world.server.attach(Box::new(Watcher { notes: notes.clone(), each: *each }));
            notes
        })
        .collect();
    let data: Vec<u8> = (0..10 * SEGMENT).map(|at| (at / 7) as u8).collect();
    assert_eq!(world.client.write(world.now, client, &data), Ok(data.len()));
    world.pass(Duration::from_millis(1));
    let mut got = Vec::new();
    read_all(&mut world.server, world.now, server, &mut got);
    assert_eq!(got, data);
    let seen: Vec<_> = notes.iter().map(|notes| notes.lock().unwrap().clone()).collect();
    for seen in &seen {
        assert_eq!(seen.iter().map(|(segments, _)| segments).sum::<u32>(), 10);
        assert_eq!(seen.iter().flat_map(|(_, data)| data).copied().collect::<Vec<_>>(), data);
    }
    seen
}

#[test]
fn a_merged_run_is_one_packet() {
    let seen = seen_by(Offload::Inline, &[false]);
    assert_eq!(seen[0].len(), 1);
    assert_eq!(seen_by(Offload::Inline, &[false, false]), [seen[0].clone(), seen[0].clone()]);
    assert_eq!(seen_by(HOLD, &[false])[0].len(), 1);
}

#[test]
fn who_must_see_each_sees_each() {
    for offload in [Offload::Inline, HOLD] {
        let seen = seen_by(offload, &[false, true]);
        assert!(seen.iter().all(|seen| seen.iter().all(|(segments, _)| *segments == 1)), "{offload:?}");
    }
}
