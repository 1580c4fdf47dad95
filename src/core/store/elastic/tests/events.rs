//! What may happen while workers train: orders, deaths, joins, drains.

use std::collections::BTreeMap;

use super::world::{Chances, World};
use crate::store::Store;
use crate::store::tensor::Copied;
use crate::wire::elastic::{Order, SchedulerMessage, SchedulerMessageKind};
use crate::wire::{NodeId, SCHEDULER, server_id};

use super::world::Message;

impl World {
    pub(super) fn maybe_happens(&mut self) -> bool {
        let Chances { order, kill, join, drain } = self.plan.chances;
        let drawn = self.random.below(1000);
        let mut bound = 0;
        let mut falls = |chance: u64| {
            let falls = (bound..bound + chance).contains(&drawn);
            bound += chance;
            falls
        };
        if falls(order) {
            return self.order();
        }
        if falls(kill) {
            return self.kill();
        }
        if falls(join) {
            return self.join();
        }
        if falls(drain) {
            return self.drain();
        }
        // A death is noticed after a while; what is empty leaves; time passes.
        if drawn > 990 {
            return self.detect() || self.release();
        }
        if drawn > 980 {
            return self.retry();
        }
        false
    }

    fn counts(&mut self, what: &'static str) -> bool {
        let count = self.happened.entry(what).or_default();
        *count += 1;
        *count <= self.plan.most
    }

    /// Nothing is decided: no death is open, and all know the newest policy.
    fn is_quiet(&self) -> bool {
        let epoch = self.scheduler.epoch;
        let known = |server: &NodeId| self.stores.get(server).is_some_and(|s| s.epoch() == epoch);
        self.dying.is_none()
            && !self.scheduler.collecting
            && self.scheduler.servers.iter().all(known)
    }

    fn live(&self) -> Vec<NodeId> {
        self.scheduler.servers.iter().copied().collect()
    }

    /// Orders to move a part of something somewhere.
    fn order(&mut self) -> bool {
        let live = self.live();
        let from = live[self.random.below(live.len() as u64) as usize];
        let stays: Vec<NodeId> =
            live.iter().copied().filter(|s| !self.scheduler.draining.contains(s)).collect();
        let spec = self.plan.keys[self.random.below(self.plan.keys.len() as u64) as usize];
        let owner = stays[self.random.below(stays.len() as u64) as usize];
        let length = spec.length as u64;
        let (a, b) = (self.random.below(length + 1), self.random.below(length + 1));
        let whole = !spec.is_divisible() || self.random.percent(30);
        let (begin, end) = if whole { (0, length) } else { (a.min(b), a.max(b)) };
        let moves = vec![Order { key: spec.wire, from: begin, to: end, owner }];
        self.send_orders(from, moves);
        true
    }

    fn send_orders(&mut self, to: NodeId, moves: Vec<Order>) {
        let kind = SchedulerMessageKind::Orders.into();
        self.send(
            SCHEDULER,
            to,
            Message::SchedulerMessage(SchedulerMessage {
                kind,
                moves,
                ..SchedulerMessage::default()
            }),
        );
    }

    /// Kills a server, if nothing that was answered is lost with it.
    fn kill(&mut self) -> bool {
        let safe = self.stores.iter().all(|(_, store)| is_covered(store));
        let live = self.live();
        // Without replicas also what is on its way to a server is lost with it.
        let bound = |store: &Store, id: NodeId| {
            let elastic = store.elastic.as_ref().expect("elastic");
            elastic.leaving.values().flatten().any(|leaving| leaving.to == id)
        };
        let bare = |id: &NodeId| {
            self.stores[id].is_drained() && !self.stores.values().any(|store| bound(store, *id))
        };
        let may: Vec<NodeId> = live
            .iter()
            .copied()
            .filter(|id| self.stores.contains_key(id) && (self.plan.replicas > 0 || bare(id)))
            .filter(|id| live.iter().any(|other| other != id && self.is_original(*other)))
            .filter(|id| {
                live.iter().any(|other| other != id && !self.scheduler.draining.contains(other))
            })
            .collect();
        if !self.is_quiet() || !safe || may.is_empty() || !self.counts("kill") {
            return false;
        }
        let victim = may[self.random.below(may.len() as u64) as usize];
        self.note(|| format!("---- {victim} dies"));
        self.stores.remove(&victim);
        self.dying = Some(victim);
        // Of what it sent a part is lost.
        for ((from, _), queue) in &mut self.links {
            if *from == victim {
                let keep = self.random.below(queue.len() as u64 + 1) as usize;
                queue.truncate(keep);
            }
        }
        self.links.retain(|_, queue| !queue.is_empty());
        true
    }

    fn is_original(&self, server: NodeId) -> bool {
        server < server_id(self.plan.servers)
    }

    pub(super) fn detect(&mut self) -> bool {
        let Some(victim) = self.dying.take() else { return false };
        let word = self.scheduler.died(victim);
        self.collect(&word);
        true
    }

    fn join(&mut self) -> bool {
        if !self.is_quiet() || self.live().len() > 5 || !self.counts("join") {
            return false;
        }
        let id = server_id(self.next_server);
        self.next_server += 1;
        self.note(|| format!("---- {id} joins"));
        let store = self.make_store(id);
        self.stores.insert(id, store);
        self.scheduler.servers.insert(id);
        let word = self.scheduler.collect();
        self.collect(&word);
        true
    }

    fn drain(&mut self) -> bool {
        let live = self.live();
        let may: Vec<NodeId> = live
            .iter()
            .copied()
            .filter(|id| !self.scheduler.draining.contains(id))
            .filter(|id| live.iter().any(|other| other != id && self.is_original(*other)))
            .filter(|id| {
                live.iter().any(|other| other != id && !self.scheduler.draining.contains(other))
            })
            .collect();
        if !self.is_quiet() || may.is_empty() || live.len() < 3 || !self.counts("drain") {
            return false;
        }
        let drained = may[self.random.below(may.len() as u64) as usize];
        self.note(|| format!("---- {drained} is drained"));
        self.scheduler.draining.insert(drained);
        let word = self.scheduler.collect();
        self.collect(&word);
        true
    }

    /// Orders away what draining servers have, and lets go of them when they are empty.
    fn release(&mut self) -> bool {
        if !self.is_quiet() {
            return false;
        }
        for drained in self.scheduler.draining.clone() {
            let Some(store) = self.stores.get(&drained) else { continue };
            if store.is_drained() && is_covered_all(&self.stores) {
                self.scheduler.releasing = true;
                let word = self.scheduler.collect();
                self.collect(&word);
                return true;
            }
            let stays: Vec<NodeId> =
                self.live().into_iter().filter(|s| !self.scheduler.draining.contains(s)).collect();
            let owner = stays[self.random.below(stays.len() as u64) as usize];
            let moves = self.plan.keys.iter().map(|spec| Order {
                key: spec.wire,
                from: 0,
                to: spec.length as u64,
                owner,
            });
            let moves = moves.collect();
            self.send_orders(drained, moves);
        }
        true
    }
}

fn is_covered_all(stores: &BTreeMap<NodeId, Store>) -> bool {
    stores.values().all(is_covered)
}

/// True if nothing that this server answered is lost if any one server dies.
fn is_covered(store: &Store) -> bool {
    let elastic = store.elastic.as_ref().expect("elastic");
    if elastic.replicas == 0 {
        return true;
    }
    let pieces = store.tensors.values().flat_map(|tensor| &tensor.pieces);
    let unanswered = |version| version == 0 && !elastic.waiting.is_empty();
    let mut pieces = pieces.map(|piece| {
        piece.is_safe()
            || piece.source.is_some()
            || (unanswered(piece.version) && piece.copied != Copied::Not)
    });
    pieces.all(|safe| safe)
        && elastic.leaving.values().flatten().all(|leaving| leaving.copy.is_some())
        && elastic.seeds.is_idle()
}
