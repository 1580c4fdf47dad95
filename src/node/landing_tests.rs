use super::*;

fn kv(keys: u64) -> KvPairs {
    KvPairs { keys: (0..keys).flat_map(u64::to_ne_bytes).collect(), ..KvPairs::default() }
}

fn lens(lens: &[i32]) -> Bytes {
    lens.iter().flat_map(|len| len.to_ne_bytes()).collect()
}

fn destination(bytes: usize, lens: Bytes) -> Destination {
    Destination { memory: CallersMemory::owned(vec![0; bytes].into()), lens }
}

fn answer(timestamp: i32, part: Option<(u32, u64, u64)>) -> Meta {
    let placed =
        part.map(|(slice, from, to)| PartReply { slice, from, to, ..PartReply::default() });
    Meta { timestamp, payload: placed.into(), ..Meta::default() }
}

/// A pull of three servers' keys into so many bytes, of which the first server has two keys.
fn landings(bytes: usize, expected: &[i32]) -> Landings {
    let landings = Landings::default();
    landings.open(5, destination(bytes, lens(expected)));
    let (two, one) = (kv(2), kv(1));
    landings.cut(5, 1, [(0, &two, 0), (1, &one, 4), (3, &one, 4)].into_iter(), false);
    landings
}

#[test]
fn each_slice_has_its_place_and_its_size() {
    let landings = landings(1000, &[100, 200, 300, 400]);
    let place = |rank: usize, timestamp, len| {
        landings.place(server_id(rank), &answer(timestamp, None), len).map(|claim| claim.size())
    };
    assert_eq!(place(0, 5, 300), Some(300));
    assert_eq!(place(1, 5, 300), Some(300));
    assert_eq!(place(3, 5, 400), Some(400));
    // Another request, a server that was not asked, more or fewer than were expected.
    for (rank, timestamp, len) in [(0, 6, 300), (2, 5, 300), (0, 5, 299), (3, 5, 1000), (3, 5, 0)] {
        assert_eq!(place(rank, timestamp, len), None, "{rank} {timestamp} {len}");
    }
    // One that comes twice lands once.
    let first = landings.place(server_id(0), &answer(5, None), 300).unwrap();
    assert_eq!(place(0, 5, 300), None);
    assert_eq!(place(1, 5, 300), Some(300));
    let frame = first.into_frame();
    assert!(landings.has(5, Some(&frame)) && !landings.has(4, Some(&frame)));
    assert_eq!(place(0, 5, 300), None);
    landings.close(5);
    assert!(!landings.has(5, Some(&frame)));
    assert_eq!(place(1, 5, 300), None);
}

#[test]
fn a_piece_has_its_place_in_its_slice() {
    let landings = landings(1000, &[100, 200, 300, 400]);
    let place = |part: (u32, u64, u64), len| {
        // Any server may have it.
        landings.place(server_id(7), &answer(5, Some(part)), len).map(MemoryClaim::into_frame)
    };
    let whole = place((3, 0, 0), 400).unwrap();
    drop(whole);
    let first = place((1, 0, 50), 200).unwrap();
    let second = place((1, 50, 75), 100).unwrap();
    assert_eq!(first.as_ptr() as usize + 200, second.as_ptr() as usize);
    for (part, len) in [
        ((1, 0, 50), 200),       // claimed
        ((3, 0, 100), 399),      // not its size
        ((3, 0, 101), 404),      // beyond the slice
        ((3, 100, 50), 200),     // backwards
        ((3, 1 << 62, 3), 8),    // overflows
        ((0, 0, 10), 40),        // never cut
        ((0, 0, 10), 0),         // never cut
        ((2, 0, 10), 40),        // was not asked for
        ((3, 99, u64::MAX), 40), // overflows
    ] {
        assert!(place(part, len).is_none(), "{part:?} {len}");
    }
}

#[test]
fn without_lens_all_keys_have_equally_many_and_else_nothing_lands() {
    let found = |bytes: usize, expected: &[i32], len| {
        let landings = landings(bytes, expected);
        landings.place(server_id(0), &answer(5, None), len).is_some()
    };
    assert!(found(1000, &[], 500));
    for wrong in [&[100, 200, 300, 399][..], &[100, 200, 700], &[-1, 301, 300, 400], &[0; 5]] {
        assert!(!(0..=1000).any(|len| found(1000, wrong, len)), "{wrong:?}");
    }
    assert!(!(0..=1000).any(|len| found(1001, &[], len)), "it cannot be divided");
}

/// What is pushed from the memory that is pulled into must not be overwritten before it was sent.
#[test]
fn what_is_pushed_from_the_same_memory_is_safe() {
    let lands = |pushed: [(usize, usize); 2], again| {
        let destination = destination(1000, lens(&[500, 500]));
        let slices = pushed.map(|(at, len)| {
            let mut claimed = destination.memory.claim(at..at + len).unwrap();
            assert!(claimed.with(&mut |_| {}));
            KvPairs { vals: claimed.into_frame(), ..kv(1) }
        });
        let landings = Landings::default();
        landings.open(5, destination);
        landings.cut(5, 1, [(0, &slices[0], 1), (1, &slices[1], 1)].into_iter(), again);
        // Only here it was claimed to be pushed; an application's array is not.
        drop(slices);
        landings.place(server_id(0), &answer(5, None), 500).is_some()
    };
    assert!(lands([(0, 500), (500, 500)], false));
    assert!(!lands([(0, 500), (500, 500)], true), "it may have to be sent again");
    assert!(!lands([(0, 400), (400, 600)], false));
    assert!(!lands([(500, 500), (0, 500)], false));
}
