//! A client that sends and a server that receives, each a QUIC endpoint, with a pipe each way between them.

use base::{Duration, Instant};
use bytes::BytesMut;
use emu::{Host, Network, PipeConfig, PortConfig, SimPort};
use millstream_quic::{Factory, Policies};
use pio::{PacketIo, RxBatch, TxBatch, TxPacket};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig,
    Event, ServerConfig, StreamEvent, StreamId, Transmit, TransportConfig, VarInt,
};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time;

/// Ethernet, IPv4 and UDP before each datagram, so that pipes know a packet that can be marked.
const ETHERNET: usize = wire::ethernet::HEADER_LEN;
const UDP_HEADER: usize = 8;
const HEADERS: usize = ETHERNET + wire::ipv4::HEADER_LEN + UDP_HEADER;
const UDP: u8 = 17;
/// Datagrams that quinn makes without looking for more.
const MTU: u16 = 1200;

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) received: usize,
    /// All of it came, and as it was sent.
    pub(crate) complete: bool,
    pub(crate) took: Duration,
    pub(crate) congestion_events: u64,
    pub(crate) lost_packets: u64,
    /// Windows before and after each time one shrank.
    pub(crate) cuts: Vec<(u64, u64)>,
}

impl Outcome {
    /// Bytes a second that arrived, as bit/s.
    pub(crate) fn rate(&self) -> f64 {
        self.received as f64 * 8.0 / self.took.as_secs_f64()
    }
}

pub(crate) struct World {
    net: Network<Peer>,
    outcome: Rc<RefCell<Outcome>>,
}

impl World {
    /// A client that sends `bytes` with `policy` over `path`; acknowledgments come back over a path that only delays.
    pub(crate) fn new(
        policies: &Policies,
        policy: &str,
        bytes: usize,
        path: &PipeConfig,
        seed: u64,
    ) -> World {
        World::with_factory(policies.factory(policy).expect("registered"), bytes, path, seed)
    }

    pub(crate) fn with_factory(factory: Factory, bytes: usize, path: &PipeConfig, seed: u64) -> World {
        let mut net = Network::new(seed);
        let ports = [net.port(&PortConfig::default()), net.port(&PortConfig::default())];
        let [a, b] = [ports[0].id(), ports[1].id()];
        let back = PipeConfig { delay: path.delay, ..PipeConfig::default() };
        net.link(a, b, path, &back);
        let outcome = Rc::<RefCell<Outcome>>::default();
        let [near, far] = ports;
        let (client, server) = peers(factory, bytes, seed, near, far, &outcome);
        net.add_host(client, &[a]);
        net.add_host(server, &[b]);
        World { net, outcome }
    }

    pub(crate) fn step_for(&mut self, time: Duration) {
        let until = self.net.now() + time;
        self.net.run_until(until);
    }

    /// Until everything arrived, at most `time`.
    pub(crate) fn run(mut self, time: Duration) -> Outcome {
        let end = self.net.now() + time;
        while self.net.now() < end && !self.outcome.borrow().complete {
            self.step_for(Duration::from_millis(10));
        }
        self.outcome.take()
    }
}

/// The byte at a place of the stream.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

enum Role {
    Sends { left: usize, sent: usize, stream: Option<StreamId>, window: u64 },
    Receives { expected: usize },
}

struct Peer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    port: SimPort,
    me: SocketAddr,
    peer: SocketAddr,
    origin: time::Instant,
    role: Role,
    outcome: Rc<RefCell<Outcome>>,
}

#[allow(clippy::disallowed_methods, reason = "quinn's time has no zero: any instant serves as one")]
pub(crate) fn any_instant() -> time::Instant {
    time::Instant::now()
}

fn peers(
    factory: Factory,
    bytes: usize,
    seed: u64,
    near: SimPort,
    far: SimPort,
    outcome: &Rc<RefCell<Outcome>>,
) -> (Peer, Peer) {
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(Arc::new(factory))
        .initial_mtu(MTU)
        .mtu_discovery_config(None)
        .stream_receive_window(VarInt::from_u32(16 << 20))
        .receive_window(VarInt::from_u32(16 << 20))
        .send_window(16 << 20);
    let transport = Arc::new(transport);
    // Signatures of this kind are all of one length, so runs differ by nothing but their seeds.
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    let mut params = rcgen::CertificateParams::new(["millstream".to_string()]).expect("a valid name");
    params.serial_number = Some(1_u64.into());
    let own = params.self_signed(&key).expect("a certificate");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut server = ServerConfig::with_single_cert(vec![own.der().clone()], key.into()).expect("our own");
    server.transport_config(transport.clone());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.der().clone()).expect("our own");
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("our own");
    client.transport_config(transport);

    let origin = any_instant();
    let address = |last: u8| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), 4433);
    let endpoint = |server: Option<ServerConfig>, n: u8| {
        let seed = [n ^ seed as u8; 32];
        Endpoint::new(Arc::new(EndpointConfig::default()), server.map(Arc::new), false, Some(seed))
    };
    let mut connecting = endpoint(None, 1);
    let connection = connecting.connect(origin, client, address(2), "millstream").expect("a valid address");
    let client = Peer {
        endpoint: connecting,
        connection: Some(connection),
        port: near,
        me: address(1),
        peer: address(2),
        origin,
        role: Role::Sends { left: bytes, sent: 0, stream: None, window: 0 },
        outcome: outcome.clone(),
    };
    let server = Peer {
        endpoint: endpoint(Some(server), 2),
        connection: None,
        port: far,
        me: address(2),
        peer: address(1),
        origin,
        role: Role::Receives { expected: bytes },
        outcome: outcome.clone(),
    };
    (client, server)
}

/// The datagram in a packet, and what ECN says.
fn read(frame: &[u8]) -> (Option<EcnCodepoint>, BytesMut) {
    let ip = &frame[ETHERNET..];
    let (header, len) = wire::ipv4::parse(ip, ip.len()).expect("nothing corrupts it");
    let datagram = &ip[len + UDP_HEADER..len + usize::from(header.payload_len)];
    (EcnCodepoint::from_bits(header.tos & 3), BytesMut::from(datagram))
}

impl Host for Peer {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let at = self.origin + now.since(Instant::ZERO);
        self.receive(at);
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|date| date <= at)
        {
            connection.handle_timeout(at);
        }
        self.exchange_events();
        self.work(now);
        self.transmit(at);
        self.exchange_events();
        let date = self.connection.as_mut()?.1.poll_timeout()?;
        Some(Instant::ZERO + date.saturating_duration_since(self.origin))
    }
}

impl Peer {
    fn receive(&mut self, at: time::Instant) {
        let mut batch = RxBatch::new();
        while self.port.rx(&mut batch).expect("never fails") > 0 {
            for packet in batch.drain(..) {
                let datagram = read(packet.frame.data());
                self.port.retire(packet.frame);
                self.take(at, datagram);
            }
        }
    }

    fn take(&mut self, at: time::Instant, (ecn, datagram): (Option<EcnCodepoint>, BytesMut)) {
        let mut reply = Vec::new();
        match self.endpoint.handle(at, self.peer, Some(self.me.ip()), ecn, datagram, &mut reply) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                let (_, connection) = self.connection.as_mut().expect("it was accepted");
                connection.handle_event(event);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, at, &mut reply, None);
                self.connection = Some(accepted.unwrap_or_else(|refused| panic!("{:?}", refused.cause)));
            }
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, &reply),
            None => {}
        }
    }

    fn exchange_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }

    /// Runs the application.
    fn work(&mut self, now: Instant) {
        let Some((_, connection)) = &mut self.connection else { return };
        let mut events = Vec::new();
        events.extend(std::iter::from_fn(|| connection.poll()));
        for event in &events {
            assert!(!matches!(event, Event::ConnectionLost { .. }), "{event:?}");
        }
        let mut outcome = self.outcome.borrow_mut();
        match &mut self.role {
            Role::Sends { left, sent, stream, window } => {
                if events.iter().any(|event| matches!(event, Event::Connected)) {
                    *stream = connection.streams().open(Dir::Uni);
                }
                let Some(id) = *stream else { return };
                while *left > 0 {
                    let piece: Vec<u8> = (*sent..*sent + (*left).min(16_384)).map(byte).collect();
                    match connection.send_stream(id).write(&piece) {
                        Ok(written) => (*sent, *left) = (*sent + written, *left - written),
                        Err(quinn_proto::WriteError::Blocked) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                let path = connection.stats().path;
                if path.cwnd < *window {
                    outcome.cuts.push((*window, path.cwnd));
                }
                *window = path.cwnd;
                (outcome.congestion_events, outcome.lost_packets) =
                    (path.congestion_events, path.lost_packets);
            }
            Role::Receives { expected } => {
                let mut readable = Vec::new();
                for event in events {
                    match event {
                        Event::Stream(StreamEvent::Opened { dir }) => {
                            readable.extend(connection.streams().accept(dir))
                        }
                        Event::Stream(StreamEvent::Readable { id }) => readable.push(id),
                        _ => {}
                    }
                }
                for id in readable {
                    let mut stream = connection.recv_stream(id);
                    let Ok(mut chunks) = stream.read(true) else { continue };
                    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                        let from = outcome.received;
                        let as_sent = |(at, got): (usize, &u8)| *got == byte(from + at);
                        assert!(chunk.bytes.iter().enumerate().all(as_sent), "after {from} bytes");
                        outcome.received += chunk.bytes.len();
                    }
                    let _more_credit_to_send = chunks.finalize();
                }
                if outcome.received == *expected && !outcome.complete {
                    (outcome.complete, outcome.took) = (true, now.since(Instant::ZERO));
                }
            }
        }
    }

    fn transmit(&mut self, at: time::Instant) {
        let mut datagram = Vec::new();
        loop {
            let Some((_, connection)) = &mut self.connection else { return };
            datagram.clear();
            let Some(transmit) = connection.poll_transmit(at, 1, &mut datagram) else { return };
            self.send(&transmit, &datagram);
        }
    }

    fn send(&mut self, transmit: &Transmit, datagram: &[u8]) {
        let mut frame = self.port.take().expect("enough frames for a window");
        frame.set_range(0, HEADERS + transmit.size);
        let bytes = frame.data_mut();
        bytes[..ETHERNET].fill(0);
        bytes[12] = 8;
        let v4 = |address: SocketAddr| match address.ip() {
            IpAddr::V4(ip) => base::Addr::v4(ip.octets()),
            IpAddr::V6(_) => unreachable!("this world is one of IPv4"),
        };
        let header = wire::ipv4::Header {
            src: v4(self.me),
            dst: v4(self.peer),
            protocol: UDP,
            tos: transmit.ecn.map_or(0, |ecn| ecn as u8),
            ttl: 64,
            id: 0,
            dont_fragment: true,
            payload_len: (transmit.size + UDP_HEADER) as u16,
        };
        header.emit(&mut bytes[ETHERNET..]);
        bytes[HEADERS - UDP_HEADER..HEADERS].fill(0);
        bytes[HEADERS..].copy_from_slice(&datagram[..transmit.size]);
        let mut batch = TxBatch::new();
        batch.push_back(TxPacket { frame, meta: Default::default() });
        self.port.tx(&mut batch).expect("never fails");
        assert!(batch.is_empty(), "the ring is as large as a window");
    }
}
