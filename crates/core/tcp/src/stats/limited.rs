//! Limits of sending and receiving, and how long each of them held a connection.

use base::Duration;

base::names! {
    /// Limit of a connection's sending.
    pub enum Limit {
        Application: "application", "Nothing waits to be sent, or too little to be worth a segment (Nagle, TCP_CORK).",
        Buffer: "send-buffer", "All was sent, and the application waits for room to write more.",
        Window: "peer-window", "The peer's window is full.",
        Congestion: "congestion-window", "The congestion window is full.",
        Pacing: "pacing", "The rate that the policy or the application set lets no more go.",
        Recovery: "loss-recovery", "What was lost is being sent again.",
        Stack: "stack", "The core had no frame, or its port no room.",
    }
}

base::names! {
    /// Limit of the peer's sending, as far as the receiver can tell.
    pub enum ReceiveLimit {
        Peer: "peer", "Nothing here: the peer has no more, or the path carries no more.",
        Reader: "reader", "Data wait to be read, so the window that is offered is small or shut.",
        Buffer: "receive-buffer", "What is read in a round trip nearly fills the receive buffer.",
    }
}

/// RFC 4898's three kinds of limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Receiver,
    Congestion,
    Sender,
}

impl Limit {
    pub(super) const COUNT: usize = Limit::ALL.len();

    pub(super) fn kind(self) -> Kind {
        match self {
            Limit::Window => Kind::Receiver,
            Limit::Congestion | Limit::Recovery => Kind::Congestion,
            Limit::Application | Limit::Buffer | Limit::Pacing | Limit::Stack => Kind::Sender,
        }
    }
}

/// How often a connection came into each of RFC 4898's states, and how long it was held by what. What is not held
/// is limited by its application.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Limited {
    pub(super) times: [u32; Limit::COUNT],
    pub(super) entries: [u32; 3],
    /// When what limits it now began to, milliseconds.
    pub(super) since: u32,
    /// For how long the offered window was shut because the application did not read, and since when it is,
    /// milliseconds.
    pub(super) reader: u32,
    pub(super) reader_since: u32,
}

impl Limited {
    /// For how long it was held by `limit`; zero for the application, whose time is all the rest.
    pub fn time(&self, limit: Limit) -> Duration {
        Duration::from_millis(self.times[limit as usize].into())
    }

    /// For how long the window offered to the peer was shut because nothing read.
    pub fn reader(&self) -> Duration {
        Duration::from_millis(self.reader.into())
    }

    /// tcpEStatsPerfSndLimTransRwin: how often the peer's window became what it waits for.
    pub fn receiver_transitions(&self) -> u32 {
        self.entries[Kind::Receiver as usize]
    }

    /// tcpEStatsPerfSndLimTransCwin: the congestion window, or a repair.
    pub fn congestion_transitions(&self) -> u32 {
        self.entries[Kind::Congestion as usize]
    }

    /// tcpEStatsPerfSndLimTransSnd: this end itself, after one of the others.
    pub fn sender_transitions(&self) -> u32 {
        self.entries[Kind::Sender as usize]
    }

    /// tcpEStatsPerfSndLimTimeRwin, and tcpEStatsPerfSndLimTimeCwin.
    pub fn times_by_receiver_and_congestion(&self) -> (Duration, Duration) {
        (self.time(Limit::Window), self.time(Limit::Congestion) + self.time(Limit::Recovery))
    }
}
