//! An echo server that reads like std::net, on a stack of its own.
//!
//! ```text
//! cargo run --release -p millstream-sock --example echo -- link=xdp:eth0
//! cargo run --release -p millstream-sock --example echo -- link=tap:mst0,host=10.0.0.2/24 address=10.0.0.1/24
//! ```
//! Then `nc ADDRESS 7` from another machine (or, with tap, from this one).

use sock::{Settings, TcpListener, TcpStream};
use std::error::Error;
use std::io::{Read, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let mut settings = Settings::default();
    settings.from_environment()?;
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').ok_or("arguments look like link=tap:mst0")?;
        settings.set(key, value)?;
    }
    let opened = sock::open(&settings)?;
    let listener = TcpListener::bind(&opened.stacks[0], "0.0.0.0:7")?;
    println!("echoing on {} over {}", listener.local_addr()?, settings.link);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            let peer = stream.peer_addr();
            if let Err(e) = echo(stream) {
                eprintln!("{peer:?}: {e}");
            }
        });
    }
    Ok(())
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buf = [0; 16_384];
    loop {
        match stream.read(&mut buf)? {
            0 => return Ok(()),
            n => stream.write_all(&buf[..n])?,
        }
    }
}
