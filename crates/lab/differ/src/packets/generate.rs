//! A seeded peer and application. They play against this stack in virtual time, so that numbers are drawn from what
//! the connection is in: left of, at and right of each edge, and echoes of what was sent.

use super::coverage::Coverage;
use super::input::{Action, Call, Echo, Half, Input, MSS, Step, Switch};
use super::ours::Ours;
use super::trace::{Moment, Trace};
use base::{Duration, Rng};
use drill::lang::{
    Body, Direction, Ecn, Flags, Icmp, IpInfo, Packet, Quoted, Range, Segment, Span, TcpOption,
};

/// Pauses between steps, ms: shorter than a delayed acknowledgment, between that and a retransmission, and beyond.
const PAUSES: [u32; 10] = [1, 1, 2, 5, 10, 10, 20, 90, 150, 420];
/// A step keeps this distance from what a timer does, or a quarter of the timer's length, so that their order is the
/// same on both sides.
const DISTANCE: Duration = Duration::from_millis(28);
/// Timers beyond this are not waited for.
const LONGEST: Duration = Duration::from_secs(2);
/// Steps after those that open the connection, at most.
const STEPS_MAX: u64 = 14;

/// Knowledge of the peer.
struct View {
    isn: u32,
    /// Next sequence number of the peer that the near end expects, from the initial one.
    expected: u32,
    /// Right edge of the near end's window.
    edge: u32,
    scale: u8,
    /// Right edge of what the peer has sent.
    sent: u32,
    /// Right edge of what the near end has sent.
    heard: u32,
    /// Number up to which the peer has acknowledged.
    acked: u32,
    stamps: bool,
    sack: bool,
    /// The near end has sent a SYN.
    met: bool,
    clock: u32,
}

struct Maker<'a> {
    rng: Rng,
    v6: bool,
    view: View,
    ours: Ours,
    steps: Vec<Step>,
    coverage: &'a mut Coverage,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

/// Makes the input of a seed, with what this stack did. What it reaches is marked in `coverage`; an input that an
/// earlier one is varied from gives its first steps.
///
/// # Errors
/// There is no memory for the stack.
pub fn make(
    seed: u64,
    begin: Option<&Input>,
    coverage: &mut Coverage,
) -> std::io::Result<(Input, Trace, bool)> {
    let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x7065_6572);
    let fresh = pick(&mut rng, &[0, 1, 70_000, u32::MAX - 500, 0x7fff_fff0]);
    let isn = begin.map_or(fresh, |begin| begin.isn);
    let fresh = rng.chance(0.25);
    let v6 = begin.map_or(fresh, |begin| begin.v6);
    let view = View {
        isn,
        expected: 0,
        edge: 0,
        scale: 0,
        sent: 0,
        heard: 0,
        acked: 0,
        stamps: false,
        sack: false,
        met: false,
        clock: 10_000,
    };
    let mut maker = Maker { rng, v6, view, ours: Ours::new(isn, v6)?, steps: Vec::new(), coverage };
    let before = maker.coverage.count();
    match begin {
        Some(begin) => maker.vary(begin),
        None => maker.open(),
    }
    let count = 2 + maker.rng.below(STEPS_MAX);
    for _ in 0..count {
        maker.any();
    }
    maker.finish();
    let Maker { steps, ours, coverage, .. } = maker;
    coverage.counters(&ours.counted());
    let is_new = coverage.count() > before;
    Ok((Input { seed, isn, v6, steps }, ours.end(), is_new))
}

impl Maker<'_> {
    // --- beginnings --------------------------------------------------------------------------------------------

    /// Opens a connection in order, or stops on the way.
    fn open(&mut self) {
        let listens = self.rng.chance(0.6);
        let stop = if self.rng.chance(0.2) { self.rng.below(3) } else { u64::MAX };
        let (stamps, sack, scale) = (self.rng.chance(0.6), self.rng.chance(0.7), self.rng.chance(0.5));
        let options = self.syn_options(stamps, sack, scale);
        if listens {
            self.call(1, Call::Listen);
            if stop == 0 {
                return;
            }
            let syn = self.segment(Flags::SYN, 0, 0, None, 65_535, options);
            self.send(5, syn);
            if stop == 1 {
                return;
            }
            let ack = self.plain(Flags::ACK, 0);
            self.send(10, ack);
            if stop == 2 {
                return;
            }
            self.call(5, Call::Accept);
        } else {
            self.call(1, Call::Connect);
            if stop == 0 {
                return;
            }
            if stop == 1 {
                let syn = self.segment(Flags::SYN, 0, 0, None, 65_535, options);
                self.send(10, syn);
                return;
            }
            let answer = self.segment(Flags::SYN | Flags::ACK, 0, 0, Some(self.view.heard), 65_535, options);
            self.send(10, answer);
        }
    }

    /// Repeats the beginning of another input, one step of it changed or left out.
    fn vary(&mut self, begin: &Input) {
        let keep = 1 + self.rng.below(begin.steps.len() as u64) as usize;
        let odd = self.rng.below(2 * keep as u64) as usize;
        for (at, step) in begin.steps[..keep].iter().enumerate() {
            if at == odd && at > 0 {
                if self.rng.chance(0.5) {
                    self.any();
                }
                continue;
            }
            self.take(step.clone());
        }
    }

    /// Looks at what can be seen, and closes.
    fn finish(&mut self) {
        self.call(20, Call::Poll);
        self.call(1, Call::Read(60_000));
        if self.rng.chance(0.5) {
            self.call(1, Call::Error);
        }
        if self.rng.chance(0.5) {
            self.call(1, Call::Close);
        }
        self.ours.advance(super::input::AFTERMATH);
    }

    // --- steps -------------------------------------------------------------------------------------------------

    fn any(&mut self) {
        let pause = pick(&mut self.rng, &PAUSES);
        if self.rng.chance(0.35) {
            let call = self.any_call();
            self.call(pause, call);
        } else if self.rng.chance(0.05) {
            let packet = self.any_error();
            self.send(pause, packet);
        } else {
            let (packet, echo) = self.any_segment();
            self.send_echoing(pause, packet, echo);
        }
    }

    fn any_call(&mut self) -> Call {
        let len = pick(&mut self.rng, &[1, 100, 999, 1000, 1001, 2000, 5000, 20_000]);
        match self.rng.below(20) {
            0..=5 => Call::Write(len),
            6..=9 => Call::Read(len),
            10 => Call::Shutdown(Half::Write),
            11 => Call::Shutdown(pick(&mut self.rng, &[Half::Write, Half::Read, Half::Both])),
            12 | 13 => Call::Close,
            14 => Call::Poll,
            15 => Call::Error,
            16 => Call::Accept,
            17 => Call::Set(pick(
                &mut self.rng,
                &[Switch::NoDelay, Switch::Cork(true), Switch::Cork(false), Switch::LingerZero],
            )),
            18 if self.rng.chance(0.3) => Call::CloseListener,
            18 => Call::Set(Switch::QuickAck(self.rng.chance(0.5))),
            _ => Call::Write(len),
        }
    }

    /// A segment that a peer might send, or never would.
    fn any_segment(&mut self) -> (Packet, Echo) {
        let rng = &mut self.rng;
        let view = &self.view;
        let flags = match rng.below(40) {
            0..=17 => Flags::ACK,
            18..=22 => Flags::ACK | Flags::PSH,
            23..=27 => Flags::ACK | Flags::FIN,
            28 | 29 => Flags::RST,
            30 => Flags::RST | Flags::ACK,
            31 | 32 => Flags::SYN,
            33 => Flags::SYN | Flags::ACK,
            34 => Flags::ACK | Flags::URG,
            35 => Flags::ACK | pick(rng, &[Flags::ECE, Flags::CWR, Flags::ECE | Flags::CWR]),
            36 => Flags::FIN,
            37 => 0,
            38 => pick(rng, &[Flags::SYN | Flags::FIN, Flags::FIN | Flags::PSH, Flags::SYN | Flags::PSH]),
            _ => rng.below(64) as u8,
        };
        let one = |rng: &mut Rng, at: u32| at.wrapping_add_signed(pick(rng, &[-1, 0, 1]));
        let seq = if rng.chance(0.55) {
            view.expected
        } else {
            let edge = pick(
                rng,
                &[
                    view.expected,
                    view.expected,
                    view.edge,
                    view.sent,
                    0,
                    view.expected.wrapping_add(MSS.into()),
                    view.expected.wrapping_sub(MSS.into()),
                    view.expected.wrapping_add(1 << 31),
                ],
            );
            one(rng, edge)
        };
        let len = match flags & (Flags::SYN | Flags::RST) {
            0 if rng.chance(0.5) => pick(rng, &[1, 2, 100, 999, 1000, 1000, 1001, 1400]),
            0 => 0,
            _ if rng.chance(0.1) => 10,
            _ => 0,
        };
        let ack = if rng.chance(0.65) {
            view.heard
        } else {
            let edge = pick(
                rng,
                &[
                    view.acked,
                    view.acked,
                    view.heard,
                    0,
                    view.acked.wrapping_add(view.heard.wrapping_sub(view.acked) / 2),
                    view.acked.wrapping_add(MSS.into()),
                    view.acked.wrapping_sub(70_000),
                    view.heard.wrapping_add(70_000),
                ],
            );
            one(rng, edge)
        };
        // Beside an acknowledgment that is not acceptable nothing else is worth a look: both sides answer that one.
        let is_acceptable = ack.wrapping_sub(view.acked) <= view.heard.wrapping_sub(view.acked);
        let (flags, len) = match flags & Flags::ACK != 0 && !is_acceptable {
            true => (flags & !Flags::FIN, 0),
            false => (flags, len),
        };
        let window = if rng.chance(0.6) { 65_535 } else { pick(rng, &[0, 1, 500, 1000, 1001, 3000, 30_000]) };
        let ack = (flags & Flags::ACK != 0).then_some(ack);
        let has_stamp = if rng.chance(0.9) { view.stamps } else { rng.chance(0.5) };
        let mut echo = Echo::Latest(0);
        let options = if flags & Flags::SYN != 0 && rng.chance(0.8) {
            let (sack, scale) = (rng.chance(0.7), rng.chance(0.5));
            self.syn_options(has_stamp, sack, scale)
        } else {
            let mut options = Vec::new();
            if has_stamp {
                let clock = view.clock;
                let val = match rng.below(12) {
                    0 => clock.wrapping_sub(5_000),
                    1 => clock.wrapping_sub(1),
                    2 => clock.wrapping_add(1 << 31),
                    3 => 0,
                    _ => clock,
                };
                match rng.below(14) {
                    0 => echo = Echo::AsIs,
                    1 => echo = Echo::Latest(1_000),
                    2 => echo = Echo::Latest(-1_000),
                    _ => {}
                }
                options.extend([TcpOption::Nop, TcpOption::Nop]);
                options.push(TcpOption::Timestamps { val: Some(val), ecr: 0, absolute: false });
            }
            if flags & Flags::ACK != 0 && rng.chance(if view.sack { 0.15 } else { 0.02 }) {
                let end = pick(rng, &[view.heard, view.acked, view.heard.wrapping_add(100)]);
                let start = end.wrapping_sub(pick(rng, &[1, 500, 1000, 2000]));
                options.extend([TcpOption::Nop, TcpOption::Nop]);
                options.push(TcpOption::Sack(vec![Range { start, end }]));
            }
            options
        };
        let urgent = pick(&mut self.rng, &[1, 1, 5]);
        let ecn = self.rng.chance(0.04).then(|| Ecn::Bits(pick(&mut self.rng, &[1, 2, 3])));
        let mut packet = self.segment(flags, seq, len, ack, window, options);
        packet.ip.ecn = ecn;
        if let Body::Tcp(tcp) = &mut packet.body {
            tcp.urgent = (flags & Flags::URG != 0).then_some(urgent);
        }
        (packet, echo)
    }

    /// An ICMP error about a segment of the near end, or about one that it has not sent.
    fn any_error(&mut self) -> Packet {
        const V4: [(&str, &str); 8] = [
            ("unreachable", "net_unreachable"),
            ("unreachable", "host_unreachable"),
            ("unreachable", "protocol_unreachable"),
            ("unreachable", "port_unreachable"),
            ("unreachable", "frag_needed"),
            ("unreachable", "frag_needed"),
            ("unreachable", "host_prohibited"),
            ("time_exceeded", "ttl_exceeded_in_transit"),
        ];
        const V6: [(&str, &str); 6] = [
            ("unreachable", "no_route"),
            ("unreachable", "admin_prohibited"),
            ("unreachable", "address_unreachable"),
            ("unreachable", "port_unreachable"),
            ("packet_too_big", ""),
            ("time_exceeded", "exceeded_hop_limit"),
        ];
        let (rng, view) = (&mut self.rng, &self.view);
        let (kind, code) = if self.v6 { pick(rng, &V6) } else { pick(rng, &V4) };
        let is_size = matches!(kind, "packet_too_big") || code == "frag_needed";
        let mtu = is_size.then(|| pick(rng, &[0, 296, 552, 600, 1_000, 1_280, 1_281, 1_400, 1_500, 9_000]));
        let edge = pick(
            rng,
            &[
                view.acked,
                view.acked,
                view.heard,
                view.heard.wrapping_sub(MSS.into()),
                view.heard.wrapping_add(70_000),
            ],
        );
        let start = edge.wrapping_add_signed(pick(rng, &[-1, 0, 0, 1]));
        let len = pick(rng, &[0, 0, 1, u32::from(MSS)]);
        let quoted = Some(Quoted::Tcp(Range { start, end: start.wrapping_add(len) }, len));
        let code = (!code.is_empty()).then(|| code.to_owned());
        let body =
            Body::Icmp(Icmp { kind: kind.to_owned(), code, mtu, id: None, quoted, span: Span::default() });
        Packet { direction: Direction::In, outer: Vec::new(), ip: IpInfo::default(), body }
    }

    fn syn_options(&mut self, stamps: bool, sack: bool, scale: bool) -> Vec<TcpOption> {
        let mut options = vec![TcpOption::Mss(MSS)];
        if sack {
            options.push(TcpOption::SackPermitted);
        }
        if stamps {
            let val = Some(self.view.clock);
            options.push(TcpOption::Timestamps { val, ecr: 0, absolute: false });
        }
        if scale {
            options.extend([TcpOption::Nop, TcpOption::WindowScale(0)]);
        }
        options
    }

    /// A segment in order.
    fn plain(&mut self, flags: u8, len: u32) -> Packet {
        let mut options = Vec::new();
        if self.view.stamps {
            options.extend([TcpOption::Nop, TcpOption::Nop]);
            let val = Some(self.view.clock);
            options.push(TcpOption::Timestamps { val, ecr: 0, absolute: false });
        }
        self.segment(flags, self.view.expected, len, Some(self.view.heard), 65_535, options)
    }

    fn segment(
        &mut self,
        flags: u8,
        seq: u32,
        len: u32,
        ack: Option<u32>,
        window: u16,
        options: Vec<TcpOption>,
    ) -> Packet {
        // In scripts, numbers beside a SYN are the wire's.
        let start = if flags & Flags::SYN != 0 { self.view.isn.wrapping_add(seq) } else { seq };
        let body = Body::Tcp(Segment {
            ports: None,
            flags: Flags { bits: flags, ..Flags::default() },
            seq: Some(Range { start, end: start.wrapping_add(len) }),
            len,
            absolute: false,
            ack,
            window: Some(window),
            urgent: None,
            options: Some(options),
            udp: None,
        });
        Packet { direction: Direction::In, outer: Vec::new(), ip: IpInfo::default(), body }
    }

    // --- doing -------------------------------------------------------------------------------------------------

    fn call(&mut self, pause: u32, call: Call) {
        self.take(Step { after: pause, action: Action::Call(call) });
    }

    fn send(&mut self, pause: u32, packet: Packet) {
        self.send_echoing(pause, packet, Echo::Latest(0));
    }

    fn send_echoing(&mut self, pause: u32, packet: Packet, echo: Echo) {
        self.take(Step { after: pause, action: Action::Send(Box::new(packet), echo) });
    }

    /// Does a step, later than asked for where a timer is near.
    fn take(&mut self, mut step: Step) {
        self.ours.advance(step.pause());
        for _ in 0..8 {
            let since = self.ours.since_step();
            let last = self.ours.last().and_then(|moment| moment.seen.last()).map(|seen| seen.at);
            let (ran, running) = self.ours.timers();
            let just =
                last.is_some_and(|at| !at.is_zero() && since.saturating_sub(at) < DISTANCE.max(ran / 4));
            let just = just || since < DISTANCE && self.has_refused();
            let until = self.ours.until_timer().unwrap_or(Duration::MAX);
            let soon = until < DISTANCE.max((running + until.min(LONGEST)) / 4);
            if !just && !soon {
                break;
            }
            let (more, length) = if soon { (until, running + until) } else { (Duration::ZERO, ran) };
            let more = (more + DISTANCE.max(length / 4)).as_millis() as u32 + 1;
            step.after += more;
            self.ours.advance(Duration::from_millis(more.into()));
        }
        self.view.clock = self.view.clock.wrapping_add(step.after);
        let before = self.ours.states();
        self.ours.step(&step);
        self.coverage.reached(&before, &step, &self.ours.states());
        self.learn(&step);
        self.steps.push(step);
    }

    /// Was an answer to a SYN refused just now? On Linux that starts a timer of two ticks.
    fn has_refused(&self) -> bool {
        let refuses = |moment: &Moment| {
            moment
                .seen
                .iter()
                .any(|seen| matches!(&seen.packet.body, Body::Tcp(tcp) if tcp.flags.has(Flags::RST)))
        };
        self.ours.last().is_some_and(refuses) && self.ours.states() == "SYN-SENT"
    }

    /// The peer looks at what it sent, and at what came of it.
    fn learn(&mut self, step: &Step) {
        let view = &mut self.view;
        if let Action::Send(packet, _) = &step.action
            && let Body::Tcp(tcp) = &packet.body
        {
            let syn = tcp.flags.has(Flags::SYN);
            let start = tcp.seq.map_or(0, |range| range.start);
            let start = if syn { start.wrapping_sub(view.isn) } else { start };
            let end = start.wrapping_add(tcp.len + u32::from(syn) + u32::from(tcp.flags.has(Flags::FIN)));
            if ahead(end, view.sent) && end.wrapping_sub(view.sent) < 1 << 20 {
                view.sent = end;
            }
            if let Some(ack) = tcp.ack
                && ahead(ack, view.acked)
                && !ahead(ack, view.heard)
            {
                view.acked = ack;
            }
        }
        let Some(moment) = self.ours.last() else { return };
        for seen in &moment.seen {
            let Body::Tcp(tcp) = &seen.packet.body else { continue };
            let syn = tcp.flags.has(Flags::SYN);
            if tcp.flags.has(Flags::RST) {
                continue;
            }
            for option in tcp.options.iter().flatten().filter(|_| syn) {
                match option {
                    TcpOption::WindowScale(shift) => view.scale = *shift,
                    TcpOption::Timestamps { .. } => view.stamps = true,
                    TcpOption::SackPermitted => view.sack = true,
                    _ => {}
                }
            }
            if syn && !view.met {
                (view.heard, view.acked, view.met) = (1, 0, true);
            }
            let end = tcp.seq.map_or(0, |range| range.end);
            let end = end.wrapping_add(u32::from(syn) + u32::from(tcp.flags.has(Flags::FIN)));
            if ahead(end, view.heard) || syn {
                view.heard = end;
            }
            if let Some(ack) = tcp.ack {
                // Beside a SYN it is the wire's.
                let ack = if syn { ack.wrapping_sub(view.isn) } else { ack };
                view.expected = ack;
                let shift = if syn { 0 } else { view.scale };
                view.edge = ack.wrapping_add(u32::from(tcp.window.unwrap_or(0)) << shift);
            }
        }
    }
}

/// Is `a` beyond `b` on the circle?
fn ahead(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}
