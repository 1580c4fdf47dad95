use super::*;
use proptest::prelude::*;

fn drain<T>(queue: &mut PriorityFifo<T>) -> Vec<T> {
    std::iter::from_fn(|| queue.pop()).collect()
}

/// ps-lite.md 3.7: stock pops 0..3 as 3 0 1 2, and 0..5 as 5 1 2 0 4 3.
#[test]
fn equals_keep_their_order() {
    let mut queue = PriorityFifo::new();
    (0..6).for_each(|item| queue.push(0, item));
    assert_eq!(drain(&mut queue), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn higher_goes_first() {
    let mut queue = PriorityFifo::new();
    for (priority, item) in [(0, 'a'), (5, 'b'), (-3, 'c'), (5, 'd'), (0, 'e'), (i32::MAX, 'f')] {
        queue.push(priority, item);
    }
    assert_eq!((queue.len(), queue.next_priority()), (6, Some(i32::MAX)));
    assert_eq!(drain(&mut queue), ['f', 'b', 'd', 'a', 'e', 'c']);
    assert_eq!((queue.pop(), queue.len(), queue.next_priority()), (None, 0, None));
    assert!(queue.is_empty());
}

#[test]
fn a_burst_gives_its_memory_back() {
    let mut queue = PriorityFifo::new();
    for priority in 0..100 {
        (0..5_000).for_each(|item| queue.push(priority, item));
    }
    assert_eq!(drain(&mut queue).len(), 500_000);
    let kept: usize = queue.spare.iter().map(VecDeque::capacity).sum();
    assert!(kept <= SPARE_LANES_KEPT * LANE_ROOM_KEPT * 2, "{kept}");
    assert!(queue.top.capacity() <= LANE_ROOM_KEPT * 2 && queue.lower.is_empty());
}

proptest! {
    /// Against a stable sort of what is in the queue.
    #[test]
    fn it_is_a_stable_order(
        steps in prop::collection::vec(prop_oneof![
            3 => (-2..3_i32).prop_map(Some),
            1 => any::<i32>().prop_map(Some),
            3 => Just(None),
        ], 0..200),
    ) {
        let mut queue = PriorityFifo::new();
        let mut model: Vec<(i32, usize)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            if let Some(priority) = step {
                queue.push(priority, number);
                model.push((priority, number));
            } else {
                let best = model.iter().max_by_key(|(p, n)| (*p, std::cmp::Reverse(*n))).copied();
                model.retain(|entry| Some(*entry) != best);
                prop_assert_eq!(queue.pop(), best.map(|(_, number)| number));
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.next_priority(), model.iter().map(|(p, _)| *p).max());
        }
    }
}
