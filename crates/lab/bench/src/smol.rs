//! The workloads of `memory` on smoltcp: two interfaces in one thread, joined in memory, checksums in software.

pub(crate) mod bulk;

use crate::memory::{Load, MESSAGE, ROUNDS};
use crate::now;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const PORT: u16 = 80;
const BUFFER: usize = 1_024;

/// Packets under way and spare buffers, so that nothing is allocated once warm.
#[derive(Default)]
pub(crate) struct Lane {
    packets: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Lane {
    /// Puts a packet on its way.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut packet = self.spare.pop().unwrap_or_default();
        packet.clear();
        packet.extend_from_slice(bytes);
        self.packets.push_back(packet);
    }

    /// Takes all packets out.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        self.packets.iter().for_each(|packet| each(packet));
        self.spare.extend(self.packets.drain(..));
    }
}

pub(crate) type Shared = Rc<RefCell<Lane>>;

pub(crate) struct Wire {
    medium: Medium,
    incoming: Shared,
    outgoing: Shared,
}

pub(crate) struct Rx(Vec<u8>, Shared);
pub(crate) struct Tx(Shared);

impl RxToken for Rx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(&self.0);
        self.1.borrow_mut().spare.push(self.0);
        result
    }
}

impl TxToken for Tx {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = self.0.borrow_mut().spare.pop().unwrap_or_else(|| Vec::with_capacity(1_600));
        packet.resize(len, 0);
        let result = f(&mut packet);
        self.0.borrow_mut().packets.push_back(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Rx;
    type TxToken<'a> = Tx;

    fn receive(&mut self, _: Instant) -> Option<(Rx, Tx)> {
        let packet = self.incoming.borrow_mut().packets.pop_front()?;
        Some((Rx(packet, self.incoming.clone()), Tx(self.outgoing.clone())))
    }

    fn transmit(&mut self, _: Instant) -> Option<Tx> {
        Some(Tx(self.outgoing.clone()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        caps.medium = self.medium;
        caps.max_transmission_unit = if self.medium == Medium::Ethernet { 1_514 } else { 1_500 };
        caps.checksum = ChecksumCapabilities::default();
        caps
    }
}

pub(crate) struct End {
    pub(crate) iface: Interface,
    wire: Wire,
    pub(crate) sockets: SocketSet<'static>,
}

impl End {
    fn new(last: u8, incoming: Shared, outgoing: Shared) -> End {
        End::on(Medium::Ip, last, incoming, outgoing)
    }

    /// An end with the address 10.0.0.`last`, on a link of this kind.
    pub(crate) fn on(medium: Medium, last: u8, incoming: Shared, outgoing: Shared) -> End {
        let mut wire = Wire { medium, incoming, outgoing };
        let mut config = Config::new(match medium {
            Medium::Ethernet => EthernetAddress([2, 0, 0, 0, 0, 9]).into(),
            Medium::Ip => HardwareAddress::Ip,
        });
        config.random_seed = u64::from(last);
        let mut iface = Interface::new(config, &mut wire, Instant::ZERO);
        iface.update_ip_addrs(|addrs| {
            addrs.push(IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)).expect("there is room for one");
        });
        End { iface, wire, sockets: SocketSet::new(Vec::new()) }
    }

    fn socket(&mut self) -> SocketHandle {
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        self.sockets.add(socket)
    }

    pub(crate) fn poll(&mut self, at: Instant) {
        self.iface.poll(at, &mut self.wire, &mut self.sockets);
    }
}

struct Bed {
    client: End,
    server: End,
    clients: Vec<(SocketHandle, bool)>,
    servers: Vec<SocketHandle>,
    port: u16,
    load: Load,
    done: u64,
}

impl Bed {
    fn new(load: Load, in_flight: usize) -> Bed {
        let (ab, ba) = (Shared::default(), Shared::default());
        let mut client = End::new(2, ba.clone(), ab.clone());
        let mut server = End::new(1, ab, ba);
        // A server socket that closes lingers in TIME-WAIT for ten seconds and is then of no use: it is aborted
        // and listens again, as smoltcp has no table for that state.
        let servers = (0..in_flight + 4).map(|_| server.socket()).collect();
        let clients = (0..in_flight).map(|_| (client.socket(), false)).collect();
        Bed { client, server, clients, servers, port: 1_024, load, done: 0 }
    }

    fn step(&mut self, at: Instant) {
        for &handle in &self.servers {
            let socket = self.server.sockets.get_mut::<Socket<'_>>(handle);
            match socket.state() {
                State::Closed | State::TimeWait => {
                    socket.abort();
                    socket.listen(PORT).expect("a closed socket listens");
                }
                _ if socket.can_recv() => {
                    let mut buf = [0; MESSAGE];
                    let n = socket.recv_slice(&mut buf).expect("it said it could");
                    assert_eq!(n, MESSAGE, "a request arrives whole");
                    assert_eq!(socket.send_slice(&buf), Ok(n));
                    if self.load == Load::Short {
                        socket.close();
                    }
                }
                _ => {}
            }
        }
        self.server.poll(at);
        for (handle, asked) in &mut self.clients {
            let socket = self.client.sockets.get_mut::<Socket<'_>>(*handle);
            if socket.state() == State::Closed {
                self.port = if self.port == 65_535 { 1_024 } else { self.port + 1 };
                let remote = (IpAddress::v4(10, 0, 0, 1), PORT);
                socket
                    .connect(self.client.iface.context(), remote, self.port)
                    .expect("a closed socket connects");
                *asked = false;
            } else if socket.can_recv() {
                let mut buf = [0; MESSAGE];
                let n = socket.recv_slice(&mut buf).expect("it said it could");
                assert_eq!(n, MESSAGE, "an answer arrives whole");
                self.done += 1;
                *asked = false;
            }
            if !*asked
                && socket.may_send()
                && (self.load == Load::Keep || socket.state() == State::Established)
            {
                assert_eq!(socket.send_slice(&[0x51; MESSAGE]), Ok(MESSAGE));
                *asked = true;
            }
            if self.load == Load::Short && socket.state() == State::CloseWait {
                socket.close();
            }
        }
        self.client.poll(at);
    }
}

/// Transactions per second.
pub fn measure(load: Load, in_flight: usize, seconds: f64) -> f64 {
    let mut bed = Bed::new(load, in_flight);
    let begin = now();
    let clock = || Instant::from_micros(begin.elapsed().as_micros() as i64);
    while bed.done < in_flight as u64 || begin.elapsed().as_secs_f64() < seconds / 4.0 {
        bed.step(clock());
    }
    let (done, start) = (bed.done, now());
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..ROUNDS {
            bed.step(clock());
        }
    }
    (bed.done - done) as f64 / start.elapsed().as_secs_f64()
}

/// Returns the bytes of an idle socket: itself and its two buffers.
pub(crate) fn bytes_per_socket() -> f64 {
    (size_of::<Socket<'_>>() + 2 * BUFFER) as f64
}
