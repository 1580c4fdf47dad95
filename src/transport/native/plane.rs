//! What the threads of the native data plane hand each other: the channels by number, what the I/O
//! thread is to do, and connections on their way to the receiving thread. [`Shared`] is the part
//! that channels and connections know, too; they must not know this one.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use super::channel::Channel;
use super::shared::Shared;
use crate::sync::lock;
use pslite_core::wire::native::Hello;

/// A connection that has introduced itself.
#[derive(Debug)]
pub(super) struct Introduced {
    pub(super) socket: OwnedFd,
    pub(super) hello: Hello,
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) address: Arc<str>,
}

/// What the other threads ask for.
#[derive(Debug)]
pub(super) enum PlaneCommand {
    /// Accept connections there.
    Listen(TcpListener),
    /// The job's token is known now.
    Joined,
    /// Accept no more.
    StopListening,
    /// Connect that channel.
    Connect(Arc<Channel>),
    /// That channel was given up; what it holds may still be flushed until then.
    GiveUp(u32, Instant),
    /// Writing to that channel failed.
    Look(u32),
    /// End.
    End,
}

/// See the module.
pub(super) struct Plane {
    shared: Arc<Shared>,
    /// Connections on their way from the I/O thread to the receiving one.
    pub(super) arrivals: Mutex<Vec<Introduced>>,
    commands: Mutex<Vec<PlaneCommand>>,
    channels: RwLock<BTreeMap<u32, Arc<Channel>>>,
}

impl Plane {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            arrivals: Mutex::default(),
            commands: Mutex::default(),
            channels: RwLock::default(),
        }
    }

    pub(super) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Frees the receiving thread and senders that wait.
    pub(super) fn stop(&self) {
        self.shared.stop();
        self.all_channels().iter().for_each(|channel| channel.wake());
    }

    pub(super) fn command(&self, command: PlaneCommand) {
        lock(&self.commands).push(command);
        self.shared.io_bell.ring();
    }

    pub(super) fn take_commands(&self) -> Vec<PlaneCommand> {
        std::mem::take(&mut *lock(&self.commands))
    }

    /// One of this node's channels, by its number.
    pub(super) fn channel(&self, number: u32) -> Option<Arc<Channel>> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    pub(super) fn add_channel(&self, channel: Arc<Channel>) {
        self.channels
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(channel.number, channel);
    }

    pub(super) fn remove_channel(&self, number: u32) {
        self.channels.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    pub(super) fn all_channels(&self) -> Vec<Arc<Channel>> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
