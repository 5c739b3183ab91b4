//! Goal: connections between addresses of one stack stay inside it, whatever they do, and nothing on the link can
//! pretend to be one.

mod common;

use base::{Addr, Duration, Endpoint, Instant, Seq};
use common::*;
use pio::{PacketIo, Pair, PairConfig, RxBatch, TxBatch, TxMeta, TxPacket};
use stack::{ConnId, Connect, Core, Loopback, Notice, OpError};
use tcp::{Events, State};
use wire::packet::{Below, Checksum, Link};
use wire::tcp::{Flags, Header, Options};

const LOCALHOST: Addr = Addr::v4([127, 0, 0, 1]);

/// One host, and the other end of its wire.
struct Host {
    core: Core,
    wire: Pair,
    now: Instant,
    notices: Vec<Notice>,
}

impl Host {
    fn new(link: &PairConfig, loopback: Loopback) -> Host {
        let (core, wire) = World::alone(link, |config| config.loopback = loopback);
        Host { core, wire, now: Instant::from_secs(1), notices: vec![] }
    }

    /// Turns until nothing moves at this instant.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let turn = self.core.turn(self.now).unwrap();
            let before = self.notices.len();
            self.core.notices(&mut self.notices);
            let noticed = self.notices.len() > before;
            if !noticed && !turn.more && turn.received + turn.sent + turn.timers == 0 {
                return;
            }
        }
        panic!("the stack never comes to rest");
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.settle();
            match self.core.next_timeout() {
                Some(at) if at <= end => self.now = at.max(self.now + Duration::from_nanos(1)),
                _ => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// Packets that left by the port.
    fn left(&mut self) -> usize {
        let (mut batch, mut count) = (RxBatch::new(), 0);
        while self.wire.rx(&mut batch).unwrap() > 0 {
            count += batch.len();
            batch.drain(..).for_each(|packet| self.wire.retire(packet.frame));
        }
        count
    }

    fn send_frame(&mut self, from: Endpoint, to: Endpoint, flags: Flags, seq: u32, ack: u32) {
        let link = Some(Link { dst: self.core.io().caps().mac, src: self.wire.caps().mac });
        let below = Below { link, src: from.addr, dst: to.addr, tos: 0, ttl: 64, label: 0 };
        let (seq, ack) = (Seq::new(seq), Seq::new(ack));
        let options = Options { mss: Some(1460), ..Options::default() };
        let header =
            Header { src_port: from.port, dst_port: to.port, seq, ack, flags, window: 1000, options };
        let mut frame = self.wire.take().unwrap();
        frame.set_range(0, below.len() + header.len());
        below.emit_tcp(&header, 0, Checksum::Full, frame.data_mut());
        let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
        self.wire.tx(&mut batch).unwrap();
        assert!(batch.is_empty());
    }

    fn connect(&mut self, remote: Endpoint, owner: u32) -> ConnId {
        self.core.connect(self.now, &connect(remote, owner)).unwrap()
    }

    fn state(&self, id: ConnId) -> State {
        self.core.connection(id).state()
    }
}

/// Sends `data` from one end to the other, as buffers allow, and compares.
fn carry(host: &mut Host, from: ConnId, to: ConnId, data: &[u8]) {
    let (mut sent, mut got) = (0, Vec::new());
    for _ in 0..1_000_000 {
        if sent < data.len()
            && let Ok(count) = host.core.write(host.now, from, &data[sent..])
        {
            sent += count;
        }
        host.settle();
        read_all(&mut host.core, host.now, to, &mut got);
        if got.len() >= data.len() {
            break;
        }
        if host.core.next_timeout().is_some_and(|at| at > host.now) {
            host.now = host.core.next_timeout().unwrap();
        }
    }
    assert!(got == data, "{} of {} bytes", got.len(), data.len());
}

/// A whole life at `addr`: handshake, data both ways, close.
fn live(link: &PairConfig, loopback: Loopback, listen_at: Addr, addr: Addr) {
    let mut host = Host::new(link, loopback);
    let at = Endpoint::new(addr, PORT);
    let (listener, _) =
        host.core.listen(host.now, &listen(Endpoint::new(listen_at, PORT), 16)).expect("an address of ours");
    let client = host.connect(at, 1);
    host.settle();
    let server = host.core.accept(listener, 2).expect("the handshake completes");
    assert_eq!((host.state(client), host.state(server)), (State::Established, State::Established));
    let (ours, theirs) = (*host.core.connection(client).key(), *host.core.connection(server).key());
    assert_eq!((ours.remote(), theirs), (at, ours.reversed()));
    assert_eq!(ours.local().addr, addr);
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    carry(&mut host, client, server, &data);
    carry(&mut host, server, client, &data[..1_000_000]);
    for id in [client, server] {
        let info = host.core.info(host.now, id);
        assert_eq!(info.bytes_retransmitted, 0, "{info:?}");
    }
    host.core.close(host.now, client);
    host.settle();
    assert!(told(&host.notices, 2).any(Events::READABLE));
    assert!(read_all(&mut host.core, host.now, server, &mut Vec::new()), "the peer is done");
    host.core.close(host.now, server);
    host.settle();
    assert_eq!(stat(&host.core, "time_wait_in"), 1);
    host.pass(Duration::from_secs(300));
    let rests = ["connections", "flows", "time_wait", "chunks_used"];
    assert_eq!(rests.map(|name| stat(&host.core, name)), [0; 4]);
    assert!(stat(&host.core, "looped") > 10);
    assert_eq!(host.left(), 0, "nothing left by the port");
}

#[test]
fn a_connection_to_the_own_address_lives_and_ends() {
    for link in [PairConfig::default(), PairConfig::offloads()] {
        for addr in [SERVER, SERVER_V6] {
            live(&link, Loopback::Link, addr, addr);
            live(&link, Loopback::All, Addr::UNSPECIFIED_V6, addr);
        }
    }
}

#[test]
fn a_connection_over_the_loopback_lives_and_ends() {
    for link in [PairConfig::default(), PairConfig::offloads()] {
        live(&link, Loopback::All, LOCALHOST, LOCALHOST);
        live(&link, Loopback::All, Addr::UNSPECIFIED_V4, LOCALHOST);
        live(&link, Loopback::All, Addr::UNSPECIFIED_V6, SERVER_V6.localhost());
    }
}

#[test]
fn the_source_is_the_loopbacks_and_nowhere_is_here() {
    let mut host = Host::new(&PairConfig::default(), Loopback::All);
    let (listener, _) =
        host.core.listen(host.now, &listen(Endpoint::new(Addr::UNSPECIFIED_V4, PORT), 16)).unwrap();
    for (remote, local) in
        [(Addr::v4([127, 9, 9, 9]), LOCALHOST), (Addr::UNSPECIFIED_V4, LOCALHOST), (SERVER, SERVER)]
    {
        let client = host.connect(Endpoint::new(remote, PORT), 1);
        host.settle();
        let server = host.core.accept(listener, 2).expect("it is this host");
        assert_eq!(host.core.connection(server).key().remote().addr, local, "{remote:?}");
        host.core.abort(host.now, client);
        host.settle();
        assert_eq!(host.state(server), State::Closed);
        host.core.close(host.now, server);
    }
}

/// A socket bound to the loopback cannot reach the link, and without a loopback no socket can be bound there.
#[test]
fn the_loopback_leads_nowhere_else() {
    let mut host = Host::new(&PairConfig::default(), Loopback::All);
    let local = Endpoint::new(LOCALHOST, 0);
    let outside = Connect { local, ..connect(Endpoint::new(CLIENT, PORT), 1) };
    assert_eq!(host.core.connect(host.now, &outside), Err(OpError::Invalid));
    let bound = Connect { local: Endpoint::new(LOCALHOST, 4000), ..outside };
    assert_eq!(host.core.connect(host.now, &bound), Err(OpError::Invalid));
    for loopback in [Loopback::Link, Loopback::Off] {
        let mut host = Host::new(&PairConfig::default(), loopback);
        let at = Endpoint::new(LOCALHOST, PORT);
        assert_eq!(host.core.listen(host.now, &listen(at, 1)).unwrap_err(), OpError::AddrNotAvailable);
        assert_eq!(host.core.connect(host.now, &connect(at, 1)), Err(OpError::NetUnreachable));
        let nowhere = Endpoint::new(Addr::UNSPECIFIED_V4, PORT);
        assert_eq!(host.core.connect(host.now, &connect(nowhere, 1)), Err(OpError::NetUnreachable));
    }
}

#[test]
fn a_closed_port_refuses() {
    let mut host = Host::new(&PairConfig::default(), Loopback::All);
    for addr in [SERVER, SERVER_V6, LOCALHOST, SERVER_V6.localhost()] {
        let client = host.connect(Endpoint::new(addr, PORT), 1);
        host.settle();
        assert_eq!(host.state(client), State::Closed);
        assert_eq!(host.core.take_error(client), Some(tcp::Error::Refused));
        host.core.close(host.now, client);
    }
    assert_eq!((stat(&host.core, "resets_out"), host.left()), (4, 0));
}

/// Off: packets to the own address leave by the port, which asks for the neighbour that has it.
#[test]
fn without_a_loopback_packets_leave() {
    let mut host = Host::new(&PairConfig::default(), Loopback::Off);
    host.core.listen(host.now, &listen(Endpoint::new(SERVER, PORT), 16)).unwrap();
    let client = host.connect(Endpoint::new(SERVER, PORT), 1);
    host.pass(Duration::from_millis(10));
    assert_eq!((host.state(client), stat(&host.core, "looped")), (State::SynSent, 0));
    assert_eq!(host.left(), 1, "an ARP question");
}

/// RFC 9293, section 3.5: a simultaneous open, of which one connection is both ends.
#[test]
fn a_connection_to_its_own_port_speaks_to_itself() {
    for (loopback, addr) in [(Loopback::Link, SERVER), (Loopback::All, SERVER_V6.localhost())] {
        let mut host = Host::new(&PairConfig::default(), loopback);
        let at = Endpoint::new(addr, 5000);
        let both = host.core.connect(host.now, &Connect { local: at, ..connect(at, 1) }).unwrap();
        host.settle();
        assert_eq!(host.state(both), State::Established);
        carry(&mut host, both, both, &[7; 100_000]);
        host.core.close(host.now, both);
        host.pass(Duration::from_secs(300));
        assert_eq!((stat(&host.core, "connections"), stat(&host.core, "flows"), host.left()), (0, 0, 0));
    }
}

#[test]
fn many_connections_share_the_loopback_and_none_loses_anything() {
    const COUNT: u32 = 500;
    let mut host = Host::new(&PairConfig::default(), Loopback::All);
    let at = Endpoint::new(LOCALHOST, PORT);
    let (listener, _) = host.core.listen(host.now, &listen(at, COUNT)).unwrap();
    let clients: Vec<_> = (0..COUNT).map(|owner| host.connect(at, owner)).collect();
    host.settle();
    let servers: Vec<_> = (0..COUNT).filter_map(|owner| host.core.accept(listener, COUNT + owner)).collect();
    assert_eq!(servers.len(), clients.len());
    // Far more than the queue holds is due at once.
    let line = |id: ConnId| vec![id.0 as u8; 20_000];
    for &id in &clients {
        assert_eq!(host.core.write(host.now, id, &line(id)), Ok(20_000));
    }
    let mut got = vec![Vec::new(); servers.len()];
    while got.iter().any(|got| got.len() < 20_000) {
        host.settle();
        let before: usize = got.iter().map(Vec::len).sum();
        for (id, got) in servers.iter().zip(&mut got) {
            read_all(&mut host.core, host.now, *id, got);
        }
        let after: usize = got.iter().map(Vec::len).sum();
        assert!(after > before, "stuck at {after} bytes");
    }
    for (id, got) in servers.iter().zip(&got) {
        let peer = host.core.connection(*id).key().reversed();
        let client = clients.iter().find(|id| *host.core.connection(**id).key() == peer).unwrap();
        assert!(*got == line(*client));
    }
    for &id in &clients {
        assert_eq!(host.core.info(host.now, id).bytes_retransmitted, 0);
    }
    assert_eq!((host.left(), stat(&host.core, "no_frame")), (0, 0));
}

/// RFC 1122, section 3.2.1.3; RFC 4291, section 2.5.3.
#[test]
fn nothing_on_the_link_passes_for_the_loopback() {
    let mut host = Host::new(&PairConfig::default(), Loopback::All);
    let (listener, _) =
        host.core.listen(host.now, &listen(Endpoint::new(Addr::UNSPECIFIED_V4, PORT), 16)).unwrap();
    let stranger = Endpoint::new(CLIENT, 4000);
    let here = |addr| Endpoint::new(addr, PORT);
    let wrong = [
        (stranger, here(LOCALHOST)),
        (Endpoint::new(LOCALHOST, 4000), here(SERVER)),
        (Endpoint::new(SERVER, 4000), here(SERVER)),
        (Endpoint::new(LOCALHOST, 4000), here(LOCALHOST)),
    ];
    for (from, to) in wrong {
        host.send_frame(from, to, Flags::SYN, 1, 0);
        host.settle();
    }
    assert_eq!(stat(&host.core, "drop_not_for_us"), wrong.len() as u64);
    assert_eq!((stat(&host.core, "connections"), host.left()), (0, 0));

    // A connection that lives is not ended by a RST that knows everything of it.
    let client = host.connect(here(LOCALHOST), 1);
    host.settle();
    let server = host.core.accept(listener, 2).unwrap();
    assert_eq!(host.core.write(host.now, client, b"hello"), Ok(5));
    host.settle();
    let key = *host.core.connection(server).key();
    let next = host.core.info(host.now, server).rcv_nxt.raw();
    host.send_frame(key.remote(), key.local(), Flags::RST, next, 0);
    host.settle();
    assert_eq!(host.state(server), State::Established);
    let dropped = stat(&host.core, "drop_not_for_us");
    assert_eq!(dropped, wrong.len() as u64 + 1);

    // A SYN of the link by the usual way is answered still.
    host.send_frame(stranger, here(SERVER), Flags::SYN, 1, 0);
    host.settle();
    assert!(host.left() > 0);
}
