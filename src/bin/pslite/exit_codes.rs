//! The codes with which commands end where that is neither success nor the code of another program.

/// As clap's own code for wrong arguments: the command did not do its work.
pub(crate) const FAILED: u8 = 2;

/// As a shell reports a program that was ended by SIGPIPE.
pub(crate) const READER_GONE: i32 = 128 + 13;
