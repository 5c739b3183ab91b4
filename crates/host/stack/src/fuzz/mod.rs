//! Models of the stack's tables: operations read from bytes, checked against plain oracles. Each is both a
//! seeded test and a fuzz target; a broken promise panics.

mod hosts;
pub(crate) mod ports;
mod timewait;

pub use hosts::hosts;
pub use ports::ports;
pub use timewait::time_waits;

#[cfg(test)]
mod tests {
    //! Goal: the models hold for seeded bytes; a failure says its seed.
    use base::Rng;

    fn seeded(runs: u64, bytes: u64, model: fn(&[u8])) {
        for seed in 0..runs {
            eprintln!("seed {seed}");
            let mut rng = Rng::new(seed);
            let mut data = vec![0; rng.below(bytes) as usize];
            rng.fill(&mut data);
            model(&data);
        }
    }

    #[test]
    fn a_plain_list_holds_the_same_time_waits() {
        seeded(300, 3000, super::time_waits);
    }

    #[test]
    fn a_plain_list_remembers_the_same_of_peers() {
        seeded(400, 600, super::hosts);
    }

    #[test]
    fn a_plain_list_of_holders_explains_every_port() {
        seeded(400, 3000, super::ports);
    }
}
