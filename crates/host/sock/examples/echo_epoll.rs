//! Echo server in the style of epoll: one thread, one poller, any number of connections.
//!
//! ```text
//! cargo run --release -p millstream-sock --example echo_epoll -- link=tap:mst0,host=10.0.0.2/24 address=10.0.0.1/24
//! ```

use sock::{EpollEvent, Errno, Fd, Poller, Ready, RecvFlags, SendFlags, Settings, Stack, TcpListener};
use std::collections::HashMap;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut settings = Settings::default();
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').ok_or("arguments look like link=tap:mst0")?;
        settings.set(key, value)?;
    }
    let stack = sock::open(&settings)?.stacks.remove(0);
    let listener = TcpListener::bind(&stack, "0.0.0.0:7")?;
    listener.set_nonblocking(true)?;
    let poller = Poller::new(&stack)?;
    poller.add(listener.fd(), listener.fd() as u64, Ready::IN)?;
    println!("echoing on {} over {}", listener.local_addr()?, settings.link);
    // What could not be sent yet, by descriptor.
    let mut backlog: HashMap<Fd, Vec<u8>> = HashMap::new();
    let mut events = [EpollEvent::default(); 256];
    loop {
        for event in poller.wait(&mut events, None)?.to_vec() {
            let fd = event.data as Fd;
            if fd == listener.fd() {
                accept(&stack, &poller, fd)?;
            } else if serve(&stack, &poller, fd, backlog.entry(fd).or_default()).is_err() {
                backlog.remove(&fd);
                stack.close(fd)?;
            }
        }
    }
}

fn accept(stack: &Stack, poller: &Poller, listener: Fd) -> Result<(), Errno> {
    loop {
        match stack.accept(listener) {
            Ok((fd, _)) => {
                stack.set_nonblocking(fd, true)?;
                poller.add(fd, fd as u64, Ready::IN)?;
            }
            Err(Errno::EAGAIN) => return Ok(()),
            Err(e) => return Err(e),
        }
    }
}

/// Sends what is left, then echoes what came; an error means that the connection is over.
fn serve(stack: &Stack, poller: &Poller, fd: Fd, left: &mut Vec<u8>) -> Result<(), Errno> {
    let mut buf = [0; 16_384];
    while left.is_empty() {
        match stack.recv(fd, &mut buf, RecvFlags::default()) {
            Ok(0) => return Err(Errno::EPIPE),
            Ok(n) => left.extend_from_slice(&buf[..n]),
            Err(Errno::EAGAIN) => return Ok(()),
            Err(e) => return Err(e),
        }
        flush(stack, fd, left)?;
    }
    flush(stack, fd, left)?;
    // Nothing more is read until the peer takes what it sent.
    poller.modify(fd, fd as u64, if left.is_empty() { Ready::IN } else { Ready::OUT })
}

fn flush(stack: &Stack, fd: Fd, left: &mut Vec<u8>) -> Result<(), Errno> {
    if left.is_empty() {
        return Ok(());
    }
    match stack.send(fd, left, SendFlags::default()) {
        Ok(n) => {
            left.drain(..n);
            Ok(())
        }
        Err(Errno::EAGAIN) => Ok(()),
        Err(e) => Err(e),
    }
}
