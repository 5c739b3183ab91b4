//! An echo server whose clients must sign with TCP MD5 (RFC 2385), and then a client that signs, as BGP speakers do:
//!
//! ```text
//! echo_signed tap:mst0 10.0.0.1/24 10.0.0.2 PASSWORD [PORT-TO-CONNECT-TO]
//! ```
//! It serves port 179 and any address whose key it has; with a port it connects to the peer first, sends a line and
//! prints what comes back.

use sock::{Settings, TcpListener, TcpStream, keys};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use tcp::auth::{Peers, Secret};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [link, address, peer, password, port @ ..] = &args[..] else {
        return Err("echo_signed LINK ADDRESS/PREFIX PEER PASSWORD [PORT]".into());
    };
    let mut settings = Settings::default();
    settings.set("link", link)?;
    settings.set("address", address)?;
    let stack = sock::open(&settings)?.stacks.remove(0);
    let peer: IpAddr = peer.parse()?;
    let peers = Peers { addr: peer.into(), prefix: if peer.is_ipv4() { 32 } else { 128 } };
    let secret = Secret::new(password.as_bytes()).ok_or("a password of at most 80 bytes")?;
    let key = keys::md5(peers, secret);

    if let [port] = port {
        let addr = SocketAddr::new(peer, port.parse()?);
        let mut stream = TcpStream::connect_signed(&stack, addr, std::slice::from_ref(&key))?;
        stream.write_all(b"a signed line\n")?;
        let mut line = [0; 14];
        stream.read_exact(&mut line)?;
        print!("{}", String::from_utf8_lossy(&line));
    }
    let any = if peer.is_ipv4() { "0.0.0.0:179" } else { "[::]:179" };
    let listener = TcpListener::bind(&stack, any)?;
    listener.change_keys(&key)?;
    loop {
        let (mut stream, peer) = listener.accept()?;
        let mut buf = [0; 65_536];
        let mut total = 0;
        loop {
            match stream.read(&mut buf) {
                Ok(0) => break,
                Ok(n) => {
                    stream.write_all(&buf[..n])?;
                    total += n;
                }
                Err(why) => {
                    println!("{peer}: {why}");
                    break;
                }
            }
        }
        println!("{peer}: {total} bytes");
    }
}
