//! A forked child process is not the node: it has none of its threads, and its sockets are the
//! parent's.
//!
//! While anything of a node lives in a process, it has a [`Life`]; `owner` keeps that process's id.
//! May use atomics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::owner::{note_process, owner, part_begins, part_ends};
use super::sys;

pub use super::owner::is_forked;

/// Role (upper half) and rank of the latest node of the process, each plus one; 0 is not known.
static NODE: AtomicU64 = AtomicU64::new(0);

const HALF: u32 = 32;

/// Some part of a node that has threads or sockets: a van, a customer.
#[derive(Debug)]
pub struct Life(());

impl Life {
    /// From here to its drop, this process has a node.
    #[must_use]
    pub fn begin() -> Self {
        sys::fork::close_in_children();
        // From here on it is known when that changes.
        note_process();
        part_begins();
        Self(())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if is_forked() {
            return;
        }
        part_ends();
    }
}

/// A port on which this process listens by a socket that this crate does not have, for as long as
/// this is held: a child that is forked closes that socket, and all that it accepted.
#[derive(Debug)]
pub struct NotedPort {
    _listening: sys::fork::Listening,
}

impl NotedPort {
    /// The process listens on it, or will at once.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self { _listening: sys::fork::Listening::new(port) }
    }
}

/// Remembers what the node of this process is.
pub fn note_node(role: u32, rank: u32) {
    let packed = (u64::from(role) + 1) << HALF | (u64::from(rank) + 1);
    NODE.store(packed, Ordering::Relaxed);
}

/// What each call of the library answers in such a process.
#[must_use]
pub fn text() -> String {
    let node = NODE.load(Ordering::Relaxed);
    let role = match node >> HALF {
        1 => "server",
        2 => "worker",
        3 => "scheduler",
        _ => "a node",
    };
    let rank = match (node & u64::from(u32::MAX)).checked_sub(1) {
        Some(rank) if role != "scheduler" => format!(" {rank}"),
        _ => String::new(),
    };
    let pid = owner();
    format!(
        "this process was forked from {role}{rank} (pid {pid}) after its kvstore was made; \
         make a kvstore of its own before or after, not with it"
    )
}
