//! How two processes of one host find each other: the number of the running kernel says whether they
//! are, and a Unix socket whether they can share memory. Its name in the abstract name space serves
//! those in one network name space, its file those that share a directory, such as containers with
//! one /dev/shm.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use super::types::{Carriers, NativeOptions};
use crate::wire::native::Info;

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
            let _ = std::fs::remove_file(path);
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
            io::Error::other(format!(
                "it is on this host, but its socket {path} is not here: {error}"
            ))
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
