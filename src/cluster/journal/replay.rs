//! How records add up to a state.

use std::collections::BTreeMap;

use super::{Change, Passed, Record, State};
use crate::cluster::tenures;
use crate::wire::NodeId;

impl State {
    /// The state after one more record. A whole state takes the place of all before.
    pub fn apply(&mut self, record: &Record) {
        let Some(change) = &record.change else { return };
        match change {
            Change::Job(state) => *self = (**state).clone(),
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
                self.keys.retain(|_, length| *length > 0);
                self.tenures.retain(|key, _| keys.keys.get(key) != Some(&0));
            }
            Change::Orders(orders) => self.orders.clone_from(&orders.orders),
            Change::Passed(passed) => self.pass(passed),
            Change::Ended(ended) => self.ended = *ended,
            Change::Taken(taken) => tenures::note(&mut self.tenures, &taken.keys),
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
