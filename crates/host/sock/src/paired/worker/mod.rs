//! The stack thread's side: its records of connections and listeners, and what it does for them each turn.

mod data;
mod lives;
mod record;

use super::blocks::{Blocks, InBlock, Piece};
use super::link::LinkEnd;
use super::message::{BY_STACK, Call, Change, Command, Event, Reply, RingPool};
use base::{Instant, Slab};
use cc::TunableError;
use record::{Listener, NONE, Record, Stream};
use stack::{Core, Notice, OpError};
use tcp::Events;
use tcp::auth::KeyError;

/// Most commands taken from one application per turn.
const COMMANDS: usize = 1_024;

/// A stack thread's view of its applications.
pub(super) struct Worker {
    pub(super) links: Slab<LinkEnd>,
    records: Slab<Record>,
    rings: RingPool,
    blocks: Blocks,
    /// Names that each link's application gave, to records.
    named: Vec<Vec<u32>>,
    listeners: Vec<Vec<u32>>,
    commands: Vec<Command>,
}

impl Worker {
    pub(super) fn new(records: u32, rings: RingPool) -> Worker {
        Worker {
            links: Slab::new(4_096),
            records: Slab::new(records.min(BY_STACK - 1)),
            blocks: rings.blocks(),
            rings,
            named: Vec::new(),
            listeners: Vec::new(),
            commands: Vec::with_capacity(COMMANDS),
        }
    }

    /// A new application. One that comes when all places are taken finds its link cut.
    pub(super) fn adopt(&mut self, end: LinkEnd) {
        if let Ok(link) = self.links.insert(end) {
            let places = self.named.len().max(link as usize + 1);
            self.named.resize_with(places, Vec::new);
            self.listeners.resize_with(places, Vec::new);
        }
    }

    /// No connection, no listener, and every ring at home.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.records.is_empty() && self.rings.is_idle()
    }

    // --- commands --------------------------------------------------------------------------------------------

    /// Does what the applications ask, within bounds; how many commands that were.
    pub(super) fn obey(&mut self, core: &mut Core, now: Instant) -> usize {
        let mut done = 0;
        for link in 0..self.named.len() as u32 {
            let Some(end) = self.links.get_mut(link) else { continue };
            let mut commands = std::mem::take(&mut self.commands);
            done += end.commands.pop_batch(&mut commands, COMMANDS);
            for command in commands.drain(..) {
                self.command(core, now, link, command);
            }
            self.commands = commands;
            if self.links.get_mut(link).is_some_and(LinkEnd::is_abandoned) {
                self.forget(core, now, link);
            }
        }
        done
    }

    /// Has an application said something that was not obeyed yet?
    pub(super) fn has_commands(&self) -> bool {
        self.links.iter().any(|(_, end)| end.has_commands())
    }

    fn record(&self, link: u32, id: u32) -> u32 {
        if id & BY_STACK != 0 {
            return id & !BY_STACK;
        }
        self.named[link as usize].get(id as usize).copied().unwrap_or(NONE)
    }

    fn stream(&mut self, index: u32) -> Option<&mut Stream> {
        match self.records.get_mut(index) {
            Some(Record::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    fn listener(&mut self, link: u32, id: u32) -> Option<&mut Listener> {
        let index = *self.listeners[link as usize].get(id as usize)?;
        match self.records.get_mut(index) {
            Some(Record::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    fn command(&mut self, core: &mut Core, now: Instant, link: u32, command: Command) {
        match command {
            Command::Connect { id, request } => self.connect(core, now, link, id, request),
            Command::Ring { id, ring, upto } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    (stream.send, stream.announced) = (Some(ring), upto);
                }
                self.pump_out(core, now, index);
            }
            Command::Unused { id, ring } => self.send_home(self.record(link, id), ring),
            Command::Mark { id, mark } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    stream.hear_of(mark);
                }
                if mark.start == mark.end {
                    self.pump_out(core, now, index);
                }
            }
            Command::Push { id } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    stream.push = Some(stream.announced);
                }
                self.pump_out(core, now, index);
            }
            Command::Written { id, upto } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    (stream.announced, stream.wanted) = (upto, false);
                }
                self.pump_out(core, now, index);
            }
            Command::Window { id, window, taken } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    stream.lent.open(window, taken);
                }
            }
            Command::Lent { id, bytes, start, len, upto } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    stream.announced = upto;
                    let bytes = InBlock { block: bytes, start };
                    stream.lent.push(Piece { bytes, len, at: upto.wrapping_sub(len) });
                }
                self.pump_out(core, now, index);
            }
            Command::WantRoom { id } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    stream.wants_room = true;
                }
                self.pump_out(core, now, index);
            }
            Command::Taken { id } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    stream.told_more = false;
                }
                self.pump_in(core, now, index);
            }
            Command::GiveBack { id, ring } => self.take_back(core, now, self.record(link, id), ring),
            Command::Shutdown { id, how } => self.shutdown(core, now, self.record(link, id), how),
            Command::Options { id, options } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    core.set_options(now, stream.conn, *options);
                }
            }
            Command::Close { id, rings, unread } => {
                self.close(core, now, self.record(link, id), rings, unread);
            }
            Command::Credit { listener, count } => {
                if let Some(found) = self.listener(link, listener) {
                    found.credit += count;
                    self.accept(core, now, self.listeners[link as usize][listener as usize]);
                }
            }
            Command::Listener { listener, change } => {
                if let Some(found) = self.listener(link, listener) {
                    let id = found.listener;
                    match *change {
                        Change::Backlog(backlog) => core.set_backlog(id, backlog),
                        Change::Park(parked) => core.park(id, parked),
                        Change::Options(options) => core.set_listener_options(id, options),
                        Change::Control(name) => core.set_listener_control(id, name),
                        Change::FastOpen(request) => core.set_fast_open(id, request),
                        Change::Keys(keys) => core.set_listener_keys(id, keys),
                    }
                }
            }
            Command::Unbind(local) => core.unbind(local),
            Command::Call(call) => {
                let reply = self.answer(core, now, link, *call);
                self.say(link, Event::Reply(reply));
            }
        }
    }

    fn answer(&mut self, core: &mut Core, now: Instant, link: u32, call: Call) -> Reply {
        let conn = |worker: &mut Worker, id| {
            let index = worker.record(link, id);
            worker.stream(index).map(|stream| stream.conn)
        };
        match call {
            Call::Bind { local, reuse_addr, reuse_port, v6_only, free } => Reply::Local(match free {
                false => core.bind(local, reuse_addr, reuse_port, v6_only),
                true => core.bind_free(local, reuse_addr, reuse_port, v6_only),
            }),
            Call::IsUsed { local, v6_only } => Reply::IsUsed(core.is_used(local, v6_only)),
            Call::Listen { request, credit } => Reply::Local(self.listen(core, now, link, request, credit)),
            Call::ConnectFast { id, mut request, no_cookie, data } => {
                Reply::Begun(self.begin(link, id, &mut request, core, |core, request| {
                    core.connect_fast(now, request, no_cookie, &data)
                }))
            }
            Call::MaySend { request, no_cookie } => {
                Reply::MaySend(core.may_send_with_syn(now, &request, no_cookie))
            }
            Call::ChangeKeys { id, change } => Reply::Keyed(match conn(self, id) {
                Some(conn) => core.change_keys(conn, &change),
                None => Err(KeyError::NotSigned),
            }),
            Call::AoReport { id } => {
                Reply::AoReport(conn(self, id).and_then(|conn| core.ao_report(conn)).map(Box::new))
            }
            Call::FastOpenKeys => Reply::Keys(core.fast_open_keys(now)),
            Call::CloseListener { listener } => {
                self.close_listener(core, now, link, listener);
                Reply::Done(Ok(()))
            }
            Call::Control { id, name } => Reply::Done(match conn(self, id) {
                Some(conn) => core.set_control(now, conn, name),
                None => Err(OpError::Invalid),
            }),
            Call::Tune { id, name, value } => Reply::Tuned(match conn(self, id) {
                Some(conn) => core.tune(conn, &name, value),
                None => Err(TunableError::Unknown),
            }),
            Call::WouldTune { policy, name, value } => Reply::Tuned(core.would_tune(policy, &name, value)),
            Call::FindControl(name) => Reply::Found(core.find_control(&name)),
            Call::ControlName { id } => {
                Reply::Name(conn(self, id).map(|conn| core.connection(conn).control_name()))
            }
            Call::Unsent { id } => conn(self, id).map_or(Reply::Unsent(0, 0), |conn| {
                let conn = core.connection(conn);
                Reply::Unsent(conn.unacked(), conn.unsent())
            }),
            Call::Cpu => Reply::Cpu(ring::current_cpu()),
            Call::Info { id } => Reply::Info(conn(self, id).map(|conn| Box::new(core.info(now, conn)))),
        }
    }

    fn say(&mut self, link: u32, event: Event) {
        if let Some(end) = self.links.get_mut(link) {
            end.say(event);
        }
    }

    /// Wakes the applications.
    pub(super) fn ring(&self) {
        self.links.iter().for_each(|(_, end)| end.ring_anyway());
    }

    // --- telling ---------------------------------------------------------------------------------------------

    /// Handles a notice of the core about one of its owners.
    pub(super) fn notice(&mut self, core: &mut Core, now: Instant, notice: Notice) {
        match self.records.get_mut(notice.owner) {
            Some(Record::Listener(_)) => self.accept(core, now, notice.owner),
            Some(Record::Stream(stream)) => {
                // Readable is what is in the ring, writable is room in the ring: those edges are made here.
                stream.edges |= Events(notice.events.0 & !(Events::READABLE | Events::WRITABLE).0);
                while let Some(report) = core.take_report(stream.conn) {
                    let event = Event::Report { id: stream.id, report };
                    if let Some(end) = self.links.get_mut(stream.link) {
                        end.say(event);
                    }
                }
                if notice.events.any(Events::ERROR)
                    && let Some(e) = core.take_error(stream.conn)
                {
                    stream.error = Some(e);
                }
                if notice.events.any(Events::WRITABLE | Events::CONNECTED | Events::ERROR | Events::CLOSED) {
                    self.pump_out(core, now, notice.owner);
                }
                self.pump_in(core, now, notice.owner);
            }
            _ => {}
        }
    }

    /// Puts a stream with something to tell into its link's list.
    fn remember(&mut self, index: u32) {
        let Some(Record::Stream(stream)) = self.records.get_mut(index) else { return };
        if stream.has_news() && !stream.pending && !stream.closing {
            stream.pending = true;
            if let Some(end) = self.links.get_mut(stream.link) {
                end.pending.push_back(index);
            }
        }
    }

    /// Tells every application what happened in this turn, and wakes those that sleep. Returns the number of events,
    /// and true if something had to stay behind because an application does not listen.
    pub(super) fn publish(&mut self, core: &Core) -> (u32, bool) {
        let (mut told, mut behind) = (0, false);
        for link in 0..self.named.len() as u32 {
            let Some(end) = self.links.get_mut(link) else { continue };
            if end.flush_said() {
                while let Some(&index) = end.pending.front() {
                    // The record may have ended since, and its place may be another's.
                    if let Some(Record::Stream(stream)) = self.records.get_mut(index)
                        && stream.pending
                        && stream.link == link
                    {
                        let event = stream.tell(core);
                        if !end.notify(event) {
                            break;
                        }
                        (stream.pending, stream.edges, stream.error) = (false, Events(0), None);
                    }
                    end.pending.pop_front();
                }
            }
            told += end.ring();
            behind |= end.is_behind();
        }
        (told, behind)
    }
}

/// `table[id] = index`, growing the table.
fn set(table: &mut Vec<u32>, id: u32, index: u32) {
    if table.len() <= id as usize {
        table.resize((id as usize + 1).next_power_of_two(), NONE);
    }
    table[id as usize] = index;
}
