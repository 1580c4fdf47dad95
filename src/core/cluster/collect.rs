//! The scheduler makes policies: it asks all servers what they hold, and says from their answers
//! who owns what (`docs/elastic.md`, "Death"). Every change of who serves goes this way: a death, a
//! server that joined, one that is to be emptied or is empty. Whatever happens meanwhile begins it
//! anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::claimed::Claimed;
use super::claims::{Lost, Pieces, is_sound, place};
use super::journal::{About, Change, Keys, Record, Taken};
use super::tenures::Tenures;
use super::{Action, Cluster, JobFailure, JobFailureKind, tenures};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::keys::KeyName;
use crate::text;
use crate::wire::elastic::OPAQUE_END;
use crate::wire::word::{ClaimWord, Difference, Word};
use crate::wire::{Key, Node, NodeId, Role};

/// After that time a server that has not answered is asked again, with its next sign of life.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Why a server's values do not move that keeps them in another way than those that claimed before
/// it.
const ODD: &str = "one server has a store of ours and another an application's own handler";
/// Why the death of a server whose values an application's own handler keeps is the end.
const NO_COPIES: &str =
    "nobody has copies of the keys that an application's own handler keeps there";
/// Parts of keys that an error names.
const PARTS_NAMED_MAX: usize = 4;

/// Claims that are being collected.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) epoch: u64,
    since: Duration,
    asked: BTreeSet<NodeId>,
    pub(super) answers: BTreeMap<NodeId, Claimed>,
    /// What servers said after their answers. It is not of the same moment, so it waits.
    pub(super) later: BTreeMap<NodeId, Claimed>,
    /// Something changed that this collection does not regard.
    pub(super) again: bool,
}

impl Collection {
    /// True if that server was asked.
    pub(super) fn asked(&self, id: &NodeId) -> bool {
        self.asked.contains(id)
    }

    /// True if some server that was asked has not answered. Nobody else's answer is taken.
    pub(super) fn waits(&self) -> bool {
        // Most answers leave others to be waited for.
        self.answers.len() < self.asked.len()
            || self.asked.iter().any(|id| !self.answers.contains_key(id))
    }
}

/// What a word about claims leads to.
enum Taking {
    /// Nothing, or no more than that a collection may end.
    Not,
    /// A word before it got lost: all servers are asked.
    Gap,
    /// It waits for the end of the collection.
    Later,
    /// The pieces of these keys may be elsewhere.
    Some(BTreeSet<Key>),
}

impl Cluster {
    // ---- claims ---------------------------------------------------------------------------------

    /// A server says what it holds.
    pub(super) fn claims_came(
        &mut self,
        now: Duration,
        from: NodeId,
        word: &ClaimWord,
        out: &mut Vec<Action>,
    ) {
        let is_server = self.node(from).is_some_and(|node| node.role == Role::Server);
        if !is_server || self.is_gone(from) {
            return;
        }
        self.note_claimed(from, word, out);
        match self.take_claims(from, word) {
            Taking::Not => {}
            Taking::Gap => self.collect_soon(now, out),
            Taking::Later => self.forget_not_begun(from, word.epoch, out),
            Taking::Some(keys) => {
                self.forget_not_begun(from, word.epoch, out);
                self.replace_pieces_of(&keys, out);
                self.empty_drained(out);
            }
        }
        self.go_on(now, out);
    }

    /// Takes in all that a server holds, or what is new of that.
    fn take_claims(&mut self, from: NodeId, word: &ClaimWord) -> Taking {
        let books = &mut self.elastic.books;
        let Difference { number, since, gone } = &word.difference;
        let says_all = *since == 0;
        if let Some(collection) = &mut books.collection
            && !collection.answers.contains_key(&from)
        {
            // What is new is no answer. The answer will say all.
            if says_all && collection.epoch == word.epoch && collection.asked.contains(&from) {
                collection.answers.insert(from, Claimed::new(&word.claims));
                books.told.insert(from, *number);
            }
            return Taking::Not;
        }
        if !says_all && books.told.get(&from) != Some(since) {
            return Taking::Gap;
        }
        books.told.insert(from, *number);
        let take = |known: &mut Claimed| match says_all {
            true => known.take_all(Claimed::new(&word.claims)),
            false => known.take_news(&word.claims, gone),
        };
        match &mut books.collection {
            Some(Collection { answers, later, .. }) => {
                let answered = || answers.get(&from).cloned().unwrap_or_default();
                take(later.entry(from).or_insert_with(answered));
                Taking::Later
            }
            None => Taking::Some(books.claims.take(from, take)),
        }
    }

    /// The first claims of a server, and of each key, are in the journal.
    fn note_claimed(&mut self, from: NodeId, word: &ClaimWord, out: &mut Vec<Action>) {
        let books = &mut self.elastic.books;
        // Who keeps values in another way than the others can neither give them any nor take
        // theirs.
        let mut others = books.claims.by_server().keys();
        let odd = !books.claimed.contains(&from)
            && others.any(|id| books.opaque.contains(id) != word.opaque);
        if let Some(text) = if odd { Some(ODD) } else { word.fixed.as_deref() } {
            if books.fixed.insert(from, text.to_owned()).is_none() {
                let about = About { id: from, text: text.to_owned() };
                out.push(Action::Record(Record::new(Change::Fixed(about))));
                self.forget_keys_of(from, out);
                if odd {
                    let text = format!("what {} has cannot move: {ODD}", self.describe(from));
                    Self::say(out, NewEvent::warning(JobEventKind::Node, text).of(from));
                }
                if self.a_server_misses_workers(out) {
                    return;
                }
            }
            let books = &mut self.elastic.books;
            if let Some(collection) = &mut books.collection {
                collection.asked.remove(&from);
                collection.answers.remove(&from);
            }
            return;
        }
        if word.opaque {
            books.opaque.insert(from);
        }
        if books.claimed.insert(from) {
            out.push(Action::Record(Record::new(Change::Claimed(from))));
        }
        let mut keys = Keys::default();
        for claim in word.claims.iter().filter(|claim| is_sound(claim)) {
            let known = books.pieces.entry(claim.key).or_default();
            if known.length < claim.length {
                known.length = claim.length;
                keys.keys.insert(claim.key, claim.length);
            }
        }
        if !keys.keys.is_empty() {
            out.push(Action::Record(Record::new(Change::Keys(keys))));
        }
    }

    /// What that server has does not move from now on: it is nothing that could be missed.
    fn forget_keys_of(&mut self, id: NodeId, out: &mut Vec<Action>) {
        let books = &mut self.elastic.books;
        books.claims.remove(id);
        let mut keys = Keys::default();
        books.pieces.retain(|key, known| {
            let its = known.pieces.iter().any(|piece| piece.owner == id);
            if its {
                keys.keys.insert(*key, 0);
            }
            !its
        });
        if !keys.keys.is_empty() {
            books.tenures.retain(|key, _| !keys.keys.contains_key(key));
            books.pieces_number += 1;
            out.push(Action::Record(Record::new(Change::Keys(keys))));
        }
    }

    pub(super) fn replace_pieces(&mut self, out: &mut Vec<Action>) {
        let books = &self.elastic.books;
        let claims = books.claims.by_server().iter();
        let claims = claims.flat_map(|(id, claimed)| claimed.iter().map(move |claim| (*id, claim)));
        let placed = place(claims, books.pieces.iter());
        self.set_pieces(placed, None, out);
        let done = self.forget_done_orders(None, out);
        self.tell_routes(&done, out);
    }

    /// As [`Self::replace_pieces`], where claims of no other keys are new.
    fn replace_pieces_of(&mut self, keys: &BTreeSet<Key>, out: &mut Vec<Action>) {
        let books = &mut self.elastic.books;
        let claims = books.claims.of_keys(keys);
        let known = |key: &Key| Some((*key, books.pieces.get(key)?.clone()));
        let former: Pieces = keys.iter().filter_map(known).collect();
        let placed = place(claims.iter().map(|(id, claim)| (*id, claim)), former.iter());
        let changed = tenures::changes(&former, &placed, &books.orders.of_keys(keys), None);
        if placed != former {
            books.pieces_number += 1;
        }
        books.pieces.extend(placed);
        self.note_tenures(changed, out);
        let done = self.forget_done_orders(Some(keys), out);
        self.tell_routes(&done, out);
        self.look_at(keys);
    }

    /// Where all pieces are from now on; `epoch` is that of the policy that says so, if one does.
    /// What came to another owner is in the journal.
    pub(super) fn set_pieces(&mut self, pieces: Pieces, epoch: Option<u64>, out: &mut Vec<Action>) {
        let books = &mut self.elastic.books;
        let changed = tenures::changes(&books.pieces, &pieces, &books.orders.all(), epoch);
        books.pieces = pieces;
        books.pieces_number += 1;
        self.note_tenures(changed, out);
        self.look_at(self.elastic.books.pieces.keys());
    }

    fn note_tenures(&mut self, changed: Tenures, out: &mut Vec<Action>) {
        if !changed.is_empty() {
            tenures::note(&mut self.elastic.books.tenures, &changed);
            out.push(Action::Record(Record::new(Change::Taken(Taken { keys: changed }))));
        }
    }

    // ---- collecting -----------------------------------------------------------------------------

    /// Asks all servers; if that was being done, begins anew. Who serves is changed when all have
    /// answered.
    pub(super) fn collect(&mut self, now: Duration, out: &mut Vec<Action>) {
        if self.failure.is_some() {
            return;
        }
        let serving = self.elastic.policy.servers.iter().copied();
        let books = &self.elastic.books;
        let able = books.joining.intersection(&books.claimed).copied();
        let asked: BTreeSet<NodeId> = serving
            .chain(able)
            .filter(|id| !self.is_gone(*id) && !books.fixed.contains_key(id))
            .collect();
        self.elastic.books.epoch += 1;
        let epoch = self.elastic.books.epoch;
        out.push(Action::Record(Record::new(Change::Epoch(epoch))));
        self.elastic.books.collection = Some(Collection {
            epoch,
            since: now,
            asked: asked.clone(),
            answers: BTreeMap::new(),
            later: BTreeMap::new(),
            again: false,
        });
        let joined = self.who_joined();
        for id in asked {
            self.ask(id, &joined, out);
        }
        self.go_on(now, out);
    }

    /// Something changed: there is to be another policy.
    pub(super) fn collect_soon(&mut self, now: Duration, out: &mut Vec<Action>) {
        match &mut self.elastic.books.collection {
            Some(collection) => collection.again = true,
            None => self.collect(now, out),
        }
    }

    fn ask(&mut self, id: NodeId, joined: &[Node], out: &mut Vec<Action>) {
        let Some(collection) = &self.elastic.books.collection else { return };
        let epoch = collection.epoch;
        let lost = self.lost_servers();
        let text = self.why_lost(&lost);
        self.tell_who_joined(id, joined, out);
        self.word(id, Word::Collect { epoch, lost, text }, out);
    }

    /// A server that has not answered may not have heard.
    pub(super) fn ask_again(&mut self, now: Duration, id: NodeId, out: &mut Vec<Action>) {
        let waits = self.elastic.books.collection.as_ref().is_some_and(|collection| {
            collection.asked.contains(&id)
                && !collection.answers.contains_key(&id)
                && now >= collection.since.saturating_add(ASK_AGAIN)
        });
        if waits {
            self.ask(id, &self.who_joined(), out);
        }
    }

    /// A server that lives but does not say what it holds is as good as dead.
    pub(super) fn check_collection(&mut self, now: Duration, out: &mut Vec<Action>) {
        let limit = self.config.silence_limit;
        let silent = self.elastic.books.collection.as_ref().and_then(|collection| {
            let over = now >= collection.since.saturating_add(limit);
            let silent = |id: &&NodeId| !collection.answers.contains_key(*id);
            collection.asked.iter().filter(|_| over).find(silent).copied()
        });
        if let Some(id) = silent {
            let reason = format!("it did not say what it holds for {} s", limit.as_secs());
            self.node_lost(now, id, &reason, out);
        }
    }

    /// Does what can be done now: ends the collection if all have answered, else looks whether a
    /// server is ready to join or to leave.
    pub(super) fn go_on(&mut self, now: Duration, out: &mut Vec<Action>) {
        let collection = self.elastic.books.collection.as_ref();
        let complete = collection.is_some_and(|collection| !collection.waits());
        if complete && let Some(collection) = self.elastic.books.collection.take() {
            return self.decide(now, collection, out);
        }
        if self.elastic.books.collection.is_none() && self.is_change_due() {
            self.collect(now, out);
        }
    }

    fn is_change_due(&self) -> bool {
        let books = &self.elastic.books;
        let joins = books.joining.iter().any(|id| books.claimed.contains(id));
        let drains = books.draining.iter().any(|id| {
            !self.elastic.policy.draining.contains(id)
                || self.is_empty(*id, books.claims.by_server())
        });
        let changes = joins || drains || !books.returning.is_empty();
        (changes && self.all_have_claimed()) || self.has_many_replaced_orders()
    }

    /// Before every server has said whether its values can move, nothing is changed that can wait.
    fn all_have_claimed(&self) -> bool {
        let books = &self.elastic.books;
        let said = |id: &NodeId| books.claimed.contains(id) || books.fixed.contains_key(id);
        self.elastic.policy.servers.iter().all(said)
    }

    // ---- death ----------------------------------------------------------------------------------

    /// Scheduler: a server of an elastic job is dead. The job goes on if what it had is elsewhere.
    pub(super) fn server_lost(
        &mut self,
        now: Duration,
        id: NodeId,
        text: &str,
        out: &mut Vec<Action>,
    ) {
        let about = About { id, text: text.to_owned() };
        out.push(Action::Record(Record::new(Change::Lost(about))));
        let keeps_keys = self.is_opaque(id) && self.may_have_keys(id);
        let books = &mut self.elastic.books;
        books.claims.remove(id);
        books.told.remove(&id);
        books.draining.remove(&id);
        if !books.joining.remove(&id) {
            let why = match books.fixed.get(&id) {
                Some(why) => Some(format!("what it kept does not move ({why})")),
                None if !books.claimed.contains(&id) => {
                    Some("it has never said what it holds".to_owned())
                }
                None if keeps_keys => Some(NO_COPIES.to_owned()),
                None => None,
            };
            let nobody = self.elastic.policy.servers.iter().all(|id| self.is_gone(*id));
            if let Some(why) = why.or_else(|| nobody.then(|| "no server is left".to_owned())) {
                let failure =
                    JobFailure { kind: JobFailureKind::PeerLost, text: format!("{text}; {why}") };
                return self.fail_everywhere(id, failure, out);
            }
        }
        self.settle_barriers(out);
        self.collect(now, out);
    }

    /// True if an application's own handler keeps what that server has. After a restart of the
    /// scheduler the server has perhaps not said so yet, but the keys are in the journal.
    fn is_opaque(&self, id: NodeId) -> bool {
        let books = &self.elastic.books;
        books.opaque.contains(&id) || books.pieces.values().any(|key| key.length == OPAQUE_END)
    }

    /// True if that server owns something, or something is on its way there, or new keys go there.
    fn may_have_keys(&self, id: NodeId) -> bool {
        let books = &self.elastic.books;
        let mut pieces = books.pieces.values().flat_map(|key| &key.pieces);
        self.elastic.policy.homes.contains(&id)
            || pieces.any(|piece| piece.owner == id || piece.leaving_to == Some(id))
            || books.orders.may_give_to(id)
    }

    /// What the dead may have had without anybody's knowing: keys that were made after their last
    /// claims. With one copy of each these are safe as long as the one that held the copies lives.
    pub(super) fn unknown_losses(&self, answers: &BTreeMap<NodeId, Claimed>) -> Option<String> {
        let policy = &self.elastic.policy;
        let died: Vec<NodeId> =
            policy.servers.iter().filter(|id| self.lost.contains_key(id)).copied().collect();
        let copies = |of: NodeId| {
            let mut all = answers.values().flat_map(Claimed::iter);
            all.any(|claim| claim.peer == of)
        };
        if died.len() <= policy.replicas as usize {
            return None;
        }
        let gone = died.iter().find(|id| policy.homes.contains(id) && !copies(**id))?;
        Some(format!("nobody has a copy of the keys that were new at {}", self.describe(*gone)))
    }

    pub(super) fn fail_for_lost_values(&mut self, lost: &str, out: &mut Vec<Action>) {
        let servers = &self.elastic.policy.servers;
        let died: Vec<NodeId> =
            servers.iter().filter(|id| self.lost.contains_key(id)).copied().collect();
        let reasons: Vec<String> =
            died.iter().filter_map(|id| self.lost.get(id)).map(|(_, text)| text.clone()).collect();
        let kept = match self.elastic.policy.replicas {
            0 => ", since no copies were kept (PSLITE_ELASTIC, PSLITE_REPLICAS)",
            _ => "",
        };
        let text = format!("{}; {lost}{kept}", reasons.join("; "));
        let about = died.first().copied().unwrap_or(crate::wire::EMPTY);
        self.fail_everywhere(about, JobFailure { kind: JobFailureKind::PeerLost, text }, out);
    }
}

/// Lost parts, for people. `servers`: by whose number the application has cut keys.
pub(super) fn named(lost: &[Lost], servers: usize) -> String {
    let part = |lost: &Lost| match lost.to {
        OPAQUE_END => format!("0.. of key {}", KeyName::of_handler(lost.key, servers)),
        to => format!("{}..{to} of key {}", lost.from, KeyName::of(lost.key, servers)),
    };
    format!(
        "no server has the elements {} any more",
        text::few_of(lost.iter().map(part), PARTS_NAMED_MAX)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_keys_are_named_as_their_application_counts_them() {
        let begin = u64::MAX / 2;
        let lost = |key, to| Lost { key, from: 0, to };
        let text = named(&[lost(3, 8), lost(begin + 3, 8), lost(begin + (1 << 40) + 3, 8)], 2);
        assert_eq!(
            text,
            "no server has the elements 0..8 of key 3, 0..8 of key 3, 0..8 of key 3 of customer 1 \
             any more"
        );
        // A handler knows no spaces.
        let text = named(&[lost(begin + (1 << 40), OPAQUE_END)], 2);
        assert!(text.contains("0.. of key 1099511627776 any more"), "{text}");
    }
}
