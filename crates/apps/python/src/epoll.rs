//! epoll, with the calls of Python's `select.epoll`.

use crate::failure::os_error;
use crate::live::{Live, Patience, Way};
use crate::socket::BASE;
use crate::stack::Stack;
use base::Duration;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use sock::{EpollEvent, EpollOp, Errno, Fd, Ready, Sockets};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// A closed set.
const CLOSED: Fd = -1;
/// Most events of one poll, where nobody says another number.
const EVENTS: usize = 1_024;
/// EPOLLIN, EPOLLOUT and EPOLLPRI, as `select.epoll` begins; there is no urgent data.
const ANYTHING: u32 = 0x001 | 0x002 | 0x004;

/// An epoll set of a stack: knows its sockets and its epoll sets, and no descriptors of the kernel's.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Epoll {
    way: Arc<Way>,
    fd: AtomicI32,
}

impl Epoll {
    fn open(&self) -> PyResult<(Arc<Live>, Fd)> {
        let live = self.way.live()?;
        match self.fd.load(Ordering::Acquire) {
            CLOSED => Err(PyValueError::new_err("I/O operation on closed epoll object")),
            fd => Ok((live, fd)),
        }
    }

    fn change(
        &self,
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        op: impl FnOnce(u64) -> EpollOp + Send,
    ) -> PyResult<()> {
        let (live, epfd) = self.open()?;
        let fd = number(object)?;
        let op = op(u64::from((BASE + fd).cast_unsigned()));
        py.detach(|| live.hosted.epoll_ctl(epfd, fd, op)).map_err(os_error)
    }
}

/// The stack's descriptor of a number, or of what has one.
fn number(object: &Bound<'_, PyAny>) -> PyResult<Fd> {
    let number: i32 = match object.extract() {
        Ok(number) => number,
        Err(_) => {
            let number = object.call_method0("_number").or_else(|_| object.call_method0("fileno"));
            let number =
                number.map_err(|_| PyTypeError::new_err("a socket or an epoll set of a stack is needed"))?;
            number.extract()?
        }
    };
    if (0..BASE).contains(&number) {
        return Err(PyValueError::new_err(format!(
            "{number} is a descriptor of the kernel's, not of a stack"
        )));
    }
    number.checked_sub(BASE).ok_or_else(|| os_error(Errno::EBADF))
}

#[pymethods]
impl Epoll {
    /// A new set.
    #[new]
    fn new(py: Python<'_>, stack: &Stack) -> PyResult<Self> {
        let way = stack.way().clone();
        let live = way.live()?;
        let fd = py.detach(|| live.hosted.epoll_create()).map_err(os_error)?;
        live.opened(fd);
        Ok(Epoll { way, fd: AtomicI32::new(fd) })
    }

    /// register(fd[, eventmask]): watch a socket, by itself or by its number.
    #[pyo3(signature = (fd, eventmask = ANYTHING))]
    fn register(&self, py: Python<'_>, fd: &Bound<'_, PyAny>, eventmask: u32) -> PyResult<()> {
        self.change(py, fd, |data| EpollOp::Add(EpollEvent { ready: Ready(eventmask), data }))
    }

    /// modify(fd, eventmask): watch it for something else.
    fn modify(&self, py: Python<'_>, fd: &Bound<'_, PyAny>, eventmask: u32) -> PyResult<()> {
        self.change(py, fd, |data| EpollOp::Modify(EpollEvent { ready: Ready(eventmask), data }))
    }

    /// unregister(fd): watch it no more. A socket that is closed is gone from the set already.
    fn unregister(&self, py: Python<'_>, fd: &Bound<'_, PyAny>) -> PyResult<()> {
        self.change(py, fd, |_| EpollOp::Delete)
    }

    /// poll([timeout[, maxevents]]) -> list of (number, events): waits for so many seconds, for ever with None or less
    /// than 0.
    #[pyo3(signature = (timeout = None, maxevents = -1))]
    fn poll(&self, py: Python<'_>, timeout: Option<f64>, maxevents: isize) -> PyResult<Vec<(i32, u32)>> {
        let limit = match timeout {
            Some(seconds) if seconds >= 0.0 => {
                Some(Duration::try_from_secs_f64(seconds).map_err(|_| PyValueError::new_err("timeout"))?)
            }
            _ => None,
        };
        let most = match maxevents {
            -1 => EVENTS,
            1.. => maxevents.cast_unsigned().min(EVENTS),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "maxevents must be greater than 0, got {maxevents}"
                )));
            }
        };
        let (live, fd) = self.open()?;
        let mut events = vec![EpollEvent::default(); most];
        let mut patience = Patience::new(limit);
        loop {
            let found = py.detach(|| {
                let slice = if patience.is_none() { None } else { patience.slice(live.hosted.time()) };
                let found = live.hosted.epoll_wait(fd, &mut events, Some(slice.unwrap_or_default()));
                (found, slice.is_some())
            });
            match found {
                (Ok(0) | Err(Errno::EINTR), true) => py.check_signals()?,
                (Ok(found), _) => {
                    let number = |event: &EpollEvent| ((event.data as u32).cast_signed(), event.ready.0);
                    return Ok(events[..found].iter().map(number).collect());
                }
                (Err(errno), _) => return Err(os_error(errno)),
            }
        }
    }

    /// Lets the set go.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let fd = self.fd.swap(CLOSED, Ordering::AcqRel);
        match (fd, self.way.if_live()) {
            (CLOSED, _) | (_, None) => Ok(()),
            (fd, Some(live)) => py.detach(|| live.hosted.close(fd)).map_err(os_error),
        }
    }

    /// Is it closed?
    #[getter]
    fn closed(&self) -> bool {
        self.fd.load(Ordering::Acquire) == CLOSED
    }

    /// The number that another set of the stack knows this one by.
    fn _number(&self) -> i32 {
        match self.fd.load(Ordering::Acquire) {
            CLOSED => -1,
            fd => BASE + fd,
        }
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        let fd = self.fd.swap(CLOSED, Ordering::AcqRel);
        if fd != CLOSED
            && let Some(live) = self.way.if_live()
        {
            // Nobody is there to hear of an error.
            let _ = live.hosted.close(fd);
        }
    }
}
