//! Settings that nodes of a job must have alike: which ones, among whom, and what those that have
//! registered were told. Each says its own in its registration; the scheduler compares. Pure; knows
//! nothing of what a setting does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::wire::{Role, Setting};

/// Who must have a setting alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Among {
    /// Everybody.
    All,
    /// Workers and servers.
    Nodes,
    /// Workers and servers, where rounds go along trees.
    NodesOfTrees,
    /// Workers.
    Workers,
    /// Servers.
    Servers,
}

impl Among {
    const fn has(self, role: Role, trees: bool) -> bool {
        match self {
            Self::All => true,
            Self::Nodes => !matches!(role, Role::Scheduler),
            Self::NodesOfTrees => trees && !matches!(role, Role::Scheduler),
            Self::Workers => matches!(role, Role::Worker),
            Self::Servers => matches!(role, Role::Server),
        }
    }

    const fn named(self) -> &'static str {
        match self {
            Self::All => "on all nodes",
            Self::Nodes | Self::NodesOfTrees => "on all workers and servers",
            Self::Workers => "on all workers",
            Self::Servers => "on all servers",
        }
    }
}

/// Settings with other names, of a later version perhaps, are not compared. `docs/env.md` says of
/// each variable why it is here, or why not.
const COMPARED: [(&str, Among); 13] = [
    ("DMLC_GROUP_SIZE", Among::Nodes),
    ("DMLC_NUM_SERVER", Among::All),
    ("DMLC_NUM_WORKER", Among::All),
    ("DMLC_PS_VAN_TYPE", Among::Workers),
    ("MXNET_KVSTORE_BIGARRAY_BOUND", Among::Workers),
    ("MXNET_KVSTORE_SLICE_THRESHOLD", Among::Workers),
    ("MXNET_UPDATE_ON_KVSTORE", Among::Workers),
    ("PSLITE_DETERMINISTIC", Among::Servers),
    ("PSLITE_DETERMINISTIC=tree", Among::NodesOfTrees),
    ("PSLITE_HOLD_PUSHES", Among::Servers),
    ("PSLITE_LINKS", Among::All),
    ("PSLITE_TUNNELS", Among::All),
    ("PS_RESEND", Among::All),
];

fn among(name: &str) -> Option<Among> {
    COMPARED.iter().find(|(known, _)| *known == name).map(|(_, among)| *among)
}

/// True if a setting of that name is compared among some nodes.
#[must_use]
pub fn is_compared(name: &str) -> bool {
    among(name).is_some()
}

/// A setting, and the first node that was told it; `pslite doctor` compares with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingStatus {
    /// The variable.
    pub name: String,
    /// What it means there.
    pub value: String,
    /// Role and address of the node.
    pub by: String,
}

/// What nodes were told; of each setting the first one counts.
#[derive(Debug, Default)]
pub struct Alike {
    said: BTreeMap<String, SettingStatus>,
}

impl Alike {
    /// What a scheduler's status says.
    #[must_use]
    pub fn of_status(said: &[SettingStatus]) -> Self {
        let known = said.iter().filter(|setting| is_compared(&setting.name));
        Self { said: known.map(|setting| (setting.name.clone(), setting.clone())).collect() }
    }

    /// The same for the status.
    #[must_use]
    pub fn status(&self) -> Vec<SettingStatus> {
        self.said.values().cloned().collect()
    }

    /// What a node of that role was told otherwise than one before it; empty: nothing. The text
    /// names both values and both nodes. `by`: role and address, for people.
    #[must_use]
    pub fn differences(&self, role: Role, settings: &[Setting], by: &str) -> String {
        let differs = |setting: &Setting| {
            let among = among(&setting.name).filter(|among| among.has(role, true))?;
            let other = self.said.get(&setting.name).filter(|it| it.value != setting.value)?;
            Some(format!(
                "{} is {} at {by} and {} at {}; set it alike {}",
                setting.name,
                setting.value,
                other.value,
                other.by,
                among.named()
            ))
        };
        settings.iter().filter_map(differs).collect::<Vec<_>>().join(". ")
    }

    /// Those of a node that differs from nobody count from now on. `trees`: rounds go along trees.
    pub(super) fn take(&mut self, role: Role, trees: bool, settings: &[Setting], by: &str) {
        for Setting { name, value } in settings {
            if among(name).is_some_and(|among| among.has(role, trees)) {
                let (value, by) = (value.clone(), by.to_owned());
                let status = SettingStatus { name: name.clone(), value, by };
                self.said.entry(name.clone()).or_insert(status);
            }
        }
    }

    /// That node was started again, perhaps with other settings.
    pub(super) fn forget(&mut self, by: &str) {
        self.said.retain(|_, setting| setting.by != by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, value: u32) -> Vec<Setting> {
        vec![Setting::new(name, value.to_string())]
    }

    #[test]
    fn each_is_compared_among_those_for_whom_it_means_something() {
        let mut alike = Alike::default();
        let bound = "MXNET_KVSTORE_BIGARRAY_BOUND";
        alike.take(Role::Scheduler, false, &told("PS_RESEND", 0), "the scheduler");
        alike.take(Role::Server, false, &told(bound, 1), "server 0");
        alike.take(Role::Worker, false, &told(bound, 2), "worker 0");
        alike.take(Role::Worker, false, &told("PSLITE_OF_TOMORROW", 2), "worker 0");
        assert_eq!(
            alike.differences(Role::Worker, &told(bound, 3), "worker 1"),
            "MXNET_KVSTORE_BIGARRAY_BOUND is 3 at worker 1 and 2 at worker 0; set it alike on all \
             workers"
        );
        assert_eq!(alike.differences(Role::Server, &told(bound, 3), "server 1"), "");
        assert_eq!(alike.differences(Role::Worker, &told("PSLITE_OF_TOMORROW", 3), "w"), "");
        let both = [told(bound, 4), told("PS_RESEND", 1)].concat();
        let text = alike.differences(Role::Worker, &both, "worker 1");
        assert!(text.contains("4 at worker 1") && text.contains("0 at the scheduler"), "{text}");
        assert_eq!(
            Alike::of_status(&alike.status()).differences(Role::Worker, &both, "worker 1"),
            text
        );
        alike.forget("worker 0");
        assert_eq!(alike.differences(Role::Worker, &told(bound, 3), "worker 1"), "");
    }

    #[test]
    fn what_trees_need_is_compared_only_where_there_are_trees() {
        let (name, node) = ("PSLITE_DETERMINISTIC=tree", Role::Worker);
        for (trees, differ) in [(false, false), (true, true)] {
            let mut alike = Alike::default();
            alike.take(Role::Server, trees, &told(name, 1), "server 0");
            let text = alike.differences(node, &told(name, 0), "worker 0");
            assert_eq!(!text.is_empty(), differ, "{text}");
        }
    }
}
