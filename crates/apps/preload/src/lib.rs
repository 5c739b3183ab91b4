//! `libmillstream_preload`: unmodified programs on our stack. `millstream run` has the dynamic linker load it before
//! the program's libraries, so that the calls of a TCP program come here first. `table` says which descriptors are
//! ours; all others go on to the C library at once. docs/LAUNCHER.md tells people what happens to which call.
//!
//! Every descriptor of ours is a descriptor of the kernel's too, so that numbers, limits, close-on-exec and exec are
//! the kernel's business. Whose a socket becomes is decided when it is bound or connected; until then it is a TCP
//! socket of the kernel's.
//!
//! An `unsafe` function that has a name of C's and no section on safety asks of its caller what C asks.

mod accept;
mod bell;
mod boundary;
mod calls;
mod data;
mod description;
mod descriptors;
mod device;
mod diag;
mod end;
mod epoll;
mod exec;
mod fallback;
mod fork;
mod heap;
mod heritage;
pub mod hooks;
mod inside;
mod kernel;
mod launch;
mod limit;
mod listener;
mod moves;
mod names;
mod option_names;
mod options;
mod poll;
mod privileges;
mod pump;
mod real;
mod relay;
mod report;
mod rights;
mod route;
mod signals;
mod sleep;
mod sockets;
mod space;
mod spawn;
mod stack;
mod stored;
mod streams;
mod syscall;
mod table;
mod threads;
mod touch;
pub mod variadic;
