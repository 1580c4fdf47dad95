use super::*;
use crate::values::server_key_ranges;
use proptest::prelude::*;

pub(crate) fn keys_frame(keys: &[u64]) -> Bytes {
    keys.iter().flat_map(|key| key.to_ne_bytes()).collect::<Vec<u8>>().into()
}

pub(crate) fn lens_frame(lens: &[i32]) -> Bytes {
    lens.iter().flat_map(|len| len.to_ne_bytes()).collect::<Vec<u8>>().into()
}

fn pairs(keys: &[u64], vals: &[u8], lens: &[i32]) -> KvPairs {
    KvPairs { keys: keys_frame(keys), vals: Bytes::copy_from_slice(vals), lens: lens_frame(lens) }
}

/// A pointer-range check: the piece is a view of the original, not a copy.
fn is_view(piece: &Bytes, whole: &Bytes) -> bool {
    let (piece, whole) = (piece.as_ptr_range(), whole.as_ptr_range());
    whole.start <= piece.start && piece.end <= whole.end
}

#[test]
fn one_key_goes_whole_to_its_owner() {
    let ranges = server_key_ranges(3);
    let kv = pairs(&[ranges[1].begin + 7], &[1, 2, 3, 4], &[4]);
    let slices = slice(&kv, 1, &ranges).unwrap();
    assert_eq!(slices.len(), 3);
    assert_eq!((slices[0].clone(), slices[2].clone()), (None, None));
    let piece = slices[1].clone().unwrap();
    assert_eq!(piece, kv);
    assert!(is_view(&piece.vals, &kv.vals) && is_view(&piece.keys, &kv.keys));
}

#[test]
fn boundary_keys_belong_to_the_upper_range() {
    let ranges = server_key_ranges(2);
    let at = ranges[1].begin;
    let slices = slice(&pairs(&[at - 1, at], &[7, 8], &[]), 1, &ranges).unwrap();
    assert_eq!(slices[0], Some(pairs(&[at - 1], &[7], &[])));
    assert_eq!(slices[1], Some(pairs(&[at], &[8], &[])));
}

#[test]
fn values_divide_equally_without_lens() {
    let ranges = server_key_ranges(2);
    let keys = [1, 2, ranges[1].begin];
    let vals: Vec<u8> = (0..24).collect();
    let slices = slice(&pairs(&keys, &vals, &[]), 4, &ranges).unwrap();
    assert_eq!(slices[0], Some(pairs(&keys[..2], &vals[..16], &[])));
    assert_eq!(slices[1], Some(pairs(&keys[2..], &vals[16..], &[])));
}

#[test]
fn a_pull_has_keys_only() {
    let ranges = server_key_ranges(2);
    let slices = slice(&pairs(&[3, ranges[1].begin + 3], &[], &[]), 4, &ranges).unwrap();
    assert_eq!(slices[0], Some(pairs(&[3], &[], &[])));
    assert_eq!(slices[1], Some(pairs(&[ranges[1].begin + 3], &[], &[])));
}

/// mxnet.md part I, 2: per range a dummy key (begin + number of elements, len 0) and then the key.
#[test]
fn compressed_push_keeps_its_unsorted_keys() {
    let ranges = server_key_ranges(2);
    let (a, b) = (ranges[0].begin, ranges[1].begin);
    let keys = [a + 1000, a + 5, b + 1000, b + 5];
    let kv = pairs(&keys, &[1, 2, 3, 4, 5], &[0, 3, 0, 2]);
    let slices = slice(&kv, 1, &ranges).unwrap();
    assert_eq!(slices[0], Some(pairs(&keys[..2], &[1, 2, 3], &[0, 3])));
    assert_eq!(slices[1], Some(pairs(&keys[2..], &[4, 5], &[0, 2])));
}

/// mxnet.md part I, 2: a master key of length 0, then one key per row; row 0 repeats the master's.
#[test]
fn row_sparse_push_may_have_no_rows_on_a_server() {
    let ranges = server_key_ranges(3);
    let begin: Vec<u64> = ranges.iter().map(|range| range.begin + 4).collect();
    let keys = [begin[0], begin[0], begin[0] + 2, begin[1], begin[2], begin[2] + 1];
    let vals: Vec<u8> = (0..12).collect();
    let kv = pairs(&keys, &vals, &[0, 4, 4, 0, 0, 4]);
    let slices = slice(&kv, 1, &ranges).unwrap();
    assert_eq!(slices[0], Some(pairs(&keys[..3], &vals[..8], &[0, 4, 4])));
    assert_eq!(slices[1], Some(pairs(&keys[3..4], &[], &[0])));
    assert_eq!(slices[2], Some(pairs(&keys[4..], &vals[8..], &[0, 4])));
    // No rows at all: lens but no values.
    let none = pairs(&begin, &[], &[0, 0, 0]);
    let slices = slice(&none, 1, &ranges).unwrap();
    assert!(slices.iter().all(|piece| piece.as_ref().is_some_and(|piece| piece.lens.len() == 4)));
}

#[test]
fn surplus_values_are_dropped() {
    let ranges = server_key_ranges(2);
    let kv = pairs(&[1], &[1, 2, 3, 4, 5], &[3]);
    assert_eq!(slice(&kv, 1, &ranges).unwrap()[0].clone().unwrap().vals, &[1, 2, 3][..]);
    let kv = pairs(&[1, ranges[1].begin], &[1, 2, 3, 4, 5], &[1, 2]);
    assert_eq!(slice(&kv, 1, &ranges).unwrap()[1].clone().unwrap().vals, &[2, 3][..]);
}

#[test]
fn no_keys_skip_every_server() {
    let slices = slice(&KvPairs::default(), 4, &server_key_ranges(3)).unwrap();
    assert_eq!(&slices[..], &[None, None, None]);
    assert!(slice(&KvPairs::default(), 4, &[]).unwrap().is_empty());
}

#[test]
fn what_stock_aborts_on_is_an_error_that_names_the_key() {
    let ranges = server_key_ranges(2);
    let (b, e) = (ranges[1].begin, ranges[1].end);
    let error = |keys: &[u64], vals: &[u8], lens: &[i32], size| {
        slice(&pairs(keys, vals, lens), size, &ranges).unwrap_err()
    };
    assert_eq!(error(&[b, 1], &[0; 2], &[], 1), KvError::NotSorted { key: 1, index: 1 });
    assert_eq!(error(&[2, b, 1, b], &[], &[], 1), KvError::NotSorted { key: 1, index: 2 });
    let outside = |key, index| KvError::OutsideEveryRange { key, index, end: e };
    assert_eq!(error(&[u64::MAX], &[], &[], 1), outside(u64::MAX, 0));
    assert_eq!(error(&[1, b, e], &[], &[], 1), outside(e, 2));
    assert_eq!(
        error(&[6, 7], &[0; 4], &[2], 1),
        KvError::LensMismatch { key: 6, keys: 2, lens: 1 }
    );
    assert_eq!(error(&[6], &[0; 4], &[-1], 1), KvError::NegativeLen { key: 6, len: -1 });
    assert_eq!(
        error(&[6, b], &[0; 20], &[2, 4], 4),
        KvError::MissingVals { key: b, needed: 16, have: 12 }
    );
    assert_eq!(error(&[6, b], &[0; 12], &[], 4), KvError::Indivisible { key: 6, keys: 2, vals: 3 });
    let shape = KvError::ShapeMismatch { frame: "vals", key: 6, bytes: 3, element: 4 };
    assert_eq!(error(&[6], &[0; 3], &[], 4), shape);
    let mut ragged = pairs(&[6, 7], &[], &[]);
    ragged.keys.truncate(15);
    let shape = KvError::ShapeMismatch { frame: "keys", key: 6, bytes: 15, element: 8 };
    assert_eq!(slice(&ragged, 1, &ranges), Err(shape));
    assert!(error(&[6], &[0; 4], &[i32::MAX], usize::MAX).to_string().contains("key 6"));
}

#[test]
fn broken_ranges_are_refused() {
    let kv = pairs(&[1], &[], &[]);
    assert_eq!(slice(&kv, 1, &[]), Err(KvError::BadRanges { boundary: 0, key: 1 }));
    let gap = [KeyRange { begin: 0, end: 5 }, KeyRange { begin: 6, end: 9 }];
    assert_eq!(slice(&kv, 1, &gap), Err(KvError::BadRanges { boundary: 5, key: 1 }));
    let late = [KeyRange { begin: 2, end: 5 }];
    assert_eq!(slice(&kv, 1, &late), Err(KvError::OutsideEveryRange { key: 1, index: 0, end: 5 }));
}

/// Keys in order of their servers, shuffled within each, and how many values each has.
pub(crate) fn requests() -> impl Strategy<Value = (usize, Vec<(u64, i32)>, bool)> {
    (1_usize..7).prop_flat_map(|servers| {
        let width = u64::MAX / servers as u64;
        let key = (0..servers, prop_oneof![0..4_u64, width - 4..width, 0..width], 0..5_i32);
        (Just(servers), prop::collection::vec(key, 0..40), any::<bool>()).prop_map(
            move |(servers, mut keys, with_lens)| {
                keys.sort_by_key(|(server, _, _)| *server); // Stable: unsorted within a server.
                let keys = keys.iter().map(|(s, k, len)| (width * *s as u64 + k, *len)).collect();
                (servers, keys, with_lens)
            },
        )
    })
}

/// The request of one generated case: values are a counter, so that misplacing any shows.
pub(crate) fn request(keys: &[(u64, i32)], with_lens: bool, value_size: usize) -> KvPairs {
    let lens: Vec<i32> = keys.iter().map(|(_, len)| if with_lens { *len } else { 3 }).collect();
    let count: i32 = lens.iter().sum();
    let vals: Vec<u8> = (0..count as usize * value_size).map(|i| i as u8).collect();
    let keys: Vec<u64> = keys.iter().map(|(key, _)| *key).collect();
    pairs(&keys, &vals, if with_lens { &lens } else { &[] })
}

fn concatenate(pieces: &[Option<KvPairs>]) -> KvPairs {
    let join = |frame: fn(&KvPairs) -> &Bytes| {
        pieces.iter().flatten().flat_map(|piece| frame(piece).to_vec()).collect::<Vec<u8>>().into()
    };
    KvPairs { keys: join(|p| &p.keys), vals: join(|p| &p.vals), lens: join(|p| &p.lens) }
}

proptest! {
    #[test]
    fn slices_put_together_are_the_request(
        (servers, keys, with_lens) in requests(),
        value_size in 1_usize..5,
    ) {
        let ranges = server_key_ranges(servers);
        let kv = request(&keys, with_lens, value_size);
        let slices = slice(&kv, value_size, &ranges).unwrap();
        prop_assert_eq!(slices.len(), servers);
        prop_assert_eq!(&concatenate(&slices), &kv);
        for (range, piece) in ranges.iter().zip(&slices) {
            let owned = keys.iter().filter(|(key, _)| range.contains(*key)).count();
            prop_assert_eq!(piece.as_ref().map_or(0, KvPairs::key_count), owned);
            let Some(piece) = piece else { continue };
            prop_assert!(owned > 0 && iter_keys(&piece.keys).all(|key| range.contains(key)));
            prop_assert!(is_view(&piece.keys, &kv.keys));
            if with_lens {
                let vals: i32 = iter_lens(&piece.lens).sum();
                prop_assert_eq!(piece.vals.len(), vals as usize * value_size);
            }
        }
    }

    #[test]
    fn mixed_keys_are_never_misrouted(keys in prop::collection::vec(any::<u64>(), 0..12)) {
        let ranges = server_key_ranges(3);
        let kv = pairs(&keys, &[], &[]);
        let owner = |key: &u64| ranges.iter().position(|range| range.contains(*key));
        let owners: Vec<_> = keys.iter().map(owner).collect();
        let proper = owners.iter().all(Option::is_some) && owners.is_sorted();
        match slice(&kv, 1, &ranges) {
            Ok(slices) => {
                prop_assert!(proper);
                prop_assert_eq!(concatenate(&slices).keys, kv.keys);
            }
            Err(_) => prop_assert!(!proper),
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        keys in prop::collection::vec(any::<u8>(), 0..64),
        vals in prop::collection::vec(any::<u8>(), 0..64),
        lens in prop::collection::vec(any::<u8>(), 0..64),
        value_size in 0_usize..9,
        bounds in prop::collection::vec((any::<u64>(), any::<u64>()), 0..4),
    ) {
        let kv = KvPairs { keys: keys.into(), vals: vals.into(), lens: lens.into() };
        let ranges: Vec<_> = bounds.iter().map(|&(begin, end)| KeyRange { begin, end }).collect();
        let _ = slice(&kv, value_size, &ranges);
        let _ = slice(&kv, value_size, &server_key_ranges(2));
    }
}
