//! Signs of life and of death. A broken connection that stays broken, or silence of somebody who
//! used to send signs, means death; stock notices neither (postoffice.cc:196 is only asked).

use std::time::Duration;

use super::{Action, Cluster, JobFailure, JobFailureKind};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::wire::word::Word;
use crate::wire::{Command, Control, EMPTY, Node, NodeId, Notice, NoticeKind, Role, SCHEDULER};

impl Cluster {
    /// A sign of life, or a notice that rides in one (van.cc:174-189).
    pub(super) fn heartbeat(
        &mut self,
        now: Duration,
        from: Option<NodeId>,
        control: &Control,
        out: &mut Vec<Action>,
    ) {
        let Some(from) = from else { return self.take_word_of_stranger(now, control, out) };
        if self.is_scheduler() && self.is_gone(from) {
            return self.back_from_the_dead(now, from, out);
        }
        if !self.is_known(from, control.nodes.first()) {
            return; // Of another job, at the same address.
        }
        if from == SCHEDULER {
            self.arrivals.scheduler_seen = true;
            self.scheduler_heard(now, out);
        }
        if let Some(notice) = &control.notice {
            return self.noticed(now, from, notice, out);
        }
        if let Some(word) = &control.word {
            if self.signs.heard.contains_key(&from) {
                self.signs.heard.insert(from, now);
            }
            self.take_word(now, from, word, out);
            if !matches!(**word, Word::Report { .. }) {
                return; // Not a sign of life with a word in it.
            }
        }
        // One that was given up may still send them.
        let counts = self.members.contains_key(&from) && !self.lost.contains_key(&from);
        if counts && from != self.me.id {
            self.signs.heard.insert(from, now);
        }
        if self.is_scheduler() && self.ready {
            let message = self.sign_of_life();
            Self::send(out, from, message);
        }
    }

    /// Counts the silence of those who send signs of life from now on, so that a host that dies
    /// before its first one is missed too: the scheduler that of all who say that they send them,
    /// the others that of a scheduler of ours, which answers each.
    pub(super) fn expect_signs_of_life(&mut self, now: Duration) {
        let asks = self.config.heartbeat_interval.is_some();
        let is_scheduler = self.is_scheduler();
        let sends = |node: &&Node| {
            if is_scheduler {
                node.sends_signs_of_life()
            } else {
                node.role == Role::Scheduler && node.is_ours() && asks
            }
        };
        let expected = self.members.values().filter(sends).map(|node| node.id);
        for id in expected.filter(|id| !self.lost.contains_key(id)) {
            self.signs.heard.entry(id).or_insert(now);
        }
    }

    pub(super) fn sign_of_life(&mut self) -> crate::wire::Message {
        let mut control = Control::new(Command::Heartbeat);
        control.nodes = vec![Node { customer_id: 0, ..self.me.clone() }];
        if self.elastic.on && self.ready && !self.is_scheduler() {
            control.word = Some(Box::new(self.known_epoch()));
        }
        self.control(control)
    }

    fn noticed(&mut self, now: Duration, from: NodeId, notice: &Notice, out: &mut Vec<Action>) {
        match notice.kind {
            NoticeKind::Progress if from == SCHEDULER && !self.ready => {
                self.arrivals.progress.clone_from(&notice.text);
                Self::say(out, NewEvent::warning(JobEventKind::Wait, &*notice.text));
            }
            NoticeKind::JobFailed if from == SCHEDULER && !self.finalizing => {
                if notice.node != EMPTY && !self.lost.contains_key(&notice.node) {
                    self.lost.insert(notice.node, (now, notice.text.clone()));
                    out.push(Action::NodeLost { id: notice.node, reason: notice.text.clone() });
                }
                self.fail(
                    JobFailure { kind: JobFailureKind::PeerLost, text: notice.text.clone() },
                    out,
                );
            }
            NoticeKind::Leaving => {
                self.left.insert((from, notice.customer));
                out.push(Action::CustomerLeft { id: from, customer_id: notice.customer });
            }
            // The process that it means may have been replaced meanwhile.
            NoticeKind::NodeLost if self.is_other_process(notice) => {}
            NoticeKind::NodeLost if self.is_scheduler() => {
                self.declare_lost(now, notice.node, notice.text.clone(), out);
            }
            _ => {}
        }
    }

    /// Tells scheduler and servers that a customer of mine sends no more.
    pub(super) fn announce_leaving(&mut self, customer_id: i32, out: &mut Vec<Action>) {
        if self.is_scheduler() || !self.ready || !self.me.is_ours() {
            return;
        }
        self.elastic.my_leaves.insert(customer_id);
        let listens = |node: &&Node| {
            node.is_ours()
                && (node.role == Role::Scheduler
                    || (node.role == Role::Server && self.me.role == Role::Worker))
        };
        let all = self.members.values().filter(listens).map(|node| node.id);
        let to: Vec<NodeId> = all.filter(|id| !self.is_gone(*id)).collect();
        for id in to {
            self.announce_leaving_to(id, customer_id, out);
        }
    }

    pub(super) fn announce_leaving_to(&mut self, to: NodeId, customer: i32, out: &mut Vec<Action>) {
        let kind = NoticeKind::Leaving;
        self.notice(
            to,
            Notice { kind, node: self.me.id, customer, incarnation: 0, text: String::new() },
            out,
        );
    }

    pub(super) fn tick(&mut self, now: Duration, out: &mut Vec<Action>) {
        self.check_guests(now, out);
        self.check_farewell(now, out);
        if self.failure.is_some() || self.finalizing {
            return;
        }
        self.send_heartbeat(now, out);
        self.check_channels(now, out);
        self.check_silence(now, out);
        self.check_recovery(now, out);
        self.check_collection(now, out);
        self.check_scheduler(now, out);
        self.check_barriers(out);
        if !self.ready
            && self
                .config
                .start_timeout
                .is_some_and(|limit| now >= self.arrivals.started.saturating_add(limit))
        {
            self.start_timed_out(out);
        }
        if now >= self.arrivals.next_report {
            self.arrivals.next_report = now.saturating_add(self.config.report_interval);
            self.report(out);
        }
    }

    fn send_heartbeat(&mut self, now: Duration, out: &mut Vec<Action>) {
        let Some(interval) = self.config.heartbeat_interval else { return };
        if self.signs.next_heartbeat.is_none_or(|at| now < at) || self.is_scheduler() {
            return;
        }
        self.signs.next_heartbeat = Some(now.saturating_add(interval));
        let message = self.sign_of_life();
        Self::send(out, SCHEDULER, message);
    }

    fn check_channels(&mut self, now: Duration, out: &mut Vec<Action>) {
        let limit = self.config.channel_down_limit;
        let expired: Vec<NodeId> = self
            .signs
            .down
            .iter()
            .filter(|(_, since)| now >= since.saturating_add(limit))
            .map(|(id, _)| *id)
            .collect();
        for id in expired {
            self.signs.down.remove(&id);
            if let Some(registrant) = self.arrivals.registrants.remove(&id) {
                out.push(Action::Disconnect { id });
                let text = format!(
                    "lost {} before the job was complete: its connection is gone",
                    registrant.node.describe()
                );
                let failure = JobFailure { kind: JobFailureKind::PeerLost, text };
                self.fail_start(now, id, failure, out);
            } else if id == SCHEDULER || self.members.contains_key(&id) {
                self.node_lost(now, id, "its connection is gone", out);
            }
        }
    }

    fn check_silence(&mut self, now: Duration, out: &mut Vec<Action>) {
        let silent: Vec<(NodeId, Duration)> = self
            .signs
            .heard
            .iter()
            .map(|(id, at)| (*id, now.saturating_sub(*at)))
            .filter(|(id, silence)| {
                let own = if self.is_ours(*id) { self.config.silence_limit } else { Duration::MAX };
                *silence > self.config.heartbeat_timeout.unwrap_or(own)
            })
            .collect();
        for (id, silence) in silent {
            self.signs.heard.remove(&id);
            if id == SCHEDULER && self.scheduler_may_return() {
                self.scheduler_in_doubt(now.saturating_sub(silence));
                continue;
            }
            let reason = format!("no sign of life for {} s", silence.as_secs());
            self.node_lost(now, id, &reason, out);
        }
    }

    /// After a pause of this node silence begins anew: others who were stopped with it may have
    /// been stopped earlier, and may go on later. Once within the limit, so that a node that is
    /// stopped again and again, as by a scheduler of jobs that share a machine, misses the dead all
    /// the same.
    pub(super) fn stood_still(&mut self, now: Duration) {
        let limit = self.config.heartbeat_timeout.unwrap_or(self.config.silence_limit);
        if self.signs.forgave.is_none_or(|at| now >= at.saturating_add(limit)) {
            self.signs.forgave = Some(now);
            self.signs.heard.values_mut().for_each(|at| *at = now);
        }
    }

    pub(super) fn node_lost(
        &mut self,
        now: Duration,
        id: NodeId,
        reason: &str,
        out: &mut Vec<Action>,
    ) {
        let text = format!("lost {}: {reason}", self.describe(id));
        self.declare_lost(now, id, text, out);
    }

    fn declare_lost(&mut self, now: Duration, id: NodeId, text: String, out: &mut Vec<Action>) {
        let released = self.elastic.policy.released.contains(&id);
        let over = self.finalizing || self.failure.is_some() || released;
        if over || id == self.me.id || self.lost.contains_key(&id) {
            return;
        }
        if id == SCHEDULER && !self.is_ours(SCHEDULER) && self.freed_unheard(&text, out) {
            return;
        }
        // Nothing was promised any more by one who took leave, nor after the exit barrier by peers
        // that cannot take leave. But a server may wait in the exit barrier from the beginning:
        // what an elastic job's has is needed until all others are there too.
        let serves = !self.is_worker(id) && self.goes_on_without(id) && !self.job_is_over();
        let left = (!serves && self.left.iter().any(|(node, _)| *node == id))
            || (self.config.standing_scheduler && self.meetings.releases_of_all >= 2);
        self.signs.heard.remove(&id);
        self.lost.insert(id, (now, text.clone()));
        // That it took leave may not have reached all servers: those hear by the next policy that
        // it is gone.
        let others_wait = self.is_scheduler() && self.elastic.workers && self.is_worker(id);
        let nobody_waits = !others_wait || self.job_is_over();
        if left && nobody_waits {
            self.elastic.books.claims.remove(id);
            return;
        }
        out.push(Action::NodeLost { id, reason: text.clone() });
        if self.goes_on_without(id) {
            let role = self.node(id).map(|node| node.role);
            match role.filter(|_| self.is_scheduler()) {
                Some(Role::Worker) => self.worker_lost(now, id, &text, out),
                Some(_) => self.server_lost(now, id, &text, out),
                None => self.tell_of_lost(id, text, out),
            }
            return;
        }
        if self.config.heartbeat_timeout.is_some() && id != SCHEDULER {
            return;
        }
        let failure = JobFailure { kind: JobFailureKind::PeerLost, text };
        self.fail_everywhere(id, failure, out);
    }

    /// True if a notice is about another process than the one that has the id now.
    fn is_other_process(&self, notice: &Notice) -> bool {
        let known = self.node(notice.node).map_or(0, |node| node.incarnation);
        notice.incarnation != 0 && notice.incarnation != known
    }

    /// A server, or a worker, is dead for this node: so it has to be for all.
    pub(super) fn tell_of_lost(&mut self, id: NodeId, text: String, out: &mut Vec<Action>) {
        let kind = NoticeKind::NodeLost;
        let incarnation = self.node(id).map_or(0, |node| node.incarnation);
        self.notice(SCHEDULER, Notice { kind, node: id, customer: EMPTY, incarnation, text }, out);
    }

    pub(super) fn report(&mut self, out: &mut Vec<Action>) {
        if self.ready {
            return;
        }
        let text = self.waiting_text();
        Self::say(out, NewEvent::warning(JobEventKind::Wait, &*text));
        let pending =
            self.arrivals.registrants.iter().filter(|(_, r)| r.node.is_ours()).map(|(key, _)| *key);
        for key in pending.collect::<Vec<_>>() {
            let kind = NoticeKind::Progress;
            let notice =
                Notice { kind, node: EMPTY, customer: EMPTY, incarnation: 0, text: text.clone() };
            self.notice(key, notice, out);
        }
    }
}
