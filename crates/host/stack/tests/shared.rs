//! Goal: where processes share a port, each segment has one answerer and no connection is refused by another's: not by
//! a process that a late copy comes to, nor while a connection takes the place of a TIME-WAIT entry.

mod common;

use base::{Duration, Endpoint, FlowKey, Instant, Seq};
use common::*;
use pio::{
    Answerer, ClaimError, Claims, Layer, NetEvent, NetEvents, PacketIo, Pair, PairConfig, PortClaim, Role,
    Sharing, TxBatch, TxMeta, TxPacket, pair,
};
use stack::{Connect, Core};
use std::sync::{Arc, Mutex};
use wire::packet::{Below, Checksum, Link};
use wire::tcp::{Flags, Header, Options};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);

/// The other processes: their answers, and what they hear.
struct Others {
    answerer: Answerer,
    /// Flows that are told, and how often none was.
    flows: i32,
    gone: u32,
    left: usize,
    /// State of what was left last, and whether it is left to this one.
    state: Vec<u8>,
    comes: bool,
    /// There is room for what is left.
    room: bool,
}

/// A port that processes share.
struct Shared {
    pair: Pair,
    told: bool,
    others: Arc<Mutex<Others>>,
}

impl Layer for Shared {
    type Below = Pair;

    fn below(&self) -> &Pair {
        &self.pair
    }

    fn below_mut(&mut self) -> &mut Pair {
        &mut self.pair
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        Some(self)
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Some(self)
    }
}

impl Claims for Shared {
    fn claim(&mut self, _: &PortClaim) -> Result<(), ClaimError> {
        Ok(())
    }

    fn release(&mut self, _: &PortClaim) {}

    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        Some(self)
    }
}

impl NetEvents for Shared {
    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        if !std::mem::replace(&mut self.told, true) {
            events.push(NetEvent::Shared { port: PORT });
        }
    }
}

impl Sharing for Shared {
    fn serve(&mut self, _: &PortClaim, _: bool) {}

    fn set_role(&mut self, _: &PortClaim, _: Role) {}

    fn answerer(&self, _: &FlowKey, _: bool) -> Answerer {
        self.others.lock().unwrap().answerer
    }

    fn on_flow(&mut self, _: &FlowKey, lives: bool) {
        let mut others = self.others.lock().unwrap();
        others.flows += if lives { 1 } else { -1 };
        others.gone += u32::from(others.flows == 0);
    }

    fn hand_over(&mut self, _: &FlowKey, state: &[u8]) -> bool {
        let mut others = self.others.lock().unwrap();
        others.left += usize::from(others.room);
        others.state = state.to_vec();
        others.room
    }

    fn take_over(&mut self, state: &mut Vec<u8>) -> bool {
        let mut others = self.others.lock().unwrap();
        state.clone_from(&others.state);
        std::mem::take(&mut others.comes)
    }
}

/// A core on such a port, and the other end of its wire.
fn shared() -> (Core, Pair, Arc<Mutex<Others>>) {
    let others = Others {
        answerer: Answerer::Ours,
        flows: 0,
        gone: 0,
        left: 0,
        state: Vec::new(),
        comes: false,
        room: true,
    };
    let others = Arc::new(Mutex::new(others));
    let (wire, pair) = pair(&PairConfig::default()).unwrap();
    let port = Shared { pair, told: false, others: others.clone() };
    (Core::new(config(2, SERVER, SERVER_V6), Box::new(port)), wire, others)
}

/// A segment without data from port 5000 of the client.
fn inject(core: &mut Core, wire: &mut Pair, flags: Flags) {
    let link = Some(Link { dst: core.io().caps().mac, src: wire.caps().mac });
    let below = Below { link, src: CLIENT, dst: SERVER, tos: 0, ttl: 64, label: 0 };
    let (src_port, seq, ack) = (5_000, Seq::new(7), Seq::new(9));
    let options = Options::default();
    let header = Header { src_port, dst_port: PORT, seq, ack, flags, window: 1_000, options };
    let mut frame = wire.take().expect("frames come back");
    frame.set_range(0, below.len() + header.len());
    below.emit_tcp(&header, 0, Checksum::Full, frame.data_mut());
    let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
    wire.tx(&mut batch).unwrap();
    batch.into_iter().for_each(|packet| wire.retire(packet.frame));
}

/// Another process has the SYN as well, and would answer it.
#[test]
fn a_flow_is_told_of_all_the_while_that_a_connection_replaces_its_time_wait_entry() {
    let (server, wire, others) = shared();
    let mut world = World::of(Core::new(config(1, CLIENT, CLIENT_V6), Box::new(wire)), server);
    let listener = world.listen(HTTP, 8);
    let again = Connect { local: Endpoint::new(CLIENT, 40_000), ..connect(HTTP, 7) };
    for reused in [0, 1] {
        let client = world.client.connect(world.now, &again).unwrap();
        world.settle();
        assert_eq!(stat(&world.server, "time_wait_reused"), reused);
        let accepted = world.server.accept(listener, 7).unwrap();
        world.server.close(world.now, accepted);
        world.settle();
        world.client.close(world.now, client);
        world.settle();
        world.now += Duration::from_secs(1);
        assert_eq!(stat(&world.server, "time_wait"), 1);
    }
    let others = others.lock().unwrap();
    assert_eq!((others.flows, others.gone), (1, 0));
}

/// A thread that waits for connections in the turn's place must look again.
#[test]
fn a_turn_that_takes_a_connection_over_has_news() {
    let (server, wire, others) = shared();
    let mut world = World::of(Core::new(config(1, CLIENT, CLIENT_V6), Box::new(wire)), server);
    let listener = world.listen(HTTP, 8);
    world.client.connect(world.now, &connect(HTTP, 7)).unwrap();
    world.settle();
    world.server.close_listener(world.now, listener);
    let state = std::mem::take(&mut others.lock().unwrap().state);
    let (mut heir, _wire, others) = shared();
    let mut now = world.now;
    let (listener, _) = heir.listen(now, &listen(HTTP, 8)).unwrap();
    let mut news = |comes| {
        now += Duration::from_secs(1);
        (others.lock().unwrap().state, others.lock().unwrap().comes) = (state.clone(), comes);
        let turn = heir.turn(now).unwrap();
        heir.notices(&mut Vec::new());
        (turn.received, turn.has_news(), heir.acceptable(listener))
    };
    assert_eq!(news(false), (0, false, 0));
    assert_eq!(news(true), (0, true, 1));
}

#[test]
fn a_late_copy_is_counted_and_not_refused() {
    let (mut core, mut wire, others) = shared();
    let now = Instant::from_secs(1);
    core.listen(now, &listen(HTTP, 8)).unwrap();
    let counts = |core: &Core| ["drop_moved_flow", "drop_no_flow", "resets_out"].map(|row| stat(core, row));
    others.lock().unwrap().answerer = Answerer::OursLately;
    for flags in [Flags::ACK, Flags::FIN | Flags::ACK, Flags::RST] {
        inject(&mut core, &mut wire, flags);
    }
    core.turn(now).unwrap();
    assert_eq!(counts(&core), [3, 0, 0]);
    others.lock().unwrap().answerer = Answerer::Ours;
    inject(&mut core, &mut wire, Flags::ACK);
    core.turn(now).unwrap();
    assert_eq!(counts(&core), [3, 1, 1]);
    others.lock().unwrap().answerer = Answerer::OursLately;
    inject(&mut core, &mut wire, Flags::SYN);
    core.turn(now).unwrap();
    assert_eq!((counts(&core), stat(&core, "connections")), ([3, 1, 1], 1));
}

#[test]
fn a_syn_that_no_process_answers_is_kept_for_the_next_that_listens() {
    let (mut core, mut wire, others) = shared();
    let mut now = Instant::from_secs(1);
    let (listener, _) = core.listen(now, &listen(HTTP, 8)).unwrap();
    core.park(listener, true);
    let syn = |core: &mut Core, wire: &mut Pair, now| {
        inject(core, wire, Flags::SYN);
        core.turn(now).unwrap();
        stat(core, "drop_anothers_flow")
    };
    others.lock().unwrap().answerer = Answerer::NoneYet;
    assert_eq!(syn(&mut core, &mut wire, now), 0);
    now += Duration::from_secs(2);
    assert_eq!(syn(&mut core, &mut wire, now), 0, "sent again, it is the one that is kept");
    now += Duration::from_secs(2);
    core.turn(now).unwrap();
    others.lock().unwrap().answerer = Answerer::Next;
    now += Duration::from_millis(2);
    core.turn(now).unwrap();
    assert_eq!((others.lock().unwrap().left, stat(&core, "drop_anothers_flow")), (1, 0));
    // One that finds no process in time.
    others.lock().unwrap().answerer = Answerer::NoneYet;
    assert_eq!(syn(&mut core, &mut wire, now), 0);
    now += Duration::from_secs(4);
    core.turn(now).unwrap();
    assert_eq!((others.lock().unwrap().left, stat(&core, "drop_anothers_flow")), (1, 1));
    // Where there is no room for it yet, and where its bucket has moved meanwhile.
    (others.lock().unwrap().room, others.lock().unwrap().answerer) = (false, Answerer::Next);
    assert_eq!(syn(&mut core, &mut wire, now), 1);
    (others.lock().unwrap().room, others.lock().unwrap().answerer) = (true, Answerer::Another);
    now += Duration::from_millis(2);
    core.turn(now).unwrap();
    assert_eq!((others.lock().unwrap().left, stat(&core, "resets_out")), (2, 0));
    assert_eq!(syn(&mut core, &mut wire, now), 2, "this one the other has seen");
    // The process listens itself again.
    others.lock().unwrap().answerer = Answerer::NoneYet;
    assert_eq!(syn(&mut core, &mut wire, now), 2);
    core.park(listener, false);
    others.lock().unwrap().answerer = Answerer::Ours;
    now += Duration::from_millis(2);
    core.turn(now).unwrap();
    assert_eq!((stat(&core, "connections"), stat(&core, "resets_out")), (1, 0));
}

#[test]
fn a_syn_is_refused_where_no_process_has_a_listener() {
    let (mut core, mut wire, others) = shared();
    let now = Instant::from_secs(1);
    let (listener, _) = core.listen(now, &listen(HTTP, 8)).unwrap();
    core.close_listener(now, listener);
    others.lock().unwrap().answerer = Answerer::None;
    inject(&mut core, &mut wire, Flags::SYN);
    core.turn(now).unwrap();
    assert_eq!((stat(&core, "resets_out"), stat(&core, "drop_no_flow")), (1, 1));
}

#[test]
fn who_ends_keeps_a_syn_for_the_next_that_listens() {
    let (mut core, mut wire, others) = shared();
    let mut now = Instant::from_secs(1);
    core.listen(now, &listen(HTTP, 8)).unwrap();
    assert!(!core.hand_over_all(now));
    others.lock().unwrap().answerer = Answerer::None;
    inject(&mut core, &mut wire, Flags::SYN);
    for _ in 0..5 {
        core.turn(now).unwrap();
        now += Duration::from_millis(2);
        assert!(core.hand_over_all(now), "the SYN waits");
    }
    others.lock().unwrap().answerer = Answerer::Next;
    core.turn(now).unwrap();
    assert!(!core.hand_over_all(now));
    assert_eq!((others.lock().unwrap().left, stat(&core, "connections")), (1, 0));
}
