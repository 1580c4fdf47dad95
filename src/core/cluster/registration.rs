//! How a job forms: nodes register, the scheduler orders them and tells everybody (van.cc:49-171).

use std::collections::BTreeSet;
use std::time::Duration;

use super::registrant::Registrant;
use super::{Action, Cluster, JobFailure, JobFailureKind, ranking};
use crate::chronicle::{JobEventKind, Level, NewEvent};
use crate::text;
use crate::wire::{
    Command, Control, EMPTY, Node, NodeId, Role, SCHEDULER, SERVER_GROUP, WORKER_GROUP, server_id,
    worker_id,
};

impl Cluster {
    /// A customer of this process starts: asks the scheduler for a place (van.cc:327).
    pub(super) fn register(&mut self, now: Duration, customer_id: i32, out: &mut Vec<Action>) {
        if self.is_scheduler() {
            return self.form_if_complete(now, out);
        }
        if self.ready {
            // A late customer: the job is complete without it; its barriers are its own.
            self.meetings.late.insert(customer_id);
        }
        let mut control = Control::new(Command::AddNode);
        control.nodes = vec![Node { customer_id, ..self.me.clone() }];
        control.settings.clone_from(&self.config.settings);
        let message = self.control(control);
        Self::send(out, SCHEDULER, message);
    }

    pub(super) fn add_node(
        &mut self,
        now: Duration,
        from: Option<NodeId>,
        control: &Control,
        out: &mut Vec<Action>,
    ) {
        if !self.is_scheduler() {
            if from == Some(SCHEDULER) {
                self.list(now, &control.nodes, out);
            }
            return;
        }
        let [node] = control.nodes.as_slice() else {
            let text = "dropped a registration that is not of one node";
            return Self::say(out, NewEvent::warning(JobEventKind::Node, text));
        };
        if !(1..=65_535).contains(&node.port)
            || node.hostname.is_empty()
            || node.role == Role::Scheduler
        {
            let text = format!("dropped the registration of {}", node.describe());
            return Self::say(out, NewEvent::warning(JobEventKind::Node, text));
        }
        if let Some(member) = from {
            return self.further_customer(member, node, out);
        }
        if self.failure.is_some() {
            return self.too_late(now, node, out);
        }
        let misfit = self.misfit(node, control);
        if !misfit.is_empty() {
            return self.refuse(now, node, misfit, out);
        }
        if self.is_joiner(node) {
            self.join(now, node, out);
        } else if self.ready {
            self.newcomer(now, node, out);
        } else {
            self.registrant(now, node, control, out);
        }
    }

    /// A customer of a member registers. Stock ignores it (van.cc:131). So does this, with a
    /// warning if it is a stock one; unless the worker would mix its keys with those of the
    /// others: where stores keep them apart, only a worker that knows of it can have two kvstores.
    fn further_customer(&mut self, member: NodeId, node: &Node, out: &mut Vec<Action>) {
        let is_new = !self.customers.get(&member).is_none_or(|all| all.contains(&node.customer_id));
        let knows = self.members.get(&member).is_none_or(Node::keeps_keys_apart);
        if !self.ready || !is_new || knows {
            return;
        }
        let is_server = |node: &Node| node.role == Role::Server;
        let mut servers = self.members.values().filter(|node| is_server(node));
        let who = format!(
            "{} made a second kvstore (customer {})",
            self.describe(member),
            node.customer_id
        );
        if !servers.any(Node::keeps_keys_apart) {
            // A program of its own may want that.
            let text = format!(
                "{who}: its keys are those of the first; an MXNet that is not over pslite waits \
                 there for ever"
            );
            return Self::say(out, NewEvent::warning(JobEventKind::Note, text).of(member));
        }
        let text = format!(
            "{who}; its ps-lite mixes the keys of two: use one kvstore in each process, or pslite \
             in the workers too"
        );
        self.fail_everywhere(EMPTY, JobFailure { kind: JobFailureKind::Config, text }, out);
    }

    fn registrant(&mut self, now: Duration, node: &Node, control: &Control, out: &mut Vec<Action>) {
        let same = |r: &Registrant| r.node.port == node.port && r.node.hostname == node.hostname;
        let known = self.arrivals.registrants.iter_mut().find(|(_, r)| same(r));
        if let Some((_, registrant)) = known {
            let restarted = registrant.node.incarnation != node.incarnation
                || registrant.node.role != node.role
                || (node.incarnation == 0 && registrant.customers.contains(&node.customer_id));
            if restarted {
                *registrant = Registrant { node: node.clone(), customers: vec![node.customer_id] };
            } else if !registrant.customers.contains(&node.customer_id) {
                registrant.customers.push(node.customer_id);
            }
            return self.form_if_complete(now, out);
        }
        if self.registered(node.role) >= self.wanted(node.role) {
            let text = format!(
                "{} is one too many: this job has {} {}s (DMLC_NUM_WORKER={}, DMLC_NUM_SERVER={})",
                node.describe(),
                self.wanted(node.role),
                node.role.name(),
                self.config.num_workers,
                self.config.num_servers
            );
            self.turn_away(now, node, Some(Level::Error), text.clone(), out);
            return self.note_refusal(&text, out);
        }
        if let Err(text) = self.arrivals.reach.take(node, control.origin) {
            return self.refuse(now, node, text, out);
        }
        let key = self.arrivals.next_pending;
        self.arrivals.next_pending -= 1;
        out.push(Action::ConnectPending { key, node: node.clone() });
        Self::log(out, format!("{} has registered", node.describe()));
        if node.is_ours() {
            // So it knows that a scheduler is there.
            let message = self.sign_of_life();
            Self::send(out, key, message);
        }
        let registrant = Registrant { node: node.clone(), customers: vec![node.customer_id] };
        self.arrivals.registrants.insert(key, registrant);
        self.form_if_complete(now, out);
    }

    fn wanted(&self, role: Role) -> usize {
        match role {
            Role::Worker => self.config.num_workers,
            Role::Server => self.config.num_servers,
            Role::Scheduler => 1,
        }
    }

    pub(super) fn registered(&self, role: Role) -> usize {
        let of_role = self.arrivals.registrants.values().filter(|r| r.node.role == role);
        of_role.map(|r| r.customers.len()).sum()
    }

    /// Scheduler: gives out ids once all are here, in the order of [`super::ranking`].
    pub(super) fn form_if_complete(&mut self, now: Duration, out: &mut Vec<Action>) {
        let complete = self.registered(Role::Worker) == self.config.num_workers
            && self.registered(Role::Server) == self.config.num_servers;
        if self.ready || !self.is_scheduler() || !complete || self.failure.is_some() {
            return;
        }
        let sorted = match ranking::sorted(&self.arrivals.registrants, &self.config.rank_order) {
            Ok(sorted) => sorted,
            Err(text) => {
                let kind = JobFailureKind::Config;
                let failure = JobFailure { kind, text };
                return self.fail_start(now, EMPTY, failure, out);
            }
        };
        self.arrivals.registrants.clear();
        let (mut workers, mut servers) = (0, 0);
        let mut list = Vec::new();
        for (key, registrant) in sorted {
            let mut first = None;
            for customer_id in &registrant.customers {
                let id = match registrant.node.role {
                    Role::Worker => {
                        workers += 1;
                        worker_id(workers - 1)
                    }
                    _ => {
                        servers += 1;
                        server_id(servers - 1)
                    }
                };
                let first = *first.get_or_insert(id);
                let node = Node { id: first, customer_id: *customer_id, ..registrant.node.clone() };
                if first == id {
                    out.push(Action::Rename { from: key, to: id });
                    self.move_channel(key, id);
                    self.members.insert(id, node.clone());
                } else {
                    self.aliases.insert(id, first);
                }
                list.push(node);
            }
            if let Some(id) = first {
                self.customers.insert(id, registrant.customers.iter().copied().collect());
            }
        }
        self.members.insert(SCHEDULER, self.me.clone());
        self.customers.insert(SCHEDULER, BTreeSet::from([0]));
        list.push(self.me.clone());
        self.ready = true;
        self.expect_signs_of_life(now);
        for id in self.others() {
            let mut control = Control::new(Command::AddNode);
            control.nodes.clone_from(&list);
            let message = self.control(control);
            Self::send(out, id, message);
        }
        self.arrivals.next_report = now.saturating_add(self.config.report_interval);
        out.push(Action::Ready);
        self.first_policy(out);
        self.early_joiners(now, out);
    }

    fn move_channel(&mut self, from: NodeId, to: NodeId) {
        if let Some(at) = self.signs.down.remove(&from) {
            self.signs.down.insert(to, at);
        }
    }

    /// Everybody but me, workers then servers, each process once (van.cc:96).
    #[must_use]
    pub fn others(&self) -> Vec<NodeId> {
        let mut ids = self.ids_of(WORKER_GROUP).unwrap_or_default();
        if self.elastic.on {
            ids.extend(self.live_servers());
        } else {
            ids.extend(self.ids_of(SERVER_GROUP).unwrap_or_default());
        }
        ids.into_iter()
            .filter(|id| {
                *id != self.me.id && self.members.contains_key(id) && !self.lost.contains_key(id)
            })
            .collect()
    }

    /// The scheduler's list, or its word about one replaced node (van.cc:157-171).
    fn list(&mut self, now: Duration, nodes: &[Node], out: &mut Vec<Action>) {
        if self.ready || self.elastic.listed {
            let me = self.me.id;
            for node in nodes.iter().filter(|node| node.is_recovery && node.id != me) {
                let known = self.members.get(&node.id).map(|known| known.incarnation);
                if self.elastic.on && node.role == Role::Server {
                    self.joined(node, out);
                } else if !self.elastic.workers || known != Some(node.incarnation) {
                    self.replaced(now, node, out);
                }
            }
            return;
        }
        let mine = |node: &&Node| node.hostname == self.me.hostname && node.port == self.me.port;
        let Some(me) = nodes.iter().find(mine).cloned() else {
            let text = "dropped a list of nodes that does not name this one";
            return Self::say(out, NewEvent::warning(JobEventKind::Note, text));
        };
        if let Some(text) = self.counts_otherwise(nodes).filter(|_| !me.is_recovery) {
            return self.fail(JobFailure { kind: JobFailureKind::Config, text }, out);
        }
        self.me = Node {
            abilities: self.me.abilities,
            incarnation: self.me.incarnation,
            native_port: self.me.native_port,
            ..me
        };
        let mut new = Vec::new();
        for node in nodes {
            if node.role == Role::Scheduler {
                // Its address is the one that worked; what it can comes from the list.
                let known = Node {
                    abilities: node.abilities,
                    incarnation: node.incarnation,
                    ..self.config.scheduler.clone()
                };
                self.members.insert(SCHEDULER, known);
            } else if self.members.insert(node.id, node.clone()).is_none() {
                new.push(node.clone());
            }
        }
        self.decide_elastic(out);
        // Servers of an elastic job give each other pieces.
        let servers_meet = self.elastic.on && self.me.role == Role::Server;
        let meets =
            |node: &Node| node.role != self.me.role || (servers_meet && node.id != self.me.id);
        for node in new.into_iter().filter(meets) {
            out.push(Action::Connect { node, identity: Some(self.me.id) });
        }
        let scheduler = self.config.scheduler.clone();
        out.push(Action::Connect { node: scheduler, identity: Some(self.me.id) });
        self.signs.down.clear();
        self.signs.next_heartbeat =
            self.config.heartbeat_interval.map(|interval| now.saturating_add(interval));
        self.expect_signs_of_life(now);
        if self.elastic.on {
            self.elastic.listed = true; // The first policy follows on the same connection.
        } else {
            self.ready = true;
            out.push(Action::Ready);
        }
    }

    /// What the list of a job that begins says of its counts, if this node was told others. A
    /// scheduler of ours has compared them; a stock one compares nothing.
    fn counts_otherwise(&self, nodes: &[Node]) -> Option<String> {
        let count = |role| nodes.iter().filter(|node| node.role == role).count();
        let (workers, servers) = (count(Role::Worker), count(Role::Server));
        let told = (self.config.num_workers, self.config.num_servers);
        ((workers, servers) != told).then(|| {
            format!(
                "the job of the scheduler at {} has {workers} workers and {servers} servers, and \
                 the {} at {} was told {} and {}; set DMLC_NUM_WORKER and DMLC_NUM_SERVER alike \
                 on all nodes",
                self.config.scheduler.address(),
                self.me.role.name(),
                self.me.address(),
                told.0,
                told.1
            )
        })
    }

    /// Who is here and who is missing, for people.
    pub(super) fn who_is_missing(&self) -> String {
        let mut parts = Vec::new();
        for role in [Role::Worker, Role::Server] {
            let registrants = self.arrivals.registrants.values().filter(|r| r.node.role == role);
            let here = text::few(registrants.map(|r| r.node.address()));
            parts.push(format!(
                "{} of {} {}s are here{}{}",
                self.registered(role),
                self.wanted(role),
                role.name(),
                if here.is_empty() { "" } else { ": " },
                here
            ));
        }
        let missing: Vec<String> = [Role::Worker, Role::Server]
            .into_iter()
            .filter(|role| self.registered(*role) < self.wanted(*role))
            .map(|role| format!("{} {}(s)", self.wanted(role) - self.registered(role), role.name()))
            .collect();
        format!(
            "the job is not complete: {}; missing: {}{}{}",
            parts.join("; "),
            missing.join(", "),
            self.arrivals.refusals.text(),
            if self.config.doubt.is_empty() {
                String::new()
            } else {
                format!("; {}", self.config.doubt)
            }
        )
    }

    pub(super) fn start_timed_out(&mut self, out: &mut Vec<Action>) {
        let text = format!("PSLITE_START_TIMEOUT has passed: {}", self.waiting_text());
        let failure = JobFailure { kind: JobFailureKind::StartTimeout, text };
        self.fail_everywhere(EMPTY, failure, out);
    }

    /// What this node waits for before the job is complete.
    pub(super) fn waiting_text(&self) -> String {
        if self.is_scheduler() {
            return self.who_is_missing();
        }
        let scheduler = self.config.scheduler.address();
        if !self.arrivals.scheduler_reached && !self.arrivals.scheduler_seen {
            return format!(
                "the scheduler at {scheduler} does not answer (DMLC_PS_ROOT_URI, \
                 DMLC_PS_ROOT_PORT); `pslite doctor` on this host, and on its own, says why"
            );
        }
        if !self.arrivals.scheduler_seen {
            return format!(
                "what listens at {scheduler} has not answered: a stock scheduler says nothing \
                 before all are there ({} workers and {} servers), and another program never will \
                 (DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT)",
                self.config.num_workers, self.config.num_servers
            );
        }
        if self.arrivals.progress.is_empty() {
            return format!(
                "registered with the scheduler at {scheduler}; it waits for others ({} workers \
                 and {} servers in all)",
                self.config.num_workers, self.config.num_servers
            );
        }
        self.arrivals.progress.clone()
    }
}
