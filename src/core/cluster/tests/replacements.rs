//! Nodes that take the place of the dead: they take part in the job as it began.

use super::*;

/// The only node dies that cannot do what all others can: keys that move, or going on without
/// workers that die. Who takes its place can, but takes part in the job as it began.
#[test]
fn who_takes_the_place_of_the_only_node_without_an_ability_is_ready() {
    let elastic = ability::PSLITE | ability::ELASTIC;
    takes_the_place_of_one_without(0, elastic);
    takes_the_place_of_one_without(elastic, elastic | ability::ELASTIC_WORKERS);
}

fn takes_the_place_of_one_without(its: u64, all_others: u64) {
    let mut configs =
        vec![config(Role::Scheduler, "s", 1, 2, 1), config(Role::Server, "b", 2, 2, 1)];
    configs.extend((0..3).map(|i| config(Role::Worker, "a", 10 + i, 2, 1)));
    for (i, config) in configs.iter_mut().enumerate() {
        config.heartbeat_timeout = Some(5 * SECOND);
        config.node.abilities = if i == 3 { its } else { all_others };
    }
    let mut job = Job::new(configs);
    (0..4).for_each(|i| job.feed(i, Event::Register { customer_id: 0 }));
    job.settle();
    let keys_move = its & ability::ELASTIC != 0;
    let as_it_began = |node: &Cluster| {
        node.is_ready() && node.is_elastic() == keys_move && !node.has_elastic_workers()
    };
    assert!((0..4).all(|i| as_it_began(&job.nodes[i])));
    let id = job.nodes[3].me().id;
    job.kill(3);
    job.pass(6 * SECOND);
    job.feed(4, Event::Register { customer_id: 0 });
    job.pass(6 * SECOND);
    let newcomer = &job.nodes[4];
    assert_eq!((newcomer.me().id, newcomer.me().is_recovery), (id, true));
    assert!(as_it_began(newcomer), "{its:b} {all_others:b}");
}
