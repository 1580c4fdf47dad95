//! A forked child process is not the node: it has none of its threads, and its sockets are the
//! parent's.
//!
//! While anything of a node lives in a process ([`Life`]), that process's id is kept here; a
//! process with another id is a forked child. May use atomics and ask the kernel for the process
//! id.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::sys;

/// The number of the process that has nodes (upper half), and how many parts of them live; 0
/// without any.
static OWNER: AtomicU64 = AtomicU64::new(0);
/// Role (upper half) and rank of the latest node of the process, each plus one; 0 is not known.
static NODE: AtomicU64 = AtomicU64::new(0);

/// The number of this process; 0: the kernel is to be asked. To ask it at each call would cost a
/// small push a tenth of its time. (A child that was made without the C library's `fork` keeps the
/// number of its parent.)
static PROCESS: AtomicU32 = AtomicU32::new(0);

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
        let me = u64::from(process()) << HALF;
        let _ = OWNER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
            Some(me | ((old & u64::from(u32::MAX)) + 1))
        });
        Self(())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if is_forked() {
            return;
        }
        let _ = OWNER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
            let left = (old & u64::from(u32::MAX)).saturating_sub(1);
            Some(if left == 0 { 0 } else { old >> HALF << HALF | left })
        });
    }
}

/// Remembers what the node of this process is.
pub fn note_node(role: u32, rank: u32) {
    let packed = (u64::from(role) + 1) << HALF | (u64::from(rank) + 1);
    NODE.store(packed, Ordering::Relaxed);
}

/// True in a process that was forked from one that had a node then. Safe in a signal handler.
#[must_use]
pub fn is_forked() -> bool {
    let owner = OWNER.load(Ordering::Relaxed) >> HALF;
    owner != 0 && owner != u64::from(process())
}

/// The number of this process is asked for once: now. Safe in a signal handler.
pub(super) fn note_process() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

fn process() -> u32 {
    match PROCESS.load(Ordering::Relaxed) {
        0 => std::process::id(),
        known => known,
    }
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
    let pid = OWNER.load(Ordering::Relaxed) >> HALF;
    format!(
        "this process was forked from {role}{rank} (pid {pid}) after its kvstore was made; \
         make a kvstore of its own before or after, not with it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_node_knows_its_number_without_asking() {
        let _life = Life::begin();
        assert_eq!(PROCESS.load(Ordering::Relaxed), std::process::id());
        assert!(!is_forked());
    }
}
