//! Goal: time moves exactly, bursts stay bursts, dates can be put off and brought forward, switches learn,
//! and what cannot come to rest is caught.
use super::*;
use base::Duration;
use pio::{PacketIo, RxBatch, RxChecksum, TxBatch, TxPacket};
use std::cell::RefCell;
use std::rc::Rc;

/// Sends a frame of `len` bytes to `to` at each of its dates and notes what it receives and when.
struct Toy {
    port: SimPort,
    to: [u8; 6],
    len: usize,
    dates: VecDeque<Instant>,
    /// Date of each step, with the bytes at place 14 of the packets it found.
    steps: Vec<(Instant, Vec<u8>)>,
    sent: u8,
}

impl Toy {
    fn new(port: SimPort, to: [u8; 6], dates: &[u64]) -> Self {
        let dates = dates.iter().map(|millis| Instant::from_millis(*millis)).collect();
        Toy { port, to, len: 1_000, dates, steps: Vec::new(), sent: 0 }
    }

    fn heard(&self) -> Vec<u8> {
        self.steps.iter().flat_map(|(_, packets)| packets.clone()).collect()
    }
}

impl Host for Toy {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let mut rx = RxBatch::new();
        self.port.rx(&mut rx).unwrap();
        self.steps.push((now, rx.iter().map(|p| p.frame.data()[14]).collect()));
        rx.drain(..).for_each(|p| self.port.retire(p.frame));
        let mut tx = TxBatch::new();
        while self.dates.pop_front_if(|date| *date <= now).is_some() {
            let mut frame = self.port.take().unwrap();
            frame.set_range(0, self.len);
            let ours = self.port.caps().mac;
            wire::ethernet::Header { dst: self.to, src: ours, ethertype: 0x88b5 }.emit(frame.data_mut());
            frame.data_mut()[14] = self.sent;
            self.sent += 1;
            tx.push_back(TxPacket { frame, meta: Default::default() });
        }
        self.port.tx(&mut tx).unwrap();
        self.dates.front().copied()
    }
}

fn wire(millis: u64) -> PipeConfig {
    PipeConfig { delay: Duration::from_millis(millis), ..PipeConfig::default() }
}

fn pair(dates: &[u64], path: &PipeConfig) -> (Network<Toy>, HostId, HostId, PipeId) {
    let mut net = Network::new(1);
    let (left, right) = (net.port(&PortConfig::default()), net.port(&PortConfig::default()));
    let (pl, pr) = (left.id(), right.id());
    let (to_left, to_right) = (left.caps().mac, right.caps().mac);
    let a = net.add_host(Toy::new(left, to_right, dates), &[pl]);
    let b = net.add_host(Toy::new(right, to_left, &[]), &[pr]);
    let (there, _) = net.link(pl, pr, path, path);
    (net, a, b, there)
}

#[test]
fn dates_are_kept_to_the_nanosecond() {
    let (mut net, a, b, _) = pair(&[3, 3, 10], &wire(5));
    net.run_until(Instant::from_millis(8) + Duration::from_nanos(1));
    assert_eq!(net.now().as_nanos(), 8_000_001);
    net.run_until(Instant::from_millis(100));
    let at = |steps: &[(Instant, Vec<u8>)]| steps.iter().map(|(at, _)| at.as_millis()).collect::<Vec<_>>();
    assert_eq!(at(&net.host(a).steps), [0, 3, 10]);
    assert_eq!(
        net.host(b).steps[1..],
        [(Instant::from_millis(8), vec![0, 1]), (Instant::from_millis(15), vec![2])]
    );
}

#[test]
fn what_is_due_at_the_deadline_happens() {
    let (mut net, _, b, _) = pair(&[3], &wire(5));
    net.run_until(Instant::from_millis(8));
    assert_eq!(net.host(b).heard(), [0]);
}

#[test]
fn a_date_can_be_brought_forward_from_outside() {
    let (mut net, a, _, _) = pair(&[50], &wire(1));
    net.run_until(Instant::from_millis(10));
    net.host_mut(a).dates.push_front(Instant::from_millis(20));
    net.run_until(Instant::from_millis(100));
    let at: Vec<u64> = net.host(a).steps.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(at, [0, 10, 20, 50]);
}

#[test]
fn packets_held_back_come_out_between_the_others() {
    let path = PipeConfig { reorder: 0.5, reorder_by: Duration::from_millis(20), ..wire(1) };
    let dates: Vec<u64> = (1..=100).collect();
    let (mut net, _, b, pipe) = pair(&dates, &path);
    net.run_until(Instant::from_millis(500));
    let mut heard = net.host(b).heard();
    assert!(!heard.is_sorted());
    heard.sort_unstable();
    assert_eq!(heard, (0..100).collect::<Vec<u8>>());
    assert_eq!((net.pipe(pipe).counters().delivered, net.pipe(pipe).under_way()), (100, 0));
}

#[test]
fn run_stops_when_it_is_done() {
    let (mut net, _, b, _) = pair(&[1, 2, 3], &wire(5));
    assert!(net.run(Instant::from_secs(1), |net| net.host(b).heard().len() == 2));
    assert_eq!(net.now(), Instant::from_millis(7));
    assert!(!net.run(Instant::from_secs(1), |net| net.host(b).heard().len() == 4));
    assert_eq!(net.now(), Instant::from_secs(1));
}

#[test]
fn a_port_misses_what_its_host_does_not_fetch() {
    let mut net = Network::new(1);
    let ring = PortConfig { rx_ring: 3, ..PortConfig::default() };
    let (left, right) = (net.port(&PortConfig::default()), net.port(&ring));
    let (pl, pr, to) = (left.id(), right.id(), right.caps().mac);
    net.add_host(Toy::new(left, to, &[1; 5]), &[pl]);
    let b = net.add_host(Toy::new(right, to, &[]), &[pr]);
    net.link(pl, pr, &wire(1), &wire(1));
    net.run_until(Instant::from_millis(10));
    assert_eq!((net.host(b).heard().len(), net.missed(pr)), (3, 2));
}

#[test]
fn a_switch_floods_then_learns() {
    let mut net = Network::new(1);
    let switch = net.add_switch();
    let ports: Vec<SimPort> = (0..3).map(|_| net.port(&PortConfig::default())).collect();
    let macs: Vec<[u8; 6]> = ports.iter().map(|port| port.caps().mac).collect();
    // 0 calls 1 (unknown: flooded), then 1 answers 0 (known), then 0 calls 1 again (known now).
    let talks = [(macs[1], &[1, 3][..]), (macs[0], &[2][..]), (macs[0], &[][..])];
    let mut hosts = Vec::new();
    for (port, (to, dates)) in ports.into_iter().zip(talks) {
        let id = port.id();
        hosts.push(net.add_host(Toy::new(port, to, dates), &[id]));
        net.plug(id, switch, &PipeConfig::default(), &PipeConfig::default());
    }
    net.run_until(Instant::from_millis(10));
    let heard: Vec<usize> = hosts.iter().map(|host| net.host(*host).heard().len()).collect();
    assert_eq!(heard, [1, 2, 1]);
}

#[test]
fn who_watches_sees_every_packet_and_its_fate() {
    let path = PipeConfig { discard: "2".parse().unwrap(), ..wire(1) };
    let (mut net, _, _, there) = pair(&[1, 2, 3], &path);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let notes = seen.clone();
    net.watch(move |sight| {
        assert_eq!(sight.pipe, there);
        notes.borrow_mut().push((sight.at.as_millis(), sight.packet[14], sight.fate));
    });
    net.run_until(Instant::from_millis(10));
    assert_eq!(*seen.borrow(), [(1, 0, Ok(())), (2, 1, Err(DropReason::Listed)), (3, 2, Ok(()))]);
}

struct Restless;

impl Host for Restless {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        Some(now)
    }
}

#[test]
#[should_panic(expected = "runs in circles")]
fn a_host_that_never_rests_is_caught() {
    let mut net = Network::new(1);
    net.add_host(Restless, &[]);
    net.run_until(Instant::from_millis(1));
}

#[test]
fn warm_buffers_are_used_again() {
    let dates: Vec<u64> = (1..=200).collect();
    let (mut net, _, _, _) = pair(&dates, &wire(2));
    net.run_until(Instant::from_millis(100));
    let spare = |net: &Network<Toy>| net.spare.len() + net.medium.lock().spare.len();
    let warm = spare(&net);
    net.run_until(Instant::from_millis(190));
    assert_eq!(spare(&net), warm);
}

#[test]
fn so_are_those_of_packets_that_pass_a_switch_or_are_watched() {
    let mut net = Network::new(1);
    let switch = net.add_switch();
    let ports: Vec<SimPort> = (0..3).map(|_| net.port(&PortConfig::default())).collect();
    let to = ports[1].caps().mac;
    // No peer answers, so every packet goes to both of the others.
    let dates: Vec<u64> = (1..=200).collect();
    for (port, dates) in ports.into_iter().zip([&dates[..], &[], &[]]) {
        let id = port.id();
        net.add_host(Toy::new(port, to, dates), &[id]);
        net.plug(id, switch, &wire(2), &wire(2));
    }
    net.watch(|_| {});
    net.run_until(Instant::from_millis(100));
    let spare = |net: &Network<Toy>| net.spare.len() + net.medium.lock().spare.len();
    let warm = spare(&net);
    net.run_until(Instant::from_millis(190));
    assert_eq!(spare(&net), warm);
    assert!(warm < 30, "{warm} for twelve at a time");
}

/// Sends one TCP packet of 5,000 bytes of payload that asks to be cut; the sizes and meta data that arrive.
fn super_segment(config: &PortConfig) -> Vec<(usize, RxChecksum, u16)> {
    let mut net = Network::<Toy>::new(1);
    let (mut left, mut right) = (net.port(config), net.port(config));
    net.link(left.id(), right.id(), &wire(1), &wire(1));
    let ends = [base::Addr::v4([10, 0, 0, 1]), base::Addr::v4([10, 0, 0, 2])];
    let (packet, meta) = crate::nic::tests::super_segment(ends, &[7; 5_000]);
    let mut frame = left.take().unwrap();
    frame.set_range(0, packet.len());
    frame.data_mut().copy_from_slice(&packet);
    left.tx(&mut TxBatch::from([TxPacket { frame, meta }])).unwrap();
    net.collect(left.id());
    net.run_until(Instant::from_millis(2));
    let mut rx = RxBatch::new();
    right.rx(&mut rx).unwrap();
    let seen = rx.iter().map(|p| (p.frame.len(), p.meta.checksum, p.meta.gso_size)).collect();
    rx.drain(..).for_each(|p| right.retire(p.frame));
    assert_eq!([left.stats(), right.stats()].map(|s| s.last().copied()), [Some(("frames_out", 0)); 2]);
    seen
}

#[test]
fn super_segments_are_cut_or_pass_whole() {
    let config = PortConfig { tx_checksum: true, tso_max: 65_535, ..PortConfig::default() };
    let piece = (1_514, RxChecksum::Unverified, 0);
    assert_eq!(super_segment(&config), [piece, piece, piece, (722, RxChecksum::Unverified, 0)]);
    let whole = PortConfig { passes_whole: true, ..config };
    assert_eq!(super_segment(&whole), [(5_066, RxChecksum::Partial, 1_448)]);
    assert_eq!(super_segment(&PortConfig { tso_max: 4_100, ..whole }), []);
}
