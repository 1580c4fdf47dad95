//! Which process has nodes: as long as some part of one lives, that process's id is kept here, and
//! a process with another id is a forked child. May use atomics and ask the kernel for the process
//! id.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of the process that has nodes (upper half), and how many parts of them live; 0
/// without any.
static OWNER: AtomicU64 = AtomicU64::new(0);

/// The number of this process; 0: the kernel is to be asked. To ask it at each call would cost a
/// small push a tenth of its time. (A child that was made without the C library's `fork` keeps the
/// number of its parent.)
static PROCESS: AtomicU32 = AtomicU32::new(0);

const HALF: u32 = 32;

/// One more part of a node lives in this process.
pub(super) fn part_begins() {
    let me = u64::from(process()) << HALF;
    let _ = OWNER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
        Some(me | ((old & u64::from(u32::MAX)) + 1))
    });
}

/// One part of a node ends in the process that has it.
pub(super) fn part_ends() {
    let _ = OWNER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
        let left = (old & u64::from(u32::MAX)).saturating_sub(1);
        Some(if left == 0 { 0 } else { old >> HALF << HALF | left })
    });
}

/// The number of the process that has nodes; 0: none has.
pub(super) fn owner() -> u64 {
    OWNER.load(Ordering::Relaxed) >> HALF
}

/// True in a process that was forked from one that had a node then. Safe in a signal handler.
#[must_use]
pub fn is_forked() -> bool {
    let owner = owner();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::Life;

    #[test]
    fn a_process_with_a_node_knows_its_number_without_asking() {
        let _life = Life::begin();
        assert_eq!(PROCESS.load(Ordering::Relaxed), std::process::id());
        assert!(!is_forked());
    }
}
