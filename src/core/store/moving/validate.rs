//! What is promised of pieces that move, as code (`invariant`). Looks, and changes nothing.

use std::collections::BTreeSet;

use super::kept::Waiting;
use super::limits::ANSWERS_WAITING_MAX;
use super::mover::Whereabouts;
use super::servers::Place;
use super::state::Elsewhere;
use crate::invariant::{Valid, disjoint, require};
use crate::store::pieces::tensor::Piece;
use crate::wire::Key;
use crate::wire::transfer::PieceName;

/// Of what waits for one key so much is looked at, the oldest.
const WAITING_LOOKED_AT: usize = 256;

impl Whereabouts<'_> {
    /// What is promised of one key.
    pub(in crate::store) fn validate_key(self, key: Key) -> Valid {
        self.known.validate_key(key, self.held.pieces_of(key))?;
        self.validate_parked(key)
    }

    /// Nobody is said to have a newer piece of what is here.
    ///
    /// # Errors
    /// The first route that says so.
    pub(in crate::store) fn validate_routes(self, key: Key) -> Valid {
        let routes = self.known.routes.get(&key).map_or(&[][..], |routes| routes.all());
        for route in routes.iter().filter(|route| route.owner != self.known.servers.me) {
            let older = overlapping(self.held.pieces_of(key), route.from, route.to)
                .find(|piece| piece.term < route.term);
            require(older.is_none(), || {
                let own = older.map(|piece| (piece.from, piece.to, piece.term));
                format!("its piece {own:?} is here, and by {route:?} elsewhere since")
            })?;
        }
        Ok(())
    }

    /// What is parked would be parked again.
    fn validate_parked(self, key: Key) -> Valid {
        for request in self.known.parked.of(key).take(WAITING_LOOKED_AT) {
            let waits = match self.place(key, request) {
                Ok(Place::Later) => true,
                Ok(Place::Within(index)) => {
                    let piece = self.held.pieces_of(key).get(index);
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

impl Elsewhere {
    /// All keys of which anything is known.
    pub(in crate::store) fn keys(&self) -> BTreeSet<Key> {
        let mut keys: BTreeSet<Key> =
            self.leaving.keys().chain(self.waiting.keys()).copied().collect();
        keys.extend(self.copies.of.keys().map(|(key, _)| key));
        keys.extend(self.routes.keys().chain(self.orders.keys()));
        keys.extend(self.parked.keys());
        keys
    }

    /// What is promised of all keys together.
    pub(in crate::store) fn validate(&self) -> Valid {
        self.servers.validate()?;
        let collecting = self.servers.collecting;
        require(self.copies.unsaid.is_none() || collecting.is_some(), || {
            "confirmations wait for a policy, and none is expected".to_owned()
        })?;
        self.replica.validate(&self.servers)?;
        self.parked.validate()?;
        self.validate_commands()
    }

    fn validate_key(&self, key: Key, pieces: &[Piece]) -> Valid {
        self.routes.get(&key).map_or(Ok(()), |routes| routes.validate())?;
        self.validate_others(pieces)?;
        self.validate_leaving(key, pieces)?;
        self.validate_waiting(key, pieces)?;
        self.copies.validate_key(key, self.servers.me)
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
            require(!others.contains(&Some(self.servers.me)), || {
                format!(
                    "piece {from}..{to} of {} came from, or is copied to, itself",
                    self.servers.me
                )
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
            require(gone.to != self.servers.me, || format!("{from}..{to} leaves for where it is"))?;
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
}

/// The pieces, in order, that have elements of `from..to`.
fn overlapping(pieces: &[Piece], from: u64, to: u64) -> impl Iterator<Item = &Piece> {
    let first = pieces.partition_point(|piece| piece.to <= from);
    pieces[first..].iter().take_while(move |piece| piece.from < to)
}
