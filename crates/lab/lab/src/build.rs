//! From a file to a network: switches in a row with a hop between each two, senders, receivers and a source of
//! datagrams where their hops begin and end.
//!
//! ```text
//!   group 1 --\                                               /-- receiver 1
//!   group 2 ---(switch)===== hop 1 =====(switch)===== hop 2 =====(switch)-- receiver 2
//!   datagrams-/            group 3, over hop 2 --/               \-- receiver 3
//! ```

use base::{Addr, Endpoint, Rate, Rng};
use emu::{
    Card, CardConfig, CoreHost, HostId, Merging, Network, PipeConfig, PipeId, PortConfig, PortId, SimPort,
    SwitchId,
};
use stack::{Core, CoreConfig, OwnAddr};
use trace::tapped;
use wire::{ethernet, ipv4, protocol};

use crate::apps::{Manner, Metronome, PIECE_MAX, Receiver, Sender, Start};
use crate::hops::crossed;
use crate::path::{millis, pipes, seconds};
use crate::spec::{self, Capture, Flow, Spec, SpecError};
use crate::world::{Node, Role, World};

/// The port receivers listen on.
const PORT: u16 = 5001;
/// The port of the datagrams.
const METRONOME: u16 = 4000;
/// Bytes of a UDP header.
const UDP: usize = 8;

/// Plan of a run, made of a file.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Each hop's lines, to the receivers and back.
    hops: Vec<[PipeConfig; 2]>,
    /// The hop that is narrowest towards the receivers.
    bottleneck: usize,
    mtu: u16,
    tcp: tcp::Config,
    /// A registry's name of each group's policy.
    policies: Vec<&'static str>,
    /// First and last hop of each of a group's hosts.
    over: Vec<Vec<(usize, usize)>>,
    /// And of the datagrams.
    datagrams_over: (usize, usize),
    /// Card in front of each receiver, without the seed of its hash.
    card: Option<CardConfig>,
}

/// Reads the words of `spec`.
pub(crate) fn plan(spec: &Spec) -> Result<Plan, SpecError> {
    spec.siftr.as_ref().map(crate::logs::plan).transpose()?;
    spec.capture.as_ref().map(Capture::validate).transpose()?;
    let all = spec.all_hops()?;
    let hops = all.iter().map(|hop| pipes(hop)).collect::<Result<Vec<_>, SpecError>>()?;
    // The first of several that are equally narrow; no limit is the widest.
    let width = |nth: &usize| if all[*nth].down_kbit > 0.0 { all[*nth].down_kbit } else { f64::INFINITY };
    let bottleneck = (0..all.len()).min_by(|a, b| width(a).total_cmp(&width(b))).unwrap_or(0);
    let over = spec.flows.iter().map(|flow| match flow.over.as_str() {
        "each" => Ok((0..all.len()).map(|hop| (hop, hop)).collect()),
        over => crossed(over, all.len()).map(|hops| vec![hops]),
    });
    let datagrams_over = spec.cbr.as_ref().map_or("all", |cbr| cbr.over.as_str());
    Ok(Plan {
        bottleneck,
        mtu: all.iter().map(|hop| hop.mtu).min().unwrap_or(0),
        tcp: settings(spec)?,
        policies: policies(spec)?,
        over: over.collect::<Result<_, _>>()?,
        datagrams_over: crossed(datagrams_over, all.len())?,
        card: spec.card.as_ref().map(card).transpose()?,
        hops,
    })
}

fn card(card: &spec::Card) -> Result<CardConfig, SpecError> {
    let cores = card.cores.unwrap_or(card.workers);
    let counts = [card.workers, cores, card.ring, card.descriptors];
    let numbers = [card.packet_us, card.host_us, card.dma_mbit];
    if counts.iter().any(|count| !(1..=65_536).contains(count))
        || numbers.iter().any(|number| !(0.0..1e6).contains(number))
    {
        return Err(SpecError("card: want counts from 1 to 65536, and times and rates from 0 to 1e6".into()));
    }
    let micros = |us: f64| millis(us / 1000.0);
    Ok(CardConfig {
        workers: card.workers as usize,
        cores: cores as usize,
        ring: card.ring as usize,
        per_packet: micros(card.packet_us),
        merging: merging(&card.merging)?,
        dma: (card.dma_mbit > 0.0).then(|| Rate::from_bits_per_sec((card.dma_mbit * 1e6) as u64)),
        descriptors: card.descriptors as usize,
        per_delivery: micros(card.host_us),
        seed: 0,
    })
}

fn merging(words: &str) -> Result<Merging, SpecError> {
    let hold = words.strip_prefix("hold ").and_then(|us| us.trim().parse::<f64>().ok());
    match (words, hold) {
        ("none", _) => Ok(Merging::None),
        ("published", _) => Ok(Merging::Patient),
        (_, Some(us)) if (0.0..=1000.0).contains(&us) => {
            let hold = millis(us / 1000.0);
            Ok(Merging::Engine(offload::Config { hold, ..offload::Config::default() }))
        }
        _ => Err(SpecError(format!(
            "card.merging: want `none`, `published` or `hold 0 to 1000`, not `{words}`"
        ))),
    }
}

fn settings(spec: &Spec) -> Result<tcp::Config, SpecError> {
    let mut config = tcp::Config::default();
    for (name, value) in &spec.stack {
        let text = spec::show(value);
        config.set(name, &text).map_err(|error| SpecError(format!("stack.{name} = {text}: {error:?}")))?;
    }
    Ok(config)
}

fn policies(spec: &Spec) -> Result<Vec<&'static str>, SpecError> {
    let mut registry = cc::Registry::new();
    tune(spec, &mut registry)?;
    let known = || registry.available().map(|row| row.name).collect::<Vec<_>>();
    let named = spec.flows.iter().map(|flow| match registry.offered(&flow.cc) {
        Err(cc::Withheld::Unknown) => {
            Err(SpecError(format!("no congestion control `{}`; there are {}", flow.cc, known().join(", "))))
        }
        other => other.map_err(|why| withheld(&flow.cc, why)),
    });
    named.collect()
}

fn withheld(policy: &str, why: cc::Withheld) -> SpecError {
    SpecError(format!("congestion control `{policy}` {why}"))
}

/// Loads and tunes what `spec` says.
fn tune(spec: &Spec, registry: &mut cc::Registry) -> Result<(), SpecError> {
    let allowed = registry.allow_unfair(spec.cc_allow_unfair);
    allowed.map_err(|error| SpecError(format!("cc_allow_unfair = false: {error:?}")))?;
    for path in &spec.policies {
        let loaded = policy::Library::open(path).and_then(|library| library.register(registry));
        loaded.map_err(|error| SpecError(format!("policies: {error}")))?;
    }
    for (policy, tunables) in &spec.tunables {
        for (name, value) in tunables {
            registry
                .set_tunable(policy, name, *value)
                .map_err(|error| SpecError(format!("tunables.{policy}.{name} = {value}: {error:?}")))?;
        }
    }
    Ok(())
}

/// Builds what `spec` says; every choice follows from `seed`.
///
/// # Errors
/// Those of [`plan`].
pub(crate) fn build(spec: &Spec, seed: u64) -> Result<World, SpecError> {
    let plan = plan(spec)?;
    let mut rng = Rng::new(seed);
    let mut net = Network::new(rng.next_u64());
    let switches: Vec<SwitchId> = (0..=plan.hops.len()).map(|_| net.add_switch()).collect();
    let trunk = |([down, up], ends): (&[PipeConfig; 2], &[SwitchId])| net.trunk(ends[0], ends[1], down, up).0;
    let down: Vec<PipeId> = plan.hops.iter().zip(switches.windows(2)).map(trunk).collect();
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    let (mut roles, mut taps, mut cards) = (Vec::new(), Vec::new(), Vec::new());
    let port = PortConfig {
        mtu: usize::from(plan.mtu),
        rx_ring: 1 << 16,
        tx_ring: 1 << 16,
        ..PortConfig::default()
    };
    let groups = spec.flows.iter().zip(&plan.policies).zip(&plan.over).enumerate();
    let pairs = groups.flat_map(|(group, ((flow, policy), over))| {
        over.iter().map(move |(first, last)| {
            let role = Role { group, first: *first, last: *last, reverse: flow.reverse };
            (flow, *policy, role)
        })
    });
    for (flow, policy, role) in pairs {
        let [high, low] = (senders.len() as u16 + 1).to_be_bytes();
        let (from, to) = (Addr::v4([10, 1, high, low]), Addr::v4([10, 2, high, low]));
        let access = PipeConfig { delay: millis(flow.extra_rtt_ms / 2.0), ..PipeConfig::default() };
        let config = |addr, seed| CoreConfig {
            tcp: plan.tcp.clone(),
            seed,
            addresses: vec![OwnAddr { addr, prefix: 8 }],
            ..CoreConfig::default()
        };
        let out = net.port(&port);
        let (back, line_end) = match &plan.card {
            None => {
                let back = net.port(&port);
                let id = back.id();
                (back, id)
            }
            Some(config) => {
                let config = CardConfig { seed: rng.next_u64(), ..config.clone() };
                let (back, line_end, card) = add_card(&mut net, &port, config);
                cards.push(card);
                (back, line_end)
            }
        };
        let (out_id, back_id) = (out.id(), back.id());
        let ((out, near_tap), (back, far_tap)) = (tapped(Box::new(out)), tapped(Box::new(back)));
        taps.push([near_tap, far_tap]);
        let remote = Endpoint::new(to, PORT);
        let core = equip(spec, policy, Core::new(config(from, rng.next_u64()), out))?;
        let sender = Sender::new(starts(spec, flow, &mut rng), manner(flow), remote);
        senders.push(net.add_host(Node::Sender(Box::new(CoreHost::new(core, sender))), &[out_id]));
        let core = equip(spec, policy, Core::new(config(to, rng.next_u64()), back))?;
        let receiver = Receiver::new(remote, flow.half_closed);
        receivers.push(net.add_host(Node::Receiver(Box::new(CoreHost::new(core, receiver))), &[back_id]));
        let (mut near, mut far) = (switches[role.first], switches[role.last + 1]);
        if role.reverse {
            std::mem::swap(&mut near, &mut far);
        }
        net.plug(out_id, near, &access, &access);
        net.plug(line_end, far, &PipeConfig::default(), &PipeConfig::default());
        roles.push(role);
    }
    if let Some(cbr) = &spec.cbr {
        let (from, to) = (net.port(&port), net.port(&port));
        let (from_id, to_id) = (from.id(), to.id());
        let frame = datagram(usize::from(cbr.bytes), &from, &to);
        let beat = Metronome::new(from, frame, millis(cbr.every_ms), millis(cbr.jitter_ms), rng.next_u64());
        net.add_host(Node::Metronome(Box::new(beat)), &[from_id]);
        let (first, last) = plan.datagrams_over;
        net.plug(from_id, switches[first], &PipeConfig::default(), &PipeConfig::default());
        net.plug(to_id, switches[last + 1], &PipeConfig::default(), &PipeConfig::default());
    }
    Ok(World { net, senders, receivers, taps, roles, cards, down, bottleneck: plan.bottleneck })
}

/// A card at a host's port: that port, the card's own towards the wire, and the card.
fn add_card(net: &mut Network<Node>, wire: &PortConfig, config: CardConfig) -> (SimPort, PortId, HostId) {
    let line = Card::line(wire.mtu).map(|port| net.port(&port));
    let [up, host] = line;
    let card = Card::new(config, net.port(wire), up);
    let [wire, up] = card.ports();
    net.link(up, host.id(), &PipeConfig::default(), &PipeConfig::default());
    let card = net.add_host(Node::Card(Box::new(card)), &[wire, up]);
    (host, wire, card)
}

/// A core whose connections use `policy`.
fn equip(spec: &Spec, policy: &str, mut core: Core) -> Result<Core, SpecError> {
    tune(spec, core.controls())?;
    core.controls().set_default(policy).map_err(|why| withheld(policy, why))?;
    Ok(core)
}

/// How the flows of a group write.
fn manner(flow: &Flow) -> Manner {
    let piece = flow.piece.map_or(PIECE_MAX, |piece| (piece as usize).clamp(1, PIECE_MAX));
    Manner { piece, every: millis(flow.every_ms), half_closed: flow.half_closed }
}

/// When the flows of a group begin.
fn starts(spec: &Spec, flow: &Flow, rng: &mut Rng) -> Vec<Start> {
    let Some(per_second) = flow.per_second.filter(|rate| *rate > 0.0) else {
        let mut at = |nth: u32| {
            let later = if flow.spread > 0.0 { flow.spread * uniform(rng) } else { 0.0 };
            seconds(flow.start + f64::from(nth) * flow.stagger + later)
        };
        let mut starts: Vec<Start> =
            (0..flow.count).map(|nth| Start { at: at(nth), bytes: flow.bytes }).collect();
        starts.sort_by_key(|start| start.at);
        return starts;
    };
    let mut at = flow.start;
    let mut starts = Vec::new();
    loop {
        at += rng.exponential() / per_second;
        if at >= spec.seconds {
            return starts;
        }
        starts.push(Start { at: seconds(at), bytes: flow.bytes });
    }
}

/// A number of 53 bits above 0, at most 1.
fn uniform(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A UDP datagram of `bytes` (IP header included) from one port to another.
fn datagram(bytes: usize, from: &SimPort, to: &SimPort) -> Vec<u8> {
    use pio::PacketIo;
    let bytes = bytes.max(ipv4::HEADER_LEN + UDP);
    let mut frame = vec![0; ethernet::HEADER_LEN + bytes];
    let link = ethernet::Header { dst: to.caps().mac, src: from.caps().mac, ethertype: ethernet::IPV4 };
    let ip = ipv4::Header {
        src: Addr::v4([10, 0, 3, 1]),
        dst: Addr::v4([10, 0, 3, 2]),
        protocol: protocol::UDP,
        tos: 0,
        ttl: 64,
        id: 0,
        dont_fragment: true,
        payload_len: (bytes - ipv4::HEADER_LEN) as u16,
    };
    let at = link.emit(&mut frame);
    let at = at + ip.emit(&mut frame[at..]);
    let udp = &mut frame[at..];
    for (at, field) in [(0, METRONOME), (2, METRONOME), (4, ip.payload_len)] {
        udp[at..at + 2].copy_from_slice(&field.to_be_bytes());
    }
    frame
}
