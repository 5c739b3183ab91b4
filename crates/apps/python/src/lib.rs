//! `millstream._millstream`: stacks, sockets and epoll sets for Python, over `sock` (what waits
//! sleeps where a signal ends it). The package around it, in `millstream/`, has what is easier said in Python;
//! docs/PYTHON.md is the guide.
//!
//! Every call that may touch the stack lets go of Python's lock first. The stack's own lock is never held by the
//! program that waits for Python's.
#![forbid(unsafe_code)]

mod address;
mod bytes;
mod epoll;
mod failure;
mod host;
mod live;
mod socket;
mod stack;

use pyo3::pymodule;

/// Contents of the package.
#[pymodule]
mod _millstream {
    #[pymodule_export]
    use super::epoll::Epoll;
    #[pymodule_export]
    use super::live::forked;
    #[pymodule_export]
    use super::socket::Socket;
    #[pymodule_export]
    use super::stack::{Stack, settings};
}
