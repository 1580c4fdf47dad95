//! Settings that were made and have no effect, because of another one that is missing or excludes
//! them. Each is said once, where it is made. Pure; what docs/env.md says that only other roles
//! read is nothing to say.

use super::Settings;
use super::reader::SettingsReader;
use pslite_core::placement::graph::Topology;
use pslite_core::store::SumOrder;
use pslite_core::wire::Role;
use pslite_transport::native::Carriers;

/// A sentence for each, in the order of docs/env.md.
pub(super) fn without_effect(env: &SettingsReader<'_>, settings: &Settings) -> Vec<String> {
    let about = About { env, settings };
    let mut all = Vec::new();
    about.stock_wire(&mut all);
    about.timing(&mut all);
    about.pieces(&mut all);
    about.trees(&mut all);
    about.servers(&mut all);
    all
}

struct About<'a> {
    env: &'a SettingsReader<'a>,
    settings: &'a Settings,
}

impl About<'_> {
    /// `NAME=value` of what was set, but not to 0.
    fn set(&self, name: &str) -> Option<String> {
        let text = self.env.text(name).filter(|text| text != "0")?;
        Some(format!("{name}={text}"))
    }

    /// Says of `name`, if it is set, that it has no effect, and `why`.
    fn vain(&self, all: &mut Vec<String>, name: &str, why: &str) {
        all.extend(self.set(name).map(|set| format!("{set} has no effect {why}")));
    }

    /// The setting for which data take the stock wire.
    fn off_native(&self) -> Option<&'static str> {
        let settings = self.settings;
        [
            (settings.stock_level, "PSLITE_LEVEL=stock"),
            (settings.dialect.is_byteps(), "PSLITE_WIRE"),
            (settings.local, "DMLC_LOCAL"),
            (settings.resend.is_some(), "PS_RESEND"),
            (settings.drop_percent > 0, "PS_DROP_MSG"),
            (settings.native.is_none(), "PSLITE_TRANSPORT=zmq"),
        ]
        .into_iter()
        .find_map(|(is_so, name)| is_so.then_some(name))
    }

    fn stock_wire(&self, all: &mut Vec<String>) {
        let settings = self.settings;
        if settings.resend.is_none() {
            self.vain(all, "PS_RESEND_TIMEOUT", "without PS_RESEND: nothing is sent again");
        }
        if settings.role == Role::Scheduler {
            return;
        }
        let off = self.off_native();
        if let (Some(Carriers::Tcp | Carriers::Shm), Some(name)) = (settings.native, off) {
            let why = format!("with {name}: data take the stock wire");
            self.vain(all, "PSLITE_TRANSPORT", &why);
        }
        let why = match (off, settings.native) {
            (Some(name), _) => format!("with {name}: data take the stock wire"),
            (None, Some(Carriers::Shm)) => "with PSLITE_TRANSPORT=shm: TCP carries nothing".into(),
            _ => return,
        };
        if settings.connections > 1 {
            self.vain(all, "PSLITE_CONNECTIONS", &why);
        }
    }

    fn timing(&self, all: &mut Vec<String>) {
        if self.set("PS_HEARTBEAT_INTERVAL").is_some() {
            self.vain(all, "PSLITE_HEARTBEAT", "with PS_HEARTBEAT_INTERVAL, which goes before it");
        }
        if self.settings.role == Role::Scheduler && self.settings.heartbeat_timeout.is_none() {
            let why = "without PS_HEARTBEAT_TIMEOUT: no lost node is replaced";
            self.vain(all, "PSLITE_RECOVERY_WAIT", why);
        }
    }

    /// What needs keys that move.
    fn pieces(&self, all: &mut Vec<String>) {
        let settings = self.settings;
        if settings.follows_pieces() {
            return;
        }
        if settings.elastic.insists() {
            let why = match settings {
                _ if settings.stock_level => "PSLITE_LEVEL=stock: nobody is told that it is ours",
                _ if settings.dialect.is_byteps() => {
                    "PSLITE_WIRE: only the wire mxnet can say where keys are"
                }
                _ => {
                    "PS_RESEND, or several nodes of a role in a process: keys do not move in this \
                     job"
                }
            };
            all.push(format!("PSLITE_ELASTIC=1 has no effect with {why}"));
        }
        let stay = "where keys do not move (PSLITE_ELASTIC)";
        if settings.elastic_workers {
            let why = format!("{stay}: the death of a worker ends the job");
            self.vain(all, "PSLITE_ELASTIC_WORKERS", &why);
        }
        self.vain(all, "PSLITE_PROBE_AFTER", &format!("{stay}: no link is probed"));
        if settings.role == Role::Server {
            self.vain(
                all,
                "PSLITE_JOIN",
                &format!("{stay}: the job has the servers it began with"),
            );
        }
        if settings.role != Role::Scheduler {
            let why = format!("{stay}: the loss of the scheduler ends the job");
            self.vain(all, "PSLITE_SCHEDULER_WAIT", &why);
            return;
        }
        if settings.topology != Topology::Star {
            self.vain(
                all,
                "PSLITE_TOPOLOGY",
                &format!("{stay}: rounds go straight to the servers"),
            );
        }
        self.vain(all, "PSLITE_REPLICAS", &format!("{stay}: there are no pieces to copy"));
        self.vain(all, "PSLITE_JOURNAL", &format!("{stay}: it is neither read nor written"));
    }

    fn trees(&self, all: &mut Vec<String>) {
        let settings = self.settings;
        if settings.local {
            let why = "with DMLC_LOCAL: all nodes are on one host";
            self.vain(all, "PSLITE_TUNNELS", why);
        }
        if settings.role != Role::Scheduler {
            return;
        }
        let asked = self.env.text("PSLITE_TOPOLOGY");
        let by_ranks = settings.sum_order == SumOrder::Ranks;
        match settings.topology {
            Topology::Star if asked.as_deref() == Some("auto") && by_ranks => {
                let why = "with PSLITE_DETERMINISTIC=1: servers sum in the order of ranks, and \
                           rounds go along no tree; `tree` sums along trees";
                self.vain(all, "PSLITE_TOPOLOGY", why);
            }
            Topology::Star if asked.as_deref() == Some("auto") => {
                let why = "without PSLITE_LINKS: rounds go straight to the servers";
                self.vain(all, "PSLITE_TOPOLOGY", why);
            }
            Topology::Star => {}
            _ if by_ranks => all.push(
                "PSLITE_DETERMINISTIC: servers that have it too sum in the order of ranks, so \
                 their rounds go along no tree; `tree` sums along trees"
                    .to_owned(),
            ),
            _ => {}
        }
        let is_star = settings.topology == Topology::Star;
        if is_star && settings.sum_order == SumOrder::Trees {
            let why = "without PSLITE_TOPOLOGY: rounds go along no tree";
            self.vain(all, "PSLITE_DETERMINISTIC", why);
        }
        if settings.tunnels.is_none() {
            let why = match settings.topology {
                Topology::Star => "without PSLITE_TOPOLOGY or PSLITE_TUNNELS",
                Topology::Balanced(_) => {
                    "with PSLITE_TOPOLOGY=balanced:K, which goes by ranks, and without \
                     PSLITE_TUNNELS"
                }
                _ => return,
            };
            self.vain(all, "PSLITE_LINKS", why);
        }
    }

    fn servers(&self, all: &mut Vec<String>) {
        let settings = self.settings;
        if settings.role != Role::Server {
            let why = format!("on a {}: servers join", settings.role.name());
            self.vain(all, "PSLITE_JOIN", &why);
            return;
        }
        if !settings.native_store {
            let why = "with PSLITE_STORE=mxnet: MXNet's server sums in its own order";
            self.vain(all, "PSLITE_DETERMINISTIC", why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Lookup, ProgramSettings};
    use std::sync::Arc;

    const JOB: [(&str, &str); 5] = [
        ("DMLC_ROLE", "worker"),
        ("DMLC_NUM_WORKER", "2"),
        ("DMLC_NUM_SERVER", "2"),
        ("DMLC_PS_ROOT_URI", "127.0.0.1"),
        ("DMLC_PS_ROOT_PORT", "9091"),
    ];

    /// What is said of these settings; `role` may be left out: a worker.
    fn said(all: &[(&str, &str)]) -> Vec<String> {
        let pairs = all.iter().chain(&JOB).map(|(n, t)| ((*n).to_owned(), (*t).to_owned()));
        let pairs: Vec<(String, String)> = pairs.collect();
        // The first one counts.
        let lookup: Lookup = Arc::new(move |name| {
            pairs.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone())
        });
        Settings::read(&lookup, &ProgramSettings::default()).unwrap().without_effect(&lookup)
    }

    const WORKER: (&str, &str) = ("DMLC_ROLE", "worker");
    const SERVER: (&str, &str) = ("DMLC_ROLE", "server");
    const SCHEDULER: (&str, &str) = ("DMLC_ROLE", "scheduler");
    const STATIC: (&str, &str) = ("PSLITE_ELASTIC", "0");

    #[test]
    fn what_another_setting_makes_vain_is_said_once() {
        let copies = ("PSLITE_ELASTIC", "1");
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[WORKER, ("PS_RESEND_TIMEOUT", "100")], "PS_RESEND_TIMEOUT=100"),
            (&[WORKER, ("PS_RESEND", "1"), ("PSLITE_TRANSPORT", "tcp")], "with PS_RESEND: data"),
            (&[SERVER, ("DMLC_LOCAL", "1"), ("PSLITE_TRANSPORT", "shm")], "with DMLC_LOCAL: data"),
            (&[WORKER, ("PSLITE_LEVEL", "stock"), ("PSLITE_TRANSPORT", "tcp")], "PSLITE_TRANSPORT"),
            (&[WORKER, ("PSLITE_TRANSPORT", "zmq"), ("PSLITE_CONNECTIONS", "4")], "with PSLITE_TR"),
            (&[WORKER, ("PSLITE_TRANSPORT", "shm"), ("PSLITE_CONNECTIONS", "4")], "TCP carries no"),
            (&[WORKER, ("PSLITE_HEARTBEAT", "1"), ("PS_HEARTBEAT_INTERVAL", "1")], "goes before"),
            (&[SCHEDULER, ("PSLITE_RECOVERY_WAIT", "9")], "without PS_HEARTBEAT_TIMEOUT"),
            (&[WORKER, copies, ("PS_RESEND", "1")], "PSLITE_ELASTIC=1 has no effect with PS_RE"),
            (&[WORKER, copies, ("PSLITE_LEVEL", "stock")], "with PSLITE_LEVEL=stock"),
            (&[WORKER, copies, ("PSLITE_WIRE", "byteps")], "with PSLITE_WIRE"),
            (&[WORKER, STATIC, ("PSLITE_ELASTIC_WORKERS", "1")], "the death of a worker ends"),
            (&[WORKER, STATIC, ("PSLITE_SCHEDULER_WAIT", "9")], "PSLITE_SCHEDULER_WAIT=9"),
            (&[SERVER, STATIC, ("PSLITE_PROBE_AFTER", "9")], "no link is probed"),
            (&[SERVER, STATIC, ("PSLITE_JOIN", "1")], "the servers it began with"),
            (&[WORKER, ("PSLITE_JOIN", "1")], "on a worker: servers join"),
            (&[SCHEDULER, STATIC, ("PSLITE_REPLICAS", "1")], "no pieces to copy"),
            (&[SCHEDULER, STATIC, ("PSLITE_JOURNAL", "/j")], "neither read nor written"),
            (&[SCHEDULER, STATIC, ("PSLITE_TOPOLOGY", "balanced:2")], "straight to the servers"),
            (&[SCHEDULER, ("PSLITE_TOPOLOGY", "auto")], "without PSLITE_LINKS"),
            (&[SCHEDULER, ("PSLITE_DETERMINISTIC", "tree")], "without PSLITE_TOPOLOGY"),
            (
                &[SCHEDULER, ("PSLITE_TOPOLOGY", "balanced:2"), ("PSLITE_DETERMINISTIC", "1")],
                "`tree` sums along trees",
            ),
            (
                &[SERVER, ("PSLITE_STORE", "mxnet"), ("PSLITE_DETERMINISTIC", "1")],
                "MXNet's server sums",
            ),
            (&[WORKER, ("DMLC_LOCAL", "1"), ("PSLITE_TUNNELS", "7000")], "with DMLC_LOCAL: all"),
        ];
        for (all, part) in cases {
            let said = said(all);
            assert!(said.len() == 1 && said[0].contains(part), "{all:?}: {said:?}");
        }
    }

    #[test]
    fn links_of_which_nothing_is_made_are_said() {
        let path = std::env::temp_dir().join(format!("pslite-vain-{}", std::process::id()));
        std::fs::write(&path, "link a b 20\n").unwrap();
        let links = ("PSLITE_LINKS", path.to_str().unwrap());
        let tunnels = ("PSLITE_TUNNELS", "7000");
        let of = |more: &[(&str, &str)]| said(&[&[SCHEDULER, links], more].concat());
        assert!(of(&[])[0].contains("without PSLITE_TOPOLOGY or PSLITE_TUNNELS"));
        assert!(of(&[("PSLITE_TOPOLOGY", "balanced:2")])[0].contains("goes by ranks"));
        for more in [&[("PSLITE_TOPOLOGY", "packed")][..], &[tunnels]] {
            assert_eq!(of(more), [""; 0], "{more:?}");
        }
        let auto = of(&[("PSLITE_TOPOLOGY", "auto"), ("PSLITE_DETERMINISTIC", "1")]);
        assert!(auto.len() == 2 && auto[0].contains("with PSLITE_DETERMINISTIC=1"), "{auto:?}");
        assert_eq!(said(&[WORKER, links]), [""; 0], "the scheduler's count");
        std::fs::remove_file(path).unwrap();
    }

    /// A whole job is often given the same variables, and zeros ask for nothing.
    #[test]
    fn what_other_roles_read_and_what_asks_for_nothing_is_not_said() {
        let all = [
            ("PSLITE_REPLICAS", "1"),
            ("PSLITE_JOURNAL", "/j"),
            ("PSLITE_TOPOLOGY", "auto"),
            ("PSLITE_RECOVERY_WAIT", "9"),
            STATIC,
        ];
        assert_eq!(said(&all), [""; 0]);
        let zeros = [SCHEDULER, STATIC, ("PSLITE_REPLICAS", "0"), ("PSLITE_TUNNELS", "0")];
        assert_eq!(said(&zeros), [""; 0]);
        for role in [WORKER, SERVER, SCHEDULER] {
            assert_eq!(said(&[role]), [""; 0]);
            assert_eq!(said(&[role, ("PSLITE_ELASTIC", "1")]), [""; 0]);
        }
    }
}
