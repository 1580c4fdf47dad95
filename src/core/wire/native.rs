//! The frames of the native data plane, between two of our own nodes: a fixed header, the lengths
//! of the data frames, the metadata, and a fragment of the data.
//!
//! Pure: bytes in, frames out. No length is trusted, and no input makes it panic. All numbers are
//! little endian. Offsets of the header, in bytes:
//!
//! ```text
//!  0  4  magic "PSN1": name and version of the format
//!  4  1  kind
//!  5  1  how many data frames the message has
//!  6  2  which data frames are lent: a bit for each, the first one lowest
//!  8  4  length of the metadata
//! 12  4  length of the fragment of the data that follows
//! 16  8  number of the message on its channel, from 1
//! 24  8  number of the message that must be delivered before it, or 0
//! 32  8  where in the data the fragment begins
//! 40  8  all messages up to this number arrived on the channel that `ack_channel` names
//! 48  4  that channel, or 0 for none
//! 52  1  bit 0: the sender has more; bit 1: it follows the frame before it without a pause
//! 53  3  zero
//! 56     lengths of the data frames, 8 bytes each; metadata; the fragment of the data
//! ```
//!
//! A large message is cut into fragments. Each repeats lengths and metadata, about a hundred bytes.
//! So fragments may come in any order and over any connection.
//!
//! Beside a ring of shared memory, the values may be lent instead of sent: its bytes are then a
//! [`Lent`], which says where in the sender's memory it is.

mod greeting;
mod lent;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;
use thiserror::Error;

pub use greeting::{Hello, Info, TOKEN_BYTES, VERSION, Welcome};
pub use lent::{LENDABLE, LENT, Lent};

/// Size of the header in bytes.
pub const HEADER: usize = 56;
/// Data frames of one message: keys, values, lengths, and room for more.
pub const FRAMES_MAX: usize = 15;
/// The longest metadata in bytes. A command's body is in it, such as a pickled optimizer.
pub const META_MAX: usize = 16 << 20;
/// Fragments of a message begin at multiples of this many bytes, so that a receiver can tell which
/// it has.
pub const GRANULE: usize = 64 << 10;
/// Bytes of padding of a probe of an idle link, all its frames together.
pub const PROBE_BYTES: u64 = 256 << 10;
/// Those at its beginning that are not timed: they open the connection's window, which is small
/// after a pause.
pub const PROBE_HEAD: u64 = 128 << 10;
/// How far the numbers of messages under way on one channel may be apart.
pub const WINDOW_MAX: u64 = 1 << 16;

const MAGIC: [u8; 4] = *b"PSN1";

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Who connects, and to what end ([`Hello`]).
    Hello = 1,
    /// The channel stands ([`Welcome`]).
    Welcome = 2,
    /// What this node can do, for who asked before connecting ([`Info`]).
    Info = 3,
    /// The connection is refused; the metadata says why, for people.
    Refuse = 4,
    /// A message or a fragment of one.
    Message = 5,
    /// Nothing but an acknowledgement.
    Ack = 6,
    /// The sender wants an acknowledgement now.
    Flush = 7,
    /// The receiver goes away and reads no more.
    Bye = 8,
    /// Padding of a probe, up to [`GRANULE`] bytes of it, to be counted and dropped. `offset` says
    /// where in the probe it begins.
    Probe = 9,
    /// The ring that the receiver reads has room again.
    Room = 10,
}

impl Kind {
    const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Hello,
            2 => Self::Welcome,
            3 => Self::Info,
            4 => Self::Refuse,
            5 => Self::Message,
            6 => Self::Ack,
            7 => Self::Flush,
            8 => Self::Bye,
            9 => Self::Probe,
            10 => Self::Room,
            _ => return None,
        })
    }
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// It does not begin as frames do.
    #[error("it is no frame of the native data plane, or of another version")]
    Magic,
    /// No such kind.
    #[error("frame kind {0} is unknown")]
    Kind(u8),
    /// Something is longer than allowed.
    #[error("{what} of {length} is over the limit")]
    TooLong {
        /// What.
        what: &'static str,
        /// How long it says it is.
        length: u64,
    },
    /// The numbers of a frame contradict each other.
    #[error("{0}")]
    Inconsistent(&'static str),
    /// A greeting ends too early or has bytes left over.
    #[error("a greeting of the wrong length")]
    Greeting,
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// Number of data frames.
    pub frames: u8,
    /// Which of them are lent: bit n for frame n.
    pub lent: u16,
    /// Length of the metadata in bytes.
    pub meta_len: u32,
    /// Bytes of data that follow.
    pub fragment_len: u32,
    /// Number of the message on its channel.
    pub sequence: u64,
    /// Number of the message that must be delivered before it; 0 for none.
    pub after: u64,
    /// Where in the data the fragment begins.
    pub offset: u64,
    /// What arrived on the channel `ack_channel`.
    pub ack: u64,
    /// Which channel that is; 0 for none.
    pub ack_channel: u32,
    /// The sender has more for this peer, so that what follows comes as fast as the link can carry
    /// it.
    pub more: bool,
    /// The connection still had something to send when this was written: it comes right after what
    /// came before it.
    pub follows: bool,
}

impl Header {
    /// A header of that kind with nothing behind it.
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            frames: 0,
            lent: 0,
            meta_len: 0,
            fragment_len: 0,
            sequence: 0,
            after: 0,
            offset: 0,
            ack: 0,
            ack_channel: 0,
            more: false,
            follows: false,
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[5] = self.frames;
        bytes[6..8].copy_from_slice(&self.lent.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.meta_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.fragment_len.to_le_bytes());
        for (at, number) in
            [(16, self.sequence), (24, self.after), (32, self.offset), (40, self.ack)]
        {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[48..52].copy_from_slice(&self.ack_channel.to_le_bytes());
        bytes[52] = u8::from(self.more) | u8::from(self.follows) << 1;
        bytes
    }

    /// Reads it.
    ///
    /// # Errors
    /// The bytes are no header, or a number is out of its limits.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self, FrameError> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if bytes[..4] != MAGIC {
            return Err(FrameError::Magic);
        }
        let header = Self {
            kind: Kind::from_wire(bytes[4]).ok_or(FrameError::Kind(bytes[4]))?,
            frames: bytes[5],
            lent: u16::from_le_bytes([bytes[6], bytes[7]]),
            meta_len: u32_at(8),
            fragment_len: u32_at(12),
            sequence: u64_at(16),
            after: u64_at(24),
            offset: u64_at(32),
            ack: u64_at(40),
            ack_channel: u32_at(48),
            more: bytes[52] & 1 != 0,
            follows: bytes[52] & 2 != 0,
        };
        if bytes[52] > 3 || bytes[53..] != [0; 3] {
            return Err(FrameError::Inconsistent("a reserved field is not zero"));
        }
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), FrameError> {
        too_long("the number of data frames", u64::from(self.frames), FRAMES_MAX as u64)?;
        if u32::from(self.lent) >> self.frames != 0 || self.lent & !LENDABLE != 0 {
            return Err(FrameError::Inconsistent(
                "a frame is lent that is not there, or may not be",
            ));
        }
        too_long("the metadata", u64::from(self.meta_len), META_MAX as u64)?;
        if self.kind == Kind::Probe {
            return self.check_probe();
        }
        if self.kind != Kind::Message {
            if self.frames != 0 || self.fragment_len != 0 {
                return Err(FrameError::Inconsistent("data in a frame that is no message"));
            }
            return Ok(());
        }
        if self.sequence == 0 || self.after >= self.sequence {
            return Err(FrameError::Inconsistent("a message before its predecessor"));
        }
        if !self.offset.is_multiple_of(GRANULE as u64) {
            return Err(FrameError::Inconsistent("a fragment that begins at no granule"));
        }
        Ok(())
    }

    /// A probe has padding alone, in pieces of its own size, and ends where all probes do.
    fn check_probe(&self) -> Result<(), FrameError> {
        let bare = self.frames == 0 && self.meta_len == 0 && self.sequence == 0 && self.after == 0;
        let inside = self.offset < PROBE_BYTES && self.offset.is_multiple_of(GRANULE as u64);
        if !bare || !inside || self.fragment_len as usize != GRANULE {
            return Err(FrameError::Inconsistent("padding that is of no probe"));
        }
        Ok(())
    }
}

fn too_long(what: &'static str, length: u64, limit: u64) -> Result<(), FrameError> {
    if length > limit { Err(FrameError::TooLong { what, length }) } else { Ok(()) }
}

/// Lengths of the data frames in bytes.
pub type Lengths = SmallVec<[u64; 4]>;

/// A frame up to where its data begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The fixed part.
    pub header: Header,
    /// Lengths of the data frames.
    pub lengths: Lengths,
    /// Their sum.
    pub total: u64,
    /// How many bytes header, lengths and metadata take.
    pub size: usize,
}

impl Head {
    /// Where in the head the metadata is.
    #[must_use]
    pub const fn meta(&self) -> std::ops::Range<usize> {
        HEADER + self.header.frames as usize * 8..self.size
    }
}

/// What some bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a head; so many bytes are needed to go on.
    Need(usize),
    /// A whole head.
    Head(Head),
}

/// Reads a head from the beginning of `bytes`. `data_max` limits the data of a message in bytes.
///
/// # Errors
/// They are none, or beyond a limit.
pub fn parse(bytes: &[u8], data_max: u64) -> Result<Parsed, FrameError> {
    let Some(fixed) = bytes.first_chunk::<HEADER>() else {
        return Ok(Parsed::Need(HEADER));
    };
    let header = Header::decode(fixed)?;
    let table = HEADER + usize::from(header.frames) * 8;
    let size = table + header.meta_len as usize;
    let Some(head) = bytes.get(..size) else { return Ok(Parsed::Need(size)) };
    let mut lengths = Lengths::new();
    let mut total = 0_u64;
    for entry in head[HEADER..table].as_chunks::<8>().0 {
        let length = u64::from_le_bytes(*entry);
        if u32::from(header.lent) >> lengths.len() & 1 != 0 && length != LENT as u64 {
            return Err(FrameError::Inconsistent("a lent frame of the wrong length"));
        }
        total = total.saturating_add(length);
        lengths.push(length);
    }
    too_long("the data of a message", total, data_max)?;
    if header.kind == Kind::Message {
        check_fragment(&header, total)?;
    }
    Ok(Parsed::Head(Head { header, lengths, total, size }))
}

/// A fragment lies within its message, and ends at a granule or at the end.
fn check_fragment(header: &Header, total: u64) -> Result<(), FrameError> {
    let length = u64::from(header.fragment_len);
    let end = header.offset.saturating_add(length);
    if end > total || (length == 0) != (total == 0) {
        return Err(FrameError::Inconsistent("a fragment that is not within its message"));
    }
    if end != total && !end.is_multiple_of(GRANULE as u64) {
        return Err(FrameError::Inconsistent("a fragment that ends at no granule"));
    }
    Ok(())
}
