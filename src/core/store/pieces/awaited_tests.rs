//! Which customers rounds wait for.

use super::*;
use crate::store::pieces::contribution::Pushes;
use crate::wire::Meta;

fn workers(left: &[(NodeId, i32)]) -> Workers {
    let live = |node| LiveWorker { node, since: 0, customers: vec![0], incarnation: 0 };
    Workers::new(&[9, 11].map(live), &left.iter().copied().collect())
}

fn pushed(by: &[(NodeId, i32)]) -> Contributors {
    let mut contributors = Contributors::default();
    for &(sender, customer_id) in by {
        contributors.push(Pushes::One(Meta { sender, customer_id, ..Meta::default() }));
    }
    contributors
}

#[test]
fn a_round_waits_for_the_customer_whose_keys_they_are() {
    let all = workers(&[]);
    assert_eq!(all.awaited(1).collect::<Vec<_>>(), [(9, 1), (11, 1)]);
    assert_eq!(all.awaited(SHARED).collect::<Vec<_>>(), [(9, 0), (11, 0)]);
    assert!(!all.are_all_in(&pushed(&[(9, 1)]), 1));
    assert!(all.are_all_in(&pushed(&[(9, 1), (11, 1)]), 1));
    assert_eq!((all.only_awaited(9, 1), all.only_awaited(9, SHARED)), (Some(1), Some(0)));
    let one_left = workers(&[(11, 1)]);
    assert!(one_left.are_all_in(&pushed(&[(9, 1)]), 1));
    assert!(!one_left.are_all_in(&pushed(&[(9, 0)]), SHARED), "its first one goes on");
    assert_eq!(one_left.only_awaited(11, 1), None);
}

#[test]
fn who_has_left_has_left_with_all_customers() {
    let one_left = workers(&[(11, 0)]);
    assert!(one_left.are_all_in(&pushed(&[(9, 1)]), 1));
    assert!(!one_left.are_all_in(&pushed(&[(11, 1)]), 1), "its push is in, the other's is not");
}
