//! Finds the process that holds a busy port, as `ss -ltnp` would.

use std::fmt;
use std::fs;

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} ({})", self.pid, self.command)
    }
}

/// The process that listens on that TCP port, if this user may see it.
#[must_use]
pub fn find(port: u16) -> Option<Holder> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .collect();
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    if wanted.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| holds(*pid, &wanted))
        .map(|pid| Holder { pid, command: command(pid) })
}

/// The inodes of listening sockets of that port in a table like /proc/net/tcp.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| {
        row.get(1).is_some_and(|local| local.ends_with(&suffix)) && row.get(3) == Some(&LISTEN)
    })
    .filter_map(|row| row.get(9).map(|inode| (*inode).to_owned()))
    .collect()
}

fn holds(pid: u32, wanted: &[String]) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().any(|file| {
        fs::read_link(file.path())
            .is_ok_and(|target| wanted.iter().any(|w| target.as_os_str() == w.as_str()))
    })
}

fn command(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text: Vec<String> = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .take(8)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    text.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn my_own_port_is_mine() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = find(listener.local_addr().unwrap().port()).unwrap();
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.command.is_empty());
    }

    #[test]
    fn a_free_port_is_nobodys() {
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        assert_eq!(find(port), None);
    }
}
