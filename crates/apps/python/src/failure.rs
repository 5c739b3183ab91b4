//! Errors as Python tells them: OSError with its number, of which Python makes ConnectionRefusedError and the like.

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyTimeoutError};
use sock::Errno;

/// OSError with what Linux says of this number.
pub(crate) fn os_error(errno: Errno) -> PyErr {
    let said = std::io::Error::from_raw_os_error(errno.raw()).to_string();
    let text = said.split(" (os error").next().unwrap_or(&said).to_owned();
    PyOSError::new_err((errno.raw(), text))
}

/// Makes the error with a message of this package.
pub(crate) fn because(number: i32, why: &str) -> PyErr {
    PyOSError::new_err((number, why.to_owned()))
}

/// A time-out of the socket's own, which has no number.
pub(crate) fn timed_out() -> PyErr {
    PyTimeoutError::new_err("timed out")
}
