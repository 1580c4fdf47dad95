//! The end of a van: waits for the last confirmations, then ends the threads and closes the
//! sockets. May touch the van; must not be called with its lock held.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::Van;
use crate::running::RunningNode;
use crate::sync::lock;
use pslite_core::cluster::Event;
use pslite_core::wire::NodeId;
use pslite_observe::log::{self, Level};

/// How long sockets may take to flush when the node ends.
const LINGER: Duration = Duration::from_secs(1);
/// How long a node that passes connections on stays for those that still do.
const LAST_PASSAGES: Duration = Duration::from_secs(10);
/// How long a node that resends waits for the last acknowledgements.
const LAST_ACKS: Duration = Duration::from_secs(10);

impl Van {
    /// The exit barrier was passed: from now on a peer that vanishes is no failure.
    pub(crate) fn finalizing(&self) {
        self.event(Event::Finalizing);
        self.wait_for_acks();
    }

    /// The last messages, such as the release of the exit barrier, may be lost on the way. So a
    /// node that resends stays until they are confirmed or their receivers are gone: a connection
    /// that is cut for a moment comes back.
    fn wait_for_acks(&self) {
        let Some(resender) = &self.resender else { return };
        let until = self.now() + LAST_ACKS;
        let limit = self.settings().peer_timeout;
        let mut down = BTreeMap::new();
        while self.now() < until {
            let now = self.now();
            {
                let core = self.job.lock();
                for (id, up) in &core.channels {
                    match up {
                        true => down.remove(id),
                        false => Some(*down.entry(*id).or_insert(now)),
                    };
                }
            }
            let mut resender = lock(resender);
            let gone = down.iter().filter(|(_, since)| now.saturating_sub(**since) >= limit);
            gone.for_each(|(id, _): (&NodeId, _)| resender.forget(*id));
            if resender.pending() == 0 {
                return;
            }
            drop(resender);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends both threads and closes every socket. Flushes what was sent, for at most a second.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.training.fail("the node was finalized");
        {
            let _core = self.job.lock();
            self.job.tell();
        }
        self.transport.stop();
        if let Some(door) = &self.web {
            door.stop();
        }
        if let Some(native) = &self.native {
            native.transport.stop();
        }
        self.customers.set_bounded(false);
        let me = std::thread::current().id();
        // A customer's code may wait for the caller: the thread that runs it ends when it is done.
        let native = self.native.as_ref().and_then(|native| native.inline_handler.interrupt());
        let handling = [self.inline_handler.interrupt(), native];
        // One at a time: the clock may still start a thread.
        while let Some(thread) = self.next_thread() {
            thread.thread().unpark();
            let id = thread.thread().id();
            if id != me && !handling.contains(&Some(id)) && thread.join().is_err() {
                log::write(Level::Error, "a thread of the van ended by a panic");
            }
        }
        self.write_metrics();
        if let Some(native) = &self.native {
            native.transport.close(LINGER);
        }
        self.transport.close(LINGER);
        // Others may still end through here.
        if let Some(tunnels) = &self.tunnels {
            tunnels.close(LAST_PASSAGES);
        }
    }

    fn next_thread(&self) -> Option<JoinHandle<()>> {
        lock(&self.threads).pop()
    }
}
