//! The books of what workers said: steps, facts, and who differs in what. Pure; knows neither
//! rounds nor messages.

use std::collections::{BTreeMap, BTreeSet};

use crate::keys::KeyName;
use crate::wire::agreement::{Agree, Fact};
use crate::wire::{NodeId, id_to_rank, is_worker, worker_id};

/// Facts of one message.
const FACTS_SAID_MAX: usize = 1 << 20;
/// Bytes of a subject, and of a value.
pub(in crate::store) const TEXT_MAX: usize = 4096;
/// Customers whose facts are kept.
const CUSTOMERS_MAX: usize = 1024;
/// Facts of one customer.
const FACTS_MAX: usize = 1 << 22;
/// Steps that are open at the same time. Nobody is more than one ahead of the others.
const STEPS_MAX: usize = 4;
/// Workers, or subjects, that one text names.
const NAMED_MAX: usize = 4;

/// How what is said of an array begins.
const ARRAY: &str = "array ";

/// Who said something first, where that was not told.
const SOMEBODY: NodeId = -1;

/// What users are to do where workers differ.
const ALIKE: &str = "all workers must make the same arrays before they use any, with equal names, \
                     shapes and dtypes, and set equal optimizers";

/// True if nothing in it is longer than it may be.
pub(in crate::store) fn is_readable(said: &Agree) -> bool {
    let short = |Fact { subject, value }: &Fact| subject.len().max(value.len()) <= TEXT_MAX;
    said.facts.len() <= FACTS_SAID_MAX && said.facts.iter().all(short)
}

/// What workers have said, by the number of their customer.
#[derive(Debug, Default)]
pub(in crate::store) struct Agreements {
    of: BTreeMap<i32, Agreement>,
    /// What became facts, in order: for servers that joined.
    facts: Vec<Agree>,
    /// There are more of them than when this was asked last.
    news: bool,
}

/// What the workers' customers of one number have said.
#[derive(Debug, Default)]
struct Agreement {
    facts: Facts,
    /// Those that servers that joined are to be told of.
    news: Vec<Fact>,
    /// Steps that all have done.
    passed: u64,
    /// Later ones.
    open: BTreeMap<u64, Step>,
    /// Workers that took the place of one that died.
    back: BTreeSet<NodeId>,
    /// Workers that closed their store.
    closed: BTreeSet<NodeId>,
}

/// By subject, what was said of it.
type Facts = BTreeMap<String, Said>;

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    value: String,
    /// The first one who said it.
    by: NodeId,
}

/// A step that somebody has come to.
#[derive(Debug)]
struct Step {
    /// What the first one said in it, and who that was.
    facts: Facts,
    first: NodeId,
    came: BTreeSet<NodeId>,
    /// It makes arrays, whose values the worker of rank 0 sends before it comes.
    makes: bool,
    /// The one of rank 0 came back, and has sent them.
    values_are_here: bool,
    /// Who differs in what.
    differs: Option<String>,
}

/// Who asks, and for whom steps wait.
#[derive(Clone, Debug)]
pub(in crate::store) struct Asker {
    pub(in crate::store) id: NodeId,
    pub(in crate::store) awaited: BTreeSet<NodeId>,
    /// The job goes on without workers that died or closed their store.
    pub(in crate::store) goes_on: bool,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Verdict {
    Agreed,
    Waits(String),
    Differs(String),
    Again,
}

impl Agreements {
    /// That process is gone: what it said in open steps counts no more, and the others say theirs
    /// again.
    pub(in crate::store) fn forget(&mut self, node: NodeId) {
        for agreement in self.of.values_mut() {
            agreement.open.retain(|_, step| !step.came.contains(&node));
            agreement.back.remove(&node);
            agreement.closed.remove(&node);
        }
    }

    /// What became facts after so many.
    pub(in crate::store) fn since(&self, told: usize) -> &[Agree] {
        self.facts.get(told..).unwrap_or_default()
    }

    /// How many times something became facts.
    pub(in crate::store) fn told(&self) -> usize {
        self.facts.len()
    }

    /// True once after something became facts.
    pub(in crate::store) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// What all workers have said of the arrays of customer 0.
    pub(in crate::store) fn about_arrays(&self) -> Vec<Fact> {
        let facts = self.of.get(&0).map(|agreement| &agreement.facts).into_iter().flatten();
        let arrays = facts.filter(|(subject, _)| subject.starts_with(ARRAY));
        arrays
            .map(|(subject, said)| Fact { subject: subject.clone(), value: said.value.clone() })
            .collect()
    }

    /// Another server says what all workers have said.
    pub(in crate::store) fn learn(&mut self, told: &[Agree]) {
        for step in told.iter().filter(|step| is_readable(step)) {
            let Some(agreement) = self.of(step.customer) else { continue };
            agreement.skip_to(step.step.saturating_add(1));
            // Who said it first is not told.
            agreement.add(facts_of(&step.facts, SOMEBODY));
            self.note_news(step.customer);
        }
    }

    fn note_news(&mut self, customer: i32) {
        let Some(agreement) = self.of.get_mut(&customer) else { return };
        let facts = std::mem::take(&mut agreement.news);
        if !facts.is_empty() {
            let step = agreement.passed;
            self.facts.push(Agree { step, facts, customer, ..Agree::default() });
            self.news = true;
        }
    }

    fn of(&mut self, customer: i32) -> Option<&mut Agreement> {
        let has_room = self.of.len() < CUSTOMERS_MAX || self.of.contains_key(&customer);
        has_room.then(|| self.of.entry(customer).or_default())
    }

    /// A worker says something.
    pub(in crate::store) fn hear(&mut self, asker: &Asker, customer: i32, said: &Agree) -> Verdict {
        let Some(agreement) = self.of(customer) else {
            return Verdict::Differs(format!("a server compares {CUSTOMERS_MAX} stores at most"));
        };
        let verdict = agreement.hear(asker, said);
        self.note_news(customer);
        verdict
    }

    /// Those who are in a step behind that one, to which this worker has not come.
    pub(in crate::store) fn ahead_of(
        &self,
        asker: &Asker,
        customer: i32,
        step: u64,
    ) -> Vec<NodeId> {
        let open = self.of.get(&customer).map(|agreement| &agreement.open);
        let later = open.and_then(|open| open.range(step.saturating_add(1)..).next());
        let ahead = later.filter(|(_, step)| !step.came.contains(&asker.id));
        ahead.map(|(_, step)| step.came.iter().copied().collect()).unwrap_or_default()
    }

    /// They wait in that step for this worker, and it for their push to that key.
    pub(in crate::store) fn circle(
        &mut self,
        asker: &Asker,
        customer: i32,
        step: u64,
        key: KeyName,
    ) -> Verdict {
        let open = self.of.get_mut(&customer).map(|agreement| &mut agreement.open);
        let later = open.and_then(|open| open.range_mut(step.saturating_add(1)..).next());
        let Some((_, step)) = later else { return Verdict::Agreed };
        let text = format!(
            "{} says {}, and {} does not: it waits for a round of key {key}; {ALIKE}",
            named(step.first),
            what(&step.facts),
            named(asker.id)
        );
        Verdict::Differs(step.differs.get_or_insert(text).clone())
    }
}

impl Agreement {
    fn hear(&mut self, asker: &Asker, said: &Agree) -> Verdict {
        if said.closes {
            self.closed.insert(asker.id);
            return Verdict::Agreed;
        }
        if let Some(text) = self.contradiction(asker.id, &said.facts) {
            return Verdict::Differs(text);
        }
        if said.back {
            return self.came_back(asker, said);
        }
        if said.step <= self.passed {
            return Verdict::Agreed;
        }
        self.skip_to(said.step);
        self.step(asker, said)
    }

    /// All have said something of a subject, and this one says something else.
    fn contradiction(&self, by: NodeId, facts: &[Fact]) -> Option<String> {
        facts.iter().find_map(|Fact { subject, value }| {
            let known = self.facts.get(subject).filter(|known| known.value != *value)?;
            Some(two_values(subject, known, &Said { value: value.clone(), by }))
        })
    }

    /// A worker that came back says what the others have said before. If nobody else is left, it
    /// may say something new.
    fn came_back(&mut self, asker: &Asker, said: &Agree) -> Verdict {
        self.back.insert(asker.id);
        if asker.id == worker_id(0) && said.makes {
            self.values_came(&said.facts);
        }
        let unknown = said.facts.iter().find(|fact| !self.facts.contains_key(&fact.subject));
        let Some(Fact { subject, .. }) = unknown else { return Verdict::Agreed };
        // Without a step it only asks.
        if said.step > 0 && !self.waits_for(asker).iter().any(|id| *id != asker.id) {
            return self.all_said(facts_of(&said.facts, asker.id));
        }
        let who = named(asker.id);
        Verdict::Waits(format!("{subject} of {who}, which came back, waits for the others"))
    }

    /// The worker of rank 0 came back while the others wait for the values of what they make, and
    /// has sent those.
    fn values_came(&mut self, said: &[Fact]) {
        let said: BTreeSet<&str> = said.iter().map(|fact| &fact.subject[..]).collect();
        let facts = &self.facts;
        let has = |subject: &String| said.contains(&subject[..]) || facts.contains_key(subject);
        for step in self.open.values_mut() {
            step.values_are_here |= step.facts.keys().all(has);
        }
    }

    /// Whoever does a step knows that all before it are passed: another server may have said so,
    /// or this one has joined since.
    fn skip_to(&mut self, step: u64) {
        let later = self.open.split_off(&step);
        for (_, former) in std::mem::replace(&mut self.open, later) {
            self.add(former.facts);
        }
        self.passed = self.passed.max(step.saturating_sub(1));
    }

    fn step(&mut self, asker: &Asker, said: &Agree) -> Verdict {
        let number = said.step;
        if self.open.len() >= STEPS_MAX && !self.open.contains_key(&number) {
            return Verdict::Again;
        }
        let is_in = self.open.get(&number).is_some_and(|step| step.came.contains(&asker.id));
        if said.repeated && !is_in {
            return Verdict::Again;
        }
        let waits_for = self.waits_for(asker);
        let facts = || facts_of(&said.facts, asker.id);
        let step = self.open.entry(number).or_insert_with(|| Step::of(asker.id, facts()));
        if step.came.insert(asker.id) {
            step.makes |= said.makes;
            step.compare(asker.id, &facts());
        }
        if let Some(text) = &step.differs {
            return Verdict::Differs(text.clone());
        }
        let values = step.lacks_values().then_some(worker_id(0));
        let missing: BTreeSet<NodeId> =
            waits_for.difference(&step.came).copied().chain(values).collect();
        let (who, what) = (named(step.first), what(&step.facts));
        if let Some(closed) = missing.iter().find(|id| self.closed.contains(id)) {
            let closed = named(*closed);
            let text = format!("{who} says {what}, and {closed} has closed its store; {ALIKE}");
            return Verdict::Differs(step.differs.insert(text).clone());
        }
        if !missing.is_empty() {
            return Verdict::Waits(format!("{what} of {who} waits for {}", list(&missing)));
        }
        let facts = self.open.remove(&number).map(|step| step.facts).unwrap_or_default();
        self.passed = number;
        self.all_said(facts)
    }

    /// For whom a step waits.
    fn waits_for(&self, asker: &Asker) -> BTreeSet<NodeId> {
        // Where the job does not go on without them, those who closed their store are missed.
        let apart = if asker.goes_on { &self.closed } else { &self.back };
        asker.awaited.difference(apart).copied().collect()
    }

    fn all_said(&mut self, facts: Facts) -> Verdict {
        match self.add(facts) {
            true => Verdict::Agreed,
            false => Verdict::Differs(format!("a server keeps {FACTS_MAX} arrays at most")),
        }
    }

    /// These are facts now. False if there is no room.
    fn add(&mut self, facts: Facts) -> bool {
        let has_room = self.facts.len() + facts.len() <= FACTS_MAX;
        if has_room {
            for (subject, said) in facts {
                if !self.facts.contains_key(&subject) {
                    let value = said.value.clone();
                    self.news.push(Fact { subject: subject.clone(), value });
                    self.facts.insert(subject, said);
                }
            }
        }
        has_room
    }
}

impl Step {
    fn of(first: NodeId, facts: Facts) -> Self {
        let (came, makes) = (BTreeSet::new(), false);
        Self { facts, first, came, makes, values_are_here: false, differs: None }
    }

    /// True if it would be done without the values of what it makes.
    fn lacks_values(&self) -> bool {
        self.makes && !self.values_are_here && !self.came.contains(&worker_id(0))
    }

    /// Another one says this in the same step.
    fn compare(&mut self, by: NodeId, facts: &Facts) {
        if self.differs.is_some() || by == self.first {
            return;
        }
        let unequal = facts.iter().find_map(|(subject, said)| {
            let known = self.facts.get(subject).filter(|known| known.value != said.value)?;
            Some(two_values(subject, known, said))
        });
        let lacks = |one: &Facts, other: &Facts| -> Facts {
            let lacking = one.iter().filter(|(subject, _)| !other.contains_key(*subject));
            lacking.map(|(subject, said)| (subject.clone(), said.clone())).collect()
        };
        self.differs = unequal.or_else(|| {
            let (more, less) = (lacks(&self.facts, facts), lacks(facts, &self.facts));
            let (first, second) = (named(self.first), named(by));
            match (more.is_empty(), less.is_empty()) {
                (true, true) => None,
                (false, true) => {
                    Some(format!("{first} says {}, and {second} does not; {ALIKE}", what(&more)))
                }
                (true, false) => {
                    Some(format!("{second} says {}, and {first} does not; {ALIKE}", what(&less)))
                }
                (false, false) => Some(format!(
                    "{first} says {}, and {second} says {} in its place; {ALIKE}",
                    what(&more),
                    what(&less)
                )),
            }
        });
    }
}

fn facts_of(facts: &[Fact], by: NodeId) -> Facts {
    let said = |fact: &Fact| (fact.subject.clone(), Said { value: fact.value.clone(), by });
    facts.iter().map(said).collect()
}

fn two_values(subject: &str, one: &Said, other: &Said) -> String {
    let (first, second) = (named(one.by), named(other.by));
    format!("{subject}: {first} says {}, and {second} says {}; {ALIKE}", one.value, other.value)
}

/// Some facts for people.
fn what(facts: &Facts) -> String {
    let all = facts.iter().map(|(subject, said)| match said.value.is_empty() {
        true => subject.clone(),
        false => format!("{subject} ({})", said.value),
    });
    let mut named: Vec<String> = all.take(NAMED_MAX).collect();
    match facts.len() - named.len() {
        _ if named.is_empty() => named.push("nothing new".to_owned()),
        0 => {}
        more => named.push(format!("{more} more")),
    }
    named.join(", ")
}

fn list(nodes: &BTreeSet<NodeId>) -> String {
    let mut names: Vec<String> = nodes.iter().take(NAMED_MAX).map(|id| named(*id)).collect();
    if nodes.len() > names.len() {
        names.push(format!("{} more", nodes.len() - names.len()));
    }
    names.join(", ")
}

fn named(node: NodeId) -> String {
    match is_worker(node) {
        true => format!("worker {}", id_to_rank(node)),
        false => "another worker".to_owned(),
    }
}
