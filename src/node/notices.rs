//! What a process says of its settings before its first node starts: variables that mean nothing,
//! and settings without an effect. Each once, however many nodes start and however often. May name
//! the variables of the process, and log.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::settings::{Lookup, Settings, names};
use crate::sync::lock;
use pslite_observe::log::{self, Level};

/// What was said.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says which variables of this process are almost those of pslite, or begin as they do, and are
/// none.
pub fn say_unknown(lookup: &Lookup) {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names {
        // What holds nothing counts as not set.
        let is_set = || lookup(&name).is_some_and(|text| !text.trim().is_empty());
        if let Some(text) = names::unknown(&name).filter(|_| is_set()) {
            say(text);
        }
    }
}

/// Says what has no effect in these settings.
pub(crate) fn say_without_effect(settings: &Settings, lookup: &Lookup) {
    settings.without_effect(lookup).into_iter().for_each(say);
}

/// Warns, unless it was said before.
pub(crate) fn say(text: String) {
    let mut said = lock(&SAID);
    if !said.contains(&text) {
        log::write(Level::Warning, &text);
        said.insert(text);
    }
}
