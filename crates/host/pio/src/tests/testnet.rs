//! For tests: a network namespace per test, and a puppet that plays one TCP endpoint over any port.

use crate::netlink;
use crate::port::*;
use base::{Addr, Duration, Seq};
use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use wire::packet::{Below, Checked, Checksum, Content, Link, Packet};
use wire::protocol;
use wire::tcp::{Flags, Header, Options};

pub(crate) fn addr(text: &str) -> Addr {
    text.parse::<IpAddr>().expect("an address").into()
}

/// Move the calling thread (and those it starts) into a fresh network namespace. False, with the reason
/// printed, if that is not permitted. Nothing is left when the thread and its descriptors end.
pub(crate) fn own_namespace() -> bool {
    // SAFETY: changes only which network this thread sees.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        eprintln!("SKIPPED: no network namespace: {}", std::io::Error::last_os_error());
        return false;
    }
    netlink::set_link(1, true, None).expect("loopback comes up");
    true
}

/// The calling thread's network namespace.
pub(crate) fn this_namespace() -> File {
    File::open("/proc/thread-self/ns/net").expect("a namespace")
}

/// Run `work` in the network namespace `netns`, on a thread of its own.
pub(crate) fn within<R: Send>(netns: &File, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: changes only which network this thread sees.
            assert_eq!(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            work()
        });
        thread.join().expect("the thread ends well")
    })
}

/// A network namespace beside the caller's, with loopback up.
pub(crate) fn another_namespace() -> File {
    std::thread::spawn(|| {
        assert!(own_namespace());
        this_namespace()
    })
    .join()
    .expect("the thread ends well")
}

/// A cable from the caller's namespace to another: `near` here with `.1`, `far` there with `.2`, on
/// `10.net.0.0/24` and `fd00:net::/64`. Index of the near end, and the other namespace.
pub(crate) fn cable(near: &str, far: &str, net: u8) -> (u32, File) {
    let there = another_namespace();
    (cable_to(&there, near, far, net, || {}), there)
}

/// Lays a cable as [`cable`] to a namespace that is there; `begun` runs while its ends are down and have no addresses.
pub(crate) fn cable_to(there: &File, near: &str, far: &str, net: u8, begun: impl FnOnce()) -> u32 {
    let (near_index, far_index) = netlink::add_veth(near, far, 1).expect("a cable");
    netlink::move_link(far_index, there.as_fd()).expect("moves");
    begun();
    let set_up = |index, host: u8| {
        netlink::set_link(index, true, None).expect("comes up");
        netlink::add_address(index, Addr::v4([10, net, 0, host]), 24).expect("an address");
        netlink::add_address(index, addr(&format!("fd00:{net}::{host}")), 64).expect("an address");
    };
    set_up(near_index, 1);
    within(there, || {
        set_up(crate::sys::index_of(far).expect("is there"), 2);
        // Carriers, multicast groups and neighbours take a moment: it is over when the other kernel says no.
        for near in [IpAddr::from([10, net, 0, 1]), addr(&format!("fd00:{net}::1")).into()] {
            let says_no = || {
                let answer =
                    TcpStream::connect_timeout(&SocketAddr::new(near, 1), Duration::from_millis(100));
                answer.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
            };
            assert!((0..100).any(|_| says_no()), "{near} is not reached");
        }
    });
    near_index
}

/// State of the puppet's connection.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) received: Vec<u8>,
    pub(crate) fin: bool,
    pub(crate) reset: bool,
    pub(crate) established: bool,
    pub(crate) biggest: usize,
    pub(crate) partial: u32,
    pub(crate) bad_checksum: u32,
    pub(crate) gso: u32,
    pub(crate) segments: u32,
    pub(crate) unsteered: u32,
}

/// One end of one TCP connection, which acknowledges at once, retransmits never and believes everything.
pub(crate) struct Puppet<P: PacketIo> {
    pub(crate) port: P,
    pub(crate) seen: Seen,
    local: Addr,
    local_port: u16,
    peer: Option<Peer>,
    next: Seq,
    acked: Seq,
    expected: Seq,
    /// Out-of-order data, and whether a FIN is behind it: packets of several CPUs may overtake each other.
    early: Vec<(Seq, Vec<u8>, bool)>,
    /// The peer's window beyond `acked` in bytes, and the shift of its window field.
    window: u32,
    shift: u8,
    /// Where packets to the peer go when nothing has asked us yet.
    pub(crate) peer_mac: Option<[u8; 6]>,
}

#[derive(Clone, Copy)]
struct Peer {
    addr: Addr,
    port: u16,
    mac: [u8; 6],
}

impl<P: PacketIo> Puppet<P> {
    pub(crate) fn new(port: P, local: Addr, local_port: u16) -> Self {
        let next = Seq::new(0x8000_0000);
        let (seen, peer, expected) = (Seen::default(), None, Seq::new(0));
        Puppet {
            port,
            seen,
            local,
            local_port,
            peer,
            next,
            acked: next,
            expected,
            early: Vec::new(),
            window: 0,
            shift: 0,
            peer_mac: None,
        }
    }

    /// Send a SYN.
    pub(crate) fn connect(&mut self, to: Addr, port: u16) {
        self.peer = Some(Peer { addr: to, port, mac: self.peer_mac.expect("a program resolved the peer") });
        self.segment(Flags::SYN, &[]);
    }

    /// Receive and answer until `until` holds or two seconds have brought nothing.
    pub(crate) fn run(&mut self, until: impl Fn(&Seen) -> bool) -> bool {
        let mut quiet = 0;
        let mut batch = RxBatch::new();
        // A packet in several frames, put together.
        let (mut joined, mut first) = (Vec::new(), RxMeta::default());
        while !until(&self.seen) {
            if self.port.rx(&mut batch).expect("rx") == 0 {
                quiet += 1;
                if quiet > 100 {
                    eprintln!("nothing more came: {:?} {:?}", self.seen.summary(), self.port.stats());
                    return false;
                }
                self.port.wait(Some(Duration::from_millis(20))).expect("wait");
                // News of the network ends a wait too, until it was heard.
                self.port.net().into_iter().for_each(|net| net.net_events(&mut Vec::new()));
                continue;
            }
            quiet = 0;
            for packet in batch.drain(..) {
                let meta = if joined.is_empty() { packet.meta } else { first };
                if packet.meta.more || !joined.is_empty() {
                    joined.extend_from_slice(packet.frame.data());
                    first = meta;
                } else {
                    self.packet(packet.frame.data(), meta);
                }
                if !packet.meta.more && !joined.is_empty() {
                    self.packet(&std::mem::take(&mut joined), meta);
                }
                self.port.retire(packet.frame);
            }
        }
        true
    }

    /// Send `data` in segments as large as port and peer take, and see it acknowledged.
    pub(crate) fn send(&mut self, mut data: &[u8]) {
        let caps = self.port.caps();
        // A super-segment fits the window of a peer that has just begun, also if it arrives cut.
        let most = if caps.tso_max == 0 { caps.mtu - 60 } else { 24_000 };
        while !data.is_empty() || self.acked != self.next {
            let room = self.window.saturating_sub(self.next.offset_from(self.acked)) as usize;
            let (piece, rest) = data.split_at(data.len().min(most).min(room));
            if piece.is_empty() || rest.len() > most && piece.len() < most {
                let before = self.seen.segments;
                assert!(self.run(|seen| seen.segments > before), "no acknowledgment");
                continue;
            }
            self.segment(Flags::ACK | Flags::PSH, piece);
            data = rest;
        }
    }

    pub(crate) fn finish(&mut self) {
        self.segment(Flags::FIN | Flags::ACK, &[]);
    }

    fn packet(&mut self, bytes: &[u8], meta: RxMeta) {
        let Ok(frame) = wire::packet::parse_frame(bytes, bytes.len()) else { return };
        if let Some(question) = frame.question(bytes) {
            if question.target == self.local {
                let mac = self.port.caps().mac;
                self.emit(TxMeta::default(), |into| question.answer(mac, false, into));
            }
        } else if let Content::Ip(ip) = frame.content
            && ip.dst == self.local
            && ip.protocol == protocol::TCP
        {
            self.tcp(&ip, frame.link.src, bytes, meta);
        }
    }

    fn tcp(&mut self, ip: &Packet, mac: [u8; 6], bytes: &[u8], meta: RxMeta) {
        let Ok((src_port, dst_port, segment)) = ip.tcp(bytes) else { return };
        if dst_port != self.local_port {
            self.seen.unsteered += 1;
            return;
        }
        match meta.checksum {
            RxChecksum::Verified => {}
            RxChecksum::Partial => self.seen.partial += 1,
            RxChecksum::Unverified => match ip.checksum(bytes) {
                Checked::Good => {}
                Checked::Partial if self.port.caps().local_peer => self.seen.partial += 1,
                _ => self.seen.bad_checksum += 1,
            },
        }
        self.seen.segments += 1;
        self.seen.gso += u32::from(meta.gso_size > 0);
        self.seen.biggest = self.seen.biggest.max(bytes.len());
        self.seen.reset |= segment.flags.has(Flags::RST);
        if segment.flags.has(Flags::SYN) {
            self.shift = segment.options.window_scale.unwrap_or(0);
            self.window = u32::from(segment.window);
            self.expected = Seq::new(segment.seq.raw().wrapping_add(1));
            if segment.flags.has(Flags::ACK) {
                self.acked = segment.ack;
                self.segment(Flags::ACK, &[]);
            } else {
                self.peer = Some(Peer { addr: ip.src, port: src_port, mac });
                self.segment(Flags::SYN | Flags::ACK, &[]);
            }
            self.seen.established = segment.flags.has(Flags::ACK);
            return;
        }
        if segment.flags.has(Flags::ACK) {
            self.acked = self.acked.later(segment.ack);
            self.window = u32::from(segment.window) << self.shift;
            self.seen.established = true;
        }
        if segment.seq_len() > 0 {
            self.early.push((segment.seq, segment.payload.to_vec(), segment.flags.has(Flags::FIN)));
            self.take_what_continues();
            self.segment(Flags::ACK, &[]);
        }
    }

    fn take_what_continues(&mut self) {
        while let Some(at) = self.early.iter().position(|(seq, ..)| seq.at_or_before(self.expected)) {
            let (seq, bytes, fin) = self.early.swap_remove(at);
            let known = self.expected.offset_from(seq) as usize;
            let Some(new) = bytes.get(known..) else { continue };
            self.seen.received.extend_from_slice(new);
            self.expected += new.len() as u32 + u32::from(fin && !self.seen.fin);
            self.seen.fin |= fin;
        }
    }

    fn segment(&mut self, flags: Flags, data: &[u8]) {
        let peer = self.peer.expect("a peer");
        let caps = self.port.caps().clone();
        let syn = flags.has(Flags::SYN);
        let mss = (caps.mtu - if self.local.is_v4() { 40 } else { 60 }) as u16;
        let options =
            Options { mss: syn.then_some(mss), window_scale: syn.then_some(10), ..Options::default() };
        let header = Header {
            src_port: self.local_port,
            dst_port: peer.port,
            seq: self.next,
            ack: self.expected,
            flags,
            window: 65535,
            options,
        };
        let link = Some(Link { dst: peer.mac, src: caps.mac });
        let below = Below { link, src: self.local, dst: peer.addr, tos: 0, ttl: 64, label: 0 };
        let sent = data.len() as u32 + u32::from(syn) + u32::from(flags.has(Flags::FIN));
        self.next = Seq::new(self.next.raw().wrapping_add(sent));
        let head = below.len() + header.len();
        let offloaded = caps.tx_checksum;
        let checksum = if offloaded { Checksum::Offloaded } else { Checksum::Full };
        let cut = data.len() > usize::from(mss);
        let meta = TxMeta {
            checksum: offloaded.then_some(ChecksumOffload { start: below.len() as u16, offset: 16 }),
            segmentation: cut.then_some(SegmentationOffload {
                size: mss,
                header_len: head as u16,
                v6: !self.local.is_v4(),
            }),
        };
        self.emit(meta, |into| {
            into[head..head + data.len()].copy_from_slice(data);
            below.emit_tcp(&header, data.len(), checksum, into)
        });
    }

    fn emit(&mut self, meta: TxMeta, build: impl FnOnce(&mut [u8]) -> usize) {
        let cut = meta.segmentation.is_some();
        let mut frame = if cut { self.port.take_long() } else { self.port.take() }.expect("a frame");
        let start = frame.headroom();
        frame.set_range(start, frame.capacity() - start);
        let len = build(frame.data_mut());
        frame.set_range(start, len);
        let mut batch = TxBatch::from([TxPacket { frame, meta }]);
        self.port.tx(&mut batch).expect("tx");
        assert!(batch.is_empty(), "back-pressure in a test");
    }
}

impl Seen {
    fn summary(&self) -> String {
        format!("{} bytes, fin {}, segments {}", self.received.len(), self.fin, self.segments)
    }
}

/// Bytes that differ at every place of interest.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A port's sleep, as a method.
pub(crate) trait Wait: PacketIo + Sized {
    fn wait(&mut self, timeout: Option<Duration>) -> Result<Wake, IoError> {
        crate::wait([self], &[], timeout)
    }
}

impl<P: PacketIo> Wait for P {}
