//! Which trees are in force (`docs/trees.md`): the scheduler gives each set of trees, an *overlay*,
//! a number, and tells everybody. Its owner plans them; a death takes them away at once, with a
//! floor: what went along them may be lost.
//!
//! An overlay needs no policy: owners stay where they are, and each of them says round by round
//! which tree a piece takes. The number is in the journal before anybody hears of it, so that a
//! scheduler that is started again never gives the same number to other trees.

use std::collections::BTreeSet;

use super::journal::{Change, Record};
use super::{Action, Cluster};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::wire::trees::{OVERLAYS_KEPT, Overlay, TreeTable};
use crate::wire::word::{Policy, Word};
use crate::wire::{Node, NodeId, Role, ability};

impl Cluster {
    /// The newest overlay that this node knows: of the scheduler, the one in force.
    #[must_use]
    pub const fn overlay(&self) -> &Overlay {
        &self.elastic.overlay
    }

    /// Scheduler: its owner has other trees. `lossy`: what went along the former ones may be lost.
    pub(super) fn plant(&mut self, trees: Vec<TreeTable>, lossy: bool, out: &mut Vec<Action>) {
        if !self.is_scheduler() || !self.elastic.on || !self.ready || self.failure.is_some() {
            return;
        }
        let able = |node: &Node| node.abilities & ability::TREES != 0;
        if let Some(unable) = self.members.values().find(|node| !able(node)) {
            let text = format!("no trees: {} does not know them", unable.describe());
            return Self::say(out, NewEvent::warning(JobEventKind::Tree, text));
        }
        let number = self.elastic.overlay.number + 1;
        let floor = if lossy { number } else { self.elastic.overlay.floor };
        out.push(Action::Record(Record::new(Change::Overlay(number))));
        let former = std::mem::replace(&mut self.elastic.overlay, Overlay { number, floor, trees });
        self.elastic.former_overlays.push_back(former);
        let kept = number.saturating_sub(OVERLAYS_KEPT - 1).max(floor).max(1);
        self.elastic.former_overlays.retain(|former| former.number >= kept);
        for id in self.others() {
            self.tell_overlay(id, out);
        }
        out.push(Action::Overlay(self.elastic.overlay.clone()));
    }

    /// Scheduler: tells a node all overlays along which something may be under way, the one in
    /// force last. A connection that was lost may have taken more than one of them with it, and who
    /// does not know an overlay cannot pass on what goes by it.
    pub(super) fn tell_overlays(&mut self, to: NodeId, out: &mut Vec<Action>) {
        for former in self.elastic.former_overlays.clone() {
            self.say_overlay(to, former, out);
        }
        self.tell_overlay(to, out);
    }

    /// Scheduler: tells a node the overlay in force, if there ever was one.
    pub(super) fn tell_overlay(&mut self, to: NodeId, out: &mut Vec<Action>) {
        if self.elastic.overlay.number > 0 {
            self.say_overlay(to, self.elastic.overlay.clone(), out);
        }
    }

    fn say_overlay(&mut self, to: NodeId, overlay: Overlay, out: &mut Vec<Action>) {
        self.word(to, Word::Overlay { epoch: self.elastic.policy.epoch, overlay }, out);
    }

    /// Scheduler: a policy came into force in the place of that one. If somebody is not in it any
    /// more all rounds go without trees until there are new ones.
    pub(super) fn lose_trees(&mut self, former: &Policy, out: &mut Vec<Action>) {
        if self.elastic.overlay.number == 0 {
            return;
        }
        let policy = &self.elastic.policy;
        let lives = |worker| policy.live.contains(worker);
        let all_live = former.live.iter().all(lives);
        let all_serve = former.servers.iter().all(|server| policy.servers.contains(server));
        if !all_live || !all_serve {
            self.plant(Vec::new(), true, out);
        }
    }

    /// Not the scheduler: its word that these trees are in force.
    pub(super) fn overlay_came(&mut self, overlay: &Overlay, out: &mut Vec<Action>) {
        if !self.ready || !self.hears_overlay(overlay) {
            return;
        }
        self.connect_relays(overlay, out);
        out.push(Action::Overlay(overlay.clone()));
    }

    /// Not the scheduler: it is told of an overlay. False if it knows that one, or it is too old.
    /// One that was lost with a connection may come after a newer one.
    fn hears_overlay(&mut self, overlay: &Overlay) -> bool {
        let elastic = &mut self.elastic;
        let newest = elastic.overlay.number.max(overlay.number);
        let oldest = newest.saturating_sub(OVERLAYS_KEPT - 1).max(elastic.overlay.floor).max(1);
        if overlay.number < oldest || !elastic.overlays_heard.insert(overlay.number) {
            return false;
        }
        elastic.overlays_heard.retain(|number| *number >= oldest);
        if overlay.number == newest {
            elastic.overlay = overlay.clone();
        }
        true
    }

    /// Workers send to workers along a tree; else they have a connection only for a probe.
    fn connect_relays(&mut self, overlay: &Overlay, out: &mut Vec<Action>) {
        let me = self.me.id;
        let trees = &overlay.trees;
        let parents = trees
            .iter()
            .flat_map(|tree| tree.nodes.iter().filter(|node| node.node == me).map(|node| node.up));
        let children = trees.iter().flat_map(|tree| {
            tree.nodes.iter().filter(|node| node.down == me).map(|node| node.node)
        });
        let peers: BTreeSet<NodeId> = parents.chain(children).collect();
        for id in peers {
            self.connect_relay(id, out);
        }
    }

    /// True if that is another worker, with which this one exchanges what goes along trees.
    pub(super) fn is_relay(&self, id: NodeId) -> bool {
        self.me.role == Role::Worker && self.elastic.relays.contains_key(&id)
    }

    /// A worker connects to another one, if it is not connected yet.
    pub(super) fn connect_relay(&mut self, id: NodeId, out: &mut Vec<Action>) {
        let Some(node) = self.members.get(&id) else { return };
        let known = self.elastic.relays.get(&id) == Some(&node.incarnation);
        let are_workers = [node.role, self.me.role] == [Role::Worker; 2];
        if are_workers && !known && !self.is_gone(id) && id != self.me.id {
            self.elastic.relays.insert(id, node.incarnation);
            out.push(Action::Connect { node: node.clone(), identity: Some(self.me.id) });
        }
    }
}
