//! A many-core network card in software: receive offload on other cores than the stack's.
//!
//! ```text
//!  link's port       rx 0 ─┬─ control ─┐
//!   (owned by ──flow─> ... ├─ data ────┴─> up: control first, ──> host's ring ──> rx   the stack's thread
//!   the worker        rx n ┘                bytes shared fairly                       (this layer)
//!   at the link) <────────────────── packets to send, requests ────────────────────  tx
//! ```
//! A flow is always the same receive worker's ([`base::SipKey`]), which checks its packets, and merges those that
//! continue each other into one, in a frame of its own ([`offload::Engine`]); the worker that moves packets up takes
//! first what carries no data, and of data the same bytes of every program ([`offload::Arbiter`]). So packets of
//! different flows overtake each other, and packets of a flow never. Nothing is dropped, acknowledged or made up: what
//! the stack reads is what came. Between two workers there is one queue for each direction, written by one and read by
//! the other, and no lock.
//!
//! **Whose frames.** Those of the link's port come up with packets that were not merged, and down with packets to send.
//! A merged packet has a large frame of its worker's, to whom it returns from the host. At most [`OUT_MAX`] frames are
//! not the port's, and every queue has room for as many, so none is ever full: where the host takes nothing, the worker
//! at the link leaves packets in the link, which is the only back-pressure there is. Where large frames lack, packets
//! go up as they came.
//!
//! **Dates** are each worker's own: what an engine holds goes up by its worker's clock, and no other looks at it.
//!
//! **The end.** A worker that panics ends the port: packets on their way up are delivered, then comes
//! [`IoError::Gone`]. When the layer is dropped the workers are woken, and waited for; each of their turns is bounded.

pub(crate) mod fuzz;
mod host;
mod link;
mod merged;
mod mover;
mod receiver;
mod round_trips;
mod steps;
mod tally;
#[cfg(test)]
mod tests;
mod threads;
mod wire;
mod worker;

pub use self::worker::{CardConfig, RECEIVERS_MAX};

use self::link::{Ask, Link, News};
use self::mover::{From, Mover};
use self::receiver::Receiver;
use self::round_trips::RoundTrips;
use self::steps::Steps;
use self::tally::Tally;
use self::threads::{Clock, Life, State, Threads};
use self::worker::{FREE, HOST_RING, LONG, OUT_MAX, SUPERS};
use crate::port::*;
use base::{Duration, Instant, Rng, SipKey};
use ring::{Consumer, Frame, FramePool, Producer, Ringer, Sleeper, doorbell, queue};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Packets on their way to the link.
const SENDING: usize = 64;
/// Bytes of a large frame.
const SUPER: usize = 1 << 16;
/// Requests and news under way.
const TALK: usize = 256;
/// How long an answer of the worker at the link may take.
const ANSWER: Duration = Duration::from_secs(2);

const _: () =
    assert!(4 * BATCH_MAX + FREE + SENDING < OUT_MAX, "packets to send leave room for those that come");

/// The workers.
enum Workers {
    /// Threads; dropping them ends them.
    Threads {
        _threads: Threads,
    },
    Steps(Box<Steps>),
}

/// A port that has received packets checked, merged and put in order of their urgency by workers: receive offload on
/// other cores than the stack's.
pub struct Card {
    caps: Caps,
    workers: Workers,
    receivers: usize,
    incoming: Consumer<RxPacket>,
    /// The first frames of a packet that goes on in the next batch.
    rest: Vec<RxPacket>,
    free: Consumer<Frame>,
    long: Option<Consumer<Frame>>,
    sending: Producer<TxPacket>,
    retired: Producer<Frame>,
    supers: Vec<Producer<Frame>>,
    /// Pool that owns the large frames; it holds none of them itself.
    pool: FramePool,
    asks: Producer<Ask>,
    news: Consumer<News>,
    /// Events that were received and not asked for yet.
    events: Vec<NetEvent>,
    begun: bool,
    claims: u64,
    claimed: Option<(u64, Result<(), ClaimError>)>,
    failed: Option<IoError>,
    /// The port said that it is down, and nothing else since.
    down: bool,
    gone: Arc<AtomicBool>,
    state: Arc<State>,
    /// That a worker is gone was said.
    told: bool,
    clock: Clock,
    bell: Sleeper,
    /// A sleep was announced.
    armed: bool,
    link: Ringer,
    up: Ringer,
    /// Frames were retired that the worker at the link has not been woken for.
    owes: bool,
    /// When workers without threads are to be let work again.
    due: Option<Instant>,
    no_frame: u64,
    /// The hash that deals flows to workers, and what they are told of flows, if they hold anything.
    steering: SipKey,
    round_trips: Option<Arc<RoundTrips>>,
    tallies: Vec<Arc<Tally>>,
    port: (Vec<&'static str>, Arc<Tally>),
}

/// The workers before they live, and how to wake each.
struct Made {
    link: Link,
    receivers: Vec<(Receiver, Ringer)>,
    mover: Mover,
}

impl Card {
    /// Puts a card on a port. Its workers have threads called `name` and what they do; each first calls `begin` with
    /// its number: the receive workers from 0, then the one on the way up, then the one at the link. `clock` is the one
    /// that the stack above lives by.
    ///
    /// # Errors
    /// No memory, no thread or no bell is to be had.
    ///
    /// # Panics
    /// Without a receive worker, or with more than [`RECEIVERS_MAX`].
    pub fn over(
        below: Box<dyn PacketIo>,
        config: &CardConfig,
        name: &str,
        clock: impl Fn() -> Instant + Send + Sync + 'static,
        begin: impl Fn(usize) + Send + Clone + 'static,
    ) -> io::Result<Card> {
        let state = Arc::new(State::default());
        Card::build(
            below,
            config,
            Arc::new(clock),
            state.clone(),
            |Made { link, receivers, mover }, host, clock| {
                let life = Life { state: state.clone(), clock: clock.clone(), spin: config.spin, host };
                let mut threads = Threads::new(state);
                let count = receivers.len();
                for (nth, (receiver, bell)) in receivers.into_iter().enumerate() {
                    let (begin, name) = (begin.clone(), format!("{name}-rx{nth}"));
                    threads.start(name, receiver, life.clone(), bell, move || begin(nth))?;
                }
                let (bell, begin_up) = (mover.sleeper.ringer(), begin.clone());
                threads.start(format!("{name}-up"), mover, life.clone(), bell, move || begin_up(count))?;
                let bell = link.sleeper.ringer();
                threads.start(format!("{name}-link"), link, life, bell, move || begin(count + 1))?;
                Ok(Workers::Threads { _threads: threads })
            },
        )
    }

    /// Makes a card without threads: the workers have their turns while the stack receives and sends, in an order
    /// that the seed says; for virtual time, and for runs that can be played again.
    ///
    /// # Errors
    /// No memory or no bell is to be had.
    ///
    /// # Panics
    /// As [`Card::over`].
    pub fn in_turns(
        below: Box<dyn PacketIo>,
        config: &CardConfig,
        clock: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> io::Result<Card> {
        let rng = Rng::new(config.seed);
        Card::build(
            below,
            config,
            Arc::new(clock),
            Arc::default(),
            |Made { link, receivers, mover }, _, clock| {
                let receivers = receivers.into_iter().map(|(receiver, _)| receiver).collect();
                Ok(Workers::Steps(Box::new(Steps { link, receivers, mover, clock: clock.clone(), rng })))
            },
        )
    }

    fn build(
        below: Box<dyn PacketIo>,
        config: &CardConfig,
        clock: Clock,
        state: Arc<State>,
        live: impl FnOnce(Made, Ringer, &Clock) -> io::Result<Workers>,
    ) -> io::Result<Card> {
        assert!((1..=RECEIVERS_MAX).contains(&config.receivers), "{} receive workers", config.receivers);
        let sums = below.caps().tx_checksum;
        let keeps_long = below.caps().tso_max > 0;
        // What the port does not sum, the worker at the link does.
        let caps = Caps { tx_checksum: true, wants_round_trips: config.holds(), ..below.caps().clone() };
        debug_assert!(sums || below.caps().tso_max == 0, "segments are cut where they are summed");
        let mut pool = FramePool::new((config.receivers * SUPERS) as u32, SUPER)?;
        let (host, bell) = doorbell()?;
        let (up, up_sleeper) = doorbell()?;
        let (mut receivers, mut from, mut ends, mut supers) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let round_trips = config.holds().then(|| Arc::new(RoundTrips::new()));
        for _ in 0..config.receivers {
            let (inbox, control, data) = (queue(OUT_MAX), queue(OUT_MAX), queue(OUT_MAX + SUPERS));
            let (used, back) = (queue(OUT_MAX), queue(SUPERS));
            let (ringer, sleeper) = doorbell()?;
            let queues = receiver::Queues {
                inbox: inbox.1,
                control: control.0,
                data: data.0,
                used: used.0,
                supers: back.1,
                up: up.clone(),
                round_trips: round_trips.clone(),
            };
            let large = (0..SUPERS).filter_map(|_| pool.take()).collect();
            receivers.push((Receiver::new(queues, config, below.caps(), large, sleeper), ringer.clone()));
            from.push(From::new(control.1, data.1));
            ends.push((inbox.0, used.1, ringer));
            supers.push(back.0);
        }
        let (to_host, incoming) = queue(HOST_RING);
        let mover = Mover::new(from, to_host, host.clone(), up_sleeper);
        let (free, long) = (queue(FREE), keeps_long.then(|| queue(LONG)));
        let (long, long_host) = long.unzip();
        let (retired, sending, asks, news) = (queue(OUT_MAX), queue(SENDING), queue(TALK), queue(TALK));
        let queues = link::Queues {
            receivers: ends,
            retired: retired.1,
            sending: sending.1,
            asks: asks.1,
            free: free.0,
            long,
            news: news.0,
            host: host.clone(),
        };
        let gone = Arc::new(AtomicBool::new(false));
        let link = Link::new(below, queues, config, gone.clone(), doorbell()?.1);
        let mut tallies: Vec<_> = receivers.iter().map(|(receiver, _)| receiver.tally.clone()).collect();
        tallies.extend([mover.tally.clone(), link.tally.clone()]);
        let (link_bell, port) = (link.sleeper.ringer(), link.port.clone());
        let workers = live(Made { link, receivers, mover }, host, &clock)?;
        Ok(Card {
            caps,
            workers,
            receivers: config.receivers,
            incoming,
            rest: Vec::with_capacity(BATCH_MAX),
            free: free.1,
            long: long_host,
            sending: sending.0,
            retired: retired.0,
            supers,
            pool,
            asks: asks.0,
            news: news.1,
            events: Vec::new(),
            begun: false,
            claims: 0,
            claimed: None,
            failed: None,
            down: false,
            gone,
            state,
            told: false,
            clock,
            bell,
            armed: false,
            link: link_bell,
            up,
            owes: false,
            due: None,
            no_frame: 0,
            steering: config.steering(),
            round_trips,
            tallies,
            port,
        })
    }
}
