//! How the job is, as the membership knows it: who is in it, in which state, and who has how much.
//! Values only; what is said of them is made elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Cluster;
use super::alike::SettingStatus;
use crate::wire::{Node, NodeId, Role, id_to_rank};

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all are here.
    Forming,
    /// It runs.
    Running,
    /// A policy is being made.
    Changing,
    /// It cannot go on.
    Failed,
}

/// How a node of the job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has registered with a job that is not complete.
    Registered,
    /// Nothing is to be said of it.
    Live,
    /// It is in no policy yet.
    Joining,
    /// A server that is being emptied.
    Draining,
    /// A server whose values do not move.
    Fixed,
    /// It is dead.
    Dead,
    /// A server that was emptied, and left.
    Released,
    /// A worker that took the place of a dead one.
    Back,
}

impl MemberState {
    /// True if it is not in the job any more.
    #[must_use]
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Dead | Self::Released)
    }
}

/// What a server owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// Pieces.
    pub pieces: usize,
    /// Bytes of their values.
    pub bytes: u64,
    /// Bytes of what belongs to these values.
    pub state_bytes: u64,
}

/// A node of the job, and how it is.
#[derive(Clone, Copy, Debug)]
pub struct MemberOverview<'a> {
    /// The node.
    pub node: &'a Node,
    /// Its rank; 0 before the job is complete.
    pub rank: i32,
    /// How it is.
    pub state: MemberState,
    /// What it owns.
    pub owned: Owned,
    /// When something was last heard of it; none if it sends no signs of life, or is gone.
    pub heard: Option<Duration>,
}

/// The job as this node knows it; the scheduler knows most.
#[derive(Debug)]
pub struct Overview<'a> {
    /// Where it is.
    pub phase: Phase,
    /// For people: why it cannot go on, or who is missing; else empty.
    pub note: String,
    /// Everybody but the scheduler, those too that have only registered.
    pub members: Vec<MemberOverview<'a>>,
    /// Pieces of which no other server has all that was answered, where copies are to be kept.
    pub uncopied: usize,
    /// Settings that nodes must have alike.
    pub settings: Vec<SettingStatus>,
}

impl Cluster {
    /// How the job is.
    #[must_use]
    pub fn overview(&self) -> Overview<'_> {
        let phase = match (&self.failure, self.ready) {
            (Some(_), _) => Phase::Failed,
            (None, false) => Phase::Forming,
            (None, true) if self.elastic.books.collection.is_some() => Phase::Changing,
            (None, true) => Phase::Running,
        };
        let note = match &self.failure {
            Some(failure) => failure.text.clone(),
            None if !self.ready => self.waiting_text(),
            None => String::new(),
        };
        let registered = self.arrivals.registrants.values().map(|registrant| &registrant.node);
        let others = self.members.values().filter(|node| node.role != Role::Scheduler);
        let owned = self.owned();
        let members = others.chain(registered).map(|node| MemberOverview {
            node,
            rank: if self.ready { id_to_rank(node.id) } else { 0 },
            state: self.state_of(node.id),
            owned: owned.get(&node.id).copied().unwrap_or_default(),
            heard: self.signs.heard.get(&node.id).copied(),
        });
        Overview {
            phase,
            note,
            members: members.collect(),
            uncopied: self.uncopied(),
            settings: self.arrivals.alike.status(),
        }
    }

    fn uncopied(&self) -> usize {
        let pieces = self.elastic.books.pieces.values().flat_map(|key| &key.pieces);
        let kept = self.elastic.on && self.elastic.policy.replicas > 0;
        pieces.filter(|piece| kept && !piece.safe).count()
    }

    /// What each server owns.
    fn owned(&self) -> BTreeMap<NodeId, Owned> {
        let mut all = BTreeMap::<NodeId, Owned>::new();
        for piece in self.elastic.books.pieces.values().flat_map(|key| &key.pieces) {
            let own = all.entry(piece.owner).or_default();
            own.pieces += 1;
            own.bytes = own.bytes.saturating_add(piece.bytes);
            own.state_bytes = own.state_bytes.saturating_add(piece.state_bytes);
        }
        all
    }

    fn state_of(&self, id: NodeId) -> MemberState {
        let books = &self.elastic.books;
        if self.elastic.policy.released.contains(&id) {
            MemberState::Released
        } else if self.lost.contains_key(&id) {
            MemberState::Dead
        } else if !self.ready {
            MemberState::Registered
        } else if books.draining.contains(&id) {
            MemberState::Draining
        } else if books.returning.contains(&id) {
            MemberState::Joining
        } else if books.lives.contains_key(&id) {
            MemberState::Back
        } else if books.fixed.contains_key(&id) {
            MemberState::Fixed
        } else if books.joining.contains(&id) {
            MemberState::Joining
        } else {
            MemberState::Live
        }
    }
}
