//! What a node tells of settings that nodes of a job must have alike: those that `core` compares
//! (`cluster::alike`). A default counts as its value. Reads texts and settings only.

use super::reader::SettingsReader;
use super::{Settings, SumOrder};
use pslite_core::placement::graph::NamedGraph;
use pslite_core::wire::{Role, Setting};

/// MXNet's own, and what they are if they are not set (kvstore_dist.h, kvstore.py). Its workers cut
/// arrays by the first two, and compute, or do not, by the third.
const OF_MXNET: [(&str, &str); 3] = [
    ("MXNET_KVSTORE_BIGARRAY_BOUND", "1000000"),
    ("MXNET_KVSTORE_SLICE_THRESHOLD", "40000"),
    ("MXNET_UPDATE_ON_KVSTORE", "1"),
];

/// All of a node of that role. One that says nothing of its own on the wire says nothing here.
pub(super) fn all(settings: &Settings, env: &SettingsReader<'_>) -> Vec<Setting> {
    if !settings.speaks_extensions() {
        return Vec::new();
    }
    let number = |name: &str, value: usize| Setting::new(name, value.to_string());
    let mut all = vec![
        number("DMLC_NUM_WORKER", settings.num_workers),
        number("DMLC_NUM_SERVER", settings.num_servers),
        number("PS_RESEND", settings.resend.is_some().into()),
        number("PSLITE_TUNNELS", settings.tunnels.unwrap_or(0).into()),
    ];
    if let Some(links) = settings.links.as_ref().filter(|_| settings.tunnels.is_some()) {
        all.push(Setting::new("PSLITE_LINKS", of_links(links)));
    }
    if settings.role != Role::Scheduler {
        let tree = settings.sum_order == SumOrder::Trees;
        all.push(number("PSLITE_DETERMINISTIC=tree", tree.into()));
        all.push(number("DMLC_GROUP_SIZE", settings.group_size));
    }
    match settings.role {
        Role::Worker => {
            let van = if settings.priority_van { "p3" } else { "zmq" };
            all.push(Setting::new("DMLC_PS_VAN_TYPE", van));
            let of = |(name, usual)| {
                let text = env.text(name).unwrap_or_else(|| String::from(usual));
                // As a number, if it is one: 1000 and 01000 are alike.
                let number = text.parse::<i64>().map(|number| number.to_string());
                Setting::new(name, number.unwrap_or(text).chars().take(100).collect::<String>())
            };
            all.extend(OF_MXNET.map(of));
        }
        Role::Server => {
            let order = match settings.sum_order {
                SumOrder::Arrival => "0",
                SumOrder::Ranks => "1",
                SumOrder::Trees => "tree",
            };
            all.push(Setting::new("PSLITE_DETERMINISTIC", order));
            if let Some(holds) = settings.holds_pushes {
                all.push(number("PSLITE_HOLD_PUSHES", holds.into()));
            }
        }
        Role::Scheduler => {}
    }
    all
}

/// Which hosts have links, as a number that differs if these do. (Rates are a matter of the
/// scheduler.)
fn of_links(links: &NamedGraph) -> String {
    let sites = 0..links.names.len();
    let mut ways: Vec<(&str, &str)> = sites
        .clone()
        .flat_map(|from| sites.clone().map(move |to| (from, to)))
        .filter(|(from, to)| links.graph.edge(*from, *to).is_some())
        .map(|(from, to)| (links.name(from), links.name(to)))
        .collect();
    ways.sort_unstable();
    let bytes = ways.iter().flat_map(|(from, to)| [*from, " ", *to, "\n"]).flat_map(str::bytes);
    // FNV-1a, 64 bits.
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    format!("a file with {} hosts and {} links (hash {hash:x})", links.names.len(), ways.len())
}
