//! Bytes between Python and the stack. While a call runs without Python's lock it touches no memory that Python could
//! change: it receives into room of its thread's, and sends from `bytes` only.

use crate::failure::because;
use crate::live::AT_ONCE;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};
use sock::{RecvFlags, SendFlags};
use std::cell::Cell;

thread_local! {
    /// Where a thread receives; grows to what is asked for, [`AT_ONCE`] at most.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Runs `call` with room for `len` bytes, whatever they hold.
pub(crate) fn with_room<R>(len: usize, call: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut room = ROOM.take();
    if room.len() < len {
        room.resize(len, 0);
    }
    let result = call(&mut room[..len]);
    if room.len() <= AT_ONCE {
        ROOM.set(room);
    }
    result
}

/// Bytes of a call that receives `len`: the program that waits for all of them gets so many, others no more than fit
/// at once.
pub(crate) fn room_for(len: isize, flags: Receive) -> PyResult<usize> {
    let len = usize::try_from(len).map_err(|_| PyValueError::new_err("negative buffersize in recv"))?;
    Ok(if flags.wait_all { len } else { len.min(AT_ONCE) })
}

/// Flags of a call that receives.
#[derive(Clone, Copy)]
pub(crate) struct Receive {
    pub(crate) flags: RecvFlags,
    pub(crate) wait_all: bool,
}

impl Receive {
    /// MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL; EOPNOTSUPP for what means nothing here.
    pub(crate) fn of(flags: i32) -> PyResult<Receive> {
        let known = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_WAITALL;
        // There are no signals, and no descriptors that arrive.
        let nothing = libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC;
        if flags & libc::MSG_OOB != 0 {
            return Err(because(libc::EINVAL, "there is no urgent data"));
        }
        if flags & !(known | nothing) != 0 {
            return Err(because(libc::EOPNOTSUPP, &format!("flags {flags:#x} of a call that receives")));
        }
        let peek = flags & libc::MSG_PEEK != 0;
        let wait_all = flags & libc::MSG_WAITALL != 0 && !peek;
        let dont_wait = flags & libc::MSG_DONTWAIT != 0;
        Ok(Receive { flags: RecvFlags { peek, dont_wait, ..RecvFlags::default() }, wait_all })
    }
}

/// MSG_DONTWAIT, MSG_MORE, MSG_EOR; EOPNOTSUPP for what means nothing here.
pub(crate) fn send_flags(flags: i32) -> PyResult<SendFlags> {
    // There are no signals; what confirms a neighbour does nothing for TCP on Linux either.
    let nothing = libc::MSG_NOSIGNAL | libc::MSG_CONFIRM;
    if flags & !(libc::MSG_DONTWAIT | libc::MSG_MORE | libc::MSG_EOR | nothing) != 0 {
        return Err(because(libc::EOPNOTSUPP, &format!("flags {flags:#x} of a call that sends")));
    }
    Ok(SendFlags {
        dont_wait: flags & libc::MSG_DONTWAIT != 0,
        more: flags & libc::MSG_MORE != 0,
        end_of_record: flags & libc::MSG_EOR != 0,
        zero_copy: false,
    })
}

/// A view of the bytes of any object that has some.
pub(crate) fn view<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let view = PyMemoryView::from(data)?.into_any();
    if !view.getattr("c_contiguous")?.extract::<bool>()? {
        return Err(PyBufferError::new_err("the bytes do not lie side by side"));
    }
    let format: String = view.getattr("format")?.extract()?;
    if format == "B" { Ok(view) } else { view.call_method1("cast", ("B",)) }
}

fn part<'py>(view: &Bound<'py, PyAny>, from: usize, to: usize) -> PyResult<Bound<'py, PyAny>> {
    view.get_item(PySlice::new(view.py(), from.cast_signed(), to.cast_signed(), 1))
}

/// The bytes from `from` on, [`AT_ONCE`] of them at most, copied where nothing changes them.
pub(crate) fn bytes<'py>(view: &Bound<'py, PyAny>, from: usize) -> PyResult<Bound<'py, PyBytes>> {
    let to = view.len()?.min(from + AT_ONCE);
    Ok(part(view, from, to)?.call_method0("tobytes")?.cast_into()?)
}

/// Puts bytes at the beginning of what `view` shows.
pub(crate) fn put(view: &Bound<'_, PyAny>, bytes: &[u8]) -> PyResult<()> {
    let front = part(view, 0, bytes.len())?;
    PyBuffer::<u8>::get(&front)?.copy_from_slice(view.py(), bytes)
}
