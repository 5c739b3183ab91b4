//! The plug-in itself: whose thread calls, what a descriptor stands for, and how late it is.

use crate::flags::Flags;
use crate::kernel::{self, Thread};
use crate::sysctls::{self, Sysctls};
use crate::table::{Entry, Table};
use base::{Addr, Duration, Endpoint, Instant};
use drill::run::{Answer, Environment, Got, Refusal, Request, START, World, core_config, perform};
use sock::{Errno, Fd, Sockets};
use stack::CoreConfig;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

/// How far time goes on whenever it is asked for: a tool that waits for a date in a loop gets there.
const TICK: Duration = Duration::from_micros(1);
/// How often, and how many times at most, a thread that has something to tell is looked at.
const TELLING: Duration = Duration::from_micros(50);
const TELLING_MAX: u32 = 20_000;
/// A descriptor that nothing has.
const NO_FD: Fd = Fd::MAX;
/// Bytes of the longest IP packet: 65,535 behind the header of IPv6.
const PACKET_MAX: usize = 65_575;

/// Mutable state.
#[derive(Default)]
struct State {
    table: Table,
    sysctls: Sysctls,
    /// Complaints that were told, each once, and how many there were.
    told: HashSet<String>,
    complaints: usize,
    /// When the last call on the other thread returned; its next question for the time gets this answer.
    returned: Option<Duration>,
    /// The other thread, until it has told the tool what its call returned.
    telling: Option<Thread>,
}

/// One run of the tool.
pub(crate) struct Plug {
    flags: Flags,
    /// Settings that the script's shell lines change.
    environment: Mutex<Environment>,
    /// The tool's main thread, which runs the script.
    script: ThreadId,
    script_thread: Thread,
    /// The stack: made at the first call, after the tool's first command has had its say.
    world: OnceLock<World>,
    state: Mutex<State>,
}

/// A packet of the stack, and when it left on the clock of `gettimeofday`, in microseconds.
pub(crate) type Left = (Vec<u8>, i64);

impl Plug {
    /// For the thread that calls.
    pub(crate) fn new(flags: &str) -> Plug {
        let (flags, complaints) = Flags::read(flags);
        let mut config = core_config(flags.profile);
        config.addresses.clone_from(&flags.addresses);
        config.gateways.clone_from(&flags.gateways);
        let environment = Environment::new(config, flags.mtu, flags.whole_segments);
        let plug = Plug {
            flags,
            environment: Mutex::new(environment),
            script: std::thread::current().id(),
            script_thread: Thread::this(),
            world: OnceLock::new(),
            state: Mutex::default(),
        };
        complaints.into_iter().for_each(|what| plug.complain(what));
        plug
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a person what cannot be done, once, and counts it every time.
    pub(crate) fn complain(&self, what: String) {
        let mut state = self.state();
        state.complaints += 1;
        if !state.told.contains(&what) {
            eprintln!("millstream_drill: {what}");
            state.told.insert(what);
        }
    }

    /// At the end: how often it complained.
    pub(crate) fn finish(&self) {
        let complaints = self.state().complaints;
        if complaints > 0 {
            eprintln!("millstream_drill: {complaints} complaints, each told once above");
        }
    }

    /// The stack.
    fn world(&self) -> Result<&World, Errno> {
        if let Some(world) = self.world.get() {
            return Ok(world);
        }
        let mut environment = self.environment().clone();
        self.read_sysctls(&mut environment.config);
        let world = environment.start().map_err(|e| {
            self.complain(format!("a stack without memory: {e}"));
            Errno::ENOBUFS
        })?;
        Ok(self.world.get_or_init(|| world))
    }

    /// Lets what is new in the file of sysctls do what it does. If anything is new: shall what was learned of
    /// destinations be forgotten?
    fn read_sysctls(&self, config: &mut CoreConfig) -> Option<bool> {
        let path = self.flags.sysctl_file.as_ref()?;
        let (complaints, forget) = match self.state().sysctls.read(path) {
            Ok(None) => return None,
            Ok(Some(news)) => (sysctls::apply(news.text, config), news.forget),
            Err(why) => (vec![why], false),
        };
        complaints.into_iter().for_each(|what| self.complain(what));
        Some(forget)
    }

    /// Applies changed settings to a running stack.
    fn refresh(&self, world: &World) {
        let mut config = self.environment().config.clone();
        let Some(forget) = self.read_sysctls(&mut config) else { return };
        if forget {
            world.engine().core().forget_fast_open();
        }
        if let Err(what) = world.set(&config) {
            self.complain(format!("sysctl_file: {what}"));
        }
    }

    fn environment(&self) -> MutexGuard<'_, Environment> {
        self.environment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a shell line of the script change this stack instead of the machine. Returns false where a command of it is
    /// none that a stack in virtual time knows: then a shell has to run the line.
    ///
    /// # Errors
    /// The line checks something, and it is not so.
    pub(crate) fn shell(&self, line: &str) -> Result<bool, String> {
        let folder = Path::new("");
        if let Some(what) = Environment::unsupported(line, folder) {
            // The tool itself computes what stands between `%{` and `}%` this way.
            if what != "the command python3" {
                self.complain(format!(
                    "{what} is the machine's; what it changes there does not reach the stack"
                ));
            }
            return Ok(false);
        }
        let world = self.world.get();
        let _inside = world.filter(|_| self.is_script()).map(World::script);
        let outcome = self.environment().run(line, folder, world);
        // What the file says comes on top again.
        self.state().sysctls.read_again();
        match outcome {
            Ok(()) => Ok(true),
            Err(Refusal::Unsupported(what)) => {
                self.complain(format!("`{line}`: {what} is not understood"));
                Ok(true)
            }
            Err(Refusal::Failed(why)) => Err(why),
        }
    }

    // --- calls -------------------------------------------------------------------------------------------------

    /// The stack's descriptor for the tool's; one that nothing has for one of others.
    pub(crate) fn fd(&self, number: i32) -> Fd {
        self.state().table.get(number).map_or(NO_FD, |entry| entry.fd)
    }

    /// Are its addresses written as IPv6?
    pub(crate) fn is_v6(&self, number: i32) -> bool {
        self.state().table.get(number).is_some_and(|entry| entry.v6)
    }

    /// Is it one of ours?
    pub(crate) fn has(&self, number: i32) -> bool {
        self.state().table.get(number).is_some()
    }

    /// Asks the stack, on whichever thread this is: the other one sleeps while its call waits.
    pub(crate) fn ask(&self, request: Request) -> Answer {
        self.inside(|sockets| perform(request, sockets))
            .unwrap_or_else(|e| Answer { result: Err(e.raw()), got: Got::Nothing })
    }

    /// Lets `call` use the API as this thread may.
    pub(crate) fn inside<R>(&self, call: impl FnOnce(&dyn Sockets) -> R) -> Result<R, Errno> {
        let world = self.world()?;
        if self.is_script() {
            let _inside = world.script();
            self.refresh(world);
            let result = call(&world.sockets());
            world.settle();
            return Ok(result);
        }
        let asleep = || self.script_thread.waits_for_another();
        let called = world.elsewhere(&asleep, |sockets| {
            self.refresh(world);
            let result = call(sockets);
            // Before the script's thread goes on.
            let mut state = self.state();
            (state.returned, state.telling) = (Some(world.now()), Some(Thread::this()));
            result
        });
        called.ok_or_else(|| {
            self.complain("a second call on another thread while the first waits".into());
            Errno::EALREADY
        })
    }

    /// A call has returned on the other thread, and the tool passes no time before it has heard of that: on a real
    /// clock it would have, long before. The other thread is done when it sleeps again.
    fn let_it_tell(&self) {
        if !self.is_script() {
            return;
        }
        let Some(other) = self.state().telling.take() else { return };
        for _ in 0..TELLING_MAX {
            let told = self.state().returned.is_none();
            if other.is_gone() || (told && other.waits_for_another()) {
                return;
            }
            std::thread::sleep(TELLING);
        }
        self.complain("a call returned on another thread, which has not told so for long".into());
    }

    fn is_script(&self) -> bool {
        std::thread::current().id() == self.script
    }

    /// A new descriptor of the kernel's for one of the stack's, which is closed if there is none.
    pub(crate) fn number(&self, fd: Fd, v6: bool) -> Result<i32, i32> {
        match kernel::descriptor() {
            Ok(number) => {
                let before = self.state().table.insert(number, Entry { fd, v6 });
                if let Some(before) = before {
                    self.ask(Request::Close(before.fd));
                }
                Ok(number)
            }
            Err(errno) => {
                self.ask(Request::Close(fd));
                Err(errno)
            }
        }
    }

    /// Closes both.
    pub(crate) fn close(&self, number: i32) -> Answer {
        let Some(entry) = self.state().table.remove(number) else {
            return Answer { result: Err(libc::EBADF), got: Got::Nothing };
        };
        let answer = self.ask(Request::Close(entry.fd));
        kernel::close(number);
        answer
    }

    /// Binds. Where the flags name no address of its family, the address becomes the stack's.
    pub(crate) fn bind(&self, number: i32, local: Endpoint) -> Answer {
        self.take_address(local.addr);
        self.ask(Request::Bind(self.fd(number), local))
    }

    fn take_address(&self, addr: Addr) {
        if self.flags.names_family(addr)
            || self.flags.has(addr)
            || addr.is_unspecified()
            || addr.is_multicast_or_broadcast()
        {
            return;
        }
        let Ok(world) = self.world() else { return };
        let own = self.flags.own(addr);
        let taken = {
            let _inside = self.is_script().then(|| world.script());
            world.engine().core().add_address(own)
        };
        if !taken {
            self.complain(format!("{addr} is one address too many"));
        }
    }

    // --- packets and time --------------------------------------------------------------------------------------

    /// A packet from the peer.
    pub(crate) fn send(&self, packet: Vec<u8>) -> Result<(), Errno> {
        if packet.is_empty() || packet.len() > PACKET_MAX {
            self.complain(format!("a packet of {} bytes is none", packet.len()));
            return Err(Errno::EINVAL);
        }
        let world = self.world()?;
        let _inside = world.script();
        self.refresh(world);
        let long = |mss: &u16| payload(&packet).is_some_and(|payload| payload > usize::from(*mss));
        let merged = self.flags.mss.filter(long).unwrap_or(0);
        world.inject(packet, merged);
        Ok(())
    }

    /// The next packet of the stack; time goes on until it leaves. `None` if none ever will.
    pub(crate) fn receive(&self) -> Result<Option<Left>, Errno> {
        let world = self.world()?;
        let _inside = world.script();
        self.refresh(world);
        let next = world.next_packet();
        if next.is_none() {
            self.complain(format!(
                "at {:.6} s: no packet will come, and no timer will send one",
                world.now().as_secs_f64()
            ));
        }
        Ok(next.map(|(at, packet)| (packet, date(at).as_nanos() as i64 / 1_000)))
    }

    /// The tool sleeps.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), Errno> {
        self.let_it_tell();
        self.pass(time)
    }

    /// Time passes.
    fn pass(&self, time: Duration) -> Result<(), Errno> {
        let world = self.world()?;
        let _inside = world.script();
        self.refresh(world);
        world.advance(world.now() + time);
        Ok(())
    }

    /// How late it is, later each time. But where a call returned on the other thread, that thread learns first when
    /// that was: time may have gone on since.
    pub(crate) fn time(&self) -> Result<Instant, Errno> {
        let world = self.world()?;
        if !self.is_script()
            && let Some(returned) = self.state().returned.take()
        {
            return Ok(date(returned));
        }
        self.pass(TICK)?;
        Ok(date(world.now()))
    }
}

/// Bytes behind the TCP header, if that is what the IP header is followed by.
fn payload(packet: &[u8]) -> Option<usize> {
    let byte = |at: usize| packet.get(at).copied();
    let (protocol, header) = match byte(0)? >> 4 {
        4 => (byte(9)?, usize::from(byte(0)? & 15) * 4),
        _ => (byte(6)?, 40),
    };
    let all = header + usize::from(byte(header + 12)? >> 4) * 4;
    packet.len().checked_sub(all).filter(|_| i32::from(protocol) == libc::IPPROTO_TCP)
}

/// A time since the run began on the clock of `gettimeofday`.
fn date(since: Duration) -> Instant {
    START + since
}
