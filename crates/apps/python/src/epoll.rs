//! epoll, with the calls of Python's `select.epoll`.

use crate::failure::os_error;
use crate::live::{Live, TimeLeft, Way};
use crate::socket::BASE;
use crate::stack::Stack;
use base::Duration;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use sock::runner::ExternalLoop;
use sock::{EpollEvent, EpollOp, Errno, Fd, Ready, Sockets};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A closed set.
const CLOSED: Fd = -1;
/// Most events of one poll, where nothing says another number.
const EVENTS: usize = 1_024;
/// EPOLLIN, EPOLLOUT and EPOLLPRI, as `select.epoll` begins; there is no urgent data.
const ANYTHING: u32 = 0x001 | 0x002 | 0x004;

/// An epoll set of a stack: knows its sockets and its epoll sets, and no descriptors of the kernel's.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Epoll {
    way: Arc<Way>,
    fd: AtomicI32,
    /// Its place in an event loop that is not ours, if it was asked for.
    outside: Mutex<Option<Arc<ExternalLoop>>>,
}

impl Epoll {
    fn outside(&self) -> Option<Arc<ExternalLoop>> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets set and place go; nothing of it in a process that was forked since.
    fn end(&self) -> Result<(), Errno> {
        let fd = self.fd.swap(CLOSED, Ordering::AcqRel);
        let outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !self.way.is_ours() {
            std::mem::forget(outside);
            return Ok(());
        }
        drop(outside);
        match (fd, self.way.if_live()) {
            (CLOSED, _) | (_, None) => Ok(()),
            (fd, Some(live)) => live.runner.close(fd),
        }
    }

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
        py.detach(|| live.runner.epoll_ctl(epfd, fd, op)).map_err(os_error)
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
        let fd = py.detach(|| live.runner.epoll_create()).map_err(os_error)?;
        live.opened(fd);
        Ok(Epoll { way, fd: AtomicI32::new(fd), outside: Mutex::default() })
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
        let numbers = |events: &[EpollEvent]| {
            events.iter().map(|event| ((event.data as u32).cast_signed(), event.ready.0)).collect()
        };
        if let Some(outside) = self.outside() {
            let found = py.detach(|| outside.poll(&mut events)).map_err(os_error)?;
            if found > 0 || limit == Some(Duration::ZERO) {
                return Ok(numbers(&events[..found]));
            }
        }
        let mut time_left = TimeLeft::new(limit);
        loop {
            let found = py.detach(|| {
                let slice = if time_left.is_none() { None } else { time_left.slice(live.runner.time()) };
                let found = live.runner.epoll_wait(fd, &mut events, Some(slice.unwrap_or_default()));
                (found, slice.is_some())
            });
            match found {
                (Ok(0) | Err(Errno::EINTR), true) => py.check_signals()?,
                (Ok(found), _) => return Ok(numbers(&events[..found])),
                (Err(errno), _) => return Err(os_error(errno)),
            }
        }
    }

    /// A descriptor of the kernel's, for any event loop: it can be read when poll(0) is to be called, which also turns
    /// the stack. It stays so while poll(0) finds something.
    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        let (live, fd) = self.open()?;
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        if outside.is_none() {
            *outside = Some(Arc::new(py.detach(|| ExternalLoop::new(&live.runner, fd))?));
        }
        Ok(outside.as_ref().map_or(-1, |outside| outside.fd()))
    }

    /// Lets the set go.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.end()).map_err(os_error)
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
        // No caller is left to hear of an error.
        let _ = self.end();
    }
}
