use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #[test]
    fn runs_agree_with_a_plain_set(numbers in prop::collection::vec(
        prop_oneof![0..30_u64, Just(u64::MAX), Just(u64::MAX - 1)], 0..80,
    )) {
        let mut seen = SeenSequences::default();
        let mut model = BTreeSet::new();
        for number in numbers {
            let expected = if model.insert(number) { SeenNumber::New } else { SeenNumber::Again };
            prop_assert_eq!(seen.insert(number), expected);
            let starts = model.iter().filter(|n| **n == 0 || !model.contains(&(**n - 1)));
            prop_assert_eq!(seen.runs(), starts.count());
        }
    }
}

#[test]
fn too_many_gaps_are_refused_until_some_close() {
    let mut seen = SeenSequences::default();
    for number in 0..RUNS_KEPT as u64 {
        assert_eq!(seen.insert(number * 2), SeenNumber::New);
    }
    let beyond = RUNS_KEPT as u64 * 2 + 5;
    assert_eq!(seen.insert(beyond), SeenNumber::NoRoom);
    assert_eq!(seen.insert(4), SeenNumber::Again);
    assert_eq!(seen.insert(1), SeenNumber::New); // Closes a gap.
    assert_eq!(seen.insert(beyond), SeenNumber::New);
    assert_eq!(seen.runs(), RUNS_KEPT);
}

#[test]
fn the_window_of_names_slides() {
    let mut seen = SeenNames::default();
    let name = |signature| StockName { signature, customer_id: 0, kind: 0 };
    for signature in 0..STOCK_KEPT as u64 + 5 {
        assert_eq!(seen.insert(name(signature)), SeenNumber::New);
    }
    assert_eq!((seen.len(), seen.names.len()), (STOCK_KEPT, STOCK_KEPT));
    assert_eq!(seen.insert(name(5)), SeenNumber::Again);
    assert_eq!(seen.insert(name(0)), SeenNumber::New);
}
