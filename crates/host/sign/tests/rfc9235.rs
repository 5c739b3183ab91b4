//! Goal: TCP-AO signs and believes the packets of RFC 9235 to the byte: both mandatory algorithms, both families, with
//! and without options under the MAC, in every role of a handshake; and believes no other.

use base::{Addr, Endpoint, FlowKey, Seq};
use tcp::auth::{Auth, Keyring, MasterKey, Peers, Refused, Secret};
use wire::packet::parse_ip;
use wire::tcp::{Segment, Signature};

/// KeyIDs of client and server.
const CLIENT: u8 = 61;
const SERVER: u8 = 84;

struct Section {
    title: String,
    packets: Vec<Vec<u8>>,
}

fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in include_str!("rfc9235.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(title) = line.strip_prefix("section ") {
            sections.push(Section { title: title.into(), packets: Vec::new() });
            continue;
        }
        let packets = &mut sections.last_mut().unwrap().packets;
        if line.starts_with('>') {
            packets.push(Vec::new());
        }
        let digits: Vec<u8> = line.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        packets.last_mut().unwrap().extend(digits.as_chunks::<2>().0.iter().map(byte));
    }
    sections
}

/// One end's keys: those it sends with, and receives with.
fn ring(title: &str, ids: (u8, u8), peer: Addr) -> Keyring {
    let mut ring = Keyring::default();
    ring.add_ao(key(title, ids, peer)).unwrap();
    ring
}

fn key(title: &str, ids: (u8, u8), peer: Addr) -> MasterKey {
    let mut words = title.split(' ').skip(1);
    let algorithm = sign::find(words.next().unwrap()).unwrap();
    let peers = Peers { addr: peer, prefix: if peer.is_v4() { 32 } else { 128 } };
    let secret = Secret::new(b"testvector").unwrap();
    let covers_options = words.next() == Some("covers");
    MasterKey { covers_options, ..MasterKey::new(peers, ids, secret, algorithm) }
}

struct Read<'a> {
    tcp: &'a [u8],
    /// As its sender sees it.
    flow: FlowKey,
    segment: Segment<'a>,
}

fn read(bytes: &[u8]) -> Read<'_> {
    let packet = parse_ip(bytes, bytes.len()).unwrap();
    let (src, dst, segment) = packet.tcp(bytes).unwrap();
    let flow = FlowKey::new(Endpoint::new(packet.src, src), Endpoint::new(packet.dst, dst));
    Read { tcp: packet.upper(bytes), flow, segment }
}

/// RFC 5925, 2.2-2, 5.1-1, 5.1-2, 5.2-1, 7.4-1, 7.4-2, 7.5-1 and 7.5-2; RFC 5926, 3.1-1, 3.1-2 and 3.2-1.
#[test]
fn every_packet_to_the_byte() {
    let sections = sections();
    assert_eq!(sections.len(), 8);
    for Section { title, packets } in &sections {
        assert_eq!(packets.len(), 4);
        let (client_isn, server_isn) = (read(&packets[0]).segment.seq, read(&packets[1]).segment.seq);
        for (nth, bytes) in packets.iter().enumerate() {
            let Read { tcp, flow, segment } = read(bytes);
            let from_client = nth % 2 == 0;
            let (ids, isns) = match from_client {
                true => ((CLIENT, SERVER), (client_isn, server_isn)),
                false => ((SERVER, CLIENT), (server_isn, client_isn)),
            };
            let mut sender = Auth::new(&ring(title, ids, flow.remote().addr), &flow, isns.0).unwrap();
            let back = flow.reversed();
            let ids = (ids.1, ids.0);
            let mut receiver = Auth::new(&ring(title, ids, back.remote().addr), &back, isns.1).unwrap();
            if nth > 0 {
                sender.complete(isns.0, isns.1);
            }
            if nth > 1 {
                receiver.complete(isns.1, isns.0);
            }
            assert_eq!(segment.options.signature, Some(sender.signature()), "{title}, packet {nth}");

            let mut signed = tcp.to_vec();
            let mac = Signature::find(&signed).unwrap().mac;
            signed[mac.clone()].fill(0x55);
            sender.sign(&mut signed);
            assert_eq!(signed, tcp, "{title}, packet {nth}");

            assert_eq!(receiver.verify(tcp, &segment), Ok(false), "{title}, packet {nth}");
            for (at, wrong) in
                [(mac.start, Refused::AoBad), (mac.start - 2, Refused::AoKey), (13, Refused::AoBad)]
            {
                let mut forged = tcp.to_vec();
                forged[at] ^= 8;
                let (.., segment) = wire::tcp::parse(&forged).unwrap();
                assert_eq!(receiver.verify(&forged, &segment), Err(wrong), "{title}, packet {nth}");
            }
            // One of the timestamps.
            let mut changed = tcp.to_vec();
            let stamps = changed.windows(2).position(|pair| pair == [8, 10]).unwrap();
            changed[stamps + 2] ^= 1;
            let (.., segment) = wire::tcp::parse(&changed).unwrap();
            let wanted = if title.ends_with("covers") { Err(Refused::AoBad) } else { Ok(false) };
            assert_eq!(receiver.verify(&changed, &segment), wanted, "{title}, packet {nth}");
        }
    }
}

/// A key that was left is not taken up again because an attacker replays the SYN, whose MAC stays right for ever.
#[test]
fn a_replayed_syn_moves_no_key() {
    for Section { title, packets } in &sections() {
        let (syn, ack) = (read(&packets[0]), read(&packets[2]));
        let (ours, theirs) = (read(&packets[1]).segment.seq, syn.segment.seq);
        let (flow, back) = (syn.flow, syn.flow.reversed());
        let mut client =
            Auth::new(&ring(title, (CLIENT, SERVER), flow.remote().addr), &flow, theirs).unwrap();
        client.complete(theirs, ours);
        let mut keys = ring(title, (SERVER, CLIENT), back.remote().addr);
        keys.add_ao(key(title, (SERVER + 1, CLIENT + 1), back.remote().addr)).unwrap();
        let mut server = Auth::new(&keys, &back, ours).unwrap();
        server.verify(syn.tcp, &syn.segment).unwrap();
        server.complete(ours, theirs);
        // The client asks to be answered with the other key.
        let mut request = ack.tcp.to_vec();
        let mac = Signature::find(&request).unwrap().mac;
        request[mac.start - 1] = SERVER + 1;
        client.sign(&mut request);
        let (.., segment) = wire::tcp::parse(&request).unwrap();
        assert_eq!(server.verify(&request, &segment), Ok(true), "{title}");
        let moved = server.signature();
        assert_eq!(server.verify(syn.tcp, &syn.segment), Ok(false), "{title}");
        assert_eq!(server.signature(), moved, "{title}");
    }
}

/// RFC 5925, 6.2-1: a number that has wrapped is another one.
#[test]
fn numbers_wrap_into_another_mac() {
    let sections = sections();
    let Read { tcp, flow, .. } = read(&sections[0].packets[2]);
    let keys = ring(&sections[0].title, (CLIENT, SERVER), flow.remote().addr);
    let mut auth = Auth::new(&keys, &flow, Seq::new(0)).unwrap();
    auth.complete(Seq::new(0), Seq::new(0));
    let back = flow.reversed();
    let keys = ring(&sections[0].title, (SERVER, CLIENT), back.remote().addr);
    let mut peer = Auth::new(&keys, &back, Seq::new(0)).unwrap();
    peer.complete(Seq::new(0), Seq::new(0));
    let mut segment = tcp.to_vec();
    let mut first = None;
    for step in 0..12_u64 {
        let seq = step * (1 << 30) + 1;
        segment[4..8].copy_from_slice(&(seq as u32).to_be_bytes());
        auth.on_transmit(Seq::new(seq as u32));
        auth.sign(&mut segment);
        let (.., read) = wire::tcp::parse(&segment).unwrap();
        assert_eq!(peer.verify(&segment, &read), Ok(false), "step {step}");
        let first = first.get_or_insert(segment.clone());
        assert_eq!(step % 4 == 0 && *first != segment, step % 4 == 0 && step > 0);
    }
    // What was signed before the wrap is a replay now.
    let old = first.unwrap();
    let (.., read) = wire::tcp::parse(&old).unwrap();
    assert_eq!(peer.verify(&old, &read), Err(Refused::AoBad));
}
