//! The host's side of a card: what the stack calls.

use super::link::{Ask, News};
use super::tally::{other_names, receiver_names};
use super::worker::SUPERS;
use super::{ANSWER, Card, Workers};
use crate::port::*;
use base::{Addr, Duration, FlowKey, Instant};
use ring::Frame;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;

impl Card {
    /// Lets workers without threads work.
    fn step(&mut self) {
        if let Workers::Steps(steps) = &mut self.workers {
            steps.run();
        }
    }

    /// Takes the messages of the worker at the link.
    fn hear(&mut self) {
        while let Some(news) = self.news.pop() {
            match news {
                News::Net(event) => self.events.push(event),
                News::Begun => self.begun = true,
                // A claim that was given up is of no use any more.
                News::Claimed(nth, answer) => self.claimed = (nth == self.claims).then_some((nth, answer)),
                News::Failed(IoError::Down) => self.down = true,
                News::Failed(error) => self.failed = Some(error),
                News::Well => self.down = false,
            }
        }
    }

    /// Why nothing comes any more, if so.
    fn end(&mut self) -> Option<IoError> {
        if let Some(number) = self.state.lost()
            && !std::mem::replace(&mut self.told, true)
            && !self.gone.load(Ordering::Acquire)
        {
            eprintln!(
                "millstream: {}: {} panicked; the port is closed",
                self.caps.name,
                self.who(number as usize)
            );
        }
        (self.told || self.gone.load(Ordering::Acquire)).then_some(IoError::Gone)
    }

    pub(super) fn who(&self, number: usize) -> String {
        match number.checked_sub(self.receivers) {
            None => format!("receive worker {number}"),
            Some(0) => "the worker that moves packets up".into(),
            Some(_) => "the worker at the link".into(),
        }
    }

    /// Is there something for `rx` to hand up or to say?
    fn is_ready(&mut self) -> bool {
        !self.incoming.is_empty()
            || !self.news.is_empty()
            || self.state.lost().is_some()
            || self.gone.load(Ordering::Acquire)
            || self.due.is_some_and(|due| due <= (self.clock)())
    }

    /// Waits until `done`, for no longer than an answer may take; false if that was too long, or nothing will answer.
    fn await_answer(&mut self, mut done: impl FnMut(&mut Card) -> bool) -> bool {
        let deadline = (self.clock)() + ANSWER;
        let mut steps = 0;
        loop {
            self.hear();
            if done(self) {
                return true;
            }
            if let Workers::Steps(_) = self.workers {
                // Their time may stand still: each step lets the worker at the link have a turn.
                steps += 1;
                self.step();
                if steps > 100 {
                    return false;
                }
                continue;
            }
            let left = deadline.since((self.clock)());
            if left.is_zero() || self.end().is_some() {
                return false;
            }
            self.link.ring();
            let Card { bell, news, .. } = self;
            if bell.sleep(Some(left.min(LOOK)), || !news.is_empty()).is_err() {
                return false;
            }
        }
    }

    /// Asks the worker at the link for something, and waits until it has room for it. A request that nothing takes any
    /// more is forgotten with the port.
    fn ask(&mut self, ask: Ask) -> bool {
        let mut ask = Some(ask);
        let asked = self.await_answer(|card| match ask.take().map(|ask| card.asks.push(ask)) {
            Some(Err(back)) => {
                ask = Some(back);
                false
            }
            _ => true,
        });
        self.link.ring();
        asked
    }

    /// Wakes the worker at the link if it waits for what was given back.
    fn pay(&mut self) {
        if std::mem::take(&mut self.owes) {
            self.link.ring();
        }
    }

    /// A sleep that was announced is over.
    fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.bell.flag().awake();
            self.bell.drain();
        }
    }
}

/// How often a thread that waits for an answer checks that a worker is left to give it.
const LOOK: Duration = Duration::from_millis(50);

impl PacketIo for Card {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        let frame = self.free.pop();
        if frame.is_none() {
            self.no_frame += 1;
            self.link.ring();
        }
        frame
    }

    fn take_long(&mut self) -> Option<Frame> {
        let Some(long) = &mut self.long else { return self.take() };
        let frame = long.pop();
        if frame.is_none() {
            self.no_frame += 1;
            self.link.ring();
        }
        frame
    }

    fn retire(&mut self, frame: Frame) {
        let kept = if self.pool.owns(&frame) {
            // Whose worker has none left does without, so no thread is woken.
            self.supers[frame.index() as usize / SUPERS].push(frame)
        } else {
            self.owes = true;
            self.retired.push(frame)
        };
        assert!(kept.is_ok(), "there is room for every frame that may be out");
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.disarm();
        self.pay();
        self.step();
        let before = batch.len();
        batch.append(&mut self.rest);
        self.incoming.pop_batch(batch, BATCH_MAX.saturating_sub(batch.len()));
        // A packet of which not all frames are here waits for the rest.
        let whole = batch.iter().rposition(|packet| !packet.meta.more).map_or(before, |last| last + 1);
        self.rest.extend(batch.drain(whole.max(before)..));
        let got = batch.len() - before;
        if got > 0 {
            self.up.ring();
        }
        if let Workers::Steps(steps) = &mut self.workers {
            let waits = steps.is_ready() || !self.incoming.is_empty();
            self.due = if waits { Some((self.clock)()) } else { steps.due() };
        }
        self.hear();
        // What is handed up is not lost for what the port says.
        if got > 0 {
            return Ok(got);
        }
        let down = || self.down.then_some(IoError::Down);
        match self.failed.take().or_else(down).or_else(|| self.end()) {
            None => Ok(0),
            Some(error) => Err(error),
        }
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        if let Some(end) = self.end() {
            return Err(end);
        }
        let before = batch.len();
        while !batch.is_empty() && self.sending.push_batch(&mut std::iter::from_fn(|| batch.pop_front())) > 0
        {
        }
        let taken = before - batch.len();
        if taken > 0 {
            self.owes = false;
            self.link.ring();
        }
        self.step();
        Ok(taken)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.disarm();
        self.pay();
        self.step();
        self.armed = true;
        self.bell.drain();
        self.bell.flag().announce();
        fds.push(self.bell.fd().as_raw_fd());
        Ok(!self.is_ready())
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        if self.caps.shares_kernel_addresses { Some(self) } else { None }
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Some(self)
    }

    fn delays(&self) -> Option<&dyn Delays> {
        Some(self)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let mut all: Vec<_> = match &self.workers {
            Workers::Steps(steps) => steps.link.io.stats(),
            // As they were when the worker at the link last had time for it.
            Workers::Threads { .. } => self.port.0.iter().copied().zip(self.port.1.values()).collect(),
        };
        all.push(("card_no_frame", self.no_frame));
        let (receivers, others) = self.tallies.split_at(self.receivers);
        for (nth, tally) in receivers.iter().enumerate() {
            all.extend(receiver_names(nth).iter().map(String::as_str).zip(tally.values()));
        }
        let others = others.iter().flat_map(|tally| tally.values());
        all.extend(other_names().iter().map(String::as_str).zip(others));
        all
    }
}

impl Claims for Card {
    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        self.claims += 1;
        let nth = self.claims;
        let late = || ClaimError::Os(std::io::ErrorKind::TimedOut.into());
        if !self.ask(Ask::Claim(nth, *claim)) || !self.await_answer(|card| card.claimed.is_some()) {
            return Err(late());
        }
        self.claimed.take().map_or_else(|| Err(late()), |(_, answer)| answer)
    }

    fn release(&mut self, claim: &PortClaim) {
        self.ask(Ask::Release(*claim));
    }

    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        Some(self)
    }
}

impl Sharing for Card {
    fn serve(&mut self, claim: &PortClaim, wanted: bool) {
        self.ask(Ask::Serve(*claim, wanted));
    }

    fn set_role(&mut self, claim: &PortClaim, role: Role) {
        self.ask(Ask::Role(*claim, role));
    }

    fn answerer(&self, _: &FlowKey, _: bool) -> Answerer {
        Answerer::Ours
    }

    fn on_flow(&mut self, key: &FlowKey, lives: bool) {
        self.ask(Ask::Flow(*key, lives));
    }

    fn hand_over(&mut self, _: &FlowKey, _: &[u8]) -> bool {
        false
    }

    fn take_over(&mut self, _: &mut Vec<u8>) -> bool {
        false
    }
}

impl Delays for Card {
    fn due(&self) -> Option<Instant> {
        self.due
    }

    fn on_round_trip(&self, key: &FlowKey, srtt: Duration) {
        if let Some(round_trips) = &self.round_trips {
            round_trips.tell(self.steering.strong_flow(key), srtt);
        }
    }
}

impl NetEvents for Card {
    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        if !self.begun {
            // Without addresses and routes the stack could do nothing.
            self.await_answer(|card| card.begun);
        }
        self.hear();
        events.append(&mut self.events);
    }

    fn resolve(&mut self, addr: Addr) {
        self.ask(Ask::Resolve(addr));
    }
}
