//! The TIME-WAIT entries of a core against a plain list.

use base::{Addr, Duration, Endpoint, FlowKey, Input, Instant, Seq};
use tcp::TimeWait;

use crate::tables::time_waits::TimeWaits;

/// How long a wait lasts here.
const WAIT: Duration = Duration::from_millis(1000);
/// How long an entry may outlive its wait before the table asks to be looked at.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Model of an entry.
struct Known {
    index: u32,
    key: FlowKey,
    hash: u64,
    until: Instant,
}

/// Table and list side by side, driven as [`crate::Core`] drives the table.
struct Model {
    table: TimeWaits,
    /// Oldest first.
    list: Vec<Known>,
    limit: usize,
    now: Instant,
    entered: u32,
    /// Most entries there ever were, and the bytes the table held then.
    peak: (usize, usize),
}

/// Model of the TIME-WAIT table: entries stand in order of expiry whatever enters, restarts or leaves, none is
/// lost or found twice, places are used again, and the table asks to be looked at in time.
pub fn time_waits(data: &[u8]) {
    let mut input = Input::new(data);
    // Small tables are full all the time; large ones have several pages.
    let limit = if input.u8() & 3 == 0 { 1 + input.below(700) } else { 1 + input.below(12) };
    let mut model = Model {
        table: TimeWaits::new(limit),
        list: Vec::new(),
        limit: limit as usize,
        now: Instant::from_millis(1),
        entered: 0,
        peak: (0, 0),
    };
    while !input.is_empty() {
        match input.u8() % 9 {
            0 | 1 => model.enter(input.u8().into()),
            2 => (0..input.u8()).for_each(|step| model.enter(step.into())),
            3 => model.leave(input.u16().into()),
            4 | 5 => model.restart(input.u16().into()),
            6 => model.answer(input.u16().into()),
            7 => model.pass(u64::from(input.u8())),
            _ => model.pass(u64::from(input.u16()) % 2000),
        }
        model.compare();
    }
}

impl Model {
    /// A connection enters; the oldest entry makes room.
    fn enter(&mut self, hash: u64) {
        if self.table.is_full() {
            let oldest = self.table.oldest().expect("a full table has an oldest entry");
            assert_eq!(oldest, self.list[0].index);
            self.table.remove(oldest);
            self.list.remove(0);
        }
        let until = self.now + WAIT;
        let [_, a, b, c] = self.entered.to_be_bytes();
        let local = Endpoint::new(Addr::v4([10, a, b, c]), 80);
        let key = FlowKey::new(local, Endpoint::new(Addr::v4([10, 0, 0, 9]), 4000));
        self.entered += 1;
        let wait = TimeWait::new(key, until, Seq::new(1), Seq::new(2), 100, None);
        let before = self.table.footprint();
        let index = self.table.insert(wait, hash);
        assert!(self.list.iter().all(|known| known.index != index), "a place in use was given away");
        self.list.push(Known { index, key, hash, until });
        if self.list.len() > self.peak.0 {
            self.peak = (self.list.len(), self.table.footprint());
        } else {
            assert_eq!(self.table.footprint(), before, "vacant places come first");
        }
    }

    /// Some entry leaves: a new SYN came, or the flow is wanted.
    fn leave(&mut self, which: usize) {
        if self.list.is_empty() {
            return;
        }
        let known = self.list.remove(which % self.list.len());
        self.table.remove(known.index);
    }

    /// The peer's FIN came again.
    fn restart(&mut self, which: usize) {
        if self.list.is_empty() {
            return;
        }
        let mut known = self.list.remove(which % self.list.len());
        known.until = self.now + WAIT;
        self.table.get_mut(known.index).until = known.until;
        self.table.restarted(known.index);
        self.list.push(known);
    }

    /// The peer was answered, which does not extend the wait.
    fn answer(&mut self, which: usize) {
        if self.list.is_empty() {
            return;
        }
        let at = which % self.list.len();
        self.table.restarted(self.list[at].index);
        // Of those that end together, it is now the last.
        if self.list.last().is_some_and(|last| last.until <= self.list[at].until) {
            let known = self.list.remove(at);
            self.list.push(known);
        }
    }

    /// Time passes, and a turn looks at the table if it asked for that.
    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        if self.table.next().is_none_or(|at| at > self.now) {
            return;
        }
        while let Some(oldest) = self.table.oldest()
            && self.table.get(oldest).until <= self.now
        {
            assert_eq!(oldest, self.list.remove(0).index);
            self.table.remove(oldest);
        }
        self.table.look_again();
        assert!(self.list.iter().all(|known| known.until > self.now), "what is due is at the front");
        assert!(self.table.next().is_none_or(|at| at > self.now), "what was looked at is not due again");
    }

    fn compare(&self) {
        let (table, list) = (&self.table, &self.list);
        assert_eq!(table.len() as usize, list.len());
        assert_eq!(table.is_full(), list.len() >= self.limit);
        assert!(table.footprint() >= list.len() * size_of::<TimeWait>());
        assert!(
            table
                .iter()
                .map(|wait| (wait.key, wait.until))
                .eq(list.iter().map(|known| (known.key, known.until))),
            "oldest first"
        );
        for known in list {
            assert_eq!((table.get(known.index).key, table.hash(known.index)), (known.key, known.hash));
        }
        let first = list.first();
        assert_eq!(table.oldest(), first.map(|known| known.index));
        assert_eq!(table.next_victim(), first.map(|known| known.hash));
        match (table.next(), first) {
            (Some(at), Some(oldest)) => assert!(at <= oldest.until + TIMEOUT, "looked at too late"),
            (at, oldest) => assert!(at.is_none() && oldest.is_none()),
        }
        // A hint may name any place at all.
        table.prefetch(self.entered);
    }
}
