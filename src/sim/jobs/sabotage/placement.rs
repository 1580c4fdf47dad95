//! Mistakes of nodes that measure, and of the scheduler that places keys by what they say.

use std::time::Duration;

use super::{Plant, Sabotage};
use crate::node::Mismeasure;
use pslite_core::cluster::Event;
use pslite_core::wire::elastic::Claim;
use pslite_core::wire::{NodeId, server_id, worker_id};

/// After that time the planners look no more.
const SOON: Duration = Duration::from_secs(5);
/// After that time they have forgotten all.
const FORGOTTEN: Duration = Duration::from_secs(1);

impl Sabotage {
    /// What a node does wrong when it measures.
    pub(in crate::jobs) const fn measures(plant: Option<Plant>) -> Option<Mismeasure> {
        match plant {
            Some(Plant::BacklogNotSeen) => Some(Mismeasure::Backlog),
            Some(Plant::ArrivalsAtOnce) => Some(Mismeasure::Times),
            Some(Plant::PeersMixed) => Some(Mismeasure::Peers),
            Some(Plant::HalfSeen) => Some(Mismeasure::Half),
            Some(Plant::TwiceSeen) => Some(Mismeasure::Twice),
            Some(Plant::ServersSilent) => Some(Mismeasure::Silent),
            Some(Plant::ReportKept) => Some(Mismeasure::Kept),
            Some(Plant::WaitsSwapped) => Some(Mismeasure::Swapped),
            Some(Plant::TrainsNotSeen) => Some(Mismeasure::Trains),
            Some(Plant::HopsTwice) => Some(Mismeasure::HopsTwice),
            Some(Plant::ProbesForgotten) => Some(Mismeasure::Probes),
            _ => None,
        }
    }

    /// Bytes of a piece, as the scheduler is told them.
    pub(in crate::jobs) fn weighed(&self, claims: &mut [Claim]) {
        if self.is(Plant::BytesUnknown) {
            claims.iter_mut().for_each(|claim| claim.bytes = 1 << 20);
        }
    }

    /// Whose report it is, as the planners hear it.
    pub(in crate::jobs) fn reporter(&self, from: NodeId) -> NodeId {
        let first = match self.plant {
            Some(Plant::ReportsSwapped) => [server_id(0), server_id(1)],
            Some(Plant::LinksSwapped) => [worker_id(0), worker_id(1)],
            _ => return from,
        };
        first.iter().position(|id| *id == from).map_or(from, |at| first[1 - at])
    }

    /// True if the planners look now.
    pub(in crate::jobs) fn looks(&self, now: Duration) -> bool {
        !self.is(Plant::LooksEnd) || now < SOON
    }

    /// True if the planners have forgotten all that they knew then.
    pub(in crate::jobs) fn forgets(&self, now: Duration, since: Duration) -> bool {
        self.is(Plant::PlannersForget) && now >= since + FORGOTTEN
    }

    /// What the planners decide, as it is done.
    pub(in crate::jobs) fn decided(&self, events: &mut [Event]) {
        for event in events {
            if let Event::Overlay { trees, .. } = event {
                self.planted(trees);
            }
            let Event::Orders(orders) = event else { continue };
            match self.plant {
                Some(Plant::OrdersToOne) => {
                    orders.iter_mut().for_each(|(_, order)| order.owner = server_id(0));
                }
                Some(Plant::OrdersLost) => orders.truncate(orders.len() / 2),
                Some(Plant::OrdersTurned) => {
                    let owners: Vec<NodeId> = orders.iter().map(|(_, order)| order.owner).collect();
                    let turned = owners.iter().rev();
                    orders.iter_mut().zip(turned).for_each(|((_, order), to)| order.owner = *to);
                }
                _ => {}
            }
        }
    }
}
