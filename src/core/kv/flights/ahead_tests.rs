use bytes::Bytes;

use super::*;
use crate::values::KvPairs;

const KEY: Key = 7;

fn ahead() -> Ahead {
    let mut ahead = Ahead::default();
    ahead.set_longest(usize::MAX);
    ahead
}

fn values(bytes: usize) -> Brought {
    let keys = Bytes::copy_from_slice(&KEY.to_ne_bytes());
    let vals = Bytes::from(vec![1; bytes]);
    Brought { pairs: KvPairs { keys, vals, lens: Bytes::new() }, more: Vec::new() }
}

/// A push of 8 bytes that is answered, with what it asked for. True if it asked.
fn push(ahead: &mut Ahead, timestamp: i32) -> bool {
    let name = (timestamp, 0);
    let asks = ahead.pushed(KEY, name, 8, false);
    assert_eq!(ahead.validate(|open| open == name), Ok(()));
    ahead.answered(KEY, name, asks.then(|| values(8)));
    assert_eq!(ahead.validate(|_| false), Ok(()));
    asks
}

/// True if the values were here.
fn pull(ahead: &mut Ahead) -> bool {
    let brought = ahead.pulled(&[KEY]);
    assert_eq!(ahead.validate(|_| false), Ok(()));
    assert!(brought.as_ref().is_none_or(|all| all[..] == [values(8)]));
    brought.is_some()
}

#[test]
fn a_push_asks_once_pushes_are_pulled() {
    let mut ahead = ahead();
    assert!(!push(&mut ahead, 0), "nothing is known of the key");
    assert!(!pull(&mut ahead));
    for round in 1..5 {
        assert!(push(&mut ahead, round));
        assert!(pull(&mut ahead));
        assert!(!pull(&mut ahead), "they are given once");
    }
}

#[test]
fn where_values_come_down_trees_the_first_push_asks() {
    let mut ahead = ahead();
    let asks = |ahead: &mut Ahead, timestamp: i32| {
        let asks = ahead.pushed(KEY, (timestamp, 0), 8, true);
        ahead.answered(KEY, (timestamp, 0), asks.then(|| values(8)));
        asks
    };
    for round in 0..3 {
        assert!(asks(&mut ahead, round));
        assert!(pull(&mut ahead));
    }
    // In vain once: the application does not pull each round.
    assert!(asks(&mut ahead, 3));
    assert!(!asks(&mut ahead, 4));
}

#[test]
fn values_in_vain_make_the_next_ones_rarer() {
    let mut ahead = ahead();
    // Pushed three times, pulled once: as gradients that add up.
    let mut asked = 0;
    for round in 0..3000 {
        asked += u32::from(push(&mut ahead, round));
        if round % 3 == 2 {
            pull(&mut ahead);
        }
    }
    assert_eq!(asked, 1, "after the first time it takes two in a row");
    // Twice in a row, then not: each time takes twice as long.
    let (mut rounds, mut asked) = (3000.., 0);
    let mut ahead = self::ahead();
    for _ in 0..300 {
        for _ in 0..10 {
            let round = rounds.next().unwrap();
            asked += u32::from(push(&mut ahead, round));
            pull(&mut ahead);
        }
        asked += u32::from(push(&mut ahead, rounds.next().unwrap()));
    }
    assert!(asked < 40, "{asked} of 3300");
}

#[test]
fn a_pull_that_does_not_wait_for_the_answer_gets_nothing_ahead() {
    let mut ahead = ahead();
    push(&mut ahead, 0);
    pull(&mut ahead);
    assert!(ahead.pushed(KEY, (1, 0), 8, false));
    assert_eq!(ahead.pulled(&[KEY]), None);
    ahead.answered(KEY, (1, 0), Some(values(8)));
    assert!(!pull(&mut ahead), "they belong to nobody");
    assert!(!push(&mut ahead, 2), "that is not the habit any more");
}

#[test]
fn owners_that_give_none_are_soon_not_asked() {
    let mut ahead = ahead();
    let mut asked = 0;
    for timestamp in 0..4000 {
        asked += u32::from(ahead.pushed(KEY, (timestamp, 0), 8, false));
        ahead.answered(KEY, (timestamp, 0), None);
        assert!(!pull(&mut ahead));
    }
    assert!(asked <= 14, "{asked} of 4000");
}

#[test]
fn values_of_another_length_are_not_kept() {
    let mut ahead = ahead();
    push(&mut ahead, 0);
    pull(&mut ahead);
    assert!(ahead.pushed(KEY, (1, 0), 8, false));
    ahead.answered(KEY, (1, 0), Some(values(9)));
    assert!(!pull(&mut ahead));
}

#[test]
fn a_pull_of_several_keys_gets_all_or_none() {
    let mut ahead = ahead();
    for timestamp in 0..2 {
        for key in [KEY, 9] {
            let asks = ahead.pushed(key, (timestamp, key as u32), 8, false);
            assert_eq!(asks, timestamp == 1);
            let missing = key == 9 && timestamp == 1;
            ahead.answered(key, (timestamp, key as u32), (asks && !missing).then(|| values(8)));
        }
        assert_eq!(ahead.pulled(&[KEY, 9]), None);
    }
    assert_eq!(ahead.pulled(&[KEY]), None, "what was here went with the pull");
    assert_eq!(ahead.pulled(&[]), None);
}

#[test]
fn long_values_and_more_than_there_is_room_for_are_not_asked_for() {
    let mut ahead = ahead();
    ahead.set_longest(8);
    push(&mut ahead, 0);
    pull(&mut ahead);
    assert!(!ahead.pushed(KEY, (1, 0), 9, false));
    ahead.failed(KEY, (1, 0));

    let mut ahead = self::ahead();
    let half = BYTES_MAX / 2 + 1;
    for (timestamp, first, second) in [(0, false, false), (1, true, false)] {
        assert_eq!(ahead.pushed(1, (timestamp, 1), half, false), first);
        assert_eq!(ahead.pushed(2, (timestamp, 2), half, false), second);
        for key in [1, 2] {
            ahead.answered(key, (timestamp, key as u32), None);
            ahead.pulled(&[key]);
        }
    }
}

#[test]
fn nothing_is_kept_over_a_barrier_or_of_a_push_that_failed() {
    let mut ahead = ahead();
    push(&mut ahead, 0);
    pull(&mut ahead);
    assert!(push(&mut ahead, 1));
    ahead.drop_all();
    assert!(!pull(&mut ahead));
    assert!(ahead.pushed(KEY, (2, 0), 8, false));
    ahead.drop_all();
    ahead.answered(KEY, (2, 0), Some(values(8)));
    assert!(!pull(&mut ahead), "others may have gone on meanwhile");
    assert!(ahead.pushed(KEY, (3, 0), 8, false));
    ahead.failed(KEY, (3, 0));
    assert_eq!(ahead.validate(|_| false), Ok(()));
    assert!(!push(&mut ahead, 4));
}
