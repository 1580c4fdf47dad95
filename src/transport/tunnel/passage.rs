//! One connection on its way through here: its client says where to, the next stop is reached, and
//! bytes go both ways until both ends have ended.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::end::{TunnelEnd, carry};
use super::entrances::LeadsTo;
use super::opening::{Opening, Ways};
use super::table::TunnelTable;
use crate::dial::reply_of;
use crate::native::socket_read;
use pslite_core::wire::socks::{CHOICE, NO_CHOICE, Reply, SAID_MAX, Target, greeting, request};

/// How long a client may take to say where to, and its end to take the word that it leads nowhere.
const ASK_LIMIT: Duration = Duration::from_secs(10);
/// How long a client at an entrance is kept that is led nowhere. libzmq waits longer and longer
/// between attempts only if it is not let in.
const REFUSED_FOR: Duration = Duration::from_millis(200);
/// What a client may say before it is led on: more waits in the kernel.
const HEARD_MAX: usize = 64 << 10;

/// Where a client came in.
#[derive(Clone, Debug)]
pub(super) enum Door {
    /// This host's gateway.
    Gateway,
    /// An entrance of this process.
    Entrance(Arc<LeadsTo>),
}

#[derive(Debug)]
enum PassageStage {
    Asking {
        heard: Vec<u8>,
        greeted: bool,
    },
    Opening {
        opening: Box<Opening>,
        /// Its place in the table.
        way: usize,
        ways: Ways,
        /// What the client has said beyond its request.
        heard: Vec<u8>,
    },
    Through {
        onward: TunnelEnd,
        way: usize,
    },
    /// The client is told why not.
    Refused {
        /// The way there is fine.
        by_target: bool,
    },
}

/// See the module.
#[derive(Debug)]
pub(super) struct Passage {
    client: TunnelEnd,
    door: Door,
    stage: PassageStage,
    until: Option<Instant>,
}

/// What became of a passage.
#[derive(Debug)]
pub(super) enum Became {
    /// It waits until something happens on a socket; or it has more to do, though nothing will.
    Waits { more: bool },
    /// It is to be told of this socket from now on.
    Watch,
    /// It is over.
    Over,
}

const REFUSED: PassageStage = PassageStage::Refused { by_target: false };
const WAITS: Became = Became::Waits { more: false };

/// What a passage needs from around it.
pub(super) struct Around<'a> {
    pub(super) table: &'a TunnelTable,
    /// The ways to a host that were in trouble.
    pub(super) troubled: &'a dyn Fn(&str) -> BTreeSet<usize>,
    /// Counts the bytes that pass.
    pub(super) passed: &'a AtomicU64,
    pub(super) space: &'a mut [u8],
    pub(super) now: Instant,
}

impl Passage {
    pub(super) fn new(socket: OwnedFd, door: Door, now: Instant) -> Self {
        Self {
            client: TunnelEnd::new(socket),
            door,
            stage: PassageStage::Asking { heard: Vec::new(), greeted: false },
            until: Some(now + ASK_LIMIT),
        }
    }

    /// The socket of the other end, once there is one.
    pub(super) fn onward(&self) -> Option<&OwnedFd> {
        match &self.stage {
            PassageStage::Opening { opening, .. } => Some(&opening.socket),
            PassageStage::Through { onward, .. } => Some(&onward.socket),
            PassageStage::Asking { .. } | PassageStage::Refused { .. } => None,
        }
    }

    /// When [`Self::tick`] must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            PassageStage::Opening { opening, .. } => Some(opening.until),
            _ => self.until,
        }
    }

    /// The way that an entrance's passage takes, and the host that it leads to, for those that
    /// break.
    pub(super) fn way(&self) -> Option<(&str, usize)> {
        match (&self.door, &self.stage) {
            (
                Door::Entrance(leads),
                PassageStage::Opening { way, .. } | PassageStage::Through { way, .. },
            ) => Some((&leads.target.host, *way)),
            _ => None,
        }
    }

    /// True if its way leads there, but nobody listens.
    pub(super) const fn has_come_to_nobody(&self) -> bool {
        matches!(self.stage, PassageStage::Refused { by_target: true })
    }

    /// True if a gateway on its way, or the target, has ended it before the client did.
    pub(super) fn is_left(&self) -> bool {
        let PassageStage::Through { onward, .. } = &self.stage else { return false };
        onward.ended && !self.client.ended
    }

    /// To be asked each [`crate::stuck::LOOK_EVERY`]: true if one end is cut off.
    pub(super) fn is_stuck(&mut self) -> bool {
        match &mut self.stage {
            PassageStage::Through { onward, .. } => onward.is_stuck() | self.client.is_stuck(),
            _ => false,
        }
    }

    /// It has come in. Who comes by an entrance has nothing to say.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub(super) fn begin(&mut self, around: &mut Around<'_>) -> io::Result<Became> {
        match &self.door {
            Door::Gateway => Ok(WAITS),
            Door::Entrance(leads) => {
                let target = leads.target.clone();
                self.open(&target, Vec::new(), around)
            }
        }
    }

    /// Something happened on one of the sockets.
    ///
    /// # Errors
    /// An end has broken: the passage is over.
    pub(super) fn step(
        &mut self,
        of_client: bool,
        writable: bool,
        around: &mut Around<'_>,
    ) -> io::Result<Became> {
        match &mut self.stage {
            PassageStage::Asking { .. } => self.ask(around),
            PassageStage::Opening { .. } if of_client => self.hear(around),
            PassageStage::Opening { opening, .. } => match opening.step(writable, around.now) {
                Ok(None) => Ok(WAITS),
                Ok(Some(said)) => self.lead_on(&said, around),
                // Other ways lead to the same place.
                Err(error) if opening.is_refused_by_target(&error) => {
                    self.stage = PassageStage::Refused { by_target: true };
                    self.refuse(Reply::Refused, around)
                }
                Err(error) => self.next_way(&error, around),
            },
            PassageStage::Through { .. } => self.carry(around),
            PassageStage::Refused { .. } if matches!(self.door, Door::Entrance(_)) => Ok(WAITS),
            PassageStage::Refused { .. } => self.say_no(around.space),
        }
    }

    /// A deadline has come.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub(super) fn tick(&mut self, around: &mut Around<'_>) -> io::Result<Became> {
        match &self.stage {
            PassageStage::Opening { .. } => self.next_way(&io::ErrorKind::TimedOut.into(), around),
            PassageStage::Through { .. } => Ok(WAITS),
            PassageStage::Asking { .. } | PassageStage::Refused { .. } => Ok(Became::Over),
        }
    }

    fn ask(&mut self, around: &mut Around<'_>) -> io::Result<Became> {
        let PassageStage::Asking { heard, greeted } = &mut self.stage else {
            return Ok(Became::Over);
        };
        let more = listen(&self.client, heard, around.space)?;
        if !*greeted {
            let Some((length, free)) = greeting(heard).map_err(io::Error::other)? else {
                return waits_for(heard, more);
            };
            if !free {
                self.stage = REFUSED;
                self.client.write(&NO_CHOICE)?;
                return self.say_no(around.space);
            }
            heard.drain(..length);
            *greeted = true;
            self.client.write(&CHOICE)?;
        }
        let Some((length, target)) = request(heard).map_err(io::Error::other)? else {
            return waits_for(heard, more);
        };
        heard.drain(..length);
        let heard = std::mem::take(heard);
        self.open(&target, heard, around)
    }

    /// The client has said where to.
    fn open(
        &mut self,
        target: &Target,
        heard: Vec<u8>,
        around: &mut Around<'_>,
    ) -> io::Result<Became> {
        let ways = match &self.door {
            Door::Gateway => around.table.next(target).into_iter().collect(),
            Door::Entrance(_) => around.table.stops(target),
        };
        if ways.is_empty() {
            return self.refuse(Reply::Forbidden, around);
        }
        let ways = Ways::new(ways, &(around.troubled)(&target.host));
        self.try_next(&io::ErrorKind::NotFound.into(), ways, heard, around)
    }

    /// This way has failed.
    fn next_way(&mut self, error: &io::Error, around: &mut Around<'_>) -> io::Result<Became> {
        match std::mem::replace(&mut self.stage, REFUSED) {
            PassageStage::Opening { ways, heard, .. } => self.try_next(error, ways, heard, around),
            _ => Ok(Became::Over),
        }
    }

    fn try_next(
        &mut self,
        error: &io::Error,
        mut ways: Ways,
        heard: Vec<u8>,
        around: &mut Around<'_>,
    ) -> io::Result<Became> {
        let mut reply = reply_of(error);
        while let Some((way, stops)) = ways.next() {
            match Opening::begin(&stops, around.table.from(), ways.any(), around.now) {
                Ok(opening) => {
                    let opening = Box::new(opening);
                    self.stage = PassageStage::Opening { opening, way, ways, heard };
                    return Ok(Became::Watch);
                }
                Err(error) => reply = reply_of(&error),
            }
        }
        self.refuse(reply, around)
    }

    /// The last stop is reached, and has said that already.
    fn lead_on(&mut self, said: &[u8], around: &mut Around<'_>) -> io::Result<Became> {
        let PassageStage::Opening { opening, way, heard, .. } =
            std::mem::replace(&mut self.stage, REFUSED)
        else {
            return Ok(Became::Over);
        };
        let mut onward = TunnelEnd::new(opening.socket);
        if matches!(self.door, Door::Gateway) {
            self.client.write(&Reply::Through.encode())?;
        }
        self.client.write(said)?;
        onward.write(&heard)?;
        self.stage = PassageStage::Through { onward, way };
        self.until = None;
        self.carry(around)
    }

    /// While the last stop is not reached, what the client says is kept, up to a bound. Its end is
    /// passed on later, like the rest.
    fn hear(&mut self, around: &mut Around<'_>) -> io::Result<Became> {
        let PassageStage::Opening { heard, .. } = &mut self.stage else { return Ok(Became::Over) };
        listen(&self.client, heard, around.space)?;
        Ok(WAITS)
    }

    fn carry(&mut self, around: &mut Around<'_>) -> io::Result<Became> {
        let PassageStage::Through { onward, .. } = &mut self.stage else { return Ok(Became::Over) };
        let there = carry(&mut self.client, onward, around.space)?;
        let back = carry(onward, &mut self.client, around.space)?;
        around.passed.fetch_add((there.bytes + back.bytes) as u64, Ordering::Relaxed);
        let over = self.client.is_done() && onward.is_done();
        Ok(if over { Became::Over } else { Became::Waits { more: there.more || back.more } })
    }

    fn refuse(&mut self, reply: Reply, around: &mut Around<'_>) -> io::Result<Became> {
        if !self.has_come_to_nobody() {
            self.stage = REFUSED;
        }
        self.until = Some(around.now + ASK_LIMIT);
        if matches!(self.door, Door::Entrance(_)) {
            // libzmq comes again at once.
            self.until = Some(around.now + REFUSED_FOR);
            return Ok(WAITS);
        }
        self.client.write(&reply.encode())?;
        self.say_no(around.space)
    }

    fn say_no(&mut self, space: &mut [u8]) -> io::Result<Became> {
        let over = self.client.finish(space)?;
        Ok(if over { Became::Over } else { WAITS })
    }
}

/// What is heard is not yet all that is needed.
fn waits_for(heard: &[u8], more: bool) -> io::Result<Became> {
    if !more || heard.len() > SAID_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(WAITS)
}

/// Reads what the client says; false if it says no more.
fn listen(client: &TunnelEnd, heard: &mut Vec<u8>, space: &mut [u8]) -> io::Result<bool> {
    while heard.len() < HEARD_MAX {
        let room = space.len().min(HEARD_MAX - heard.len());
        match socket_read(&client.socket, space.get_mut(..room).unwrap_or_default()) {
            Ok(0) => return Ok(false),
            Ok(n) => heard.extend_from_slice(space.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
