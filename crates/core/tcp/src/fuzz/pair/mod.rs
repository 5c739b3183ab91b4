//! Two connections against each other over a path that loses, delays, reorders, doubles, damages and narrows, in
//! virtual time. Settings, fates and what the applications do follow from bytes. Once these are used up the path
//! is fair, so the connection must end in a bounded time, and both ends must know how.
//!
//! ```text
//!  app 0 ── connection 0 ──> judge 0 ──> link 0 ──> connection 1 ── app 1
//!                       <── link 1 <── judge 1 <──
//! ```

mod app;
mod end;
mod judge;
mod path;
mod plan;

use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Arguments;

use base::{Duration, Input, Instant, Rng};
use wire::tcp::Flags;

use crate::{Error, IcmpError};
use end::{Act, End};
use judge::Judge;
use path::{Cargo, Fate, Path};
use plan::Opening;

/// Most that is said of a run.
const LONGEST: u64 = 1500;
/// A run that is not over after so many steps goes in circles.
const STEPS_MAX: u32 = 400_000;
/// With less than this lost, no connection gives up.
const FEW: u32 = 5;

/// The byte at `place` of the stream that end `side` sends.
fn byte(side: usize, place: u32) -> u8 {
    (place.wrapping_mul(31) ^ (place >> 8).wrapping_mul(17)) as u8 ^ (side as u8 * 0x55)
}

/// How a run went, for those who want to know that many kinds of runs happen.
#[derive(Clone, Copy, Default, Debug)]
pub struct Course {
    /// Segments that left either end.
    pub segments: u32,
    /// Segments that did not arrive.
    pub lost: u32,
    /// Bytes that the applications read.
    pub bytes: u32,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// An end closed its window.
    pub closed_window: bool,
    /// Both applications read everything to the end.
    pub complete: bool,
    /// Errors that the applications got.
    pub errors: [Option<Error>; 2],
    /// Data went with a SYN and was taken.
    pub syn_data: bool,
}

struct Pair<'d, 't> {
    ends: [End; 2],
    judges: [Judge; 2],
    path: Path,
    now: Instant,
    input: Input<'d>,
    /// Segments in a row that arrive within this time reach an end as one, as offload merges them.
    merge: Duration,
    tell: &'t mut dyn FnMut(Instant, Arguments<'_>),
}

/// Model of a pair of connections.
///
/// # Panics
/// When a byte is lost, changed or comes twice without an error, a connection does not end, or an invariant of the
/// sequence space, the windows or the memory is broken.
pub fn pair(data: &[u8]) {
    pair_told(data, &mut |_, _| {});
}

/// As `pair`; reports every step as it happens.
///
/// # Panics
/// Likewise.
pub fn pair_told(data: &[u8], tell: &mut dyn FnMut(Instant, Arguments<'_>)) -> Course {
    let mut input = Input::new(data);
    let start = plan::start(&mut input);
    let mut ends = plan::ends(&mut input, start);
    let opening = plan::opening(&mut input, &mut ends);
    let fair = input.u8() & 1 == 0;
    // Every IPv6 link carries this much (RFC 8200, section 5).
    let least = if ends[0].key.is_v4() { 600 } else { 1280 };
    let links = [0, 1].map(|_| plan::link(&mut input, fair, start, least));
    let merge = Duration::from_micros(input.below(4000).into());
    let path = Path { links, ..Path::default() };
    let judges = [Judge::new(0), Judge::new(1)];
    let mut pair = Pair { ends, judges, path, now: start, input, merge, tell };
    let gentle = fair_play(&pair);
    if !gentle || !fair {
        pair.guard_against_silence();
    }
    pair.open(opening);
    pair.run(start);
    pair.end(gentle)
}

/// Returns the input of run number `seed`.
pub fn pair_bytes(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut data = vec![0; 200 + rng.below(LONGEST) as usize];
    rng.fill(&mut data);
    data
}

/// Does neither application end the connection before its time?
fn fair_play(pair: &Pair<'_, '_>) -> bool {
    pair.ends.iter().all(|end| {
        let app = &end.app;
        let calm = app.act.is_none_or(|(_, act)| matches!(act, Act::Options | Act::ShutWrite));
        calm && !app.hasty && end.options.linger.is_none() && end.options.user_timeout == Duration::ZERO
    }) && pair.path.links.iter().all(|link| link.outage.is_none())
}

impl Pair<'_, '_> {
    fn tell(&mut self, what: Arguments<'_>) {
        (self.tell)(self.now, what);
    }

    /// An end that is gone may have told so in a segment that was lost: the end that waits for it must ask.
    fn guard_against_silence(&mut self) {
        for end in &mut self.ends {
            end.options.keepalive = true;
            end.options.keep_idle = Duration::from_secs(60);
            end.options.keep_interval = Duration::from_secs(10);
        }
    }

    fn open(&mut self, opening: Opening) {
        self.tell(format_args!("{opening:?}"));
        let now = self.now;
        match opening {
            Opening::Fast(Some(offer)) => {
                let app = &self.ends[0].app;
                let most = if offer.takes_data() { app.total.min(3000) } else { 0 };
                let data: Vec<u8> = (0..most).map(|place| byte(0, place)).collect();
                let taken = self.ends[0].connect_fast(now, &offer, &data);
                self.ends[0].app.written = taken as u32;
            }
            Opening::Plain | Opening::Cookie | Opening::Fast(None) => self.ends[0].connect(now),
            Opening::Cross => {
                self.ends[0].connect(now);
                self.ends[1].connect(now);
            }
        }
    }

    /// From event to event until both ends are gone and nothing is under way.
    fn run(&mut self, start: Instant) {
        for step in 0.. {
            self.flush();
            let due = self.ends.iter().fold(self.path.due(), |due, end| {
                Instant::earliest(Instant::earliest(due, end.timeout()), end.app_due())
            });
            if due.is_none() && self.ends.iter().all(End::is_over) {
                return;
            }
            let at = due.unwrap_or_else(|| panic!("both ends wait for ever\n{:#?}", self.state()));
            // Every loss may cost a timeout that was doubled to the utmost.
            let timeout = Duration::from_secs(1800 + 150 * u64::from(self.path.lost));
            let late = at.since(start) > timeout || step > STEPS_MAX;
            assert!(!late, "not over after {step} steps, at {at:?}, begun {start:?}\n{:#?}", self.state());
            self.now = self.now.max(at);
            if self.path.due().is_some_and(|at| at <= self.now) {
                self.arrive();
            }
            for i in 0..2 {
                self.ends[i].on_time(self.now);
                self.app(i);
            }
            self.judge();
        }
    }

    fn state(&self) -> Vec<Option<crate::Info>> {
        self.ends.iter().map(|end| end.conn.as_ref().map(|conn| conn.info(self.now))).collect()
    }

    /// Puts the segments that the ends queued on the path.
    fn flush(&mut self) {
        for i in 0..2 {
            for sent in core::mem::take(&mut self.ends[i].out) {
                let bytes = sent.bytes.clone();
                let (.., seg) = wire::tcp::parse(&bytes).expect("a connection emits what parses");
                let fate = self.path.launch(i, &self.ends[i].key, sent, self.now, &mut self.input);
                let (seq, len, sack) = (seg.seq, seg.payload.len(), seg.options.sack);
                self.tell(format_args!(
                    "{i}> {:?} {seq:?}+{len} ack {:?} win {} {:?}{}",
                    seg.flags,
                    seg.ack,
                    seg.window,
                    sack.as_slice(),
                    Told(fate)
                ));
                let room = usize::from(self.ends[i].mtu) - if self.ends[i].key.is_v4() { 20 } else { 40 };
                let other = self.judges[1 - i];
                self.judges[i].watch(&other, &seg, bytes.len(), room);
            }
        }
    }

    fn arrive(&mut self) {
        let Some((to, cargo)) = self.path.land() else { return };
        let (bytes, ecn) = match cargo {
            Cargo::Segment { bytes, ecn } => (bytes, ecn),
            Cargo::TooBig { mtu, seq } => {
                if self.ends[to].lives() {
                    let kind = IcmpError::TooBig { mtu };
                    self.ends[to].with(self.now, |conn, cx| conn.on_icmp(cx, kind, seq));
                }
                return;
            }
        };
        let (.., mut seg) = wire::tcp::parse(&bytes).expect("it parsed before");
        seg.ecn = ecn;
        let mut payload = Vec::new();
        while let Some(next) = self.next_of_row(to, &seg, seg.payload.len().max(payload.len())) {
            let (.., next) = wire::tcp::parse(&next).expect("it parsed before");
            if payload.is_empty() {
                payload.extend_from_slice(seg.payload);
            }
            payload.extend_from_slice(next.payload);
            seg.flags = seg.flags | next.flags;
            (seg.window, seg.merged) = (next.window, seg.merged + 1);
        }
        if seg.merged > 1 {
            seg.payload = &payload;
        }
        let other = self.judges[to];
        self.judges[1 - to].arrived(&other, &seg);
        let (seq, len) = (seg.seq, seg.payload.len());
        self.tell(format_args!("{to}< {:?} {seq:?}+{len} of {}", seg.flags, seg.merged));
        self.ends[to].receive(self.now, &seg);
    }

    /// The next segment, if receive offload would put it behind `seg`, which holds `len` bytes by now.
    fn next_of_row(&mut self, to: usize, seg: &wire::tcp::Segment<'_>, len: usize) -> Option<Vec<u8>> {
        if self.merge == Duration::ZERO || len == 0 {
            return None;
        }
        let (target, cargo) = self.path.peek(self.now + self.merge)?;
        let Cargo::Segment { bytes, ecn } = cargo else { return None };
        let (.., next) = wire::tcp::parse(bytes).expect("it parsed before");
        let plain = |flags: Flags| flags.0 & !(Flags::ACK | Flags::PSH).0 == 0;
        let follows = target == to && next.seq == seg.seq + len as u32 && !next.payload.is_empty();
        let alike = next.ack == seg.ack && next.options == seg.options && *ecn == seg.ecn;
        if !(follows && alike && plain(seg.flags) && plain(next.flags)) || len + next.payload.len() > 65_000 {
            return None;
        }
        match self.path.land()? {
            (_, Cargo::Segment { bytes, .. }) => Some(bytes),
            (_, Cargo::TooBig { .. }) => None,
        }
    }

    /// Everything is over: was it as it should be?
    fn end(mut self, gentle: bool) -> Course {
        self.ends.iter_mut().for_each(End::finish);
        let apps = [0, 1].map(|i| &self.ends[i].app);
        let lost = self.path.lost;
        for (i, app) in apps.iter().enumerate() {
            let small = self.ends.iter().any(|end| end.pool.limit() < 4096);
            if gentle && lost < FEW && !small {
                assert_eq!(app.error, None, "{i}: nothing happened that could end the connection");
                assert!(app.finished, "{i} did not see the end of the other's stream");
            }
            let reset = matches!(app.error, Some(Error::Reset | Error::Refused));
            assert!(!reset || self.judges[1 - i].resets > 0, "{i}: a reset that no peer sent");
        }
        let sum = |count: fn(&crate::Counters) -> u64| self.ends.iter().map(|end| count(&end.counters)).sum();
        Course {
            segments: self.judges.iter().map(|judge| judge.segments).sum(),
            lost,
            bytes: apps.iter().map(|app| app.read).sum(),
            retransmits: sum(|counters| counters.retransmits),
            timeouts: sum(|counters| counters.timeouts),
            closed_window: self.judges.iter().any(|judge| judge.closed_window),
            complete: apps.iter().all(|app| app.finished),
            errors: apps.map(|app| app.error),
            syn_data: self.ends[1].conn.as_ref().is_some_and(|conn| conn.info(self.now).syn_data),
        }
    }
}

/// Action of the path, empty if it did nothing.
struct Told(Fate);

impl core::fmt::Display for Told {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Fate::Passes => Ok(()),
            fate => write!(f, " -- {fate:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_their_promises() {
        super::super::seeded::seeded("pair", 300, 1500, pair);
    }
}
