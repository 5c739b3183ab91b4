//! One model of merged runs: what joins is what a plain reading of both packets says may join, nothing else joins, and
//! what goes up is every flow's packets in their order.

use alloc::vec;
use alloc::vec::Vec;
use base::{Addr, Endpoint, FlowKey, Input, Seq};
use wire::ParseError;
use wire::checksum::Sum;
use wire::packet::{Below, Checksum, Content, Link, Packet, parse_frame, parse_ip};
use wire::tcp::{Flags, Header, Options, SackBlocks, Segment, Timestamps};

use crate::{BatchGro, MERGE_MAX};

/// Packets in a batch.
const BATCH: usize = 16;
/// Packets shorter than this, headers included, need not join.
const SHORT: usize = 512;
/// Where Ethernet's header ends.
const LINK: usize = 14;

/// Batches of packets as the bytes say, of few flows, most of which continue the one before.
pub fn merged_runs(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(&mut input);
    let mut merged_runs = BatchGro::new(BATCH);
    while !input.is_empty() {
        let batch: Vec<_> = (0..BATCH).map(|_| world.packet(&mut input)).collect();
        let how = input.u8();
        check(&mut merged_runs, &batch, world.ip(), !how.is_multiple_of(8), how & 0x18 != 0);
    }
}

/// Feeds a batch, and compares with a plain reading; as the stack does if `follows`, else packet by packet.
fn check(merged_runs: &mut BatchGro, batch: &[Vec<u8>], ip: usize, sums: bool, follows: bool) {
    merged_runs.begin();
    // Of each flow, the places of its packets; and the packets that head merged runs or stand alone.
    let mut flows: Vec<(FlowKey, Vec<usize>)> = Vec::new();
    let (mut first, mut following) = (Vec::new(), 0);
    for (at, packet) in batch.iter().enumerate() {
        let read = read(packet, ip);
        if following == 0 && follows {
            let rest = batch[at..].iter().map(|packet| (packet.as_slice(), sums));
            following = merged_runs.follow(at as u16, rest, Sum::of);
        }
        let joined = following > 0
            || merged_runs.offer(at as u16, packet, ip, sums.then_some(Sum::of), |place| {
                Some(batch[usize::from(place)].as_slice())
            });
        following = following.saturating_sub(1);
        let Ok((key, _, _)) = read else {
            assert!(!joined, "what cannot be read joins nothing: {packet:x?}");
            continue;
        };
        if !joined && sums && !is_whole(packet, ip) {
            // The stack drops it.
            continue;
        }
        let before = flows.iter().find(|(other, _)| *other == key).and_then(|(_, places)| places.last());
        let may = before.is_some_and(|before| {
            let size = length(batch, first_of(merged_runs, &first, *before), ip);
            continues(&batch[*before], packet, ip, size, sums)
        });
        assert!(may || !joined, "{before:?} and {at} are not of a kind");
        if !joined {
            // Others may have taken the place of a flow that was not the last to send; short packets are not worth it.
            let next = before.is_some_and(|before| before + 1 == at);
            let long = packet.len() >= SHORT && before.is_some_and(|before| batch[*before].len() >= SHORT);
            assert!(!may || !next || !long, "{before:?} and {at} are of a kind");
            merged_runs.pass(at as u16, &key);
            first.push(at as u16);
        }
        match flows.iter_mut().find(|(other, _)| *other == key) {
            Some((_, places)) => places.push(at),
            None => flows.push((key, vec![at])),
        }
    }
    let mut up: Vec<usize> = Vec::new();
    for place in &first {
        let members = members(merged_runs, *place);
        if let Some(merged_run) = merged_runs.run_at(*place) {
            assert!(members.len() > 1 && members.len() <= MERGE_MAX);
            for (nth, at) in members.iter().enumerate() {
                let packet = &batch[*at];
                let (_, _, segment) = read(packet, ip).expect("it joined");
                assert_eq!(packet[merged_run.text(nth as u16)], *segment.payload, "its bytes and no other");
            }
            let pushed = read(&batch[*members.last().expect("several")], ip).expect("it joined").2.flags;
            assert_eq!(merged_run.is_pushed(), pushed.has(Flags::PSH));
        }
        up.extend(members);
    }
    for (_, places) in flows {
        let order: Vec<_> = up.iter().copied().filter(|at| places.contains(at)).collect();
        assert_eq!(order, places, "a flow's packets go up once, in order");
    }
    merged_runs.clear();
}

/// The packets that go up with the one at `place`, itself among them.
fn members(merged_runs: &BatchGro, place: u16) -> Vec<usize> {
    let count = merged_runs.run_at(place).map_or(1, |merged_run| merged_run.count());
    let mut all = vec![usize::from(place)];
    for _ in 1..count {
        all.push(merged_runs.behind(all[all.len() - 1] as u16).into());
    }
    all
}

/// Which of the packets that head a merged run or stand alone `at` goes up with.
fn first_of(merged_runs: &BatchGro, first: &[u16], at: usize) -> usize {
    let first = first.iter().find(|place| members(merged_runs, **place).contains(&at));
    usize::from(*first.expect("each packet goes up"))
}

/// Bytes of payload of a packet that was read before.
fn length(batch: &[Vec<u8>], at: usize, ip: usize) -> usize {
    read(&batch[at], ip).map_or(0, |(_, _, segment)| segment.payload.len())
}

/// Flow, IP and TCP of a packet, as the stack's general way reads them.
fn read(packet: &[u8], ip: usize) -> Result<(FlowKey, Packet, Segment<'_>), ParseError> {
    let parsed = if ip == 0 {
        parse_ip(packet, packet.len())?
    } else {
        match parse_frame(packet, packet.len())?.content {
            Content::Ip(parsed) => parsed,
            Content::Arp(_) => return Err(ParseError::TcpTruncated),
        }
    };
    if parsed.protocol != wire::protocol::TCP {
        return Err(ParseError::TcpTruncated);
    }
    let (from, to, segment) = parsed.tcp(packet)?;
    let key = FlowKey::new(Endpoint::new(parsed.dst, to), Endpoint::new(parsed.src, from));
    Ok((key, parsed, segment))
}

/// Is its checksum right?
fn is_whole(packet: &[u8], ip: usize) -> bool {
    read(packet, ip).is_ok_and(|(_, below, _)| below.pseudo().plus(Sum::of(below.upper(packet))).is_valid())
}

/// Are IPv4's header and what is behind it whole? Summed up half-word by half-word, as RFC 1071 has it.
pub(crate) fn whole_by_hand(packet: &[u8]) -> bool {
    let sum = |bytes: &[u8], start: u32| {
        let halves =
            bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b)));
        let mut sum = halves.fold(start, |sum, half| sum + half);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    };
    let (header, upper) = packet.split_at(20);
    let pseudo = sum(&header[12..20], 6 + upper.len() as u32);
    sum(header, 0) == 0xffff && sum(upper, pseudo) == 0xffff
}

/// May `next` be delivered with `last` before it, in a run whose segments have `size` bytes?
pub(super) fn continues(last: &[u8], next: &[u8], ip: usize, size: usize, sums: bool) -> bool {
    let (Ok((key, below, a)), Ok((other, below_next, b))) = (read(last, ip), read(next, ip)) else {
        return false;
    };
    let plain = |segment: &Segment<'_>| {
        let Options { timestamps, .. } = segment.options;
        let flags = segment.flags.0 & !(Flags::ACE | Flags::PSH).0;
        segment.options == Options { timestamps, ..Options::NONE } && flags == Flags::ACK.0
    };
    let stamps = match (a.options.timestamps, b.options.timestamps) {
        (None, None) => true,
        (Some(a), Some(b)) => a.ecr == b.ecr && b.val.wrapping_sub(a.val) as i32 >= 0,
        _ => false,
    };
    let counts = !below.src.is_v4() || {
        let id = |packet: &[u8]| u16::from_be_bytes([packet[ip + 4], packet[ip + 5]]);
        last[ip + 6] & 0x40 != 0 || id(next) == id(last).wrapping_add(1)
    };
    let marks = if below.src.is_v4() { ip + 6..ip + 8 } else { ip..ip + 4 };
    let tcp = below_next.upper(next);
    // Bits without a meaning yet and unknown options are ignored, but who merges must not lose them.
    let shape = |tcp: &[u8]| (tcp[12] & 0xfe, tcp[12] >> 4 == 8 && tcp[20..24] == [1, 1, 8, 10]);
    let (usual, form) = (shape(below.upper(last)), shape(tcp));
    let alike = usual == form && (form.1 || form.0 >> 4 == 5);
    let whole = !sums || is_whole(next, ip);
    key == other
        && last[..ip] == next[..ip]
        && (below.tos, below.ttl) == (below_next.tos, below_next.ttl)
        && last[marks.clone()] == next[marks]
        && plain(&a)
        && plain(&b)
        && !a.flags.has(Flags::PSH)
        && (a.ack, a.window, a.urgent) == (b.ack, b.window, b.urgent)
        && a.flags.0 & !Flags::PSH.0 == b.flags.0 & !Flags::PSH.0
        && b.seq == a.seq + a.payload.len() as u32
        && a.payload.len() == size
        && (1..=size).contains(&b.payload.len())
        && alike
        && stamps
        && counts
        && whole
}

/// State of the senders of a few flows.
struct World {
    below: Below,
    /// With IPv4, packets may be fragmented on their way and are numbered.
    numbered: bool,
    sent: u16,
    flows: Vec<(Header, usize)>,
}

impl World {
    fn new(input: &mut Input<'_>) -> World {
        let v4 = input.u8().is_multiple_of(2);
        let end = |last: u8| match v4 {
            true => Addr::v4([192, 0, 2, last]),
            false => Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
        };
        let link = Link { dst: [2, 0, 0, 0, 0, 1], src: [2, 0, 0, 0, 0, 2] };
        let below = Below {
            link: input.u8().is_multiple_of(2).then_some(link),
            src: end(1),
            dst: end(2),
            tos: 0,
            ttl: 64,
            label: 7,
        };
        let stamped = input.u8();
        let flow = |nth: u16| {
            let stamps = Timestamps { val: u32::MAX - 3, ecr: 9 };
            let timestamps = (stamped >> nth & 1 == 1).then_some(stamps);
            let header = Header {
                src_port: 4000 + nth,
                dst_port: 80,
                seq: Seq::new(0u32.wrapping_sub(7000)),
                ack: Seq::new(1),
                flags: Flags::ACK,
                window: 500,
                options: Options { timestamps, ..Options::NONE },
            };
            (header, 500 + usize::from(nth) * 60)
        };
        let numbered = v4 && input.u8().is_multiple_of(2);
        World { below, numbered, sent: 0xfff0, flows: (0..4).map(flow).collect() }
    }

    fn ip(&self) -> usize {
        if self.below.link.is_some() { LINK } else { 0 }
    }

    /// The next packet of some flow, mostly one that continues the last.
    fn packet(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let (which, what, how) = (input.u8(), input.u8(), input.u8());
        let mut below = self.below;
        let (header, size) = &mut self.flows[usize::from(which % 4)];
        let mut len = *size;
        let mut sent = *header;
        match what % 32 {
            0 => len = usize::from(how) % (len + 20),
            1 => sent.flags = Flags(sent.flags.0 | 1 << (how % 12)),
            2 => sent.flags = sent.flags | Flags::PSH,
            3 => sent.seq += u32::from(how) % 3 * 50,
            4 => sent.ack += u32::from(how),
            5 => sent.window += u16::from(how),
            6 => below.tos = how,
            7 => below.ttl = how.max(1),
            8 => below.label = u32::from(how),
            9 => *size = 350 + usize::from(how),
            10 => sent.options.sack = blocks(how),
            _ => {}
        }
        if let Some(stamps) = &mut sent.options.timestamps {
            stamps.val = stamps.val.wrapping_add(match how % 16 {
                0 => u32::MAX,
                1 => 1,
                _ => 0,
            });
            header.options.timestamps = sent.options.timestamps;
        }
        header.seq = sent.seq + len as u32;
        let mut packet = vec![0x5a; below.len() + sent.len() + len];
        below.emit_tcp(&sent, len, Checksum::Full, &mut packet);
        if self.numbered {
            self.sent = self.sent.wrapping_add(if what % 32 == 11 { 2 } else { 1 });
            number(&mut packet[below.len() - 20..below.len()], self.sent);
        }
        match what >> 5 {
            // Any byte of the headers, or a cut.
            0 if how < 100 => {
                let at = usize::from(how) % (below.len() + 20);
                packet[at] ^= 1 << (which >> 5);
            }
            1 if how < 40 => packet.truncate(usize::from(how) * 3),
            2 if how < 40 => packet.extend([0; 9]),
            _ => {}
        }
        packet
    }
}

/// Gives an IPv4 header a number and takes its DF away.
pub(super) fn number(header: &mut [u8], id: u16) {
    header[4..6].copy_from_slice(&id.to_be_bytes());
    header[6] &= !0x40;
    header[10..12].fill(0);
    let check = Sum::of(header).checksum();
    header[10..12].copy_from_slice(&check.to_be_bytes());
}

fn blocks(how: u8) -> SackBlocks {
    let mut blocks = SackBlocks::none();
    blocks.push(Seq::new(how.into()), Seq::new(u32::from(how) + 9));
    blocks
}
