//! An elastic job on virtual time: real membership machines, servers in miniature (`store`), and a
//! network that keeps the order of each channel; its seed decides which channel delivers next.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::store::{KEY, LENGTH, Out, Store, Transfer};
use crate::cluster::journal::{Record, State};
pub(super) use crate::cluster::tests::SECOND;
use crate::cluster::{Action, Cluster, ClusterConfig, Event, tests};
use crate::random::Random;
use crate::scheduler::{Status, StatusParts};
use crate::wire::elastic::Order;
use crate::wire::word::{ClaimWord, RoutedPolicy};
use crate::wire::{Message, NodeId, Role, SCHEDULER, ability};

/// A node of an elastic job on one host, whose scheduler stands alone and keeps a journal.
pub(super) fn config(role: Role, port: i32, workers: usize, servers: usize) -> ClusterConfig {
    let mut config = tests::config(role, "h", port, workers, servers);
    config.scheduler.hostname = "h".to_owned();
    config.standing_scheduler = true;
    let journal = if role == Role::Scheduler { ability::JOURNAL } else { 0 };
    for node in [&mut config.node, &mut config.scheduler] {
        node.abilities |= ability::ELASTIC | journal;
    }
    config
}

/// A control message, and who sends it, if he has an id.
pub(super) type Posted = (Option<NodeId>, Message);

pub(super) struct World {
    seed: u64,
    pub(super) now: Duration,
    pub(super) random: Random,
    pub(super) nodes: Vec<Cluster>,
    pub(super) stores: Vec<Store>,
    pub(super) dead: Vec<bool>,
    /// What each node was told to do.
    pub(super) actions: Vec<Vec<Action>>,
    /// Servers that have claims to send.
    dirty: Vec<bool>,
    /// One that joins and is not able to serve yet.
    pub(super) unable: Option<usize>,
    /// Processes that are about to end.
    ending: Vec<usize>,
    channels: Vec<BTreeMap<NodeId, (String, Option<NodeId>)>>,
    pub(super) control: BTreeMap<(usize, usize), VecDeque<Posted>>,
    pub(super) data: BTreeMap<(usize, usize), VecDeque<(NodeId, Transfer)>>,
    /// How many pushes of each element were answered, and sent.
    pub(super) answered: Vec<u64>,
    sent: Vec<u64>,
    pub(super) journal: State,
    next_port: i32,
    /// What the scheduler is told each time it is started.
    pub(super) scheduler: Option<ClusterConfig>,
    /// What operators are shown beside the membership.
    pub(super) shown: StatusParts,
    workers: usize,
    servers: usize,
}

impl World {
    pub(super) fn new(seed: u64, workers: usize, servers: usize) -> Self {
        Self::with(seed, workers, servers, |_| {})
    }

    /// A job whose nodes are told something else than usual.
    pub(super) fn with(
        seed: u64,
        workers: usize,
        servers: usize,
        tell: impl Fn(&mut ClusterConfig),
    ) -> Self {
        let mut world = Self {
            seed,
            now: Duration::ZERO,
            random: Random::new(seed),
            nodes: Vec::new(),
            stores: Vec::new(),
            dead: Vec::new(),
            actions: Vec::new(),
            dirty: Vec::new(),
            unable: None,
            ending: Vec::new(),
            channels: Vec::new(),
            control: BTreeMap::new(),
            data: BTreeMap::new(),
            answered: vec![0; LENGTH as usize],
            sent: vec![0; LENGTH as usize],
            journal: State::default(),
            next_port: 100,
            scheduler: None,
            shown: StatusParts::default(),
            workers,
            servers,
        };
        let told = |role, port| {
            let mut config = config(role, port, workers, servers);
            tell(&mut config);
            config
        };
        world.scheduler = Some(told(Role::Scheduler, 1));
        world.add(told(Role::Scheduler, 1));
        for role in [vec![Role::Server; servers], vec![Role::Worker; workers]].concat() {
            let port = world.next_port;
            world.next_port += 1;
            let index = world.add(told(role, port));
            world.feed(index, Event::Register { customer_id: 0 });
        }
        world.settle();
        for index in 1..=servers {
            world.dirty[index] = true;
        }
        world.settle();
        world
    }

    pub(super) fn add(&mut self, config: ClusterConfig) -> usize {
        let is_scheduler = config.role == Role::Scheduler;
        self.nodes.push(Cluster::new(config, self.now));
        self.stores.push(Store::default());
        self.dead.push(false);
        self.actions.push(Vec::new());
        self.dirty.push(false);
        self.channels.push(BTreeMap::new());
        let index = self.nodes.len() - 1;
        if !is_scheduler {
            self.channels[index].insert(SCHEDULER, ("h:1".to_owned(), None));
            self.feed(index, Event::ChannelUp { id: SCHEDULER });
        }
        index
    }

    /// A server joins; its index.
    pub(super) fn join(&mut self) -> usize {
        let port = self.next_port;
        self.next_port += 1;
        let mut config = config(Role::Server, port, self.workers, self.servers);
        config.node.abilities |= ability::JOINS;
        let index = self.add(config);
        self.feed(index, Event::Register { customer_id: 0 });
        index
    }

    pub(super) fn id(&self, index: usize) -> NodeId {
        self.nodes[index].me().id
    }

    pub(super) fn index(&self, id: NodeId) -> usize {
        self.nodes.iter().position(|node| node.me().id == id).unwrap()
    }

    /// Servers that live and know it.
    pub(super) fn live_servers(&self) -> Vec<usize> {
        let server = |i: &usize| self.nodes[*i].me().role == Role::Server;
        (0..self.nodes.len()).filter(server).filter(|i| !self.dead[*i]).collect()
    }

    pub(super) fn feed(&mut self, index: usize, event: Event) {
        let mut actions = Vec::new();
        self.nodes[index].handle(self.now, event, &mut actions);
        assert_eq!(self.nodes[index].validate(), Ok(()));
        for action in actions {
            self.apply(index, &action);
            self.actions[index].push(action);
        }
        while let Some(i) = self.ending.pop() {
            self.kill(i);
        }
    }

    fn apply(&mut self, i: usize, action: &Action) {
        match action {
            Action::Connect { node, identity } => {
                self.channels[i].insert(node.id, (node.address(), *identity));
            }
            Action::ConnectPending { key, node } => {
                self.channels[i].insert(*key, (node.address(), Some(SCHEDULER)));
            }
            Action::Rename { from, to } => {
                let channel = self.channels[i].remove(from).unwrap();
                self.channels[i].insert(*to, channel);
            }
            Action::Disconnect { id } | Action::NodeLost { id, .. } => {
                self.channels[i].remove(id);
            }
            Action::Send { to, message } => self.post(i, *to, message.clone()),
            Action::Record(record) => {
                // As a file would give it back.
                self.journal.apply(&Record::from_bytes(&record.to_bytes()).unwrap());
            }
            Action::Policy(RoutedPolicy { policy, routes })
                if self.nodes[i].me().role == Role::Server =>
            {
                self.stores[i].me = self.id(i);
                self.with_store(i, |store, out| store.policy(policy, routes, out));
            }
            Action::Collect { epoch } => {
                let node = &self.nodes[i];
                let gone: Vec<NodeId> =
                    node.members().keys().copied().filter(|id| node.is_gone(*id)).collect();
                let claims = self.stores[i].collected(gone);
                self.dirty[i] = false;
                self.feed(
                    i,
                    Event::Claims(ClaimWord { epoch: *epoch, claims, ..ClaimWord::default() }),
                );
            }
            Action::Orders { moves } => self.with_store(i, |store, out| store.ordered(moves, out)),
            Action::Leave => {
                let over = self.journal.releases_of_all > 0;
                let may_go = self.stores[i].may_go();
                assert!(over || may_go, "seed {}: {} was not empty", self.seed, self.id(i));
                self.ending.push(i);
            }
            Action::StatusAsked { guest, .. } => {
                let text = Status::of(&self.nodes[i], self.shown.clone()).json();
                self.feed(i, Event::StatusTold { guest: *guest, text });
            }
            Action::Failed(_) if i != 0 => self.ending.push(i),
            _ => {}
        }
    }

    fn post(&mut self, i: usize, to: NodeId, message: Message) {
        if to == self.nodes[i].me().id {
            return self.control.entry((i, i)).or_default().push_back((Some(to), message));
        }
        let Some((address, name)) = self.channels[i].get(&to).cloned() else { return };
        let Some(target) = self.nodes.iter().rposition(|n| n.me().address() == address) else {
            return;
        };
        self.control.entry((i, target)).or_default().push_back((name, message));
    }

    pub(super) fn with_store(&mut self, i: usize, act: impl FnOnce(&mut Store, &mut Out)) {
        let mut out = Out::default();
        act(&mut self.stores[i], &mut out);
        let me = self.id(i);
        for (to, transfer) in out.transfers {
            let target = self.index(to);
            self.data.entry((i, target)).or_default().push_back((me, transfer));
        }
        for (from, to) in out.answered {
            (from..to).for_each(|element| self.answered[element as usize] += 1);
        }
        self.dirty[i] |= out.claims;
    }

    // ---- what may happen ------------------------------------------------------------------------

    pub(super) fn make_array(&mut self) {
        let home = self.index(self.nodes[0].policy().homes[0]);
        self.with_store(home, Store::make);
        self.settle();
    }

    pub(super) fn push(&mut self, i: usize) {
        let which = self.random.below(8) as usize;
        let before: Vec<_> = self.stores[i].pieces().cloned().collect();
        self.with_store(i, |store, out| store.push(which, out));
        let after: Vec<_> = self.stores[i].pieces().cloned().collect();
        for piece in after.iter().filter(|piece| !before.contains(piece)) {
            (piece.from..piece.to).for_each(|element| self.sent[element as usize] += 1);
        }
    }

    pub(super) fn order(&mut self) {
        let pieces: Vec<_> =
            self.nodes[0].pieces().values().flat_map(|key| key.pieces.clone()).collect();
        let able = self.nodes[0].able_servers();
        if pieces.is_empty() || able.is_empty() {
            return;
        }
        let piece = pieces[self.random.below(pieces.len() as u64) as usize];
        let owner = able[self.random.below(able.len() as u64) as usize];
        let from = piece.from + self.random.below(piece.to - piece.from);
        let to = from + 1 + self.random.below(piece.to - from);
        let order = Order { key: KEY, from, to, owner };
        self.feed(0, Event::Orders(vec![(piece.owner, order)]));
    }

    /// Its process ends: connections break, what it has sent may still arrive.
    pub(super) fn kill(&mut self, victim: usize) {
        self.dead[victim] = true;
        let address = self.nodes[victim].me().address();
        for i in (0..self.nodes.len()).filter(|i| !self.dead[*i]).collect::<Vec<_>>() {
            let cut = self.channels[i].iter().filter(|(_, channel)| channel.0 == address);
            for id in cut.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.feed(i, Event::ChannelDown { id });
            }
        }
    }

    /// The scheduler's process ends. What it had sent is lost.
    pub(super) fn kill_scheduler(&mut self) {
        self.kill(0);
        self.control.retain(|(from, to), _| *from != 0 && *to != 0);
    }

    /// It is started again, with the journal and on the address of the former one.
    pub(super) fn restart_scheduler(&mut self) {
        let config = self.scheduler.clone().unwrap();
        self.nodes[0] = Cluster::resume(config, &self.journal, self.now).unwrap();
        self.channels[0].clear();
        self.dead[0] = false;
        self.control.retain(|(_, to), _| *to != 0);
        self.feed(0, Event::Start);
        let ids: Vec<NodeId> = self.channels[0].keys().copied().collect();
        for id in ids {
            // One that joined may not have heard its id.
            let has_it = |i: &usize| self.nodes[*i].me().id == id && !self.dead[*i];
            if let Some(i) = (0..self.nodes.len()).find(has_it) {
                self.feed(0, Event::ChannelUp { id });
                self.feed(i, Event::ChannelUp { id: SCHEDULER });
            }
        }
    }

    /// All that is under way to one node is lost with its connections.
    pub(super) fn lose_to(&mut self, target: usize) {
        self.control.retain(|(_, to), _| *to != target);
    }

    /// All that is under way to one node arrives.
    pub(super) fn deliver_to(&mut self, target: usize) {
        let channels: Vec<_> =
            self.control.keys().filter(|(_, to)| *to == target).copied().collect();
        for channel in channels {
            for (from, message) in std::mem::take(self.control.get_mut(&channel).unwrap()) {
                self.feed(target, Event::Received { from, message });
            }
        }
    }

    pub(super) fn deliver_control(&mut self) -> bool {
        let open: Vec<_> =
            self.control.iter().filter(|(_, q)| !q.is_empty()).map(|(k, _)| *k).collect();
        if open.is_empty() {
            return false;
        }
        let channel = open[self.random.below(open.len() as u64) as usize];
        let (from, message) = self.control.get_mut(&channel).unwrap().pop_front().unwrap();
        if !self.dead[channel.1] {
            self.feed(channel.1, Event::Received { from, message });
        }
        true
    }

    pub(super) fn deliver_data(&mut self) -> bool {
        let open: Vec<_> =
            self.data.iter().filter(|(_, q)| !q.is_empty()).map(|(k, _)| *k).collect();
        if open.is_empty() {
            return false;
        }
        let channel = open[self.random.below(open.len() as u64) as usize];
        let (from, transfer) = self.data.get_mut(&channel).unwrap().pop_front().unwrap();
        if !self.dead[channel.1] && !self.nodes[channel.1].is_gone(from) {
            self.with_store(channel.1, |store, out| store.transfer(from, transfer, out));
        }
        true
    }

    pub(super) fn send_claims(&mut self, i: usize) -> bool {
        let due = self.dirty[i] && !self.dead[i] && self.unable != Some(i);
        if due {
            self.dirty[i] = false;
            let epoch = self.nodes[i].policy().epoch;
            let claims = self.stores[i].claims();
            self.feed(i, Event::Claims(ClaimWord { epoch, claims, ..ClaimWord::default() }));
        }
        due
    }

    pub(super) fn tick(&mut self) {
        self.now += SECOND / 2;
        for i in 0..self.nodes.len() {
            if !self.dead[i] {
                self.feed(i, Event::Tick);
            }
        }
    }

    /// Everything that is under way arrives.
    pub(super) fn settle(&mut self) {
        for _ in 0..100_000 {
            let mut moved = self.deliver_control() | self.deliver_data();
            for i in self.live_servers() {
                moved |= self.send_claims(i);
            }
            if !moved {
                return;
            }
        }
        panic!("the job does not come to rest");
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.tick();
            self.settle();
        }
    }

    // ---- what must be so ------------------------------------------------------------------------

    pub(super) fn failure(&self) -> Option<String> {
        self.nodes[0].failure().map(|failure| failure.text.clone())
    }

    /// One owner for each element, with every push that was answered, and none that was not sent;
    /// else what is wrong.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let owners = self.owners()?;
        if owners.iter().any(Option::is_none) {
            return Err(format!("no owner: {owners:?}"));
        }
        let known = self.nodes[0].pieces();
        for piece in known.values().flat_map(|key| &key.pieces) {
            for element in piece.from..piece.to {
                if owners[element as usize] != Some(piece.owner) {
                    return Err(format!("the scheduler errs about {element}: {piece:?}"));
                }
            }
        }
        Ok(())
    }

    /// [`Self::verdict`], where it must be good.
    pub(super) fn check(&self) {
        let verdict = self.verdict();
        assert_eq!(verdict, Ok(()));
    }

    fn owners(&self) -> Result<Vec<Option<NodeId>>, String> {
        let policy = self.nodes[0].policy();
        let mut owners: Vec<Option<NodeId>> = vec![None; LENGTH as usize];
        for i in self.live_servers() {
            let id = self.id(i);
            if !policy.servers.contains(&id) {
                return Err(format!("{id} lives and is in no policy"));
            }
            if self.nodes[i].policy() != policy {
                return Err(format!("{id} knows another policy"));
            }
            for piece in self.stores[i].pieces() {
                for element in piece.from..piece.to {
                    let value = piece.values[(element - piece.from) as usize];
                    let (answered, sent) =
                        (self.answered[element as usize], self.sent[element as usize]);
                    if value < answered || sent < value {
                        let pushes = format!("{answered} were answered, {sent} sent");
                        return Err(format!("{element} at {id} has {value} pushes: {pushes}"));
                    }
                    if let Some(other) = owners[element as usize].replace(id) {
                        return Err(format!("{element} has two owners: {other}, {id}"));
                    }
                }
            }
        }
        Ok(owners)
    }
}
