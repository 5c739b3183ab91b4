//! `TcpListener` and `TcpStream` that read like std::net, over any [`Sockets`].

use crate::options;
use crate::sockets::{Family, Fd, RecvFlags, SendFlags, Sockets};
use base::{Duration, Endpoint};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// A stack to open sockets on; cheap to clone.
pub type Stack = Arc<dyn Sockets>;

/// Closes its descriptor when dropped.
struct Owned {
    stack: Stack,
    fd: Fd,
}

impl Owned {
    fn set_time(&self, name: i32, time: Option<Duration>) -> io::Result<()> {
        let value = options::timeval_bytes(time);
        Ok(self.stack.setsockopt(self.fd, libc::SOL_SOCKET, name, &value)?)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // The only failure is a descriptor that is closed already, which the owner makes impossible.
        let _ = self.stack.close(self.fd);
    }
}

fn family(addr: &SocketAddr) -> Family {
    if addr.is_ipv4() { Family::V4 } else { Family::V6 }
}

/// Tries every address until one works, as std does.
fn each_addr<T>(addrs: impl ToSocketAddrs, mut f: impl FnMut(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut last = None;
    for addr in addrs.to_socket_addrs()? {
        match f(addr) {
            Ok(value) => return Ok(value),
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no address to use")))
}

/// A TCP socket that accepts connections.
pub struct TcpListener(Owned);

impl TcpListener {
    /// Listens on the first address that can be had, with a backlog of 4096.
    pub fn bind(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<TcpListener> {
        each_addr(addr, |addr| TcpListener::listen(stack, addr, 4_096, libc::SO_REUSEADDR))
    }

    /// Listens where other cores of this program listen too (SO_REUSEPORT), with this backlog.
    pub fn bind_shared(stack: &Stack, addr: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
        TcpListener::listen(stack, addr, backlog, libc::SO_REUSEPORT)
    }

    fn listen(stack: &Stack, addr: SocketAddr, backlog: u32, option: i32) -> io::Result<TcpListener> {
        let socket = Owned { stack: stack.clone(), fd: stack.socket(family(&addr))? };
        stack.setsockopt(socket.fd, libc::SOL_SOCKET, option, &1i32.to_ne_bytes())?;
        stack.bind(socket.fd, addr.into())?;
        stack.listen(socket.fd, backlog)?;
        Ok(TcpListener(socket))
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.0.stack
    }

    /// Leaves new connections to other processes that share the port, or takes them again ([`crate::Sockets::park`]).
    pub fn park(&self, parked: bool) -> io::Result<()> {
        Ok(self.0.stack.park(self.0.fd, parked)?)
    }

    /// The next connection and its peer.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (fd, peer) = self.0.stack.accept(self.0.fd)?;
        Ok((TcpStream(Owned { stack: self.0.stack.clone(), fd }), peer.into()))
    }

    /// Connections for ever.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<TcpStream>> + '_ {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.stack.local_addr(self.0.fd)?.into())
    }

    /// O_NONBLOCK.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        Ok(self.0.stack.set_nonblocking(self.0.fd, on)?)
    }

    /// How long an accept blocks; `None` for ever. Reads from connections accepted later begin with the same limit.
    pub fn set_accept_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set_time(libc::SO_RCVTIMEO, time)
    }

    /// The descriptor, for epoll.
    pub fn fd(&self) -> Fd {
        self.0.fd
    }
}

/// A TCP connection.
pub struct TcpStream(Owned);

impl TcpStream {
    /// Connects to the first address that answers.
    pub fn connect(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<TcpStream> {
        each_addr(addr, |addr| {
            let socket = Owned { stack: stack.clone(), fd: stack.socket(family(&addr))? };
            stack.connect(socket.fd, addr.into())?;
            Ok(TcpStream(socket))
        })
    }

    /// A socket that is not connected yet.
    pub(crate) fn unconnected(stack: &Stack, addr: &SocketAddr) -> io::Result<TcpStream> {
        Ok(TcpStream(Owned { stack: stack.clone(), fd: stack.socket(family(addr))? }))
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.0.stack
    }

    /// Starts connecting and returns at once; writable when done.
    pub fn connect_nonblocking(stack: &Stack, addr: SocketAddr) -> io::Result<TcpStream> {
        let socket = Owned { stack: stack.clone(), fd: stack.socket(family(&addr))? };
        stack.set_nonblocking(socket.fd, true)?;
        match stack.connect(socket.fd, Endpoint::from(addr)) {
            Ok(()) | Err(crate::Errno::EINPROGRESS) => Ok(TcpStream(socket)),
            Err(e) => Err(e.into()),
        }
    }

    /// Our end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.stack.local_addr(self.0.fd)?.into())
    }

    /// The peer's end.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.stack.peer_addr(self.0.fd)?.into())
    }

    /// Closes one half or both.
    pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        let how = match how {
            std::net::Shutdown::Read => tcp::Shutdown::Read,
            std::net::Shutdown::Write => tcp::Shutdown::Write,
            std::net::Shutdown::Both => tcp::Shutdown::Both,
        };
        Ok(self.0.stack.shutdown(self.0.fd, how)?)
    }

    /// TCP_NODELAY.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.set_int(libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(on))
    }

    /// Sets any integer option of [`options::TABLE`].
    pub fn set_int(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        Ok(self.0.stack.setsockopt(self.0.fd, level, name, &value.to_ne_bytes())?)
    }

    /// Reads any option of [`options::TABLE`] and returns the number of bytes written to `into`.
    ///
    /// # Errors
    /// ENOPROTOOPT for an option that is not in the table, ENOTCONN where it needs a connection.
    pub fn option(&self, level: i32, name: i32, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.stack.getsockopt(self.0.fd, level, name, into)?)
    }

    /// How long a read blocks; `None` for ever.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set_time(libc::SO_RCVTIMEO, time)
    }

    /// How long a write blocks; `None` for ever.
    pub fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set_time(libc::SO_SNDTIMEO, time)
    }

    /// O_NONBLOCK.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        Ok(self.0.stack.set_nonblocking(self.0.fd, on)?)
    }

    /// Reads without taking.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.stack.recv(self.0.fd, into, RecvFlags { peek: true, ..RecvFlags::default() })?)
    }

    /// The pending error, taken (SO_ERROR).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let mut value = [0; 4];
        self.0.stack.getsockopt(self.0.fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut value)?;
        let errno = i32::from_ne_bytes(value);
        Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
    }

    /// Another handle to the same connection.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        let fd = self.0.stack.dup(self.0.fd)?;
        Ok(TcpStream(Owned { stack: self.0.stack.clone(), fd }))
    }

    /// The descriptor, for epoll.
    pub fn fd(&self) -> Fd {
        self.0.fd
    }
}

impl Read for &TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.stack.recv(self.0.fd, into, RecvFlags::default())?)
    }
}

impl Write for &TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        Ok(self.0.stack.send(self.0.fd, data, SendFlags::default())?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
