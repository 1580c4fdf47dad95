//! What commands print. A reader that has seen enough (`pslite status | head`) ends the command, as
//! it does with other programs; the `println!` of the standard library panics.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::process::exit;

use crate::exit_codes::{FAILED, READER_GONE};

/// Prints to standard output.
pub(crate) fn print(text: Arguments<'_>) {
    match std::io::stdout().lock().write_fmt(text) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(READER_GONE),
        Err(error) => {
            eprintln!("pslite: cannot print: {error}");
            exit(FAILED.into());
        }
    }
}

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::print::print(format_args!("{}\n", format_args!($($text)*)))
    };
}
pub(crate) use say;
