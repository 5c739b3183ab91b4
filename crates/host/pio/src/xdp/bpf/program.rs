//! The XDP program: which packets leave the kernel's path for our sockets.
//!
//! ```text
//!   unicast Ethernet, untagged, IPv4 or IPv6
//!     TCP                             local end = destination
//!     ICMP error that quotes TCP      local end = source of the quoted packet
//!   ports[local port] = 0 ........................................... kernel
//!   EXACT    and (local address, local port) in `local` ............. us, if no lease has run out
//!   local address not in `local` (forwarded traffic, other nets) .... kernel
//!   ANY4/6   for this family ........................................ us, likewise
//!   SHARED4/6 for this family, and no socket of the kernel's wants it us
//!   everything else ................................................. kernel
//! ```
//! A listening port is ours alone: the kernel reserved it for us (`claims`). A port that connections leave
//! from is shared with the kernel flow by flow, which is why it needs no reservation: whatever the kernel has
//! a socket for is the kernel's.
//!
//! IPv6 extension headers before TCP are walked, so that the kernel never sees a segment of ours behind them.
//!
//! Of a fragmented packet the first fragment follows its ports to the stack, which drops it, so that the kernel never
//! completes a segment of a flow it does not know and answers it with a reset.

use super::asm::{Asm, Label};
use super::insn::{Alu, Cond, Helper, Insn, Reg, Size};
use crate::extensions::{EXTENSION_WORDS_MAX, EXTENSIONS_MAX, FRAGMENT, WITH_LENGTH};
use crate::ports::{ANY4, ANY6, EXACT};
use Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// `ports`: IPv4 connections of ours leave from here; flows that the kernel has no socket for are ours.
pub(crate) const SHARED4: u64 = ANY4 << SHARED_SHIFT;
/// `ports`: the same for IPv6.
pub(crate) const SHARED6: u64 = ANY6 << SHARED_SHIFT;
const SHARED_SHIFT: i32 = 3;
/// `ports`: these bits are marks. Those above are the end of a lease, 0 for none, in units of 2^[`LEASE_UNIT`] ns of
/// CLOCK_MONOTONIC: what listens there is ours until then. Its owner, which other processes share the port with, may
/// be stopped.
pub(crate) const MARKS: u64 = (1 << LEASE_SHIFT) - 1;
pub(crate) const LEASE_SHIFT: u32 = 8;
pub(crate) const LEASE_UNIT: u32 = 20;

/// Descriptors of the maps that the program reads.
#[derive(Clone, Copy)]
pub(crate) struct Maps {
    /// Array of `u64` marks, indexed by the port in network order (so that neither side swaps on the fast
    /// path; the upper half is free for an owner, should several programs share an interface one day).
    pub(crate) ports: i32,
    /// Hash of [`super::LocalKey`]: port 0 for an address of the interface, else an exact claim.
    pub(crate) local: i32,
    /// The sockets, indexed by receive queue.
    pub(crate) socks: i32,
}

/// Lose the packet.
const XDP_DROP: i32 = 1;
/// Leave the packet to the kernel.
const XDP_PASS: i32 = 2;

// Offsets in `struct xdp_md` and `struct bpf_sock`.
const CTX_DATA: i16 = 0;
const CTX_DATA_END: i16 = 4;
const CTX_RX_QUEUE: i16 = 16;
const SOCK_STATE: i16 = 72;

const TCP_LISTEN: i32 = 10;
const TCP_SYN: i32 = 0x02;
const TCP_ACK: i32 = 0x10;
const PROTOCOL_ICMP: i32 = 1;
const PROTOCOL_TCP: i32 = 6;
const PROTOCOL_ICMPV6: i32 = 58;

// The stack frame. REMOTE to the end is the tuple of an IPv6 socket look-up, LOCAL to the end (with 0 for the
// remote port) the key of `local`, and an IPv4 look-up takes the last 12 bytes:
//
//      -36            -20            -4      -2       0
//       | REMOTE 16    | LOCAL 16     | rport | lport |      IPv6
//       | raddr 4 | -  | 0 0 ffff ladr| rport | lport |      IPv4, mapped
//                             raddr ladr rport  lport        IPv4 tuple, made in place
const REMOTE: i16 = -36;
const LOCAL: i16 = -20;
const V4_TUPLE: i16 = -12;
const V4_LOCAL: i16 = -8;
const TUPLE_REMOTE_PORT: i16 = -4;
const TUPLE_LOCAL_PORT: i16 = -2;
const TCP_FLAGS: i16 = -40;
const REMOTE_PORT: i16 = -44;
const LOCAL_PORT: i16 = -48;

const V4_TUPLE_LEN: i32 = 12;
const V6_TUPLE_LEN: i32 = 36;

/// Which end of a packet is ours.
#[derive(Clone, Copy)]
enum Side {
    /// A packet to us: the destination.
    Received,
    /// A packet of ours that an ICMP error quotes: the source.
    Quoted,
}

fn be16(value: u16) -> i32 {
    i32::from(value.to_be())
}

/// Builds the program. R6 context, R7 cursor in the packet (later: SYN and ACK bits), R8 end of the packet
/// (later: the port's marks), R9 family ([`ANY4`] or [`ANY6`]). The interface has `queues` receive queues now.
pub(crate) fn steering(maps: Maps, queues: u16) -> Vec<Insn> {
    let mut asm = Asm::default();
    let (kernel, ours) = (asm.label(), asm.label());
    let (received_ports, quoted_ports, find) = (asm.label(), asm.label(), asm.label());
    let listening = asm.label();

    ethernet(&mut asm, kernel, received_ports, quoted_ports);
    asm.bind(received_ports);
    ports(&mut asm, Side::Received, kernel);
    asm.jump(find);
    asm.bind(quoted_ports);
    ports(&mut asm, Side::Quoted, kernel);
    asm.bind(find);
    claimed(&mut asm, maps, kernel, listening);
    unknown_to_kernel(&mut asm, kernel, ours);
    asm.jump(ours);

    asm.bind(listening);
    leased(&mut asm, kernel, ours);
    asm.bind(ours);
    redirect(&mut asm, maps, queues);
    asm.bind(kernel);
    asm.mov(R0, XDP_PASS);
    asm.exit();
    asm.finish()
}

/// The program of an interface that is an end of a wire: every frame is ours. It has `queues` receive queues now.
pub(crate) fn everything(maps: Maps, queues: u16) -> Vec<Insn> {
    let mut asm = Asm::default();
    asm.mov(R6, R1);
    redirect(&mut asm, maps, queues);
    asm.finish()
}

/// To the socket of the queue that the packet, whose context is in R6, arrived at. Without a socket the kernel gets it
/// (the core of that queue ended), except at one of the `queues` and further that came later (`ethtool -L`): a segment
/// of a connection would be answered by the kernel with a reset, and is lost instead until the queue has its socket.
fn redirect(asm: &mut Asm, maps: Maps, queues: u16) {
    let known = asm.label();
    asm.load_map(R1, maps.socks);
    asm.load(Size::W, R2, R6, CTX_RX_QUEUE);
    asm.mov(R3, XDP_DROP);
    asm.jump_if(Cond::Gt, R2, i32::from(queues.max(1)) - 1, known);
    asm.mov(R3, XDP_PASS);
    asm.bind(known);
    asm.call(Helper::RedirectMap);
    asm.exit();
}

/// Leave for `label` unless the packet goes on for `len` bytes from the cursor.
fn need(asm: &mut Asm, len: i32, label: Label) {
    asm.mov(R2, R7);
    asm.alu(Alu::Add, R2, len);
    asm.jump_if(Cond::Gt, R2, R8, label);
}

/// From the first byte to the TCP header, of the packet or of the one it quotes.
fn ethernet(asm: &mut Asm, kernel: Label, received_ports: Label, quoted_ports: Label) {
    let (v6, icmp4) = (asm.label(), asm.label());
    asm.mov(R6, R1);
    asm.load(Size::W, R7, R6, CTX_DATA);
    asm.load(Size::W, R8, R6, CTX_DATA_END);
    need(asm, 14, kernel);
    asm.load(Size::B, R3, R7, 0);
    asm.jump_if(Cond::Set, R3, 1, kernel);
    asm.load(Size::H, R3, R7, 12);
    asm.alu(Alu::Add, R7, 14);
    asm.jump_if(Cond::Eq, R3, be16(0x86dd), v6);
    asm.jump_if(Cond::Ne, R3, be16(0x0800), kernel);

    ipv4(asm, Side::Received, kernel);
    asm.jump_if(Cond::Eq, R5, PROTOCOL_TCP, received_ports);
    asm.jump_if(Cond::Ne, R5, PROTOCOL_ICMP, kernel);
    need(asm, 8, kernel);
    asm.load(Size::B, R3, R7, 0);
    asm.alu(Alu::Add, R7, 8);
    // Destination unreachable (with "fragmentation needed"), time exceeded, parameter problem (RFC 792).
    asm.jump_if(Cond::Eq, R3, 3, icmp4);
    asm.jump_if(Cond::Eq, R3, 11, icmp4);
    asm.jump_if(Cond::Ne, R3, 12, kernel);
    asm.bind(icmp4);
    ipv4(asm, Side::Quoted, kernel);
    asm.jump_if(Cond::Ne, R5, PROTOCOL_TCP, kernel);
    asm.jump(quoted_ports);

    asm.bind(v6);
    ipv6(asm, Side::Received, kernel);
    asm.jump_if(Cond::Eq, R5, PROTOCOL_TCP, received_ports);
    asm.jump_if(Cond::Ne, R5, PROTOCOL_ICMPV6, kernel);
    need(asm, 8, kernel);
    asm.load(Size::B, R3, R7, 0);
    asm.alu(Alu::Add, R7, 8);
    // Errors are types 1 (unreachable), 2 (too big), 3 (time exceeded), 4 (parameter problem) (RFC 4443).
    asm.jump_if(Cond::Eq, R3, 0, kernel);
    asm.jump_if(Cond::Gt, R3, 4, kernel);
    ipv6(asm, Side::Quoted, kernel);
    asm.jump_if(Cond::Ne, R5, PROTOCOL_TCP, kernel);
    asm.jump(quoted_ports);
}

/// An IPv4 header with any options, not a later fragment: addresses to the frame, protocol to R5.
fn ipv4(asm: &mut Asm, side: Side, kernel: Label) {
    let (local, remote) = match side {
        Side::Received => (16, 12),
        Side::Quoted => (12, 16),
    };
    need(asm, 20, kernel);
    asm.load(Size::B, R3, R7, 0);
    asm.mov(R4, R3);
    asm.alu(Alu::And, R4, 0xf0);
    asm.jump_if(Cond::Ne, R4, 0x40, kernel);
    asm.alu(Alu::And, R3, 0x0f);
    asm.load(Size::H, R4, R7, 6);
    asm.jump_if(Cond::Set, R4, be16(0x1fff), kernel);
    asm.load(Size::W, R4, R7, local);
    asm.store(Size::W, R10, V4_LOCAL, R4);
    asm.store(Size::W, R10, LOCAL, 0);
    asm.store(Size::W, R10, LOCAL + 4, 0);
    asm.store(Size::W, R10, LOCAL + 8, 0x0000_ffff_u32.to_be() as i32);
    asm.load(Size::W, R4, R7, remote);
    asm.store(Size::W, R10, REMOTE, R4);
    asm.load(Size::B, R5, R7, 9);
    // A constant for each length: adding what the packet says would take CAP_PERFMON.
    let past = asm.label();
    for words in 5..=15 {
        let next = asm.label();
        asm.jump_if(Cond::Ne, R3, words, next);
        asm.alu(Alu::Add, R7, 4 * words);
        asm.jump(past);
        asm.bind(next);
    }
    asm.jump(kernel);
    asm.bind(past);
    asm.mov(R9, ANY4 as i32);
}

/// An IPv6 header: addresses to the frame, next header to R5. Extension headers of a packet to us are walked; those
/// of one that an error quotes are left to the kernel.
fn ipv6(asm: &mut Asm, side: Side, kernel: Label) {
    let (local, remote) = match side {
        Side::Received => (24, 8),
        Side::Quoted => (8, 24),
    };
    need(asm, 40, kernel);
    asm.load(Size::B, R3, R7, 0);
    asm.alu(Alu::And, R3, 0xf0);
    asm.jump_if(Cond::Ne, R3, 0x60, kernel);
    for word in [0, 4, 8, 12] {
        asm.load(Size::W, R4, R7, local + word);
        asm.store(Size::W, R10, LOCAL + word, R4);
        asm.load(Size::W, R4, R7, remote + word);
        asm.store(Size::W, R10, REMOTE + word, R4);
    }
    asm.load(Size::B, R5, R7, 6);
    asm.alu(Alu::Add, R7, 40);
    asm.mov(R9, ANY6 as i32);
    if let Side::Received = side {
        extensions(asm, kernel);
    }
}

/// Walks IPv6 extension headers (RFC 8200, section 4): the cursor to what follows them, its kind to R5. The kernel,
/// which knows nothing of our flows, would answer a segment behind them with a reset. More headers than
/// [`EXTENSIONS_MAX`] and longer ones than [`EXTENSION_WORDS_MAX`] are left to it nevertheless: each length is a path
/// of its own for the verifier.
fn extensions(asm: &mut Asm, kernel: Label) {
    let done = asm.label();
    for _ in 0..EXTENSIONS_MAX {
        let (options, past) = (asm.label(), asm.label());
        asm.jump_if(Cond::Eq, R5, PROTOCOL_TCP, done);
        for kind in WITH_LENGTH {
            asm.jump_if(Cond::Eq, R5, i32::from(kind), options);
        }
        asm.jump_if(Cond::Ne, R5, i32::from(FRAGMENT), done);
        // The ports of a later fragment are unknown.
        need(asm, 8, kernel);
        asm.load(Size::H, R4, R7, 2);
        asm.jump_if(Cond::Set, R4, be16(0xfff8), kernel);
        asm.load(Size::B, R5, R7, 0);
        asm.alu(Alu::Add, R7, 8);
        asm.jump(past);

        asm.bind(options);
        need(asm, 8, kernel);
        asm.load(Size::B, R5, R7, 0);
        asm.load(Size::B, R3, R7, 1);
        for words in 1..=i32::from(EXTENSION_WORDS_MAX) {
            let next = asm.label();
            asm.jump_if(Cond::Ne, R3, words - 1, next);
            asm.alu(Alu::Add, R7, 8 * words);
            asm.jump(past);
            asm.bind(next);
        }
        asm.jump(kernel);
        asm.bind(past);
    }
    asm.bind(done);
}

/// Ports and flags to the frame. An error may quote no more than eight bytes of TCP (RFC 792), so no flags.
fn ports(asm: &mut Asm, side: Side, kernel: Label) {
    let (local, remote) = match side {
        Side::Received => (2, 0),
        Side::Quoted => (0, 2),
    };
    match side {
        Side::Received => {
            need(asm, 20, kernel);
            asm.load(Size::B, R3, R7, 13);
            asm.store(Size::W, R10, TCP_FLAGS, R3);
        }
        Side::Quoted => {
            need(asm, 8, kernel);
            asm.store(Size::W, R10, TCP_FLAGS, 0);
        }
    }
    asm.load(Size::H, R3, R7, local);
    asm.store(Size::W, R10, LOCAL_PORT, R3);
    asm.store(Size::H, R10, TUPLE_LOCAL_PORT, R3);
    asm.load(Size::H, R3, R7, remote);
    asm.store(Size::W, R10, REMOTE_PORT, R3);
}

/// Goes to `listening` or `kernel` if the claims decide; falls through if the port is shared with the kernel.
fn claimed(asm: &mut Asm, maps: Maps, kernel: Label, listening: Label) {
    let not_exact = asm.label();
    asm.load_map(R1, maps.ports);
    asm.mov(R2, R10);
    asm.alu(Alu::Add, R2, i32::from(LOCAL_PORT));
    asm.call(Helper::MapLookup);
    asm.jump_if(Cond::Eq, R0, 0, kernel);
    asm.load(Size::DW, R8, R0, 0);
    asm.jump_if(Cond::Eq, R8, 0, kernel);

    asm.store(Size::H, R10, TUPLE_REMOTE_PORT, 0);
    asm.mov(R3, R8);
    asm.alu(Alu::And, R3, EXACT as i32);
    asm.jump_if(Cond::Eq, R3, 0, not_exact);
    is_local(asm, maps);
    asm.jump_if(Cond::Ne, R0, 0, listening);

    asm.bind(not_exact);
    asm.mov(R3, R9);
    asm.alu(Alu::Shl, R3, SHARED_SHIFT);
    asm.alu(Alu::Or, R3, R9);
    asm.alu(Alu::And, R3, R8);
    asm.jump_if(Cond::Eq, R3, 0, kernel);
    asm.store(Size::H, R10, TUPLE_LOCAL_PORT, 0);
    is_local(asm, maps);
    asm.jump_if(Cond::Eq, R0, 0, kernel);
    asm.jump_if(Cond::Set, R8, R9, listening);
}

/// Goes to `kernel` if the port has a lease that has run out; falls through to ours.
fn leased(asm: &mut Asm, kernel: Label, ours: Label) {
    asm.alu(Alu::Shr, R8, LEASE_SHIFT as i32);
    asm.jump_if(Cond::Eq, R8, 0, ours);
    asm.call(Helper::KtimeGetNs);
    asm.alu(Alu::Shr, R0, LEASE_UNIT as i32);
    asm.jump_if(Cond::Gt, R0, R8, kernel);
}

/// R0 = is the key in the frame in `local`?
fn is_local(asm: &mut Asm, maps: Maps) {
    asm.load_map(R1, maps.local);
    asm.mov(R2, R10);
    asm.alu(Alu::Add, R2, i32::from(LOCAL));
    asm.call(Helper::MapLookup);
}

/// The port is shared: the kernel gets flows that it has a socket for, and opening ones that a listener of
/// its own waits for. Falls through to ours.
fn unknown_to_kernel(asm: &mut Asm, kernel: Label, ours: Label) {
    let (v6, call) = (asm.label(), asm.label());
    asm.load(Size::W, R3, R10, LOCAL_PORT);
    asm.store(Size::H, R10, TUPLE_LOCAL_PORT, R3);
    asm.load(Size::W, R3, R10, REMOTE_PORT);
    asm.store(Size::H, R10, TUPLE_REMOTE_PORT, R3);
    asm.mov(R1, R6);
    asm.mov(R2, R10);
    asm.mov(R4, -1);
    asm.mov(R5, 0);
    asm.jump_if(Cond::Eq, R9, ANY6 as i32, v6);
    asm.load(Size::W, R3, R10, REMOTE);
    asm.store(Size::W, R10, V4_TUPLE, R3);
    asm.alu(Alu::Add, R2, i32::from(V4_TUPLE));
    asm.mov(R3, V4_TUPLE_LEN);
    asm.jump(call);
    asm.bind(v6);
    asm.alu(Alu::Add, R2, i32::from(REMOTE));
    asm.mov(R3, V6_TUPLE_LEN);
    asm.bind(call);
    asm.call(Helper::SkcLookupTcp);
    asm.jump_if(Cond::Eq, R0, 0, ours);
    asm.load(Size::W, R9, R0, SOCK_STATE);
    asm.mov(R1, R0);
    asm.call(Helper::SkRelease);
    asm.jump_if(Cond::Ne, R9, TCP_LISTEN, kernel);
    asm.load(Size::W, R7, R10, TCP_FLAGS);
    asm.alu(Alu::And, R7, TCP_SYN | TCP_ACK);
    asm.jump_if(Cond::Eq, R7, TCP_SYN, kernel);
}
