use std::collections::BTreeSet;

use super::super::site_links::Carrying;
use super::*;
use crate::cluster::tests::config;
use crate::placement::graph::Scheme;
use crate::placement::graph::text::parse;
use crate::trees::Table;
use crate::wire::{Role, server_id, worker_id};

/// A job that nobody has joined yet.
fn cluster() -> Cluster {
    Cluster::new(config(Role::Scheduler, "s", 1, 1, 1), Duration::ZERO)
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Three sites, each with a link to both others, and a server at the first one.
fn triangle() -> NamedGraph {
    parse("link a b 20\nlink b c 20\nlink a c 20").unwrap()
}

fn draft(named: &NamedGraph, cut: &[(usize, usize)], scheme: Option<Scheme>) -> TreeJob {
    let workers: Vec<NodeId> = (0..3).map(worker_id).collect();
    let members = TreeMembers { servers: vec![server_id(0)], workers: workers.clone() };
    let at_sites = workers.into_iter().map(|worker| vec![worker]).collect();
    let sites = Sites::with(named.clone(), at_sites, vec![vec![server_id(0)], vec![], vec![]]);
    let mut rates = named.graph.resources().to_vec();
    for (from, to, resource) in named.graph.own_resources() {
        if cut.contains(&(from, to)) {
            rates[resource] = 0.0;
        }
    }
    let graph = named.graph.with_rates(rates.clone()).unwrap();
    let (cut, measured) = (cut.iter().copied().collect(), BTreeSet::new());
    let carrying = Carrying { rates, cut, measured };
    let (shares, bytes, topology) = (vec![1.0, 0.0, 0.0], 4e6, Topology::Packed);
    TreeJob { members, sites, carrying, graph, shares, bytes, topology, scheme }
}

/// What comes of that job, by way of whoever drives the planner.
fn answered(planner: &mut TreePlanner, job: TreeJob) -> TreeAnswer {
    planner.jobs.ask(job);
    assert!(planner.jobs.is_open() && planner.jobs.answer().is_none());
    let job = planner.take_job().unwrap();
    assert!(planner.jobs.is_open() && planner.take_job().is_none());
    planner.answered(TreeAnswer::of(job));
    let answer = planner.jobs.answer().unwrap();
    assert!(!planner.jobs.is_open());
    answer
}

/// A planner whose trees stand, and an answer about them.
fn planted(named: &NamedGraph) -> (TreePlanner, TreeAnswer) {
    let cluster = cluster();
    let mut planner = TreePlanner::default();
    let answer = answered(&mut planner, draft(named, &[], None));
    assert!(answer.bound.is_some() && answer.seconds.is_none());
    let planned = planner.plant(&cluster, answer, false, &mut LogLines::default()).unwrap();
    assert!(!planned.trees.is_empty() && !planned.lossy);
    let scheme = planner.planted.as_ref().unwrap().scheme.clone();
    let answer = answered(&mut planner, draft(named, &[], scheme));
    assert!(answer.seconds.is_some());
    (planner, answer)
}

#[test]
fn trees_that_are_better_for_a_while_take_the_place_of_others() {
    let named = triangle();
    let cluster = cluster();
    for (factor, at_last) in [(1.05, None), (1.2, Some(false)), (1.5, Some(true))] {
        let (mut planner, answer) = planted(&named);
        let promised = answer.proposal.as_ref().unwrap().seconds;
        let mut look = |at: f64, seconds_now: f64| {
            let (job, proposal) = (answer.job.clone(), answer.proposal.clone());
            let (seconds_now, bound) = (Some(seconds_now), answer.bound);
            let star = answer.star;
            let answer = TreeAnswer { job, seconds: seconds_now, star, bound, proposal };
            planner
                .follow(seconds(at), &cluster, false, answer, &mut LogLines::default())
                .map(|planned| planned.lossy)
        };
        assert_eq!(look(10.0, promised * factor), None);
        assert_eq!(look(11.0, promised), None, "it was for a moment");
        assert_eq!(look(12.0, promised * factor), None);
        assert_eq!(look(13.9, promised * factor), None);
        assert_eq!(look(14.0, promised * factor), at_last);
    }
}

#[test]
fn a_link_that_is_cut_is_gone_around_at_once() {
    let named = triangle();
    let cluster = cluster();
    let (mut planner, _) = planted(&named);
    let scheme = planner.planted.as_ref().unwrap().scheme.clone().unwrap();
    let used = |a: usize, b: usize| uses(&scheme, &[(a, b)].into());
    let (a, b) = [(0, 1), (1, 2), (0, 2)].into_iter().find(|(a, b)| used(*a, *b)).unwrap();
    let answer = answered(&mut planner, draft(&named, &[(a, b), (b, a)], Some(scheme.clone())));
    let planned =
        planner.follow(seconds(5.0), &cluster, false, answer, &mut LogLines::default()).unwrap();
    assert!(planned.lossy && !planned.trees.is_empty());
    let around = planner.planted.as_ref().unwrap().scheme.clone().unwrap();
    assert!(!uses(&around, &[(a, b), (b, a)].into()));
    // A site that nothing reaches any more: rounds wait until it is joined again.
    let alone = [(0, 2), (2, 0), (1, 2), (2, 1)];
    let answer = answered(&mut planner, draft(&named, &alone, Some(around.clone())));
    assert!(answer.proposal.is_err());
    assert_eq!(
        planner.follow(seconds(6.0), &cluster, false, answer, &mut LogLines::default()),
        None
    );
    let scheme = planner.planted.as_ref().unwrap().scheme.clone();
    assert_eq!(scheme, Some(around.clone()));
    let one = [(a, b), (b, a)];
    let answer = answered(&mut planner, draft(&named, &one, Some(around)));
    assert_eq!(
        planner.follow(seconds(7.0), &cluster, false, answer, &mut LogLines::default()),
        None
    );
}

/// A server in the middle of a row: no trees are better than the star. At its end they are.
#[test]
fn auto_finds_the_star_for_a_model_only() {
    let named = parse("link a b 20\nlink b c 20").unwrap();
    let cluster = cluster();
    let is_star = |shares: &[f64], bytes: f64| {
        let mut planner = TreePlanner::default();
        assert!(!planner.is_star(), "nothing is known");
        let mut draft = draft(&named, &[], None);
        (draft.shares, draft.bytes, draft.topology) = (shares.to_vec(), bytes, Topology::Auto);
        let answer = answered(&mut planner, draft);
        let planned = planner.plant(&cluster, answer, false, &mut LogLines::default());
        assert_eq!(planned.is_none(), shares[1] > 0.0, "{planned:?}");
        // While the star is best that keys move is no reason to plan anew.
        let planted = planner.planted.as_ref().unwrap();
        assert_eq!(planted.is_for(&[0.3, 0.4, 0.3]), planner.is_star());
        planner.is_star()
    };
    assert!(is_star(&[0.0, 1.0, 0.0], 4e6));
    assert!(!is_star(&[0.0, 1.0, 0.0], 0.0), "there are no keys yet");
    assert!(!is_star(&[1.0, 0.0, 0.0], 4e6));
}

/// The trees in force go around the link since it became slow. Now it is cut.
#[test]
fn a_cut_link_of_former_trees_is_gone_around_too() {
    let named = triangle();
    let cluster = cluster();
    let (mut planner, _) = planted(&named);
    let scheme = planner.planted.as_ref().unwrap().scheme.clone();
    assert!(uses(scheme.as_ref().unwrap(), &[(1, 0)].into()));
    let mut slow = draft(&named, &[], scheme);
    for (from, to, resource) in named.graph.own_resources() {
        if (from.min(to), from.max(to)) == (0, 1) {
            slow.carrying.rates[resource] = 1.0;
        }
    }
    slow.graph = named.graph.with_rates(slow.carrying.rates.clone()).unwrap();
    let answer = answered(&mut planner, slow);
    assert!(planner.plant(&cluster, answer, false, &mut LogLines::default()).is_some());
    let around = planner.planted.as_ref().unwrap().scheme.clone();
    assert!(!uses(around.as_ref().unwrap(), &[(1, 0), (0, 1)].into()));
    let cut = |planner: &mut TreePlanner| {
        let answer = answered(planner, draft(&named, &[(0, 1), (1, 0)], around.clone()));
        planner.follow(seconds(9.0), &cluster, false, answer, &mut LogLines::default())
    };
    // What is seldom pushed may have a ticket for them still.
    for round in 1..9 {
        let progress = Measured { progress: Some(round), ..Measured::default() };
        planner.report(seconds(8.0), worker_id(0), &progress);
    }
    assert!(cut(&mut planner).is_some_and(|planned| planned.lossy));
    assert_eq!(cut(&mut planner), None, "once");
}

#[test]
fn a_model_grows_until_no_key_comes_for_a_while() {
    let mut growth = Growth::default();
    assert!(!growth.goes_on(seconds(1.0), 0.0), "there is none");
    assert!(growth.goes_on(seconds(1.5), 1e6) && growth.goes_on(seconds(2.4), 1e6));
    assert!(growth.goes_on(seconds(2.5), 2e6) && growth.goes_on(seconds(3.4), 2e6));
    assert!(!growth.goes_on(seconds(3.5), 2e6));
}

/// As after a drain, or when the planner has moved keys.
#[test]
fn trees_are_for_where_keys_are() {
    let (planner, _) = planted(&triangle());
    let planted = planner.planted.as_ref().unwrap();
    assert!(planted.is_for(&[0.97, 0.03, 0.0]) && !planted.is_for(&[0.9, 0.1, 0.0]));
    assert!(Planted::default().is_for(&[0.9, 0.1, 0.0]), "none were planned by shares");
}

#[test]
fn only_news_are_planned_for() {
    let named = triangle();
    let (mut planner, answer) = planted(&named);
    let mut now = draft(&named, &[], answer.job.scheme);
    assert!(planner.is_news(&now), "the first look");
    assert!(!planner.is_news(&now));
    now.carrying.rates[0] *= 1.02;
    assert!(!planner.is_news(&now));
    now.carrying.rates[0] *= 1.02;
    assert!(planner.is_news(&now));
}

#[test]
fn balanced_trees_follow_the_ranks() {
    let servers = vec![server_id(0), server_id(1)];
    let members = TreeMembers { servers, workers: (0..7).map(worker_id).collect() };
    let tree = balanced(Topology::Balanced(2), server_id(1), &members).unwrap();
    let table = Table::read(&tree).unwrap();
    assert_eq!((table.root(), table.members().len()), (server_id(1), 7));
    assert_eq!(table.children(server_id(1)), [worker_id(0), worker_id(1)]);
    assert_eq!(table.children(worker_id(0)), [worker_id(2), worker_id(3)]);
    assert_eq!([0, 1, 6].map(|rank| table.through(worker_id(rank))), [4, 3, 1]);
}

/// Balanced trees know no links: while nothing gets through a hop rounds go straight.
#[test]
fn hops_that_no_plan_goes_around_take_trees_away() {
    let mut links = SiteLinks::default();
    let tree = balanced(
        Topology::Balanced(1),
        server_id(0),
        &TreeMembers { servers: vec![server_id(0)], workers: (0..3).map(worker_id).collect() },
    );
    let trees = vec![tree.unwrap()];
    let stuck = |to: usize| Measured { stuck: Some(vec![worker_id(to)]), ..Measured::default() };
    links.report(seconds(1.0), worker_id(0), &stuck(2));
    assert!(!links.blocks(&trees), "no hop goes there");
    links.report(seconds(1.0), worker_id(2), &stuck(1));
    assert!(links.blocks(&trees) && links.are_any_stuck());
    links.expire(seconds(5.9));
    assert!(links.blocks(&trees));
    links.expire(seconds(6.1));
    assert!(!links.blocks(&trees) && !links.are_any_stuck(), "it was not repeated");
}
