//! The OpenMetrics text of this node (`docs/metrics.md`): what it has counted, what the kernel says
//! of its process and, at the scheduler, how the job is. Whoever serves it calls it from a thread
//! of its own: under the membership's lock values are copied, and the text is made afterwards.
//! Changes nothing that it reads.

use super::Van;
use pslite_core::wire::Role;
use pslite_observe::job::{expose_build, expose_job};
use pslite_observe::{Exposition, ProcessNumbers};

/// This version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Van {
    /// The OpenMetrics 1.0 text, with its end.
    pub(crate) fn openmetrics(&self) -> String {
        let (node, settings) = (self.my_name(), &self.state.settings);
        let mut exposition = Exposition::default();
        expose_build(VERSION, settings.dialect.name(), &mut exposition);
        exposition.add_snapshot(&node, self.snapshot());
        ProcessNumbers::read().expose(&node, &mut exposition);
        if settings.role == Role::Scheduler {
            expose_job(&self.job_status(), &mut exposition);
        }
        exposition.text()
    }
}
