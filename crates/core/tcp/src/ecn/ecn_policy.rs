//! Which feedback of ECN is asked for and agreed to.

use alloc::string::{String, ToString};

use crate::config::Value;

/// ECN mode to request when connecting, and to accept when a peer asks; the numbers are those of Linux's tcp_ecn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnPolicy {
    /// Nothing, nothing.
    Off = 0,
    /// Ask for RFC 3168's, agree to it.
    On = 1,
    /// Ask for nothing, agree to RFC 3168's.
    Passive = 2,
    /// Ask for accurate feedback, agree to either (RFC 9768).
    Accurate = 3,
    /// Ask for RFC 3168's, agree to either.
    OnAccurate = 4,
    /// Ask for nothing, agree to either.
    #[default]
    PassiveAccurate = 5,
}

impl EcnPolicy {
    /// All of them, in the order of their numbers.
    pub const ALL: [EcnPolicy; 6] = [
        EcnPolicy::Off,
        EcnPolicy::On,
        EcnPolicy::Passive,
        EcnPolicy::Accurate,
        EcnPolicy::OnAccurate,
        EcnPolicy::PassiveAccurate,
    ];

    /// As settings write it.
    pub const fn name(self) -> &'static str {
        match self {
            EcnPolicy::Off => "off",
            EcnPolicy::On => "on",
            EcnPolicy::Passive => "passive",
            EcnPolicy::Accurate => "accurate",
            EcnPolicy::OnAccurate => "on-accurate",
            EcnPolicy::PassiveAccurate => "passive-accurate",
        }
    }

    /// Do our SYNs ask for RFC 3168's feedback?
    pub(crate) fn asks_classic(self) -> bool {
        matches!(self, EcnPolicy::On | EcnPolicy::OnAccurate)
    }

    /// Do they ask for accurate feedback?
    pub(crate) fn asks_accurate(self) -> bool {
        self == EcnPolicy::Accurate
    }

    /// Do we agree to RFC 3168's feedback?
    pub(crate) fn accepts_classic(self) -> bool {
        self != EcnPolicy::Off
    }

    /// Do we agree to accurate feedback?
    pub(crate) fn accepts_accurate(self) -> bool {
        matches!(self, EcnPolicy::Accurate | EcnPolicy::OnAccurate | EcnPolicy::PassiveAccurate)
    }
}

impl Value for EcnPolicy {
    fn parse(text: &str) -> Option<Self> {
        let number = text.parse().ok().and_then(|number: usize| EcnPolicy::ALL.get(number).copied());
        number.or_else(|| EcnPolicy::ALL.into_iter().find(|policy| policy.name() == text))
    }
    fn show(self) -> String {
        self.name().to_string()
    }
    fn within(self, _: Self, _: Self) -> bool {
        true
    }
}
