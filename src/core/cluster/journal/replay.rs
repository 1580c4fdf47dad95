//! How records add up to a state.

use std::collections::BTreeMap;

use super::{Change, Ordered, Passed, Record, State};
use crate::cluster::tenures;
use crate::wire::NodeId;

impl State {
    /// The state after one more record. A whole state takes the place of all before.
    pub fn apply(&mut self, record: &Record) {
        let Some(change) = &record.change else { return };
        match change {
            Change::Job(state) => {
                *self = (**state).clone();
                let listed = std::mem::take(&mut self.listed_orders);
                self.list_orders(&listed);
            }
            Change::Epoch(epoch) => self.epoch = self.epoch.max(*epoch),
            Change::Homes(policy) => {
                self.homes.clone_from(&policy.homes);
                self.copies.clone_from(&policy.copies);
                self.serving.extend(policy.joined.iter().map(|id| (*id, true)));
                forget(&mut self.serving, &policy.released);
                self.serving.retain(|id, _| !self.lost.contains_key(id));
                forget(&mut self.joining, &policy.joined);
                forget(&mut self.draining, &policy.released);
                for id in &policy.back {
                    self.lives.insert(*id, self.epoch);
                    self.returning.remove(id);
                }
                self.released.extend(policy.released.iter().map(|id| (*id, true)));
            }
            Change::Joined(member) => {
                self.joining.insert(member.id, true);
                self.members.insert(member.id, member.clone());
            }
            Change::Replaced(member) => {
                self.passed.retain(|entry| entry.node != member.id);
                self.lost.remove(&member.id);
                self.returning.insert(member.id, true);
                self.members.insert(member.id, member.clone());
            }
            Change::Claimed(id) => {
                self.claimed.insert(*id, true);
            }
            Change::Fixed(about) => {
                self.fixed.insert(about.id, about.text.clone());
            }
            Change::Draining(id) => {
                self.draining.insert(*id, true);
            }
            Change::Lost(about) => {
                forget(&mut self.joining, &[about.id]);
                forget(&mut self.draining, &[about.id]);
                forget(&mut self.returning, &[about.id]);
                self.lost.insert(about.id, about.text.clone());
            }
            Change::Keys(keys) => {
                self.keys.extend(&keys.keys);
                for (key, _) in keys.keys.iter().filter(|(_, length)| **length == 0) {
                    self.keys.remove(key);
                    self.tenures.remove(key);
                }
            }
            Change::Orders(orders) => {
                self.orders.clear();
                self.list_orders(&orders.orders);
            }
            Change::OrdersOf(orders) => {
                for (key, orders) in &orders.keys {
                    match orders.orders.is_empty() {
                        true => self.orders.remove(key),
                        false => self.orders.insert(*key, orders.clone()),
                    };
                }
            }
            Change::Passed(passed) => self.pass(passed),
            Change::Ended(ended) => self.ended = *ended,
            Change::Overlay(number) => self.overlay = self.overlay.max(*number),
            Change::Taken(taken) => tenures::note(&mut self.tenures, &taken.keys),
        }
    }

    fn list_orders(&mut self, all: &[Ordered]) {
        for ordered in all {
            self.orders.entry(ordered.order.key).or_default().orders.push(*ordered);
        }
    }

    fn pass(&mut self, passed: &Passed) {
        let of = |entry: &super::Entry| (entry.node, entry.customer, entry.group);
        for entry in &passed.entries {
            self.passed.retain(|known| of(known) != of(entry));
            self.passed.push(*entry);
        }
        self.releases_of_all = self.releases_of_all.saturating_add(u32::from(passed.all));
    }
}

fn forget<T>(map: &mut BTreeMap<NodeId, T>, ids: &[NodeId]) {
    for id in ids {
        map.remove(id);
    }
}
