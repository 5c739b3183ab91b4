//! The end of connections: TIME-WAIT and the resets for segments of none.

pub(crate) mod reset;
pub(crate) mod timewait;
