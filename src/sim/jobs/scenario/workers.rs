//! What happens to workers: they are lost and come back, and may share batches meanwhile.

use super::super::config::{Fault, JobConfig, Reports, Sessions};
use super::{Draw, LIVES, MS, NOTICED};
use pslite_core::wire::balance::BalanceRule;

impl Draw {
    /// Each is lost so often at most that all that it pushes can be counted.
    pub(super) fn workers(&mut self, config: &mut JobConfig) {
        let first = 1 + config.servers;
        for process in first..first + config.workers {
            for _ in 1..self.between(1, LIVES) {
                let at = self.moment();
                let lost = match self.0.below(4) {
                    0 => Fault::Vanish(process),
                    1 => Fault::Pause(process, NOTICED + self.0.time(NOTICED)),
                    _ => Fault::Crash(process),
                };
                config.faults.push((at, lost));
                let pause =
                    if self.0.percent(50) { self.0.time(MS * 300) } else { self.0.time(NOTICED) };
                // It may have to wait until it is allowed to die; one that lives cannot start.
                let starts = if self.0.percent(75) { 1..4 } else { 0..0 };
                config
                    .faults
                    .extend(starts.map(|again| (at + pause * again, Fault::Start(process))));
            }
        }
    }

    /// Workers that share batches are lost, as others, and so may servers be.
    pub(super) fn sessions(&mut self, config: &mut JobConfig) {
        let ahead = self.of(&[0, 0, 1, 4]);
        let rules = [BalanceRule::Fixed, BalanceRule::Cpu, BalanceRule::CpuLast, BalanceRule::Gpu];
        config.sessions = Some(Sessions {
            total: self.between(config.workers as u64, 40) as u32,
            ahead,
            rule: self.of(&rules),
            reports: self.of(&[
                Reports::Measured,
                Reports::Measured,
                Reports::Before,
                Reports::After,
            ]),
            by_count: self.0.percent(50),
        });
        if self.0.percent(85) {
            self.workers(config);
        }
        match self.0.below(5) {
            0 => self.deaths(config, 1),
            1 => self.joins(config),
            2 => self.hiccups(config),
            _ => {}
        }
    }
}
