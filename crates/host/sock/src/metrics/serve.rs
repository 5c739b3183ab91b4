//! Metrics over HTTP, from threads of their own on the kernel's stack. A thread that asks slowly, wrongly or often
//! costs a bounded number of threads, seconds and looks at the cores.

use super::{CONTENT_TYPE, text};
use crate::clients::{desk, in_thread};
use crate::clock::{Clock, SystemClock};
use crate::net::Stack;
use crate::sockets::Sockets;
use base::{Duration, Instant};
use pio::apart;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Clients answered at once; others are refused.
const CLIENTS_MAX: usize = 8;
/// Bytes of a request.
const REQUEST_MAX: usize = 8_192;
/// How long a request, and then its answer, may take.
const BUSY_POLL: Duration = Duration::from_secs(2);
/// A text younger than this is served again.
const FRESH: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub struct Serving {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Serving {
    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread that accepts; if nothing does any more, there is nothing to wake.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(100));
    }
}

/// State that the threads share.
struct Shared {
    desk: Sender<SyncSender<Arc<String>>>,
    clock: Mutex<SystemClock>,
    text: Mutex<Option<(Instant, Arc<String>)>>,
    clients: AtomicUsize,
}

/// Serves the metrics of `stacks` on `address`, a socket of the kernel's.
///
/// # Errors
/// The address is not one, or taken.
pub fn serve(address: &str, stacks: &[Stack]) -> io::Result<Serving> {
    let stacks: Vec<Weak<dyn Sockets>> = stacks.iter().map(Arc::downgrade).collect();
    let desk = desk("millstream-asked", move |wants: SyncSender<Arc<String>>| {
        let stacks: Vec<Stack> = stacks.iter().filter_map(Weak::upgrade).collect();
        // A client that leaves before the answer does no harm.
        let _ = wants.send(Arc::new(text(&stacks)));
    })?;
    let shared = Arc::new(Shared {
        desk,
        clock: Mutex::new(SystemClock::new()),
        text: Mutex::new(None),
        clients: AtomicUsize::new(0),
    });
    let stop = Arc::<AtomicBool>::default();
    let listener = TcpListener::bind(address)?;
    let (ended, address) = (stop.clone(), listener.local_addr()?);
    apart::spawn_with("millstream-metrics", listener, move |listener: TcpListener| {
        for client in listener.incoming() {
            if ended.load(Ordering::Acquire) {
                return;
            }
            match client {
                Ok(client) => admit(&shared, client),
                // Too many open files, perhaps: not again at once.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    })?;
    Ok(Serving { address, stop })
}

/// A thread for a client, if there are not too many already.
fn admit(shared: &Arc<Shared>, client: TcpStream) {
    if shared.clients.fetch_add(1, Ordering::AcqRel) >= CLIENTS_MAX {
        shared.clients.fetch_sub(1, Ordering::AcqRel);
        return;
    }
    let shared = shared.clone();
    in_thread("millstream-metrics", client, move |client| {
        // A client that leaves before the answer does no harm.
        let _ = shared.answer(client);
        shared.clients.fetch_sub(1, Ordering::AcqRel);
    });
}

impl Shared {
    fn now(&self) -> Instant {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).now()
    }

    fn answer(&self, mut client: TcpStream) -> io::Result<()> {
        let reply = match self.request(&mut client)? {
            Some(request) => self.reply(&request),
            None => simple("400 Bad Request", "a request has a head of at most 8192 bytes"),
        };
        let deadline = self.now() + BUSY_POLL;
        let mut rest = reply.as_bytes();
        while !rest.is_empty() {
            let Some(left) = self.left(deadline) else { return Ok(()) };
            client.set_write_timeout(Some(left))?;
            rest = &rest[client.write(rest)?..];
        }
        Ok(())
    }

    fn left(&self, deadline: Instant) -> Option<Duration> {
        Some(deadline.since(self.now())).filter(|left| !left.is_zero())
    }

    /// The head of a request; `None` if it is too long, and an error if it takes too long.
    fn request(&self, client: &mut TcpStream) -> io::Result<Option<String>> {
        let deadline = self.now() + BUSY_POLL;
        let (mut head, mut piece) = (Vec::new(), [0; 1_024]);
        loop {
            let left = self.left(deadline).ok_or(io::ErrorKind::TimedOut)?;
            client.set_read_timeout(Some(left))?;
            let n = client.read(&mut piece)?;
            head.extend_from_slice(&piece[..n]);
            let ended = head.windows(4).any(|four| four == b"\r\n\r\n");
            match (ended, n, head.len() > REQUEST_MAX) {
                (_, _, true) | (false, 0, _) => return Ok(None),
                (true, ..) => return Ok(String::from_utf8(head).ok()),
                (false, ..) => {}
            }
        }
    }

    fn reply(&self, request: &str) -> String {
        let words: Vec<&str> = request.lines().next().unwrap_or("").split(' ').collect();
        let [method, target, version] = words[..] else {
            return simple("400 Bad Request", "want METHOD TARGET VERSION");
        };
        let path = target.split('?').next().unwrap_or("");
        match (method, path) {
            _ if !version.starts_with("HTTP/1.") => simple("400 Bad Request", "want HTTP/1.1"),
            ("GET", "/metrics" | "/") => response("200 OK", CONTENT_TYPE, &self.text(), true),
            ("HEAD", "/metrics" | "/") => response("200 OK", CONTENT_TYPE, &self.text(), false),
            ("GET" | "HEAD", _) => simple("404 Not Found", "look at /metrics"),
            _ => simple("405 Method Not Allowed", "GET it"),
        }
    }

    /// The text, made anew unless it was just served.
    fn text(&self) -> Arc<String> {
        let mut last = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        if let Some((at, text)) = &*last
            && now.since(*at) < FRESH
        {
            return text.clone();
        }
        let (wants, made) = sync_channel(1);
        // The desk is there as long as something can ask it.
        let fresh = self.desk.send(wants).ok().and_then(|()| made.recv().ok()).unwrap_or_default();
        *last = Some((now, fresh.clone()));
        fresh
    }
}

fn simple(status: &str, why: &str) -> String {
    response(status, "text/plain", &format!("{why}\n"), true)
}

fn response(status: &str, kind: &str, body: &str, whole: bool) -> String {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    if whole { head + body } else { head }
}
