//! Prints what the processes say, line by line, with the name of the process in front.

use std::io::{BufRead, BufReader, Read, Write};

/// A longer line is printed in pieces of this size, so that a process that never ends a line cannot
/// fill the memory.
const MAX_LINE: usize = 64 * 1024;

/// Copies `source` to `sink` until it ends. Each line is one write, so that lines of different
/// processes never mix; a sink that is closed is no reason to stop reading.
pub(crate) fn copy_lines<R: Read, W: Write>(label: &str, source: R, mut sink: W) {
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
    fn an_endless_line_is_printed_in_pieces() {
        let mut out = Vec::new();
        copy_lines("w", &vec![b'x'; MAX_LINE + 10][..], &mut out);
        let text = String::from_utf8(out).unwrap();
        let lengths: Vec<usize> = text.lines().map(|line| line.len() - "[w] ".len()).collect();
        assert_eq!(lengths, [MAX_LINE, 10]);
    }
}
