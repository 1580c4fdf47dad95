//! What a store promises of itself, as code (`invariant`). Looks, and changes nothing. May touch
//! what the store may.
//!
//! - **Pieces.** Those that are here, and those that left and are kept, are disjoint: an element is
//!   here once. A value is as long as its piece.
//! - **Replicas hear in order.** A replica has confirmed no version that the piece has not had, and
//!   a piece has two copies at two servers at most.
//! - **Every wait has its reason.** An answer waits for a copy, or for a piece that is not settled;
//!   a parked request for a piece or a policy; a round for a push; what is told early for commands.
//! - **Sums and sets** are what a walk over all finds.
//!
//! Whether what others say of places fits what is here is no promise of this server alone: only the
//! simulation, where all follow the rules, looks at it too.
//!
//! In a job whose pieces do not move there are only whole pieces and rounds. What is checked of one
//! key costs no more than its pieces and what waits for it.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::kept::{Copy, Waiting};
use super::limits::{ANSWERS_WAITING_MAX, PIECES_MAX};
use super::requests::Place;
use super::state::Elastic;
use crate::invariant::{Valid, debug, disjoint, require};
use crate::store::pieces::tensor::{Copied, Layout, Piece, Tensor};
use crate::store::state::Store;
use crate::values::key_at;
use crate::wire::transfer::PieceName;
use crate::wire::{Key, NodeId};

/// Of what waits for one key so much is looked at, the oldest.
const WAITING_LOOKED_AT: usize = 256;

impl Store {
    /// All that the store promises, and that what others say fits it: while all follow the rules,
    /// nobody is said to have a newer piece of what is here.
    ///
    /// # Errors
    /// The first promise that does not hold, with the numbers.
    pub fn validate(&self) -> Valid {
        self.validate_own()?;
        self.tensors.keys().try_for_each(|key| self.validate_routes(*key))
    }

    /// What it promises whatever others say.
    fn validate_own(&self) -> Valid {
        self.keys().into_iter().try_for_each(|key| self.validate_key(key))?;
        self.stalls.validate(self.tensors.values().flat_map(|tensor| &tensor.pieces))?;
        self.elastic.as_ref().map_or(Ok(()), |elastic| elastic.validate())
    }

    /// A debug build looks at the keys that an entry touched.
    pub(in crate::store) fn look_at(&self, keys: impl IntoIterator<Item = Key>) {
        debug(|| keys.into_iter().try_for_each(|key| self.validate_key(key)));
    }

    /// A debug build looks at the key of a request; at both, if there are two in its frame.
    pub(in crate::store) fn look_at_request(&self, frames: &[Bytes]) {
        let keys = frames.first().map_or(&[][..], |keys| keys);
        self.look_at((0..2).filter_map(|index| key_at(keys, index)));
    }

    /// A debug build looks at all, after an entry that went over all keys.
    pub(in crate::store) fn look_at_all(&self) {
        debug(|| self.validate_own());
    }

    /// All keys of which anything is known.
    fn keys(&self) -> BTreeSet<Key> {
        let mut keys: BTreeSet<Key> = self.tensors.keys().copied().collect();
        if let Some(elastic) = &self.elastic {
            keys.extend(elastic.leaving.keys().chain(elastic.waiting.keys()));
            keys.extend(elastic.copies.keys().map(|(key, _)| key));
            keys.extend(elastic.routes.keys().chain(elastic.orders.keys()));
            keys.extend(elastic.parked.keys());
        }
        keys
    }

    /// What the store promises of one key.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn validate_key(&self, key: Key) -> Valid {
        let named = |broken: String| format!("key {key}: {broken}");
        let tensor = self.tensors.get(&key);
        tensor.map_or(Ok(()), |tensor| self.validate_tensor(key, tensor)).map_err(named)?;
        let Some(elastic) = &self.elastic else { return Ok(()) };
        elastic.validate_key(key, tensor).map_err(named)?;
        self.validate_parked(elastic, key).map_err(named)
    }

    /// Nobody is said to have a newer piece of what is here.
    ///
    /// # Errors
    /// The first route that says so.
    pub fn validate_routes(&self, key: Key) -> Valid {
        let (Some(elastic), Some(tensor)) = (&self.elastic, self.tensors.get(&key)) else {
            return Ok(());
        };
        let routes = elastic.routes.get(&key).map_or(&[][..], |routes| routes.all());
        for route in routes.iter().filter(|route| route.owner != elastic.me) {
            let older = overlapping(&tensor.pieces, route.from, route.to)
                .find(|piece| piece.term < route.term);
            require(older.is_none(), || {
                let own = older.map(|piece| (piece.from, piece.to, piece.term));
                format!("key {key}: its piece {own:?} is here, and by {route:?} elsewhere since")
            })?;
        }
        Ok(())
    }

    fn validate_tensor(&self, key: Key, tensor: &Tensor) -> Valid {
        let Tensor { length, pieces } = tensor;
        require(!pieces.is_empty(), || "it has no piece, and is kept".to_owned())?;
        require(pieces.len() <= PIECES_MAX, || format!("it is in {} pieces", pieces.len()))?;
        disjoint(pieces.iter().map(|piece| (piece.from, piece.to)), *length)?;
        let quorum = self.quorum(key);
        for piece in pieces {
            let named = |broken: String| format!("piece {}..{}: {broken}", piece.from, piece.to);
            piece.validate().map_err(named)?;
            piece.round.validate(&quorum).map_err(named)?;
            let number = piece.round.number();
            require(number.is_none_or(|number| self.stalls.has(number, key, piece.from)), || {
                named(format!("its round {number:?} is none of those that wait"))
            })?;
            require(number.is_some() == piece.round.is_open(), || {
                named(format!("it has the place {number:?} among the rounds that wait"))
            })?;
        }
        Ok(())
    }

    /// What is parked would be parked again.
    fn validate_parked(&self, elastic: &Elastic, key: Key) -> Valid {
        for request in elastic.parked.of(key).take(WAITING_LOOKED_AT) {
            let waits = match self.place(key, request) {
                Ok(Place::Later) => true,
                Ok(Place::Within(index)) => {
                    let piece = self.tensors.get(&key).and_then(|tensor| tensor.pieces.get(index));
                    piece.is_some_and(|piece| piece.source.is_some())
                }
                _ => false,
            };
            require(waits, || {
                let (from, number) = (request.sender, request.timestamp);
                format!("request {number} of {from} is parked, and nothing keeps it")
            })?;
        }
        Ok(())
    }
}

impl Elastic {
    fn validate(&self) -> Valid {
        let Self { me, epoch, servers, lost, replica, collecting, draining, .. } = self;
        require(servers.windows(2).all(|pair| pair[0] < pair[1]), || {
            format!("the servers are not in order: {servers:?}")
        })?;
        require(collecting.is_none_or(|expected| expected > *epoch), || {
            format!("policy {collecting:?} is expected, and policy {epoch} is known")
        })?;
        require(self.unsaid.is_none() || collecting.is_some(), || {
            "confirmations wait for a policy, and none is expected".to_owned()
        })?;
        let able = |server: &NodeId| {
            // A dead one is the replica until the policy comes that says so.
            (servers.contains(server) && !draining.contains(server)) || lost.contains(server)
        };
        require(replica.is_none_or(|replica| replica != *me && able(&replica)), || {
            format!("the replica of {me} is {replica:?}; the servers are {servers:?}")
        })?;
        self.parked.validate()?;
        self.seeds.validate()?;
        self.validate_commands()
    }

    fn validate_key(&self, key: Key, tensor: Option<&Tensor>) -> Valid {
        let pieces = tensor.map_or(&[][..], |tensor| &tensor.pieces);
        self.routes.get(&key).map_or(Ok(()), |routes| routes.validate())?;
        self.validate_others(pieces)?;
        self.validate_leaving(key, pieces)?;
        self.validate_waiting(key, pieces)?;
        let of_key = self.copies.range((key, NodeId::MIN)..=(key, NodeId::MAX));
        for ((_, owner), copies) in of_key {
            let named = |broken: String| format!("its copies for {owner}: {broken}");
            self.validate_copies(*owner, copies).map_err(named)?;
        }
        Ok(())
    }

    /// What is here has a term, and came from others and is copied to others only.
    fn validate_others(&self, pieces: &[Piece]) -> Valid {
        for piece in pieces {
            let Piece { from, to, term, copied, former_copy, source, .. } = piece;
            require(*term > 0, || format!("piece {from}..{to} has no term"))?;
            let others = [
                copied.at(),
                former_copy.map(|former| former.at),
                source.map(|source| source.server),
            ];
            require(!others.contains(&Some(self.me)), || {
                format!("piece {from}..{to} of {} came from, or is copied to, itself", self.me)
            })?;
        }
        Ok(())
    }

    fn validate_leaving(&self, key: Key, pieces: &[Piece]) -> Valid {
        let Some(leaving) = self.leaving.get(&key) else { return Ok(()) };
        require(!leaving.is_empty(), || "nothing is leaving, and it is listed".to_owned())?;
        let mut ranges: Vec<(u64, u64)> =
            leaving.iter().map(|gone| (gone.piece().from, gone.piece().to)).collect();
        ranges.sort_unstable();
        disjoint(ranges, u64::MAX).map_err(|broken| format!("of what is leaving {broken}"))?;
        for gone in leaving {
            let PieceName { from, to, term, .. } = gone.written.piece;
            require(gone.to != self.me, || format!("{from}..{to} leaves for where it is"))?;
            require(gone.term + 1 == term, || {
                format!("{from}..{to} left under {term}, not {} + 1", gone.term)
            })?;
            let here = overlapping(pieces, from, to).next();
            require(here.is_none(), || {
                format!("{from}..{to} has left for {}, and a part of it is here", gone.to)
            })?;
        }
        Ok(())
    }

    /// What would release an answer has not come.
    fn validate_waiting(&self, key: Key, pieces: &[Piece]) -> Valid {
        let Some(all) = self.waiting.get(&key) else { return Ok(()) };
        require(!all.is_empty(), || "no answer waits, and it is listed".to_owned())?;
        require(all.len() <= ANSWERS_WAITING_MAX, || {
            format!("{} rounds wait for copies", all.len())
        })?;
        let leaving = self.leaving.get(&key).map_or(&[][..], Vec::as_slice);
        for &Waiting { from, to, version, .. } in all.iter().take(WAITING_LOOKED_AT) {
            let withheld = overlapping(pieces, from, to).any(|piece| piece.withholds(version));
            let copied = leaving.iter().any(|gone| {
                gone.copy.is_some() && gone.piece().from < to && from < gone.piece().to
            });
            require(withheld || copied, || {
                format!("answers about version {version} of {from}..{to} wait for nothing")
            })?;
        }
        Ok(())
    }

    fn validate_copies(&self, owner: NodeId, copies: &[Copy]) -> Valid {
        require(!copies.is_empty(), || "there are none, and they are listed".to_owned())?;
        require(owner != self.me, || "it is its own replica".to_owned())?;
        let length = copies.first().map_or(0, |copy| copy.length);
        let mut ranges: Vec<(u64, u64)> =
            copies.iter().map(|copy| (copy.piece.from, copy.piece.to)).collect();
        ranges.sort_unstable();
        disjoint(ranges, length)?;
        copies.iter().try_for_each(|copy| copy.piece.validate())
    }
}

impl Piece {
    /// What a piece promises, wherever it is kept.
    fn validate(&self) -> Valid {
        let unit = match self.layout {
            Layout::Dense => 1,
            Layout::Rows { row_len } => row_len,
        };
        let (bytes, elements) = (self.value.buffer().len(), self.length() * unit);
        require(bytes == elements * self.dtype.size(), || {
            format!("{bytes} bytes are the value of {elements} elements of {:?}", self.dtype)
        })?;
        let master = self.master.as_ref().map(|master| master.len());
        require(master.is_none_or(|bytes| bytes == elements * size_of::<f32>()), || {
            format!("{master:?} bytes are the float32 copy of {elements} elements")
        })?;
        self.marks.validate()?;
        self.validate_replicas()
    }

    fn validate_replicas(&self) -> Valid {
        let former = self.former_copy;
        if let Copied::Sent { to, since, confirmed } = self.copied {
            require(confirmed <= Some(self.version), || {
                format!("{to} has version {confirmed:?} of {}", self.version)
            })?;
            require(since <= self.term, || {
                format!("{to} has had it since term {since}, and it has term {}", self.term)
            })?;
            require(former.is_none_or(|former| former.at != to), || {
                format!("{to} is its replica, and was that before")
            })?;
        }
        require(former.is_none_or(|former| former.confirmed <= Some(self.version)), || {
            format!("the former copy {former:?} is newer than version {}", self.version)
        })
    }
}

/// The pieces, in order, that have elements of `from..to`.
fn overlapping(pieces: &[Piece], from: u64, to: u64) -> impl Iterator<Item = &Piece> {
    let first = pieces.partition_point(|piece| piece.to <= from);
    pieces[first..].iter().take_while(move |piece| piece.from < to)
}
