//! Log lines: `[HH:MM:SS] pslite: text` on standard error, with a limit for repeated warnings.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Something is lost.
    Error = 0,
    /// Something is odd; the job goes on.
    Warning = 1,
    /// What an operator wants to know once.
    Info = 2,
    /// Each step (`PS_VERBOSE=1`).
    Verbose = 3,
    /// Each message (`PS_VERBOSE=2`).
    Trace = 4,
}

static LIMIT: AtomicU8 = AtomicU8::new(Level::Warning as u8);

/// Lines above this level are left out, in the whole process.
pub fn set_level(level: Level) {
    LIMIT.store(level as u8, Ordering::Relaxed);
}

/// True if a line of that level would be printed.
#[must_use]
pub fn enabled(level: Level) -> bool {
    level as u8 <= LIMIT.load(Ordering::Relaxed)
}

/// An error that was printed: the hash of its text, and when.
type LastPrinted = (u64, Instant);
static SAID: Mutex<VecDeque<LastPrinted>> = Mutex::new(VecDeque::new());
/// So many of them are remembered, ...
const SAID_MAX: usize = 8;
/// ... and an error is not printed again within that time.
const SAID_FOR: Duration = Duration::from_secs(10);

/// Whether an error has just been printed in the same words: each request that fails for the same
/// reason would say it again. Waits for nobody: in a child of `fork` another thread may have had
/// the lock.
fn is_repeated(now: Instant, text: &str) -> bool {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let hash = hasher.finish();
    let Ok(mut said) = SAID.try_lock() else { return false };
    if said.iter().any(|(of, at)| *of == hash && now.saturating_duration_since(*at) < SAID_FOR) {
        return true;
    }
    if said.len() == SAID_MAX {
        said.pop_front();
    }
    said.push_back((hash, now));
    false
}

/// Prints one line; an error that was just printed is not printed again. A closed standard error is
/// no reason to fail.
pub fn write(level: Level, text: &str) {
    if !enabled(level) || level == Level::Error && is_repeated(Instant::now(), text) {
        return;
    }
    let word = match level {
        Level::Error => "error: ",
        Level::Warning => "warning: ",
        Level::Info | Level::Verbose | Level::Trace => "",
    };
    print(word, text);
}

/// Prints a line that somebody asked for by a setting, whatever the level.
pub fn announce(text: &str) {
    print("", text);
}

fn print(word: &str, text: &str) {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()) % 86_400;
    let line = format!(
        "[{:02}:{:02}:{:02}] pslite: {word}{text}\n",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Lets a warning through at most once in an interval and counts the rest, so that a peer that
/// sends garbage cannot fill the disk with our words about it.
#[derive(Debug)]
pub struct RateLimit {
    started: Instant,
    interval: Duration,
    next_ms: AtomicU64,
    total: AtomicU64,
}

impl RateLimit {
    /// At most one line per interval.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self {
            started: Instant::now(),
            interval,
            next_ms: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }

    /// Counts one occurrence; the total so far if it is time for a line.
    pub fn hit(&self) -> Option<u64> {
        let total = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let now = self.started.elapsed().as_millis() as u64;
        let next = self.next_ms.load(Ordering::Relaxed);
        let after = now + self.interval.as_millis() as u64;
        let mine = now >= next
            && self
                .next_ms
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        mine.then_some(total)
    }

    /// How many occurrences there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_said_once_for_a_while() {
        let now = Instant::now();
        assert!(!is_repeated(now, "lost server 1") && !is_repeated(now, "lost server 2"));
        assert!(is_repeated(now, "lost server 1"));
        assert!(is_repeated(now + SAID_FOR / 2, "lost server 2"));
        assert!(!is_repeated(now + SAID_FOR, "lost server 1"), "it happened again");
        for number in 0..SAID_MAX {
            assert!(!is_repeated(now, &format!("error {number}")), "nothing grows");
        }
        assert!(!is_repeated(now, "lost server 2"));
    }

    #[test]
    fn a_limit_lets_one_line_through_and_counts_all() {
        let limit = RateLimit::new(Duration::from_secs(3600));
        assert_eq!(limit.hit(), Some(1));
        assert_eq!(limit.hit(), None);
        assert_eq!(limit.total(), 2);
    }
}
