//! What a scheduler shows of its job in the OpenMetrics text, beside what it has counted itself:
//! made from the [`Status`], which has all of it. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::events::{Counted, EventKind};
use super::exposition::{ExposedValue, Exposition, FamilyRow, SampleLabels};
use super::process;
use super::snapshot::peer_name;
use pslite_core::scheduler::{LinkStatus, NodeStatus, Status};
use pslite_core::wire::counters::NodeTotals;
use pslite_core::wire::{EMPTY, NodeId};

macro_rules! families {
    ($(
        $id:ident: $name:literal, $kind:ident, [$($label:literal),*], $text:literal;
    )*) => {
        /// The families of a job.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum JobFamily {
            $(#[doc = $text] $id,)*
        }

        /// Their rows.
        pub const JOB_FAMILIES: &[FamilyRow] = &[$(FamilyRow {
            name: $name,
            kind: EventKind::$kind,
            labels: &[$($label),*],
            text: $text,
        },)*];
    };
}

families! {
    Build: "pslite_build_info", Gauge, ["version", "wire"],
        "Always 1: which version this is, and which wire it speaks. On every node.";
    Phase: "pslite_job_phase", Gauge, ["phase"],
        "1 for the phase in which the job is, 0 for the others: `forming`, `running`, `changing` \
         (a policy is being made), `failed`.";
    Nodes: "pslite_nodes", Gauge, ["role", "state"],
        "Servers and workers by their state, as `pslite status` names it.";
    PolicyEpoch: "pslite_policy_epoch", Gauge, [],
        "The newest policy. It grows when a server comes or goes.";
    Rounds: "pslite_rounds_total", Counter, [],
        "The newest round that a worker has finished. Known where keys may move.";
    RoundDuration: "pslite_round_duration_seconds", Gauge, [],
        "What a round took lately the worker that waits least for the others.";
    RoundPredicted: "pslite_round_predicted_seconds", Gauge, [],
        "What a round should take with the placement in force.";
    RoundBound: "pslite_round_bound_seconds", Gauge, [],
        "T*: no placement can be faster.";
    Efficiency: "pslite_round_efficiency_ratio", Gauge, [],
        "The bound by what a round took: 1 is the best that can be.";
    ServerBytes: "pslite_server_bytes", Gauge, ["node"],
        "Bytes of the values that a server owns.";
    ServerPieces: "pslite_server_pieces", Gauge, ["node"],
        "Pieces that a server owns.";
    MovedBytes: "pslite_moved_bytes_total", Counter, ["reason"],
        "Bytes that the planner has ordered to move: `shorter` (rounds become shorter), `joins` (a \
         server has nothing yet), `leaves` (one gives up what it has, or is dead), `back` (rounds \
         had become longer).";
    LinkRate: "pslite_link_bytes_per_second", Gauge, ["from", "to", "measured"],
        "What a link between sites carries, with trees by links. Not measured: as the scheduler \
         was told.";
    OldestWait: "pslite_oldest_wait_seconds", Gauge, ["for"],
        "The longest wait for a node in a barrier or a round; 0 for whom nobody waits. Of rounds: \
         once they have waited for `PSLITE_STALL_REPORT`.";
    Heard: "pslite_heard_seconds_ago", Gauge, ["node"],
        "How long ago something was heard of a node that sends signs of life.";
    AdvisedServers: "pslite_advised_servers", Gauge, [],
        "How many servers are advised: those that are there, and one more or one fewer if that \
         would pay.";
    BatchSamples: "pslite_batch_samples", Gauge, ["session", "node"],
        "Samples of a worker in an iteration, where workers share batches.";
    Computes: "pslite_worker_computing_seconds", Gauge, ["node"],
        "Of a worker's iteration: the time in which none of its requests was under way.";
    Waits: "pslite_worker_waiting_seconds", Gauge, ["node"],
        "Of a worker's iteration: the time in which some were. It waited for the network, or for \
         other workers.";
}

impl JobFamily {
    /// Its row.
    #[must_use]
    pub const fn row(self) -> &'static FamilyRow {
        &JOB_FAMILIES[self as usize]
    }
}

const PHASES: [&str; 4] = ["forming", "running", "changing", "failed"];
const ROLES: [&str; 2] = ["server", "worker"];
const REASONS: [&str; 4] = ["shorter", "joins", "leaves", "back"];
const STATES: [&str; 8] =
    ["registered", "live", "joining", "draining", "fixed", "dead", "released", "back"];
/// Of a node that is not in the job any more.
const GONE: [&str; 2] = ["dead", "released"];
/// Bytes per second of a Mbit/s.
const BYTES_OF_MBIT: f64 = 125_000.0;

/// Adds which version a node is, and which wire it speaks.
pub fn expose_build(version: &'static str, wire: &'static str, exposition: &mut Exposition) {
    let labels = vec![("version", version.into()), ("wire", wire.into())];
    exposition.set(JobFamily::Build.row(), labels, ExposedValue::Count(1));
}

/// Adds what a scheduler shows of its job.
pub fn expose_job(status: &Status, exposition: &mut Exposition) {
    JobText { exposition }.job(status);
}

struct JobText<'a> {
    exposition: &'a mut Exposition,
}

impl JobText<'_> {
    fn job(&mut self, status: &Status) {
        for phase in PHASES {
            let is = ExposedValue::Count((status.phase == phase).into());
            self.set(JobFamily::Phase, vec![("phase", phase.into())], is);
        }
        self.nodes(&status.nodes);
        self.set(JobFamily::PolicyEpoch, Vec::new(), ExposedValue::Count(status.epoch));
        if let Some(rounds) = status.rounds {
            self.set(JobFamily::Rounds, Vec::new(), ExposedValue::Count(rounds));
        }
        if let Some(servers) = status.advised_servers {
            let value = ExposedValue::Count(servers as u64);
            self.set(JobFamily::AdvisedServers, Vec::new(), value);
        }
        for (family, number) in [
            (JobFamily::RoundDuration, status.measured),
            (JobFamily::RoundPredicted, status.predicted),
            (JobFamily::RoundBound, status.bound),
            (JobFamily::Efficiency, status.eta),
        ] {
            self.number(family, Vec::new(), number);
        }
        // A counter is there before it counts; the first moves would not show otherwise.
        let none = REASONS.iter().filter(|_| status.elastic);
        for reason in none {
            let labels = vec![("reason", Cow::from(*reason))];
            self.set(JobFamily::MovedBytes, labels, ExposedValue::Count(0));
        }
        for moved in &status.moved {
            let labels = vec![("reason", Cow::from(moved.reason.clone()))];
            self.set(JobFamily::MovedBytes, labels, ExposedValue::Count(moved.bytes));
        }
        for link in status.trees.iter().flat_map(|trees| &trees.links) {
            self.link(link);
        }
        for wait in &status.oldest_waits {
            let labels = vec![("for", peer_name(Some(wait.node)).into())];
            self.number(JobFamily::OldestWait, labels, Some(wait.seconds));
        }
        for session in &status.sessions {
            for worker in &session.samples {
                let mut labels = vec![("session", Cow::from(session.name.clone()))];
                labels.extend(node_label(worker.node));
                let samples = ExposedValue::Count(worker.samples.into());
                self.set(JobFamily::BatchSamples, labels, samples);
            }
        }
    }

    fn nodes(&mut self, nodes: &[NodeStatus]) {
        let mut counts = BTreeMap::<(&str, &str), u64>::new();
        for role in ROLES {
            counts.extend(STATES.map(|state| ((role, state), 0)));
        }
        for node in nodes {
            *counts.entry((&node.role, &node.state)).or_default() += 1;
            if !GONE.contains(&node.state.as_str()) {
                self.node(node);
            }
        }
        for ((role, state), count) in counts {
            let label = |text: &str| Cow::from(text.to_owned());
            let labels = vec![("role", label(role)), ("state", label(state))];
            self.set(JobFamily::Nodes, labels, ExposedValue::Count(count));
        }
    }

    /// A node that is in the job. Before that is complete it has no name.
    fn node(&mut self, node: &NodeStatus) {
        let labels = node_label(node.id);
        let Some((_, name)) = labels.first() else { return };
        // What others wait for comes later, and takes the place of this.
        self.number(JobFamily::OldestWait, vec![("for", name.clone())], Some(0.0));
        self.number(JobFamily::Heard, labels.clone(), node.heard);
        self.number(JobFamily::Computes, labels.clone(), node.computes);
        self.number(JobFamily::Waits, labels.clone(), node.waits);
        if node.role == "server" {
            let pieces = ExposedValue::Count(node.pieces as u64);
            self.set(JobFamily::ServerPieces, labels.clone(), pieces);
            self.set(JobFamily::ServerBytes, labels.clone(), ExposedValue::Count(node.bytes));
        }
        if let Some(totals) = &node.totals {
            self.totals(&labels, totals);
        }
    }

    /// What another node has told of what it has counted: without `peer`.
    fn totals(&mut self, node: &SampleLabels, totals: &NodeTotals) {
        let both_ways = [
            (Counted::Messages, totals.messages_sent, totals.messages_received),
            (Counted::Bytes, totals.bytes_sent, totals.bytes_received),
        ];
        for (event, sent, received) in both_ways {
            for (direction, number) in [("sent", sent), ("received", received)] {
                let mut labels = node.clone();
                labels.push(("direction", direction.into()));
                self.counted(event, labels, ExposedValue::Count(number));
            }
        }
        for (event, number) in [
            (Counted::Garbage, totals.dropped),
            (Counted::Duplicates, totals.duplicates),
            (Counted::Connections, totals.connections),
            (Counted::Queued, totals.queued),
            (Counted::Waiting, totals.waiting),
        ] {
            self.counted(event, node.clone(), ExposedValue::Count(number));
        }
        for (event, count, sum) in [
            (Counted::RequestTime, totals.requests, totals.request_micros),
            (Counted::StoreTime, totals.stored, totals.store_micros),
        ] {
            self.counted(event, node.clone(), ExposedValue::TimesInAll { count, sum });
        }
        process::expose_totals(node, totals, self.exposition);
    }

    fn link(&mut self, link: &LinkStatus) {
        let labels = vec![
            ("from", link.from.clone().into()),
            ("to", link.to.clone().into()),
            ("measured", if link.measured { "true" } else { "false" }.into()),
        ];
        self.number(JobFamily::LinkRate, labels, Some(link.mbit * BYTES_OF_MBIT));
    }

    fn counted(&mut self, event: Counted, labels: SampleLabels, value: ExposedValue) {
        self.exposition.set(&event.event().into(), labels, value);
    }

    fn number(&mut self, family: JobFamily, labels: SampleLabels, number: Option<f64>) {
        if let Some(number) = number.filter(|number| number.is_finite()) {
            self.set(family, labels, ExposedValue::Number(number));
        }
    }

    fn set(&mut self, family: JobFamily, labels: SampleLabels, value: ExposedValue) {
        self.exposition.set(family.row(), labels, value);
    }
}

/// The label of a node that has an id; else none.
fn node_label(id: NodeId) -> SampleLabels {
    if id == EMPTY { Vec::new() } else { vec![("node", peer_name(Some(id)).into())] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::scheduler::{MovedStatus, OldestWait, TreesStatus};
    use pslite_core::wire::balance::{SessionStatus, WorkerSamples};
    use pslite_core::wire::{server_id, worker_id};

    fn node(role: &str, id: NodeId, state: &str) -> NodeStatus {
        NodeStatus {
            role: role.to_owned(),
            rank: 0,
            id,
            address: "host:1".to_owned(),
            state: state.to_owned(),
            pieces: 0,
            bytes: 0,
            state_bytes: 0,
            computes: None,
            waits: None,
            heard: None,
            totals: None,
        }
    }

    fn lines(status: &Status) -> Vec<String> {
        let mut exposition = Exposition::default();
        expose_job(status, &mut exposition);
        let text = exposition.text();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[track_caller]
    fn has(lines: &[String], wanted: &[&str]) {
        for line in wanted {
            assert!(lines.iter().any(|found| found == line), "{line} is not in {lines:#?}");
        }
    }

    #[test]
    fn a_job_that_forms_says_so_and_names_nobody() {
        let status = Status {
            phase: "forming".to_owned(),
            nodes: vec![node("worker", EMPTY, "registered"), node("worker", EMPTY, "registered")],
            ..Status::default()
        };
        let lines = lines(&status);
        has(
            &lines,
            &[
                r#"pslite_job_phase{phase="forming"} 1"#,
                r#"pslite_job_phase{phase="running"} 0"#,
                r#"pslite_nodes{role="worker",state="registered"} 2"#,
                r#"pslite_nodes{role="server",state="dead"} 0"#,
                "pslite_policy_epoch 0",
            ],
        );
        assert_eq!(lines.len(), PHASES.len() + ROLES.len() * STATES.len() + 1, "{lines:#?}");
    }

    #[test]
    fn a_job_that_runs_shows_its_rounds_servers_and_waits() {
        let server = NodeStatus {
            pieces: 3,
            bytes: 4000,
            heard: Some(0.5),
            ..node("server", server_id(0), "live")
        };
        let worker = NodeStatus {
            computes: Some(0.25),
            waits: Some(0.125),
            ..node("worker", worker_id(1), "live")
        };
        let status = Status {
            phase: "running".to_owned(),
            epoch: 4,
            elastic: true,
            nodes: vec![server, worker, node("server", server_id(1), "dead")],
            rounds: Some(12),
            measured: Some(0.5),
            predicted: Some(0.375),
            bound: Some(0.25),
            eta: Some(0.5),
            advised_servers: Some(2),
            moved: vec![MovedStatus { reason: "joins".to_owned(), bytes: 77 }],
            oldest_waits: vec![OldestWait { node: worker_id(1), seconds: 61.5 }],
            sessions: vec![SessionStatus {
                name: "a \"name\"".to_owned(),
                samples: vec![WorkerSamples { node: worker_id(1), samples: 48 }],
                ..SessionStatus::default()
            }],
            ..Status::default()
        };
        let lines = lines(&status);
        has(
            &lines,
            &[
                "pslite_policy_epoch 4",
                "pslite_rounds_total 12",
                "pslite_round_duration_seconds 0.5",
                "pslite_round_predicted_seconds 0.375",
                "pslite_round_bound_seconds 0.25",
                "pslite_round_efficiency_ratio 0.5",
                "pslite_advised_servers 2",
                r#"pslite_moved_bytes_total{reason="joins"} 77"#,
                r#"pslite_moved_bytes_total{reason="back"} 0"#,
                r#"pslite_nodes{role="server",state="dead"} 1"#,
                r#"pslite_server_bytes{node="server0"} 4000"#,
                r#"pslite_server_pieces{node="server0"} 3"#,
                r#"pslite_heard_seconds_ago{node="server0"} 0.5"#,
                r#"pslite_oldest_wait_seconds{for="server0"} 0.0"#,
                r#"pslite_oldest_wait_seconds{for="worker1"} 61.5"#,
                r#"pslite_worker_computing_seconds{node="worker1"} 0.25"#,
                r#"pslite_worker_waiting_seconds{node="worker1"} 0.125"#,
                r#"pslite_batch_samples{session="a \"name\"",node="worker1"} 48"#,
            ],
        );
        assert!(!lines.iter().any(|line| line.contains("server1")), "it is dead: {lines:#?}");
    }

    /// One series for each total of each node, without `peer`.
    #[test]
    fn totals_of_nodes_have_the_names_that_their_own_text_has() {
        let totals = NodeTotals {
            messages_sent: 1,
            messages_received: 2,
            bytes_sent: 3,
            bytes_received: 4,
            requests: 5,
            request_micros: 6_000_000,
            stored: 7,
            store_micros: 8_000_000,
            dropped: 9,
            duplicates: 10,
            connections: 11,
            queued: 12,
            waiting: 13,
            cpu_micros: 14_000_000,
            resident_bytes: 15,
            open_fds: 16,
        };
        let told = NodeStatus { totals: Some(totals), ..node("worker", worker_id(0), "live") };
        let status = Status { nodes: vec![told], ..Status::default() };
        has(
            &lines(&status),
            &[
                r#"pslite_messages_total{node="worker0",direction="sent"} 1"#,
                r#"pslite_messages_total{node="worker0",direction="received"} 2"#,
                r#"pslite_message_bytes_total{node="worker0",direction="sent"} 3"#,
                r#"pslite_message_bytes_total{node="worker0",direction="received"} 4"#,
                r#"pslite_request_duration_seconds_count{node="worker0"} 5"#,
                r#"pslite_request_duration_seconds_sum{node="worker0"} 6.0"#,
                r#"pslite_store_duration_seconds_count{node="worker0"} 7"#,
                r#"pslite_store_duration_seconds_sum{node="worker0"} 8.0"#,
                r#"pslite_dropped_messages_total{node="worker0"} 9"#,
                r#"pslite_duplicate_messages_total{node="worker0"} 10"#,
                r#"pslite_connections_total{node="worker0"} 11"#,
                r#"pslite_queued_messages{node="worker0"} 12"#,
                r#"pslite_send_queue_messages{node="worker0"} 13"#,
                r#"process_cpu_seconds_total{node="worker0"} 14.0"#,
                r#"process_resident_memory_bytes{node="worker0"} 15"#,
                r#"process_open_fds{node="worker0"} 16"#,
            ],
        );
    }

    /// Names of sites come from host names.
    #[test]
    fn links_have_the_names_of_sites() {
        let link =
            LinkStatus { from: "a\nb".to_owned(), to: "c".to_owned(), mbit: 8.0, measured: false };
        let trees = TreesStatus {
            topology: "packed".to_owned(),
            overlay: 1,
            trees: Vec::new(),
            links: vec![link],
            why: String::new(),
        };
        let lines = lines(&Status { trees: Some(trees), ..Status::default() });
        has(
            &lines,
            &[r#"pslite_link_bytes_per_second{from="a\nb",to="c",measured="false"} 1000000.0"#],
        );
    }

    #[test]
    fn every_family_has_its_own_name() {
        let mut names: Vec<&str> = JOB_FAMILIES.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), JOB_FAMILIES.len());
        for row in JOB_FAMILIES {
            assert!(row.name.starts_with("pslite_") && row.text.ends_with('.'), "{}", row.name);
            assert_eq!(row.name.ends_with("_total"), row.kind == EventKind::Counter, "{row:?}");
            assert!(!row.text.contains(['\n', '\\', '"']), "{}", row.text);
        }
        assert_eq!(JobFamily::Waits.row().name, "pslite_worker_waiting_seconds");
    }
}
