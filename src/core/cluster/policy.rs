//! The scheduler's policies (`docs/elastic.md`): the first one, and each that follows from fresh
//! claims.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use super::claimed::AllClaimed;
use super::claims::{ClaimEvidence, Resolution, resolve};
use super::collect::{Collection, named};
use super::journal::{Change, Homes, Record};
use super::{Action, Cluster};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::text;
use crate::wire::elastic::CopyPlace;
use crate::wire::word::Policy;
use crate::wire::{NodeId, Role};

impl Cluster {
    // ---- the beginning of an elastic job --------------------------------------------------------

    /// Scheduler: the job is complete. If it is elastic, its first policy follows.
    pub(super) fn first_policy(&mut self, out: &mut Vec<Action>) {
        self.decide_elastic(out);
        if self.refuses_exchange(out) || !self.elastic.on {
            return;
        }
        self.elastic.policy.exchange = self.config.exchange;
        let servers = self.live_servers();
        let replicas = self.config.replicas.unwrap_or(u32::from(servers.len() > 1));
        self.elastic.listed = true;
        let live = self.live_workers();
        let books = &mut self.elastic.books;
        books.epoch = 1;
        books.ever = self.config.num_servers;
        self.elastic.policy = Policy {
            epoch: 1,
            homes: servers.clone(),
            servers,
            replicas,
            workers: self.config.num_workers as u32,
            live,
            exchange: self.config.exchange,
            ..Policy::default()
        };
        self.say_exchange(out);
        let state = self.state_for_journal();
        out.push(Action::Record(Record::new(Change::Job(Box::new(state)))));
        self.tell_policy(&[], out);
    }

    /// Sends the policy to everybody, and to its own owner.
    fn tell_policy(&mut self, but: &[NodeId], out: &mut Vec<Action>) {
        let word = self.policy_word();
        let joined = self.who_joined();
        for id in self.others().into_iter().filter(|id| !but.contains(id)) {
            self.tell_who_joined(id, &joined, out);
            self.word(id, word.clone(), out);
            self.tell_overlay(id, out);
        }
        out.push(Action::Policy(self.routed_policy()));
    }

    // ---- the policy -----------------------------------------------------------------------------

    pub(super) fn decide(&mut self, now: Duration, collection: Collection, out: &mut Vec<Action>) {
        let Collection { epoch, answers, later, again, .. } = collection;
        let books = &self.elastic.books;
        let replicas = self.elastic.policy.replicas;
        let Resolution { pieces, lost } = resolve(ClaimEvidence {
            claims: &answers,
            former: &books.pieces,
            orders: &books.orders.all(),
            tenures: &books.tenures,
            replicas,
            epoch,
        });
        let broken = match lost.is_empty() {
            true => self.unknown_losses(&answers),
            false => Some(named(&lost, self.config.num_servers)),
        };
        if let Some(text) = broken {
            return self.fail_for_lost_values(&text, out);
        }
        if self.a_server_misses_workers(out) {
            return;
        }
        self.set_pieces(pieces, Some(epoch), out);
        self.elastic.books.claims = AllClaimed::new(answers);
        self.forget_done_orders(None, out);
        let (joined, released) = (self.let_in(), self.let_out_empty());
        let back = self.let_back(epoch);
        let former = self.elastic.policy.clone();
        self.new_policy(epoch, &joined, &released);
        let homes = self.elastic.policy.homes.clone();
        let change = Homes {
            homes,
            joined: joined.clone(),
            released: released.clone(),
            back: back.clone(),
            copies: self.elastic.policy.copies.clone(),
        };
        out.push(Action::Record(Record::new(Change::Homes(change))));
        self.log_policy(&joined, &released, &back, out);
        self.tell_policy(&released, out);
        self.lose_trees(&former, out);
        // With the former policy the servers have forgotten what waited for the end of a round.
        for id in self.elastic.policy.servers.clone() {
            self.repeat_orders(id, out);
        }
        for id in released {
            self.let_go(id, out);
        }
        self.settle_barriers(out);
        self.elastic.books.claims.extend(later);
        self.replace_pieces(out);
        self.early_joiners(now, out);
        self.empty_drained(out);
        if again { self.collect(now, out) } else { self.go_on(now, out) }
    }

    /// Servers that joined and are able to serve.
    fn let_in(&mut self) -> Vec<NodeId> {
        let books = &mut self.elastic.books;
        let able = |id: &NodeId| books.claims.by_server().contains_key(id);
        let joined: Vec<NodeId> = books.joining.iter().copied().filter(able).collect();
        books.joining.retain(|id| !joined.contains(id));
        joined
    }

    /// Servers that were emptied.
    fn let_out_empty(&mut self) -> Vec<NodeId> {
        let released = self.empty_servers();
        for id in &released {
            let books = &mut self.elastic.books;
            books.draining.remove(id);
            books.claims.remove(*id);
            books.released.insert(*id);
            self.signs.heard.remove(id);
        }
        released
    }

    fn new_policy(&mut self, epoch: u64, joined: &[NodeId], released: &[NodeId]) {
        let live = self.live_workers();
        let former = std::mem::take(&mut self.elastic.policy);
        let wanted = self.elastic.books.copies.take();
        let mut servers: Vec<NodeId> = former.servers.iter().chain(joined).copied().collect();
        servers.retain(|id| !self.lost.contains_key(id) && !released.contains(id));
        servers.sort_unstable();
        let serves: BTreeSet<NodeId> = servers.iter().copied().collect();
        let books = &self.elastic.books;
        let draining: Vec<NodeId> = books.draining.iter().copied().collect();
        let able = |id: &NodeId| !draining.contains(id) && !books.fixed.contains_key(id);
        let homes = former.homes.iter().map(|home| {
            let stays = serves.contains(home) && !draining.contains(home);
            let next = || {
                let all = || serves.iter().filter(|id| able(id));
                let behind = serves.range((Bound::Excluded(*home), Bound::Unbounded));
                let mut behind = behind.filter(|id| able(id));
                behind.next().or_else(|| all().next()).or_else(|| servers.first())
            };
            if stays { *home } else { next().copied().unwrap_or(*home) }
        });
        // Servers whose place for copies is gone choose for themselves.
        let mut copies = wanted.unwrap_or(former.copies);
        copies.retain(|copy| {
            serves.contains(&copy.owner) && serves.contains(&copy.holder) && able(&copy.holder)
        });
        self.elastic.policy = Policy {
            epoch,
            homes: homes.collect(),
            lost: self.lost_servers(),
            released: books.released.iter().copied().collect(),
            servers,
            draining,
            replicas: former.replicas,
            workers: former.workers,
            copies,
            live,
            exchange: former.exchange,
        };
    }

    /// Scheduler: its owner says which server is to keep the copies of which. A new policy tells
    /// the others; the one that is in force stays as it is, since nodes may hear of it once more.
    pub(super) fn place_copies(
        &mut self,
        now: Duration,
        copies: Vec<CopyPlace>,
        out: &mut Vec<Action>,
    ) {
        if !self.is_scheduler() || !self.may_order() || self.elastic.policy.copies == copies {
            return;
        }
        self.elastic.books.copies = Some(copies);
        self.collect(now, out);
    }

    fn log_policy(
        &self,
        joined: &[NodeId],
        released: &[NodeId],
        back: &[NodeId],
        out: &mut Vec<Action>,
    ) {
        let names = |ids: &[NodeId]| text::few(ids.iter().map(|id| self.describe(*id)));
        let policy = &self.elastic.policy;
        let mut text = format!("policy {}: {} servers", policy.epoch, policy.servers.len());
        let draining = &policy.draining[..];
        if !policy.live.is_empty() {
            let all = self.members.values().filter(|node| node.role == Role::Worker).count();
            text.push_str(&format!(", {} of {all} workers", policy.live.len()));
        }
        for (what, ids) in
            [("joined", joined), ("left", released), ("being emptied", draining), ("back", back)]
        {
            if !ids.is_empty() {
                text.push_str(&format!("; {what}: {}", names(ids)));
            }
        }
        let event = NewEvent::info(JobEventKind::Policy, text)
            .with("epoch", policy.epoch as f64)
            .with("servers", policy.servers.len() as f64);
        let workers = policy.live.len();
        let event = if workers > 0 { event.with("workers", workers as f64) } else { event };
        Self::say(out, event);
    }

    /// Servers that are dead, ascending.
    pub(super) fn lost_servers(&self) -> Vec<NodeId> {
        let server = |id: &&NodeId| self.node(**id).is_some_and(|node| node.role == Role::Server);
        self.lost.keys().filter(server).copied().collect()
    }
}
