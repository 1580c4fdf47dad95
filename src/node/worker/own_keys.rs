//! Keys of a customer's own: a further kvstore counts its keys from 0 again and means other
//! arrays. Here, before anything else looks at them, its keys are put where they lie
//! (`values::spaces`); the servers' stores know the rest. May touch the customer and `values`.

use std::borrow::Cow;

use bytes::Bytes;

use super::{Request, WorkerCustomer};
use crate::error::{NodeError, Result};
use pslite_core::text;
use pslite_core::values::{KeySpace, KvPairs};
use pslite_core::wire::{Role, SCHEDULER};

impl WorkerCustomer {
    /// From now on the keys of this customer are its own: to be called before its first request.
    /// Customer 0 has the keys as they are.
    ///
    /// # Errors
    /// The node is not started, or is no worker; a server keeps no keys apart; there is no room
    /// for so many customers.
    pub(crate) fn take_own_keys(&self) -> Result<()> {
        let (node, customer) = (self.node()?, self.base.customer_id);
        if customer == 0 {
            return Ok(());
        }
        let cannot =
            |why: String| NodeError::Invalid(format!("customer {customer} {CANNOT} {why}"));
        if self.base.app_id != 0 || node.settings().role != Role::Worker {
            return Err(cannot("only workers of app 0 can".to_owned()));
        }
        let (lacking, scheduler) = node.with_cluster(|cluster, _| {
            let servers = cluster.members().values().filter(|node| node.role == Role::Server);
            let lacking = servers.filter(|node| !node.keeps_keys_apart());
            let names = lacking.map(|node| cluster.describe(node.id));
            (names.collect::<Vec<String>>(), cluster.is_ours(SCHEDULER))
        });
        if !scheduler {
            return Err(cannot(BY_SCHEDULER.to_owned() + WAY_OUT));
        }
        if !lacking.is_empty() {
            return Err(cannot(text::few(lacking) + BY_SERVER + WAY_OUT));
        }
        let space = KeySpace::of_customer(customer, node.settings().num_servers)
            .map_err(|error| NodeError::Invalid(error.to_string()))?;
        // A second call finds the same.
        let _ = self.own_keys.set(space);
        Ok(())
    }

    /// The keys of a request where they lie; `None`: as they are.
    pub(super) fn placed(&self, keys: &Bytes) -> Result<Option<Bytes>> {
        let placed = self.own_keys.get().map(|space| space.place(keys)).transpose();
        placed.map_err(|error| NodeError::Invalid(error.to_string()))
    }

    /// The pairs of a request, with their keys where they lie.
    pub(super) fn placed_pairs<'a>(&self, request: &'a Request) -> Result<Cow<'a, KvPairs>> {
        Ok(match self.placed(&request.kv.keys)? {
            None => Cow::Borrowed(&request.kv),
            Some(keys) => Cow::Owned(KvPairs { keys, ..request.kv.clone() }),
        })
    }

    /// True if its keys are its own.
    pub(super) fn has_own_keys(&self) -> bool {
        self.own_keys.get().is_some()
    }
}

const CANNOT: &str = "(a second kvstore of this process, say) cannot have keys of its own:";
const BY_SCHEDULER: &str = "nobody says what servers can: the scheduler is stock's, or the wire is \
    BytePS's (PSLITE_WIRE)";
const BY_SERVER: &str = ": its server tells keys apart and not customers (a stock server, an older \
    pslite, MXNet's own by PSLITE_STORE=mxnet or PSLITE_WIRE, or an application's handler)";
const WAY_OUT: &str = ". Use pslite's servers, or one kvstore for all, with other keys for other \
    arrays";
