//! What goes wrong on purpose: processes that end, crash or vanish, directions that are cut or
//! stall.

use std::time::Duration;

use super::lines::Direction;
use super::{ConnectionId, Network, Process};

impl Network {
    /// The process ended properly: its messages arrive, its connections and those to it go.
    pub fn end(&mut self, now: Duration, process: Process) {
        self.remove(now, process, true);
    }

    /// The process was killed: the system closes its connections, and the tail of what it had sent
    /// is lost.
    pub fn crash(&mut self, now: Duration, process: Process) {
        self.lose_tail(now, process);
        self.remove(now, process, true);
    }

    /// The host of the process has lost its power: nobody closes its connections.
    pub fn vanish(&mut self, now: Duration, process: Process) {
        self.lose_tail(now, process);
        self.remove(now, process, false);
    }

    /// Nothing goes between two processes any more; what was under way is lost.
    pub fn cut(&mut self, now: Duration, a: Process, b: Process) {
        let there = Direction { from: a, to: b };
        self.cuts.extend([there, there.back()]);
        for id in self.between(a, b) {
            self.sever(now, id);
        }
    }

    /// The connections between two processes come up again.
    pub fn mend(&mut self, now: Duration, a: Process, b: Process) {
        let there = Direction { from: a, to: b };
        self.cuts.remove(&there);
        self.cuts.remove(&there.back());
        for id in self.between(a, b) {
            self.shake(now, id);
        }
    }

    /// Nothing goes from one process to another any more, and nobody notices: what is sent is late.
    /// The other direction is as it was.
    pub fn stall(&mut self, from: Process, to: Process) {
        self.stalls.insert(Direction { from, to });
    }

    /// The end of a stall: what was sent arrives, in order.
    pub fn flow(&mut self, now: Duration, from: Process, to: Process) {
        self.stalls.remove(&Direction { from, to });
        for id in self.between(from, to) {
            if self.connections.get(id).is_some_and(|c| c.from == from) {
                self.release(now, id);
            }
            self.shake(now, id);
        }
    }

    /// Every direction is open again.
    pub fn heal(&mut self, now: Duration) {
        for Direction { from, to } in self.cuts.clone() {
            self.mend(now, from, to);
        }
        for Direction { from, to } in self.stalls.clone() {
            self.flow(now, from, to);
        }
    }

    fn between(&self, a: Process, b: Process) -> Vec<ConnectionId> {
        let ends = |id: &ConnectionId| {
            let connection = &self.connections[*id];
            let ends = (Some(connection.from), self.places.listener(connection.to));
            [(Some(a), Some(b)), (Some(b), Some(a))].contains(&ends)
        };
        self.places.opened_by_either(a, b).into_iter().filter(ends).collect()
    }

    fn remove(&mut self, now: Duration, process: Process, tell: bool) {
        for place in self.places.take_listened(process) {
            self.places.forget(place);
            for id in self.places.to(place).into_iter().filter(|_| tell) {
                self.sever(now, id);
            }
        }
        for id in self.places.opened_by(process) {
            self.connections[*id].closed = true;
        }
    }
}
