use super::*;
use crate::kv::slicer::slice;
use crate::kv::slicer::tests::{keys_frame, lens_frame, request, requests};
use crate::values::server_key_ranges;
use proptest::prelude::*;

fn part(keys: &[u64], vals: &[u8], lens: &[i32]) -> KvPairs {
    KvPairs { keys: keys_frame(keys), vals: Bytes::copy_from_slice(vals), lens: lens_frame(lens) }
}

fn assemble(keys: &[u64], want_lens: bool, parts: &[KvPairs]) -> Result<Assembled, KvError> {
    let mut assembly = PullAssembly::new(keys_frame(keys));
    parts.iter().for_each(|part| assembly.add(part.clone(), Vec::new()));
    assembly.finish(want_lens)
}

#[test]
fn parts_come_back_in_the_order_of_keys() {
    let parts = [part(&[9], &[5, 6, 7], &[3]), part(&[1, 2], &[1, 2, 3, 4], &[2, 2])];
    let assembled = assemble(&[1, 2, 9], true, &parts).unwrap();
    assert_eq!((assembled.total_vals, assembled.total_lens), (7, 12));
    assert_eq!(assembled.vals, [&[1, 2, 3, 4][..], &[5, 6, 7]]);
    assert_eq!(assembled.lens, [lens_frame(&[2, 2]), lens_frame(&[3])]);
    let without = assemble(&[1, 2, 9], false, &parts).unwrap();
    assert_eq!((without.total_lens, without.lens.len()), (0, 0));
}

#[test]
fn one_part_of_the_asked_keys_passes_whole() {
    // Even unsorted: the keys are the very ones that were asked for.
    let assembled = assemble(&[1000, 5], false, &[part(&[1000, 5], &[1], &[])]).unwrap();
    assert_eq!(assembled.vals, [&[1][..]]);
}

#[test]
fn lens_in_elements_are_passed_through() {
    // mxnet.md part I, 3: row_sparse answers count elements in lens, bytes in vals. Row 0 has the
    // master's key, so keys repeat.
    let keys = [4, 4, 6];
    let assembled = assemble(&keys, true, &[part(&keys, &[0; 16], &[0, 2, 2])]).unwrap();
    assert_eq!(assembled.total_vals, 16);
    let parts = [part(&[9, 9], &[0; 8], &[0, 2]), part(&[4, 4, 6], &[0; 16], &[0, 2, 2])];
    assert_eq!(assemble(&[4, 4, 6, 9, 9], true, &parts).unwrap().total_vals, 24);
}

#[test]
fn empty_values_are_an_answer() {
    let assembled = assemble(&[3], true, &[part(&[3], &[], &[0])]).unwrap();
    assert_eq!((assembled.total_vals, assembled.total_lens), (0, 4));
}

#[test]
fn the_largest_key_can_be_pulled() {
    assert!(
        assemble(&[1, u64::MAX], false, &[part(&[u64::MAX], &[], &[]), part(&[1], &[], &[])])
            .is_ok()
    );
}

#[test]
fn nothing_asked_needs_no_parts() {
    assert_eq!(assemble(&[], true, &[]).unwrap(), Assembled::default());
}

#[test]
fn what_stock_aborts_on_is_an_error() {
    let keys = [1, 2, 9];
    let good = part(&[1, 2], &[1, 2], &[1, 1]);
    assert_eq!(
        assemble(&keys, false, &[good.clone(), KvPairs::default()]),
        Err(KvError::EmptyPart { key: 1, keys: 3 })
    );
    assert_eq!(
        assemble(&keys, false, &[part(&[1, 9], &[], &[]), part(&[2], &[], &[])]),
        Err(KvError::UnmatchedKeys { key: 1, found: 2, expected: 3 })
    );
    assert_eq!(
        assemble(&keys, false, std::slice::from_ref(&good)),
        Err(KvError::MissingKeys { key: 1, found: 2, expected: 3 })
    );
    assert_eq!(
        assemble(&keys, true, &[good, part(&[9], &[3], &[])]),
        Err(KvError::LensMismatch { key: 9, keys: 1, lens: 0 })
    );
    let mut ragged = part(&keys, &[], &[]);
    ragged.keys.truncate(23);
    assert!(matches!(
        assemble(&keys, false, &[ragged]),
        Err(KvError::ShapeMismatch { frame: "keys", bytes: 23, .. })
    ));
}

/// Stock accepts this: two servers answer for the same keys, and the counts add up.
#[test]
fn overlapping_parts_are_refused() {
    let parts = [part(&[1, 2], &[], &[]), part(&[1, 2], &[], &[])];
    assert!(matches!(
        assemble(&[1, 2, 3, 4], false, &parts),
        Err(KvError::MissingKeys { found: 4, expected: 4, .. })
    ));
}

proptest! {
    #[test]
    fn assembly_undoes_slicing(
        (servers, mut keys, with_lens) in requests(),
        turn in 0_usize..8,
    ) {
        keys.sort_unstable();
        let kv = request(&keys, with_lens, 2);
        let slices = slice(&kv, 2, &server_key_ranges(servers)).unwrap();
        let mut parts: Vec<KvPairs> = slices.into_iter().flatten().collect();
        if !parts.is_empty() {
            let turn = turn % parts.len();
            parts.rotate_left(turn);
        }
        let mut assembly = PullAssembly::new(kv.keys.clone());
        parts.into_iter().for_each(|part| assembly.add(part, Vec::new()));
        let assembled = assembly.finish(with_lens).unwrap();
        prop_assert_eq!(assembled.total_vals, kv.vals.len());
        prop_assert_eq!(assembled.vals.concat(), kv.vals.to_vec());
        prop_assert_eq!(assembled.total_lens, kv.lens.len());
        prop_assert_eq!(assembled.lens.concat(), kv.lens.to_vec());
    }

    #[test]
    fn no_bytes_make_it_panic(
        keys in prop::collection::vec(any::<u8>(), 0..40),
        parts in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..9)),
            0..4,
        ),
        want_lens in any::<bool>(),
    ) {
        let mut assembly = PullAssembly::new(keys.into());
        for (keys, lens) in parts {
            let pairs = KvPairs { keys: keys.into(), vals: Bytes::new(), lens: lens.into() };
            assembly.add(pairs, Vec::new());
        }
        let _ = assembly.finish(want_lens);
    }
}
