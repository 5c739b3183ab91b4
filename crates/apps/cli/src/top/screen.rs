//! The terminal while `top` has it: keys come one by one, and the screen is given back as it was.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A key that was pressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Letter(char),
    Up,
    Down,
    /// Ctrl-C, or a signal that says so.
    Quit,
}

/// Standard input and output, as a terminal of ours.
pub(super) struct Screen {
    before: Termios,
    stop: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal, if both are one.
    pub(super) fn take() -> io::Result<Option<Screen>> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT]
        {
            signal_hook::flag::register(signal, stop.clone())?;
        }
        let before = tcgetattr(stdin())?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(stdin(), OptionalActions::Now, &keys)?;
        let screen = Screen { before, stop };
        // Another screen than that of the shell, without a cursor.
        write!(io::stdout(), "\x1b[?1049h\x1b[?25l")?;
        Ok(Some(screen))
    }

    /// Lines and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(stdout()).map_or((0, 0), |size| (size.ws_row, size.ws_col));
        // A terminal that does not know is as large as the first ones were.
        (
            usize::from(if size.0 == 0 { 24 } else { size.0 }),
            usize::from(if size.1 == 0 { 80 } else { size.1 }),
        )
    }

    /// Draws a picture, cut to the screen.
    pub(super) fn draw(&self, picture: &str) -> io::Result<()> {
        let (lines, columns) = self.size();
        let mut text = String::from("\x1b[H");
        for (nth, line) in picture.lines().take(lines).enumerate() {
            text += if nth == 0 { "" } else { "\r\n" };
            text.extend(line.chars().take(columns));
            text += "\x1b[K";
        }
        let mut out = io::stdout().lock();
        write!(out, "{text}\x1b[J")?;
        out.flush()
    }

    /// The next key, if one is pressed within `time`.
    pub(super) fn key(&self, time: Duration) -> io::Result<Option<Key>> {
        let input = stdin();
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        let time = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        match poll(&mut ready, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        if self.stop.load(Ordering::Relaxed) || ready[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
        {
            return Ok(Some(Key::Quit));
        }
        if !ready[0].revents().contains(PollFlags::IN) {
            return Ok(None);
        }
        let mut bytes = [0; 16];
        let len = rustix::io::read(input, &mut bytes)?;
        Ok(key_of(&bytes[..len]))
    }
}

/// Returns the key that sends these bytes; `None` for keys without a meaning here.
fn key_of(bytes: &[u8]) -> Option<Key> {
    match bytes {
        [] | [3 | 4, ..] => Some(Key::Quit),
        [0x1b, b'[' | b'O', b'A', ..] => Some(Key::Up),
        [0x1b, b'[' | b'O', b'B', ..] => Some(Key::Down),
        [letter @ b' '..=b'~', ..] => Some(Key::Letter((*letter).into())),
        _ => None,
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Who has taken the terminal away needs none of this.
        let _ = write!(io::stdout(), "\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests;
