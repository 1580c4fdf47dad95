//! A worker's commands in a job whose servers come and go (docs/elastic.md, "Joining and leaving"):
//! which servers got them, which have answered, and which commands must be sent again because none
//! of those servers is left.
//!
//! Pure bookkeeping, beside the [`super::tracker`], which knows when a request is over.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::wire::NodeId;

/// A command that is to be sent, to the servers that [`Commands::again`] was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// The request, as it was numbered first: who has obeyed it knows it by that.
    pub timestamp: i32,
    /// What is commanded.
    pub head: i32,
    /// With which body.
    pub body: Bytes,
}

#[derive(Clone, Debug)]
struct CommandAnswers {
    head: i32,
    body: Bytes,
    /// It counts for servers that come later.
    stays: bool,
    /// Servers that live and have not answered.
    asked: BTreeSet<NodeId>,
    /// Servers that live and have obeyed.
    obeyed: BTreeSet<NodeId>,
}

impl CommandAnswers {
    fn is_orphan(&self) -> bool {
        self.asked.is_empty() && self.obeyed.is_empty()
    }
}

/// The commands of one customer: all that are in flight, and of those that stay in force the last
/// of each kind.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    said: BTreeMap<i32, CommandAnswers>,
}

impl Commands {
    /// A command is sent to these servers. One that `stays` takes the place of that of its kind
    /// before it.
    pub fn said(&mut self, again: Again, asked: &[NodeId], stays: bool) {
        let Again { timestamp, head, body } = again;
        if stays {
            self.said.retain(|_, said| said.head != head || !said.asked.is_empty());
        }
        let asked = asked.iter().copied().collect();
        let said = CommandAnswers { head, body, stays, asked, obeyed: BTreeSet::new() };
        self.said.insert(timestamp, said);
    }

    /// A server has obeyed.
    pub fn obeyed(&mut self, timestamp: i32, server: NodeId) {
        let Some(said) = self.said.get_mut(&timestamp) else { return };
        said.asked.remove(&server);
        said.obeyed.insert(server);
        if said.asked.is_empty() && !said.stays {
            self.said.remove(&timestamp);
        }
    }

    /// It was refused.
    pub fn forget(&mut self, timestamp: i32) {
        self.said.remove(&timestamp);
    }

    /// A server is gone.
    pub fn lost(&mut self, server: NodeId) {
        for said in self.said.values_mut() {
            said.asked.remove(&server);
            said.obeyed.remove(&server);
        }
        self.said.retain(|_, said| said.stays || !said.asked.is_empty() || said.obeyed.is_empty());
    }

    /// True if nobody who lives has got it, or may have.
    #[must_use]
    pub fn is_orphan(&self, timestamp: i32) -> bool {
        self.said.get(&timestamp).is_some_and(CommandAnswers::is_orphan)
    }

    /// A new policy, by which commands go to these servers: what nobody has who lives is said to
    /// them, in the order in which it was said first.
    pub fn again(&mut self, servers: &[NodeId]) -> Vec<Again> {
        if servers.is_empty() {
            return Vec::new();
        }
        let orphans = self.said.iter_mut().filter(|(_, said)| said.is_orphan());
        let again = orphans.map(|(&timestamp, said)| {
            said.asked = servers.iter().copied().collect();
            Again { timestamp, head: said.head, body: said.body.clone() }
        });
        again.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(timestamp: i32, head: i32) -> Again {
        Again { timestamp, head, body: Bytes::from_static(b"body") }
    }

    #[test]
    fn what_nobody_has_who_lives_is_said_again() {
        let mut commands = Commands::default();
        commands.said(command(4, 0), &[8, 10], true);
        commands.obeyed(4, 8);
        commands.lost(8);
        assert!(!commands.is_orphan(4), "the other one may yet obey");
        assert_eq!(commands.again(&[10]), []);
        commands.lost(10);
        assert!(commands.is_orphan(4));
        assert_eq!(commands.again(&[]), [], "there is nobody yet");
        assert_eq!(commands.again(&[12]), [command(4, 0)]);
        assert_eq!(commands.again(&[12]), [], "it is on its way");
        commands.obeyed(4, 12);
        commands.lost(12);
        assert_eq!(commands.again(&[14]), [command(4, 0)]);
    }

    #[test]
    fn only_the_last_of_a_kind_is_kept_and_only_what_stays_in_force() {
        let mut commands = Commands::default();
        commands.said(command(1, 3), &[8], true);
        commands.said(command(2, 0), &[8], true);
        commands.said(command(3, 5), &[8], false);
        commands.said(command(4, 0), &[8], true);
        for timestamp in 1..4 {
            commands.obeyed(timestamp, 8);
        }
        commands.said(command(5, 3), &[8], true);
        commands.obeyed(5, 8);
        commands.forget(6);
        commands.lost(8);
        let again: Vec<i32> = commands.again(&[10]).iter().map(|said| said.timestamp).collect();
        assert_eq!(again, [2, 4, 5], "2 was in flight when 4 was said");
        commands.forget(4);
        assert!(!commands.is_orphan(4));
    }
}
