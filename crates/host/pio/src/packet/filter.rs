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
pub(super) mod tests;
