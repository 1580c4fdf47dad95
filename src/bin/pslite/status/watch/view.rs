//! What is known of the job, and what the user is about to do. Pure: times are those since the
//! program began.

use std::collections::VecDeque;
use std::time::Duration;

use pslite::scheduler::{NodeStatus, Status};
use pslite::wire::NodeId;

use super::asking::StatusNews;
use super::keys::WatchKey;

/// Round times that are kept: an hour, if they are asked for each second.
const ROUNDS_MAX: usize = 3600;
/// An answer to a drain is shown for so long.
const SAID_FOR: Duration = Duration::from_secs(20);

/// How long rounds took when it was asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RoundSeen {
    /// When.
    pub(super) at: Duration,
    /// Seconds.
    pub(super) measured: f64,
    /// Seconds, as the model says.
    pub(super) predicted: Option<f64>,
    /// T*, in seconds.
    pub(super) bound: Option<f64>,
}

/// What becomes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// The user leaves.
    Leave,
    /// That server is to be drained.
    Drain(NodeId),
    /// Only the screen changes.
    Nothing,
}

/// See the module.
pub(super) struct JobView {
    /// Whom it asks.
    pub(super) scheduler: String,
    /// Whether colours may be used.
    pub(super) colours: bool,
    /// The last answer, and when it came.
    pub(super) last: Option<(Duration, Box<Status>)>,
    /// Why there was none since.
    pub(super) silence: Option<String>,
    /// The last rounds, oldest first.
    pub(super) rounds: VecDeque<RoundSeen>,
    /// The chosen row of the servers.
    pub(super) chosen: usize,
    /// The server of which the user is asked whether it is to be drained.
    pub(super) question: Option<NodeId>,
    /// What the scheduler said to a drain, and when.
    pub(super) said: Option<(Duration, String)>,
}

impl JobView {
    pub(super) fn new(scheduler: String, colours: bool) -> Self {
        Self {
            scheduler,
            colours,
            last: None,
            silence: None,
            rounds: VecDeque::new(),
            chosen: 0,
            question: None,
            said: None,
        }
    }

    /// Something was heard.
    pub(super) fn take(&mut self, now: Duration, heard: StatusNews) {
        match heard {
            StatusNews::Status(status) => self.take_status(now, status),
            StatusNews::Silence(why) => self.silence = Some(why),
            StatusNews::Drain(said) => self.said = Some((now, said)),
        }
    }

    fn take_status(&mut self, now: Duration, status: Box<Status>) {
        self.silence = None;
        if let Some(measured) = status.measured {
            let Status { predicted, bound, .. } = *status;
            if self.rounds.len() == ROUNDS_MAX {
                self.rounds.pop_front();
            }
            self.rounds.push_back(RoundSeen { at: now, measured, predicted, bound });
        }
        self.last = Some((now, status));
        self.chosen = self.chosen.min(self.servers().count().saturating_sub(1));
        // Who is gone is not asked about.
        if self.question.is_some_and(|id| self.server(id).is_none()) {
            self.question = None;
        }
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: WatchKey) -> Pressed {
        if let Some(server) = self.question.take() {
            return match key {
                WatchKey::Yes => Pressed::Drain(server),
                WatchKey::Leave => Pressed::Leave,
                _ => Pressed::Nothing,
            };
        }
        match key {
            WatchKey::Leave => return Pressed::Leave,
            WatchKey::Up => self.chosen = self.chosen.saturating_sub(1),
            WatchKey::Down => {
                self.chosen = (self.chosen + 1).min(self.servers().count().saturating_sub(1));
            }
            WatchKey::Drain => {
                let server = self.servers().nth(self.chosen).map(|node| node.id);
                self.question = server;
            }
            WatchKey::Yes | WatchKey::Other => {}
        }
        Pressed::Nothing
    }

    /// The servers, as the scheduler names them.
    pub(super) fn servers(&self) -> impl Iterator<Item = &NodeStatus> {
        self.of_role("server")
    }

    /// The workers.
    pub(super) fn workers(&self) -> impl Iterator<Item = &NodeStatus> {
        self.of_role("worker")
    }

    /// That server.
    pub(super) fn server(&self, id: NodeId) -> Option<&NodeStatus> {
        self.servers().find(|node| node.id == id)
    }

    /// What the scheduler said to a drain a short while ago.
    pub(super) fn said(&self, now: Duration) -> Option<&str> {
        let (at, said) = self.said.as_ref()?;
        (now.saturating_sub(*at) < SAID_FOR).then_some(said.as_str())
    }

    fn of_role(&self, role: &'static str) -> impl Iterator<Item = &NodeStatus> {
        let nodes = self.last.iter().flat_map(|(_, status)| &status.nodes);
        nodes.filter(move |node| node.role == role)
    }
}
