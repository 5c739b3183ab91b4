//! One bulk flow on smoltcp.

use super::{End, PORT, Shared};
use crate::{memory::ROUNDS, now};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::IpAddress;

/// Bytes of each buffer: its window without scaling.
const BUFFER: usize = 65_535;

fn socket(end: &mut End) -> SocketHandle {
    let buffer = || SocketBuffer::new(vec![0; BUFFER]);
    end.sockets.add(Socket::new(buffer(), buffer()))
}

/// Goodput, Gbit/s.
///
/// # Panics
/// If the flow stands still.
pub(crate) fn measure(seconds: f64) -> f64 {
    let (ab, ba) = (Shared::default(), Shared::default());
    let (mut source, mut sink) = (End::new(2, ba.clone(), ab.clone()), End::new(1, ab, ba));
    let (from, to) = (socket(&mut source), socket(&mut sink));
    sink.sockets.get_mut::<Socket<'_>>(to).listen(PORT).expect("a fresh socket listens");
    let remote = (IpAddress::v4(10, 0, 0, 1), PORT);
    let socket = source.sockets.get_mut::<Socket<'_>>(from);
    socket.connect(source.iface.context(), remote, 1_024).expect("a fresh socket connects");
    let (piece, mut scratch, mut bytes) = (vec![0x5a; BUFFER], vec![0; BUFFER], 0u64);
    let begin = now();
    let mut step = |bytes: &mut u64| {
        let at = Instant::from_micros(begin.elapsed().as_micros() as i64);
        let socket = source.sockets.get_mut::<Socket<'_>>(from);
        while socket.can_send() && socket.send_slice(&piece).is_ok_and(|sent| sent > 0) {}
        source.poll(at);
        sink.poll(at);
        let socket = sink.sockets.get_mut::<Socket<'_>>(to);
        while socket.can_recv() {
            *bytes += socket.recv_slice(&mut scratch).expect("it said it could") as u64;
        }
        sink.poll(at);
    };
    while begin.elapsed().as_secs_f64() < seconds / 4.0 || bytes == 0 {
        step(&mut bytes);
        assert!(begin.elapsed().as_secs_f64() < 30.0, "the flow stands still");
    }
    let (first, start) = (bytes, now());
    while start.elapsed().as_secs_f64() < seconds {
        (0..ROUNDS).for_each(|_| step(&mut bytes));
    }
    (bytes - first) as f64 * 8e-9 / start.elapsed().as_secs_f64()
}
