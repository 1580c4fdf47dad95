//! How many file descriptors this process may have. Reads and raises the soft limit of the process,
//! nothing else.
//!
//! A node without free descriptors could neither connect nor accept, and its job would wait for
//! ever.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The hard limit is lower than what a node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// Descriptors that the process has open now.
    pub open: u64,
    /// The hard limit of the process.
    pub limit: u64,
}

/// How many descriptors a process may have open.
#[derive(Clone, Copy, Debug)]
struct DescriptorLimits {
    /// The limit in force, which the process may raise.
    soft: u64,
    /// How far it may raise that.
    hard: u64,
}

impl DescriptorLimits {
    /// What the soft limit has to be so that `wanted` more fit beside the `open` ones: `None` if it
    /// will do as it is.
    ///
    /// # Errors
    /// Not even `needed` more fit into the hard limit.
    fn raised(self, open: u64, needed: u64, wanted: u64) -> Result<Option<u64>, TooFew> {
        if open.saturating_add(needed) > self.hard {
            return Err(TooFew { open, limit: self.hard });
        }
        let raised = open.saturating_add(wanted.max(needed)).min(self.hard);
        Ok((raised > self.soft).then_some(raised))
    }
}

/// Raises the soft limit of this process, if it is too low, so that `needed` more descriptors can
/// be opened, and `wanted` more if the hard limit has room for them. It is never lowered, and
/// raised no further than that: a program may rely on small numbers (`select`).
///
/// # Errors
/// The hard limit is too low for `needed` more. Where the system does not tell its limits nothing
/// is done.
pub fn make_room(needed: u64, wanted: u64) -> Result<(), TooFew> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Ok(()) };
    let open = entries.count() as u64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if let Some(raised) = (DescriptorLimits { soft, hard }).raised(open, needed, wanted)? {
        // A limit up to the hard one may always be set (setrlimit(2)).
        let _ = setrlimit(Resource::RLIMIT_NOFILE, raised, hard);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(soft: u64, hard: u64) -> DescriptorLimits {
        DescriptorLimits { soft, hard }
    }

    #[test]
    fn a_limit_that_will_do_stays() {
        assert_eq!(limits(1024, 4096).raised(20, 100, 200), Ok(None));
        assert_eq!(limits(220, 220).raised(20, 100, 200), Ok(None));
    }

    #[test]
    fn it_is_raised_to_what_is_wanted_within_the_hard_limit() {
        assert_eq!(limits(1024, 1 << 20).raised(20, 2000, 3000), Ok(Some(3020)));
        assert_eq!(limits(1024, 2500).raised(20, 2000, 3000), Ok(Some(2500)));
    }

    #[test]
    fn too_low_a_hard_limit_is_an_error() {
        let few = TooFew { open: 20, limit: 1024 };
        assert_eq!(limits(256, 1024).raised(20, 1005, 1005), Err(few));
        assert_eq!(limits(256, 1024).raised(20, 1004, 9000), Ok(Some(1024)));
        assert_eq!(limits(1, 1).raised(u64::MAX, 1, 1), Err(TooFew { open: u64::MAX, limit: 1 }));
    }
}
