//! Parses the bytes of one connection and hands messages to the session of its channel. Several
//! small messages are read at once into a buffer, and copied once. The data of large ones are read
//! straight to where they land. From a ring, everything is read straight to where it lands.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use smallvec::SmallVec;

use super::counters::{Counters, add};
use super::landing::{Landing, SlicesMut};
use super::pipe::InPipe;
use super::pool::Pool;
use super::probe::Probe;
use super::rates::{BYTES_MIN, RateSample, ReceivedRates, SampleOf};
use super::session::{Session, SessionError};
use super::types::{NativeIncoming, Sink};
use pslite_core::wire::native::{HEADER, Head, Header, Kind, Parsed, parse};
use pslite_observe::awake;

/// Size of the buffer in bytes. It grows for longer metadata, for as long as those are there.
const BUFFER: usize = 64 << 10;
/// Size of the buffer beside a ring: only heads come here.
const HEADS: usize = 1 << 10;
/// Messages with more data than this go where a [`Sink`] says.
const SINK_MIN: u64 = 64 << 10;

/// What reading needs to know.
pub(super) struct Surroundings<'a> {
    pub(super) session: &'a mut Session,
    pub(super) pool: &'a Arc<Pool>,
    pub(super) sink: Option<&'a dyn Sink>,
    pub(super) data_max: u64,
    pub(super) counters: &'a Counters,
    pub(super) rates: &'a ReceivedRates,
    /// Messages that are complete.
    pub(super) ready: &'a mut VecDeque<NativeIncoming>,
}

/// What came besides messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asides {
    /// The latest acknowledgement: channel and number.
    pub(super) ack: Option<(u32, u64)>,
    /// An acknowledgement is asked for.
    pub(super) flush: bool,
    /// Bytes of data that arrived.
    pub(super) data: u64,
    /// Messages, or fragments of them.
    pub(super) fragments: u32,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    /// Which message; 0 if it came before and is dropped.
    sequence: u64,
    at: u64,
    left: u64,
    len: u64,
    /// Who sends has more.
    more: bool,
    /// It came right after what came before.
    follows: bool,
    /// When its head was here, and how much of it.
    first: Option<(Instant, u64)>,
    /// It is padding.
    padding: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Reader {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that the next step needs in the buffer.
    need: usize,
    body: Option<Body>,
    probe: Probe,
    /// What came last was not timed, and did not follow what came before it.
    paused: bool,
    /// Reads no byte more than it needs: for a ring, where reading again costs nothing.
    exact: bool,
}

impl Reader {
    pub(super) fn new(exact: bool) -> Self {
        let size = if exact { HEADS } else { BUFFER };
        let buffer = vec![0; size];
        Self {
            buffer,
            start: 0,
            end: 0,
            need: HEADER,
            body: None,
            probe: Probe::default(),
            paused: false,
            exact,
        }
    }

    /// Reads once and handles what came; the number of bytes, and true if there may be more at
    /// once.
    ///
    /// # Errors
    /// `WouldBlock`: nothing came. `UnexpectedEof`: the connection has ended. Any other: it must be
    /// closed.
    pub(super) fn step(
        &mut self,
        pipe: &mut InPipe,
        around: &mut Surroundings<'_>,
        asides: &mut Asides,
    ) -> io::Result<bool> {
        let more = self.fill(pipe, around)?;
        self.take_apart(pipe, around, asides)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(more)
    }

    /// True if no message is here in part.
    pub(super) const fn is_idle(&self) -> bool {
        self.start == self.end && self.body.is_none()
    }

    fn fill(&mut self, pipe: &mut InPipe, around: &mut Surroundings<'_>) -> io::Result<bool> {
        self.make_room();
        let counters = around.counters;
        let landing = match self.body {
            Some(body) if body.sequence != 0 => {
                around.session.landing(body.sequence).map(|landing| (body, landing))
            }
            _ => None,
        };
        let Some((body, landing)) = landing else {
            return self.read(pipe, SlicesMut::new(), counters);
        };
        landing.with_slices(body.at, body.left, |slices| {
            if slices.iter().map(|slice| slice.len() as u64).sum::<u64>() == body.left {
                return self.read(pipe, slices, counters);
            }
            let error = SessionError::Place(body.sequence);
            Err(io::Error::new(io::ErrorKind::InvalidData, error))
        })
    }

    /// Reads once: first to where the body lands, then to the buffer. True if there may be more at
    /// once.
    fn read(
        &mut self,
        pipe: &mut InPipe,
        landing: SlicesMut<'_>,
        counters: &Counters,
    ) -> io::Result<bool> {
        let landing_len: usize = landing.iter().map(|slice| slice.len()).sum();
        let mut slices: SmallVec<[IoSliceMut<'_>; 6]> = SmallVec::new();
        for slice in landing {
            slices.push(IoSliceMut::new(slice));
        }
        let until = match self.body {
            Some(body) if self.exact && landing_len == 0 => {
                self.buffer.len().min(usize::try_from(body.left).unwrap_or(usize::MAX))
            }
            None if self.exact => self.start + self.need,
            Some(_) if self.exact => self.end,
            _ => self.buffer.len(),
        };
        if until > self.end {
            slices.push(IoSliceMut::new(&mut self.buffer[self.end..until]));
        }
        let wanted = landing_len + until.saturating_sub(self.end);
        let n = pipe.read(&mut slices, counters)?;
        drop(slices);
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        add(&counters.bytes, n as u64);
        let landed = n.min(landing_len);
        if let Some(body) = &mut self.body {
            body.at += landed as u64;
            body.left -= landed as u64;
        }
        self.end += n - landed;
        Ok(n == wanted || self.exact)
    }

    /// Gets the buffer ready for what is needed next.
    fn make_room(&mut self) {
        let usual = if self.exact { HEADS } else { BUFFER };
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > usual && self.need <= usual {
                self.buffer.truncate(usual);
                self.buffer.shrink_to_fit();
            }
        } else if self.start + self.need > self.buffer.len() || self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() < self.need {
            // The need is checked by `parse`.
            self.buffer.resize(self.need, 0);
        }
    }

    fn take_apart(
        &mut self,
        pipe: &InPipe,
        around: &mut Surroundings<'_>,
        asides: &mut Asides,
    ) -> Result<(), SessionError> {
        loop {
            if !self.take_body(around, asides)? {
                return Ok(());
            }
            match parse(&self.buffer[self.start..self.end], around.data_max)? {
                Parsed::Need(bytes) => {
                    self.need = bytes;
                    return Ok(());
                }
                Parsed::Head(head) => self.take_head(&head, pipe, around, asides)?,
            }
        }
    }

    /// Takes what the buffer has of a body; true if none is under way any more.
    fn take_body(
        &mut self,
        around: &mut Surroundings<'_>,
        asides: &mut Asides,
    ) -> Result<bool, SessionError> {
        let Some(body) = &mut self.body else { return Ok(true) };
        let n = (self.end - self.start).min(usize::try_from(body.left).unwrap_or(usize::MAX));
        if n > 0 && body.sequence != 0 {
            let bytes = &self.buffer[self.start..self.start + n];
            let landing = around.session.landing(body.sequence);
            if landing.is_none_or(|landing| !landing.write(body.at, bytes)) {
                return Err(SessionError::Place(body.sequence));
            }
            add(&around.counters.copied_bytes, n as u64);
        }
        self.start += n;
        body.at += n as u64;
        body.left -= n as u64;
        if body.left > 0 {
            return Ok(false);
        }
        let Body { sequence, len, more, follows, first, padding, .. } = *body;
        self.body = None;
        if let Some((first, head)) = first
            && let Some(peer) = around.session.node
        {
            let last = awake::now();
            let of = if padding { SampleOf::Padding } else { SampleOf::Message };
            around.rates.add(RateSample { peer, bytes: len, head, first, last, more, follows, of });
        }
        if padding {
            self.padding_ended(len, around);
            return Ok(true);
        }
        if sequence != 0 {
            asides.data += len;
            around.session.landed(sequence, len, around.ready)?;
        }
        Ok(true)
    }

    fn take_head(
        &mut self,
        head: &Head,
        pipe: &InPipe,
        around: &mut Surroundings<'_>,
        asides: &mut Asides,
    ) -> Result<(), SessionError> {
        let header = &head.header;
        let begin = self.start;
        self.start += head.size;
        self.need = HEADER;
        if header.ack_channel != 0 {
            asides.ack = Some((header.ack_channel, header.ack));
        }
        if header.kind != Kind::Message {
            asides.flush |= header.kind == Kind::Flush;
            match header.kind {
                Kind::Probe => self.padding_begins(header, pipe),
                _ => self.paused = true,
            }
            return Ok(());
        }
        self.probe.interrupted();
        asides.fragments += 1;
        let len = u64::from(header.fragment_len);
        let here = self.buffer.get(self.start..self.end).unwrap_or_default().len() as u64;
        let measured = !self.exact && (header.more || header.follows || len >= BYTES_MIN);
        let first = measured.then(|| (awake::now(), here.min(len)));
        let follows = self.follows(header, measured);
        let mut body = Body {
            sequence: header.sequence,
            at: header.offset,
            left: len,
            len,
            more: header.more,
            follows,
            first,
            padding: false,
        };
        if !around.session.wants(header.sequence)? {
            add(&around.counters.duplicates, 1);
            body.sequence = 0;
            self.body = Some(body);
            return Ok(());
        }
        let meta = &self.buffer[begin..self.start][head.meta()];
        let counters = around.counters;
        if header.offset == 0 {
            add(&counters.data_messages, 1);
        }
        let here = self.buffer.get(self.start..self.end).unwrap_or_default();
        if len == head.total && here.len() as u64 >= len {
            let mut landing = Landing::new(around.pool, head, meta, None)
                .ok_or(SessionError::TooLarge(header.sequence))?;
            landing.write(0, &here[..len as usize]);
            self.start += len as usize;
            asides.data += len;
            if let Some((first, head)) = first
                && let Some(peer) = around.session.node
            {
                let (last, of) = (first, SampleOf::Message);
                let more = header.more;
                around.rates.add(RateSample {
                    peer,
                    bytes: len,
                    head,
                    first,
                    last,
                    more,
                    follows,
                    of,
                });
            }
            add(&counters.copies, u64::from(len > 0));
            add(&counters.copied_bytes, len);
            return around.session.complete(header.sequence, header.after, landing, around.ready);
        }
        let place = match around.sink {
            // What comes through shared memory is copied in any case, or is lent.
            Some(sink) if !self.exact && head.total > SINK_MIN => {
                let is_first = !around.session.is_begun(header.sequence);
                is_first.then(|| sink.place(around.session.node, meta, &head.lengths)).flatten()
            }
            _ => None,
        };
        around.session.begin_fragment(around.pool, head, meta, place)?;
        add(&counters.copies, u64::from(self.exact && header.offset == 0));
        counters.copied_bytes.fetch_add(if self.exact { len } else { 0 }, Relaxed);
        self.body = Some(body);
        Ok(())
    }

    /// True if a frame came right after the last one that was timed.
    const fn follows(&mut self, header: &Header, timed: bool) -> bool {
        let paused = std::mem::replace(&mut self.paused, !timed);
        header.follows && !paused
    }

    /// Padding is dropped as it comes. What the kernel has of it already took no time on this
    /// clock.
    fn padding_begins(&mut self, header: &Header, pipe: &InPipe) {
        let len = u64::from(header.fragment_len);
        let here = self.end.saturating_sub(self.start) + pipe.readable();
        let now = awake::now();
        self.probe.begins(header.offset, here as u64, header.more, now);
        let Header { offset: at, more, .. } = *header;
        let follows = self.follows(header, true);
        let first = (!self.exact).then_some((now, (here as u64).min(len)));
        let (sequence, padding) = (0, true);
        self.body = Some(Body { sequence, at, left: len, len, more, follows, first, padding });
    }

    fn padding_ended(&mut self, len: u64, around: &mut Surroundings<'_>) {
        let ended = self.probe.ended(len, around.session.node, awake::now());
        add(&around.counters.probes, u64::from(ended.whole));
        if let Some(sample) = ended.sample.filter(|_| !self.exact) {
            around.rates.add(sample);
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
