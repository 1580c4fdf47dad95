//! A worker's side of a session. It knows which batch is next, whether that may begin, and what the
//! scheduler has to hear. Its owner sends the messages that it returns, and gives it those of the
//! scheduler. The owner also calls `tick`: then it repeats what was not answered.

use std::collections::VecDeque;
use std::time::Duration;

use super::spec;
use crate::invariant::{Valid, require};
use crate::wire::balance::{
    BalanceDealt, BalanceKind, BalanceMessage, BalanceOpen, BalanceOrdered, BalanceReport,
    BalanceRule, BalanceShare, BalanceSkip,
};

/// A worker that waits asks again after that long without an answer.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The most shares in one grant: one for each iteration that is lent, and those that a worker that
/// came back has yet to compute.
const SHARES_MAX: usize = 4 * spec::LOOKAHEAD_MAX as usize;
/// The most iterations of a session.
const ITERATIONS_MAX: u64 = 1 << 62;
/// How many reports a message has at most. Former ones are among them, since they may be lost.
const REPEATED: usize = 8;

/// The samples that a worker computes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The iteration, counted over all epochs. Where batches are dealt: how many batches this
    /// worker had before.
    pub iteration: u64,
    /// The epoch.
    pub epoch: u64,
    /// The place of the first sample in the epoch's order. After the last place of an epoch comes
    /// its first one again.
    pub place: u64,
    /// How many samples.
    pub size: u32,
    /// How many workers share the iteration, as it was lent: one that is lost afterwards counts. 1
    /// where batches are dealt.
    pub workers: u32,
}

/// What a worker does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It computes this batch.
    Batch(Batch),
    /// It waits for others.
    Wait,
    /// There are no more batches.
    End,
    /// It does not take part. The text says why.
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ParticipantState {
    Opening,
    Open,
    Refused(String),
    Closed,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Participant {
    name: String,
    open: BalanceOpen,
    state: ParticipantState,
    /// The next iteration to begin.
    next: u64,
    /// Iterations before it may begin.
    until: u64,
    shares: VecDeque<BalanceShare>,
    /// The first iteration that was not reported.
    computed: u64,
    /// Iterations of which this worker has no samples, which it went past and which are not before
    /// `computed` yet: from, to.
    passed: VecDeque<(u64, u64)>,
    /// The last reports, the newest last.
    reports: VecDeque<BalanceReport>,
    /// Batches that were dealt to this worker and have not begun, in order.
    dealt: VecDeque<BalanceDealt>,
    /// How many batches were dealt to this worker.
    dealt_number: u64,
    ended: bool,
    /// What it skipped last. Said with each report, since one may be lost.
    skip: Option<BalanceSkip>,
    /// An order of the application's own, said in the same way.
    ordered: Option<BalanceOrdered>,
    /// When it asked for something, if the scheduler has not answered that.
    asked_at: Option<Duration>,
    /// For people: whom it waits for.
    waits_for: String,
    /// Since when that is so.
    waits_since: Duration,
}

impl Participant {
    /// A worker that wants to take part, and the message by which it says so.
    ///
    /// # Errors
    /// The settings make no sense; the text says what to change.
    pub fn open(
        name: &str,
        mut open: BalanceOpen,
        now: Duration,
    ) -> Result<(Self, BalanceMessage), String> {
        spec::check(name, &open)?;
        open.passes = true;
        let mut participant = Self {
            name: name.to_owned(),
            open,
            state: ParticipantState::Opening,
            next: 0,
            until: 0,
            shares: VecDeque::new(),
            computed: 0,
            passed: VecDeque::new(),
            reports: VecDeque::new(),
            dealt: VecDeque::new(),
            dealt_number: 0,
            ended: false,
            skip: None,
            ordered: None,
            asked_at: None,
            waits_for: String::new(),
            waits_since: now,
        };
        let message = participant.opening(now);
        Ok((participant, message))
    }

    fn is_dealt(&self) -> bool {
        self.open.rule == BalanceRule::Dealt as i32
    }

    /// Iterations of an epoch; 0 where batches are dealt.
    #[must_use]
    pub fn per_epoch(&self) -> u64 {
        spec::per_epoch(&self.open)
    }

    /// What the session was opened with.
    #[must_use]
    pub const fn settings(&self) -> &BalanceOpen {
        &self.open
    }

    /// True once the scheduler has said whether this worker takes part.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.state != ParticipantState::Opening
    }

    /// Why it does not take part, if so.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        if let ParticipantState::Refused(why) = &self.state { Some(why) } else { None }
    }

    /// True if [`Self::next`] would say [`Turn::Wait`].
    #[must_use]
    pub fn waits(&self) -> bool {
        let has = if self.is_dealt() {
            !self.dealt.is_empty() || self.ended
        } else {
            self.next_share().is_some()
        };
        matches!(self.state, ParticipantState::Opening | ParticipantState::Open) && !has
    }

    /// For people: whom it waits for, as far as the scheduler has said. Empty: it has said nothing.
    #[must_use]
    pub fn waits_for(&self) -> &str {
        &self.waits_for
    }

    /// Since when it waits for them.
    #[must_use]
    pub const fn waits_since(&self) -> Duration {
        self.waits_since
    }

    fn waits_for_them(&mut self, now: Duration, message: &BalanceMessage) {
        if self.waits_for != message.text {
            self.waits_for.clone_from(&message.text);
            self.waits_since = now;
        }
    }

    // ---- what the worker does -------------------------------------------------------------------

    /// Takes the next batch. If there is none, it asks for one: the message goes to `out`.
    pub fn next(&mut self, now: Duration, out: &mut Vec<BalanceMessage>) -> Turn {
        match &self.state {
            ParticipantState::Refused(why) => return Turn::Refused(why.clone()),
            ParticipantState::Closed => return Turn::Refused("the session was closed".to_owned()),
            ParticipantState::Opening | ParticipantState::Open => {}
        }
        let batch = if self.is_dealt() { self.next_dealt() } else { self.next_leased(out) };
        match batch {
            Some(batch) => {
                self.next += 1;
                if !self.is_dealt() || !self.dealt.is_empty() || self.ended {
                    self.asked_at = None;
                }
                if self.is_dealt() {
                    self.ask_ahead(now, out);
                }
                Turn::Batch(batch)
            }
            None if self.ended => Turn::End,
            None => {
                if self.asked_at.is_none() && self.state == ParticipantState::Open {
                    self.ask(now, out);
                }
                Turn::Wait
            }
        }
    }

    /// The first iteration that may begin and of which this worker has samples, and its share.
    fn next_share(&self) -> Option<(u64, BalanceShare)> {
        let ends = self.shares.iter().skip(1).map(|next| next.from).chain([self.until]);
        let mut ahead = self.shares.iter().zip(ends).filter(|(_, end)| *end > self.next);
        let (share, _) = ahead.find(|(share, _)| share.size > 0)?;
        let iteration = self.next.max(share.from);
        (iteration < self.until).then_some((iteration, *share))
    }

    fn next_leased(&mut self, out: &mut Vec<BalanceMessage>) -> Option<Batch> {
        let next = self.next_share();
        // Of the last iterations that are lent it may have no samples.
        let begins = next.map_or(self.until, |(iteration, _)| iteration);
        if begins > self.next && self.shares.front().is_some_and(|first| first.from <= self.next) {
            match self.passed.back_mut() {
                Some((_, to)) if *to == self.next => *to = begins,
                _ => self.passed.push_back((self.next, begins)),
            }
            self.next = begins;
            if self.go_past() {
                out.push(self.said(false));
            }
        }
        while self.shares.get(1).is_some_and(|share| share.from <= self.next) {
            self.shares.pop_front();
        }
        let (_, share) = next?;
        let (epoch, within) = (self.next / self.per_epoch(), self.next % self.per_epoch());
        let place = within * u64::from(self.open.total) + u64::from(share.start);
        // An older scheduler does not say how many.
        let workers = if share.workers == 0 { self.open.members } else { share.workers };
        Some(Batch { iteration: self.next, epoch, place, size: share.size, workers })
    }

    /// What was gone past is computed once all before it is. True if there was something.
    fn go_past(&mut self) -> bool {
        let before = self.computed;
        while let Some((from, to)) = self.passed.front().copied() {
            if from > self.computed {
                break;
            }
            self.passed.pop_front();
            self.computed_up_to(self.computed.max(to));
        }
        self.computed > before
    }

    /// Iterations of which nothing is known were computed.
    fn computed_up_to(&mut self, iteration: u64) {
        for _ in 0..(iteration - self.computed).min(REPEATED as u64) {
            self.keep(BalanceReport::default());
        }
        self.computed = iteration;
    }

    fn next_dealt(&mut self) -> Option<Batch> {
        let BalanceDealt { epoch, place, size } = self.dealt.pop_front()?;
        Some(Batch { iteration: self.next, epoch, place, size, workers: 1 })
    }

    /// Asks for a batch before it is needed. It keeps one less than `lookahead` in stock.
    fn ask_ahead(&mut self, now: Duration, out: &mut Vec<BalanceMessage>) {
        let wanted = usize::try_from(self.open.lookahead).unwrap_or(1).saturating_sub(1);
        if !self.ended && self.dealt.len() < wanted && self.asked_at.is_none() {
            self.ask(now, out);
        }
    }

    /// The worker has computed that iteration and all before it. The report is about that one.
    /// Returns the message for the scheduler; none if that iteration was reported before.
    ///
    /// # Errors
    /// That batch was not begun.
    pub fn report(
        &mut self,
        iteration: u64,
        report: BalanceReport,
    ) -> Result<Option<BalanceMessage>, String> {
        if iteration >= self.next {
            return Err(format!("iteration {iteration} is reported and has not begun"));
        }
        if iteration < self.computed {
            return Ok(None);
        }
        self.computed_up_to(iteration);
        self.keep(report);
        self.computed = iteration + 1;
        self.go_past();
        Ok(Some(self.said(false)))
    }

    /// The worker computes none of the batches before that iteration that it has not reported.
    /// Returns the message for the scheduler; none if there are no such batches.
    ///
    /// # Errors
    /// Nothing can be skipped.
    pub fn skip(&mut self, to: u64) -> Result<Option<BalanceMessage>, String> {
        if self.is_dealt() {
            return Err("where batches are dealt, none can be skipped: report them".to_owned());
        }
        if to > spec::FIRST_MAX {
            return Err(format!("iteration {to} is too far: {} is the last one", spec::FIRST_MAX));
        }
        if to <= self.computed {
            return Ok(None);
        }
        self.skip = Some(BalanceSkip { from: self.computed, to });
        self.reports.clear();
        self.computed = to;
        self.next = self.next.max(to);
        Ok(Some(self.said(false)))
    }

    /// The application takes the samples of that epoch in an order of its own, which has that hash.
    /// Returns the message for the scheduler.
    pub fn ordered(&mut self, epoch: u64, hash: u64) -> BalanceMessage {
        self.ordered = Some(BalanceOrdered { epoch, hash });
        self.said(false)
    }

    /// The library has measured an iteration. Reports that of the oldest batch that has begun and
    /// is not reported. Returns the message for the scheduler; none if there is no such batch.
    ///
    /// What it measures begins with the end of the batch before. Between two epochs a worker may
    /// validate, or write a checkpoint. So the time of an epoch's first batch is not known.
    pub fn measured(&mut self, report: BalanceReport) -> Option<BalanceMessage> {
        if self.computed >= self.next {
            return None;
        }
        // If each batch is the first one of its epoch, its time is better than none.
        let is_first = self.per_epoch() > 1 && self.computed.is_multiple_of(self.per_epoch());
        let seconds = if is_first { 0.0 } else { report.seconds };
        self.report(self.computed, BalanceReport { seconds, ..report }).ok().flatten()
    }

    /// How many batches have begun, and how many of them were reported.
    #[must_use]
    pub const fn progress(&self) -> (u64, u64) {
        (self.next, self.computed)
    }

    fn keep(&mut self, report: BalanceReport) {
        if self.reports.len() == REPEATED {
            self.reports.pop_front();
        }
        self.reports.push_back(report);
    }

    /// The worker leaves the session. Returns the message for the scheduler.
    pub fn close(&mut self) -> Option<BalanceMessage> {
        let was = std::mem::replace(&mut self.state, ParticipantState::Closed);
        matches!(was, ParticipantState::Opening | ParticipantState::Open)
            .then(|| self.word(BalanceKind::Close))
    }

    /// The job is over for this worker.
    pub fn fail(&mut self, why: &str) {
        if matches!(self.state, ParticipantState::Opening | ParticipantState::Open) {
            self.state = ParticipantState::Refused(why.to_owned());
        }
    }

    // ---- what the scheduler says ----------------------------------------------------------------

    /// A message of the scheduler has come. What this worker answers goes to `out`.
    pub fn received(
        &mut self,
        now: Duration,
        message: &BalanceMessage,
        out: &mut Vec<BalanceMessage>,
    ) {
        let mine = message.instance == self.open.instance && message.rank == self.open.rank;
        if !mine || matches!(self.state, ParticipantState::Refused(_) | ParticipantState::Closed) {
            return;
        }
        match BalanceKind::try_from(message.kind).unwrap_or(BalanceKind::Unknown) {
            BalanceKind::Opened => {
                if self.open.first > 0 && !message.knows_first {
                    let text = "the scheduler is an older version: it begins with iteration 0";
                    self.state = ParticipantState::Refused(text.to_owned());
                } else if self.state == ParticipantState::Opening
                    && message.iteration <= ITERATIONS_MAX
                {
                    self.state = ParticipantState::Open;
                    (self.next, self.computed) = (message.iteration, message.iteration);
                    self.asked_at = None;
                    if self.is_dealt() {
                        self.ask(now, out);
                    }
                }
                self.waits_for_them(now, message);
            }
            BalanceKind::Wait => self.waits_for_them(now, message),
            BalanceKind::Refused => self.state = ParticipantState::Refused(message.text.clone()),
            // Before `Opened` has come, a grant says too little.
            BalanceKind::Grant if self.state == ParticipantState::Open => {
                self.granted(now, message)
            }
            BalanceKind::Deal if self.state == ParticipantState::Open => {
                self.dealt(now, message, out)
            }
            _ => {}
        }
    }

    fn granted(&mut self, now: Duration, message: &BalanceMessage) {
        self.waits_for_them(now, message);
        let ascend = message.shares.windows(2).all(|pair| pair[0].from < pair[1].from);
        let first = message.shares.first().is_some_and(|share| share.from <= self.next);
        let sound = ascend && first && message.shares.len() <= SHARES_MAX;
        // An older grant may come late, after a new connection.
        if message.iteration < self.until || message.iteration > ITERATIONS_MAX || !sound {
            return;
        }
        if message.iteration > self.until {
            // Otherwise the answer was that it has to wait. Then it asks again after a while.
            self.asked_at = None;
        }
        self.until = message.iteration;
        self.shares = message.shares.iter().copied().collect();
    }

    fn dealt(&mut self, now: Duration, message: &BalanceMessage, out: &mut Vec<BalanceMessage>) {
        let Some(dealt) = message.dealt.filter(|_| message.iteration == self.dealt_number) else {
            return; // It came twice.
        };
        self.asked_at = None;
        self.waits_for.clear();
        if dealt.size == 0 {
            self.ended = true;
            return;
        }
        self.dealt.push_back(dealt);
        self.dealt_number += 1;
        self.ask_ahead(now, out);
    }

    /// Time has passed. Repeats what was not answered.
    pub fn tick(&mut self, now: Duration, out: &mut Vec<BalanceMessage>) {
        if self.asked_at.is_some_and(|at| now >= at.saturating_add(ASK_AGAIN)) {
            match self.state {
                ParticipantState::Opening => {
                    let message = self.opening(now);
                    out.push(message);
                }
                ParticipantState::Open => self.ask(now, out),
                ParticipantState::Refused(_) | ParticipantState::Closed => self.asked_at = None,
            }
        }
    }

    // ---- what it says ---------------------------------------------------------------------------

    fn word(&self, kind: BalanceKind) -> BalanceMessage {
        BalanceMessage {
            kind: kind as i32,
            session: self.name.clone(),
            rank: self.open.rank,
            instance: self.open.instance,
            ..BalanceMessage::default()
        }
    }

    fn opening(&mut self, now: Duration) -> BalanceMessage {
        self.asked_at = Some(now);
        let open = Some(self.open.clone());
        BalanceMessage { open, ..self.word(BalanceKind::Open) }
    }

    fn said(&self, asks: bool) -> BalanceMessage {
        BalanceMessage {
            iteration: self.computed,
            reports: self.reports.iter().copied().collect(),
            asks,
            skip: self.skip,
            ordered: self.ordered,
            ..self.word(BalanceKind::Report)
        }
    }

    /// Asks what it may do now.
    fn ask(&mut self, now: Duration, out: &mut Vec<BalanceMessage>) {
        self.asked_at = Some(now);
        if self.is_dealt() {
            // The last report may have been lost, and others may wait for it.
            out.push(self.said(false));
            let iteration = self.dealt_number;
            out.push(BalanceMessage { iteration, ..self.word(BalanceKind::Ask) });
        } else {
            out.push(self.said(true));
        }
    }

    /// What it promises: no batch begins that was not lent, and none is reported that has not
    /// begun.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn validate(&self) -> Valid {
        let Self { next, until, computed, .. } = *self;
        let lent = if self.is_dealt() { self.dealt_number } else { until.max(next) };
        require(computed <= next, || format!("{computed} iterations reported of {next}"))?;
        require(next <= lent, || format!("{next} iterations begun of {lent}"))?;
        require(self.dealt.len() <= self.open.lookahead as usize, || {
            format!("{} batches dealt ahead", self.dealt.len())
        })
    }
}
