//! The worker at the link, whose port it owns: deals what arrives to the receive workers by flow, sends what the host
//! sends, and does at the port what the host asks for.

use super::tally::{LinkCounters, Tally};
use super::worker::{CardConfig, FREE, LONG, OUT_MAX, Steered, Worker};
use crate::layers::classify::classify;
use crate::port::*;
use crate::sum::complete;
use crate::wait;
use base::{Addr, Duration, FlowKey, Instant, SipKey};
use ring::{Consumer, Frame, Producer, Ringer, Sleeper};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How soon to look again where the port takes no more, has no frame, or says that it is down.
const RETRY: Duration = Duration::from_micros(100);
/// With so much to tell the port is not asked for more, nor requests taken.
const OUTBOX: usize = 1024;
/// How often the port is asked for news while packets come without a pause.
const NEWS_EVERY: u32 = 64;

/// Request of the host to the port.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    /// To be answered by [`News::Claimed`] with the same number.
    Claim(u64, PortClaim),
    Release(PortClaim),
    Serve(PortClaim, bool),
    Role(PortClaim, Role),
    Flow(FlowKey, bool),
    Resolve(Addr),
}

/// Message of the port to the host.
#[derive(Debug)]
pub(super) enum News {
    Net(NetEvent),
    /// All that the port said first of all was told.
    Begun,
    Claimed(u64, Result<(), ClaimError>),
    Failed(IoError),
    /// The port works again after an error.
    Well,
}

/// The queues of the worker at the link.
pub(super) struct Queues {
    /// To each receive worker, from it its frames, and its bell.
    pub(super) receivers: Vec<(Producer<Steered>, Consumer<Frame>, Ringer)>,
    /// From the host: frames that it has received, packets to send, requests.
    pub(super) retired: Consumer<Frame>,
    pub(super) sending: Consumer<TxPacket>,
    pub(super) asks: Consumer<Ask>,
    /// To the host: frames to send in, long ones too where the port keeps them apart, and news.
    pub(super) free: Producer<Frame>,
    pub(super) long: Option<Producer<Frame>>,
    pub(super) news: Producer<News>,
    pub(super) host: Ringer,
}

pub(super) struct Link {
    pub(super) io: Box<dyn PacketIo>,
    queues: Queues,
    key: SipKey,
    sums: bool,
    /// Frames that are not the port's at this moment.
    out: usize,
    rx: RxBatch,
    tx: TxBatch,
    frames: Vec<Frame>,
    events: Vec<NetEvent>,
    /// Messages to be sent.
    outbox: VecDeque<News>,
    /// Where each packet of a batch goes, and what went where.
    places: Vec<(usize, u64, u32)>,
    dealt: Vec<Vec<Steered>>,
    begun: bool,
    /// The port is gone for good: the host sees it here.
    gone: Arc<AtomicBool>,
    /// That it fails was told.
    failing: bool,
    /// Something is to be tried again soon.
    again: bool,
    turns: u32,
    slept: bool,
    now: Instant,
    pub(super) sleeper: Sleeper,
    counts: LinkCounters,
    pub(super) tally: Arc<Tally>,
    /// The port's own counters, whose names do not change.
    pub(super) port: (Vec<&'static str>, Arc<Tally>),
}

impl Link {
    pub(super) fn new(
        io: Box<dyn PacketIo>,
        queues: Queues,
        config: &CardConfig,
        gone: Arc<AtomicBool>,
        sleeper: Sleeper,
    ) -> Link {
        let names: Vec<_> = io.stats().into_iter().map(|(name, _)| name).collect();
        let port = Arc::new(Tally::new(names.len()));
        Link {
            key: config.steering(),
            sums: !io.caps().tx_checksum,
            out: 0,
            rx: RxBatch::with_capacity(BATCH_MAX),
            tx: TxBatch::with_capacity(BATCH_MAX),
            frames: Vec::with_capacity(OUT_MAX),
            events: Vec::new(),
            outbox: VecDeque::new(),
            places: Vec::with_capacity(BATCH_MAX),
            dealt: queues.receivers.iter().map(|_| Vec::with_capacity(BATCH_MAX)).collect(),
            begun: false,
            gone,
            failing: false,
            again: false,
            turns: 0,
            slept: false,
            now: Instant::ZERO,
            sleeper,
            counts: LinkCounters::default(),
            tally: Arc::new(Tally::new(LinkCounters::ROWS.len())),
            port: (names, port),
            io,
            queues,
        }
    }

    /// Others see the port's own counters as they are now.
    fn publish_port(&mut self) {
        let (names, values) = &self.port;
        let stats = self.io.stats();
        if stats.iter().map(|row| row.0).eq(names.iter().copied()) {
            stats.iter().enumerate().for_each(|(nth, row)| values.publish(nth, &[row.1]));
        }
    }

    /// Does what the host asks for.
    fn obey(&mut self) -> bool {
        let mut any = false;
        while self.outbox.len() < OUTBOX
            && let Some(ask) = self.queues.asks.pop()
        {
            any = true;
            match ask {
                Ask::Claim(nth, claim) => {
                    let answer = self.io.claims().map_or(Ok(()), |claims| claims.claim(&claim));
                    self.tell(News::Claimed(nth, answer));
                }
                Ask::Release(claim) => drop(self.io.claims().map(|claims| claims.release(&claim))),
                Ask::Serve(claim, wanted) => drop(self.io.sharing().map(|to| to.serve(&claim, wanted))),
                Ask::Role(claim, role) => drop(self.io.sharing().map(|to| to.set_role(&claim, role))),
                Ask::Flow(key, lives) => drop(self.io.sharing().map(|to| to.on_flow(&key, lives))),
                Ask::Resolve(addr) => drop(self.io.net().map(|net| net.resolve(addr))),
            }
        }
        any
    }

    fn tell(&mut self, news: News) {
        self.outbox.push_back(news);
    }

    /// Tells what is to be told, as far as there is room.
    fn post(&mut self) {
        let told = self.queues.news.push_batch(&mut std::iter::from_fn(|| self.outbox.pop_front()));
        if told > 0 {
            self.queues.host.ring();
        }
        self.again |= !self.outbox.is_empty();
    }

    /// Takes the kernel's news of the interface.
    fn hear(&mut self) {
        if let Some(net) = self.io.net() {
            net.net_events(&mut self.events);
            self.outbox.extend(self.events.drain(..).map(News::Net));
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.tell(News::Begun);
        }
    }

    /// Frames that nothing needs any more go back to the port.
    fn take_back(&mut self) -> bool {
        let Queues { receivers, retired, .. } = &mut self.queues;
        for (_, used, _) in receivers {
            used.pop_batch(&mut self.frames, OUT_MAX);
        }
        retired.pop_batch(&mut self.frames, OUT_MAX);
        self.out -= self.frames.len();
        let any = !self.frames.is_empty();
        for frame in self.frames.drain(..) {
            self.io.retire(frame);
        }
        any
    }

    /// Sends what the host sends, in order.
    fn send(&mut self, most: usize) -> bool {
        let mut any = false;
        while self.tx.len() < most.min(BATCH_MAX)
            && let Some(mut packet) = self.queues.sending.pop()
        {
            any = true;
            if self.sums
                && let Some(sum) = packet.meta.checksum.take()
            {
                if !complete(packet.frame.data_mut(), sum) {
                    self.counts.invalid += 1;
                    self.out -= 1;
                    self.io.retire(packet.frame);
                    continue;
                }
                self.counts.summed += 1;
            }
            self.tx.push_back(packet);
        }
        if self.tx.is_empty() {
            return any;
        }
        let before = self.tx.len();
        let sent = self.io.tx(&mut self.tx);
        let taken = before - self.tx.len();
        self.out -= taken;
        self.counts.sent += taken as u64;
        self.counts.tx_full += u64::from(!self.tx.is_empty());
        self.again |= !self.tx.is_empty();
        if let Err(error) = sent {
            self.fail(error);
        }
        any || taken > 0
    }

    /// Receives a batch, if so many frames may be out, and deals it.
    fn receive(&mut self) -> bool {
        if self.out + BATCH_MAX > OUT_MAX {
            self.counts.rx_full += 1;
            self.again = true;
            return false;
        }
        match self.io.rx(&mut self.rx) {
            Ok(_) if std::mem::take(&mut self.failing) => self.tell(News::Well),
            Ok(_) => {}
            Err(error) => self.fail(error),
        }
        let got = self.rx.len();
        self.out += got;
        self.counts.received += got as u64;
        self.deal();
        got > 0
    }

    /// Gives each packet to the worker of its flow; what is no TCP to the first.
    fn deal(&mut self) {
        let workers = self.queues.receivers.len();
        let (mut to, mut hash, mut goes_on) = (0, 0, false);
        for at in 0..self.rx.len() {
            let mut whole = 0;
            if !goes_on {
                let bytes = pieces(&self.rx[at..]).map(|packet| packet.frame.len()).sum();
                let seen = classify(self.rx[at].frame.data(), bytes, self.io.caps().medium);
                hash = seen.map_or(0, |seen| self.key.strong_flow(&seen.key));
                // By its upper half: the lower one chooses rows of the worker's table.
                to = (((hash >> 32) * workers as u64) >> 32) as usize;
                whole = bytes as u32;
            }
            goes_on = self.rx[at].meta.more;
            self.places.push((to, hash, whole));
        }
        for (packet, (to, hash, whole)) in self.rx.drain(..).zip(self.places.drain(..)) {
            self.dealt[to].push(Steered { packet, hash, whole });
        }
        for (dealt, (inbox, _, bell)) in self.dealt.iter_mut().zip(&mut self.queues.receivers) {
            if !dealt.is_empty() {
                // All of it together, so that a packet in several frames is seen whole.
                inbox.push_batch(&mut dealt.drain(..));
                bell.ring();
            }
        }
    }

    /// Keeps frames ready for the host to send in.
    fn stock(&mut self) {
        let Queues { free, long, .. } = &mut self.queues;
        let mut take = |queue: &mut Producer<Frame>, most: usize, io: &mut dyn PacketIo, is_long: bool| {
            while self.out + BATCH_MAX < OUT_MAX && queue.room() + most > queue.capacity() {
                let Some(frame) = (if is_long { io.take_long() } else { io.take() }) else {
                    self.counts.no_frame += 1;
                    self.again = true;
                    return;
                };
                self.out += 1;
                assert!(queue.push(frame).is_ok(), "there is room");
            }
        };
        take(free, FREE, self.io.as_mut(), false);
        if let Some(long) = long {
            take(long, LONG, self.io.as_mut(), true);
        }
    }

    /// The port says that something is wrong.
    fn fail(&mut self, error: IoError) {
        if matches!(error, IoError::Gone) {
            self.gone.store(true, Ordering::Release);
        }
        self.again = true;
        if !std::mem::replace(&mut self.failing, true) {
            self.tell(News::Failed(error));
        }
    }
}

/// The frames of the first packet.
fn pieces(batch: &[RxPacket]) -> impl Iterator<Item = &RxPacket> {
    let mut goes_on = true;
    batch.iter().take_while(move |packet| std::mem::replace(&mut goes_on, packet.meta.more))
}

impl Worker for Link {
    fn turn(&mut self, now: Instant, most: usize) -> bool {
        self.again = false;
        let mut any = self.obey();
        any |= self.take_back();
        any |= self.send(most);
        any |= self.receive();
        self.stock();
        self.turns = self.turns.wrapping_add(1);
        if !self.begun || self.slept || self.turns.is_multiple_of(NEWS_EVERY) {
            self.slept = false;
            if self.outbox.len() < OUTBOX {
                self.hear();
            }
            self.publish_port();
        }
        self.post();
        self.now = now;
        self.tally.publish(0, &self.counts.values());
        any
    }

    fn due(&self) -> Option<Instant> {
        Instant::earliest(self.io.delays().and_then(Delays::due), self.again.then(|| self.now + RETRY))
    }

    fn is_ready(&mut self) -> bool {
        let Queues { receivers, retired, sending, asks, .. } = &mut self.queues;
        !retired.is_empty()
            || !asks.is_empty()
            || self.tx.is_empty() && !sending.is_empty()
            || receivers.iter_mut().any(|(_, used, _)| !used.is_empty())
    }

    fn sleep(&mut self, timeout: Option<Duration>) {
        self.publish_port();
        self.slept = true;
        self.sleeper.flag().announce();
        if !self.is_ready() {
            if self.out + BATCH_MAX > OUT_MAX {
                // The port has packets, so waiting for it would be no pause.
                std::thread::sleep(RETRY);
            } else if let Err(error) = wait([&mut *self.io], &[self.sleeper.fd().as_raw_fd()], timeout) {
                self.fail(error);
                std::thread::sleep(RETRY);
            }
        }
        self.sleeper.flag().awake();
        self.sleeper.drain();
    }

    fn is_over(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}
