//! Goal: what comes up is what came, however workers take turns; control goes first; nothing hangs, whatever ends.
use super::fuzz::card as model;
use super::wire::{Far, Hands, Wire, segment};
use super::*;
use crate::sleep_on;
use crate::tests::testnet::Wait;
use ::wire::packet::{Content, parse_frame};
use ::wire::tcp::Flags;
use base::Addr;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

/// How long anything may take before it hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Does something with threads, on another one: a hang is told, and ends the test.
fn bounded(what: &str, act: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        act();
        done.send(()).expect("the test waits");
    });
    match wait.recv_timeout(TIMEOUT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

impl Far {
    /// A packet comes.
    fn put(&self, bytes: Vec<u8>) {
        self.put_in(vec![bytes], RxMeta::default());
    }
}

fn time() -> Instant {
    crate::sys::monotonic()
}

/// A card with threads on a wire.
fn threads(config: &CardConfig) -> (Card, Far) {
    let (wire, far) = Wire::new(512);
    (Card::over(Box::new(wire), config, "card", time, |_| {}).expect("threads"), far)
}

fn of(card: &Card, name: &str) -> u64 {
    card.stats().iter().find(|(row, _)| *row == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

/// Takes what comes up, each packet's flow and bytes, until `enough`.
fn take(card: &mut Card, mut enough: impl FnMut(&BTreeMap<u16, Vec<u8>>) -> bool) -> BTreeMap<u16, Vec<u8>> {
    let mut flows: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    while !enough(&flows) {
        card.wait(Some(Duration::from_millis(100))).expect("a bell");
        let mut batch = RxBatch::new();
        card.rx(&mut batch).expect("the wire is well");
        for packet in batch {
            let bytes = packet.frame.data();
            let Ok(Content::Ip(ip)) = parse_frame(bytes, bytes.len()).map(|frame| frame.content) else {
                panic!("only TCP was sent");
            };
            let (from, _, segment) = ip.tcp(bytes).expect("TCP");
            flows.entry(from - 1000).or_default().extend_from_slice(segment.payload);
            card.retire(packet.frame);
        }
    }
    flows
}

fn payload(flow: u16, nth: u32) -> Vec<u8> {
    (0..1_000).map(|at| (at ^ nth ^ u32::from(flow)) as u8).collect()
}

#[test]
fn any_order_of_turns_brings_up_what_came() {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..if cfg!(miri) { 2 } else { 600 } {
        let mut rng = Rng::new(seed);
        let input: Vec<u8> = (0..rng.below(2_000)).map(|_| rng.next_u32() as u8).collect();
        eprintln!("seed {seed}");
        for (name, value) in model(&input) {
            *sums.entry(name.replace(|c: char| c.is_ascii_digit(), "")).or_default() += value;
        }
    }
    // Otherwise the model would not have tried it.
    for row in ["merged", "supers", "control", "behind_own", "unsound", "engine_gained", "engine_up_gap"] {
        assert!(cfg!(miri) || sums[&format!("card_rx_{row}")] > 0, "{row}: {sums:?}");
    }
    for row in ["card_up_full", "card_link_tx_full", "card_link_summed", "card_link_no_frame"] {
        assert!(cfg!(miri) || sums[row] > 0, "{row}: {sums:?}");
    }
}

#[test]
fn workers_on_threads_bring_up_what_came() {
    for receivers in [1, 2, 4] {
        bounded("a card with threads", move || {
            let (mut card, far) = threads(&CardConfig::new(receivers, 7));
            let (flows, segments) = (6, 400);
            let sender = std::thread::spawn(move || {
                for nth in 0..segments {
                    for flow in 0..flows {
                        far.put(segment(flow, 1_000 * nth, Flags::ACK, &payload(flow, nth)));
                    }
                }
                far
            });
            let whole = segments as usize * 1_000;
            let got = take(&mut card, |got| {
                got.len() == usize::from(flows) && got.values().all(|bytes| bytes.len() == whole)
            });
            for (flow, bytes) in got {
                let sent: Vec<u8> = (0..segments).flat_map(|nth| payload(flow, nth)).collect();
                assert!(bytes == sent, "flow {flow} over {receivers} workers");
            }
            drop(sender.join().expect("the sender"));
        });
    }
}

#[test]
fn what_carries_no_data_does_not_wait_for_data() {
    for seed in 0..20 {
        let (wire, far) = Wire::new(512);
        let hands = Hands::new();
        let config = CardConfig { engine: None, ..CardConfig::new(1, seed) };
        let mut card = Card::in_turns(Box::new(wire), &config, move || hands.now()).expect("memory");
        for nth in 0..300 {
            far.put(segment(0, nth * 1_000, Flags::ACK, &payload(0, nth)));
        }
        // The host takes nothing, so data fills its ring and waits before it.
        for _ in 0..100 {
            card.tx(&mut TxBatch::new()).expect("the wire is well");
        }
        far.put(segment(2, 0, Flags::SYN, &[]));
        for _ in 0..100 {
            card.tx(&mut TxBatch::new()).expect("the wire is well");
        }
        let (mut before, mut batch) = (0, RxBatch::new());
        while batch.iter().all(|packet| packet.frame.len() > 200) {
            before += batch.len();
            batch.drain(..).for_each(|packet| card.retire(packet.frame));
            assert!(before <= HOST_RING, "a SYN behind {before} packets of data");
            card.rx(&mut batch).expect("the wire is well");
        }
        batch.drain(..).for_each(|packet| card.retire(packet.frame));
    }
}

/// Where the host takes nothing the link keeps what comes, and all of it comes up later.
#[test]
fn a_host_that_does_nothing_is_waited_for() {
    bounded("a card before a lazy host", || {
        let (mut card, far) = threads(&CardConfig { engine: None, ..CardConfig::new(2, 3) });
        let all = 2_000;
        for nth in 0..all {
            far.put(segment(nth % 5, u32::from(nth / 5) * 1_000, Flags::ACK, &payload(nth % 5, nth.into())));
        }
        while of(&card, "card_link_rx_full") == 0 {
            std::thread::yield_now();
        }
        assert!(far.traffic().out <= OUT_MAX, "so many frames at the most");
        assert!(!far.traffic().coming.is_empty());
        let got =
            take(&mut card, |got| got.values().map(Vec::len).sum::<usize>() == usize::from(all) * 1_000);
        assert_eq!(got.len(), 5);
    });
}

/// With every large frame in the host's hands packets go up as they came.
#[test]
fn d20_without_large_frames_nothing_is_merged() {
    let (wire, far) = Wire::new(512);
    let hands = Hands::new();
    let mut card =
        Card::in_turns(Box::new(wire), &CardConfig::new(1, 1), move || hands.now()).expect("memory");
    let (mut kept, mut nth) = (Vec::new(), 0);
    while of(&card, "card_rx0_no_frame") == 0 {
        for _ in 0..4 {
            far.put(segment(0, nth * 1_000, Flags::ACK, &payload(0, nth)));
            nth += 1;
        }
        let mut batch = RxBatch::new();
        card.rx(&mut batch).expect("the wire is well");
        for packet in batch {
            if card.pool.owns(&packet.frame) { kept.push(packet.frame) } else { card.retire(packet.frame) }
        }
        assert!(nth < 10_000, "{} large frames are out", kept.len());
    }
    kept.into_iter().for_each(|frame| card.retire(frame));
}

/// Returns the error of `rx` once nothing comes any more.
fn end_of(card: &mut Card) -> IoError {
    loop {
        card.wait(Some(Duration::from_millis(100))).expect("a bell");
        let mut batch = RxBatch::new();
        if let Err(error) = card.rx(&mut batch) {
            return error;
        }
        batch.into_iter().for_each(|packet| card.retire(packet.frame));
    }
}

fn port_80() -> PortClaim {
    PortClaim { addr: Addr::v4([0; 4]), port: 80, reuse_port: false, ephemeral: false, v6_only: false }
}

#[test]
fn a_worker_that_panics_ends_the_port() {
    bounded("a card whose receive worker panicked", || {
        let config = CardConfig { summer: |_| panic!("as the test wants it"), ..CardConfig::new(2, 1) };
        let (mut card, far) = threads(&config);
        far.put(segment(0, 0, Flags::ACK, b"data"));
        assert!(matches!(end_of(&mut card), IoError::Gone));
        assert!(matches!(card.tx(&mut TxBatch::new()), Err(IoError::Gone)));
        assert!(matches!(end_of(&mut card), IoError::Gone), "and says so again");
    });
    bounded("a card whose worker at the link panicked", || {
        let (mut card, far) = threads(&CardConfig::new(1, 1));
        far.traffic().panics = true;
        far.wake();
        assert!(matches!(end_of(&mut card), IoError::Gone));
        let claim = port_80();
        assert!(matches!(card.claim(&claim), Err(ClaimError::Os(_))), "nothing is left to answer");
        card.release(&claim);
    });
}

#[test]
fn a_worker_on_the_way_up_that_panics_ends_the_port() {
    bounded("a card whose worker on the way up panicked", || {
        let panics = Arc::new(AtomicBool::new(false));
        let (wire, far) = Wire::new(512);
        let asked = panics.clone();
        // Each worker asks for the time before its turn.
        let clock = move || {
            let up = std::thread::current().name() == Some("card-up");
            assert!(!up || !asked.load(Ordering::Acquire), "as the test wants it");
            time()
        };
        let mut card =
            Card::over(Box::new(wire), &CardConfig::new(2, 1), "card", clock, |_| {}).expect("threads");
        far.put(segment(0, 0, Flags::ACK, b"data"));
        take(&mut card, |got| !got.is_empty());
        panics.store(true, Ordering::Release);
        far.put(segment(0, 4, Flags::ACK, b"more"));
        assert!(matches!(end_of(&mut card), IoError::Gone));
        let lost = card.state.lost().expect("it is told") as usize;
        assert_eq!(card.who(lost), "the worker that moves packets up");
        assert!(matches!(card.tx(&mut TxBatch::new()), Err(IoError::Gone)));
        assert!(matches!(end_of(&mut card), IoError::Gone), "and says so again");
    });
}

#[test]
fn a_link_that_is_gone_or_down_says_so() {
    bounded("a card on a link that fails", || {
        let (mut card, far) = threads(&CardConfig::new(1, 1));
        far.traffic().says = Some(|| IoError::Down);
        far.wake();
        assert!(matches!(end_of(&mut card), IoError::Down));
        assert!(matches!(card.rx(&mut RxBatch::new()), Err(IoError::Down)), "as long as it is");
        far.traffic().says = None;
        far.put(segment(0, 0, Flags::ACK, b"back"));
        let mut got = 0;
        while got == 0 {
            got = card.rx(&mut RxBatch::new()).unwrap_or(0);
        }
        far.traffic().says = Some(|| IoError::Gone);
        far.wake();
        assert!(matches!(end_of(&mut card), IoError::Gone));
    });
}

#[test]
fn requests_reach_the_link_and_are_answered() {
    bounded("a card that asks its link", || {
        let (mut card, far) = threads(&CardConfig::new(1, 1));
        let claim = port_80();
        assert!(card.claim(&claim).is_ok());
        far.traffic().denies = true;
        assert!(matches!(card.claim(&claim), Err(ClaimError::InUse)));
        card.release(&claim);
        far.traffic().denies = false;
        assert!(card.claim(&claim).is_ok());
        assert_eq!(far.traffic().asked, ["claim 80", "claim 80", "release 80", "claim 80"]);
        let mut events = Vec::new();
        card.net_events(&mut events);
        assert!(events.contains(&NetEvent::Mtu(1500)), "what the link says first is there at once");
    });
}

#[test]
fn it_ends_while_packets_come() {
    bounded("a card that is dropped", || {
        for _ in 0..20 {
            let (mut card, far) = threads(&CardConfig::new(3, 1));
            for nth in 0..300 {
                far.put(segment(nth % 7, u32::from(nth) * 1_000, Flags::ACK, &payload(0, 0)));
            }
            card.rx(&mut RxBatch::new()).expect("the wire is well");
        }
    });
}

#[test]
fn sleepers_are_woken() {
    bounded("a sleeper", || {
        let (mut card, far) = threads(&CardConfig::new(1, 1));
        far.put(segment(0, 0, Flags::ACK, b"x"));
        take(&mut card, |got| !got.is_empty());
        let mut fds = Vec::new();
        while !card.arm(&mut fds).expect("a bell") {
            card.rx(&mut RxBatch::new()).expect("the wire is well");
        }
        far.put(segment(0, 1, Flags::ACK, b"x"));
        assert_eq!(sleep_on(&fds, Some(TIMEOUT)).expect("descriptors"), Wake::Ready);
        take(&mut card, |got| !got.is_empty());
    });
}

/// How long a segment is held of a flow that goes on, by a card that may hold it for 800 us: where the stack has told a
/// round trip of a flow, and where it has not.
fn held_for(told: Option<(u16, Duration)>) -> Duration {
    const TICK: Duration = Duration::from_micros(5);
    let (wire, far) = Wire::new(512);
    let time = Hands::new();
    let engine = offload::Config { hold: 160 * TICK, ..offload::Config::default() };
    let config = CardConfig { engine: Some(engine), ..CardConfig::new(2, 3) };
    let hands = time.clone();
    let mut card = Card::in_turns(Box::new(wire), &config, move || hands.now()).expect("memory");
    assert!(card.caps().wants_round_trips);
    if let Some((flow, srtt)) = told {
        let bytes = segment(flow, 0, Flags::ACK, b"any");
        let seen = crate::layers::classify::classify(&bytes, bytes.len(), Medium::Ethernet).expect("TCP");
        card.on_round_trip(&seen.key, srtt);
    }
    // All that the workers do at this time; the bytes of payload that came up.
    let settle = |card: &mut Card| {
        let (mut batch, mut came) = (RxBatch::new(), 0);
        for _ in 0..100 {
            card.rx(&mut batch).expect("the wire is well");
            for packet in batch.drain(..) {
                came += packet.frame.len() / 1_000 * 1_000;
                card.retire(packet.frame);
            }
        }
        came
    };
    let (mut sent, mut came) = (0, 0);
    for _ in 0..4 {
        for flags in [Flags::ACK, Flags::ACK | Flags::PSH] {
            far.put(segment(0, sent, flags, &payload(0, sent)));
            sent += 1_000;
        }
        came += settle(&mut card);
        time.pass(TICK);
    }
    assert_eq!(came, sent as usize, "what ends with PSH waits for nothing");
    far.put(segment(0, sent, Flags::ACK, &payload(0, sent)));
    let begin = time.now();
    while settle(&mut card) == 0 {
        assert!(time.now() < begin + Duration::from_millis(2), "held for good");
        time.pass(TICK);
    }
    time.now().since(begin)
}

#[test]
fn nothing_waits_for_more_than_an_eighth_of_the_round_trip_that_was_told() {
    let micros = Duration::from_micros;
    assert_eq!(held_for(None), micros(800), "as long as is set");
    assert_eq!(held_for(Some((0, micros(800)))), micros(100));
    assert_eq!(held_for(Some((2, micros(800)))), micros(800), "of another flow");
    assert_eq!(held_for(Some((0, micros(80_000)))), micros(800), "and never for longer than is set");
}

#[test]
fn a_card_that_holds_nothing_asks_for_no_round_trips() {
    let plain = offload::Config::default();
    let reorder = offload::Config { reorder: Duration::from_micros(50), ..plain };
    for engine in [None, Some(plain), Some(reorder)] {
        let (wire, _far) = Wire::new(512);
        let config = CardConfig { engine, ..CardConfig::new(1, 3) };
        let card = Card::in_turns(Box::new(wire), &config, time).expect("memory");
        assert!(!card.caps().wants_round_trips, "{engine:?}");
    }
}
