//! In which order the scheduler gives out ranks: as nodes wish, or as their launcher counts them,
//! or by their addresses as stock does (van.cc:57), or by one of the two orders of BytePS
//! (`ProcessAddNodeCommandAtScheduler` of its ps-lite). Pure: takes who has registered, returns
//! them in order.

use std::collections::BTreeMap;

use super::registrant::Registrant;
use crate::wire::{Node, NodeId, Role};

/// The order of ranks where nodes wish none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RankOrder {
    /// Stock's: host name descending as a string, then port ascending.
    #[default]
    Address,
    /// `BYTEPS_ENABLE_MIXED_MODE`: hosts with one node, which must be a server, before those with
    /// two; else as [`Self::Address`].
    Mixed,
    /// `BYTEPS_ORDERED_HOSTS`: the order of these hosts; one that is not named counts as the first,
    /// as at stock.
    Hosts(Vec<String>),
}

type Registered = Vec<(NodeId, Registrant)>;

/// Who has registered, in the order of ranks; the ranks of servers and of workers are counted by
/// themselves.
///
/// # Errors
/// Wishes that do not fit together, or hosts that the order has no place for; the text is for
/// people.
pub(super) fn sorted(
    registrants: &BTreeMap<NodeId, Registrant>,
    order: &RankOrder,
) -> Result<Registered, String> {
    let mut all: Registered = registrants.iter().map(|(key, one)| (*key, one.clone())).collect();
    all.sort_by(|(_, a), (_, b)| by_address(&a.node, &b.node));
    if all.iter().any(|(_, one)| one.node.wished_rank.is_some()) {
        return as_wished(all);
    }
    match order {
        RankOrder::Address => as_launched(&mut all),
        RankOrder::Mixed => {
            let count =
                |host: &str| all.iter().filter(|(_, one)| one.node.hostname == host).count();
            let counts: BTreeMap<String, usize> = all
                .iter()
                .map(|(_, one)| (one.node.hostname.clone(), count(&one.node.hostname)))
                .collect();
            check_mixed(&all, &counts)?;
            all.sort_by_key(|(_, one)| counts.get(&one.node.hostname).copied());
        }
        RankOrder::Hosts(hosts) => {
            let place = |node: &Node| hosts.iter().position(|host| *host == node.hostname);
            all.sort_by_key(|(_, one)| place(&one.node).unwrap_or(0));
        }
    }
    Ok(all)
}

/// A launcher that started all workers, say, and numbered them from 0 on: then people know a worker
/// by its rank from the beginning. Where the numbers are not 0, 1, 2 and so on, nothing is changed:
/// nodes may have come from elsewhere.
fn as_launched(all: &mut Registered) {
    for role in [Role::Server, Role::Worker] {
        let own = || all.iter().filter(|(_, one)| one.node.role == role);
        let mut numbers: Vec<Option<u32>> = own()
            .map(|(_, one)| one.node.launched_as.filter(|_| one.customers.len() == 1))
            .collect();
        numbers.sort_unstable();
        if !numbers.iter().copied().eq((0..).take(numbers.len()).map(Some)) {
            continue;
        }
        // Ranks are counted by role, so only the order among nodes of one matters.
        all.sort_by_key(|(_, one)| (one.node.role == role).then_some(one.node.launched_as));
    }
}

fn by_address(a: &Node, b: &Node) -> std::cmp::Ordering {
    b.hostname.cmp(&a.hostname).then(a.port.cmp(&b.port))
}

fn check_mixed(all: &Registered, counts: &BTreeMap<String, usize>) -> Result<(), String> {
    for (_, one) in all {
        let text = match counts.get(&one.node.hostname) {
            Some(1) if one.node.role != Role::Server => "is alone on its host and no server",
            Some(1 | 2) => continue,
            _ => "is not one of at most two on its host",
        };
        return Err(format!("BYTEPS_ENABLE_MIXED_MODE: {} {text}", one.node.describe()));
    }
    Ok(())
}

/// All nodes of a role wish ranks, and these are 0, 1, 2 and so on.
fn as_wished(mut all: Registered) -> Result<Registered, String> {
    all.sort_by_key(|(_, one)| (one.node.role, one.node.wished_rank));
    let mut next = BTreeMap::<Role, u32>::new();
    for (_, one) in &all {
        let expected = next.entry(one.node.role).or_default();
        if one.node.wished_rank != Some(*expected) || one.customers.len() != 1 {
            let wish = one.node.wished_rank.map_or("none".to_owned(), |rank| rank.to_string());
            let (who, role) = (one.node.describe(), one.node.role.name());
            return Err(format!(
                "{who} wishes rank {wish} where {expected} is next: if a node wishes a rank, each \
                 {role} must, \
                 from 0 on and no two the same"
            ));
        }
        *expected += 1;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::EMPTY;

    fn registered(nodes: &[(Role, &str, i32, Option<u32>)]) -> BTreeMap<NodeId, Registrant> {
        let one = |(role, host, port, wished_rank): &(Role, &str, i32, Option<u32>)| Registrant {
            node: Node {
                role: *role,
                id: EMPTY,
                customer_id: 0,
                hostname: (*host).to_owned(),
                port: *port,
                is_recovery: false,
                abilities: 0,
                incarnation: 0,
                native_port: 0,
                wished_rank: *wished_rank,
                launched_as: None,
            },
            customers: vec![0],
        };
        (1..).map(|key: i32| -key).zip(nodes.iter().map(one)).collect()
    }

    fn ports(
        nodes: &[(Role, &str, i32, Option<u32>)],
        order: &RankOrder,
    ) -> Result<Vec<i32>, String> {
        let sorted = sorted(&registered(nodes), order)?;
        Ok(sorted.into_iter().map(|(_, one)| one.node.port).collect())
    }

    /// Workers that their launcher knows by these numbers, and a server: the ports in the order of
    /// ranks.
    fn launched(numbers: &[Option<u32>]) -> Vec<i32> {
        let mut nodes = vec![(Server, "a", 1, None)];
        nodes.extend((2..).zip(numbers).map(|(port, _)| (Worker, "a", port, None)));
        let mut registered = registered(&nodes);
        for one in registered.values_mut().filter(|one| one.node.role == Worker) {
            one.node.launched_as = numbers[one.node.port as usize - 2];
        }
        let sorted = sorted(&registered, &RankOrder::Address).unwrap();
        let workers = sorted.into_iter().filter(|(_, one)| one.node.role == Worker);
        workers.map(|(_, one)| one.node.port).collect()
    }

    #[test]
    fn ranks_are_the_numbers_of_the_launcher() {
        assert_eq!(launched(&[Some(2), Some(0), Some(1)]), [3, 4, 2]);
    }

    #[test]
    fn numbers_that_are_not_all_there_change_nothing() {
        for numbers in [
            [Some(1), Some(0), None],
            [Some(1), Some(0), Some(1)],
            [Some(3), Some(2), Some(1)],
            [None, None, None],
        ] {
            assert_eq!(launched(&numbers), [2, 3, 4], "{numbers:?}");
        }
    }

    use Role::{Server, Worker};

    #[test]
    fn stocks_order_is_by_address() {
        let nodes = [
            (Worker, "10.0.0.10", 1, None),
            (Server, "10.0.0.2", 3, None),
            (Worker, "10.0.0.2", 2, None),
        ];
        assert_eq!(ports(&nodes, &RankOrder::Address), Ok(vec![2, 3, 1]));
    }

    #[test]
    fn hosts_with_one_server_come_first_in_mixed_mode() {
        let nodes = [
            (Server, "b", 1, None),
            (Worker, "b", 2, None),
            (Server, "a", 3, None),
            (Server, "c", 5, None),
            (Worker, "c", 4, None),
        ];
        assert_eq!(ports(&nodes, &RankOrder::Mixed), Ok(vec![3, 4, 5, 1, 2]));
        let alone = [(Worker, "a", 1, None)];
        assert!(ports(&alone, &RankOrder::Mixed).unwrap_err().contains("no server"));
        let three = [(Server, "a", 1, None), (Server, "a", 2, None), (Worker, "a", 3, None)];
        assert!(ports(&three, &RankOrder::Mixed).unwrap_err().contains("at most two"));
    }

    #[test]
    fn hosts_come_in_the_order_that_was_given() {
        let order = RankOrder::Hosts(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]);
        let nodes = [(Worker, "c", 1, None), (Worker, "a", 2, None), (Worker, "b", 3, None)];
        assert_eq!(ports(&nodes, &order), Ok(vec![2, 3, 1]));
    }

    #[test]
    fn wishes_go_before_addresses_and_have_to_fit() {
        let nodes = [
            (Worker, "a", 1, Some(1)),
            (Worker, "b", 2, Some(0)),
            (Server, "c", 3, Some(0)),
            (Server, "d", 4, Some(1)),
        ];
        assert_eq!(ports(&nodes, &RankOrder::Address), Ok(vec![3, 4, 2, 1]));
        for wishes in [[Some(0), Some(0)], [Some(0), Some(2)], [Some(0), None], [None, Some(1)]] {
            let nodes = [(Worker, "a", 1, wishes[0]), (Worker, "b", 2, wishes[1])];
            let error = ports(&nodes, &RankOrder::Address).unwrap_err();
            assert!(error.contains("wishes rank"), "{error}");
        }
    }
}
