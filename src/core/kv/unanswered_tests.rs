use super::*;

fn push(sender: NodeId, customer_id: i32, timestamp: i32) -> Meta {
    Meta { sender, customer_id, timestamp, head: 0, push: true, request: true, ..Meta::default() }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_push_waits_for_a_worker_that_left() {
    let mut ledger = Unanswered::new();
    ledger.received(&push(9, 0, 4), 77, at(1));
    ledger.received(&push(11, 0, 9), 78, at(1));
    assert_eq!(ledger.stuck(), []);
    ledger.customer_left(11, 0);
    let stuck = ledger.stuck();
    // 11 left too: nobody waits for the answer to its push of key 78.
    assert_eq!(stuck.len(), 1);
    assert_eq!((stuck[0].request.sender, stuck[0].request.timestamp), (9, 4));
    assert_eq!((stuck[0].request.key, stuck[0].request.since), (77, at(1)));
    assert_eq!(stuck[0].left, [(11, 0)]);
    assert!(ledger.answered(9, 0, 4));
    assert_eq!(ledger.stuck(), []);
}

#[test]
fn who_pushed_before_leaving_owes_nothing() {
    let mut ledger = Unanswered::new();
    ledger.received(&push(9, 0, 1), 77, at(1));
    ledger.received(&push(11, 0, 1), 77, at(1));
    ledger.customer_left(11, 0);
    assert_eq!(ledger.stuck(), []); // They wait for a third one, who is slow.
    ledger.customer_left(13, 0);
    assert_eq!(ledger.stuck()[0].left, [(13, 0)]);
    assert!(ledger.answered(11, 0, 1));
    assert_eq!(ledger.stuck()[0].left, [(11, 0), (13, 0)]);
}

#[test]
fn other_customers_do_not_count() {
    let mut ledger = Unanswered::new();
    ledger.received(&push(9, 1, 1), 77, at(1));
    ledger.customer_left(11, 0);
    assert_eq!(ledger.stuck(), []);
    ledger.customer_left(11, 1);
    assert_eq!(ledger.stuck()[0].left, [(11, 1)]);
}

#[test]
fn a_pull_or_command_is_not_stuck() {
    let mut ledger = Unanswered::new();
    let pull = Meta { push: false, pull: true, ..push(9, 0, 1) };
    ledger.received(&pull, 77, at(1));
    ledger.customer_left(11, 0);
    assert_eq!(ledger.stuck(), []);
    let both = Meta { pull: true, ..push(9, 0, 2) };
    ledger.received(&both, 77, at(1));
    assert_eq!(ledger.stuck().len(), 1);
}

#[test]
fn a_customer_that_asks_again_is_back() {
    let mut ledger = Unanswered::new();
    ledger.customer_left(11, 0);
    ledger.received(&push(9, 0, 1), 77, at(1));
    assert_eq!(ledger.stuck().len(), 1);
    ledger.received(&push(11, 0, 0), 3, at(2));
    assert_eq!(ledger.stuck(), []);
    assert!(ledger.left_order.is_empty());
}

#[test]
fn answers_are_counted_once() {
    let mut ledger = Unanswered::new();
    ledger.received(&push(9, 0, 1), 77, at(1));
    ledger.received(&push(9, 0, 1), 77, at(1)); // The same name again replaces the former.
    ledger.received(&push(9, 0, 2), 77, at(1));
    assert_eq!(ledger.len(), 2);
    assert!(ledger.answered(9, 0, 1) && !ledger.answered(9, 0, 1));
    assert_eq!(ledger.pushes.get(&(77, 9, 0)), Some(&1));
    assert!(ledger.answered(9, 0, 2) && !ledger.answered(8, 0, 2));
    assert!(ledger.is_empty() && ledger.pushes.is_empty());
}

#[test]
fn a_forgotten_node_leaves_nothing() {
    let mut ledger = Unanswered::new();
    ledger.received(&push(9, 0, 1), 77, at(1));
    ledger.received(&push(9, 3, 1), 78, at(1));
    ledger.received(&push(11, 0, 1), 77, at(1));
    ledger.customer_left(9, 0);
    ledger.forget_node(9);
    assert_eq!(ledger.held().map(|held| held.sender).collect::<Vec<_>>(), [11]);
    assert_eq!(ledger.stuck(), []);
    assert_eq!(ledger.pushes.len(), 1);
}

#[test]
fn everything_is_bounded() {
    let mut ledger = Unanswered::new();
    for timestamp in 0..UNANSWERED_KEPT as i32 + 10 {
        ledger.received(&push(9, 0, timestamp), 77, at(1));
    }
    assert_eq!((ledger.len(), ledger.unwatched()), (UNANSWERED_KEPT, 10));
    for node in 0..2 * LEFT_KEPT as i32 {
        ledger.customer_left(node, 5);
        ledger.customer_left(node, 5);
    }
    assert_eq!((ledger.left.len(), ledger.left_order.len()), (LEFT_KEPT, LEFT_KEPT));
    for timestamp in 0..UNANSWERED_KEPT as i32 {
        assert!(ledger.answered(9, 0, timestamp));
    }
    assert!(ledger.pushes.is_empty());
}
