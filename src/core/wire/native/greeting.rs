//! What two nodes say before the first message. Each greeting is the metadata of a frame.

use super::{FrameError, WINDOW_MAX};

/// Version of the protocol behind the greeting. Another one is refused.
pub const VERSION: u16 = 3;
/// Length of a job's token.
pub const TOKEN_BYTES: usize = 16;
/// The longest text of a greeting.
const TEXT_MAX: usize = 256;

/// Who connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`VERSION`] of the sender.
    pub version: u16,
    /// The sender asks only what the receiver can do ([`Info`]); the channel does not change.
    pub query: bool,
    /// The connection's data come through shared memory, whose descriptors come with this greeting.
    pub shared_memory: bool,
    /// Node id of the sender, if it has one already.
    pub node: Option<i32>,
    /// The sender's life: a number that no other process has.
    pub incarnation: u64,
    /// Only who knows the token of the job is let in.
    pub token: [u8; TOKEN_BYTES],
    /// Which of the sender's channels it is; from 1.
    pub channel: u32,
    /// Which attempt to connect that channel this is; a higher one takes the place of a lower one.
    pub attempt: u32,
    /// Which of the channel's connections.
    pub stripe: u8,
}

/// The answer: what arrived before on this channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The receiver's life.
    pub incarnation: u64,
    /// All messages up to this one arrived.
    pub received: u64,
    /// And these, which are beyond it.
    pub beyond: Vec<u64>,
}

/// What a node can do, as it says to who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The node's life.
    pub incarnation: u64,
    /// Names the running kernel; empty if that is not to be known.
    pub boot: String,
    /// Name of its Unix socket in the abstract name space, or empty.
    pub abstract_name: String,
    /// File of its Unix socket, or empty.
    pub path: String,
}

struct GreetingReader<'a>(&'a [u8]);

impl<'a> GreetingReader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(FrameError::Greeting)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, FrameError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, FrameError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool, FrameError> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(FrameError::Greeting),
        }
    }

    fn text(&mut self) -> Result<String, FrameError> {
        let length = usize::from(self.u16()?);
        if length > TEXT_MAX || length > self.0.len() {
            return Err(FrameError::Greeting);
        }
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| FrameError::Greeting)
    }

    const fn end(&self) -> Result<(), FrameError> {
        if self.0.is_empty() { Ok(()) } else { Err(FrameError::Greeting) }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    // A longer one is of no use to anybody: it is left out.
    let text = if text.len() > TEXT_MAX { "" } else { text };
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

impl Hello {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.push(u8::from(self.query));
        out.push(u8::from(self.shared_memory));
        out.push(u8::from(self.node.is_some()));
        out.extend_from_slice(&self.node.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.token);
        out.extend_from_slice(&self.channel.to_le_bytes());
        out.extend_from_slice(&self.attempt.to_le_bytes());
        out.push(self.stripe);
        out
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is shorter or longer than it should be.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let mut reader = GreetingReader(bytes);
        let version = reader.u16()?;
        let (query, shared_memory) = (reader.flag()?, reader.flag()?);
        let has_node = reader.flag()?;
        let node = i32::from_le_bytes(reader.array()?);
        let hello = Self {
            version,
            query,
            shared_memory,
            node: has_node.then_some(node),
            incarnation: reader.u64()?,
            token: reader.array()?,
            channel: reader.u32()?,
            attempt: reader.u32()?,
            stripe: reader.array::<1>()?[0],
        };
        reader.end()?;
        Ok(hello)
    }
}

impl Welcome {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20 + 8 * self.beyond.len());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.received.to_le_bytes());
        out.extend_from_slice(&(self.beyond.len() as u32).to_le_bytes());
        for sequence in &self.beyond {
            out.extend_from_slice(&sequence.to_le_bytes());
        }
        out
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is shorter or longer than it should be.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let mut reader = GreetingReader(bytes);
        let (incarnation, received) = (reader.u64()?, reader.u64()?);
        let count = reader.u32()?;
        if u64::from(count) > WINDOW_MAX {
            return Err(FrameError::Greeting);
        }
        let (numbers, rest) = reader.0.as_chunks::<8>();
        if numbers.len() != count as usize || !rest.is_empty() {
            return Err(FrameError::Greeting);
        }
        let beyond = numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
        Ok(Self { incarnation, received, beyond })
    }
}

impl Info {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        put_text(&mut out, &self.boot);
        put_text(&mut out, &self.abstract_name);
        put_text(&mut out, &self.path);
        out
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is shorter or longer than it should be, or no text where there should be one.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let mut reader = GreetingReader(bytes);
        let info = Self {
            incarnation: reader.u64()?,
            boot: reader.text()?,
            abstract_name: reader.text()?,
            path: reader.text()?,
        };
        reader.end()?;
        Ok(info)
    }
}
