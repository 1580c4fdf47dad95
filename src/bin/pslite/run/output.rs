//! Prints what the processes say, line by line, with the name of the process in front, and keeps
//! the last lines of each.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A longer line is printed in pieces of this size, so that a process that never ends a line cannot
/// fill the memory.
const MAX_LINE: usize = 64 * 1024;

/// So many of a process's last lines are kept, ...
const KEPT_LINES: usize = 3;
/// ... and so much of each.
const KEPT_BYTES: usize = 400;
/// What a node of ours says when something is lost (`pslite_observe::log`).
const ERROR: &str = "pslite: error: ";

/// The end of what a process said on standard error.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// Its last lines that are not empty.
    pub(crate) lines: VecDeque<String>,
    /// When a node of ours in it first said an error: a number that grows over all processes.
    pub(crate) error: Option<u64>,
}

impl Tail {
    fn take(&mut self, line: &[u8], number: u64) {
        let line = &line[..line.len().min(KEPT_BYTES)];
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        if line.is_empty() {
            return;
        }
        if line.contains(ERROR) {
            self.error.get_or_insert(number);
        }
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// Where the last lines of all processes of a job are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tails {
    tails: Arc<Vec<Mutex<Tail>>>,
    lines: Arc<AtomicU64>,
}

impl Tails {
    /// Of so many processes.
    pub(crate) fn new(processes: usize) -> Self {
        let tails = (0..processes).map(|_| Mutex::default()).collect();
        Self { tails: Arc::new(tails), lines: Arc::default() }
    }

    fn take(&self, index: usize, line: &[u8]) {
        let number = self.lines.fetch_add(1, Ordering::Relaxed);
        if let Some(tail) = self.tails.get(index) {
            tail.lock().unwrap_or_else(PoisonError::into_inner).take(line, number);
        }
    }

    /// As they are now.
    pub(crate) fn all(&self) -> Vec<Tail> {
        let read = |tail: &Mutex<Tail>| tail.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.tails.iter().map(read).collect()
    }
}

/// Copies what the process of that index says on standard error, and keeps its end.
pub(crate) fn copy_errors<R: Read, W: Write>(
    label: &str,
    index: usize,
    tails: &Tails,
    source: R,
    sink: W,
) {
    copy(label, source, sink, |line| tails.take(index, line));
}

/// Copies `source` to `sink` until it ends.
pub(crate) fn copy_lines<R: Read, W: Write>(label: &str, source: R, sink: W) {
    copy(label, source, sink, |_| {});
}

/// Each line is one write, so that lines of different processes never mix; a sink that is closed is
/// no reason to stop reading.
fn copy<R: Read, W: Write>(label: &str, source: R, mut sink: W, mut seen: impl FnMut(&[u8])) {
    let mut source = BufReader::with_capacity(MAX_LINE, source);
    let prefix = format!("[{label}] ");
    let mut line = Vec::with_capacity(256);
    loop {
        line.clear();
        line.extend_from_slice(prefix.as_bytes());
        let read = (&mut source).take(MAX_LINE as u64).read_until(b'\n', &mut line);
        match read {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                seen(&line[prefix.len()..]);
                if line.last() != Some(&b'\n') {
                    line.push(b'\n');
                }
                let _ = sink.write_all(&line).and_then(|()| sink.flush());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_name_in_front() {
        let mut out = Vec::new();
        copy_lines("worker 0", &b"one\n\ntwo"[..], &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "[worker 0] one\n[worker 0] \n[worker 0] two\n"
        );
    }

    #[test]
    fn the_last_lines_and_the_first_error_are_kept() {
        let tails = Tails::new(2);
        let said = b"one\n[10:00:00] pslite: error: lost server 1\n\ntwo\nthree\n  four  \n";
        copy_errors("worker 0", 1, &tails, &said[..], std::io::sink());
        copy_errors("worker 0", 1, &tails, &b"pslite: error: more\n"[..], std::io::sink());
        let all = tails.all();
        assert!(all[0].lines.is_empty() && all[0].error.is_none());
        assert_eq!(all[1].lines, ["three", "  four", "pslite: error: more"]);
        assert_eq!(all[1].error, Some(1));
        copy_errors("w", 0, &tails, &vec![b'x'; MAX_LINE + 10][..], std::io::sink());
        assert_eq!(tails.all()[0].lines[0].len(), KEPT_BYTES);
    }

    #[test]
    fn an_endless_line_is_printed_in_pieces() {
        let mut out = Vec::new();
        copy_lines("w", &vec![b'x'; MAX_LINE + 10][..], &mut out);
        let text = String::from_utf8(out).unwrap();
        let lengths: Vec<usize> = text.lines().map(|line| line.len() - "[w] ".len()).collect();
        assert_eq!(lengths, [MAX_LINE, 10]);
    }
}
