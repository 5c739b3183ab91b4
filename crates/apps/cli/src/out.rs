//! Output of commands. A reader that has seen enough (`millstream stat | head`) ends the command, and is no error.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Prints a line to the standard output.
macro_rules! outln {
    () => { $crate::out::print(format_args!("\n")) };
    ($($part:tt)*) => { $crate::out::print(format_args!("{}\n", format_args!($($part)*))) };
}

/// Prints to the standard output.
macro_rules! out {
    ($($part:tt)*) => { $crate::out::print(format_args!($($part)*)) };
}

/// Prints, or ends the command if nothing can be printed any more.
pub(crate) fn print(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => {
            eprintln!("millstream: standard output: {e}");
            std::process::exit(1);
        }
    }
}
