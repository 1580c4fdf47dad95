//! Settings that do nothing: variables of no meaning, and those that another one makes vain. A node
//! says the same when it starts.

use std::sync::Arc;

use pslite::node::settings::names;
use pslite::node::{Lookup, ProgramSettings, Settings};

use super::Finding;

const TOPIC: &str = "settings";
const ADVICE: &str = "correct it, or leave it out";

/// `variables`: all of the environment. `role` goes before DMLC_ROLE.
pub(super) fn check(role: Option<&str>, variables: &[(String, String)]) -> Vec<Finding> {
    let set = variables.iter().filter(|(_, text)| !text.trim().is_empty());
    let unknown: Vec<String> = set.filter_map(|(name, _)| names::unknown(name)).collect();
    let unknown = unknown.into_iter().map(|text| Finding::warning(TOPIC, text, ADVICE));
    unknown.chain(vain(role, variables)).collect()
}

/// Of settings that can be read: what is wrong with others, the other checks say.
fn vain(role: Option<&str>, variables: &[(String, String)]) -> Vec<Finding> {
    let mut all = variables.to_vec();
    if let Some(role) = role {
        all.retain(|(name, _)| name != "DMLC_ROLE");
        all.push(("DMLC_ROLE".to_owned(), role.to_owned()));
    }
    let lookup: Lookup = Arc::new(move |name| {
        all.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone())
    });
    let Ok(settings) = Settings::read(&lookup, &ProgramSettings::default()) else {
        return Vec::new();
    };
    let texts = settings.without_effect(&lookup);
    texts.into_iter().map(|text| Finding::warning(TOPIC, text, ADVICE)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn texts(role: Option<&str>, more: &[(&str, &str)]) -> Vec<String> {
        let job = [
            ("DMLC_ROLE", "worker"),
            ("DMLC_NUM_WORKER", "1"),
            ("DMLC_NUM_SERVER", "1"),
            ("DMLC_PS_ROOT_URI", "127.0.0.1"),
            ("DMLC_PS_ROOT_PORT", "9091"),
            ("HOME", "/"),
        ];
        let pairs = job.iter().chain(more);
        let all: Vec<_> = pairs.map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect();
        let found = check(role, &all);
        assert!(found.iter().all(|finding| finding.level == Severity::Warning));
        found.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn what_does_nothing_is_found() {
        assert_eq!(texts(None, &[("PSLITE_ELASTIC", "1"), ("PSLITE_ELASTIK", "")]), [""; 0]);
        let found = texts(None, &[("PSLITE_ELASTIK", "1"), ("DMLC_NUM_WORKERS", "2")]);
        assert!(found[0].contains("PSLITE_ELASTIC?") && found[1].contains("DMLC_NUM_WORKER?"));
        let vain = [("PSLITE_REPLICAS", "1"), ("PSLITE_ELASTIC", "0")];
        assert_eq!(texts(None, &vain), [""; 0], "the scheduler reads it");
        let found = texts(Some("scheduler"), &vain);
        assert!(found.len() == 1 && found[0].starts_with("PSLITE_REPLICAS=1 has no effect"));
        // Nothing can be read: unknown names are said all the same.
        assert_eq!(texts(None, &[("PSLITE_ELASTIK", "1"), ("DMLC_ROLE", "x")]).len(), 1);
    }
}
