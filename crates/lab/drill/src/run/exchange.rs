//! Packets of the script: what comes in is injected, what should go out is waited for and compared.

use super::build::{message, segment};
use super::calls::Stop;
use super::compare::{Stamps, difference};
use super::flow::{Ends, Flow, Stage};
use super::known::Known;
use super::observe::Sent;
use super::runner::{Runner, Window};
use crate::lang::{Body, Direction, Flags, Packet, Segment, TcpOption};
use base::Endpoint;

type Result<T> = std::result::Result<T, Stop>;

impl Runner {
    pub(super) fn packet(&mut self, packet: &Packet, window: Window) -> Result<()> {
        if !packet.outer.is_empty() {
            return Stop::unsupported("packets in tunnels");
        }
        match &packet.body {
            Body::Udp(..) => return Stop::unsupported("UDP"),
            Body::Tcp(segment) if segment.udp.is_some() => return Stop::unsupported("TCP in UDP"),
            _ => {}
        }
        match packet.direction {
            Direction::In => {
                self.wait_until(window)?;
                self.send_in(packet)
            }
            Direction::Out => match self.expect(packet, window) {
                Err(Stop::Fail(why)) if self.known.options.forgive_packets => {
                    let now = self.now();
                    self.note(now, format!("forgiven: {why}"));
                    Ok(())
                }
                other => other,
            },
        }
    }

    // --- in --------------------------------------------------------------------------------------------------

    fn send_in(&mut self, packet: &Packet) -> Result<()> {
        let index = self.flow_for_inbound(packet);
        let (local, remote) = self.ends(index);
        let flow = &mut self.known.flows[index];
        let bytes = match &packet.body {
            Body::Tcp(tcp) => {
                learn_from_peer(flow, tcp);
                self.echo_scaled(index, tcp);
                let mut ends = Ends { source: remote, destination: local };
                if let Some(ports) = tcp.ports {
                    ends.source.port = if ports.source == 0 { ends.source.port } else { ports.source };
                    ends.destination.port =
                        if ports.destination == 0 { ends.destination.port } else { ports.destination };
                }
                segment(&packet.ip, tcp, &self.known.flows[index], ends, &self.peer_keys)?
            }
            Body::Icmp(icmp) => {
                let router = self.known.options.gateway;
                message(&packet.ip, icmp, &self.known.flows[index], router, local, remote)?
            }
            Body::Udp(..) => return Stop::unsupported("UDP"),
        };
        let now = self.now();
        self.note(now, packet);
        let payload = match &packet.body {
            Body::Tcp(tcp) => tcp.len,
            _ => 0,
        };
        self.inject(bytes, payload)
    }

    /// The connection that a segment of the peer belongs to; one that comes to a listener, or to none, begins one.
    fn flow_for_inbound(&mut self, packet: &Packet) -> usize {
        if let Some(at) = self.known.current {
            let flow = &self.known.flows[at];
            let stranger = match flow.stage {
                Stage::Listening => true,
                Stage::Fresh => flow.remote.is_none(),
                _ => false,
            };
            if !stranger || !matches!(packet.body, Body::Tcp(_)) {
                return at;
            }
        }
        let mut flow = Flow::new(Stage::Accepting, None);
        flow.local = Some(Endpoint::new(self.known.options.local, self.known.options.bind_port));
        flow.remote = Some(Endpoint::new(self.known.options.remote, self.next_port));
        if let Body::Tcp(Segment { seq: Some(range), .. }) = &packet.body {
            flow.remote_isn = range.start;
        }
        self.next_port += 1;
        self.known.begin_flow(flow);
        self.known.flows.len() - 1
    }

    fn ends(&self, index: usize) -> (Endpoint, Endpoint) {
        let Known { options, flows, .. } = &self.known;
        let local = flows[index].local.unwrap_or(Endpoint::new(options.local, options.bind_port));
        let remote = flows[index].remote.unwrap_or(Endpoint::new(options.remote, options.connect_port));
        (local, remote)
    }

    /// An echo that no segment of ours has shown, computed from the first that did.
    fn echo_scaled(&mut self, index: usize, tcp: &Segment) {
        let flow = &mut self.known.flows[index];
        let (true, Some((script, live))) = (self.known.options.scaled_echo, flow.first_stamp) else { return };
        for option in tcp.options.iter().flatten() {
            if let TcpOption::Timestamps { ecr, absolute: false, .. } = option {
                flow.stamps.entry(*ecr).or_insert(live.wrapping_add(ecr.wrapping_sub(script)));
            }
        }
    }

    // --- out -------------------------------------------------------------------------------------------------

    fn expect(&mut self, packet: &Packet, window: Window) -> Result<()> {
        let index = self.flow_for_outbound(packet)?;
        let ports = match &packet.body {
            Body::Tcp(tcp) => tcp.ports,
            _ => None,
        };
        let wanted = |run: &mut Self, sent: &Sent| {
            let ends = (Some(sent.source), Some(sent.destination));
            let others = run.known.flows.iter().enumerate().filter(|(at, _)| *at != index);
            let of_another = others.into_iter().any(|(_, flow)| (flow.local, flow.remote) == ends);
            let flow = &mut run.known.flows[index];
            let Some(tcp) = sent.tcp() else {
                return flow.remote.is_none_or(|r| r.addr == sent.destination.addr);
            };
            if let Some(ports) = ports {
                return tcp.ports == Some(ports);
            }
            let opens = tcp.flags.has(Flags::SYN) && !tcp.flags.has(Flags::ACK);
            let to_peer = flow.remote == Some(sent.destination);
            if opens && to_peer && flow.local.is_none() {
                flow.local = Some(sent.source);
                flow.local_isn.0 = tcp.seq.map_or(0, |range| range.start);
                return true;
            }
            to_peer && flow.local.map_or(!of_another, |local| local == sent.source)
        };
        let Some(mut sent) = self.next_sent(window, wanted)? else {
            return Stop::fail(format!("no packet came\nexpected: {packet}\n    seen: nothing"));
        };
        self.join(packet, &mut sent, window, wanted)?;
        self.learn_from_sent(index, packet, &sent);
        let mut seen = sent.in_script(&self.known.flows[index]);
        self.peer_keys.judge(&mut seen, &sent, &self.known.flows[index]);
        self.note(sent.at, trimmed(&seen, packet));
        let sides = |why: &str| {
            let (from, at) = (window.from.as_secs_f64(), sent.at.as_secs_f64());
            Stop::Fail(format!(
                "{why}\nexpected: {from:.6} {packet}\n    seen: {at:.6} {}",
                trimmed(&seen, packet)
            ))
        };
        let tolerance = self.tolerance(window).max(sent.at * 125 / 1_000);
        let stamps = Stamps { tick: self.known.options.tick, tolerance };
        if let Some(why) = difference(packet, &seen, stamps) {
            return Err(sides(&why));
        }
        if let Some(seq) = sent.wrong_byte(&self.known.flows[index]) {
            return Err(sides(&format!("the byte at {seq} is not what the application wrote there")));
        }
        match self.in_time(window, sent.at, "the packet") {
            Err(Stop::Fail(why)) => Err(sides(&why)),
            other => other,
        }
    }

    fn flow_for_outbound(&mut self, packet: &Packet) -> Result<usize> {
        let Some(index) = self.known.current else {
            return Stop::fail("no socket that could send this");
        };
        let flow = &mut self.known.flows[index];
        if let (Body::Tcp(tcp), Stage::Connecting) = (&packet.body, flow.stage)
            && tcp.flags.has(Flags::SYN)
            && !tcp.flags.has(Flags::ACK)
        {
            flow.stage = Stage::SynSent;
            flow.local_isn.1 = tcp.seq.map_or(0, |range| range.start);
        }
        Ok(index)
    }

    /// Several segments may stand for the one that the script shows: they are joined until they are as long.
    fn join(
        &mut self,
        expected: &Packet,
        sent: &mut Sent,
        window: Window,
        mut wanted: impl FnMut(&mut Self, &Sent) -> bool,
    ) -> Result<()> {
        let Body::Tcp(expected) = &expected.body else { return Ok(()) };
        if self.known.options.strict_segments {
            return Ok(());
        }
        while let Some(tcp) = sent.tcp().filter(|tcp| tcp.len > 0 && tcp.len < expected.len) {
            let head = tcp.clone();
            let Some(next) = self.next_sent(window, &mut wanted)? else { return Ok(()) };
            let follows = next.tcp().is_some_and(|tail| {
                let soft = Flags::FIN | Flags::PSH | Flags::CWR;
                tail.seq.map(|range| range.start) == head.seq.map(|range| range.end)
                    && tail.flags.bits | soft == head.flags.bits | soft
                    && (tail.ack, tail.window) == (head.ack, head.window)
            });
            if !follows {
                // What does not follow is looked at by the next event.
                self.world()?.wire.lock().outbound.push_front((next.left, next.bytes));
                return Ok(());
            }
            let Some(tail) = next.tcp() else { return Ok(()) };
            let Body::Tcp(whole) = &mut sent.packet.body else { return Ok(()) };
            whole.len += tail.len;
            whole.seq = whole.seq.zip(tail.seq).map(|(mut first, last)| {
                first.end = last.end;
                first
            });
            whole.flags = tail.flags;
            // It has not left before its last part has.
            sent.at = next.at;
            sent.payload.extend(&next.payload);
        }
        Ok(())
    }

    /// Learns ISN and timestamps from a packet of the stack.
    fn learn_from_sent(&mut self, index: usize, expected: &Packet, sent: &Sent) {
        let flow = &mut self.known.flows[index];
        let (Body::Tcp(expected), Some(seen)) = (&expected.body, sent.tcp()) else { return };
        if flow.stage == Stage::Accepting && expected.flags.has(Flags::SYN) && expected.flags.has(Flags::ACK)
        {
            flow.stage = Stage::Going;
            let start = |tcp: &Segment| tcp.seq.map_or(0, |range| range.start);
            flow.local_isn = (start(seen), start(expected));
        }
        let stamp = |tcp: &Segment| {
            tcp.options.iter().flatten().find_map(|option| match option {
                TcpOption::Timestamps { val, .. } => *val,
                _ => None,
            })
        };
        if let (Some(script), Some(live)) = (stamp(expected), stamp(seen)) {
            flow.show_stamp(script, live);
        }
    }
}

/// The peer's SYN tells its ISN.
fn learn_from_peer(flow: &mut Flow, tcp: &Segment) {
    let start = tcp.seq.map_or(0, |range| range.start);
    match flow.stage {
        Stage::SynSent if tcp.flags.has(Flags::SYN) => {
            flow.remote_isn = start;
            if tcp.flags.has(Flags::ACK) {
                flow.stage = Stage::Going;
            }
        }
        _ => {}
    }
}

/// Without what the script does not speak of.
fn trimmed(seen: &Packet, expected: &Packet) -> Packet {
    let mut shown = seen.clone();
    shown.ip.ecn = seen.ip.ecn.filter(|_| expected.ip.ecn.is_some());
    shown.ip.dscp = seen.ip.dscp.filter(|_| expected.ip.dscp.is_some());
    shown.ip.ttl = seen.ip.ttl.filter(|_| expected.ip.ttl.is_some());
    shown.ip.label = seen.ip.label.filter(|_| expected.ip.label.is_some());
    if let (Body::Tcp(shown), Body::Tcp(expected)) = (&mut shown.body, &expected.body) {
        shown.ports = shown.ports.filter(|_| expected.ports.is_some());
    }
    shown
}
