//! Models of the parts: operations read from bytes, checked against plain oracles. Each is both a seeded
//! test and a fuzz target; a broken promise panics.

pub(crate) mod assembler;
mod chain;
mod connection;
mod cookie;
mod frames;
mod pair;
mod resent;
mod rtt;
pub(crate) mod scoreboard;
mod send_buffer;
mod sent;
mod timewait;

pub use assembler::assembler;
pub use chain::chain;
pub use connection::connection;
pub use cookie::cookie;
pub use pair::{Course, pair, pair_bytes, pair_told};
pub use resent::resent;
pub use rtt::rtt;
pub use scoreboard::scoreboard;
pub use send_buffer::send_buffer;
pub use sent::sent;
pub use timewait::time_wait;

pub(crate) use base::Input;
#[cfg(test)]
pub(crate) use cookie::segment;

#[cfg(test)]
pub(crate) mod seeded {
    //! Runs a model on seeded bytes and says which seed failed.
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

    pub(crate) fn seeded(name: &'static str, runs: u64, bytes: usize, model: impl Fn(&[u8])) {
        for seed in 0..runs {
            let _named = Named(name, seed);
            let mut data = vec![0; bytes];
            Rng::new(seed).fill(&mut data);
            model(&data);
        }
    }
}
