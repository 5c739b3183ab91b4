//! The other end: a foreign stack with its own application, frames in, frames out.

use base::Instant;
use emu::{Host, SimPort};
use pio::{PacketIo, RxBatch, TxBatch, TxMeta, TxPacket};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Frames of one turn, out of one buffer.
#[derive(Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    lens: Vec<usize>,
}

impl Frames {
    pub(super) fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.lens.push(frame.len());
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.lens.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.lens.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.lens.iter().map(move |len| {
            at += len;
            &self.bytes[at - len..at]
        })
    }
}

/// Report of a foreign stack after a turn.
#[derive(Clone, Copy, Default)]
pub(super) struct Report {
    /// The date of its next turn if nothing arrives before.
    pub(super) next: Option<Instant>,
    /// Bytes that its application gave to it, or took from it and compared.
    pub(super) bytes: u64,
    /// Everything was sent or taken, and the connection closed both ways.
    pub(super) done: bool,
}

/// A foreign stack with its application. It moves only in its turns.
pub(super) trait Stack {
    /// Takes `frames` at `now`, works, and puts what it sends into `out`.
    ///
    /// # Errors
    /// A description of the failure; the stack cannot be used any more.
    fn turn(&mut self, now: Instant, frames: &Frames, out: &mut Frames) -> Result<Report, String>;
}

/// A host with a foreign stack.
pub(super) struct Theirs {
    port: SimPort,
    stack: Box<dyn Stack>,
    rx: RxBatch,
    tx: TxBatch,
    frames: Frames,
    out: Frames,
    pub(super) report: Report,
    pub(super) failed: Option<String>,
}

impl Theirs {
    pub(super) fn new(port: SimPort, stack: Box<dyn Stack>) -> Theirs {
        let (frames, out) = (Frames::default(), Frames::default());
        let (rx, tx) = (RxBatch::new(), TxBatch::new());
        Theirs { port, stack, rx, tx, frames, out, report: Report::default(), failed: None }
    }
}

impl Host for Theirs {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        if self.failed.is_some() {
            return None;
        }
        self.frames.clear();
        self.out.clear();
        while self.port.rx(&mut self.rx).expect("a simulated port does not fail") > 0 {
            for packet in self.rx.drain(..) {
                self.frames.push(packet.frame.data());
                self.port.retire(packet.frame);
            }
        }
        match self.stack.turn(now, &self.frames, &mut self.out) {
            Ok(report) => self.report = report,
            Err(error) => {
                self.failed = Some(error);
                return None;
            }
        }
        for bytes in self.out.iter() {
            let mut frame = self.port.take().expect("frames for a turn");
            frame.set_range(0, bytes.len());
            frame.data_mut().copy_from_slice(bytes);
            self.tx.push_back(TxPacket { frame, meta: TxMeta::default() });
        }
        self.port.tx(&mut self.tx).expect("a simulated port does not fail");
        self.report.next
    }
}

/// A foreign stack in a program of its own, which `peers/interop/lwip.c` describes.
pub(super) struct Program {
    child: Child,
    // Gone first, by which the program ends.
    to: Option<BufWriter<ChildStdin>>,
    from: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it; it is killed after `limit` seconds.
    pub(super) fn start(path: &Path, words: &[String], limit: u32) -> Result<Program, String> {
        let mut command = Command::new("timeout");
        command.arg(limit.to_string()).arg(path).args(words).env("GOMAXPROCS", "1");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("timeout {}: {e}", path.display()))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a program without pipes".into());
        };
        let (to, from) = (BufWriter::with_capacity(1 << 20, to), BufReader::with_capacity(1 << 20, from));
        Ok(Program { child, to: Some(to), from })
    }

    fn exchange(&mut self, now: Instant, frames: &Frames, out: &mut Frames) -> std::io::Result<Report> {
        let to = self.to.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        to.write_all(&now.as_nanos().to_ne_bytes())?;
        to.write_all(&(frames.len() as u32).to_ne_bytes())?;
        for frame in frames.iter() {
            to.write_all(&(frame.len() as u32).to_ne_bytes())?;
            to.write_all(frame)?;
        }
        to.flush()?;
        let mut frame = [0; 2048];
        for _ in 0..self.u32()? {
            let len = self.u32()? as usize;
            let bytes = frame.get_mut(..len).ok_or(std::io::ErrorKind::InvalidData)?;
            self.from.read_exact(bytes)?;
            out.push(bytes);
        }
        let next = self.u64()?;
        let next = (next != u64::MAX).then(|| Instant::from_nanos(next));
        let bytes = self.u64()?;
        let mut done = [0; 1];
        self.from.read_exact(&mut done)?;
        Ok(Report { next, bytes, done: done[0] == 1 })
    }

    fn u32(&mut self) -> std::io::Result<u32> {
        let mut bytes = [0; 4];
        self.from.read_exact(&mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    fn u64(&mut self) -> std::io::Result<u64> {
        let mut bytes = [0; 8];
        self.from.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

impl Stack for Program {
    fn turn(&mut self, now: Instant, frames: &Frames, out: &mut Frames) -> Result<Report, String> {
        // What it has to say about its end it says on standard error.
        self.exchange(now, frames, out).map_err(|e| format!("the foreign program ended: {e}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.to = None;
        if let Err(e) = self.child.wait() {
            eprintln!("millstream-bench: {e}");
        }
    }
}
