//! The policies beside real numbers, and what the tests of several policies use.

mod oracles;
pub(crate) mod testing;
