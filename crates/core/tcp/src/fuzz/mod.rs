//! Models of the parts: operations read from octets, checked against plain oracles. Each is both a seeded
//! test and a fuzz target; a broken promise panics.

mod assembler;
mod chain;
mod connection;
mod cookie;
mod rtt;
mod scoreboard;
mod timewait;

pub use assembler::assembler;
pub use chain::chain;
pub use connection::connection;
pub use cookie::cookie;
pub use rtt::rtt;
pub use scoreboard::scoreboard;
pub use timewait::time_wait;

#[cfg(test)]
pub(crate) use cookie::segment;

/// Takes numbers from octets; zeros once they are used up.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Input(data)
    }

    /// Is there nothing left?
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// A number below `bound`, which is at most 65,536.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        if bound <= 256 { u32::from(self.u8()) % bound.max(1) } else { u32::from(self.u16()) % bound }
    }
}

#[cfg(test)]
pub(crate) mod seeded {
    //! Runs a model on seeded octets and says which seed failed.
    extern crate std;

    use alloc::vec;
    use base::Rng;

    struct Named(&'static str, u64);

    impl Drop for Named {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::eprintln!("model {}: failed with seed {}", self.0, self.1);
            }
        }
    }

    pub(crate) fn seeded(name: &'static str, runs: u64, octets: usize, model: impl Fn(&[u8])) {
        for seed in 0..runs {
            let _named = Named(name, seed);
            let mut data = vec![0; octets];
            Rng::new(seed).fill(&mut data);
            model(&data);
        }
    }
}
