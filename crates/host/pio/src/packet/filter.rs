//! Classic BPF (the kernel's Documentation/networking/filter.rst): which packets are copied to a socket, and
//! to which of several. Programs are assembled here; the kernel checks them again.
//!
//! The filter may let too much through (a program has 4096 instructions, ports may be many);
//! [`super::claims`] looks again at what arrives.

use crate::extensions::{EXTENSION_WORDS_MAX, EXTENSIONS_MAX, FRAGMENT, WITH_LENGTH};
use crate::group::{Buckets, SHIFT};
use crate::peer_hash::{PeerHash, WORDS};
use libc::sock_filter;

/// One instruction, jumps counted from the next one.
fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

fn load_word(k: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, k)
}

fn load_half(k: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, k)
}

fn load_byte(k: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, k)
}

/// X = four times the low nibble of the byte at `k`: the length of an IPv4 header.
fn load_header_len(k: u32) -> sock_filter {
    instruction(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, k)
}

fn load_half_at_x(k: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, k)
}

fn load_byte_at_x(k: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_IND, 0, 0, k)
}

fn jump(kind: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    instruction(libc::BPF_JMP | kind | libc::BPF_K, jt, jf, k)
}

fn always(by: usize) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, by as u32)
}

fn arithmetic(kind: u32, k: u32) -> sock_filter {
    instruction(libc::BPF_ALU | kind | libc::BPF_K, 0, 0, k)
}

/// The accumulator to a place in memory.
fn store(place: u32) -> sock_filter {
    instruction(libc::BPF_ST, 0, 0, place)
}

/// And back.
fn recall(place: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_MEM, 0, 0, place)
}

fn recall_to_x(place: u32) -> sock_filter {
    instruction(libc::BPF_LDX | libc::BPF_MEM, 0, 0, place)
}

/// X = a constant.
fn load_x(value: u32) -> sock_filter {
    instruction(libc::BPF_LDX | libc::BPF_IMM, 0, 0, value)
}

/// The accumulator with X.
fn arithmetic_with_x(kind: u32) -> sock_filter {
    instruction(libc::BPF_ALU | kind | libc::BPF_X, 0, 0, 0)
}

/// The accumulator to X.
fn copy_to_x() -> sock_filter {
    instruction(libc::BPF_MISC | libc::BPF_TAX, 0, 0, 0)
}

fn load(value: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_IMM, 0, 0, value)
}

fn give(k: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, k)
}

/// Value that a filter returns to keep a packet whole.
pub(super) const KEEP: u32 = 0x4_0000;
/// Extensions of the packet's description, from `SKF_AD_OFF`.
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
const VLAN_PRESENT: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32;
/// Where the IP header is, whatever comes before it.
const NET: u32 = libc::SKF_NET_OFF as u32;

const TCP: u32 = 6;
const ICMP: u32 = 1;
const ICMPV6: u32 = 58;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;

/// More intervals of ports than this are merged over the smallest gaps.
const INTERVALS_MAX: usize = 448;
/// Instructions of the tree for one interval: a leaf of four, and two to choose a side.
const PER_INTERVAL: usize = 6;
/// Groups of shared ports that a filter looks into; of others it keeps all.
pub(super) const SHARED_MAX: usize = 16;
/// Instructions for one of them.
const PER_SHARED: usize = 78;
const _: () =
    assert!(INTERVALS_MAX * PER_INTERVAL + SHARED_MAX * PER_SHARED + 156 < libc::BPF_MAXINSNS as usize);

/// A group that shares a port, and the buckets of its flows that are wanted here. A port has one for each address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shared {
    pub(super) port: u16,
    pub(super) hash: PeerHash,
    pub(super) buckets: Buckets,
}

/// Inclusive intervals of port numbers, ascending and apart.
pub(super) type Intervals = Vec<(u16, u16)>;

/// The intervals that ascending `ports` make, at most [`INTERVALS_MAX`] of them; then they hold more than was
/// asked.
pub(super) fn intervals(ports: impl Iterator<Item = u16>) -> Intervals {
    let mut all: Intervals = Vec::new();
    for port in ports {
        match all.last_mut() {
            Some((_, high)) if u32::from(*high) + 1 >= u32::from(port) => *high = port.max(*high),
            _ => all.push((port, port)),
        }
    }
    if all.len() > INTERVALS_MAX {
        let mut gaps: Vec<u16> = all.windows(2).map(|pair| pair[1].0 - pair[0].1).collect();
        // Those gaps stay that are greater than all but the greatest few.
        let (_, &mut limit, _) = gaps.select_nth_unstable(all.len() - INTERVALS_MAX);
        let mut merged: Intervals = Vec::new();
        for (low, high) in all {
            match merged.last_mut() {
                Some(last) if low - last.1 <= limit => last.1 = high,
                _ => merged.push((low, high)),
            }
        }
        all = merged;
    }
    all
}

/// Decides on the port in the accumulator.
fn tree(intervals: &[(u16, u16)], into: &mut Vec<sock_filter>) {
    match *intervals {
        [] => into.push(give(0)),
        [(low, high)] => into.extend([
            jump(libc::BPF_JGE, low.into(), 0, 1),
            jump(libc::BPF_JGT, high.into(), 0, 1),
            give(0),
            give(KEEP),
        ]),
        _ => {
            let (left, right) = intervals.split_at(intervals.len() / 2);
            into.push(jump(libc::BPF_JGE, right[0].0.into(), 0, 1));
            let over = into.len();
            into.push(always(0));
            tree(left, into);
            into[over] = always(into.len() - over - 1);
            tree(right, into);
        }
    }
}

/// Keeps all that arrives but what is inside a VLAN, whose tag the kernel has taken off.
pub(super) fn everything() -> Vec<sock_filter> {
    vec![load_word(VLAN_PRESENT), jump(libc::BPF_JEQ, 0, 0, 1), give(KEEP), give(0)]
}

/// Places in memory: the words of the peer from 0 on, and our port.
const OURS: u32 = WORDS as u32;
/// Two for what is in the making.
const SCRATCH: [u32; 2] = [OURS + 1, OURS + 2];

/// Puts a peer's address, whose 16-bit words `loads` are, into memory.
fn keep_address(loads: impl IntoIterator<Item = sock_filter>) -> Vec<sock_filter> {
    (0..).zip(loads).flat_map(|(place, load)| [load, store(place)]).collect()
}

/// The words of an IPv6 address at `at`.
fn address6(at: u32) -> Vec<sock_filter> {
    keep_address((at..at + 16).step_by(2).map(load_half))
}

/// The words of an IPv6 address at `at` and X.
fn address6_at_x(at: u32) -> Vec<sock_filter> {
    keep_address((at..at + 16).step_by(2).map(load_half_at_x))
}

/// Walks the extension headers of an IPv6 packet that starts at `net`, as [`crate::extensions::upper`] does: the
/// protocol behind them to the accumulator, their length in bytes to X. Gives 0 for a packet that is the kernel's.
fn walk_extensions(net: u32) -> Vec<sock_filter> {
    let first = net + 40;
    let mut program = vec![load_x(0), load_byte(net + 6)];
    let words = [
        load_byte_at_x(first + 1),
        jump(libc::BPF_JGT, u32::from(EXTENSION_WORDS_MAX) - 1, 0, 1),
        give(0),
        arithmetic(libc::BPF_ADD, 1),
        arithmetic(libc::BPF_LSH, 3),
    ];
    let fragment = [
        load_half_at_x(first + 2),
        jump(libc::BPF_JSET, 0xfff8, 0, 1),
        give(0),
        load(8),
        always(words.len()),
    ];
    let next =
        [arithmetic_with_x(libc::BPF_ADD), store(SCRATCH[0]), load_byte_at_x(first), recall_to_x(SCRATCH[0])];
    // TCP, the kinds with a length, and the fragment: five tests, and then the three parts above.
    let tests = 2 + WITH_LENGTH.len();
    let round = tests + fragment.len() + words.len() + next.len();
    for left in (1..=EXTENSIONS_MAX).rev() {
        // From behind the test with this number to the end of all rounds, and to the words.
        let done = |test: usize| (left * round - test - 1) as u8;
        let options = |test: usize| (tests - test - 1 + fragment.len()) as u8;
        program.push(jump(libc::BPF_JEQ, TCP, done(0), 0));
        for (test, kind) in (1..).zip(WITH_LENGTH) {
            program.push(jump(libc::BPF_JEQ, kind.into(), options(test), 0));
        }
        program.push(jump(libc::BPF_JEQ, FRAGMENT.into(), 0, done(tests - 1)));
        program.extend([&fragment[..], &words, &next].concat());
    }
    program
}

/// The words of an IPv4 address, mapped, that `loads` are.
fn address4(loads: [sock_filter; 2]) -> Vec<sock_filter> {
    keep_address([load(0), load(0), load(0), load(0), load(0), load(0xffff)].into_iter().chain(loads))
}

/// The hash of the peer in memory to the accumulator: what [`PeerHash::of`] says.
fn hash_peer(hash: &PeerHash) -> Vec<sock_filter> {
    let mut program = vec![load(hash.offset), copy_to_x()];
    for (place, factor) in (0..).zip(hash.factors) {
        let add = arithmetic_with_x(libc::BPF_ADD);
        program.extend([recall(place), arithmetic(libc::BPF_MUL, factor), add, copy_to_x()]);
    }
    program.extend([
        arithmetic(libc::BPF_RSH, 16),
        arithmetic_with_x(libc::BPF_XOR),
        arithmetic(libc::BPF_MUL, hash.last),
    ]);
    program
}

/// Decides on a segment to a shared port; the peer and our port are in memory. Segments to other ports go on behind,
/// and where the group is not the `last` one of its port, those that it does not want.
fn bucket_of_shared(shared: &Shared, last: bool, into: &mut Vec<sock_filter>) {
    const WORDS: usize = size_of::<Buckets>() / 4;
    let start = into.len();
    into.extend([recall(OURS), jump(libc::BPF_JEQ, shared.port.into(), 0, PER_SHARED as u8 - 2)]);
    into.extend(hash_peer(&shared.hash));
    into.extend([
        arithmetic(libc::BPF_RSH, SHIFT),
        store(SCRATCH[0]),
        arithmetic(libc::BPF_AND, 31),
        store(SCRATCH[1]),
        recall(SCRATCH[0]),
        arithmetic(libc::BPF_RSH, 5),
    ]);
    for (at, word) in shared.buckets.iter().enumerate() {
        into.extend([jump(libc::BPF_JEQ, at as u32, 0, 2), load(*word), always(3 * (WORDS - 1 - at))]);
    }
    into.extend([
        recall_to_x(SCRATCH[1]),
        arithmetic_with_x(libc::BPF_RSH),
        jump(libc::BPF_JSET, 1, 0, 1),
        give(KEEP),
        if last { give(0) } else { always(0) },
    ]);
    debug_assert_eq!(into.len() - start, PER_SHARED);
}

/// Keeps TCP segments to a port in `intervals`, and ICMP errors, which may be about connections of ours;
/// nothing that was sent to other hosts or by this one, nothing from inside a VLAN, no fragments; of `shared` ports
/// only certain buckets.
pub(super) fn ports(intervals: &[(u16, u16)], shared: &[Shared]) -> Vec<sock_filter> {
    if intervals.is_empty() {
        return vec![give(0)];
    }
    let mut program = vec![
        load_word(PACKET_TYPE),
        jump(libc::BPF_JEQ, u32::from(libc::PACKET_HOST), 1, 0),
        give(0),
        load_word(VLAN_PRESENT),
        jump(libc::BPF_JEQ, 0, 1, 0),
        give(0),
        load_half(12),
        jump(libc::BPF_JEQ, IPV4, 2, 0),
        jump(libc::BPF_JEQ, IPV6, 2, 0),
        give(0),
    ];
    // Each family ends with the port in the accumulator and jumps to the tree.
    let mut v6 = walk_extensions(14);
    v6.extend([
        jump(libc::BPF_JEQ, ICMPV6, 0, 5),
        // Destination unreachable, packet too big, time exceeded, parameter problem (RFC 4443).
        load_byte_at_x(54),
        jump(libc::BPF_JGT, 4, 1, 0),
        jump(libc::BPF_JGE, 1, 1, 0),
        give(0),
        give(KEEP),
        jump(libc::BPF_JEQ, TCP, 1, 0),
        give(0),
    ]);
    let mut v4 = vec![
        load_header_len(14),
        load_byte(23),
        jump(libc::BPF_JEQ, ICMP, 0, 6),
        // Destination unreachable, time exceeded, parameter problem (RFC 792).
        load_byte_at_x(14),
        jump(libc::BPF_JEQ, 3, 3, 0),
        jump(libc::BPF_JEQ, 11, 2, 0),
        jump(libc::BPF_JEQ, 12, 1, 0),
        give(0),
        give(KEEP),
        jump(libc::BPF_JEQ, TCP, 1, 0),
        give(0),
        load_half(20),
        jump(libc::BPF_JSET, 0x1fff, 0, 1),
        give(0),
    ];
    if !shared.is_empty() {
        v6.extend(address6(22));
        v6.extend([load_half_at_x(54), store(WORDS as u32 - 1)]);
        v4.extend(address4([load_half(26), load_half(28)]));
        v4.extend([load_half_at_x(14), store(WORDS as u32 - 1)]);
    }
    v6.push(load_half_at_x(56));
    v4.push(load_half_at_x(16));
    program.push(always(v6.len() + 1));
    program.extend(v6);
    program.push(always(v4.len()));
    program.extend(v4);
    if !shared.is_empty() {
        program.push(store(OURS));
        for (at, group) in shared.iter().enumerate() {
            let last = shared.get(at + 1).is_none_or(|next| next.port != group.port);
            bucket_of_shared(group, last, &mut program);
        }
        program.push(recall(OURS));
    }
    tree(intervals, &mut program);
    program
}

/// Assignment of packets to several queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spread {
    /// Queues.
    pub(super) queues: u16,
    /// Ports that connections leave from lie in this interval, and queue 0 has those at distances from its
    /// start that `queues` divides.
    pub(super) ephemeral: Option<(u16, u16)>,
    /// Tells the queues of what comes to other ports.
    pub(super) hash: PeerHash,
}

impl Spread {
    /// The queue of a segment by its destination port and its source. The program does the same.
    #[cfg(test)]
    pub(super) fn queue(&self, to: u16, from: base::Endpoint) -> u32 {
        let queues = u32::from(self.queues);
        match self.ephemeral {
            Some((low, high)) if (low..=high).contains(&to) => u32::from(to - low) % queues,
            _ => (self.hash.of(from) >> SHRINK) % queues,
        }
    }
}

/// The good bits of a hash are those above.
const SHRINK: u32 = 16;

/// Which queue a packet goes to: the one whose core made the connection, or for listeners any, but always the
/// same for a connection, and for ICMP errors about it. The kernel runs this with the packet starting at its
/// IP header, so everything is counted from there.
pub(super) fn spread(spread: &Spread) -> Vec<sock_filter> {
    let queues = u32::from(spread.queues);
    let give_accumulator = instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0);
    // The packet that an error quotes was ours, and ours have neither IP options nor extension headers.
    let v6 = one_or_the_other(
        &walk_extensions(NET),
        jump(libc::BPF_JEQ, ICMPV6, 0, 0),
        &peer_and_port(address6_at_x(NET + 72), load_half_at_x(NET + 90), load_half_at_x(NET + 88)),
        &peer_and_port(address6(NET + 8), load_half_at_x(NET + 40), load_half_at_x(NET + 42)),
    );
    let v4 = one_or_the_other(
        &[load_header_len(NET), load_byte(NET + 9)],
        jump(libc::BPF_JEQ, ICMP, 0, 0),
        &peer_and_port(
            address4([load_half_at_x(NET + 24), load_half_at_x(NET + 26)]),
            load_half_at_x(NET + 30),
            load_half_at_x(NET + 28),
        ),
        &peer_and_port(
            address4([load_half(NET + 12), load_half(NET + 14)]),
            load_half_at_x(NET),
            load_half_at_x(NET + 2),
        ),
    );
    let mut program = one_or_the_other(&[load_byte(NET)], jump(libc::BPF_JGE, 0x60, 0, 0), &v6, &v4);
    if let Some((low, high)) = spread.ephemeral {
        program.extend([
            jump(libc::BPF_JGE, low.into(), 0, 4),
            jump(libc::BPF_JGT, high.into(), 3, 0),
            arithmetic(libc::BPF_SUB, low.into()),
            arithmetic(libc::BPF_MOD, queues),
            give_accumulator,
        ]);
    }
    program.extend(hash_peer(&spread.hash));
    program.extend([arithmetic(libc::BPF_RSH, SHRINK), arithmetic(libc::BPF_MOD, queues), give_accumulator]);
    program
}

/// Puts the peer's address (`address` does) and port into memory, and our port into the accumulator. Loads find the
/// IPv4 header's length in X, or that of IPv6 extension headers.
fn peer_and_port(
    address: Vec<sock_filter>,
    peer_port: sock_filter,
    our_port: sock_filter,
) -> Vec<sock_filter> {
    let ports = [peer_port, store(WORDS as u32 - 1), our_port];
    [&*address, &ports].concat()
}

/// `before`, `test` (a jump whose distances are filled in), then `yes` or `no`; both go on behind.
fn one_or_the_other(
    before: &[sock_filter],
    test: sock_filter,
    yes: &[sock_filter],
    no: &[sock_filter],
) -> Vec<sock_filter> {
    // Distances of tests have eight bits, those of `always` 32.
    [before, &[sock_filter { jt: 1, ..test }, always(yes.len() + 1)], yes, &[always(no.len())], no].concat()
}

#[cfg(test)]
pub(super) mod tests {
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
            for port in
                wanted.iter().flat_map(|&p| [p.wrapping_sub(1), p, p.wrapping_add(1)]).chain([0, 65535])
            {
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
}
