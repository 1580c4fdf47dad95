//! Works trees out on a thread of its own: that takes 20 ms for nine sites and half a second for
//! thirty, and neither the clock nor the van's lock waits for it. One job at a time; the thread
//! ends with its owner. Where no thread can be started the job is worked out at once.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;

use crate::running::NodeState;
use pslite_core::chronicle::{JobEventKind, NewEvent};
use pslite_core::scheduler::{Planners, TreeAnswer, TreeJob};

/// See the module. It is started with the first job.
#[derive(Debug, Default)]
pub(super) struct TreeThread(Option<Channels>);

#[derive(Debug)]
struct Channels {
    jobs: SyncSender<TreeJob>,
    answers: Receiver<TreeAnswer>,
}

impl TreeThread {
    /// Gives the planners what was worked out meanwhile.
    pub(super) fn bring_answers(&mut self, state: &NodeState, planners: &mut Planners) {
        let Some(ends) = &self.0 else { return };
        match ends.answers.try_recv() {
            Ok(answer) => planners.answered(answer),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                let text = "the thread that plans trees is gone";
                state.say(&NewEvent::error(JobEventKind::Tree, text));
                self.0 = None;
                planners.job_lost();
            }
        }
    }

    /// Takes a job from the planners, if there is one.
    pub(super) fn take_jobs(&mut self, state: &NodeState, planners: &mut Planners) {
        let Some(job) = planners.take_job() else { return };
        if self.0.is_none() {
            self.0 = started(state);
        }
        let refused = match &self.0 {
            Some(ends) => ends.jobs.try_send(job).err().map(|error| match error {
                TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
            }),
            None => Some(job),
        };
        if let Some(job) = refused {
            planners.answered(TreeAnswer::of(job));
        }
    }
}

fn started(state: &NodeState) -> Option<Channels> {
    let (jobs, to_do) = sync_channel::<TreeJob>(1);
    let (done, answers) = sync_channel(1);
    let work = move || {
        // Ends when either end of the owner's is gone.
        while let Ok(job) = to_do.recv()
            && done.send(TreeAnswer::of(job)).is_ok()
        {}
    };
    match thread::Builder::new().name("pslite-trees".to_owned()).spawn(work) {
        Ok(_) => Some(Channels { jobs, answers }),
        Err(error) => {
            let text = format!("trees are planned between other work: {error}");
            state.say(&NewEvent::warning(JobEventKind::Tree, text));
            None
        }
    }
}
