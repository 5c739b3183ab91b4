//! Goal: programs in C, compiled by `cc` against the installed library with nothing but pkg-config's word, run and
//! move bytes that arrive as they were sent.
//!
//! Those that talk to the kernel need root for network namespaces; without it they say that they were skipped.

mod differential;
mod examples;
mod installed;
mod mtcp;
mod pages;
