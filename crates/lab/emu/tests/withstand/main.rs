//! Adverse conditions in virtual time: whole stacks over networks with every ill, each run
//! repeated by its seed. `MILLSTREAM_SEED` replays one and `MILLSTREAM_SEEDS` tries many;
//! `MILLSTREAM_SOAK_BYTES`, `MILLSTREAM_FLOOD_SYNS` and `MILLSTREAM_CHURN` make the long runs long.

mod active_ack;
mod card;
mod chaos;
mod churn;
mod exhaustion;
mod fast_open;
mod flood;
mod harness;
mod held;
mod hoarding;
mod lanes;
mod looking;
mod microseconds;
mod opening;
mod path;
mod peer;
mod piped;
mod replay;
mod routed;
mod siftr;
mod spread;
mod transfer;
mod vanishing;
mod waiting;
