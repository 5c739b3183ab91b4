//! Room.
#![forbid(unsafe_code)]
