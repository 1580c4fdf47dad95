//! Requests that can never be answered, because a worker left without the push that they wait for:
//! their senders are told. May touch the customer; `kv` decides which requests these are.

use std::sync::atomic::Ordering;

use super::ServerCustomer;
use pslite_core::keys::KeyName;
use pslite_core::text;
use pslite_core::values::KvPairs;
use pslite_core::wire::Key;
use pslite_observe::log::{self, Level};

impl ServerCustomer {
    /// A push that waits for a worker that has left can never be answered: its sender is told,
    /// instead of waiting for ever. Only when nothing else is left to do, because until then the
    /// answer may still come.
    pub(crate) fn end_stuck_requests(&self) {
        if !self.left.load(Ordering::Relaxed) || !self.front.base.queue.is_empty() {
            return;
        }
        let (Some(stuck), Ok(node)) = (self.front.stuck(), self.front.node()) else { return };
        if node.policy().is_some_and(|routed| !routed.policy.live.is_empty()) {
            return; // Rounds do not wait for those who left.
        }
        for stuck in stuck {
            let describe = |id| node.with_cluster(|cluster, _| cluster.describe(id));
            let who = text::few(stuck.left.iter().map(|(id, _)| describe(*id)));
            let key = self.name_of(stuck.request.key, node.settings().server_groups());
            let refused = stuck.refused(&who, key);
            log::write(Level::Error, &refused.error);
            // A stock worker would take any answer for a success: it goes on waiting, as before.
            if let Err(error) = self.respond(&refused, KvPairs::default()) {
                log::write(Level::Verbose, &error.to_string());
            }
        }
    }

    /// The key, for people: only the store knows spaces.
    fn name_of(&self, key: Key, servers: usize) -> KeyName {
        match self.store_server.get() {
            Some(_) => KeyName::of(key, servers),
            None => KeyName::of_handler(key, servers),
        }
    }
}
