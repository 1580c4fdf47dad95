//! One connection: it says what it wants, is told, and leaves; or it stays and is told more. Pure:
//! given bytes and the time. Keeps 12 KiB of what it hears at most, and no more to say than one
//! answer, or one part of a stream.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::answer::{SharedBytes, WebAnswer, stream_head};
use crate::desk::Desk;
use crate::feed::{Feed, farewell};
use crate::head::{BODY_MAX, HEAD_MAX, HeadRead, WebMethod, WebRefusal, WebRequest, read, refusal};
use crate::routes::{WebRoute, route};

/// How long a caller may take to say what it wants.
pub(crate) const SAY_LIMIT: Duration = Duration::from_secs(5);
/// How long one may take nothing of what it is told.
pub(crate) const TAKE_LIMIT: Duration = Duration::from_secs(30);
/// How long one that was answered may take to leave. If the connection were closed while something
/// from it is unread, the answer might be lost.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// Where a caller is.
#[derive(Debug)]
enum CallerStage {
    /// It says what it wants.
    Saying { heard: Vec<u8> },
    /// It is told, and then it leaves.
    Told,
    /// It stays.
    Following(Feed),
    /// It was told everything.
    Leaving,
    /// Its connection is to be closed.
    Gone,
}

/// Why a caller was sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentAway {
    /// It took nothing of its answer for too long.
    TookNothing,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct WebCaller {
    stage: CallerStage,
    /// What is to be written, the first from `written`.
    waiting: VecDeque<SharedBytes>,
    written: usize,
    /// When this stage began, or something of what waits was written last.
    moved: Duration,
}

impl WebCaller {
    pub(crate) const fn new(now: Duration) -> Self {
        let stage = CallerStage::Saying { heard: Vec::new() };
        Self { stage, waiting: VecDeque::new(), written: 0, moved: now }
    }

    /// It said that. `has_room`: one more may stay.
    pub(crate) fn said(&mut self, bytes: &[u8], around: &mut CallersWorld<'_, '_>, has_room: bool) {
        // What is said after a request is nobody's: the connection is closed after its answer.
        let CallerStage::Saying { heard } = &mut self.stage else { return };
        let room = (HEAD_MAX + BODY_MAX).saturating_sub(heard.len());
        heard.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        match read(heard, around.bound) {
            Ok(HeadRead::More) => {}
            Ok(HeadRead::Whole(request)) => self.asked(&request, around, has_room),
            Err(why) => self.refuse(&why, around.now),
        }
    }

    fn asked(&mut self, request: &WebRequest, around: &mut CallersWorld<'_, '_>, has_room: bool) {
        let now = around.now;
        let is_head = request.method == WebMethod::Head;
        let found = match route(request, around.desk.has_page()) {
            Ok(WebRoute::Live { .. }) if is_head => {
                self.waiting.push_back(stream_head());
                return self.tell(now);
            }
            Ok(WebRoute::Live { since }) if has_room => return self.stay(since, around),
            Ok(WebRoute::Live { .. }) => {
                Err(refusal(503, "too many pages are open: close one of them"))
            }
            Ok(route) => around.desk.answer(route, now),
            Err(why) => Err(why),
        };
        let answer = found.unwrap_or_else(|why| WebAnswer::refused(&why));
        self.waiting.push_back(answer.head());
        if !is_head && !answer.body.is_empty() {
            self.waiting.push_back(answer.body);
        }
        self.tell(now);
    }

    fn stay(&mut self, since: u64, around: &mut CallersWorld<'_, '_>) {
        let (mut feed, first) = Feed::begin(since, around.desk, around.now);
        self.waiting.extend([stream_head(), first]);
        self.waiting.extend(feed.part(around.desk, around.now));
        self.moved = around.now;
        self.stage = CallerStage::Following(feed);
    }

    /// What it said is no request.
    fn refuse(&mut self, why: &WebRefusal, now: Duration) {
        let answer = WebAnswer::refused(why);
        self.waiting.extend([answer.head(), answer.body]);
        self.tell(now);
    }

    fn tell(&mut self, now: Duration) {
        self.stage = CallerStage::Told;
        self.moved = now;
    }

    /// It says no more. One that waits for its answer may do so; others have left.
    pub(crate) fn hung_up(&mut self) {
        if !matches!(self.stage, CallerStage::Told) {
            self.stage = CallerStage::Gone;
        }
    }

    /// Its connection is broken.
    pub(crate) fn broke(&mut self) {
        self.stage = CallerStage::Gone;
    }

    /// What is to be written next; empty if nothing is.
    pub(crate) fn to_write(&self) -> &[u8] {
        let first = self.waiting.front().filter(|_| !self.is_gone());
        first.and_then(|bytes| bytes.get(self.written..)).unwrap_or_default()
    }

    /// So much of it was written.
    pub(crate) fn wrote(&mut self, bytes: usize, now: Duration) {
        self.moved = now;
        self.written += bytes;
        if self.waiting.front().is_some_and(|first| self.written >= first.len()) {
            self.waiting.pop_front();
            self.written = 0;
        }
        if self.waiting.is_empty() && matches!(self.stage, CallerStage::Told) {
            self.stage = CallerStage::Leaving;
        }
    }

    /// True if its side of the connection is to be shut: it was told everything.
    pub(crate) const fn is_leaving(&self) -> bool {
        matches!(self.stage, CallerStage::Leaving)
    }

    /// True if its connection is to be closed.
    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self.stage, CallerStage::Gone)
    }

    /// True if what it says is to be read. One that waits for its answer may have ended its side,
    /// and its socket would be ready all the time.
    pub(crate) const fn is_heard(&self) -> bool {
        !matches!(self.stage, CallerStage::Told)
    }

    /// True if it stays.
    pub(crate) const fn follows(&self) -> bool {
        matches!(self.stage, CallerStage::Following(_))
    }

    /// If it stays, and has taken all so far: it is told what is new.
    pub(crate) fn tell_more(&mut self, desk: &mut Desk<'_>, now: Duration) {
        if let CallerStage::Following(feed) = &mut self.stage
            && self.waiting.is_empty()
        {
            self.waiting.extend(feed.part(desk, now));
            self.moved = now;
        }
    }

    /// The node ends. Who stays is told, if it has taken all so far.
    pub(crate) fn say_farewell(&mut self) {
        if self.follows() && self.waiting.is_empty() {
            self.waiting.push_back(farewell());
        }
    }

    /// When it will have taken too long; never for one that stays and has taken all.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match &self.stage {
            CallerStage::Saying { .. } => Some(self.moved + SAY_LIMIT),
            CallerStage::Told => Some(self.moved + TAKE_LIMIT),
            CallerStage::Following(_) if self.waiting.is_empty() => None,
            CallerStage::Following(_) => Some(self.moved + TAKE_LIMIT),
            CallerStage::Leaving => Some(self.moved + LEAVE_LIMIT),
            CallerStage::Gone => None,
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Duration) -> Option<SentAway> {
        if self.deadline().is_none_or(|limit| now < limit) {
            return None;
        }
        match &self.stage {
            // A browser opens connections that it may need.
            CallerStage::Saying { heard } if !heard.is_empty() => {
                self.refuse(&refusal(408, "the request did not come in time"), now);
                None
            }
            CallerStage::Told | CallerStage::Following(_) => {
                self.stage = CallerStage::Gone;
                Some(SentAway::TookNothing)
            }
            CallerStage::Saying { .. } | CallerStage::Leaving | CallerStage::Gone => {
                self.stage = CallerStage::Gone;
                None
            }
        }
    }
}

/// What a caller needs from around it.
pub(crate) struct CallersWorld<'w, 's> {
    pub(crate) desk: &'w mut Desk<'s>,
    /// The address at which this node listens.
    pub(crate) bound: IpAddr,
    pub(crate) now: Duration,
}
