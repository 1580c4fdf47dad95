//! Reports what a worker's oldest request has waited for, less and less often. Of a push that is
//! under way along a tree nobody hears but relays, so the scheduler is told: it knows who has not
//! pushed. Where a local model answers the program, two requests are reported: the oldest one that
//! servers are to answer, and the oldest one that the local model is to. May touch the customer and
//! the node.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use super::{RequestEnd, Requests, WorkerCustomer};
use crate::running::NodeRef;
use crate::sync::{lock, try_lock};
use pslite_core::keys::KeyName;
use pslite_core::store::Reminder;
use pslite_core::values::spaces::{SPACE_KEYS, Space, space_begin};
use pslite_core::wire::NodeId;
use pslite_core::wire::elastic::StalledRound;
use pslite_core::wire::topic::Topic;
use pslite_core::worker::WaitsFor;
use pslite_observe::log::{self, Level};

/// Between two looks at the requests.
const OLDEST_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Servers that one line names.
const SERVERS_NAMED_MAX: usize = 4;

/// When to look, and when to say it again.
#[derive(Debug, Default)]
pub(super) struct OldestWatch {
    next: Duration,
    reminder: Option<Reminder>,
    /// What the scheduler was told last; it has not waited at all there.
    told: Option<StalledRound>,
}

/// The oldest request that servers are to answer, if it has waited for long.
struct Oldest {
    timestamp: i32,
    what: Cow<'static, str>,
    waited: Duration,
    missing: Vec<NodeId>,
    /// Requests behind it.
    others: usize,
    /// It is under way along a tree.
    round: Option<StalledRound>,
}

/// The oldest request that the local model is to answer, if it has waited for long.
struct OldestHere {
    timestamp: i32,
    what: &'static str,
    waited: Duration,
    /// `None`: for its turn.
    waits_for: Option<WaitsFor>,
    /// Requests behind it that the local model is to answer too.
    others: usize,
}

impl Requests {
    fn oldest(&self, me: NodeId, servers: usize, now: Duration, limit: Duration) -> Option<Oldest> {
        let tracker = self.side.requests().tracker();
        let (timestamp, asked) = tracker.oldest_asked(|ts| !self.side.is_local(ts))?;
        let waited = now.saturating_sub(asked);
        (waited >= limit).then(|| Oldest {
            timestamp,
            what: self.what(timestamp, servers),
            waited,
            missing: tracker.missing(timestamp),
            others: tracker.waiting_count().saturating_sub(1 + self.side.local_count()),
            round: self.along_tree(me, timestamp),
        })
    }

    /// What a request is, for people. One of this worker's own pushes and pulls.
    fn what(&self, timestamp: i32, servers: usize) -> Cow<'static, str> {
        match self.side.requests().payload(timestamp) {
            Some(RequestEnd::Own(key)) => {
                format!("an exchange of key {}", KeyName::of(*key, servers)).into()
            }
            _ => self.side.requests().what(timestamp).into(),
        }
    }

    fn oldest_here(&self, now: Duration, limit: Duration) -> Option<OldestHere> {
        let requests = self.side.requests();
        let (timestamp, asked) = requests.tracker().oldest_asked(|ts| self.side.is_local(ts))?;
        let waited = now.saturating_sub(asked);
        (waited >= limit).then(|| OldestHere {
            timestamp,
            what: requests.what(timestamp),
            waited,
            waits_for: None,
            others: self.side.local_count().saturating_sub(1),
        })
    }

    /// The round of a request that is under way along a tree.
    fn along_tree(&self, me: NodeId, timestamp: i32) -> Option<StalledRound> {
        let (slice, key, round) = self.side.along_tree(timestamp)?;
        let begin = self.side.ranges().get(slice as usize).map_or(0, |range| range.begin);
        let first = space_begin(key, begin);
        let space = (first.wrapping_sub(begin) / SPACE_KEYS) as Space;
        let key = key.wrapping_sub(first) as i64;
        Some(StalledRound { key, space, round, pushed: vec![me], ..StalledRound::default() })
    }
}

impl WorkerCustomer {
    /// Says what the oldest request waits for, if that is long.
    pub(crate) fn report_oldest(&self) {
        let Ok(node) = self.node() else { return };
        let (now, limit) = (node.traffic().now(), node.settings().stall_report);
        let mut watch = lock(&self.oldest);
        if now < watch.next {
            return;
        }
        watch.next = now.saturating_add(OLDEST_LOOK_EVERY);
        let (me, servers) = (node.my_id(), node.settings().num_servers);
        let oldest = lock(&self.requests).oldest(me, servers, now, limit);
        let reminder = watch.reminder.get_or_insert_with(|| Reminder::new(limit));
        if reminder.is_due(now) {
            let here = self.oldest_here(now, limit);
            if oldest.is_some() || here.is_some() {
                reminder.said(now);
            }
            if let Some(oldest) = &oldest {
                log::write(Level::Warning, &text(&node, oldest));
            }
            if let Some(here) = &here {
                let text = text_here(node.settings().num_servers, here, |id| {
                    node.with_cluster(|cluster, _| cluster.describe(id))
                });
                log::write(Level::Warning, &text);
            }
        }
        let round = oldest.as_ref().and_then(|oldest| oldest.round.clone());
        if round != watch.told {
            watch.told.clone_from(&round);
            drop(watch);
            let waited = oldest.map_or(0, |oldest| oldest.waited.as_millis() as u64);
            let round = round.map(|round| StalledRound { waited, ..round });
            node.tell(Topic::Stall, round.map_or_else(Bytes::new, |round| round.bytes()));
        }
    }

    /// The oldest request that the local model is to answer, and why it is not. `None` too while
    /// that computes: it may take long, and what waits then has its turn soon.
    fn oldest_here(&self, now: Duration, limit: Duration) -> Option<OldestHere> {
        let training = self.training()?;
        let training = try_lock(&training)?;
        let oldest = lock(&self.requests).oldest_here(now, limit)?;
        let waits_for = training.waits_for(oldest.timestamp);
        Some(OldestHere { waits_for, ..oldest })
    }
}

fn text_here(servers: usize, oldest: &OldestHere, node: impl Fn(NodeId) -> String) -> String {
    let OldestHere { timestamp, what, waited, waits_for, others } = oldest;
    let name = |key| KeyName::of(key, servers);
    let why = match waits_for {
        Some(WaitsFor::Ahead(Some(key))) => {
            let key = name(*key);
            format!(
                "this worker has computed ahead of the others and waits for a round of key {key}"
            )
        }
        Some(WaitsFor::Ahead(None)) => "this worker has computed ahead of the others".to_owned(),
        Some(WaitsFor::Round(key)) => {
            format!("this worker waits for the round of key {}", name(*key))
        }
        Some(WaitsFor::Others(missing)) => {
            let whom: Vec<String> = missing.iter().map(|id| node(*id)).collect();
            let whom = if whom.is_empty() { "all others".to_owned() } else { whom.join(" and ") };
            format!("this worker waits until {whom} have come to where all align")
        }
        Some(WaitsFor::FirstValue(key)) => {
            format!("this worker waits for the first value of key {}", name(*key))
        }
        None => "this worker is busy with what came before".to_owned(),
    };
    let waited = waited.as_secs();
    format!(
        "{what} (request {timestamp}) has waited {waited} s: {why}; requests behind it: {others}"
    )
}

fn text(node: &NodeRef, oldest: &Oldest) -> String {
    let Oldest { timestamp, what, waited, missing, others, round } = oldest;
    let named = missing.iter().take(SERVERS_NAMED_MAX);
    let mut whom: Vec<String> =
        node.with_cluster(|cluster, _| named.map(|id| cluster.describe(*id)).collect());
    if missing.len() > whom.len() {
        whom.push(format!("{} more", missing.len() - whom.len()));
    }
    let whom = whom.join(", and for ");
    let waited = waited.as_secs();
    let tree = round.as_ref().map_or("", |_| " along a tree (the scheduler knows who is missing)");
    format!(
        "{what} (request {timestamp}) has waited {waited} s for {whom}{tree}; requests behind it: \
         {others}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::values::server_key_ranges;

    #[test]
    fn a_request_that_the_local_model_holds_waits_for_no_server() {
        let key = server_key_ranges(2)[1].begin + 3;
        let said = |waits_for| {
            let waited = Duration::from_secs(12);
            let what = "a push";
            let here = OldestHere { timestamp: 7, what, waited, waits_for, others: 2 };
            text_here(2, &here, |id| format!("node {id}"))
        };
        let begin = "a push (request 7) has waited 12 s: this worker";
        let end = "; requests behind it: 2";
        for (waits_for, why) in [
            (
                Some(WaitsFor::Ahead(Some(key))),
                "has computed ahead of the others and waits for a round of key 3",
            ),
            (Some(WaitsFor::Ahead(None)), "has computed ahead of the others"),
            (Some(WaitsFor::Round(key)), "waits for the round of key 3"),
            (
                Some(WaitsFor::Others(Vec::new())),
                "waits until all others have come to where all align",
            ),
            (
                Some(WaitsFor::Others(vec![9, 11])),
                "waits until node 9 and node 11 have come to where all align",
            ),
            (Some(WaitsFor::FirstValue(key)), "waits for the first value of key 3"),
            (None, "is busy with what came before"),
        ] {
            assert_eq!(said(waits_for), format!("{begin} {why}{end}"));
        }
    }
}
