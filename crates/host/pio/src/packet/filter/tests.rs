//! Goal: the programs do what is said of them, on a machine of our own that runs them as the kernel does;
//! that the kernel takes them is shown by the tests of the port.
use super::*;
use base::{Addr, Endpoint, Rng};

/// Runs a program on a frame whose IP header is at `net`; 0 where it reads outside, as the kernel does.
pub(in crate::packet) fn run(program: &[sock_filter], frame: &[u8], start: usize, net: usize) -> u32 {
    let (mut a, mut x, mut memory, mut pc) = (0u32, 0u32, [0u32; 16], 0);
    let read = |k: u32, len: usize| -> Option<u32> {
        let at = match k as i32 {
            k if k >= 0 => start + k as usize,
            k if k >= libc::SKF_NET_OFF => net + (k - libc::SKF_NET_OFF) as usize,
            _ => return None,
        };
        Some(frame.get(at..at + len)?.iter().fold(0, |all, &b| all << 8 | u32::from(b)))
    };
    loop {
        let sock_filter { code, jt, jf, k } = program[pc];
        let code = u32::from(code);
        pc += 1;
        let taken = |yes: bool| usize::from(if yes { jt } else { jf });
        match (code & 7, code & 0xf8) {
            (libc::BPF_LD, op) if op & 0xe0 == libc::BPF_MEM => a = memory[k as usize],
            (libc::BPF_LD, op) if op & 0xe0 == libc::BPF_IMM => a = k,
            (libc::BPF_LD, _) if k == PACKET_TYPE || k == VLAN_PRESENT => a = 0,
            (libc::BPF_LD, op) => {
                let len = [4, 2, 1][(op >> 3 & 3) as usize];
                let at = if op & 0xe0 == libc::BPF_IND { k.wrapping_add(x) } else { k };
                let Some(value) = read(at, len) else { return 0 };
                a = value;
            }
            (libc::BPF_LDX, op) if op & 0xe0 == libc::BPF_MEM => x = memory[k as usize],
            (libc::BPF_LDX, op) if op & 0xe0 == libc::BPF_IMM => x = k,
            (libc::BPF_LDX, _) => {
                let Some(value) = read(k, 1) else { return 0 };
                x = 4 * (value & 15);
            }
            (libc::BPF_ST, _) => memory[k as usize] = a,
            (libc::BPF_ALU, libc::BPF_AND) => a &= k,
            (libc::BPF_ALU, libc::BPF_RSH) => a >>= k,
            (libc::BPF_ALU, op) if op == libc::BPF_RSH | libc::BPF_X => a >>= x,
            (libc::BPF_ALU, libc::BPF_LSH) => a <<= k,
            (libc::BPF_ALU, libc::BPF_ADD) => a = a.wrapping_add(k),
            (libc::BPF_ALU, libc::BPF_SUB) => a = a.wrapping_sub(k),
            (libc::BPF_ALU, libc::BPF_MUL) => a = a.wrapping_mul(k),
            (libc::BPF_ALU, op) if op == libc::BPF_ADD | libc::BPF_X => a = a.wrapping_add(x),
            (libc::BPF_MISC, libc::BPF_TAX) => x = a,
            (libc::BPF_ALU, libc::BPF_MOD) => a %= k,
            (libc::BPF_ALU, op) if op == libc::BPF_XOR | libc::BPF_X => a ^= x,
            (libc::BPF_JMP, libc::BPF_JA) => pc += k as usize,
            (libc::BPF_JMP, libc::BPF_JEQ) => pc += taken(a == k),
            (libc::BPF_JMP, libc::BPF_JGE) => pc += taken(a >= k),
            (libc::BPF_JMP, libc::BPF_JGT) => pc += taken(a > k),
            (libc::BPF_JMP, libc::BPF_JSET) => pc += taken(a & k != 0),
            (libc::BPF_RET, libc::BPF_A) => return a,
            (libc::BPF_RET, _) => return k,
            other => panic!("no such instruction: {other:?}"),
        }
    }
}

/// A peer of which all words differ.
fn peer(v6: bool, source: u32, from: u16) -> Endpoint {
    let words = [source.rotate_left(9), !source, source.wrapping_mul(77), source];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let v6_address = || Addr::v6(bytes.try_into().expect("four words"));
    Endpoint::new(if v6 { v6_address() } else { Addr::v4(source.to_be_bytes()) }, from)
}

/// An Ethernet frame with a segment from `from` to `to`.
fn segment(v6: bool, source: u32, from: u16, to: u16) -> Vec<u8> {
    let mut frame = vec![0; 14];
    frame[12..].copy_from_slice(&(if v6 { IPV6 } else { IPV4 } as u16).to_be_bytes());
    if v6 {
        frame.extend([0x60, 0, 0, 0, 0, 20, 6, 64]);
        frame.extend(peer(v6, source, from).addr.bytes());
        frame.extend([0xfd; 16]);
    } else {
        // With options, so that the header's length matters.
        frame.extend([0x46, 0, 0, 44, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(source.to_be_bytes());
        frame.extend([10, 0, 0, 1, 1, 1, 1, 1]);
    }
    frame.extend(from.to_be_bytes());
    frame.extend(to.to_be_bytes());
    frame.extend([0; 16]);
    frame
}

/// Puts extension headers of these kinds, each of some length, before what an IPv6 frame has.
fn extended(mut frame: Vec<u8>, kinds: &[u8], rng: &mut Rng) -> Vec<u8> {
    for &kind in kinds {
        let words = if kind == FRAGMENT { 0 } else { rng.below(u64::from(EXTENSION_WORDS_MAX)) as u8 };
        let mut header = vec![0; 8 * (usize::from(words) + 1)];
        header[..2].copy_from_slice(&[std::mem::replace(&mut frame[20], kind), words]);
        frame.splice(54..54, header);
    }
    frame
}

/// An ICMP error about a segment of ours from port `ours` to port `theirs` of `peer`.
fn error(v6: bool, kind: u8, to: u32, ours: u16, theirs: u16) -> Vec<u8> {
    let mut frame = segment(v6, 0x0102_0304, 0, 0);
    let at = 14 + if v6 { 40 } else { 24 };
    frame.truncate(at);
    frame[if v6 { 20 } else { 23 }] = if v6 { 58 } else { 1 };
    frame.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    let mut quote = vec![0; if v6 { 40 } else { 20 }];
    let end = quote.len();
    let to = peer(v6, to, theirs).addr.bytes();
    let len = if v6 { 16 } else { 4 };
    quote[end - len..].copy_from_slice(&to[16 - len..]);
    quote.extend(ours.to_be_bytes());
    quote.extend(theirs.to_be_bytes());
    frame.extend(quote);
    frame
}

#[test]
fn exactly_the_ports_asked_for() {
    let mut rng = Rng::new(3);
    for round in 0..60 {
        let wanted: std::collections::BTreeSet<u16> =
            (0..rng.below(300)).map(|_| rng.next_u32() as u16 >> (round % 8)).collect();
        let intervals = intervals(wanted.iter().copied());
        let program = ports(&intervals, &[]);
        let v6 = round % 2 == 1;
        for port in wanted.iter().flat_map(|&p| [p.wrapping_sub(1), p, p.wrapping_add(1)]).chain([0, 65535]) {
            let kept = run(&program, &segment(v6, 1, 1000, port), 0, 14);
            assert_eq!(kept, if wanted.contains(&port) { KEEP } else { 0 }, "round {round} port {port}");
        }
    }
}

#[test]
fn of_shared_ports_the_buckets_asked_for() {
    let mut rng = Rng::new(4);
    for round in 0..200 {
        let mut shared = Vec::new();
        for port in [80, 443, 444, 9000] {
            // Port 444 has two groups, as of two addresses.
            for _ in 0..1 + usize::from(port == 444) {
                let hash = PeerHash::new([rng.next_u64(), rng.next_u64()]);
                shared.push(Shared { port, hash, buckets: std::array::from_fn(|_| rng.next_u32()) });
            }
        }
        let program = ports(&[(80, 81), (443, 443), (444, 444), (9000, 9999)], &shared);
        let v6 = round % 2 == 1;
        for _ in 0..50 {
            let (source, from) = (rng.next_u32(), rng.next_u32() as u16);
            let kept = |port| run(&program, &segment(v6, source, from, port), 0, 14) == KEEP;
            let wants = |shared: &Shared| {
                let bucket = (shared.hash.of(peer(v6, source, from)) >> SHIFT) as usize;
                shared.buckets[bucket / 32] >> (bucket % 32) & 1 == 1
            };
            for port in [80, 443, 444, 9000] {
                let wanted = shared.iter().any(|shared| shared.port == port && wants(shared));
                assert_eq!(kept(port), wanted, "round {round} port {port}");
            }
            assert!(kept(81) && kept(9001) && !kept(442));
        }
    }
}

#[test]
fn of_shared_ports_behind_extension_headers_too() {
    let mut rng = Rng::new(8);
    for _ in 0..500 {
        let hash = PeerHash::new([rng.next_u64(), rng.next_u64()]);
        let shared = Shared { port: 80, hash, buckets: std::array::from_fn(|_| rng.next_u32()) };
        let program = ports(&[(80, 80)], std::slice::from_ref(&shared));
        let plain = segment(true, rng.next_u32(), rng.next_u32() as u16, 80);
        let behind = extended(plain.clone(), &[60, 43], &mut rng);
        assert_eq!(run(&program, &behind, 0, 14), run(&program, &plain, 0, 14));
    }
}

#[test]
fn nothing_else_passes() {
    let program = ports(&[(80, 80)], &[]);
    let keeps = |frame: &[u8]| run(&program, frame, 0, 14) == KEEP;
    for v6 in [false, true] {
        let good = segment(v6, 1, 2, 80);
        assert!(keeps(&good) && !keeps(&good[..good.len() - 17]));
        let mut udp = good.clone();
        udp[if v6 { 20 } else { 23 }] = 17;
        assert!(!keeps(&udp));
        for kind in 0..=255 {
            let passes = if v6 { (1..=4).contains(&kind) } else { [3, 11, 12].contains(&kind) };
            assert_eq!(keeps(&error(v6, kind, 1, 80, 9)), passes, "ICMP {kind}");
        }
    }
    let mut fragment = segment(false, 1, 2, 80);
    fragment[21] = 1;
    assert!(!keeps(&fragment));
    let mut arp = segment(false, 1, 2, 80);
    arp[13] = 6;
    assert!(!keeps(&arp));
    assert_eq!(run(&ports(&[], &[]), &segment(false, 1, 2, 80), 0, 14), 0);
}

#[test]
fn too_many_ports_become_fewer_intervals_that_hold_them_all() {
    let mut rng = Rng::new(5);
    for _ in 0..20 {
        let wanted: std::collections::BTreeSet<u16> =
            (0..5000).map(|_| rng.next_u32() as u16).filter(|p| p % 3 != 1).collect();
        let intervals = intervals(wanted.iter().copied());
        assert!(intervals.len() <= INTERVALS_MAX);
        assert!(intervals.windows(2).all(|pair| pair[0].1 < pair[1].0));
        assert!(wanted.iter().all(|p| intervals.iter().any(|i| (i.0..=i.1).contains(p))));
        let hash = PeerHash::new([1, 2]);
        let shared = vec![Shared { port: 1, hash, buckets: [7; _] }; SHARED_MAX];
        assert!(ports(&intervals, &shared).len() <= libc::BPF_MAXINSNS as usize);
    }
    assert_eq!(intervals([1, 2, 3, 7, 65535].into_iter()), [(1, 3), (7, 7), (65535, 65535)]);
}

#[test]
fn a_connection_and_its_errors_stay_on_one_queue() {
    let mut rng = Rng::new(9);
    for queues in 1..6 {
        let hash = PeerHash::new([queues.into(), 3]);
        let rule = Spread { queues, ephemeral: Some((32768, 60999)), hash };
        let program = spread(&rule);
        let mut load = vec![0; queues.into()];
        for _ in 0..2000 {
            let (source, from, to) = (rng.next_u32(), rng.next_u32() as u16, rng.next_u32() as u16);
            let v6 = rng.chance(0.5);
            let queue = run(&program, &segment(v6, source, from, to), 14, 14);
            assert_eq!(queue, rule.queue(to, peer(v6, source, from)));
            assert_eq!(run(&program, &error(v6, 3, source, to, from), 14, 14), queue);
            if v6 {
                let kinds = [60, 44, 0].map(|kind| if rng.chance(0.5) { kind } else { 43 });
                let kinds = &kinds[..rng.below(4) as usize];
                let behind = extended(segment(v6, source, from, to), kinds, &mut rng);
                assert_eq!(run(&program, &behind, 14, 14), queue, "behind {kinds:?}");
                let behind = extended(error(v6, 3, source, to, from), kinds, &mut rng);
                assert_eq!(run(&program, &behind, 14, 14), queue, "error behind {kinds:?}");
            }
            load[queue as usize] += 1;
        }
        assert!(load.iter().all(|&n| n > 1000 / i32::from(queues)), "{load:?}");
    }
}
