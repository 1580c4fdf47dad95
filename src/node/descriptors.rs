//! Computes how many file descriptors a node needs, from its role and the size of the job, and
//! makes room for them at the start.
//!
//! The numbers were counted in running jobs (`compat-tests/test_descriptors.py` counts again). On
//! the stock wire a peer costs two descriptors: a connection in each direction. On the native data
//! plane it costs two more for each TCP connection (one in each direction), or four over shared
//! memory: the sockets, and the bells that wake this node and the peer. So a peer with one
//! connection costs six at most.

use crate::error::{NodeError, Result};
use crate::settings::{Elastic, Settings};
use pslite_core::wire::Role;
use pslite_transport::descriptors::{TooFew, make_room};

/// libzmq's threads and sockets, listeners, and some for what the application opens meanwhile.
const OWN_DESCRIPTORS: u64 = 48;
/// A peer on the stock wire.
const STOCK: u64 = 2;
/// A peer on the native data plane besides, whichever way it takes.
const NATIVE: u64 = 4;
/// While a connection of the native data plane is made: the one over which it is asked, or the
/// memory.
const MAKING: u64 = 2;
/// A peer that is reached through an entrance of tunnels: its port, and both ends of a passage.
const ENTRANCE: u64 = 3;
/// Connections of others that a node passes on: two ends of each.
const PASSAGES: u64 = 2 * 256;
/// Its own answers over HTTP: the listener, and as many connections as there may be.
const WEB: u64 = 1 + 32;
/// A node comes to the scheduler again with a name, before its first connection has ended.
const ANEW: u64 = 1;

/// How many descriptors a node opens if all nodes of the beginning are its peers.
fn needed(settings: &Settings) -> u64 {
    let (workers, servers) = (settings.num_workers as u64, settings.num_servers as u64);
    // A further connection of a channel has two descriptors, and is made over TCP only.
    let native = |connections: u64| {
        if settings.native.is_some() { NATIVE.max(2 * connections) + MAKING } else { 0 }
    };
    let connections = u64::from(settings.connections);
    let tunnels = match settings.tunnels {
        Some(_) => PASSAGES + ENTRANCE * (1 + workers + servers),
        None => 0,
    };
    let web = if settings.http.is_some() { WEB } else { 0 };
    OWN_DESCRIPTORS
        + tunnels
        + web
        + match settings.role {
            Role::Scheduler => (workers + servers) * (STOCK + ANEW),
            Role::Worker => STOCK + servers * (STOCK + native(connections)),
            Role::Server => {
                let others = if settings.follows_pieces() { servers.saturating_sub(1) } else { 0 };
                STOCK
                    + workers * (STOCK + native(connections))
                    + others * (STOCK + native(settings.connections_between_servers().into()))
            }
        }
}

/// Makes room for the descriptors of this node, and as far as possible for those of as many nodes
/// again, which may join. Returns with what settings there is room: where keys would move without
/// copies, but the connections to all other servers are too many, they stay.
///
/// # Errors
/// The process may not have as many.
pub(super) fn provide(settings: Settings) -> Result<Settings> {
    fitting(settings, |needed| make_room(needed, 2 * needed))
}

/// `room`: makes room for so many.
fn fitting(
    settings: Settings,
    room: impl Fn(u64) -> std::result::Result<(), TooFew>,
) -> Result<Settings> {
    let wanted = needed(&settings);
    let Err(few) = room(wanted) else { return Ok(settings) };
    let text = refusal(&settings, wanted, few);
    if settings.elastic == Elastic::Moves {
        let settings = Settings { elastic: Elastic::Off, ..settings };
        if room(needed(&settings)).is_ok() {
            return Ok(settings);
        }
    }
    Err(NodeError::Config(text))
}

fn refusal(settings: &Settings, needed: u64, few: TooFew) -> String {
    let TooFew { open, limit } = few;
    format!(
        "a job of {} workers and {} servers needs up to {needed} more file descriptors here, \
         {open} are open, and this \
         process may have {limit}: raise the hard limit to {} or more (ulimit -Hn, LimitNOFILE= \
         of systemd, \
         --ulimit nofile= of Docker)",
        settings.num_workers,
        settings.num_servers,
        needed + open,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::settings::{Lookup, ProgramSettings};

    fn settings(
        role: &'static str,
        workers: usize,
        servers: usize,
        more: &'static str,
    ) -> Settings {
        let lookup: Lookup = Arc::new(move |name| match name {
            "DMLC_ROLE" => Some(role.to_owned()),
            "DMLC_NUM_WORKER" => Some(workers.to_string()),
            "DMLC_NUM_SERVER" => Some(servers.to_string()),
            "DMLC_PS_ROOT_URI" => Some("127.0.0.1".to_owned()),
            "DMLC_PS_ROOT_PORT" => Some("9091".to_owned()),
            name if name == more => Some("1".to_owned()),
            _ => None,
        });
        Settings::read(&lookup, &ProgramSettings::default()).unwrap()
    }

    #[test]
    fn peers_count_by_role() {
        assert_eq!(needed(&settings("scheduler", 4, 4, "")), 48 + 8 * 3);
        assert_eq!(needed(&settings("worker", 100, 4, "")), 48 + 2 + 4 * 8);
        assert_eq!(needed(&settings("server", 4, 100, "PS_HEARTBEAT_TIMEOUT")), 48 + 2 + 4 * 8);
        assert_eq!(needed(&settings("server", 4, 3, "")), 48 + 2 + 4 * 8 + 2 * 8);
        // The two connections of copies have as many as memory that both share.
        let copies = settings("server", 4, 3, "PSLITE_ELASTIC");
        assert_eq!((copies.connections_between_servers(), copies.connections), (2, 1));
        assert_eq!(needed(&copies), 48 + 2 + 4 * 8 + 2 * 8);
        let more = Settings { connections: 4, ..copies };
        assert_eq!(needed(&more), 48 + 2 + 4 * 12 + 2 * 12);
    }

    #[test]
    fn keys_stay_where_there_is_no_room_for_them_to_move() {
        let elastic = |limit, more| {
            let room = |needed| {
                if needed <= limit { Ok(()) } else { Err(TooFew { open: 0, limit }) }
            };
            fitting(settings("server", 1, 100, more), room).map(|settings| settings.elastic)
        };
        assert_eq!(elastic(1000, "").unwrap(), Elastic::Moves);
        assert_eq!(elastic(500, "").unwrap(), Elastic::Off);
        assert!(elastic(50, "").is_err(), "not even for the workers");
        assert_eq!(elastic(2000, "PSLITE_ELASTIC").unwrap(), Elastic::Copies);
        assert!(elastic(500, "PSLITE_ELASTIC").is_err(), "it asked for copies");
    }

    #[test]
    fn the_text_says_how_many_and_what_to_do() {
        let settings = settings("worker", 1, 500, "");
        let text = refusal(&settings, needed(&settings), TooFew { open: 30, limit: 1024 });
        assert!(text.contains("500 servers needs up to 4050 more"), "{text}");
        assert!(text.contains("may have 1024: raise the hard limit to 4080"), "{text}");
    }
}
