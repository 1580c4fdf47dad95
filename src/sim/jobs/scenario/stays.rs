//! Jobs whose keys stay where they are: a bad network, somebody who dies or leaves, everybody who
//! stands still. (Jobs in which a worker is replaced are in `stays_tests`.)

use std::time::Duration;

use super::super::config::{Fault, JobConfig, Stays};
use super::{BEGIN, Draw, MS, TO_END};
use crate::network::{NetworkConfig, Process};

const SECOND: Duration = Duration::from_secs(1);
/// Processes that stand still together begin and end so far apart, at most: less than the silence
/// that is suffered (`nodes::cluster_config`).
const APART: Duration = Duration::from_secs(4);

impl Draw {
    pub(super) fn stays(&mut self, config: &mut JobConfig) {
        config.stays = Some(Stays {
            start_timeout: self.0.percent(50).then_some(20 * SECOND),
            ..Stays::default()
        });
        config.replicas = 0;
        config.move_every = None;
        config.native = self.0.percent(50);
        // Nothing says which of two pushes was the first: MXNet's workers have one under way.
        config.tensors.pipelined = false;
        match self.0.below(5) {
            0 => self.bad_network(config),
            1 => self.one_dies(config),
            2 if config.workers > 1 => self.one_leaves(config),
            3 => self.all_stand_still(config),
            _ => {}
        }
    }

    fn bad_network(&mut self, config: &mut JobConfig) {
        config.native = false;
        config.resend = Some(MS * 100);
        // Of more losses some sign of life is one in a few, and who is silent is taken for dead.
        let (loss, repeat) = (self.of(&[0, 3, 10]), self.of(&[0, 20]));
        config.network = NetworkConfig { loss, repeat, reorder: true, ..config.network };
        if self.0.percent(30) {
            self.one_dies(config);
        }
    }

    fn any_process(&mut self, from: Process, to: Process) -> Process {
        self.between(from as u64, to as u64 - 1) as Process
    }

    /// The job ends, and says why.
    fn one_dies(&mut self, config: &mut JobConfig) {
        config.may_fail = true;
        // It may not have come yet.
        if let Some(stays) = &mut config.stays {
            stays.start_timeout = Some(20 * SECOND);
        }
        let victim = self.any_process(0, config.processes());
        let at = self.0.time(BEGIN * 8);
        let how = if self.0.percent(50) { Fault::Crash } else { Fault::Vanish };
        config.faults.push((at, how(victim)));
    }

    /// A worker leaves, and those who wait for its pushes are told.
    fn one_leaves(&mut self, config: &mut JobConfig) {
        config.may_fail = true;
        let rank = self.any_process(0, config.workers);
        let round = self.between(0, config.program.rounds - 1);
        if let Some(stays) = &mut config.stays {
            stays.leaves = Some((rank, round));
        }
    }

    /// Nobody is to notice.
    fn all_stand_still(&mut self, config: &mut JobConfig) {
        let begin = BEGIN + self.0.time(SECOND);
        let time = 10 * SECOND + self.0.time(300 * SECOND);
        for process in 0..config.processes() {
            let (early, late) = (self.0.time(APART), self.0.time(APART));
            config.faults.push((begin + early, Fault::Pause(process, time + late - early)));
        }
        config.time_max = begin + time + 2 * APART + TO_END;
    }
}
