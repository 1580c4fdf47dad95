//! How two processes of one host find each other. Equal ids of the running kernel say that they are
//! on one host, and a Unix socket shows whether they can share memory. The socket's abstract name
//! works within one network namespace; its file works for processes that share a directory, such as
//! containers with one /dev/shm.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use std::path::Path;
use std::time::Duration;

use super::types::{Carriers, NativeOptions};
use pslite_core::wire::native::Info;

/// Files of nodes that were killed: how many are looked at, and how old they must be. A younger one
/// may be of a node that just starts.
const STALE_MAX: usize = 256;
const STALE_AGE: Duration = Duration::from_secs(60);
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// See the module.
#[derive(Debug)]
pub(super) struct SameHost {
    info: Info,
}

impl SameHost {
    pub(super) fn new(options: &NativeOptions) -> Self {
        let life = options.incarnation;
        let mut info = Info {
            incarnation: life,
            boot: String::new(),
            abstract_name: String::new(),
            path: String::new(),
        };
        if options.carriers != Carriers::Tcp
            && let Ok(boot) = std::fs::read_to_string(BOOT_ID)
        {
            boot.trim().clone_into(&mut info.boot);
            info.abstract_name = format!("pslite-{life:016x}");
            let path = options.socket_directory.join(format!("pslite-{life:016x}.sock"));
            info.path = path.to_str().unwrap_or_default().to_owned();
        }
        Self { info }
    }

    /// What others are told.
    pub(super) const fn info(&self) -> &Info {
        &self.info
    }

    /// The sockets that others may find; none if this node does not share memory.
    pub(super) fn listen(&self) -> Vec<UnixListener> {
        let Info { boot, abstract_name, path, .. } = &self.info;
        if boot.is_empty() {
            return Vec::new();
        }
        let mut all = Vec::new();
        let address = SocketAddr::from_abstract_name(abstract_name);
        all.extend(address.and_then(|address| UnixListener::bind_addr(&address)).ok());
        if !path.is_empty() {
            remove_stale(Path::new(path));
            all.extend(UnixListener::bind(path).ok());
        }
        all.retain(|listener| listener.set_nonblocking(true).is_ok());
        all
    }

    /// Connects to a node of this host.
    ///
    /// # Errors
    /// It is on another host, or nothing that both can reach connects them. The text says which.
    pub(super) fn connect(&self, peer: &Info) -> io::Result<OwnedFd> {
        if self.info.boot.is_empty() || peer.boot.is_empty() {
            return Err(io::Error::other("one of the nodes offers no shared memory"));
        }
        if self.info.boot != peer.boot {
            return Err(io::Error::other("it is on another host"));
        }
        let by_name = SocketAddr::from_abstract_name(&peer.abstract_name)
            .and_then(|address| UnixStream::connect_addr(&address));
        let stream = by_name.or_else(|_| UnixStream::connect(&peer.path)).map_err(|error| {
            let path = &peer.path;
            let text = format!("it is on this host, but its socket {path} is not here: {error}");
            io::Error::new(io::ErrorKind::NotFound, text)
        })?;
        stream.set_nonblocking(true)?;
        Ok(OwnedFd::from(stream))
    }

    /// Removes the file of the socket.
    pub(super) fn clean_up(&self) {
        if !self.info.path.is_empty() {
            let _ = std::fs::remove_file(&self.info.path);
        }
    }
}

/// Removes the files beside `path` that nobody listens to any more.
fn remove_stale(path: &Path) {
    let Some(Ok(directory)) = path.parent().map(std::fs::read_dir) else { return };
    let ours = directory.flatten().filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("pslite-") && name.ends_with(".sock")
    });
    for entry in ours.take(STALE_MAX) {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_AGE));
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_old && UnixStream::connect(entry.path()).err().is_some_and(refused) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(life: u64, directory: &Path) -> SameHost {
        SameHost::new(&NativeOptions {
            socket_directory: directory.to_owned(),
            ..NativeOptions::new(life, None)
        })
    }

    #[test]
    fn nodes_of_one_host_meet_by_name_or_by_file() {
        let directory = std::env::temp_dir().join(format!("pslite-meet-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let life = u64::from(std::process::id()) << 16;
        let (here, there) = (host(life | 1, &directory), host(life | 2, &directory));
        let listeners = there.listen();
        assert_eq!(listeners.len(), 2);
        here.connect(there.info()).unwrap();
        let no_name = Info { abstract_name: "pslite-nobody".to_owned(), ..there.info().clone() };
        here.connect(&no_name).unwrap();
        let no_file = Info { path: String::new(), ..there.info().clone() };
        here.connect(&no_file).unwrap();
        let neither = Info { path: "/nowhere".to_owned(), ..no_name.clone() };
        assert!(here.connect(&neither).unwrap_err().to_string().contains("/nowhere"));
        let elsewhere = Info { boot: "another".to_owned(), ..there.info().clone() };
        assert!(here.connect(&elsewhere).unwrap_err().to_string().contains("another host"));
        there.clean_up();
        assert!(here.connect(&no_name).is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn only_old_files_of_the_dead_are_removed() {
        let directory = std::env::temp_dir().join(format!("pslite-stale-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let age = |name: &str, old: bool| {
            let path = directory.join(name);
            let listener = UnixListener::bind(&path).unwrap();
            if old {
                let status = std::process::Command::new("touch")
                    .args(["-d", "10 minutes ago"])
                    .arg(&path)
                    .status();
                assert!(status.unwrap().success());
            }
            listener
        };
        let alive = age("pslite-1.sock", true);
        drop(age("pslite-2.sock", true));
        drop(age("pslite-3.sock", false));
        drop(age("other-4.sock", true));
        remove_stale(&directory.join("pslite-5.sock"));
        let mut left: Vec<_> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["other-4.sock", "pslite-1.sock", "pslite-3.sock"]);
        drop(alive);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
