//! Which processes a job can lose: a server of a job with copies has a replica, and workers of an
//! elastic job may go on without each other (docs/elastic.md). Asks the settings as the process
//! will read them; starts nothing.

use std::ffi::OsStr;
use std::sync::Arc;

use pslite::node::{Lookup, ProgramSettings, Settings};

use super::job::Importance;
use super::plan::{JobProcess, ProcessRole};

/// What the job loses with that process. A process whose settings are nonsense ends with an error
/// that says so, and the job with it.
pub(super) fn of(process: &JobProcess) -> Importance {
    let settings = Settings::read(&variables_of(process), &ProgramSettings::default()).ok();
    let elastic = settings.as_ref().filter(|settings| settings.follows_pieces());
    match process.role {
        ProcessRole::Worker if elastic.is_some_and(|settings| settings.elastic_workers) => {
            Importance::ReplaceableWorker
        }
        ProcessRole::Worker => Importance::Worker,
        ProcessRole::Server if elastic.is_some_and(has_copies) => Importance::Replaceable,
        ProcessRole::Server | ProcessRole::Scheduler => Importance::Needed,
    }
}

/// One server has nobody to copy to.
fn has_copies(settings: &Settings) -> bool {
    settings.num_servers > 1 && settings.copies() != Some(0)
}

/// The environment of that process: its own variables, and those of this one.
fn variables_of(process: &JobProcess) -> Lookup {
    let own = process.variables.clone();
    Arc::new(move |name| {
        let value = own.get(OsStr::new(name)).cloned().or_else(|| std::env::var_os(name))?;
        value.into_string().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Importance::{Needed, Replaceable, ReplaceableWorker, Worker};

    /// Of a process with these variables, beside those that each one has.
    fn found(role: ProcessRole, servers: usize, variables: &[(&str, &str)]) -> Importance {
        let count = servers.to_string();
        let always = [
            ("DMLC_ROLE", role.name()),
            ("DMLC_PS_ROOT_URI", "127.0.0.1"),
            ("DMLC_PS_ROOT_PORT", "9091"),
            ("DMLC_NUM_WORKER", "2"),
            ("DMLC_NUM_SERVER", count.as_str()),
        ];
        let all = always.iter().chain(variables).map(|(name, value)| (name.into(), value.into()));
        of(&JobProcess {
            label: role.name().to_owned(),
            role,
            command: Vec::new(),
            preload: None,
            variables: all.collect(),
            unset: Vec::new(),
        })
    }

    #[test]
    fn a_server_with_a_replica_can_be_lost() {
        let server = |variables: &[(&str, &str)]| found(ProcessRole::Server, 2, variables);
        assert_eq!(server(&[]), Needed);
        assert_eq!(server(&[("PSLITE_ELASTIC", "1")]), Replaceable);
        assert_eq!(server(&[("PSLITE_ELASTIC", " 2 ")]), Replaceable, "as a node reads it");
        assert_eq!(server(&[("PSLITE_ELASTIC", "1"), ("PSLITE_REPLICAS", "0")]), Needed);
        assert_eq!(server(&[("PSLITE_ELASTIC", "moves")]), Needed);
        // Keys move where nothing is set, so there may be copies.
        assert_eq!(server(&[("PSLITE_REPLICAS", "1")]), Replaceable);
        for keeps in [
            ("DMLC_PS_VAN_TYPE", "p3"),
            ("PS_HEARTBEAT_TIMEOUT", "5"),
            ("PSLITE_STORE", "mxnet"),
            ("PSLITE_ELASTIC", "0"),
            ("PSLITE_LEVEL", "stock"),
            ("PS_RESEND", "1"),
        ] {
            assert_eq!(server(&[("PSLITE_REPLICAS", "1"), keeps]), Needed, "{keeps:?}");
        }
        assert_eq!(
            found(ProcessRole::Server, 1, &[("PSLITE_ELASTIC", "1")]),
            Needed,
            "the only one"
        );
        assert_eq!(server(&[("PSLITE_ELASTIC", "yes")]), Needed, "it ends with an error");
    }

    #[test]
    fn workers_can_be_lost_where_they_are_elastic() {
        let worker = |variables: &[(&str, &str)]| found(ProcessRole::Worker, 2, variables);
        let elastic = ("PSLITE_ELASTIC_WORKERS", "1");
        assert_eq!(worker(&[]), Worker);
        assert_eq!(worker(&[elastic]), ReplaceableWorker);
        assert_eq!(worker(&[elastic, ("PSLITE_ELASTIC", "0")]), Worker);
        assert_eq!(worker(&[elastic, ("DMLC_PS_VAN_TYPE", "p3")]), Worker);
    }

    #[test]
    fn the_scheduler_is_needed() {
        assert_eq!(found(ProcessRole::Scheduler, 2, &[("PSLITE_ELASTIC", "1")]), Needed);
    }
}
