//! Goal: each defect of the published design, a card that holds, merges and acknowledges by itself, has a test here
//! that would catch it, named after its number (d01 to d22), and the model holds for random lives. `crate::tests` has
//! those that are about what may be merged.

use alloc::vec::Vec;
use base::{Duration, Endpoint, FlowKey, Instant, Rng, Seq};
use wire::tcp::{Flags, SackBlocks};

use crate::tests::{ETHERNET, SIZE, packet};
use crate::{Arrival, Config, Engine, Flush};

extern crate std;

const HOLD: Duration = Duration::from_micros(50);
const MICRO: Duration = Duration::from_micros(1);

/// Packets are known by a number.
struct Packet(u32, Vec<u8>);

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        &self.1
    }
}

struct Rig {
    engine: Engine<Packet>,
    now: Instant,
}

type Up = Vec<(Vec<u32>, Flush)>;

fn of_flow(flow: u16) -> FlowKey {
    let end = |last, port| Endpoint::new(base::Addr::v4([192, 0, 2, last]), port);
    FlowKey::new(end(2, 80), end(1, 4000 + flow))
}

impl Rig {
    fn new(config: Config) -> Rig {
        Rig { engine: Engine::new(config), now: Instant::from_millis(1) }
    }

    /// Holds for 50 us, and knows flow 0 for one that goes on: the next segment is number 0.
    fn holding() -> Rig {
        let mut rig = Rig::new(Config { hold: HOLD, ..Config::default() });
        rig.warm(0);
        rig
    }

    fn reordering() -> Rig {
        Rig::new(Config { reorder: HOLD, ..Config::default() })
    }

    /// A few segments of a flow, a microsecond apart, up to number 0.
    fn warm(&mut self, flow: u16) {
        for before in (1..=3).rev() {
            self.now += MICRO;
            self.push_as(
                flow,
                0,
                packet(0u32.wrapping_sub(before), SIZE, |_, header| header.src_port += flow),
            );
            self.engine.on_batch_end(self.now);
        }
        self.engine.flush_all(Flush::Batch);
        self.up();
        self.now += MICRO;
    }

    fn push_as(&mut self, flow: u16, number: u32, bytes: Vec<u8>) {
        let end = bytes.len();
        let arrival = Arrival {
            key: of_flow(flow),
            hash: u64::from(flow) * 0x9e37,
            ip: ETHERNET,
            tcp: ETHERNET + 20,
            end,
            merged: false,
            packet: Packet(number, bytes),
        };
        assert!(self.engine.on_arrival(self.now, arrival).is_ok(), "there is room");
    }

    /// Segments of flow 0, by their numbers.
    fn push(&mut self, numbers: impl IntoIterator<Item = u32>) -> &mut Rig {
        numbers.into_iter().for_each(|nth| self.push_as(0, nth, packet(nth, SIZE, |_, _| {})));
        self
    }

    /// One that is not usual.
    fn push_odd(&mut self, nth: u32, len: usize, change: impl FnOnce(&mut wire::tcp::Header)) -> &mut Rig {
        self.push_as(0, nth, packet(nth, len, |_, header| change(header)));
        self
    }

    /// Returns the runs that are ready: the packets' numbers, and the reason of the flush.
    fn up(&mut self) -> Up {
        let mut all = Vec::new();
        while let Some(mut run) = self.engine.poll_run() {
            let mut numbers = Vec::new();
            while let Some(Packet(number, _)) = self.engine.next_packet(&mut run) {
                numbers.push(number);
            }
            all.push((numbers, run.why));
        }
        all
    }

    fn end_batch(&mut self) -> Up {
        self.engine.on_batch_end(self.now);
        self.up()
    }

    fn after(&mut self, time: Duration) -> &mut Rig {
        self.now += time;
        self.engine.on_batch_end(self.now);
        self
    }
}

fn one(packet: u32, why: Flush) -> (Vec<u32>, Flush) {
    (std::vec![packet], why)
}

fn run(numbers: core::ops::Range<u32>, why: Flush) -> (Vec<u32>, Flush) {
    (numbers.collect(), why)
}

#[test]
fn runs_grow_across_batches() {
    let mut rig = Rig::holding();
    for nth in 0..10 {
        rig.push([nth]).after(2 * MICRO);
        assert!(rig.up().is_empty(), "{nth}: more is expected");
    }
    assert_eq!(rig.after(30 * MICRO).up(), [run(0..10, Flush::Budget)]);
    let counters = rig.engine.counters();
    assert_eq!((counters.merged, counters.up_budget, counters.gained), (9, 1, 1));
}

#[test]
fn d01_d02_d03_nothing_is_made_only_handed_up() {
    let mut rig = Rig::holding();
    let shut = |nth| packet(nth, SIZE, |_, header| header.window = 0);
    let sent = [shut(0), shut(1)];
    for (nth, bytes) in sent.iter().enumerate() {
        rig.push_as(0, nth as u32, bytes.clone());
    }
    rig.after(HOLD);
    let mut run = rig.engine.poll_run().expect("it goes up");
    for bytes in sent {
        assert_eq!(rig.engine.next_packet(&mut run).map(|packet| packet.1), Some(bytes), "as it came");
    }
    assert!(rig.engine.next_packet(&mut run).is_none() && rig.engine.poll_run().is_none());
}

#[test]
fn d04_an_idle_time_before_neither_lengthens_the_hold_nor_begins_one() {
    let mut rig = Rig::holding();
    rig.now += Duration::from_secs(10);
    for nth in 0..20 {
        rig.push([nth]);
        assert_eq!(rig.end_batch(), [one(nth, Flush::Batch)], "one packet a second waits for nothing");
        rig.now += Duration::from_secs(1);
    }
    let mut rig = Rig::new(Config { hold: Duration::from_secs(5), ..Config::default() });
    rig.warm(0);
    rig.push([0]);
    assert!(rig.end_batch().is_empty());
    assert_eq!(rig.engine.poll_timeout(), Some(rig.now + crate::HOLD_MAX), "a hard bound");
}

#[test]
fn d04_the_budget_counts_from_the_first_segment_held() {
    let mut rig = Rig::holding();
    rig.push([0]).after(30 * MICRO).push([1]).after(19 * MICRO);
    assert!(rig.up().is_empty());
    assert_eq!(rig.after(MICRO).up(), [run(0..2, Flush::Budget)]);
}

#[test]
fn d04_an_eighth_of_the_round_trip_is_the_most() {
    let mut rig = Rig::holding();
    rig.engine.on_round_trip(&of_flow(0), 0, 80 * MICRO);
    rig.push([0]).after(9 * MICRO);
    assert!(rig.up().is_empty());
    assert_eq!(rig.after(MICRO).up(), [one(0, Flush::Budget)]);
}

#[test]
fn d04_a_wait_in_vain_is_the_last_until_the_flow_goes_on() {
    let mut rig = Rig::holding();
    assert_eq!(rig.push([0]).after(MICRO).after(HOLD).up(), [one(0, Flush::Budget)]);
    assert_eq!(rig.engine.counters().idle, 1);
    rig.push([1]);
    assert_eq!(rig.end_batch(), [one(1, Flush::Batch)]);
    for nth in 2..4 {
        rig.now += MICRO;
        rig.push([nth]).end_batch();
    }
    rig.now += MICRO;
    assert!(rig.push([4]).end_batch().is_empty(), "it goes on");
}

#[test]
fn d05_a_push_and_a_short_segment_go_up_at_once() {
    let mut rig = Rig::holding();
    rig.push([0]).push_odd(1, SIZE, |header| header.flags = Flags::ACK | Flags::PSH);
    assert_eq!(rig.up(), [run(0..2, Flush::Push)]);
    rig.push([2]).push_odd(3, 100, |_| {});
    assert_eq!(rig.up(), [run(2..4, Flush::Short)]);
    rig.push_odd(4, 10, |header| {
        header.seq = Seq::new(3 * SIZE as u32 + 100);
        header.flags = Flags::ACK | Flags::PSH;
    });
    assert_eq!(rig.up(), [one(4, Flush::Push)], "a request alone waits for nothing");
}

#[test]
fn d06_old_segments_go_up_for_the_stack_to_answer() {
    for mut rig in [Rig::holding(), Rig::reordering()] {
        rig.push([5, 6, 3]);
        let up = rig.up();
        assert_eq!(up[up.len() - 1], one(3, Flush::Alone));
        rig.push([5]);
        assert_eq!(rig.up(), [one(5, Flush::Alone)], "a repetition too: its acknowledgment was lost");
    }
}

#[test]
fn d07_an_overlap_goes_up_in_the_order_of_arrival() {
    for mut rig in [Rig::holding(), Rig::reordering()] {
        let shifted = |nth: u32| Seq::new(nth * SIZE as u32 + 100);
        rig.push([0, 1]).push_odd(9, SIZE, |header| header.seq = shifted(1));
        assert_eq!(rig.up(), [run(0..2, Flush::Gap), one(9, Flush::Alone)]);
        rig.push_odd(2, SIZE, |header| header.seq = shifted(2));
        rig.push_odd(3, SIZE, |header| header.seq = shifted(3));
        rig.after(HOLD);
        assert_eq!(rig.up().len(), 1, "what is next is known again");
    }
    let mut rig = Rig::reordering();
    rig.push([0, 3]).push_odd(9, SIZE, |header| header.seq = Seq::new(3 * SIZE as u32 + 5));
    let order: Vec<u32> = rig.up().into_iter().flat_map(|(packets, _)| packets).collect();
    assert_eq!(order, [0, 3, 9], "what came first stays first");
}

#[test]
fn d08_runs_and_waits_go_on_across_the_end_of_sequence_space() {
    for order in [[0, 1, 2, 3], [0, 2, 3, 1]] {
        let mut rig = Rig::reordering();
        for nth in order {
            let seq = Seq::new((nth * SIZE as u32).wrapping_sub(SIZE as u32 + 5));
            rig.push_odd(nth, SIZE, |header| header.seq = seq);
        }
        assert_eq!(rig.end_batch(), [run(0..4, Flush::Batch)]);
    }
}

#[test]
fn d09_a_run_stays_an_ip_packet() {
    let mut rig = Rig::holding();
    rig.push(0..60);
    assert_eq!(rig.up(), [run(0..45, Flush::Full)], "at once: nothing more fits");
}

#[test]
fn d10_d11_a_gap_holds_nothing_back() {
    let mut rig = Rig::holding();
    rig.push([0, 1, 3]);
    assert_eq!(rig.up(), [run(0..2, Flush::Gap), one(3, Flush::Alone)], "the peer hears of it now");
    rig.push([4, 5]);
    let each = [one(4, Flush::Alone), one(5, Flush::Alone)];
    assert_eq!(rig.up(), each, "each is another duplicate acknowledgment");
    rig.push([2]);
    assert_eq!(rig.up(), [one(2, Flush::Alone)], "what fills the gap too");
    rig.push([6, 7]);
    assert!(rig.end_batch().is_empty(), "and then runs grow again");
}

#[test]
fn d10_d11_reordering_delays_no_duplicate_acknowledgment_beyond_the_budget() {
    let mut rig = Rig::reordering();
    rig.push([0, 1, 4, 3]);
    assert_eq!(rig.end_batch(), [run(0..2, Flush::Batch)], "what is in order waits for nothing");
    assert!(rig.after(49 * MICRO).up().is_empty());
    let arrival = [one(4, Flush::Budget), one(3, Flush::Budget)];
    assert_eq!(rig.after(MICRO).up(), arrival, "each for itself, in the order of arrival");
    rig.push([5]);
    assert_eq!(rig.up(), [one(5, Flush::Alone)], "the gap is known: no second wait for it");
    rig.push([2, 6, 7]);
    assert_eq!(rig.end_batch(), [one(2, Flush::Alone), run(6..8, Flush::Batch)]);
    assert_eq!((rig.engine.counters().early, rig.engine.counters().late), (2, 2));
}

#[test]
fn d12_odd_lengths_go_up_as_they_came() {
    let mut rig = Rig::holding();
    let odd = |nth: u32| {
        let len = SIZE - 1 - nth as usize / 9;
        packet(nth, len, |_, header| header.seq = Seq::new(nth * (SIZE as u32 - 1)))
    };
    let sent: Vec<_> = (0..10).map(odd).collect();
    for (nth, bytes) in sent.iter().enumerate() {
        rig.push_as(0, nth as u32, bytes.clone());
    }
    let mut run = rig.engine.poll_run().expect("the last is shorter");
    let merged_run = run.merged_run.clone().expect("ten");
    for (nth, bytes) in sent.iter().enumerate() {
        let up = rig.engine.next_packet(&mut run).expect("as many as came").1;
        assert_eq!((&up, up[merged_run.text(nth as u16)].len()), (bytes, bytes.len() - ETHERNET - 52));
        assert!(crate::fuzz::whole_by_hand(&up[ETHERNET..]), "nothing touched its checksum");
    }
}

#[test]
fn d13_syns_take_no_place() {
    let mut rig = Rig::holding();
    let before = (rig.engine.footprint(), rig.engine.counters().flows);
    rig.push([0, 1]).end_batch();
    let syn = packet(0, 0, |_, header| header.flags = Flags::SYN);
    let syns = if cfg!(debug_assertions) { 100_000 } else { 10_000_000 };
    for nth in 0..syns {
        let key = FlowKey::new(of_flow(0).local(), Endpoint::new(base::Addr::v4([9, 9, 9, 9]), nth as u16));
        let arrival = Arrival {
            key,
            hash: nth,
            ip: ETHERNET,
            tcp: ETHERNET + 20,
            end: syn.len(),
            merged: false,
            packet: Packet(77, syn.clone()),
        };
        assert!(rig.engine.on_arrival(rig.now, arrival).is_ok());
        assert_eq!(rig.up(), [one(77, Flush::Alone)]);
    }
    assert_eq!((rig.engine.footprint(), rig.engine.counters().flows), before, "only data is worth a place");
    assert_eq!(rig.push([2]).after(HOLD).up(), [run(0..3, Flush::Budget)], "the run went on");
}

#[test]
fn d14_resets_ages_and_new_connections_leave_nothing() {
    let mut rig = Rig::holding();
    rig.push([0]).push_odd(1, 0, |header| header.flags = Flags::RST);
    assert_eq!(rig.up(), [one(0, Flush::Control), one(1, Flush::Alone)]);
    // The tuple again, elsewhere in sequence space: learned anew.
    rig.push([900, 901]);
    assert_eq!(rig.end_batch(), [run(900..902, Flush::Batch)]);
    rig.now += Duration::from_secs(61);
    rig.push([5, 6]);
    assert_eq!(rig.end_batch(), [run(5..7, Flush::Batch)], "old by its number, but nothing remembers");
    assert_eq!(rig.engine.counters().aged, 1);
    assert_eq!((rig.engine.packets(), rig.engine.poll_timeout()), (0, None));
}

#[test]
fn d14_a_table_that_is_full_gives_up_the_flow_used_longest_ago() {
    let mut rig = Rig::new(Config { flows: 4, hold: HOLD, ..Config::default() });
    (0..4).for_each(|flow| rig.warm(flow));
    for flow in [1, 2, 3, 0] {
        rig.push_as(flow, flow.into(), packet(0, SIZE, |_, header| header.src_port += flow));
    }
    rig.push_as(4, 4, packet(0, SIZE, |_, header| header.src_port += 4));
    assert_eq!(rig.up(), [one(1, Flush::Evicted)]);
    assert_eq!(rig.engine.counters().up_evicted, 1);
    assert_eq!(rig.after(HOLD).up().len(), 4);
}

#[test]
fn d14_a_gap_that_nobody_fills_is_forgotten() {
    let mut rig = Rig::holding();
    rig.push([0, 500_000]);
    assert_eq!(rig.up().len(), 2);
    for nth in 1..500 {
        rig.now += Duration::from_millis(1);
        rig.push([nth]);
        assert_eq!(rig.up(), [one(nth, Flush::Alone)], "what is next may fill it");
    }
    for nth in 500..1_100 {
        rig.now += Duration::from_millis(1);
        rig.push([nth]).end_batch();
    }
    rig.now += MICRO;
    rig.push([1_100]).end_batch();
    rig.now += MICRO;
    rig.push([1_101]).end_batch();
    rig.now += MICRO;
    assert!(rig.push([1_102]).end_batch().is_empty(), "a segment from nowhere does not end it for ever");
    assert_eq!(rig.engine.counters().lost_track, 1);
}

#[test]
fn d15_a_fin_before_missing_data_ends_nothing() {
    let fin = |header: &mut wire::tcp::Header| header.flags = Flags::ACK | Flags::FIN;
    let mut rig = Rig::holding();
    rig.push([0]).push_odd(2, 10, fin);
    assert_eq!(rig.up(), [one(0, Flush::Control), one(2, Flush::Alone)]);
    rig.push([1]);
    assert_eq!(rig.up(), [one(1, Flush::Alone)], "what was missing");
    rig.push_odd(2, 10, fin);
    assert_eq!(rig.up(), [one(2, Flush::Alone)], "again: its acknowledgment was lost");
    assert_eq!(rig.engine.counters().flows, 1);
}

#[test]
fn d16_the_first_segment_tells_where_a_flow_is() {
    let mut rig = Rig::reordering();
    rig.push([1_000_000, 1_000_001]);
    assert_eq!(rig.end_batch(), [run(1_000_000..1_000_002, Flush::Batch)]);
}

#[test]
fn d17_d18_another_header_ends_a_run_at_once() {
    let mut rig = Rig::holding();
    rig.push([0]).push_odd(1, SIZE, |header| header.ack += 1);
    assert_eq!(rig.up(), [one(0, Flush::Differs)]);
    rig.push_odd(2, SIZE, |header| header.window = 9);
    assert_eq!(rig.up(), [one(1, Flush::Differs)]);
    rig.push_as(0, 3, packet(3, SIZE, |below, header| (below.tos, header.window) = (3, 9)));
    assert_eq!(rig.up(), [one(2, Flush::Differs)], "marked");
    rig.push_as(0, 4, packet(4, SIZE, |below, header| (below.tos, below.ttl, header.window) = (3, 9, 9)));
    assert_eq!(rig.up(), [one(3, Flush::Differs)]);
    assert_eq!(rig.engine.counters().up_differs, 4);
}

#[test]
fn d19_control_goes_up_before_anything_that_waits_elsewhere() {
    let mut rig = Rig::holding();
    rig.push(0..40);
    rig.push_as(3, 77, packet(0, 0, |_, header| header.flags = Flags::SYN));
    assert_eq!(rig.up(), [one(77, Flush::Alone)], "bulk of another flow is not before it");
}

#[test]
fn d20_without_places_everything_goes_up_and_nothing_is_lost() {
    let mut rig = Rig::new(Config { packets: 4, hold: HOLD, ..Config::default() });
    rig.warm(0);
    rig.push(0..4);
    let bytes = packet(4, SIZE, |_, _| {});
    let (end, key) = (bytes.len(), of_flow(0));
    let arrival = Arrival {
        key,
        hash: 0,
        ip: ETHERNET,
        tcp: ETHERNET + 20,
        end,
        merged: false,
        packet: Packet(4, bytes),
    };
    let refused = rig.engine.on_arrival(rig.now, arrival).expect_err("full");
    assert_eq!(refused.packet.0, 4, "it comes back");
    assert_eq!(rig.up(), [run(0..4, Flush::Crowded)]);
    assert!(rig.engine.on_arrival(rig.now, refused).is_ok());
    assert_eq!(rig.after(HOLD).up(), [one(4, Flush::Budget)]);
}

#[test]
fn d21_what_the_link_merged_is_handed_on() {
    let mut rig = Rig::holding();
    rig.push([0]);
    let bytes = packet(1, 10 * SIZE, |_, _| {});
    let (end, key) = (bytes.len(), of_flow(0));
    let whole = Arrival {
        key,
        hash: 0,
        ip: ETHERNET,
        tcp: ETHERNET + 20,
        end,
        merged: true,
        packet: Packet(1, bytes),
    };
    assert!(rig.engine.on_arrival(rig.now, whole).is_ok());
    assert_eq!(rig.up(), [one(0, Flush::Control), one(1, Flush::Alone)]);
    rig.push([11, 12]);
    assert_eq!(rig.after(HOLD).up(), [run(11..13, Flush::Budget)], "what is next is known");
}

#[test]
fn d22_other_options_go_up_alone() {
    let mut rig = Rig::holding();
    let mut blocks = SackBlocks::none();
    blocks.push(Seq::new(1), Seq::new(2));
    rig.push([0]).push_odd(1, SIZE, |header| header.options.sack = blocks).push([2]);
    assert_eq!(rig.up(), [one(0, Flush::Control), one(1, Flush::Alone)]);
    assert_eq!(rig.after(HOLD).up(), [one(2, Flush::Budget)]);
}

#[test]
fn a_pure_acknowledgment_does_not_overtake_data() {
    let mut rig = Rig::holding();
    rig.push([0]).push_odd(9, 0, |header| header.seq = Seq::new(SIZE as u32)).push([1]);
    assert_eq!(rig.up(), [one(0, Flush::Control), one(9, Flush::Alone)]);
    assert_eq!(rig.after(HOLD).up(), [one(1, Flush::Budget)]);
}

#[test]
fn early_segments_go_up_in_order_once_what_was_missing_comes() {
    let mut rig = Rig::reordering();
    rig.push([0, 2, 4, 3, 1, 5]);
    assert_eq!(rig.end_batch(), [run(0..6, Flush::Batch)]);
    assert_eq!((rig.engine.counters().reordered, rig.engine.counters().late), (3, 0));
}

#[test]
fn a_wait_goes_on_for_what_came_later() {
    let mut rig = Rig::reordering();
    rig.push([0, 2]).after(30 * MICRO).push([4, 1]);
    assert_eq!(rig.after(30 * MICRO).up().concat_numbers(), [0, 1, 2]);
    assert_eq!(rig.after(20 * MICRO).up(), [one(4, Flush::Budget)]);
}

/// Does a segment of flow 0 that has PSH pass the engine by?
fn passes(rig: &mut Rig, nth: u32, len: usize) -> bool {
    let bytes = packet(nth, len, |_, header| header.flags = header.flags | Flags::PSH);
    rig.engine.bypass(rig.now, &of_flow(0), 0, &bytes[ETHERNET + 20..], false)
}

#[test]
fn a_request_passes_by_unless_its_flow_waits() {
    let mut rig = Rig::new(Config { hold: HOLD, reorder: HOLD, ..Config::default() });
    assert!(passes(&mut rig, 0, SIZE), "of a flow that is unknown");
    rig.warm(0);
    assert!(passes(&mut rig, 0, SIZE), "in order, and nothing waits");
    rig.push([1]);
    assert!(!passes(&mut rig, 2, SIZE), "behind a segment that waits");
    assert_eq!(rig.after(HOLD).up(), [one(1, Flush::Budget)], "the request did not end the order");
    assert!(!passes(&mut rig, 3, SIZE), "it came too early");
    rig.push([3]).push_odd(2, SIZE, |header| header.flags = header.flags | Flags::PSH);
    assert_eq!(rig.up(), [one(2, Flush::Push)], "which was missing");
    assert!(!passes(&mut rig, 9, SIZE), "what is ready goes first");
    let counters = rig.engine.counters();
    assert_eq!(counters.seen, counters.runs + counters.merged + rig.engine.packets() as u64);
}

#[test]
fn what_may_begin_a_run_or_end_a_flow_does_not_pass_by() {
    let mut rig = Rig::holding();
    let mut by = |len, change: fn(&mut wire::tcp::Header)| {
        let bytes = packet(0, len, |_, header| change(header));
        rig.engine.bypass(rig.now, &of_flow(0), 0, &bytes[ETHERNET + 20..], false)
    };
    assert!(by(0, |_| {}), "an acknowledgment");
    assert!(!by(SIZE, |_| {}), "more may follow");
    for change in [
        (|header| header.flags = Flags::SYN) as fn(&mut wire::tcp::Header),
        |header| header.flags = Flags::FIN | Flags::ACK,
        |header| header.flags = Flags::RST,
    ] {
        assert!(!by(0, change), "news to the engine");
    }
    assert_eq!((rig.engine.packets(), rig.up().len()), (0, 0));
}

trait Numbers {
    fn concat_numbers(&self) -> Vec<u32>;
}

impl Numbers for Up {
    fn concat_numbers(&self) -> Vec<u32> {
        self.iter().flat_map(|(numbers, _)| numbers.iter().copied()).collect()
    }
}

#[test]
fn random_lives_keep_every_promise() {
    let lives = if cfg!(debug_assertions) { 3_000 } else { 30_000 };
    for seed in 0..lives {
        let mut rng = Rng::new(seed);
        let mut bytes = std::vec![0; 16 + rng.below(600) as usize];
        rng.fill(&mut bytes);
        crate::fuzz::engine(&bytes);
    }
}

#[test]
#[ignore = "as long as MILLSTREAM_LIVES says"]
fn many_short_lives_keep_every_promise() {
    crate::tests::short_lives(crate::fuzz::engine);
}
