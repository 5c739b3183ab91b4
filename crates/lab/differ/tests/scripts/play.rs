//! One end of a script: the same calls, whichever sockets they are made on.

use base::Duration;
use std::io;
use std::net::SocketAddrV4;
use std::sync::{Condvar, Mutex, PoisonError};

/// Longer than any script waits: what blocks beyond it is told as an error.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Next action of an end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Do {
    /// To the other end, once that listens.
    Connect,
    /// From the port to which the other end connects from this one: the SYNs cross.
    Cross,
    /// And accept one.
    Listen,
    /// The other end may begin; nothing listens.
    Absent,
    Write(usize),
    /// So many bytes, or to the end.
    Read(usize),
    /// Milliseconds, outside any call.
    Sleep(u64),
    /// Milliseconds, in a read to which nothing comes: our core then turns as soon as there is something to do.
    Await(u64),
    ShutWrite,
    Close,
    /// Before a connection exists it waits for it, [`Set::ReceiveBuffer`] excepted.
    Set(Set),
}

/// To the end.
pub(crate) const ALL: usize = usize::MAX;

/// An option of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Set {
    NoDelay,
    Cork(bool),
    /// Seconds, seconds, probes.
    KeepAlive {
        idle: u32,
        interval: u32,
        count: u32,
    },
    LingerZero,
    /// Bytes, as SO_RCVBUF takes them.
    ReceiveBuffer(u32),
    /// How long a call blocks.
    Timeout(Duration),
}

/// Where two ends wait for each other.
#[derive(Default)]
pub(crate) struct Meeting {
    present: Mutex<u32>,
    complete: Condvar,
}

impl Meeting {
    fn attend(&self) -> io::Result<()> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        *present += 1;
        self.complete.notify_all();
        let met = self.complete.wait_timeout_while(present, TIMEOUT, |present| *present < 2);
        let missed = met.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        if missed { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

/// Sockets of an end.
pub(crate) trait Host {
    fn socket(&self) -> io::Result<Box<dyn Socket>>;
}

/// A socket; closed when dropped.
pub(crate) trait Socket {
    fn set(&self, option: Set) -> io::Result<()>;
    fn bind(&self, to: SocketAddrV4) -> io::Result<()>;
    fn listen(&self) -> io::Result<()>;
    fn accept(&self) -> io::Result<Box<dyn Socket>>;
    fn connect(&self, to: SocketAddrV4) -> io::Result<()>;
    fn read(&self, into: &mut [u8]) -> io::Result<usize>;
    fn write(&self, data: &[u8]) -> io::Result<usize>;
    fn shut_write(&self) -> io::Result<()>;
}

/// Plays a list of commands and says what the calls answered. Both ends meet before the first SYN.
pub(crate) fn play(
    host: &dyn Host,
    own: SocketAddrV4,
    other: SocketAddrV4,
    commands: &[Do],
    meeting: &Meeting,
) -> io::Result<Vec<String>> {
    let mut told = Vec::new();
    let first = host.socket()?;
    first.set(Set::Timeout(TIMEOUT))?;
    let mut socket = Some(first);
    for command in commands {
        let Some(open) = &socket else { break };
        match *command {
            Do::Connect => {
                meeting.attend()?;
                told.push(format!("connect: {}", outcome(&open.connect(other))));
            }
            Do::Cross => {
                open.bind(own)?;
                meeting.attend()?;
                told.push(format!("connect: {}", outcome(&open.connect(other))));
            }
            Do::Listen => {
                open.bind(own)?;
                open.listen()?;
                meeting.attend()?;
                let accepted = open.accept();
                told.push(format!("accept: {}", outcome(&accepted)));
                socket = accepted.ok();
                socket.iter().try_for_each(|socket| socket.set(Set::Timeout(TIMEOUT)))?;
            }
            Do::Absent => {
                meeting.attend()?;
            }
            Do::Write(len) => told.push(format!("write {len}: {}", outcome(&write(&**open, len)))),
            Do::Read(most) => {
                let (got, end) = read(&**open, most);
                told.push(format!("read: {got} bytes, {}", outcome(&end)));
            }
            Do::Sleep(ms) => std::thread::sleep(Duration::from_millis(ms)),
            Do::Await(ms) => {
                open.set(Set::Timeout(Duration::from_millis(ms)))?;
                let (got, end) = read(&**open, 1);
                told.push(format!("read: {got} bytes, {}", outcome(&end)));
                open.set(Set::Timeout(TIMEOUT))?;
            }
            Do::ShutWrite => told.push(format!("shutdown: {}", outcome(&open.shut_write()))),
            Do::Close => socket = None,
            Do::Set(option) => open.set(option)?,
        }
    }
    Ok(told)
}

fn outcome<T>(result: &io::Result<T>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(why) => format!("{:?}", why.kind()),
    }
}

fn write(socket: &dyn Socket, len: usize) -> io::Result<()> {
    let data = vec![b'x'; len];
    let mut gone = 0;
    while gone < len {
        gone += socket.write(&data[gone..])?;
    }
    Ok(())
}

/// How many bytes came, and whether that was all.
fn read(socket: &dyn Socket, most: usize) -> (usize, io::Result<()>) {
    let (mut got, mut into) = (0, vec![0; 1 << 16]);
    while got < most {
        let room = into.len().min(most - got);
        match socket.read(&mut into[..room]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(why) => return (got, Err(why)),
        }
    }
    (got, Ok(()))
}
