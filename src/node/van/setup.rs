//! What a van begins with: the configuration of the membership state machine, made from the
//! settings, and the scheduler's journal. May read settings and open that file; touches no socket.

use crate::address;
use crate::error::Result;
use crate::journal::Journal;
use crate::settings::Settings;
use pslite_core::cluster::ClusterConfig;
use pslite_core::cluster::journal::State;
use pslite_core::placement::graph::Topology;
use pslite_core::wire::{Node, Role, SCHEDULER};

/// Opens the journal that the settings name, and reads the job in it that has not ended.
pub(super) fn journal(settings: &Settings) -> Result<(Option<Journal>, Option<State>)> {
    let path = settings.journal.as_deref().filter(|_| settings.role == Role::Scheduler);
    match path {
        Some(path) if settings.follows_pieces() => {
            Journal::open(path).map(|(journal, state)| (Some(journal), state))
        }
        Some(_) | None => Ok((None, None)),
    }
}

/// The scheduler, as far as this node knows it before the first contact.
pub(super) fn scheduler_node(settings: &Settings, me: &Node) -> Node {
    if settings.role == Role::Scheduler {
        return me.clone();
    }
    Node {
        role: Role::Scheduler,
        id: SCHEDULER,
        customer_id: 0,
        hostname: settings.root_host.clone(),
        port: i32::from(settings.root_port),
        is_recovery: false,
        abilities: 0,
        incarnation: 0,
        native_port: 0,
        wished_rank: None,
        launched_as: None,
    }
}

/// The configuration of the membership.
pub(super) fn cluster_config(
    settings: &Settings,
    node: Node,
    scheduler: Node,
    standing_scheduler: bool,
) -> ClusterConfig {
    ClusterConfig {
        role: settings.role,
        num_workers: settings.num_workers,
        num_servers: settings.num_servers,
        node,
        scheduler,
        heartbeat_interval: settings.heartbeat_interval,
        heartbeat_timeout: settings.heartbeat_timeout,
        silence_limit: settings.silence_limit,
        channel_down_limit: settings.peer_timeout,
        start_timeout: settings.start_timeout,
        report_interval: settings.report_interval,
        trees: settings.topology != Topology::Star,
        exchange: settings.exchange,
        recovery_wait: settings.recovery_wait,
        standing_scheduler,
        replicas: settings.copies(),
        planned: true,
        scheduler_wait: settings.scheduler_wait,
        group_size: settings.group_size,
        // Also between nodes of ours where the two kinds have to be told apart.
        instance_barriers: settings.dialect.has_instance_barrier() || settings.group_size > 1,
        rank_order: settings.rank_order.clone(),
        settings: settings.alike.clone(),
        doubt: address::doubt(settings),
    }
}
