//! One model of a card: whatever comes, and however its workers take turns, each flow's packets come up whole and in
//! order, merged ones with the same bytes; what the host sends leaves in order; and no frame is ever lost.

use super::wire::{Far, Hands, Wire, segment};
use super::worker::FREE;
use super::{Card, CardConfig, RECEIVERS_MAX};
use crate::port::*;
use ::wire::packet::{Content, parse_frame};
use ::wire::tcp::Flags;
use base::{Duration, Input};
use std::collections::VecDeque;

/// Flows, and besides what belongs to none.
const FLOWS: usize = 5;
/// Bytes of a TCP header with timestamps.
const TCP: usize = 32;
/// Bytes of a full segment.
const FULL: usize = 64;

/// A packet that came, as it is to come up unless it is merged.
struct Expected {
    bytes: Vec<u8>,
    meta: RxMeta,
    /// It is sound, plain data, so the card may merge it: where its payload starts.
    text: Option<usize>,
}

struct World {
    card: Card,
    far: Far,
    time: Hands,
    expected: Vec<VecDeque<Expected>>,
    next: [u32; FLOWS],
    /// Nothing but data in order comes, and often.
    calm: bool,
    /// Frames that the host has.
    held: Vec<RxPacket>,
    sent: Vec<Vec<u8>>,
    queued: TxBatch,
}

/// Bytes as packets, turns and calls; what the card counted.
pub(crate) fn card(data: &[u8]) -> Vec<(&'static str, u64)> {
    let mut input = Input::new(data);
    let mut world = World::new(&mut input);
    while !input.is_empty() {
        match input.below(10) {
            0..=4 => {
                let flow = input.below(FLOWS as u32 + 1) as usize;
                for _ in 0..=input.below(8) {
                    world.come(flow, &mut input);
                }
            }
            5 | 6 => world.receive(),
            7 => world.send(&mut input),
            8 => {
                world.time.pass(Duration::from_micros(input.below(if world.calm { 16 } else { 256 }).into()))
            }
            _ => {
                for packet in world.held.drain(..) {
                    world.card.retire(packet.frame);
                }
            }
        }
    }
    world.end()
}

impl World {
    fn new(input: &mut Input<'_>) -> World {
        let mut config = CardConfig::new(1 + input.below(RECEIVERS_MAX as u32) as usize, input.u32().into());
        config.engine = match input.below(4) {
            0 => None,
            1 => Some(offload::Config { hold: Duration::from_micros(50), ..offload::Config::default() }),
            _ => Some(offload::Config::default()),
        };
        // A port with few frames, too.
        let (wire, far) = Wire::new(if input.below(2) == 0 { 512 } else { 100 });
        let time = Hands::new();
        let hands = time.clone();
        let card = Card::in_turns(Box::new(wire), &config, move || hands.now()).expect("memory");
        World {
            card,
            far,
            time,
            expected: (0..=FLOWS).map(|_| VecDeque::new()).collect(),
            next: [0; FLOWS],
            calm: input.below(2) == 0,
            held: Vec::new(),
            sent: Vec::new(),
            queued: TxBatch::new(),
        }
    }

    /// A packet of a flow, or of none, comes from the wire.
    fn come(&mut self, flow: usize, input: &mut Input<'_>) {
        let kind = if self.calm { 0 } else { input.below(16) };
        if flow == FLOWS {
            // Neither IP nor ARP, or something that looks like the latter.
            let mut bytes = vec![kind as u8; 60];
            bytes[12..14].copy_from_slice(if kind < 8 { &[8, 6] } else { &[0x88, 0xcc] });
            return self.expect(flow, vec![bytes], RxMeta::default(), None);
        }
        let len = match kind {
            0..=8 => FULL,
            9 => 1 + input.below(FULL as u32) as usize,
            10 | 11 => 0,
            _ => 3 * FULL,
        };
        let flags = match if self.calm { 15 } else { input.below(16) } {
            0 => Flags::ACK | Flags::PSH,
            1 => Flags::ACK | Flags::FIN,
            2 => Flags::SYN,
            3 => Flags::ACK | Flags::ECE,
            4 => Flags::RST,
            _ => Flags::ACK,
        };
        // Now and then something is missing before it, or it comes again.
        let seq = match if self.calm { 15 } else { input.below(16) } {
            0 => self.next[flow].wrapping_add(FULL as u32),
            1 => self.next[flow].wrapping_sub(FULL as u32),
            _ => self.next[flow],
        };
        let payload: Vec<u8> = (0..len as u32).map(|at| (seq.wrapping_add(at) ^ flow as u32) as u8).collect();
        let mut bytes = segment(flow as u16, seq, flags, &payload);
        let text = bytes.len() - len;
        self.next[flow] = seq.wrapping_add(len as u32);
        match kind {
            12 => {
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
                self.expect(flow, vec![bytes], RxMeta::default(), None);
            }
            13 => {
                let meta = RxMeta { checksum: RxChecksum::Verified, gso_size: FULL as u16, more: false };
                self.expect(flow, vec![bytes], meta, None);
            }
            14 => {
                let tail = bytes.split_off(text + 1 + input.below(FULL as u32) as usize);
                self.expect(flow, vec![bytes, tail], RxMeta::default(), None);
            }
            _ => self.expect(flow, vec![bytes], RxMeta::default(), Some(text)),
        }
    }

    fn expect(&mut self, flow: usize, frames: Vec<Vec<u8>>, meta: RxMeta, text: Option<usize>) {
        self.expected[flow].push_back(Expected { bytes: frames.concat(), meta, text });
        self.far.put_in(frames, meta);
    }

    /// The host receives a batch.
    fn receive(&mut self) {
        self.time.pass(Duration::from_micros(1));
        let mut batch = RxBatch::new();
        self.card.rx(&mut batch).expect("the wire is well");
        assert!(batch.len() <= BATCH_MAX);
        let mut bytes = Vec::new();
        let mut meta = None;
        for packet in batch {
            bytes.extend_from_slice(packet.frame.data());
            meta.get_or_insert(packet.meta);
            if !packet.meta.more {
                self.check(&std::mem::take(&mut bytes), meta.take().unwrap_or_default());
            }
            self.held.push(packet);
        }
        assert!(bytes.is_empty(), "no packet is cut by the end of a batch");
        if self.held.len() > 2 * BATCH_MAX {
            for packet in self.held.drain(..) {
                self.card.retire(packet.frame);
            }
        }
    }

    /// A packet came up: it is the next of its flow, or several.
    fn check(&mut self, bytes: &[u8], meta: RxMeta) {
        let flow = flow_of(bytes);
        let queue = &mut self.expected[flow];
        let first = queue.pop_front().unwrap_or_else(|| panic!("a packet of flow {flow} that no peer sent"));
        if first.bytes == bytes {
            assert_eq!(first.meta.gso_size, meta.gso_size);
            assert!(
                first.text.is_none() || meta.checksum == RxChecksum::Verified,
                "who is sound is known to be"
            );
            assert!(first.text.is_some() || first.meta.checksum == meta.checksum, "and nothing else");
            return;
        }
        let text = first.text.expect("only plain data is merged");
        assert_eq!(
            (meta.checksum, usize::from(meta.gso_size)),
            (RxChecksum::Verified, first.bytes.len() - text)
        );
        let (mut at, mut last) = (text, first);
        loop {
            let payload = &last.bytes[text..];
            assert_eq!(&bytes[at..at + payload.len()], payload, "flow {flow}");
            at += payload.len();
            if at == bytes.len() {
                break;
            }
            assert_eq!(payload.len(), usize::from(meta.gso_size), "a short segment is the last");
            last = queue.pop_front().expect("no bytes that no peer sent");
            assert!(last.text.is_some(), "only plain data is merged");
        }
        // Ports, acknowledgment, window, flags and options; not the sequence number, PSH and the checksum.
        let shared = |bytes: &[u8]| {
            let tcp = &bytes[text - TCP..text];
            let mut own = tcp.to_vec();
            own[4..8].fill(0);
            own[13] &= !(Flags::PSH.0 as u8);
            own[16..18].fill(0);
            own
        };
        assert_eq!(shared(bytes), shared(&last.bytes), "the same but for what is each packet's own");
        let pushed = |bytes: &[u8]| bytes[text - TCP + 13] & Flags::PSH.0 as u8;
        assert_eq!(pushed(bytes), pushed(&last.bytes), "PSH is the last one's");
        let Ok(Content::Ip(packet)) = parse_frame(bytes, bytes.len()).map(|frame| frame.content) else {
            panic!("a merged packet is a packet");
        };
        assert_eq!(packet.end as usize, bytes.len());
    }

    /// The host sends a packet, and again what the card did not take before.
    fn send(&mut self, input: &mut Input<'_>) {
        if input.below(4) == 0 {
            self.far.traffic().takes = input.below(20) as usize;
        }
        if let Some(mut frame) = self.card.take() {
            let bytes = segment(0, self.sent.len() as u32, Flags::ACK, &[input.u8(); 33]);
            frame.set_range(0, bytes.len());
            frame.data_mut().copy_from_slice(&bytes);
            // As a stack does it that leaves the sum to the port: the pseudo header's is there.
            let (start, offset) = (34_u16, 16_u16);
            let at = usize::from(start + offset);
            let Ok(Content::Ip(packet)) = parse_frame(&bytes, bytes.len()).map(|frame| frame.content) else {
                panic!("it was just made");
            };
            frame.data_mut()[at..at + 2].copy_from_slice(&(!packet.pseudo().checksum()).to_be_bytes());
            let meta = TxMeta { checksum: Some(ChecksumOffload { start, offset }), segmentation: None };
            self.queued.push_back(TxPacket { frame, meta });
            self.sent.push(bytes);
        }
        self.card.tx(&mut self.queued).expect("the wire is well");
    }

    /// Everything arrives, and all frames come back but those that lie ready.
    fn end(mut self) -> Vec<(&'static str, u64)> {
        self.far.traffic().takes = usize::MAX;
        let mut rounds = 0..10_000;
        loop {
            self.time.pass(Duration::from_micros(100));
            self.card.tx(&mut self.queued).expect("the wire is well");
            self.receive();
            for packet in self.held.drain(..) {
                self.card.retire(packet.frame);
            }
            let traffic = self.far.traffic();
            let (came, sent) =
                (self.expected.iter().all(VecDeque::is_empty), traffic.sent.len() == self.sent.len());
            if came && sent && traffic.out <= FREE {
                assert!(traffic.sent == self.sent, "what is sent leaves in order, with its checksum");
                drop(traffic);
                return self.card.stats();
            }
            let left: Vec<_> = self.expected.iter().map(VecDeque::len).collect();
            assert!(
                rounds.next().is_some(),
                "{left:?} did not come up, or not all was sent: {} out",
                traffic.out
            );
        }
    }
}

/// Returns the flow of a packet: its port, as the model made it; packets without ports belong to no flow.
fn flow_of(bytes: &[u8]) -> usize {
    let whole = bytes.len();
    match parse_frame(bytes, whole).map(|frame| frame.content) {
        Ok(Content::Ip(packet)) => {
            let port = &bytes[packet.start as usize..][..2];
            usize::from(u16::from_be_bytes([port[0], port[1]])) - 1000
        }
        _ => FLOWS,
    }
}
