//! Accurate ECN feedback (RFC 9768): the receiver counts marks, and every segment tells how many there were.
//!
//! ```text
//!  client                                      server
//!  SYN, AE CWR ECE = 1 1 1       ------------>
//!                                <------------ SYN-ACK: the codepoint that the SYN had; counters
//!  ACK: the codepoint that the SYN-ACK had; counters
//!                                ------------>
//!  data, ACE = r.cep mod 8, ECT  <-----------> data, ACE = r.cep mod 8, ECT
//! ```
//! `receiver` counts what arrives and says when to tell, `sender` makes counts of what the peer told, `handshake`
//! agrees on it, `exchange` ties them to the connection. Connections without it pay nothing: what it needs hangs in
//! [`Cold`](crate::connection::Cold), behind one bit, and the short path of input is closed to its users by the
//! flags it expects.

mod exchange;
mod handshake;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use wire::Ecn;

pub(crate) use handshake::{Mode, recall, stateless_option, stateless_setup};
pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;

/// Both halves of a connection that has agreed on accurate ECN.
#[derive(Debug)]
pub(crate) struct AccEcn {
    pub(crate) receiver: Receiver,
    pub(crate) sender: Sender,
    /// The SYN came again: our SYN-ACK goes without an option.
    met_again: bool,
}

impl AccEcn {
    /// The mode is entered by a SYN or SYN-ACK that came with this codepoint.
    fn new(handshake: Ecn) -> AccEcn {
        AccEcn { receiver: Receiver::new(handshake), sender: Sender::new(), met_again: false }
    }
}

/// Accurate ECN of a connection, where it was agreed on.
#[derive(Default, Debug)]
pub(crate) struct AccurateEcn(Option<Box<AccEcn>>);

impl AccurateEcn {
    /// It was agreed on too early: none is used.
    pub(crate) fn forgo(&mut self) {
        self.0 = None;
    }
}
