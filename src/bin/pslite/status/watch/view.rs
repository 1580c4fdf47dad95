//! What is known of the job, and what the user is about to do. Pure: times are those since the
//! program began.

use std::collections::VecDeque;
use std::time::Duration;

use pslite::chronicle::{ChroniclePart, JobEvent, RoundPoint};
use pslite::scheduler::{NodeStatus, Status};
use pslite::wire::NodeId;

use super::asking::StatusNews;
use super::keys::WatchKey;

/// Round times that are kept: an hour, with one each second.
const ROUNDS_MAX: usize = 3600;
/// Events that are kept: more than any screen shows.
const EVENTS_MAX: usize = 500;
/// An answer to a drain is shown for so long.
const SAID_FOR: Duration = Duration::from_secs(20);

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
    /// When the scheduler began whose rounds and events these are, in seconds since 1970. None: it
    /// keeps none, and rounds are those that were seen here.
    pub(super) began: Option<f64>,
    /// The last rounds, oldest first.
    pub(super) rounds: VecDeque<RoundPoint>,
    /// What happened, oldest first.
    pub(super) events: VecDeque<JobEvent>,
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
            began: None,
            rounds: VecDeque::new(),
            events: VecDeque::new(),
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

    fn take_status(&mut self, now: Duration, mut status: Box<Status>) {
        self.silence = None;
        if let Some(part) = status.chronicle.take() {
            self.take_chronicle(part);
        } else if status.measured.is_some() {
            let Status { measured, predicted, bound, .. } = *status;
            let round = status.rounds.unwrap_or(0);
            let at = now.as_secs_f64();
            keep(
                &mut self.rounds,
                RoundPoint { at, round, measured, predicted, bound },
                ROUNDS_MAX,
            );
        }
        self.last = Some((now, status));
        self.chosen = self.chosen.min(self.servers().count().saturating_sub(1));
        // Who is gone is not asked about.
        if self.question.is_some_and(|id| self.server(id).is_none()) {
            self.question = None;
        }
    }

    fn take_chronicle(&mut self, part: ChroniclePart) {
        if self.began != Some(part.began) {
            self.began = Some(part.began);
            self.rounds.clear();
            self.events.clear();
        }
        part.points.into_iter().for_each(|point| keep(&mut self.rounds, point, ROUNDS_MAX));
        part.events.into_iter().for_each(|event| keep(&mut self.events, event, EVENTS_MAX));
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

/// Adds one; the oldest goes if there are too many.
fn keep<T>(kept: &mut VecDeque<T>, new: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(new);
}
