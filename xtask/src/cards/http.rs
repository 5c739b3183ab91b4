//! The other end of the wire: an HTTP client and server on the kernel's sockets, which compare every byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A busy guest takes its time.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes that name their place, so that a mix-up shows.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Asks for `path` on a connection of its own and compares the body.
pub(super) fn get(to: SocketAddr, path: &str, expected: &[u8]) -> Result<(), String> {
    Client::connect(to)?.ask(path, expected, "Connection: close\r\n")
}

/// A connection that can carry several requests.
pub(super) struct Client {
    to: SocketAddr,
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(super) fn connect(to: SocketAddr) -> Result<Client, String> {
        let what = |step: &'static str| move |error: std::io::Error| format!("{step} {to}: {error}");
        let stream = TcpStream::connect_timeout(&to, LIMIT).map_err(what("connect to"))?;
        stream.set_read_timeout(Some(LIMIT)).map_err(what("set up"))?;
        stream.set_nodelay(true).map_err(what("set up"))?;
        Ok(Client { to, stream: BufReader::new(stream) })
    }

    /// Returns this end's address.
    pub(super) fn local(&self) -> Result<SocketAddr, String> {
        self.stream.get_ref().local_addr().map_err(|error| format!("connected to {}: {error}", self.to))
    }

    /// Asks for `path`, compares the body, and leaves the connection open.
    pub(super) fn get(&mut self, path: &str, expected: &[u8]) -> Result<(), String> {
        self.ask(path, expected, "")
    }

    fn ask(&mut self, path: &str, expected: &[u8], fields: &str) -> Result<(), String> {
        let (to, answer) = (self.to, &mut self.stream);
        let what = |step: &'static str| move |error: std::io::Error| format!("{step} {to}{path}: {error}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: card\r\n{fields}\r\n");
        answer.get_mut().write_all(request.as_bytes()).map_err(what("ask"))?;
        let mut length = None;
        let mut line = String::new();
        answer.read_line(&mut line).map_err(what("read from"))?;
        if !line.contains(" 200 ") {
            return Err(format!("{to}{path}: {}", line.trim_end()));
        }
        loop {
            line.clear();
            if answer.read_line(&mut line).map_err(what("read from"))? == 0 || line.trim_end().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse::<usize>().ok();
            }
        }
        let length = length.ok_or(format!("{to}{path}: no length"))?;
        let mut body = vec![0; length];
        answer.read_exact(&mut body).map_err(what("read from"))?;
        if body == expected {
            return Ok(());
        }
        let at = body.iter().zip(expected).position(|(got, wanted)| got != wanted);
        Err(format!("{to}{path}: {length} bytes for {}, the first wrong one is {at:?}", expected.len()))
    }
}

/// A server for as long as it lives: `/N` is answered with N bytes.
pub(super) struct Server {
    pub(super) port: u16,
    count: Arc<Count>,
}

/// Header by which a proxy names the thread that made a request.
pub(super) const THREAD: &str = "x-thread";
/// Threads of a proxy that are told apart.
const THREADS: usize = 8;

/// Requests that were answered.
#[derive(Default)]
struct Count {
    served: AtomicU64,
    by_thread: [AtomicU64; THREADS],
}

impl Server {
    /// Listens on a port of `on`; its threads end with the process.
    pub(super) fn start(on: IpAddr) -> Result<Server, String> {
        let told = |error: std::io::Error| format!("listen on {on}: {error}");
        let listener = TcpListener::bind((on, 0)).map_err(told)?;
        let port = listener.local_addr().map_err(told)?.port();
        let all = Arc::new(Count::default());
        let count = all.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = count.clone();
                std::thread::spawn(move || answer(stream, &count));
            }
        });
        Ok(Server { port, count: all })
    }

    /// Requests answered so far.
    pub(super) fn served(&self) -> u64 {
        self.count.served.load(Ordering::Relaxed)
    }

    /// Requests answered so far, by the thread of the proxy that [`THREAD`] named.
    pub(super) fn served_by_thread(&self) -> Vec<u64> {
        self.count.by_thread.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

fn answer(stream: TcpStream, count: &Count) {
    let Ok(mut out) = stream.try_clone() else { return };
    let (mut length, mut thread) = (0, None);
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let Some(path) = line.strip_prefix("GET /") {
            length = path.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
            thread = None;
        } else if let Some(value) = line.to_ascii_lowercase().strip_prefix(THREAD) {
            thread = value.trim_start_matches(':').trim().parse::<usize>().ok();
        } else if line.is_empty() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            count.served.fetch_add(1, Ordering::Relaxed);
            if let Some(by_thread) = thread.and_then(|thread| count.by_thread.get(thread)) {
                by_thread.fetch_add(1, Ordering::Relaxed);
            }
            if out.write_all(&[head.into_bytes(), pattern(length)].concat()).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
