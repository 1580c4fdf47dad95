//! Further customers of workers: kvstores that are made when the job runs.

use super::*;

/// A job whose server keeps keys apart, and whose workers can do that.
fn second_kvstore(worker: u64, server: u64) -> Job {
    let mut configs = vec![
        config(Role::Scheduler, "s", 1, 1, 1),
        config(Role::Server, "b", 100, 1, 1),
        config(Role::Worker, "a", 200, 1, 1),
    ];
    configs[1].node.abilities = ability::PSLITE | server;
    configs[2].node.abilities = worker;
    let mut job = Job::new(configs);
    job.start();
    assert!(job.nodes.iter().all(Cluster::is_ready));
    job.feed(2, Event::Register { customer_id: 1 });
    job.settle();
    job
}

#[test]
fn who_would_mix_the_keys_of_two_kvstores_ends_the_job() {
    let old = second_kvstore(ability::PSLITE, ability::OWN_KEYS);
    for node in 0..3 {
        let text = old.failure(node).unwrap();
        assert!(text.contains("made a second kvstore (customer 1)"), "{text}");
    }
    let stock = second_kvstore(0, ability::OWN_KEYS);
    assert!(stock.failure(0).is_some() && stock.failure(1).is_some());
}

#[test]
fn others_may_have_further_customers() {
    for (worker, server) in [
        (ability::PSLITE | ability::OWN_KEYS, ability::OWN_KEYS),
        // Their server has a handler of the application's.
        (ability::PSLITE, 0),
        (0, 0),
    ] {
        let job = second_kvstore(worker, server);
        assert!((0..3).all(|node| job.failure(node).is_none()), "{worker} {server}");
        // Of a worker that does not know of it, who waits there for ever is told.
        let is_said = job.events[0].iter().any(|action| {
            matches!(action, Action::Note(event)
                if event.text.contains("its keys are those of the first"))
        });
        assert_eq!(is_said, worker & ability::OWN_KEYS == 0, "{worker} {server}");
    }
}
