use std::time::Duration;

use super::*;
use crate::running::fake;
use pslite_core::cluster::{ClusterConfig, RankOrder};
use pslite_core::wire::{SCHEDULER, server_id};

/// A job that nobody has joined yet.
fn cluster(settings: &Settings) -> Cluster {
    let node = fake::scheduler();
    let config = ClusterConfig {
        role: settings.role,
        num_workers: settings.num_workers,
        num_servers: settings.num_servers,
        scheduler: node.clone(),
        node,
        heartbeat_interval: settings.heartbeat_interval,
        heartbeat_timeout: settings.heartbeat_timeout,
        silence_limit: settings.silence_limit,
        channel_down_limit: settings.peer_timeout,
        start_timeout: settings.start_timeout,
        report_interval: settings.report_interval,
        trees: false,
        exchange: None,
        recovery_wait: settings.recovery_wait,
        standing_scheduler: true,
        replicas: settings.replicas,
        planned: true,
        scheduler_wait: settings.scheduler_wait,
        group_size: settings.group_size,
        instance_barriers: false,
        rank_order: RankOrder::default(),
        settings: Vec::new(),
        doubt: String::new(),
    };
    Cluster::new(config, Duration::ZERO)
}

#[test]
fn only_a_scheduler_has_a_planner() {
    for role in ["worker", "server"] {
        let state = NodeState::new(fake::settings(role, &[]), SCHEDULER);
        let cluster = cluster(&state.settings);
        assert!(PlanningDriver::default().look(&state, &cluster, 1).is_empty());
    }
}

#[test]
fn a_planner_that_knows_nothing_orders_nothing_and_has_no_times() {
    let state = NodeState::new(fake::settings("scheduler", &[]), SCHEDULER);
    let cluster = cluster(&state.settings);
    let desk = PlanningDriver::default();
    // Before the first look nobody listens; what cannot be read is left.
    desk.report(&state, server_id(0), b"");
    for _ in 0..2 {
        let events = desk.look(&state, &cluster, 1);
        assert!(events.is_empty(), "{events:?}");
        assert_eq!(desk.times(&state, &cluster), RoundTimes::default());
        desk.report(&state, server_id(0), b"\xff");
    }
}
