//! Goal: the box keeps just the last records of each connection, whatever happens in whatever order; rings of the dead
//! are reused, the longest dead first; and what dies by an error is on disk.
use super::*;
use base::Input;
use base::{Addr, Duration, Endpoint, Seq};
use tcp::{DropReason, Error, Features, Timer, Vitals};
use wire::tcp::{Header, Options};

fn key(n: u8) -> FlowKey {
    let local = Endpoint::new(Addr::v4([192, 0, 2, 1]), 80);
    FlowKey::new(local, Endpoint::new(Addr::v4([198, 51, 100, n]), 4_000))
}

fn vitals(state: State, cwnd: u32) -> Vitals {
    Vitals {
        state,
        cwnd,
        ssthresh: u32::MAX,
        snd_wnd: 0,
        rcv_wnd: 0,
        scale: (9, 9),
        snd_mss: 1448,
        srtt_us: 0,
        rto_us: 0,
        features: Features::new(true, true, true, false),
        sndbuf: (0, 0),
        rcvbuf: (0, 0),
        flight: 0,
        reassembly: 0,
    }
}

fn pass(
    box_: &mut BlackBox,
    now: Instant,
    outbound: bool,
    key: &FlowKey,
    vitals: Vitals,
    header: &Header,
    len: u32,
) {
    box_.pass(key, &Passed { now, outbound, vitals, header, len });
}

fn header(seq: u32, ack: u32, flags: Flags) -> Header {
    let (seq, ack) = (Seq::new(seq), Seq::new(ack));
    Header { src_port: 1, dst_port: 2, seq, ack, flags, window: 100, options: Options::NONE }
}

/// Model of a box of `size`: all events, and the connections that have a ring.
struct Oracle {
    size: Size,
    /// Key, dead, and everything of each life that has a ring, in the order in which rings were given.
    lives: Vec<(FlowKey, bool, u64)>,
    deaths: Vec<FlowKey>,
    untracked: u64,
}

impl Oracle {
    fn alive(&mut self, key: &FlowKey) -> Option<&mut (FlowKey, bool, u64)> {
        self.lives.iter_mut().find(|life| life.0 == *key && !life.1)
    }

    fn happen(&mut self, key: &FlowKey) {
        if self.alive(key).is_none() {
            if self.lives.len() == self.size.connections as usize {
                if self.deaths.is_empty() {
                    self.untracked += 1;
                    return;
                }
                let first = self.deaths.remove(0);
                let at = self.lives.iter().position(|life| life.0 == first && life.1).unwrap();
                self.lives.remove(at);
            }
            self.lives.push((*key, false, 0));
        }
        if let Some(life) = self.alive(key) {
            life.2 += 1;
        }
    }
}

/// Operations against the oracle; also what a fuzzer calls.
fn model(data: &[u8]) {
    let mut input = Input::new(data);
    let size = Size { records: 8 + input.below(4), connections: 1 + input.below(4) };
    let (mut box_, mut oracle) =
        (BlackBox::new(size), Oracle { size, lives: Vec::new(), deaths: Vec::new(), untracked: 0 });
    let mut now = Instant::ZERO;
    while !input.is_empty() {
        now += Duration::from_micros(1);
        let key = key(input.below(6) as u8);
        match input.below(8) {
            0 => {
                if let Some(life) = oracle.alive(&key) {
                    (life.1, life.2) = (true, life.2 + 1);
                    oracle.deaths.push(key);
                    box_.state(now, &key, State::Established, State::Closed);
                }
            }
            1 => {
                if let Some(life) = oracle.alive(&key) {
                    life.2 += 1;
                    box_.incident(now, &key, &Incident::Dropped(DropReason::Paws));
                }
            }
            out => {
                oracle.happen(&key);
                let header = header(u32::from(input.u8()), 0, Flags::ACK);
                pass(&mut box_, now, out & 1 == 0, &key, vitals(State::Established, 1), &header, 0);
            }
        }
        assert_eq!(box_.untracked(), oracle.untracked);
        let mut seen: Vec<_> = box_.rings(None).map(|r| (r.key, r.closed.is_some(), r.made)).collect();
        let mut want = oracle.lives.clone();
        let order = |l: &(FlowKey, bool, u64)| (l.0.remote(), l.1, l.2);
        seen.sort_by_key(order);
        want.sort_by_key(order);
        assert_eq!(seen, want);
        for ring in box_.rings(None) {
            let kept: Vec<_> = ring.records().map(|record| record.at).collect();
            assert_eq!(kept.len() as u64, ring.made.min(size.records.into()));
            assert_eq!(ring.overwritten() + kept.len() as u64, ring.made);
            assert!(kept.is_sorted(), "{kept:?}");
        }
    }
}

#[test]
fn any_order_of_events() {
    let mut rng = base::Rng::new(1);
    for _ in 0..300 {
        let data: Vec<u8> = (0..rng.below(600)).map(|_| rng.below(256) as u8).collect();
        model(&data);
    }
}

#[test]
fn a_ring_wraps_at_every_place() {
    for made in 1..40u64 {
        let mut ring = Ring::new(8, key(1), Instant::ZERO);
        for n in 0..made {
            ring.push(Instant::from_micros(n), What::Window { cwnd: n as u32, ssthresh: 0 });
        }
        let kept: Vec<_> = ring.records().map(|record| record.at.as_micros()).collect();
        assert_eq!(kept, (made.saturating_sub(8)..made).collect::<Vec<_>>());
        assert_eq!(ring.overwritten(), made.saturating_sub(8));
    }
}

/// A life: SYN, answer, data sent twice, and an end.
fn live(box_: &mut BlackBox, key: &FlowKey, end: Incident) {
    let at = Instant::from_millis;
    pass(box_, at(0), true, key, vitals(State::SynSent, 1_000), &header(7, 0, Flags::SYN), 0);
    pass(box_, at(9), false, key, vitals(State::SynSent, 1_000), &header(100, 8, Flags::SYN | Flags::ACK), 0);
    box_.state(at(9), key, State::SynSent, State::Established);
    pass(box_, at(9), true, key, vitals(State::Established, 2_000), &header(8, 101, Flags::ACK), 500);
    box_.incident(at(300), key, &Incident::Timer(Timer::Retransmission));
    pass(box_, at(300), true, key, vitals(State::Established, 1_000), &header(8, 101, Flags::ACK), 500);
    box_.incident(at(900), key, &end);
    box_.state(at(900), key, State::Established, State::Closed);
}

#[test]
fn the_lines_tell_what_happened() {
    let mut box_ = BlackBox::new(Size::default());
    live(&mut box_, &key(1), Incident::Failed(Error::TimedOut));
    let text: String = box_.rings(Some(&key(1))).map(Ring::to_string).collect();
    assert_eq!(
        text,
        "192.0.2.1:80 - 198.51.100.1:4000: timed out, 10 records, 0 older ones overwritten\n    \
         0.000000 out  [S] seq 0 win 100 len 0\n    \
         0.009000 in   [S.] seq 0 ack 1 win 100 len 0\n    \
         0.009000 SYN-SENT -> ESTABLISHED\n    \
         0.009000 cwnd 2000\n    \
         0.009000 out  [.] seq 1:501 ack 1 win 51200 len 500\n    \
         0.300000 timer: retransmission\n    \
         0.300000 cwnd 1000\n    \
         0.300000 out  [.] seq 1:501 ack 1 win 51200 len 500  again\n    \
         0.900000 failed: timed out\n    \
         0.900000 ESTABLISHED -> CLOSED\n"
    );
}

fn directory(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("millstream-blackbox-{name}-{}", std::process::id()))
}

#[test]
fn what_died_by_an_error_is_on_disk_and_the_oldest_goes() {
    let directory = directory("kept");
    let files = Files::in_directory(&directory).unwrap();
    let mut box_ = BlackBox::new(Size { records: 16, connections: 8 }).on_error(files.clone());
    let many = files::KEPT as u64 + 10;
    for n in 0..many {
        live(&mut box_, &key(n as u8), Incident::Failed(Error::Reset));
        live(&mut box_, &key(n as u8), Incident::Dropped(DropReason::Paws));
        while files.counts().0 <= n {
            std::thread::yield_now();
        }
    }
    assert_eq!(files.counts(), (many, 0), "and what closed without an error left nothing");
    let found: Vec<_> = std::fs::read_dir(&directory).unwrap().flatten().collect();
    assert_eq!(found.len(), files::KEPT);
    let text = std::fs::read_to_string(found[0].path()).unwrap();
    assert!(text.contains("reset by the peer") && text.contains("again"), "{text}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn what_cannot_be_written_is_counted() {
    let directory = directory("gone");
    let files = Files::in_directory(&directory).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let mut box_ = BlackBox::new(Size::default()).on_error(files.clone());
    for n in 0..200 {
        live(&mut box_, &key(n), Incident::Failed(Error::Reset));
    }
    while files.counts().1 < 200 {
        std::thread::yield_now();
    }
    assert_eq!(files.counts(), (0, 200), "queued or not, each is counted once");
}

#[test]
fn strangers_leave_no_files() {
    let directory = directory("strangers");
    let files = Files::in_directory(&directory).unwrap();
    let mut box_ = BlackBox::new(Size::default()).on_error(files.clone());
    let key = key(1);
    pass(&mut box_, Instant::ZERO, false, &key, vitals(State::SynReceived, 1), &header(1, 0, Flags::SYN), 0);
    box_.incident(Instant::ZERO, &key, &Incident::Failed(Error::TimedOut));
    box_.state(Instant::ZERO, &key, State::SynReceived, State::Closed);
    assert_eq!(files.counts(), (0, 0));
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir_all(directory).unwrap();
}
