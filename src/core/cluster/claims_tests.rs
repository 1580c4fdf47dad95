//! The resolver against one that looks at each element by itself, and the cases of
//! `docs/elastic.md` by name.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::claimed::Claimed;
use super::claims::*;
use super::tenures::{KeyTenures, Tenure, Tenures};
use crate::wire::NodeId;
use crate::wire::elastic::{Claim, Holding, Order};

const KEY: u64 = 7;
const LENGTH: u64 = 12;
/// Of six servers those with the first ids live.
const SERVERS: [NodeId; 6] = [8, 10, 12, 14, 16, 18];

fn claim(holding: Holding, from: u64, to: u64, term: u64, version: u64, peer: NodeId) -> Claim {
    Claim {
        key: KEY,
        from,
        to,
        term,
        version,
        holding: holding as i32,
        length: LENGTH,
        bytes: 4 * (to - from),
        state_bytes: 8 * (to - from),
        align: 1,
        safe: true,
        peer,
    }
}

fn piece(owner: NodeId, from: u64, to: u64, term: u64) -> Piece {
    Piece {
        key: KEY,
        from,
        to,
        term,
        version: 0,
        owner,
        leaving_to: None,
        bytes: 4 * (to - from),
        state_bytes: 0,
        align: 1,
        safe: true,
    }
}

#[derive(Clone, Debug)]
struct Case {
    claims: BTreeMap<NodeId, Vec<Claim>>,
    former: Pieces,
    orders: Vec<(NodeId, Order)>,
    tenures: Tenures,
    replicas: u32,
    epoch: u64,
}

impl Case {
    fn new(claims: &[(NodeId, Claim)]) -> Self {
        let mut by_server: BTreeMap<NodeId, Vec<Claim>> = BTreeMap::new();
        for (server, claim) in claims {
            by_server.entry(*server).or_default().push(*claim);
        }
        let (former, tenures) = (Pieces::new(), Tenures::new());
        Self { claims: by_server, former, orders: Vec::new(), tenures, replicas: 1, epoch: 9 }
    }

    fn resolve(&self) -> Resolution {
        let claims = self.claims.iter().map(|(id, claims)| (*id, Claimed::new(claims))).collect();
        resolve(ClaimEvidence {
            claims: &claims,
            former: &self.former,
            orders: &self.orders,
            tenures: &self.tenures,
            replicas: self.replicas,
            epoch: self.epoch,
        })
    }

    /// Who owns each element, and under which term; `None` where it is lost.
    fn by_element(&self) -> Vec<Option<(NodeId, u64)>> {
        let resolution = self.resolve();
        let mut all = vec![None; LENGTH as usize];
        let pieces = resolution.pieces.get(&KEY).map_or(&[][..], |key| &key.pieces);
        let mut end = 0;
        for piece in pieces {
            assert!(piece.from >= end && piece.from < piece.to, "{pieces:?}");
            end = piece.to;
            for element in piece.from..piece.to {
                all[element as usize] = Some((piece.owner, piece.term));
            }
        }
        for lost in &resolution.lost {
            for element in lost.from..lost.to {
                assert_eq!(all[element as usize], None, "lost, and not lost");
                all[element as usize] = Some((0, 0));
            }
        }
        assert!(all.iter().all(Option::is_some) || pieces.is_empty(), "neither placed nor lost");
        all.into_iter().map(|owner| owner.filter(|(owner, _)| *owner != 0)).collect()
    }

    /// What `docs/elastic.md` says, for one element.
    fn expected(&self, element: u64) -> Option<(NodeId, u64)> {
        let lives = |id: NodeId| self.claims.contains_key(&id);
        let mut best: Option<(u64, i32, u64, NodeId, Claim)> = None;
        for (server, claims) in &self.claims {
            for claim in claims {
                let here = claim.from <= element && element < claim.to;
                let may = match Holding::try_from(claim.holding).unwrap() {
                    Holding::Owner => true,
                    Holding::Leaving => lives(claim.peer) || self.replicas > 0,
                    Holding::Replica => !lives(claim.peer),
                };
                let rank = (claim.term, claim.holding, claim.version, -server, *claim);
                let better =
                    best.is_none_or(|b| (rank.0, rank.1, rank.2, rank.3) > (b.0, b.1, b.2, b.3));
                if here && may && better {
                    best = Some(rank);
                }
            }
        }
        let (term, holding, _, server, claim) = best?;
        let owner = -server;
        if holding == Holding::Owner as i32
            || (holding == Holding::Leaving as i32 && lives(claim.peer))
        {
            return Some((owner, term));
        }
        if holding == Holding::Replica as i32 {
            let gone = |who: NodeId| {
                self.orders.iter().any(|(giver, order)| {
                    let about_it = order.from <= element && element < order.to;
                    *giver == who && order.owner != who && !lives(order.owner) && about_it
                })
            };
            let changed = |by: NodeId| by != owner || gone(owner);
            let former = self.former.get(&KEY).map_or(&[][..], |key| &key.pieces);
            let known = former.iter().find(|p| p.from <= element && element < p.to);
            if known.is_some_and(|p| p.term > term && p.owner != claim.peer && changed(p.owner)) {
                return None;
            }
            let tenures = self.tenures.get(&KEY).map_or(&[][..], |key| &key.parts);
            let tenure = tenures.iter().find(|t| t.from <= element && element < t.to);
            let later = |t: &Tenure| match t.owner == claim.peer {
                true => t.since > term,
                false => t.term > term && changed(t.owner),
            };
            if gone(claim.peer) || tenure.is_some_and(later) {
                return None;
            }
        }
        Some((owner, takeover_term(self.epoch)))
    }
}

fn span() -> impl Strategy<Value = (u64, u64)> {
    (0..LENGTH, 1..=LENGTH).prop_map(|(from, len)| (from, (from + len).min(LENGTH)))
}

fn any_claim() -> impl Strategy<Value = Claim> {
    let holding = prop_oneof![Just(Holding::Owner), Just(Holding::Leaving), Just(Holding::Replica)];
    let peer = prop::sample::select(SERVERS.to_vec());
    (holding, span(), 1..5_u64, 0..3_u64, peer).prop_map(
        |(holding, (from, to), term, version, peer)| claim(holding, from, to, term, version, peer),
    )
}

fn any_former() -> impl Strategy<Value = Pieces> {
    let owner = prop::sample::select(SERVERS.to_vec());
    prop::collection::vec((span(), 1..6_u64, owner), 0..4).prop_map(|all| {
        let mut pieces: Vec<Piece> = Vec::new();
        for ((from, to), term, owner) in all {
            if pieces.iter().all(|p| to <= p.from || p.to <= from) {
                pieces.push(piece(owner, from, to, term));
            }
        }
        pieces.sort_by_key(|piece| piece.from);
        [(KEY, KeyPieces { length: LENGTH, pieces })].into()
    })
}

fn any_tenures() -> impl Strategy<Value = Tenures> {
    let owner = prop::sample::select(SERVERS.to_vec());
    prop::collection::vec((span(), 1..6_u64, 0..3_u64, owner), 0..4).prop_map(|all| {
        let mut tenures = KeyTenures::default();
        for ((from, to), since, later, owner) in all {
            tenures.note(Tenure { from, to, owner, since, term: since + later });
        }
        [(KEY, tenures)].into()
    })
}

/// Those that a server can have side by side: nothing leaves it for itself, it keeps no copies of
/// its own, and what it holds in one way, under one term, it holds once.
fn possible(server: NodeId, claims: Vec<Claim>) -> Vec<Claim> {
    let mut kept: Vec<Claim> = Vec::new();
    for claim in claims {
        let its_own = claim.holding != Holding::Owner as i32 && claim.peer == server;
        let twice = kept.iter().any(|other| {
            (other.holding, other.term) == (claim.holding, claim.term)
                && other.from < claim.to
                && claim.from < other.to
        });
        if !its_own && !twice {
            kept.push(claim);
        }
    }
    kept
}

fn any_case() -> impl Strategy<Value = Case> {
    let live = prop::collection::vec(prop::collection::vec(any_claim(), 0..4), 1..5);
    let id = || prop::sample::select(SERVERS.to_vec());
    let orders = prop::collection::vec((id(), span(), id()), 0..3);
    let all = (live, any_former(), any_tenures(), orders, 0..=1_u32);
    all.prop_map(|(live, former, tenures, orders, replicas)| {
        let claims = SERVERS.into_iter().zip(live);
        let claims = claims.map(|(server, claims)| (server, possible(server, claims))).collect();
        let order = |(giver, (from, to), owner)| (giver, Order { key: KEY, from, to, owner });
        let orders = orders.into_iter().map(order).collect();
        Case { claims, former, orders, tenures, replicas, epoch: 9 }
    })
}

proptest! {
    #[test]
    fn as_each_element_by_itself(case in any_case()) {
        let expected: Vec<_> = (0..LENGTH).map(|element| case.expected(element)).collect();
        prop_assert_eq!(case.by_element(), expected);
    }

    /// Where nobody died, the highest term that was ever seen is right.
    #[test]
    fn places_by_the_highest_term(case in any_case()) {
        let claims =
            || case.claims.iter().flat_map(|(id, claims)| claims.iter().map(move |c| (*id, c)));
        let placed = place(claims(), case.former.iter());
        for element in 0..LENGTH {
            let claims = claims();
            let claimed = claims
                .filter(|(_, c)| c.holding != Holding::Replica as i32)
                .filter(|(_, c)| c.from <= element && element < c.to)
                .map(|(_, c)| c.term)
                .max();
            let known =
                case.former[&KEY].pieces.iter().find(|p| p.from <= element && element < p.to);
            let found = placed[&KEY].pieces.iter().find(|p| p.from <= element && element < p.to);
            prop_assert_eq!(found.map(|p| p.term), claimed.max(known.map(|p| p.term)));
        }
    }
}

#[test]
fn the_copy_of_the_dead_takes_over() {
    let case = Case::new(&[
        (8, claim(Holding::Owner, 0, 6, 3, 5, 0)),
        (8, claim(Holding::Replica, 6, 12, 4, 5, 10)),
    ]);
    let pieces = case.resolve().pieces[&KEY].pieces.clone();
    assert_eq!(pieces.len(), 2);
    assert_eq!((pieces[0].owner, pieces[0].term), (8, 3));
    assert_eq!((pieces[1].owner, pieces[1].term, pieces[1].safe), (8, takeover_term(9), false));
    assert_eq!((pieces[1].bytes, pieces[1].state_bytes), (24, 48));
}

/// The owner died before its replica had cut the copy; the part that had arrived elsewhere is
/// there.
#[test]
fn a_copy_gives_only_what_did_not_move() {
    let case = Case::new(&[
        (12, claim(Holding::Replica, 0, 12, 3, 5, 10)),
        (14, claim(Holding::Owner, 4, 8, 4, 5, 0)),
    ]);
    let owners: Vec<_> = case.by_element().into_iter().map(|owner| owner.unwrap()).collect();
    let takes_over = takeover_term(9);
    assert_eq!(&owners[..4], &[(12, takes_over); 4]);
    assert_eq!(&owners[4..8], &[(14, 4); 4]);
    assert_eq!(&owners[8..], &[(12, takes_over); 4]);
}

#[test]
fn what_leaves_for_one_that_lives_is_left_alone() {
    let case = Case::new(&[
        (8, claim(Holding::Leaving, 0, 12, 3, 5, 10)),
        (10, claim(Holding::Replica, 0, 12, 3, 5, 8)),
    ]);
    assert_eq!(case.by_element(), vec![Some((8, 3)); 12]);
    assert_eq!(case.resolve().pieces[&KEY].pieces[0].leaving_to, Some(10));
}

#[test]
fn what_left_for_the_dead_stays_unless_it_arrived() {
    let leaving = (8, claim(Holding::Leaving, 0, 12, 3, 5, 18));
    let case = Case::new(&[leaving]);
    assert_eq!(case.by_element(), vec![Some((8, takeover_term(9))); 12]);
    assert_eq!(case.resolve().pieces[&KEY].pieces[0].leaving_to, None);
    let case = Case::new(&[leaving, (10, claim(Holding::Replica, 0, 12, 4, 6, 18))]);
    assert_eq!(case.by_element(), vec![Some((10, takeover_term(9))); 12]);
    // Nothing is kept twice: it may have changed there.
    let case = Case { replicas: 0, ..Case::new(&[leaving]) };
    assert_eq!(case.by_element(), vec![None; 12]);
}

#[test]
fn what_nobody_has_is_lost() {
    let mut case = Case::new(&[(8, claim(Holding::Owner, 2, 6, 3, 5, 0))]);
    let part = |from, to| Lost { key: KEY, from, to };
    assert_eq!(case.resolve().lost, [part(0, 2), part(6, 12)]);
    case.claims.insert(8, Vec::new());
    assert_eq!(case.resolve().lost, [], "a key that was never heard of");
    case.former = [(KEY, KeyPieces { length: LENGTH, pieces: Vec::new() })].into();
    assert_eq!(case.resolve().lost, [part(0, 12)]);
}

/// 16 gave the piece to 18, and both died: the copy of what 16 had may be old.
#[test]
fn an_old_copy_is_not_taken_for_the_newest() {
    let mut case = Case::new(&[(8, claim(Holding::Replica, 0, 12, 3, 5, 16))]);
    assert_eq!(case.by_element(), vec![Some((8, takeover_term(9))); 12]);
    case.orders = vec![(16, Order { key: KEY, from: 0, to: 6, owner: 18 })];
    assert_eq!(case.by_element()[..6], [None; 6]);
    assert_eq!(case.by_element()[6..], [Some((8, takeover_term(9))); 6]);
    case.orders.clear();
    case.former = [(KEY, KeyPieces { length: LENGTH, pieces: vec![piece(18, 0, 12, 4)] })].into();
    assert_eq!(case.by_element(), vec![None; 12]);
}

/// 16 gave the piece to 18 and took it over again; then it died too, before anybody had heard of
/// that.
#[test]
fn a_copy_of_an_earlier_time_at_the_same_owner_is_not_believed() {
    let mut case = Case::new(&[(8, claim(Holding::Replica, 0, 12, 3, 5, 16))]);
    let came = |owner, since, term| Tenure { from: 0, to: 6, owner, since, term };
    let mut tell = |part| {
        case.tenures = [(KEY, KeyTenures { parts: vec![part] })].into();
        let owners = case.by_element();
        assert_eq!(owners[6..], [Some((8, takeover_term(9))); 6]);
        owners[..6] == [Some((8, takeover_term(9))); 6]
    };
    assert!(!tell(came(16, takeover_term(2), takeover_term(2))));
    assert!(tell(came(16, 3, 4)), "it was cut since");
    assert!(!tell(came(18, 2, 4)), "it was given away");
}

/// A policy gave 8 what 16 had. It has not heard of it when there is to be the next one: or else it
/// would have forgotten the copy.
#[test]
fn who_is_to_take_over_may_do_so_by_the_next_policy() {
    let mut case = Case::new(&[(8, claim(Holding::Replica, 0, 12, 3, 5, 16))]);
    let term = takeover_term(8);
    let part = Tenure { from: 0, to: 12, owner: 8, since: term, term };
    case.tenures = [(KEY, KeyTenures { parts: vec![part] })].into();
    case.former = [(KEY, KeyPieces { length: LENGTH, pieces: vec![piece(8, 0, 12, term)] })].into();
    assert_eq!(case.by_element(), vec![Some((8, takeover_term(9))); 12]);
    // It may have taken it over, and given it away to one that is dead too.
    case.orders = vec![(8, Order { key: KEY, from: 0, to: 6, owner: 18 })];
    assert_eq!(case.by_element()[..6], [None; 6]);
}

#[test]
fn nonsense_is_no_claim() {
    let sound = claim(Holding::Owner, 0, 4, 1, 0, 0);
    assert!(is_sound(&sound));
    for claim in [
        Claim { from: 4, ..sound },
        Claim { to: LENGTH + 1, ..sound },
        Claim { term: 0, ..sound },
        Claim { holding: 7, ..sound },
    ] {
        assert!(!is_sound(&claim));
        assert!(Case::new(&[(8, claim)]).resolve().pieces.is_empty());
    }
}
