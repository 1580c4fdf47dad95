//! What this node was told, beside what the scheduler knows of the others: settings that must be
//! alike on all nodes. Asks the scheduler as `pslite status` does.

use std::collections::BTreeMap;
use std::sync::Arc;

use pslite::cluster::alike::Alike;
use pslite::node::{Lookup, ProgramSettings, Settings};

use super::job::JobVariables;
use super::{Finding, Severity};
use crate::scheduler_address::{Address, operator};

const TOPIC: &str = "agreed";
/// How long the scheduler may take to answer, in seconds.
const ANSWER_WITHIN: f64 = 2.0;

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// `found`: what the other checks found. Where they failed, nothing more is to be said of settings.
/// `greets`: something at the scheduler's address greets as one.
pub(super) fn check(
    job: &JobVariables,
    lookup: Env<'_>,
    found: &[Finding],
    greets: bool,
) -> Vec<Finding> {
    if job.is_absent() {
        return Vec::new();
    }
    let settings = match read(job, lookup) {
        Ok(settings) => Some(settings),
        Err(_) if found.iter().any(|finding| finding.level == Severity::Fail) => None,
        Err(why) => return vec![Finding::fail(TOPIC, why, "no node starts with that")],
    };
    match settings.filter(|_| greets && !job.is_scheduler()) {
        Some(settings) => with_scheduler(&settings),
        None => Vec::new(),
    }
}

fn read(job: &JobVariables, lookup: Env<'_>) -> Result<Settings, String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut all: BTreeMap<String, String> =
        names.filter_map(|name| Some((name.clone(), lookup(&name)?))).collect();
    all.extend(job.role.clone().map(|role| ("DMLC_ROLE".to_owned(), role)));
    let lookup: Lookup = Arc::new(move |name| all.get(name).cloned());
    Settings::read(&lookup, &ProgramSettings::default()).map_err(|error| error.to_string())
}

fn with_scheduler(settings: &Settings) -> Vec<Finding> {
    if !settings.speaks_extensions() {
        let text =
            "PSLITE_LEVEL=stock, or another PSLITE_WIRE: nothing is compared with the others";
        return vec![Finding::ok(TOPIC, text)];
    }
    let Settings { root_host: host, root_port: port, .. } = settings;
    let place = Address { host: host.clone(), port: *port };
    let Ok(status) = operator(&place, ANSWER_WITHIN).status() else {
        return vec![Finding::warning(
            TOPIC,
            format!(
                "what listens at {host}:{port} greets as a scheduler does, but does not answer as \
                 one of pslite: a stock one, or another program"
            ),
            "with a stock scheduler compare the counts by hand",
        )];
    };
    let by = format!("this {}", settings.role.name());
    let mut said =
        Alike::of_status(&status.settings).differences(settings.role, &settings.alike, &by);
    if status.settings.is_empty() {
        // Of an earlier version: it says its counts only.
        let (ours, its) =
            ((settings.num_workers, settings.num_servers), (status.workers, status.servers));
        if ours != its {
            said = format!(
                "this node was told {} workers and {} servers, and the scheduler {} and {}",
                ours.0, ours.1, its.0, its.1
            );
        }
    }
    if !said.is_empty() {
        return vec![Finding::fail(TOPIC, said, "the job ends with that")];
    }
    let text = format!(
        "the scheduler at {host}:{port} answers: its job of {} workers and {} servers is {}",
        status.workers, status.servers, status.phase
    );
    vec![Finding::ok(TOPIC, text)]
}
