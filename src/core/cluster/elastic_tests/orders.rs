//! Orders that the scheduler replaced or took back: their servers may have begun them all the same.

use super::store::{KEY, LENGTH};
use super::world::{SECOND, World};
use crate::cluster::claims::KeyPieces;
use crate::cluster::orders::REPLACED_MAX;
use crate::cluster::{Action, Event};
use crate::wire::elastic::{Claim, Holding, KeyRoute, OPAQUE_END, Order};
use crate::wire::word::ClaimWord;
use crate::wire::{NodeId, server_id, worker_id};

fn order(from: u64, to: u64, owner: NodeId) -> Order {
    Order { key: KEY, from, to, owner }
}

impl World {
    /// The scheduler gives an order to the owner, whom it reaches.
    fn orders(&mut self, giver: NodeId, order: Order) {
        self.feed(0, Event::Orders(vec![(giver, order)]));
        let giver = self.index(giver);
        self.deliver_to(giver);
    }

    /// The same, but it does not get there.
    fn orders_in_vain(&mut self, giver: NodeId, order: Order) {
        self.feed(0, Event::Orders(vec![(giver, order)]));
        let giver = self.index(giver);
        self.control.remove(&(0, giver));
    }

    /// How many orders are kept that do not stand any more.
    fn replaced(&self) -> usize {
        self.nodes[0].elastic.books.orders.replaced()
    }

    /// Servers talk until they have nothing more to say, but nothing gets from `from` to `to`; nor
    /// do claims to the scheduler.
    fn servers_talk_but(&mut self, from: NodeId, to: NodeId) {
        let held = (self.index(from), self.index(to));
        let kept = self.data.remove(&held).unwrap_or_default();
        let mut late = kept;
        while self.deliver_data() {
            late.extend(self.data.remove(&held).unwrap_or_default());
        }
        self.data.insert(held, late);
    }

    /// Their machines end, and with them all that they have sent and nobody has got.
    fn vanish(&mut self, ids: &[NodeId]) {
        let victims: Vec<usize> = ids.iter().map(|id| self.index(*id)).collect();
        self.data.retain(|(from, _), _| !victims.contains(from));
        self.control.retain(|(from, _), _| !victims.contains(from));
        victims.into_iter().for_each(|victim| self.kill(victim));
    }
}

/// A job whose key is at server 8, with a copy at 10. 12 and 14 have joined: no new keys go there.
fn with_two_joiners() -> World {
    let mut world = World::new(1, 1, 2);
    world.make_array();
    for _ in 0..2 {
        world.join();
        world.pass(SECOND);
    }
    assert_eq!(world.nodes[0].policy().servers, [8, 10, 12, 14]);
    world.check();
    world
}

/// All that workers were told of pieces that have moved: of each word, from where to where and who.
fn told(world: &World) -> Vec<Vec<(u64, u64, NodeId)>> {
    let worker = world.index(worker_id(0));
    let routes = world.actions[worker].iter().filter_map(|action| match action {
        Action::Routes { routes } => Some(routes),
        _ => None,
    });
    let of = |known: &KeyRoute| {
        assert!(known.key == KEY && known.route.term > 0);
        (known.route.from, known.route.to, known.route.owner)
    };
    routes.map(|routes| routes.iter().map(of).collect()).collect()
}

#[test]
fn workers_are_told_where_pieces_are_that_have_moved() {
    let mut world = with_two_joiners();
    assert_eq!(told(&world), Vec::<Vec<_>>::new());
    world.orders(8, order(0, 6, 12));
    assert!(told(&world).is_empty(), "it has not moved yet");
    world.pass(SECOND);
    assert_eq!(told(&world), [vec![(0, 6, 12)]]);
    // An order that is taken back moves nothing.
    world.orders_in_vain(8, order(6, 8, 14));
    world.orders(8, order(6, 8, 8));
    world.pass(SECOND);
    assert_eq!(told(&world).len(), 1);
    // What is small is found by the next request.
    world.orders(8, order(9, LENGTH, 14));
    world.pass(SECOND);
    assert_eq!(told(&world), [vec![(0, 6, 12)], vec![]]);
    world.check();
}

/// 8 gives its key to 12, which makes it safe at 14 and answers a push. The scheduler hears nothing
/// of that; nor does 10, that it may forget its copy.
fn moved_unheard() -> World {
    let mut world = with_two_joiners();
    world.orders(8, order(0, LENGTH, 12));
    world.servers_talk_but(8, 10);
    let receiver = world.index(12);
    assert_eq!(world.stores[receiver].pieces().count(), 1);
    let before = world.answered.clone();
    world.push(receiver);
    world.servers_talk_but(8, 10);
    assert!(before.iter().zip(&world.answered).all(|(before, now)| before < now));
    world
}

/// What the scheduler may do with an order, and its name.
type Replacement = (&'static str, fn(&mut World));

fn replacements() -> [Replacement; 6] {
    [
        ("it stands", |_| {}),
        ("it is taken back", |world| world.orders(8, order(0, LENGTH, 8))),
        ("another one takes its place", |world| world.orders(8, order(0, LENGTH, 10))),
        ("another one takes a part of its place", |world| world.orders(8, order(0, 1, 10))),
        ("two take its place", |world| {
            world.orders(8, order(0, 6, 10));
            world.orders(8, order(0, LENGTH, 8));
        }),
        ("its receiver is to be emptied", |world| world.feed(0, Event::Drain { id: 12 })),
    ]
}

/// The copy at 10 is older than what was answered: it must not win.
#[test]
fn an_old_copy_is_not_believed_whatever_became_of_the_order() {
    for restarts in [false, true] {
        for (what, replace) in replacements() {
            let mut world = moved_unheard();
            replace(&mut world);
            if restarts {
                world.kill_scheduler();
            }
            world.vanish(&[8, 12, 14]);
            if restarts {
                world.restart_scheduler();
            }
            world.pass(8 * SECOND);
            let text = world.failure().unwrap_or_else(|| panic!("{what}: {:?}", world.verdict()));
            assert!(text.contains("of key 3"), "{what}: {text}");
        }
    }
}

/// With the next policy its giver says that it still has all of it: so its copy is as good as any.
#[test]
fn an_order_that_was_never_begun_is_forgotten_with_a_policy() {
    for restarts in [false, true] {
        let mut world = with_two_joiners();
        world.orders_in_vain(8, order(0, 6, 12));
        world.orders(8, order(0, LENGTH, 8));
        world.pass(SECOND);
        assert_eq!((world.replaced(), usize::from(world.nodes[0].has_open_orders())), (1, 0));
        if restarts {
            world.kill_scheduler();
            world.restart_scheduler();
            assert_eq!((world.replaced(), world.journal.orders.len()), (1, 1));
        } else {
            world.join();
        }
        world.pass(2 * SECOND);
        assert_eq!((world.replaced(), world.journal.orders.len()), (0, 0));
        world.vanish(&[8, 12]);
        world.pass(8 * SECOND);
        assert_eq!(world.failure(), None);
        world.check();
    }
}

/// What a server claims before it knows such a policy says nothing: it may still follow the order.
#[test]
fn claims_of_before_the_policy_do_not_say_that_an_order_is_forgotten() {
    let mut world = with_two_joiners();
    world.orders_in_vain(8, order(0, 6, 12));
    world.orders(8, order(0, LENGTH, 8));
    let giver = world.index(8);
    world.with_store(giver, |_, out| out.claims = true);
    world.settle();
    assert_eq!(world.replaced(), 1, "by the policy that was in force");
    world.feed(0, Event::Drain { id: 14 });
    assert!(!world.nodes[0].may_order(), "a policy is being made");
    world.deliver_to(giver);
    world.deliver_to(0);
    assert_eq!(world.replaced(), 1, "it has answered, and does not know the policy yet");
    world.pass(2 * SECOND);
    assert_eq!(world.replaced(), 0);
}

/// Of what it gave away after all, only that is forgotten which is known to be elsewhere, or here.
#[test]
fn an_order_that_was_begun_is_forgotten_when_it_is_known_where_all_is() {
    let mut world = with_two_joiners();
    world.orders(8, order(2, 6, 12));
    world.servers_talk_but(8, 10);
    world.orders(8, order(0, LENGTH, 8));
    assert_eq!(world.replaced(), 1);
    world.pass(SECOND);
    assert_eq!(world.replaced(), 0, "12 says that it has it");
    world.check();
}

/// A server that is to be emptied does not go while a server may still follow an order that was
/// taken back.
#[test]
fn who_is_emptied_waits_for_those_who_may_send_it_something() {
    let mut world = with_two_joiners();
    world.orders_in_vain(8, order(0, 6, 12));
    world.orders(8, order(0, LENGTH, 8));
    world.pass(SECOND);
    let claims = world.nodes[0].elastic.books.claims.by_server().clone();
    assert!(claims[&12].is_empty() && !world.nodes[0].is_empty(12, &claims));
    world.feed(0, Event::Drain { id: 12 });
    world.pass(3 * SECOND);
    assert_eq!(world.nodes[0].policy().released, [12], "and then it goes");
    world.check();
}

/// However often orders are replaced, there is a policy before there are too many to remember.
#[test]
fn replaced_orders_are_bounded() {
    let mut world = with_two_joiners();
    for turn in 0..4 * REPLACED_MAX as u64 {
        let (key, to) = (100 + turn / 4, [12, 14, 10, 8][(turn % 4) as usize]);
        let made = || KeyPieces { length: LENGTH, pieces: Vec::new() };
        world.nodes[0].elastic.books.pieces.entry(key).or_insert_with(made);
        world.orders_in_vain(8, Order { key, ..order(0, LENGTH, to) });
        assert!(world.replaced() <= REPLACED_MAX + 1);
    }
    assert_eq!(world.replaced(), REPLACED_MAX + 1);
    assert!(!world.nodes[0].may_order(), "a policy is being made");
}

/// The same orders again and again are kept once.
#[test]
fn an_order_that_is_replaced_often_is_kept_once() {
    let mut world = with_two_joiners();
    for _ in 0..100 {
        world.orders_in_vain(8, order(0, 6, 12));
        world.orders_in_vain(8, order(0, LENGTH, 14));
        world.orders_in_vain(8, order(0, LENGTH, 8));
    }
    assert_eq!(world.replaced(), 2);
}

/// An application's own handler keeps the values, and nobody has copies: what the order was about
/// may be at the dead.
#[test]
fn an_opaque_key_may_have_gone_by_an_order_that_was_taken_back() {
    let mut world = World::new(1, 1, 2);
    let joined = world.nodes.len();
    world.unable = Some(joined);
    let own = Claim {
        key: KEY,
        to: OPAQUE_END,
        length: OPAQUE_END,
        term: 5,
        holding: Holding::Owner.into(),
        ..Claim::default()
    };
    let claims = |claims| {
        Event::Claims(ClaimWord { epoch: 1, claims, opaque: true, ..ClaimWord::default() })
    };
    let (a, b) = (world.index(8), world.index(10));
    world.feed(a, claims(vec![own]));
    world.feed(b, claims(Vec::new()));
    world.deliver_to(0);
    assert_eq!(world.join(), joined);
    world.deliver_to(0);
    // It serves: the servers in miniature cannot claim what a policy would ask for.
    let elastic = &mut world.nodes[0].elastic;
    elastic.policy.servers.push(server_id(2));
    elastic.books.joining.clear();
    elastic.books.claimed.insert(server_id(2));
    elastic.books.opaque.insert(server_id(2));
    world.orders(8, order(0, OPAQUE_END, server_id(2)));
    world.orders(8, order(0, OPAQUE_END, 8));
    assert_eq!((world.replaced(), usize::from(world.nodes[0].has_open_orders())), (1, 0));
    world.feed(0, Event::Unreachable { id: server_id(2) });
    let text = world.failure().unwrap_or_default();
    assert!(text.contains("nobody has copies"), "{text}");
}
