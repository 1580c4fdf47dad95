//! Asks the scheduler on a thread of its own, so that keys are answered while it is busy.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use pslite::chronicle::{ChronicleNews, ChronicleReader};
use pslite::node::Operator;
use pslite::scheduler::Status;
use pslite::wire::NodeId;
use pslite::wire::chronicle::ChronicleQuestion;

/// The question of one who knows nothing yet.
const NOTHING_KNOWN: ChronicleQuestion = ChronicleQuestion { after_event: 0, after_point: 0 };
/// Servers that the user may ask to drain before the first answer; more are not taken.
const DRAINS: usize = 4;
/// Answers that wait for the screen. The thread waits if there are more.
const ANSWERS: usize = 4;

/// What the scheduler said.
pub(super) enum StatusNews {
    /// How the job is, and what has happened since the answer before.
    Status(Box<Status>),
    /// It did not say how the job is, and why.
    Silence(String),
    /// What it said to a drain, or why that failed.
    Drain(String),
}

/// See the module. The thread ends with the process, or with the first question after this is
/// dropped.
pub(super) struct StatusAsker {
    drains: SyncSender<NodeId>,
    heard: Receiver<StatusNews>,
}

impl StatusAsker {
    /// Asks now, and then that often.
    pub(super) fn start(operator: Operator, every: Duration) -> io::Result<Self> {
        let (drains, wanted) = sync_channel(DRAINS);
        let (answers, heard) = sync_channel(ANSWERS);
        let ask = move || {
            ask_on(&operator, every, &wanted, &answers);
        };
        thread::Builder::new().name("pslite-asking".to_owned()).spawn(ask)?;
        Ok(Self { drains, heard })
    }

    /// The next thing that was heard.
    pub(super) fn answer(&self) -> Option<StatusNews> {
        self.heard.try_recv().ok()
    }

    /// Has that server drained. Its answer comes with the others. A fifth one that waits is not
    /// taken: the screen says for each what became of it.
    pub(super) fn drain(&self, server: NodeId) {
        let _ = self.drains.try_send(server);
    }
}

fn ask_on(
    operator: &Operator,
    every: Duration,
    wanted: &Receiver<NodeId>,
    answers: &SyncSender<StatusNews>,
) {
    let mut reader = ChronicleReader::new(NOTHING_KNOWN);
    loop {
        let mut more = false;
        let news = match operator.chronicle(reader.asks()) {
            Ok(mut status) => {
                if let Some(part) = &mut status.chronicle {
                    more = part.more;
                    if reader.hear(part) == ChronicleNews::BeginsAnew {
                        (part.events, part.points, more) = (Vec::new(), Vec::new(), true);
                    }
                }
                StatusNews::Status(Box::new(status))
            }
            Err(error) => StatusNews::Silence(error.to_string()),
        };
        if answers.send(news).is_err() {
            return;
        }
        if more {
            continue;
        }
        match wanted.recv_timeout(every) {
            Ok(server) => {
                let said = operator.drain(server).unwrap_or_else(|error| error.to_string());
                if answers.send(StatusNews::Drain(said)).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
