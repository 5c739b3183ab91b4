//! One script: its events in order, in virtual time, against one stack.

use super::calls::{Answer, Request, Stop, check, perform, prepare};
use super::environment::{Environment, Refusal};
use super::flow::Stage;
use super::known::Known;
use super::observe::{Sent, read};
use super::options::Options;
use super::sign::PeerKeys;
use super::symbols;
use super::world::{Pending, World};
use crate::code;
use crate::lang::{Action, Call, Event, Script, When};
use base::Duration;
use stack::{CoreConfig, OwnAddr};
use std::collections::HashMap;
use std::path::PathBuf;

/// A packet that is late by more than this is not waited for.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a packet that may come at any time is waited for.
const FOR_EVER: Duration = Duration::from_secs(100_000);

type Result<T> = std::result::Result<T, Stop>;

/// The times that an event may happen at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: Duration,
    pub(super) to: Duration,
    pub(super) any: bool,
}

/// A blocking call on its way.
struct Blocking {
    pending: Pending<Answer>,
    call: Box<Call>,
    request: Request,
    until: Duration,
    tolerance: Duration,
}

/// The state of a run.
pub(super) struct Runner {
    pub(super) known: Known,
    folder: PathBuf,
    environment: Environment,
    world: Option<World>,
    pub(super) next_port: u16,
    blocking: Option<Blocking>,
    names: HashMap<String, code::Value>,
    pub(super) peer_keys: PeerKeys,
    /// When the script says that the event before was.
    last_event: Duration,
    /// Time line of the run, line by line.
    pub(super) timeline: Vec<String>,
}

impl Runner {
    pub(super) fn new(
        options: Options,
        mut config: CoreConfig,
        folder: PathBuf,
        defines: Vec<(String, String)>,
    ) -> Self {
        config.addresses = vec![OwnAddr { addr: options.local, prefix: options.prefix }];
        config.gateways = vec![options.gateway];
        Runner {
            environment: Environment::new(config, options.mtu, options.strict_segments),
            known: Known { options, defines, fds: HashMap::new(), flows: Vec::new(), current: None },
            folder,
            world: None,
            next_port: 40_001,
            blocking: None,
            names: HashMap::new(),
            peer_keys: PeerKeys::default(),
            last_event: Duration::ZERO,
            timeline: Vec::new(),
        }
    }

    /// Runs the script; with the event that stopped it, if any did.
    pub(super) fn run<'s>(
        &mut self,
        script: &'s Script,
    ) -> std::result::Result<(), (Stop, Option<&'s Event>)> {
        if let Some(init) = &script.init {
            self.shell(&init.text).map_err(|stop| (stop, None))?;
        }
        for event in &script.events {
            self.event(event).map_err(|stop| (stop, Some(event)))?;
        }
        let last = script.events.last();
        self.finish_call().and_then(|()| self.look_at_the_rest()).map_err(|stop| (stop, last))
    }

    /// Checks the packets that the script did not look at: every byte of data must be the application's.
    fn look_at_the_rest(&mut self) -> Result<()> {
        let known = self.known.current.filter(|&at| self.known.flows[at].stage == Stage::Going);
        let (Some(at), Some(world)) = (known, &self.world) else { return Ok(()) };
        let rest = std::mem::take(&mut world.wire.lock().outbound);
        let flow = &self.known.flows[at];
        for (left, bytes) in rest {
            let sent = read(left, bytes).map_err(Stop::Fail)?;
            let ours = flow.local == Some(sent.source) && flow.remote == Some(sent.destination);
            if let Some(seq) = sent.wrong_byte(flow).filter(|_| ours) {
                return Stop::fail(format!(
                    "byte {seq} is not what the application wrote there\n    seen: {}",
                    sent.packet
                ));
            }
        }
        Ok(())
    }

    /// Ends a call that still waits, whatever it waits for.
    pub(super) fn abandon(&mut self) {
        if let Some(blocking) = self.blocking.take() {
            blocking.pending.finish();
        }
    }

    pub(super) fn note(&mut self, at: Duration, what: impl std::fmt::Display) {
        self.timeline.push(format!("{:12.6}  {what}", at.as_secs_f64()));
    }

    // --- the stack -------------------------------------------------------------------------------------------

    /// The stack; it is made when it is first needed, with the settings of the shell lines before.
    pub(super) fn world(&mut self) -> Result<&World> {
        if self.world.is_none() {
            let world = self.environment.start();
            self.world = Some(world.map_err(|e| Stop::Unsupported(format!("a port without memory: {e}")))?);
        }
        self.world.as_ref().ok_or_else(|| Stop::Fail("no stack".into()))
    }

    pub(super) fn now(&self) -> Duration {
        self.world.as_ref().map_or(Duration::ZERO, World::now)
    }

    // --- events ----------------------------------------------------------------------------------------------

    fn event(&mut self, event: &Event) -> Result<()> {
        let now = self.now();
        let window = match event.when {
            When::At(at) => Window { from: at, to: at, any: false },
            When::After(after) => Window { from: now + after, to: now + after, any: false },
            When::Between(from, to) => Window { from, to, any: false },
            When::AfterBetween(from, to) => Window { from: now + from, to: now + to, any: false },
            When::Any => Window { from: now, to: now, any: true },
        };
        match &event.action {
            Action::Packet(packet) => self.packet(packet, window)?,
            Action::Call(call) => match self.call(call, window, event.when) {
                Err(Stop::Fail(why)) if self.known.options.forgive_calls => {
                    let now = self.now();
                    self.note(now, format!("forgiven: {why}"));
                }
                other => other?,
            },
            Action::Shell(shell) => {
                self.wait_until(window)?;
                self.shell(&shell.text)?;
            }
            Action::Code(shell) => {
                self.wait_until(window)?;
                self.assert(&shell.text)?;
            }
        }
        self.last_event = window.from;
        self.finish_call_if_done()
    }

    /// Moves time to where the event begins; that it is not late already is checked.
    pub(super) fn wait_until(&mut self, window: Window) -> Result<()> {
        if window.from > Duration::ZERO || self.world.is_some() {
            let world = self.world()?;
            world.advance(window.from.max(world.now()));
        }
        self.in_time(window, self.now(), "this")
    }

    /// How far a time may be off.
    pub(super) fn tolerance(&self, window: Window) -> Duration {
        let since = window.from.saturating_sub(self.last_event);
        self.known.options.tolerance.max(since * self.known.options.tolerance_permille / 1_000)
    }

    /// Fails if `at` is no time for the event.
    pub(super) fn in_time(&self, window: Window, at: Duration, what: &str) -> Result<()> {
        let tolerance = self.tolerance(window);
        if window.any || (at + tolerance >= window.from && at <= window.to + tolerance) {
            return Ok(());
        }
        let seconds = |time: Duration| format!("{:.6}", time.as_secs_f64());
        let expected = match window.from == window.to {
            true => seconds(window.from),
            false => format!("{} to {}", seconds(window.from), seconds(window.to)),
        };
        let seen = seconds(at);
        Stop::fail(format!(
            "time: expected {what} at {expected}, was at {seen} (tolerance {})",
            seconds(tolerance)
        ))
    }

    fn shell(&mut self, text: &str) -> Result<()> {
        let ran = self.environment.run(text, &self.folder, self.world.as_ref());
        ran.map_err(|refusal| match refusal {
            Refusal::Unsupported(what) => Stop::Unsupported(what),
            Refusal::Failed(why) => Stop::Fail(why),
        })
    }

    // --- packets ---------------------------------------------------------------------------------------------

    /// The next packet of the stack for which `wanted` holds, waiting for it no longer than its time allows.
    pub(super) fn next_sent(
        &mut self,
        window: Window,
        mut wanted: impl FnMut(&mut Self, &Sent) -> bool,
    ) -> Result<Option<Sent>> {
        let limit = match window.any {
            true => self.now() + FOR_EVER,
            false => window.to.max(self.now()) + self.tolerance(window) + TIMEOUT,
        };
        loop {
            let world = self.world()?;
            let next = world.wire.lock().outbound.pop_front();
            let Some((at, bytes)) = next else {
                if !world.advance_to_packet(limit) {
                    return Ok(None);
                }
                continue;
            };
            let sent = read(at, bytes).map_err(Stop::Fail)?;
            if wanted(self, &sent) {
                return Ok(Some(sent));
            }
            self.note(sent.at, format!("{}   (of another connection)", sent.packet));
        }
    }

    /// Puts a packet of the script on the wire.
    pub(super) fn inject(&mut self, packet: Vec<u8>, payload: u32) -> Result<()> {
        // As a driver that merges segments hands them over.
        let merged = self.known.options.mss.filter(|&mss| payload > u32::from(mss)).unwrap_or(0);
        self.world()?.inject(packet, merged);
        Ok(())
    }

    // --- calls -----------------------------------------------------------------------------------------------

    fn call(&mut self, call: &Call, window: Window, when: When) -> Result<()> {
        self.finish_call()?;
        self.wait_until(window)?;
        if call.name == "usleep" {
            let micros = call.arguments.first().map_or(Ok(0), |time| self.known.int(time))?;
            let to = self.now() + Duration::from_micros(micros.max(0) as u64);
            self.world()?.advance(to);
            return Ok(());
        }
        let request = prepare(&self.known, call)?;
        let begun = self.now();
        if let Some(until) = call.until {
            // Both times are meant alike: as dates, or as spans from the event before.
            let until = match when {
                When::After(after) => window.from + (until - after),
                _ => until,
            };
            let asked = request.clone();
            let pending = self.world()?.start(move |sockets| perform(asked, sockets));
            let pending =
                pending.map_err(|e| Stop::Unsupported(format!("a thread for a blocking call: {e}")))?;
            self.note(begun, format!("{}() ...", call.name));
            self.known.began(&request);
            let tolerance = self.tolerance(Window { from: until, to: until, any: false });
            self.blocking =
                Some(Blocking { pending, call: Box::new(call.clone()), request, until, tolerance });
            return Ok(());
        }
        let world = self.world()?;
        let answer = perform(request.clone(), &world.sockets());
        world.settle();
        let ended = world.now();
        self.known.began(&request);
        self.note(begun, shown(call, &answer));
        if answer.result.is_ok() {
            self.peer_keys.learn(&request)?;
        }
        check(&mut self.known, call, &request, answer)?;
        self.in_time(window, ended, &format!("the return of {}()", call.name))
    }

    /// A blocking call that has returned is checked at once, so that what it gave is known.
    fn finish_call_if_done(&mut self) -> Result<()> {
        match &self.blocking {
            Some(blocking) if blocking.pending.is_done() => self.finish_call(),
            _ => Ok(()),
        }
    }

    /// Waits for a blocking call and checks what it gave, and when.
    fn finish_call(&mut self) -> Result<()> {
        let Some(blocking) = self.blocking.take() else { return Ok(()) };
        let limit = blocking.until + blocking.tolerance;
        while !blocking.pending.is_done() && self.now() < limit {
            let world = self.world()?;
            let step = (world.now() + Duration::from_millis(1)).min(limit);
            world.advance(step);
        }
        let done = blocking.pending.is_done();
        let Blocking { pending, call, request, until, tolerance } = blocking;
        let Some((answer, at)) = pending.finish() else {
            return Stop::fail(format!("{}() did not return: it panicked", call.name));
        };
        if !done {
            return Stop::fail(format!(
                "{}(): expected to return at {:.6}, still waits",
                call.name,
                until.as_secs_f64()
            ));
        }
        self.note(at, shown(&call, &answer));
        check(&mut self.known, &call, &request, answer)?;
        if at + tolerance < until || at > until + tolerance {
            return Stop::fail(format!(
                "time: expected {}() to return at {:.6}, was at {:.6}",
                call.name,
                until.as_secs_f64(),
                at.as_secs_f64()
            ));
        }
        Ok(())
    }

    // --- assertions ------------------------------------------------------------------------------------------

    fn assert(&mut self, text: &str) -> Result<()> {
        let statements = code::parse(text).map_err(Stop::Fail)?;
        let fd = self.known.current.and_then(|at| self.known.flows[at].fd);
        let fd = fd.and_then(|number| self.known.fds.get(&number).copied());
        let world = self.world()?;
        let info = fd.map_or_else(Vec::new, |fd| super::calls::tcp_info(&world.sockets(), fd));
        let lookup = |name: &str| {
            let number = symbols::info_field(&info, name).or_else(|| symbols::find(name).map(i128::from));
            number.map(code::Value::Int)
        };
        let mut own = std::mem::take(&mut self.names);
        let mut printed = Vec::new();
        let ran = code::run(&statements, &mut code::Names { own: &mut own, lookup: &lookup }, &mut printed);
        self.names = own;
        let now = self.now();
        for line in printed {
            self.note(now, format!("print: {line}"));
        }
        match ran {
            Ok(()) => Ok(()),
            Err(code::Failure::UnknownName(name)) if info.is_empty() && name.starts_with("tcpi_") => {
                Stop::fail(format!("{name}: the socket has no TCP_INFO"))
            }
            Err(code::Failure::UnknownName(name)) => Stop::unsupported(format!("the name {name}")),
            Err(other) => Stop::fail(other.to_string()),
        }
    }
}

/// A call and what it gave, for the time line.
fn shown(call: &Call, answer: &Answer) -> String {
    match answer.result {
        Ok(value) => format!("{}() = {value}", call.name),
        Err(errno) => format!("{}() = -1 {}", call.name, symbols::errno_name(errno)),
    }
}
