//! Values ahead, as requests are made and answered.

use super::*;
use crate::values::Dtype;
use crate::values::kind::{RequestKind, command_of};

/// What a server answers to a push that asks for the values of its round.
fn answer_ahead(flights: &mut Flights, to: &Outgoing) -> Answered {
    let kv = if ask(to).ahead {
        KvPairs { lens: one_len(to.kv.vals.len()), ..to.kv.clone() }
    } else {
        KvPairs::default()
    };
    let mut out = Vec::new();
    let reply = reply(to);
    let answer = PartAnswer { pairs: kv, ..answer_to(to, &reply) };
    let answered = flights.answered(NOW, answer, &mut out).unwrap();
    check(flights);
    answered
}

const RANGES: &[KeyRange] = &[KeyRange { begin: 0, end: 100 }];

/// A pull of the whole key, as it is before it is cut.
fn pull() -> (Meta, Slices) {
    let Slice { meta, kv, .. } = slice(100, false, b"");
    let head = command_of(RequestKind::Default, Dtype::F32);
    (Meta { head, ..meta }, Slices::from_iter([Some(kv)]))
}

/// What it finds.
fn pulled(flights: &mut Flights) -> Option<Vec<Brought>> {
    let (meta, slices) = pull();
    let all = flights.pulled_ahead(&meta, &slices, RANGES)?;
    assert!(all.iter().all(|slice| (slice.rank, slice.key) == (0, 7)));
    Some(all.into_iter().map(|slice| slice.brought).collect())
}

/// After two pushes and a pull between them: the second one has brought its values.
fn with_values() -> Flights {
    let mut flights = halves();
    flights.set_longest_ahead(8);
    for timestamp in [1, 2] {
        let out = begin(&mut flights, slice(timestamp, true, b"abcdefgh"));
        out.iter().for_each(|message| _ = answer_ahead(&mut flights, message));
        if timestamp == 1 {
            pulled(&mut flights);
        }
    }
    flights
}

#[test]
fn values_that_came_with_the_answers_of_all_parts_are_what_is_pulled_next() {
    let mut flights = halves();
    flights.set_longest_ahead(8);
    for timestamp in [1, 2] {
        let out = begin(&mut flights, slice(timestamp, true, b"abcdefgh"));
        assert_eq!(out.len(), 2);
        for message in &out {
            assert_eq!(ask(message).ahead, timestamp == 2);
            let answered = answer_ahead(&mut flights, message);
            if let Answered::Whole { brought, .. } = answered {
                assert_eq!(brought, Brought::default(), "a push brings nobody anything");
            }
        }
        let brought = pulled(&mut flights);
        check(&flights);
        let Some(brought) = brought else {
            assert_eq!(timestamp, 1);
            continue;
        };
        assert_eq!(
            (&brought[0].pairs.vals[..], &brought[0].more[0][..]),
            (&b"abcd"[..], &b"efgh"[..])
        );
        assert_eq!(brought[0].pairs.lens, one_len(8));
    }
}

/// They are of the round before.
#[test]
fn a_push_that_pulls_drops_what_came_ahead() {
    let mut flights = with_values();
    let mut both = slice(3, true, b"abcdefgh");
    both.meta.pull = true;
    let out = begin(&mut flights, both);
    assert!(out.iter().all(|message| !ask(message).ahead));
    assert_eq!(pulled(&mut flights), None);
}

/// A part that has to go elsewhere asks there too; what one owner does not give is pulled.
#[test]
fn values_ahead_are_of_all_parts_or_none() {
    for gives in [true, false] {
        let mut flights = halves();
        flights.set_longest_ahead(8);
        let out = begin(&mut flights, slice(1, true, b"abcdefgh"));
        out.iter().for_each(|message| _ = answer_ahead(&mut flights, message));
        assert_eq!(pulled(&mut flights), None);
        let out = begin(&mut flights, slice(2, true, b"abcdefgh"));
        answer_ahead(&mut flights, &out[0]);
        let (_, again) = answer(&mut flights, &out[1], &[route(4, 8, 9, A)], true);
        assert_eq!((again[0].meta.recver, ask(&again[0]).ahead), (A, true));
        if gives {
            answer_ahead(&mut flights, &again[0]);
        } else {
            answer(&mut flights, &again[0], &[], false);
        }
        assert_eq!(pulled(&mut flights).is_some(), gives);
    }
}

/// Its values are here all the same for who pulls the whole key.
#[test]
fn what_is_no_pull_of_whole_keys_finds_nothing_ahead() {
    let mut flights = with_values();
    let (meta, slices) = pull();
    let pushes = Meta { push: true, ..meta.clone() };
    assert_eq!(flights.pulled_ahead(&pushes, &slices, RANGES), None);
    let rows = Meta { head: command_of(RequestKind::RowSparse, Dtype::F32), ..meta };
    assert_eq!(flights.pulled_ahead(&rows, &slices, RANGES), None);
    assert!(pulled(&mut flights).is_some());
}
