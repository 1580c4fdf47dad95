//! Where every piece is, as servers claim it (`docs/elastic.md`, "Death", step 2): pure functions
//! over intervals of elements, with neither time nor messages.
//!
//! [`place`] says which claim is right for each element; [`resolve`] also lets a copy take the
//! place of an owner that is dead, and finds what nobody has.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::claimed::Claimed;
use super::tenures::{Tenure, Tenures, orders_by_key};
use crate::wire::elastic::{Claim, Holding, KeyRoute, Order, Route};
use crate::wire::{Key, NodeId};

/// Terms that one policy can give out: a policy's own are its epoch times that.
pub const TERMS_PER_EPOCH: u64 = 1 << 32;

/// The term of what a policy puts where it was not: above all that the dead can have told anybody.
#[must_use]
pub const fn takeover_term(epoch: u64) -> u64 {
    epoch.saturating_mul(TERMS_PER_EPOCH)
}

/// One piece and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The wire key.
    pub key: Key,
    /// The first element.
    pub from: u64,
    /// One past the last element.
    pub to: u64,
    /// How often its owner or its borders have changed.
    pub term: u64,
    /// Rounds applied.
    pub version: u64,
    /// Who has it.
    pub owner: NodeId,
    /// Where it is on its way to, if it is.
    pub leaving_to: Option<NodeId>,
    /// Bytes of its values.
    pub bytes: u64,
    /// Bytes of all else that moves with it.
    pub state_bytes: u64,
    /// Cuts are possible at multiples of that many elements; 0: it is indivisible.
    pub align: u64,
    /// A replica has all that was answered.
    pub safe: bool,
}

impl Piece {
    /// All that moves with it, in bytes.
    #[must_use]
    pub const fn weight(&self) -> u64 {
        self.bytes.saturating_add(self.state_bytes)
    }

    /// What others are told of it.
    #[must_use]
    pub const fn route(&self) -> KeyRoute {
        let route = Route { from: self.from, to: self.to, term: self.term, owner: self.owner };
        KeyRoute { key: self.key, route }
    }
}

/// A key and what is known of its pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPieces {
    /// Elements of the whole wire key.
    pub length: u64,
    /// Its pieces, ascending and disjoint.
    pub pieces: Vec<Piece>,
}

/// All pieces of a job, by key.
pub type Pieces = BTreeMap<Key, KeyPieces>;

/// A part of a key that no server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The wire key.
    pub key: Key,
    /// The first element.
    pub from: u64,
    /// One past the last element.
    pub to: u64,
}

/// What [`resolve`] judges by.
#[derive(Clone, Copy, Debug)]
pub struct ClaimEvidence<'a> {
    /// What each server that lives holds. Who is not here is dead.
    pub claims: &'a BTreeMap<NodeId, Claimed>,
    /// All that was ever known of keys and their pieces.
    pub former: &'a Pieces,
    /// Orders, and who had them, of which it is not known that they were carried out, nor that they
    /// will not be.
    pub orders: &'a [(NodeId, Order)],
    /// Since when pieces are whose.
    pub tenures: &'a Tenures,
    /// Copies that are kept of each piece.
    pub replicas: u32,
    /// The epoch of the policy that is being made.
    pub epoch: u64,
}

/// Who has what, after somebody died.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// All pieces. Those that change hands have the term of the policy.
    pub pieces: Pieces,
    /// What nobody has.
    pub lost: Vec<Lost>,
}

/// True if the claim makes sense: a piece of a key, held in a way that is known.
#[must_use]
pub fn is_sound(claim: &Claim) -> bool {
    claim.from < claim.to
        && claim.to <= claim.length
        && claim.term > 0
        && Holding::try_from(claim.holding).is_ok()
}

/// Where all pieces are while nobody has died: of owners' claims, and of claims of those who are
/// giving a piece away, that with the highest term is right. What is on its way, and claimed by
/// neither side at the moment, stays where `former` has it; so do the lengths of all keys.
#[must_use]
pub fn place<'a>(
    claims: impl Iterator<Item = (NodeId, &'a Claim)>,
    former: impl Iterator<Item = (&'a Key, &'a KeyPieces)>,
) -> Pieces {
    let placed = keys(claims, former).into_iter().map(|(key, found)| {
        let pieces = found.pieces(
            &[],
            |held| !held.is(Holding::Replica),
            |segment| match (segment.best, segment.former) {
                (Some(best), Some(former)) if former.term > best.claim.term => Ruling::Former,
                (None, Some(_)) => Ruling::Former,
                (Some(_), _) => Ruling::Claim { takes_over: false },
                (None, None) => Ruling::Nobody,
            },
        );
        (
            key,
            KeyPieces {
                length: found.length,
                pieces: pieces.into_iter().filter_map(Result::ok).collect(),
            },
        )
    });
    placed.collect()
}

/// Says for each element of each key who is its owner from now on.
#[must_use]
pub fn resolve(evidence: ClaimEvidence<'_>) -> Resolution {
    let lives = |node: NodeId| evidence.claims.contains_key(&node);
    let mut resolution = Resolution::default();
    let orders = orders_by_key(evidence.orders);
    let claims = evidence.claims.iter();
    let claims = claims.flat_map(|(id, claimed)| claimed.iter().map(move |claim| (*id, claim)));
    for (key, found) in keys(claims, evidence.former.iter()) {
        let orders = orders.get(&key).map_or(&[][..], Vec::as_slice);
        let tenures = evidence.tenures.get(&key).map_or(&[][..], |tenures| &tenures.parts);
        let ordered = orders.iter().flat_map(|(_, order)| [order.from, order.to]);
        let borders: Vec<u64> =
            ordered.chain(tenures.iter().flat_map(|part| [part.from, part.to])).collect();
        let may_win = |held: &HeldClaim| match held.holding {
            Holding::Owner => true,
            // Where nothing is kept twice, the one it went to may have changed it since.
            Holding::Leaving => lives(held.claim.peer) || evidence.replicas > 0,
            // An owner that lives would claim it: so it has given it away since.
            Holding::Replica => !lives(held.claim.peer),
        };
        let pieces = found.pieces(&borders, may_win, |segment| match segment.best {
            Some(best) if !is_stale(best, segment, orders, tenures, lives) => {
                let stays = best.is(Holding::Owner)
                    || (best.is(Holding::Leaving) && lives(best.claim.peer));
                Ruling::Claim { takes_over: !stays }
            }
            _ => Ruling::Nobody,
        });
        let mut has = KeyPieces { length: found.length, pieces: Vec::new() };
        for part in pieces {
            match part {
                Ok(piece) if piece.term == TAKES_OVER => {
                    let term = takeover_term(evidence.epoch);
                    has.pieces.push(Piece { term, leaving_to: None, safe: false, ..piece });
                }
                Ok(piece) => has.pieces.push(piece),
                Err((from, to)) => resolution.lost.push(Lost { key, from, to }),
            }
        }
        resolution.pieces.insert(key, has);
    }
    resolution
}

/// A copy of what a dead server had given away before it died, or may have: whoever got it may have
/// changed it since.
///
/// The server that has the copy may be known as the owner itself: if a policy said that it takes
/// the piece over, and it has not heard of that. If it had, it would have forgotten the copy, and
/// would own the piece, or have been ordered to give it away.
fn is_stale(
    best: &HeldClaim,
    segment: &ClaimedSegment<'_>,
    orders: &[(NodeId, Order)],
    tenures: &[Tenure],
    lives: impl Fn(NodeId) -> bool,
) -> bool {
    if !best.is(Holding::Replica) {
        return false;
    }
    let (dead, term) = (best.claim.peer, best.claim.term);
    let may_have_given = |who: NodeId| {
        orders.iter().any(|(giver, order)| {
            let overlaps = order.from < segment.to && segment.from < order.to;
            overlaps && *giver == who && order.owner != who && !lives(order.owner)
        })
    };
    let may_be_changed_at = |owner: NodeId| owner != best.server || may_have_given(owner);
    let went_on = |former: &Piece| {
        former.term > term && former.owner != dead && may_be_changed_at(former.owner)
    };
    // What came to the dead, or came back to it, after the copy was made: that is one of an earlier
    // time there.
    let came_later = |part: &Tenure| match part.owner == dead {
        true => part.since > term,
        false => part.term > term && may_be_changed_at(part.owner),
    };
    segment.former.is_some_and(went_on)
        || segment.tenure_in(tenures).is_some_and(came_later)
        || may_have_given(dead)
}

/// A claim and who makes it.
#[derive(Clone, Copy, Debug)]
struct HeldClaim {
    server: NodeId,
    holding: Holding,
    claim: Claim,
}

impl HeldClaim {
    fn is(&self, holding: Holding) -> bool {
        self.holding == holding
    }

    /// The better of two has the greater rank.
    fn rank(&self) -> (u64, Holding, u64, Reverse<NodeId>) {
        (self.claim.term, self.holding, self.claim.version, Reverse(self.server))
    }

    /// A part of it.
    fn piece(&self, from: u64, to: u64) -> Piece {
        let whole = u128::from(self.claim.to - self.claim.from).max(1);
        // Not more than `bytes`: a part of a whole.
        let part = |bytes: u64| (u128::from(bytes) * u128::from(to - from) / whole) as u64;
        Piece {
            key: self.claim.key,
            from,
            to,
            term: self.claim.term,
            version: self.claim.version,
            owner: self.server,
            leaving_to: self.is(Holding::Leaving).then_some(self.claim.peer),
            bytes: part(self.claim.bytes),
            state_bytes: part(self.claim.state_bytes),
            align: self.claim.align,
            safe: self.claim.safe,
        }
    }
}

/// All that is claimed, and was known, of one key.
struct ClaimedKey<'a> {
    length: u64,
    held: Vec<HeldClaim>,
    former: &'a [Piece],
}

/// Elements between two neighbouring borders.
struct ClaimedSegment<'a> {
    from: u64,
    to: u64,
    best: Option<&'a HeldClaim>,
    former: Option<&'a Piece>,
}

impl ClaimedSegment<'_> {
    fn tenure_in<'t>(&self, tenures: &'t [Tenure]) -> Option<&'t Tenure> {
        let at = tenures.partition_point(|part| part.to <= self.from);
        tenures.get(at).filter(|part| part.from <= self.from)
    }
}

/// Who is right about a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ruling {
    /// The best claim.
    Claim {
        /// Its server was not the owner so far.
        takes_over: bool,
    },
    /// What was known before.
    Former,
    Nobody,
}

/// Stands for the term of a policy, which those who claim do not know. No piece has it.
const TAKES_OVER: u64 = 0;

fn keys<'a>(
    claims: impl Iterator<Item = (NodeId, &'a Claim)>,
    former: impl Iterator<Item = (&'a Key, &'a KeyPieces)>,
) -> BTreeMap<Key, ClaimedKey<'a>> {
    let mut keys: BTreeMap<Key, ClaimedKey<'a>> = former
        .map(|(key, known)| {
            (*key, ClaimedKey { length: known.length, held: Vec::new(), former: &known.pieces })
        })
        .collect();
    for (server, claim) in claims.filter(|(_, claim)| is_sound(claim)) {
        let Ok(holding) = Holding::try_from(claim.holding) else { continue };
        let none = || ClaimedKey { length: 0, held: Vec::new(), former: &[] };
        let found = keys.entry(claim.key).or_insert_with(none);
        found.length = found.length.max(claim.length);
        found.held.push(HeldClaim { server, holding, claim: *claim });
    }
    keys
}

impl ClaimedKey<'_> {
    /// Goes through the key from begin to end. Neighbours about which the same is chosen are one
    /// piece; `Err` is a part of which nobody is chosen.
    fn pieces(
        &self,
        borders: &[u64],
        may_win: impl Fn(&HeldClaim) -> bool,
        choose: impl Fn(&ClaimedSegment<'_>) -> Ruling,
    ) -> Vec<Result<Piece, (u64, u64)>> {
        let mut runs: Vec<(Ruling, ClaimedSegment<'_>)> = Vec::new();
        self.sweep(borders, may_win, |segment| {
            let choice = choose(&segment);
            match runs.last_mut() {
                Some((last, run)) if *last == choice && same(choice, run, &segment) => {
                    run.to = segment.to;
                }
                _ => runs.push((choice, segment)),
            }
        });
        let piece =
            |(choice, run): (Ruling, ClaimedSegment<'_>)| match (choice, run.best, run.former) {
                (Ruling::Claim { takes_over }, Some(best), _) => {
                    let piece = best.piece(run.from, run.to);
                    Ok(if takes_over { Piece { term: TAKES_OVER, ..piece } } else { piece })
                }
                (Ruling::Former, _, Some(former)) => Ok(cut(former, run.from, run.to)),
                _ => Err((run.from, run.to)),
            };
        runs.into_iter().map(piece).collect()
    }

    /// Calls `segment` for all parts of the key, in order.
    fn sweep<'b>(
        &'b self,
        borders: &[u64],
        may_win: impl Fn(&HeldClaim) -> bool,
        mut segment: impl FnMut(ClaimedSegment<'b>),
    ) {
        let mut all: BTreeSet<u64> = borders.iter().copied().chain([0, self.length]).collect();
        let mut begins: Vec<(u64, usize)> = Vec::new();
        let mut ends: Vec<(u64, usize)> = Vec::new();
        for (index, held) in self.held.iter().enumerate().filter(|(_, held)| may_win(held)) {
            begins.push((held.claim.from, index));
            ends.push((held.claim.to, index));
            all.extend([held.claim.from, held.claim.to]);
        }
        all.extend(self.former.iter().flat_map(|piece| [piece.from, piece.to]));
        begins.sort_unstable();
        ends.sort_unstable();
        let (mut begins, mut ends) = (begins.into_iter().peekable(), ends.into_iter().peekable());
        let mut former = self.former.iter().peekable();
        let mut active = BTreeSet::new();
        let mut from = None;
        for border in all.into_iter().filter(|border| *border <= self.length) {
            if let Some(from) = from {
                while former.next_if(|piece: &&Piece| piece.to <= from).is_some() {}
                let best = active.last().map(|(_, index): &(_, usize)| &self.held[*index]);
                let known = former.peek().copied().filter(|piece| piece.from <= from);
                segment(ClaimedSegment { from, to: border, best, former: known });
            }
            while let Some((_, index)) = ends.next_if(|(at, _)| *at <= border) {
                active.remove(&(self.held[index].rank(), index));
            }
            while let Some((_, index)) = begins.next_if(|(at, _)| *at <= border) {
                active.insert((self.held[index].rank(), index));
            }
            from = Some(border);
        }
    }
}

/// True if two neighbours about which `choice` was made are parts of the same.
fn same(choice: Ruling, a: &ClaimedSegment<'_>, b: &ClaimedSegment<'_>) -> bool {
    match choice {
        Ruling::Claim { .. } => match (a.best, b.best) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            _ => false,
        },
        Ruling::Former => match (a.former, b.former) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            _ => false,
        },
        Ruling::Nobody => true,
    }
}

fn cut(piece: &Piece, from: u64, to: u64) -> Piece {
    let whole = u128::from(piece.to - piece.from).max(1);
    let part = |bytes: u64| (u128::from(bytes) * u128::from(to - from) / whole) as u64;
    Piece { from, to, bytes: part(piece.bytes), state_bytes: part(piece.state_bytes), ..*piece }
}
