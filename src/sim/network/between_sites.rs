//! Links between sites: what goes from a process at one site to a process at another shares the
//! links on the way with all that goes there, in the order in which it comes. What
//! stays within a site passes no link, and neither does what a process sends that is at no site.
//!
//! Knows bytes and times; draws no chance.

use std::collections::BTreeMap;

use super::Process;
use super::cards::time;
use super::lines::{PassTimes, Queue};

/// A link in one direction.
#[derive(Clone, Copy, Debug)]
struct SiteLink {
    /// Bytes a second.
    rate: u64,
    queue: Queue,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct BetweenSites {
    sites: BTreeMap<Process, usize>,
    /// By the sites at both ends.
    links: BTreeMap<[usize; 2], SiteLink>,
    /// The sites on the way, both ends included, by these; where it is no direct link.
    ways: BTreeMap<[usize; 2], Vec<usize>>,
}

impl BetweenSites {
    /// A process is at that site.
    pub(super) fn place(&mut self, process: Process, site: usize) {
        self.sites.insert(process, site);
    }

    /// From now on that link is so fast, in bytes a second. What is on it keeps its time.
    pub(super) fn set_link(&mut self, ends: [usize; 2], rate: u64) {
        let fresh = SiteLink { rate, queue: Queue::default() };
        self.links.entry(ends).or_insert(fresh).rate = rate;
    }

    /// What goes between these sites passes those, both ends included.
    pub(super) fn set_way(&mut self, ends: [usize; 2], way: Vec<usize>) {
        self.ways.insert(ends, way);
    }

    /// When so many bytes have passed the next link between two processes, of which they have
    /// passed that many; none: they have passed all. `comes`: when they get there.
    pub(super) fn carry(
        &mut self,
        ends: [Process; 2],
        passed: usize,
        comes: PassTimes,
        bytes: u64,
    ) -> Option<PassTimes> {
        let [Some(from), Some(to)] = ends.map(|end| self.sites.get(&end).copied()) else {
            return None;
        };
        let direct = [from, to];
        let way: &[usize] = self.ways.get(&direct).map_or(&direct, Vec::as_slice);
        let hop: [usize; 2] = way.get(passed..passed + 2)?.try_into().ok()?;
        let SiteLink { rate, queue } = self.links.get_mut(&hop)?;
        Some(queue.carry(comes, time(bytes, *rate)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Seconds until 1000 bytes are through.
    fn through(sites: &mut BetweenSites, ends: [Process; 2]) -> f64 {
        let mut times = PassTimes { first: SECOND, last: SECOND };
        let mut passed = 0;
        while let Some(next) = sites.carry(ends, passed, times, 1000) {
            (times, passed) = (next, passed + 1);
        }
        (times.last - SECOND).as_secs_f64()
    }

    fn three() -> BetweenSites {
        let mut sites = BetweenSites::default();
        (0..3).for_each(|site| sites.place(site + 10, site));
        sites.place(20, 0);
        sites.set_link([0, 1], 1000);
        sites.set_link([1, 2], 500);
        sites.set_way([0, 2], vec![0, 1, 2]);
        sites
    }

    fn near(time: f64, seconds: f64) -> bool {
        (time - seconds).abs() < 1e-6
    }

    #[test]
    fn processes_of_a_site_share_its_links() {
        let mut sites = three();
        assert!(near(through(&mut sites, [10, 11]), 1.0));
        assert!(near(through(&mut sites, [20, 11]), 2.0), "behind the other one");
        assert!(near(through(&mut sites, [10, 20]), 0.0), "within the site");
        assert!(near(through(&mut sites, [11, 10]), 0.0), "nothing was said of the way back");
        assert!(near(through(&mut sites, [99, 11]), 0.0), "at no site");
    }

    #[test]
    fn what_has_a_way_passes_each_of_its_links() {
        let mut sites = three();
        assert!(
            near(through(&mut sites, [10, 12]), 2.0),
            "the second link begins with the first byte"
        );
        sites.set_link([1, 2], 2000);
        assert!(near(through(&mut sites, [10, 12]), 2.5), "behind what is on both");
    }
}
