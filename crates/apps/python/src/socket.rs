//! The socket: what Python's own does, on a stack of ours.

use crate::address;
use crate::bytes::{self, Receive};
use crate::failure::os_error;
use crate::live::{AT_ONCE, Live, TimeLeft, Way, repeat};
use crate::stack::Stack;
use base::Duration;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use sock::runner::Runner;
use sock::{Errno, Family, Fd, Ready, SendFlags, Shutdown, Sockets};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Offset added to a stack's descriptor before Python sees it: higher than any of the kernel's, so that nothing
/// takes one for the other.
pub(crate) const BASE: i32 = 1 << 30;
/// A closed socket.
const CLOSED: Fd = -1;
/// A time-out in nanoseconds: none.
const FOR_EVER: u64 = u64::MAX;
/// Most bytes of an option's value.
const OPTION_MAX: usize = 1_024;

/// A TCP socket of a stack.
#[pyclass(subclass, frozen, weakref, module = "millstream._millstream")]
pub(crate) struct Socket {
    way: Arc<Way>,
    family: Family,
    fd: AtomicI32,
    timeout: AtomicU64,
}

impl Socket {
    fn open(&self) -> PyResult<(Arc<Live>, Fd)> {
        let live = self.way.live()?;
        match self.fd.load(Ordering::Acquire) {
            CLOSED => Err(os_error(Errno::EBADF)),
            fd => Ok((live, fd)),
        }
    }

    fn limit(&self) -> Option<Duration> {
        let nanos = self.timeout.load(Ordering::Relaxed);
        (nanos != FOR_EVER).then(|| Duration::from_nanos(nanos))
    }

    /// Asks or tells the stack something that does not wait.
    fn tell<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Runner, Fd) -> Result<R, Errno> + Send,
    ) -> PyResult<R> {
        let (live, fd) = self.open()?;
        py.detach(|| call(&live.runner, fd)).map_err(os_error)
    }

    /// Waits for any of `interest`, at most for the socket's time-out, and tries the call again.
    fn wait<R: Send>(
        &self,
        py: Python<'_>,
        interest: Ready,
        dont_wait: bool,
        mut call: impl FnMut(&Runner, Fd) -> Result<R, Errno> + Send,
    ) -> PyResult<R> {
        let (live, fd) = self.open()?;
        let limit = if dont_wait { Some(Duration::ZERO) } else { self.limit() };
        let mut time_left = TimeLeft::new(limit);
        repeat(py, &live.runner, (fd, interest), &mut time_left, |runner| call(runner, fd))
    }

    fn receive(&self, py: Python<'_>, room: &mut [u8], how: Receive) -> PyResult<usize> {
        let mut got = 0;
        let outcome = self.wait(py, Ready::IN, how.flags.dont_wait, |runner, fd| {
            loop {
                let some = runner.recv(fd, &mut room[got..], how.flags)?;
                got += some;
                if some == 0 || !how.wait_all || got == room.len() {
                    return Ok(());
                }
            }
        });
        // What was received is told; the error comes with the next call.
        if got > 0 { Ok(got) } else { outcome.map(|()| 0) }
    }

    /// Sends some of `data`, or all of it.
    fn send_from(
        &self,
        py: Python<'_>,
        data: &[u8],
        flags: SendFlags,
        (time_left, all): (&mut TimeLeft, bool),
    ) -> PyResult<usize> {
        let (live, fd) = self.open()?;
        let mut sent = 0;
        repeat(py, &live.runner, (fd, Ready::OUT), time_left, |runner| {
            loop {
                sent += runner.send(fd, &data[sent..], flags)?;
                if !all || sent == data.len() {
                    return Ok(sent);
                }
            }
        })
    }

    fn time_left(&self, flags: SendFlags) -> TimeLeft {
        TimeLeft::new(if flags.dont_wait { Some(Duration::ZERO) } else { self.limit() })
    }

    fn remote(&self, py: Python<'_>, to: &Bound<'_, PyAny>) -> PyResult<base::Endpoint> {
        address::endpoint(py, self.family, to)
    }

    fn try_connect(&self, py: Python<'_>, to: &Bound<'_, PyAny>) -> PyResult<()> {
        let to = self.remote(py, to)?;
        let waits = self.limit() != Some(Duration::ZERO);
        self.wait(py, Ready::OUT, false, |runner, fd| match runner.connect(fd, to) {
            Err(Errno::EINPROGRESS | Errno::EALREADY) if waits => Err(Errno::EAGAIN),
            outcome => outcome,
        })
    }
}

#[pymethods]
impl Socket {
    /// A new socket, or one for a descriptor that the stack has given.
    #[new]
    #[pyo3(signature = (stack, family, fileno = None))]
    fn new(py: Python<'_>, stack: &Stack, family: i32, fileno: Option<i32>) -> PyResult<Self> {
        let family = match family {
            libc::AF_INET => Family::V4,
            libc::AF_INET6 => Family::V6,
            _ => return Err(os_error(Errno::EAFNOSUPPORT)),
        };
        let way = stack.way().clone();
        let live = way.live()?;
        let fd = match fileno {
            Some(number) => number - BASE,
            None => py.detach(|| live.runner.socket(family)).map_err(os_error)?,
        };
        // Waiting is done here, where signals are seen.
        py.detach(|| live.runner.set_nonblocking(fd, true)).map_err(os_error)?;
        live.opened(fd);
        Ok(Socket { way, family, fd: AtomicI32::new(fd), timeout: AtomicU64::new(FOR_EVER) })
    }

    /// bind(address)
    fn bind(&self, py: Python<'_>, address: &Bound<'_, PyAny>) -> PyResult<()> {
        let local = self.remote(py, address)?;
        self.tell(py, |runner, fd| runner.bind(fd, local))
    }

    /// listen([backlog])
    #[pyo3(signature = (backlog = 128))]
    fn listen(&self, py: Python<'_>, backlog: i32) -> PyResult<()> {
        self.tell(py, |runner, fd| runner.listen(fd, backlog.max(0).cast_unsigned()))
    }

    /// The number of the next connection and its peer.
    fn _accept<'py>(&self, py: Python<'py>) -> PyResult<(i32, Bound<'py, PyTuple>)> {
        let (fd, peer) = self.wait(py, Ready::IN, false, |runner, fd| runner.accept(fd))?;
        Ok((BASE + fd, address::tuple(py, self.family, peer)?))
    }

    /// connect(address)
    fn connect(&self, py: Python<'_>, address: &Bound<'_, PyAny>) -> PyResult<()> {
        self.try_connect(py, address)
    }

    /// connect_ex(address) -> errno: the number of the error instead of the error, 0 for none.
    fn connect_ex(&self, py: Python<'_>, address: &Bound<'_, PyAny>) -> PyResult<i32> {
        let Err(error) = self.try_connect(py, address) else { return Ok(0) };
        if error.is_instance_of::<pyo3::exceptions::PyTimeoutError>(py) {
            return Ok(libc::EAGAIN);
        }
        let number = error.value(py).getattr("errno").and_then(|number| number.extract());
        if error.is_instance_of::<pyo3::exceptions::PyOSError>(py)
            && let Ok(number) = number
        {
            return Ok(number);
        }
        Err(error)
    }

    /// recv(bufsize[, flags]) -> bytes: at most so many, 256 KiB at once; none at the peer's end.
    #[pyo3(signature = (bufsize, flags = 0))]
    fn recv<'py>(&self, py: Python<'py>, bufsize: isize, flags: i32) -> PyResult<Bound<'py, PyBytes>> {
        let how = Receive::of(flags)?;
        let len = bytes::room_for(bufsize, how)?;
        if len == 0 {
            return Ok(PyBytes::new(py, &[]));
        }
        bytes::with_room(len, |room| {
            let got = self.receive(py, room, how)?;
            Ok(PyBytes::new(py, &room[..got]))
        })
    }

    /// recv_into(buffer[, nbytes[, flags]]) -> how many bytes were put there.
    #[pyo3(signature = (buffer, nbytes = 0, flags = 0))]
    fn recv_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        nbytes: isize,
        flags: i32,
    ) -> PyResult<usize> {
        let how = Receive::of(flags)?;
        let view = bytes::view(buffer)?;
        if view.getattr("readonly")?.extract()? {
            return Err(PyTypeError::new_err("a read-write bytes-like object is needed"));
        }
        let room = view.len()?;
        let len = match nbytes {
            0 => bytes::room_for(room.cast_signed(), how)?,
            _ => bytes::room_for(nbytes, how)?,
        };
        if len > room {
            return Err(PyValueError::new_err("buffer too small for requested bytes"));
        }
        if len == 0 {
            return Ok(0);
        }
        bytes::with_room(len, |room| {
            let got = self.receive(py, room, how)?;
            bytes::put(&view, &room[..got])?;
            Ok(got)
        })
    }

    /// send(data[, flags]) -> how many bytes were taken.
    #[pyo3(signature = (data, flags = 0))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, flags: i32) -> PyResult<usize> {
        let flags = bytes::send_flags(flags)?;
        let mut time_left = self.time_left(flags);
        match data.cast::<PyBytes>() {
            Ok(bytes) => self.send_from(py, bytes.as_bytes(), flags, (&mut time_left, false)),
            Err(_) => {
                let bytes = bytes::bytes(&bytes::view(data)?, 0)?;
                self.send_from(py, bytes.as_bytes(), flags, (&mut time_left, false))
            }
        }
    }

    /// sendall(data[, flags]): the time-out is for all of it.
    #[pyo3(signature = (data, flags = 0))]
    fn sendall(&self, py: Python<'_>, data: &Bound<'_, PyAny>, flags: i32) -> PyResult<()> {
        let flags = bytes::send_flags(flags)?;
        let mut time_left = self.time_left(flags);
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return self.send_from(py, bytes.as_bytes(), flags, (&mut time_left, true)).map(drop);
        }
        let view = bytes::view(data)?;
        let len = view.len()?;
        for from in (0..len).step_by(AT_ONCE) {
            let bytes = bytes::bytes(&view, from)?;
            self.send_from(py, bytes.as_bytes(), flags, (&mut time_left, true))?;
        }
        Ok(())
    }

    /// shutdown(how): SHUT_RD, SHUT_WR or SHUT_RDWR.
    fn shutdown(&self, py: Python<'_>, how: i32) -> PyResult<()> {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(os_error(Errno::EINVAL)),
        };
        self.tell(py, |runner, fd| runner.shutdown(fd, how))
    }

    /// The own end.
    fn getsockname<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let local = self.tell(py, |runner, fd| runner.local_addr(fd))?;
        address::tuple(py, self.family, local)
    }

    /// The peer's end.
    fn getpeername<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let remote = self.tell(py, |runner, fd| runner.peer_addr(fd))?;
        address::tuple(py, self.family, remote)
    }

    /// setsockopt(level, optname, value): an int or bytes.
    fn setsockopt(&self, py: Python<'_>, level: i32, optname: i32, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(number) = value.extract::<i32>() {
            return self.tell(py, |runner, fd| runner.setsockopt(fd, level, optname, &number.to_ne_bytes()));
        }
        let bytes = bytes::bytes(&bytes::view(value)?, 0)?;
        let bytes = bytes.as_bytes();
        self.tell(py, |runner, fd| runner.setsockopt(fd, level, optname, bytes))
    }

    /// getsockopt(level, optname[, buflen]): an int, or bytes if `buflen` says how many.
    #[pyo3(signature = (level, optname, buflen = 0))]
    fn getsockopt<'py>(
        &self,
        py: Python<'py>,
        level: i32,
        optname: i32,
        buflen: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        if buflen > OPTION_MAX {
            return Err(os_error(Errno::EINVAL));
        }
        if buflen == 0 {
            let mut number = [0; 4];
            self.tell(py, |runner, fd| runner.getsockopt(fd, level, optname, &mut number))?;
            return Ok(i32::from_ne_bytes(number).into_pyobject(py)?.into_any());
        }
        let mut bytes = vec![0; buflen];
        let len = self.tell(py, |runner, fd| runner.getsockopt(fd, level, optname, &mut bytes))?;
        Ok(PyBytes::new(py, &bytes[..len]).into_any())
    }

    /// settimeout(seconds): None waits for ever, 0 not at all.
    fn settimeout(&self, seconds: Option<f64>) -> PyResult<()> {
        let nanos = match seconds {
            None => FOR_EVER,
            Some(seconds) if seconds < 0.0 => {
                return Err(PyValueError::new_err("Timeout value out of range"));
            }
            Some(seconds) => {
                let time = Duration::try_from_secs_f64(seconds);
                let time = time.map_err(|_| PyOverflowError::new_err("timeout doesn't fit into a number"))?;
                u64::try_from(time.as_nanos()).unwrap_or(FOR_EVER)
            }
        };
        self.timeout.store(nanos, Ordering::Relaxed);
        Ok(())
    }

    /// The time-out in seconds, or None.
    fn gettimeout(&self) -> Option<f64> {
        self.limit().map(|limit| limit.as_secs_f64())
    }

    /// The number that an epoll set of the stack knows the socket by; no descriptor of the kernel's. -1 once it is
    /// closed.
    fn fileno(&self) -> i32 {
        match self.fd.load(Ordering::Acquire) {
            CLOSED => -1,
            fd => BASE + fd,
        }
    }

    /// Another number for the same socket.
    fn _dup(&self, py: Python<'_>) -> PyResult<i32> {
        self.tell(py, |runner, fd| runner.dup(fd)).map(|fd| BASE + fd)
    }

    /// Bytes that can be read now.
    fn readable(&self, py: Python<'_>) -> PyResult<usize> {
        self.tell(py, |runner, fd| runner.readable(fd))
    }

    /// Bytes that the peer has not acknowledged.
    fn unsent(&self, py: Python<'_>) -> PyResult<usize> {
        self.tell(py, |runner, fd| runner.unsent(fd)).map(|(unacknowledged, _)| unacknowledged)
    }

    /// Lets the socket go; with SO_LINGER and a time-out of None it waits.
    fn _close(&self, py: Python<'_>) -> PyResult<()> {
        let fd = self.fd.swap(CLOSED, Ordering::AcqRel);
        if fd == CLOSED {
            return Ok(());
        }
        // A stack that is closed has closed it.
        let Some(live) = self.way.if_live() else { return Ok(()) };
        let waits = self.limit().is_none();
        py.detach(|| live.runner.set_nonblocking(fd, !waits).and_then(|()| live.runner.close(fd)))
            .map_err(os_error)
    }

    /// AF_INET or AF_INET6.
    #[getter]
    fn _family(&self) -> i32 {
        address::number(self.family)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let fd = self.fd.swap(CLOSED, Ordering::AcqRel);
        if fd != CLOSED
            && let Some(live) = self.way.if_live()
        {
            // It is non-blocking, so this does not wait; no caller is left to hear of an error.
            let _ = live.runner.close(fd);
        }
    }
}
