//! The server's profiler, which a worker steers (`mx.profiler` with `profile_process="server"`;
//! kvstore_dist_server.h, ProcessServerProfilerCommands): what was served when, as a Chrome trace.
//!
//! Pure: the time comes with every call, the file that is to be written is an answer.

use std::fmt::Write as _;
use std::time::Duration;

use super::error::StoreError;

/// Events that are kept; what comes later is counted, not kept.
const EVENTS_MAX: usize = 1 << 20;

/// One request that was served.
#[derive(Clone, Debug)]
pub struct Served {
    /// `push`, `pull` or `push-pull`.
    pub what: &'static str,
    /// The key, as the application knows it.
    pub key: i64,
    /// Bytes of values that came and that went.
    pub bytes: usize,
    /// The node that asked.
    pub from: i32,
    /// When serving it began.
    pub begin: Duration,
    /// How long it took.
    pub took: Duration,
}

/// A file that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// Its name, as the worker said; the server's rank goes in front.
    pub name: String,
    /// What is in it.
    pub content: String,
}

/// What is recorded, and where it goes.
#[derive(Debug)]
pub struct Profiler {
    file: String,
    runs: bool,
    paused: bool,
    events: Vec<Served>,
    dropped: u64,
}

impl Default for Profiler {
    fn default() -> Self {
        Self {
            // As in MXNet.
            file: "profile.json".to_owned(),
            runs: false,
            paused: false,
            events: Vec::new(),
            dropped: 0,
        }
    }
}

impl Profiler {
    /// True while requests are recorded.
    #[must_use]
    pub const fn records(&self) -> bool {
        self.runs && !self.paused
    }

    /// Records a request.
    pub fn served(&mut self, event: Served) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        } else {
            self.dropped += 1;
        }
    }

    /// Obeys kSetProfilerParams: parameters, and a digit behind them that says what they are for.
    ///
    /// # Errors
    /// There is no such digit.
    pub fn command(&mut self, body: &[u8]) -> Result<Option<TraceFile>, StoreError> {
        let text = String::from_utf8_lossy(body);
        let mut parameters = text.chars();
        match parameters.next_back() {
            Some('0') => self.configure(parameters.as_str()),
            Some('1') => self.runs = parameters.as_str() == "1",
            Some('2') => self.paused = parameters.as_str() == "1",
            Some('3') => return Ok(Some(self.trace())),
            _ => {
                let what = format!("{text:?} is no command to the profiler");
                return Err(StoreError::Command(what));
            }
        }
        Ok(None)
    }

    /// `filename` is all that concerns us: there are no operators here to choose from.
    fn configure(&mut self, parameters: &str) {
        for parameter in parameters.split(',') {
            if let Some(("filename", name)) = parameter.split_once(':') {
                self.file = name.to_owned();
            }
        }
    }

    fn trace(&self) -> TraceFile {
        let mut content = String::from("{\"traceEvents\": [\n");
        for event in &self.events {
            let micros = |time: Duration| time.as_secs_f64() * 1e6;
            let _ = writeln!(
                content,
                "{{\"name\": \"{}\", \"cat\": \"server\", \"ph\": \"X\", \"pid\": 0, \"tid\": {}, \
                 \"ts\": {:.3}, \"dur\": {:.3}, \"args\": {{\"key\": {}, \"bytes\": {}}}}},",
                event.what,
                event.from,
                micros(event.begin),
                micros(event.took),
                event.key,
                event.bytes,
            );
        }
        // The last entry has no comma behind it.
        let _ = write!(
            content,
            "{{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"tid\": 0, \
             \"args\": {{\"name\": \"pslite server\", \"events dropped\": {}}}}}\n]}}\n",
            self.dropped
        );
        TraceFile { name: self.file.clone(), content }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(profiler: &mut Profiler, key: i64) {
        let at = Duration::from_micros(1500);
        let event = Served {
            what: "push",
            key,
            bytes: 4,
            from: 9,
            begin: at,
            took: Duration::from_nanos(2500),
        };
        if profiler.records() {
            profiler.served(event);
        }
    }

    #[test]
    fn only_what_happens_while_it_runs_is_in_the_trace() {
        let mut profiler = Profiler::default();
        let tell = |profiler: &mut Profiler, body: &str| profiler.command(body.as_bytes()).unwrap();
        tell(&mut profiler, "filename:a.json,profile_all:True0");
        served(&mut profiler, 1);
        tell(&mut profiler, "11");
        served(&mut profiler, 2);
        tell(&mut profiler, "12");
        served(&mut profiler, 3);
        tell(&mut profiler, "02");
        served(&mut profiler, 4);
        tell(&mut profiler, "01");
        served(&mut profiler, 5);
        let file = tell(&mut profiler, "13").unwrap();
        assert_eq!(file.name, "a.json");
        let keys: Vec<_> = file.content.lines().filter(|line| line.contains("push")).collect();
        assert_eq!(keys.len(), 2, "{}", file.content);
        assert!(keys[0].contains("\"key\": 2") && keys[0].contains("\"ts\": 1500.000"));
        assert!(keys[1].contains("\"key\": 4") && keys[1].contains("\"dur\": 2.500"));
        for wrong in ["", "9", "filename:x"] {
            assert!(profiler.command(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
