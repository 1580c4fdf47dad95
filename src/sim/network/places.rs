//! Who listens where, and which connections go there and come from whom: so what happens to one
//! process costs as much as it has connections, and not as much as all have. Knows names and
//! numbers, and nothing of what goes over them.

use std::collections::{BTreeMap, BTreeSet};

use super::{ConnectionId, Process};

/// The number of an address.
pub(super) type Place = usize;

/// All addresses that anybody listens at, or connects to.
#[derive(Debug, Default)]
pub(super) struct Places {
    numbers: BTreeMap<String, Place>,
    /// By the number of the address.
    all: Vec<Ends>,
    /// The connections that a process opened, in that order.
    opened: BTreeMap<Process, Vec<ConnectionId>>,
    /// The addresses that a process listens at, in the order of their names.
    listens: BTreeMap<Process, BTreeMap<String, Place>>,
}

#[derive(Debug, Default)]
struct Ends {
    listener: Option<Process>,
    /// The connections that go there, in the order in which they were opened.
    connections: Vec<ConnectionId>,
}

impl Places {
    fn number(&mut self, address: &str) -> Place {
        if let Some(place) = self.numbers.get(address) {
            return *place;
        }
        let place = self.all.len();
        self.numbers.insert(address.to_owned(), place);
        self.all.push(Ends::default());
        place
    }

    /// A process listens there from now on.
    pub(super) fn listen(&mut self, process: Process, address: &str) -> Place {
        let place = self.number(address);
        self.all[place].listener = Some(process);
        self.listens.entry(process).or_default().insert(address.to_owned(), place);
        place
    }

    /// A connection from a process goes there from now on.
    pub(super) fn connect(&mut self, id: ConnectionId, from: Process, address: &str) -> Place {
        let place = self.number(address);
        self.all[place].connections.push(id);
        self.opened.entry(from).or_default().push(id);
        place
    }

    /// Who listens there.
    pub(super) fn listener(&self, place: Place) -> Option<Process> {
        self.all.get(place)?.listener
    }

    /// All connections that ever went there, in order.
    pub(super) fn to(&self, place: Place) -> Vec<ConnectionId> {
        self.all.get(place).map_or_else(Vec::new, |ends| ends.connections.clone())
    }

    /// All connections that a process ever opened, in order.
    pub(super) fn opened_by(&self, process: Process) -> &[ConnectionId] {
        self.opened.get(&process).map_or(&[], |ids| ids)
    }

    /// All connections that either of two processes ever opened, in order.
    pub(super) fn opened_by_either(&self, a: Process, b: Process) -> BTreeSet<ConnectionId> {
        self.opened_by(a).iter().chain(self.opened_by(b)).copied().collect()
    }

    /// Nobody listens there any more.
    pub(super) fn forget(&mut self, place: Place) {
        if let Some(ends) = self.all.get_mut(place) {
            ends.listener = None;
        }
    }

    /// Where a process listens, in the order of names. It is up to the caller to forget them.
    pub(super) fn take_listened(&mut self, process: Process) -> Vec<Place> {
        let listened = self.listens.remove(&process).unwrap_or_default().into_values();
        listened.filter(|place| self.listener(*place) == Some(process)).collect()
    }
}
