//! What the membership promises, as code (`invariant`). Looks, and changes nothing. May touch what
//! the module may. A node whose job has failed promises nothing any more.
//!
//! - **Members** are known by their ids; nobody is watched who is dead.
//! - **A policy** names servers that live, and of each what it is for.
//! - **Pieces** of a key are disjoint, and leave nothing of it out: an element has one owner.
//! - **A collection** waits for somebody, and has answers only of those that were asked.
//! - **Orders** that stand for one key are about different elements.
//! - **Sums and indices** are what a walk over all finds: claims by key and by receiver, orders.
//!
//! A debug build looks after each event at members and policy (of many members, after some events
//! only), and after claims at the keys that they were about.

use std::collections::BTreeSet;

use super::Cluster;
use super::claims::KeyPieces;
use crate::invariant::{Valid, covering, debug, disjoint, require};
use crate::wire::word::Policy;
use crate::wire::{Key, NodeId, Role, SCHEDULER, is_worker};

/// Up to so many members, a debug build checks all after each event; with more, after one event in
/// so many.
const MEMBERS_EACH_EVENT: usize = 64;

impl Cluster {
    /// All that is promised.
    ///
    /// # Errors
    /// The first promise that does not hold, with the numbers.
    pub fn validate(&self) -> Valid {
        if self.failure.is_some() {
            return Ok(());
        }
        self.validate_members()?;
        self.validate_policy()?;
        self.validate_books()?;
        let books = &self.elastic.books;
        books.claims.validate()?;
        books.orders.validate(books.epoch)?;
        self.validate_pieces(books.pieces.keys())
    }

    /// A debug build looks at what costs no more the more keys there are.
    pub(super) fn look(&self) {
        let many = self.members.len() > MEMBERS_EACH_EVENT;
        if self.failure.is_some()
            || (many && !(self.timestamp as usize).is_multiple_of(MEMBERS_EACH_EVENT))
        {
            return;
        }
        debug(|| {
            self.validate_members()?;
            self.validate_policy()?;
            self.validate_books()
        });
    }

    /// A debug build looks at the pieces of these keys.
    pub(super) fn look_at<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) {
        debug(|| self.validate_pieces(keys));
    }

    fn validate_members(&self) -> Valid {
        for (id, node) in &self.members {
            let is_of_role = match node.role {
                Role::Scheduler => *id == SCHEDULER,
                Role::Worker => is_worker(*id),
                Role::Server => *id != SCHEDULER && !is_worker(*id),
            };
            require(node.id == *id && is_of_role, || {
                format!("node {id} is {:?} and says that it is {}", node.role, node.id)
            })?;
        }
        let (me, ready) = (self.me.id, self.ready);
        require(!ready || self.members.contains_key(&me), || {
            format!("the job is complete, and this node, {me}, is not in it")
        })?;
        let stray = self.aliases.iter().find(|(_, id)| !self.members.contains_key(id));
        require(stray.is_none(), || format!("{stray:?} is a second id of nobody"))?;
        let dead = self.signs.heard.keys().find(|id| self.lost.contains_key(id));
        require(dead.is_none(), || format!("{dead:?} is dead, and is watched"))
    }

    fn validate_policy(&self) -> Valid {
        let Policy { epoch, servers, draining, homes, lost, released, copies, .. } =
            &self.elastic.policy;
        if *epoch == 0 {
            return Ok(());
        }
        let named = |broken: String| format!("policy {epoch}: {broken}");
        require(servers.windows(2).all(|pair| pair[0] < pair[1]), || {
            named(format!("the servers are not in order: {servers:?}"))
        })?;
        let serves = |id: &NodeId| servers.binary_search(id).is_ok();
        // One that is emptied may have yet to join.
        let gone = lost.iter().chain(released).find(|id| serves(id) || draining.contains(id));
        require(gone.is_none(), || {
            named(format!("{gone:?} serves or is emptied, and is dead or released"))
        })?;
        let other = homes.iter().find(|id| !serves(id));
        require(other.is_none(), || named(format!("{other:?} is a home, and does not serve")))?;
        let copy = copies.iter().find(|copy| {
            copy.owner == copy.holder || !serves(&copy.owner) || !serves(&copy.holder)
        });
        require(copy.is_none(), || named(format!("{copy:?} is no place for copies")))
    }

    fn validate_books(&self) -> Valid {
        let (books, policy) = (&self.elastic.books, &self.elastic.policy);
        if !self.is_scheduler() || !self.elastic.on {
            return Ok(());
        }
        require(books.epoch >= policy.epoch, || {
            format!("policy {} is in force, and {} was told last", policy.epoch, books.epoch)
        })?;
        let both = books.joining.iter().find(|id| policy.servers.contains(id));
        require(both.is_none(), || format!("{both:?} serves, and is yet to join"))?;
        let both = books.draining.intersection(&books.released).next();
        require(both.is_none(), || format!("{both:?} has left, and is being emptied"))?;
        let dead = books.claims.by_server().keys().find(|id| self.lost.contains_key(id));
        require(dead.is_none(), || format!("claims of {dead:?}, which is dead, are kept"))?;
        self.validate_collection()
    }

    fn validate_collection(&self) -> Valid {
        let books = &self.elastic.books;
        let Some(collection) = &books.collection else { return Ok(()) };
        let epoch = collection.epoch;
        let named = |broken: String| format!("the collection for policy {epoch}: {broken}");
        let (told, in_force) = (books.epoch, self.elastic.policy.epoch);
        require(epoch == told && epoch > in_force, || {
            named(format!("policy {in_force} is in force, and {told} was told last"))
        })?;
        let stray = collection.answers.keys().find(|id| !collection.asked(id));
        require(stray.is_none(), || named(format!("{stray:?} answered and was not asked")))?;
        let early = collection.later.keys().find(|id| !collection.answers.contains_key(id));
        require(early.is_none(), || named(format!("{early:?} said more before it answered")))?;
        let waits = collection.waits();
        require(waits, || named("all have answered, and it is not over".to_owned()))
    }

    fn validate_pieces<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) -> Valid {
        let books = &self.elastic.books;
        for key in keys {
            let named = |broken: String| format!("key {key}: {broken}");
            let known = books.pieces.get(key);
            known.map_or(Ok(()), |known| known.validate(*key)).map_err(named)?;
            if let Some(tenures) = books.tenures.get(key) {
                let parts = tenures.parts.iter().map(|part| (part.from, part.to));
                let named = |broken: String| named(format!("of what changed hands {broken}"));
                disjoint(parts, u64::MAX).map_err(named)?;
            }
        }
        Ok(())
    }
}

impl KeyPieces {
    /// Its pieces cover it; or none is known yet.
    fn validate(&self, key: Key) -> Valid {
        let Self { length, pieces } = self;
        if pieces.is_empty() {
            return Ok(());
        }
        covering(pieces.iter().map(|piece| (piece.from, piece.to)), *length)?;
        let wrong = pieces.iter().find(|piece| piece.key != key || piece.term == 0);
        require(wrong.is_none(), || format!("{wrong:?} has no term, or is of another key"))?;
        let owners: BTreeSet<NodeId> = pieces.iter().map(|piece| piece.owner).collect();
        let stray = owners.iter().find(|id| is_worker(**id) || **id == SCHEDULER);
        require(stray.is_none(), || format!("{stray:?} owns a piece, and is no server"))
    }
}
