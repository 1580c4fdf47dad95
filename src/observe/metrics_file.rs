//! The file that `PSLITE_METRICS` names: where it is, how often it is written, and the writing.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::time::Duration;

/// How often, if the setting does not say.
const INTERVAL: Duration = Duration::from_secs(10);
/// The shortest interval: a line is a few kilobytes.
const INTERVAL_LEAST: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsFile {
    path: String,
    /// Between two lines.
    pub interval: Duration,
}

impl MetricsFile {
    /// From `FILE[:SECONDS]`; `None` if there is no file, or the seconds are less than 0.01. A file
    /// whose name ends in a colon and a number needs the seconds behind it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let seconds = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let (path, interval) = match text.rsplit_once(':') {
            Some((path, tail)) if seconds(tail).is_some() => {
                let seconds = seconds(tail).filter(|seconds| (0.0..1e9).contains(seconds))?;
                (path, Duration::from_secs_f64(seconds))
            }
            _ => (text, INTERVAL),
        };
        let sound = !path.is_empty() && interval >= INTERVAL_LEAST;
        sound.then(|| Self { path: path.to_owned(), interval })
    }

    /// The path of this process: `%r` is its role and rank (the role alone without a rank), `%p`
    /// its pid.
    #[must_use]
    pub fn path(&self, role_and_rank: &str) -> String {
        self.path.replace("%r", role_and_rank).replace("%p", &std::process::id().to_string())
    }

    /// Appends a line, in one write: several processes may share the file.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub fn append(&self, role_and_rank: &str, line: &str) -> io::Result<()> {
        let path = self.path(role_and_rank);
        // A pipe that nobody reads would hold up the node, also at its end.
        if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let text = format!("{path} is no regular file, but a folder, a pipe or a device");
            return Err(io::Error::other(text));
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{line}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_behind_the_last_colon() {
        let parse = |text| MetricsFile::parse(text).map(|file| (file.path, file.interval));
        let expected =
            |path: &str, seconds| Some((path.to_owned(), Duration::from_secs_f64(seconds)));
        assert_eq!(parse("/tmp/m.jsonl"), expected("/tmp/m.jsonl", 10.0));
        assert_eq!(parse("m:0.5"), expected("m", 0.5));
        assert_eq!(parse("a:b"), expected("a:b", 10.0));
        assert_eq!(parse("a:1:2"), expected("a:1", 2.0));
        for nonsense in ["", ":3", "m:0", "m:-1", "m:1e12"] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_device_or_a_pipe_is_refused() {
        let (_reader, writer) = io::pipe().unwrap();
        let pipe = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        for odd in ["/dev/full", "/dev/null", "/", pipe.as_str()] {
            let file = MetricsFile::parse(odd).unwrap();
            let error = file.append("worker3", "one").unwrap_err().to_string();
            assert!(error.contains(odd) && error.contains("no regular file"), "{error}");
        }
    }

    #[test]
    fn lines_are_appended_to_the_file_of_the_process() {
        let folder = std::env::temp_dir().join(format!("pslite-metrics-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = MetricsFile::parse(&format!("{}/%r-%p.x:1", folder.display())).unwrap();
        file.append("worker3", "one").unwrap();
        file.append("worker3", "two").unwrap();
        let path = folder.join(format!("worker3-{}.x", std::process::id()));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
