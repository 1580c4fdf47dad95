//! Three servers and two workers with applications, while keys move all the time and policies
//! change, and one server is emptied and released: messages between two nodes keep their order,
//! those of different pairs come in any order. Each push must count once, each pull bring what it
//! must, and everything end.

use std::collections::VecDeque;

use super::*;
use crate::cluster::claimed::Claimed;
use crate::cluster::claims::{ClaimEvidence, Pieces, resolve};
use crate::cluster::tenures::Tenures;
use crate::kv::flights::{Answered as Part, Flights, PartAnswer, Slice};
use crate::random::Random;
use crate::values::{Form, KvPairs};
use crate::wire::elastic::Claim;
use crate::wire::word::{Policy, RoutedPolicy};

const SERVERS: [NodeId; 3] = [8, 10, 12];
const WORKERS: [NodeId; 2] = [9, 11];
const KEYS: u64 = 3;
const ROUNDS: i64 = 60;
/// More messages than any of these jobs needs.
const STEPS_MAX: usize = 400_000;

/// What the application of the servers does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Application {
    /// Adds each push to the value, and answers at once.
    Sum,
    /// The same, and answers pushes when both workers have pushed.
    Rounds,
    /// As BytePS: the first push of both makes the key; then pushes are answered at once, and pulls
    /// when both have pushed, with the sum of that round. Nothing is kept.
    Stateless,
}

/// What an application keeps of one key.
#[derive(Clone, Debug, Default)]
struct State {
    value: i64,
    /// Pushes that wait for an answer; below 0: values go with it.
    pushes: Vec<i32>,
    made_by: Vec<NodeId>,
    /// Who has pushed to the open round.
    pushed: Vec<NodeId>,
    /// Rounds that are over, the sum of the last one, and how many each worker has pulled. One that
    /// has may push for the next one already.
    over: u64,
    sum: i64,
    fetched: BTreeMap<NodeId, u64>,
    /// Pulls that wait for the end of the open round.
    pulls: Vec<(i32, NodeId)>,
}

enum Message {
    Request(Meta, Vec<Bytes>),
    Answer(Meta, KvPairs, Option<Fetch>),
    /// The answer has arrived.
    Arrived(Fetch),
    Transfer(Outgoing),
    /// With the epoch of the policy that is made.
    Collect(u64),
    Claims(Vec<Claim>),
    Policy(RoutedPolicy),
    Orders(Vec<Order>),
}

struct Server {
    keys: Opaque,
    app: BTreeMap<Key, State>,
}

/// One worker: for each key in turn a push and a pull, again and again.
struct Worker {
    flights: Flights,
    timestamp: i32,
    /// By timestamp: key, and for a pull the round whose sum it must bring.
    open: BTreeMap<i32, (Key, bool)>,
    /// By key: pushes begun.
    rounds: BTreeMap<Key, i64>,
}

struct Play {
    kind: Application,
    random: Random,
    now: Duration,
    servers: BTreeMap<NodeId, Server>,
    workers: BTreeMap<NodeId, Worker>,
    network: BTreeMap<(NodeId, NodeId), VecDeque<Message>>,
    epoch: u64,
    claims: BTreeMap<NodeId, Vec<Claim>>,
    collecting: bool,
    /// Those that serve. One may be emptied, since that policy, and is then released.
    serving: Vec<NodeId>,
    emptied: Option<(NodeId, u64)>,
    moves: usize,
    failures: Vec<String>,
}

const SCHEDULER: NodeId = 1;

fn number(bytes: &[u8]) -> i64 {
    bytes.try_into().map(i64::from_ne_bytes).unwrap()
}

fn value(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_ne_bytes())
}

fn key(number: u64) -> Key {
    crate::values::server_key_ranges(SERVERS.len())[number as usize % SERVERS.len()].begin + number
}

/// What a worker pushes in a round: each worker's digit tells it apart.
fn pushed(worker: NodeId, round: i64) -> i64 {
    if worker == 9 { round } else { round * 1_000_000 }
}

impl Play {
    fn new(kind: Application, seed: u64) -> Self {
        let stateless = kind == Application::Stateless;
        let server = |id: &NodeId| {
            // One half of these applications can be told to forget.
            let forgets = !stateless || seed.is_multiple_of(2);
            let config = OpaqueConfig { id: *id, app_id: 0, servers: 3, stateless, forgets };
            (*id, Server { keys: Opaque::new(config), app: BTreeMap::new() })
        };
        let worker = |id: &NodeId| {
            let flights = Flights::new(SERVERS.to_vec());
            let (open, rounds) = (BTreeMap::new(), BTreeMap::new());
            (*id, Worker { flights, timestamp: 0, open, rounds })
        };
        let mut play = Self {
            kind,
            random: Random::new(seed),
            now: NOW,
            servers: SERVERS.iter().map(server).collect(),
            workers: WORKERS.iter().map(worker).collect(),
            network: BTreeMap::new(),
            epoch: 1,
            claims: BTreeMap::new(),
            collecting: false,
            serving: SERVERS.to_vec(),
            emptied: None,
            moves: 0,
            failures: Vec::new(),
        };
        play.tell_policy(Vec::new());
        // A node is ready when it has the first one.
        while play.deliver() {}
        play
    }

    fn post(&mut self, from: NodeId, to: NodeId, message: Message) {
        self.network.entry((from, to)).or_default().push_back(message);
    }

    fn tell_policy(&mut self, routes: Vec<KeyRoute>) {
        let turn = self.epoch as usize;
        let released = SERVERS.into_iter().filter(|id| !self.serving.contains(id)).collect();
        let stays = |id: &NodeId| self.emptied.is_none_or(|(emptied, _)| emptied != *id);
        let able: Vec<NodeId> = self.serving.iter().copied().filter(stays).collect();
        let homes = (0..SERVERS.len()).map(|rank| able[(rank + turn) % able.len()]).collect();
        let (epoch, servers) = (self.epoch, self.serving.clone());
        let word = RoutedPolicy {
            policy: Policy { epoch, servers, homes, released, ..Policy::default() },
            routes,
        };
        for to in SERVERS.iter().chain(&WORKERS) {
            self.post(SCHEDULER, *to, Message::Policy(word.clone()));
        }
    }

    /// The server that is emptied may go once it has nothing and nothing can be on its way there:
    /// orders that name it were forgotten with a policy since.
    fn let_go(&mut self, claims: &BTreeMap<NodeId, Vec<Claim>>) {
        let Some((id, epoch)) = self.emptied else { return };
        let comes = |claim: &Claim| claim.peer == id && claim.holding == Holding::Leaving as i32;
        let is_empty = claims.get(&id).is_some_and(Vec::is_empty);
        if is_empty && self.epoch > epoch + 1 && !claims.values().flatten().any(comes) {
            self.serving.retain(|serving| *serving != id);
            self.servers.remove(&id);
        }
    }

    // ---- workers --------------------------------------------------------------------------------

    fn key(&mut self) -> Key {
        key(self.random.below(KEYS))
    }

    /// Begins the next request about a key of which nothing is open.
    fn ask(&mut self, id: NodeId) {
        let key = self.key();
        let now = self.now;
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let round = *worker.rounds.entry(key).or_default();
        if round > ROUNDS || worker.open.values().any(|(open, _)| *open == key) {
            return;
        }
        let both = self.random.below(4) == 0 && self.kind != Application::Stateless;
        worker.rounds.insert(key, round + 1);
        self.begin(id, key, (true, both), now);
    }

    fn begin(&mut self, id: NodeId, key: Key, (push, pull): (bool, bool), now: Duration) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.timestamp += 1;
        let timestamp = worker.timestamp;
        worker.open.insert(timestamp, (key, pull));
        let meta = Meta { timestamp, push, pull, request: true, ..Meta::default() };
        let rank = SERVERS.len() as u32;
        let rank = (0..rank).find(|rank| {
            crate::values::server_key_ranges(SERVERS.len())[*rank as usize].contains(key)
        });
        let mut kv = KvPairs { keys: key_bytes(key), ..KvPairs::default() };
        if push {
            kv.vals = value(pushed(id, worker.rounds[&key]));
        }
        let form = Form::Dense { size: 4 };
        let slice = Slice { meta, rank: rank.unwrap(), key, form, kv };
        let mut out = Vec::new();
        worker.flights.begin(now, slice, &mut out).unwrap();
        self.send_parts(id, out);
    }

    fn send_parts(&mut self, id: NodeId, out: Vec<crate::kv::flights::Outgoing>) {
        for message in out {
            let meta = Meta { sender: id, ..message.meta };
            let frames = if meta.push {
                vec![message.kv.keys, message.kv.vals]
            } else {
                vec![message.kv.keys]
            };
            self.post(id, meta.recver, Message::Request(meta, frames));
        }
    }

    fn at_worker(&mut self, from: NodeId, id: NodeId, message: Message) {
        let now = self.now;
        if let Message::Answer(.., Some(fetch)) = &message {
            self.post(id, from, Message::Arrived(*fetch));
        }
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let mut out = Vec::new();
        match message {
            Message::Policy(word) => worker.flights.policy(now, &word, &mut out).unwrap(),
            Message::Answer(meta, kv, _) => {
                assert!(meta.error.is_empty(), "{meta:?}");
                let (timestamp, reply) = (meta.timestamp, meta.answered());
                let reply = reply.as_ref();
                let answer = PartAnswer { timestamp, from, reply, pairs: kv, refused: false };
                let part = worker.flights.answered(now, answer, &mut out);
                if let Part::Whole { brought, .. } = part.unwrap() {
                    self.ended(id, meta.timestamp, &brought.pairs.vals);
                }
            }
            _ => unreachable!("no message for a worker"),
        }
        self.send_parts(id, out);
    }

    /// A request is answered: a push is followed by a pull, except the first one where that only
    /// makes the key.
    fn ended(&mut self, id: NodeId, timestamp: i32, vals: &[u8]) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let (key, pull) = worker.open.remove(&timestamp).unwrap();
        let round = worker.rounds[&key];
        if pull {
            let got = number(vals);
            let all = |worker: NodeId, to: i64| (1..=to).map(|r| pushed(worker, r)).sum::<i64>();
            // Of the others' pushes only those of finished rounds are sure to be there.
            let wrong = match self.kind {
                Application::Stateless => got != pushed(9, round) + pushed(11, round),
                Application::Rounds => got < all(9, round) + all(11, round),
                Application::Sum if id == 9 => got % 1_000_000 != all(9, round) % 1_000_000,
                Application::Sum => got / 1_000_000 != all(11, round) / 1_000_000,
            };
            if wrong {
                self.failures.push(format!("{id} pulled {got} of key {key} in round {round}"));
            }
        } else if self.kind != Application::Stateless || round > 1 {
            self.begin(id, key, (false, true), self.now);
        }
    }

    // ---- servers --------------------------------------------------------------------------------

    fn step(&mut self, id: NodeId, ask: impl FnOnce(&mut Opaque, Duration, &mut Vec<Step>)) {
        let mut steps = Vec::new();
        let now = self.now;
        let Some(server) = self.servers.get_mut(&id) else { return };
        ask(&mut server.keys, now, &mut steps);
        let mut steps = VecDeque::from(steps);
        while let Some(step) = steps.pop_front() {
            let mut more = Vec::new();
            let Some(server) = self.servers.get_mut(&id) else { return };
            match step {
                Step::Answer(Answer { request, kv }) => {
                    self.post(id, request.sender, Message::Answer(request, kv, None));
                }
                Step::Transfer(outgoing) => {
                    self.moves += usize::from(matches!(outgoing.transfer, Transfer::Moved(_)));
                    self.post(id, outgoing.to, Message::Transfer(outgoing));
                }
                Step::Give(meta, frames) => self.apply(id, &meta, &frames),
                Step::Export(key) => {
                    let state = &server.app[&key];
                    assert!(state.pushes.is_empty() && state.pulls.is_empty(), "{state:?}");
                    let state = Ok(value(state.value));
                    server.keys.exported(now, key, state, &mut more);
                }
                // Now and then an application cannot take a key.
                Step::Import(key, _) if self.random.below(8) == 0 => {
                    server.keys.imported(now, key, Err("not now".to_owned()), &mut more);
                }
                Step::Import(key, state) => {
                    assert!(!server.app.contains_key(&key), "it was not forgotten");
                    let state = State { value: number(&state), ..State::default() };
                    server.app.insert(key, state);
                    server.keys.imported(now, key, Ok(()), &mut more);
                }
                Step::Forget(key) => drop(server.app.remove(&key)),
                Step::Warn(text) => assert!(text.contains("not now"), "{text}"),
            }
            steps.extend(more);
        }
        let promised = self.servers.get(&id).map(|server| server.keys.validate());
        assert_eq!(promised.unwrap_or(Ok(())), Ok(()));
    }

    /// The application gets a request.
    fn apply(&mut self, id: NodeId, meta: &Meta, frames: &[Bytes]) {
        let key = crate::values::key_at(&frames[0], 0).unwrap();
        let Some(server) = self.servers.get_mut(&id) else { return };
        let state = server.app.entry(key).or_default();
        let add = if meta.push { number(&frames[1]) } else { 0 };
        let mut answers: Vec<(i32, Option<i64>)> = Vec::new();
        let own = |with: bool, value: i64| with.then_some(value);
        match self.kind {
            Application::Sum => {
                state.value += add;
                answers.push((meta.timestamp, own(meta.pull, state.value)));
            }
            Application::Rounds if meta.push => {
                state.value += add;
                state.pushes.push(if meta.pull { -meta.timestamp } else { meta.timestamp });
                if state.pushes.len() == WORKERS.len() {
                    let all = std::mem::take(&mut state.pushes);
                    answers.extend(all.iter().map(|n| (n.abs(), own(*n < 0, state.value))));
                }
            }
            Application::Rounds => answers.push((meta.timestamp, Some(state.value))),
            Application::Stateless if meta.push && state.made_by.len() < WORKERS.len() => {
                assert!(!state.made_by.contains(&meta.sender), "made twice");
                state.made_by.push(meta.sender);
                state.pushes.push(meta.timestamp);
                if state.made_by.len() == WORKERS.len() {
                    let all = std::mem::take(&mut state.pushes);
                    answers.extend(all.into_iter().map(|number| (number, None)));
                }
            }
            Application::Stateless => {
                if meta.push {
                    assert!(!state.pushed.contains(&meta.sender), "a second push of a round");
                    state.pushed.push(meta.sender);
                    state.value += add;
                    answers.push((meta.timestamp, None));
                } else {
                    state.pulls.push((meta.timestamp, meta.sender));
                }
                if state.pushed.len() == WORKERS.len() {
                    state.pushed.clear();
                    state.over += 1;
                    state.sum = std::mem::take(&mut state.value);
                }
                for (number, sender) in std::mem::take(&mut state.pulls) {
                    let fetched = state.fetched.entry(sender).or_default();
                    if *fetched < state.over {
                        *fetched += 1;
                        answers.push((number, Some(state.sum)));
                    } else {
                        state.pulls.push((number, sender));
                    }
                }
            }
        }
        for (number, vals) in answers {
            let vals = vals.map_or_else(Bytes::new, value);
            let Some(server) = self.servers.get_mut(&id) else { return };
            let Some(answered) = server.keys.answered(number, vals.len()) else {
                panic!("unknown")
            };
            if let Some(request) = answered.request {
                let keys = if vals.is_empty() { Bytes::new() } else { key_bytes(key) };
                let kv = KvPairs { keys, vals, ..KvPairs::default() };
                self.post(id, request.sender, Message::Answer(request, kv, answered.fetch));
            }
            if answered.due {
                self.due(id);
            }
        }
    }

    /// As the node does: not at once, but soon.
    fn due(&mut self, id: NodeId) {
        self.post(id, id, Message::Orders(Vec::new()));
    }

    fn at_server(&mut self, from: NodeId, id: NodeId, message: Message) {
        match message {
            Message::Request(meta, frames) => {
                self.step(id, |keys, now, steps| keys.serve(now, meta, &frames, steps));
            }
            Message::Arrived(fetch) => {
                let server = self.servers.get_mut(&id);
                if server.is_some_and(|server| server.keys.fetched(fetch)) {
                    self.due(id);
                }
            }
            Message::Transfer(Outgoing { transfer, frames, .. }) => {
                self.step(id, |keys, now, steps| {
                    keys.transfer(now, from, &transfer, &frames, steps).unwrap();
                });
            }
            Message::Policy(word) => {
                self.step(id, |keys, now, steps| keys.policy(now, &word, steps));
            }
            Message::Orders(orders) if from == id => {
                assert!(orders.is_empty());
                self.step(id, |keys, now, steps| keys.advance(now, steps));
            }
            Message::Orders(orders) => {
                self.step(id, |keys, now, steps| keys.orders(now, &orders, steps));
            }
            Message::Collect(epoch) => {
                let Some(server) = self.servers.get_mut(&id) else { return };
                let claims = server.keys.collect(epoch, &[]);
                self.post(id, SCHEDULER, Message::Claims(claims));
            }
            Message::Answer(..) | Message::Claims(_) => unreachable!("no message for a server"),
        }
    }

    // ---- the scheduler --------------------------------------------------------------------------

    fn orders(&mut self) {
        let (from, to) =
            (SERVERS[self.random.below(3) as usize], SERVERS[self.random.below(3) as usize]);
        if self.emptied.is_some_and(|(id, _)| id == to) {
            return;
        }
        let key = self.key();
        let order = Order { key, from: 0, to: OPAQUE_END, owner: to };
        self.post(SCHEDULER, from, Message::Orders(vec![order]));
    }

    /// From now on keys leave one server, and none come.
    fn empty_one(&mut self) {
        if self.emptied.is_some() {
            return;
        }
        self.emptied = Some((SERVERS[2], self.epoch));
        for number in 0..KEYS {
            let owner = SERVERS[self.random.below(2) as usize];
            let order = Order { key: key(number), from: 0, to: OPAQUE_END, owner };
            self.post(SCHEDULER, SERVERS[2], Message::Orders(vec![order]));
        }
    }

    fn collect(&mut self) {
        if self.collecting {
            return;
        }
        self.epoch += 1;
        self.collecting = true;
        for to in self.serving.clone() {
            self.post(SCHEDULER, to, Message::Collect(self.epoch));
        }
    }

    fn claimed(&mut self, from: NodeId, claims: Vec<Claim>) {
        self.claims.insert(from, claims);
        if self.claims.len() < self.serving.len() {
            return;
        }
        let claims = std::mem::take(&mut self.claims);
        let former = Pieces::new();
        let claimed = claims.iter().map(|(id, claims)| (*id, Claimed::new(claims))).collect();
        let evidence = ClaimEvidence {
            claims: &claimed,
            former: &former,
            orders: &[],
            tenures: &Tenures::new(),
            replicas: 0,
            epoch: self.epoch,
        };
        let resolution = resolve(evidence);
        self.let_go(&claims);
        assert!(resolution.lost.is_empty());
        let pieces = resolution.pieces.values().flat_map(|key| &key.pieces);
        let routes = pieces.map(crate::cluster::claims::Piece::route).collect();
        self.collecting = false;
        self.tell_policy(routes);
    }

    // ---- the whole ------------------------------------------------------------------------------

    fn deliver(&mut self) -> bool {
        let full: Vec<_> = self.network.iter().filter(|(_, queue)| !queue.is_empty()).collect();
        let Some(((from, to), _)) = full.get(self.random.below(full.len() as u64) as usize) else {
            return false;
        };
        let (from, to) = (*from, *to);
        // What the one that may be emptied says comes late: also when it is gone.
        if from == SERVERS[2] && WORKERS.contains(&to) && self.random.below(8) > 0 {
            return false;
        }
        let Some(message) = self.network.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return false;
        };
        match message {
            Message::Claims(claims) => self.claimed(from, claims),
            // Who is released has ended; what it had sent arrives.
            message if SERVERS.contains(&to) => {
                if self.servers.contains_key(&to) {
                    self.at_server(from, to, message);
                }
            }
            message => self.at_worker(from, to, message),
        }
        true
    }

    fn is_over(&self) -> bool {
        self.workers.values().all(|worker| {
            worker.open.is_empty()
                && worker.rounds.len() == KEYS as usize
                && worker.rounds.values().all(|round| *round > ROUNDS)
        })
    }

    /// Plays until all rounds are over; how many keys have moved.
    fn run(mut self) -> usize {
        for step in 0..STEPS_MAX {
            if self.is_over() {
                assert_eq!(self.failures, [""; 0], "{:?}", self.kind);
                return self.moves;
            }
            let delivered = self.deliver();
            let slow = if delivered { 1 } else { 5 };
            self.now += Duration::from_micros(100 * slow);
            match self.random.below(40) {
                0..=2 => self.orders(),
                3 if self.emptied.is_some() || self.random.below(10) == 0 => self.collect(),
                4 if self.random.below(30) == 0 => self.empty_one(),
                5..=21 => self.ask(WORKERS[step % 2]),
                _ => {}
            }
            if step % 200 == 0 {
                for id in self.serving.clone() {
                    self.step(id, |keys, now, steps| keys.advance(now, steps));
                }
                for id in WORKERS {
                    let mut out = Vec::new();
                    let Some(worker) = self.workers.get_mut(&id) else { continue };
                    worker.flights.retry(self.now, &mut out).unwrap();
                    self.send_parts(id, out);
                }
            }
        }
        let open: Vec<_> = self.workers.values().map(|worker| &worker.open).collect();
        panic!("{:?} did not end: {open:?}\n{:#?}", self.kind, self.servers[&8].keys);
    }
}

fn play(kind: Application) {
    const SEEDS: usize = 60;
    let moves: usize = (0..SEEDS).map(|seed| Play::new(kind, seed as u64).run()).sum();
    assert!(moves > 10 * SEEDS, "{kind:?}: only {moves} moves");
}

#[test]
fn sums_of_pushes_that_are_answered_at_once() {
    play(Application::Sum);
}

#[test]
fn rounds_that_are_answered_when_all_have_pushed() {
    play(Application::Rounds);
}

#[test]
fn rounds_of_which_nothing_is_kept() {
    play(Application::Stateless);
}
