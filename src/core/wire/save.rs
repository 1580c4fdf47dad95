//! What an operator asks a server that holds values, and what that answers (`pslite save`): the
//! question travels in [`Word::Save`](super::word::Word::Save), the answer in
//! [`Word::Told`](super::word::Word::Told). Turns bytes into types and back.

use bytes::Bytes;
use prost::Message as _;

use super::Key;
use super::agreement::Fact;

/// Which piece is wanted: the first one that the server owns whose key and first element are these,
/// or come after them.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SaveAsked {
    /// The wire key.
    #[prost(uint64, tag = "1")]
    pub key: Key,
    /// The first element.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// Without its values: what is there is looked for.
    #[prost(bool, tag = "3")]
    pub bare: bool,
}

/// A server's answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SaveTold {
    /// The piece; `None`: there are no more.
    #[prost(message, optional, tag = "1")]
    pub piece: Option<SavedPiece>,
    /// Where there are no more pieces: what workers have said of arrays that have names.
    #[prost(message, repeated, tag = "2")]
    pub facts: Vec<Fact>,
}

/// Values that a server owns.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SavedPiece {
    /// The wire key.
    #[prost(uint64, tag = "1")]
    pub key: Key,
    /// The first element, or row.
    #[prost(uint64, tag = "2")]
    pub from: u64,
    /// One past the last one.
    #[prost(uint64, tag = "3")]
    pub to: u64,
    /// Elements, or rows, of the whole wire key.
    #[prost(uint64, tag = "4")]
    pub length: u64,
    /// Rounds that are in it.
    #[prost(uint64, tag = "5")]
    pub version: u64,
    /// The number of its type, as MXNet counts them.
    #[prost(uint32, tag = "6")]
    pub dtype: u32,
    /// Elements of a row; 0: it has no rows.
    #[prost(uint64, tag = "7")]
    pub row: u64,
    /// Its values, as workers pull them.
    #[prost(bytes = "bytes", tag = "8")]
    pub values: Bytes,
}

impl SaveAsked {
    /// As bytes.
    #[must_use]
    pub fn write(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Of bytes; `None` if they are none.
    #[must_use]
    pub fn read(bytes: Bytes) -> Option<Self> {
        Self::decode(bytes).ok()
    }
}

impl SaveTold {
    /// As bytes.
    #[must_use]
    pub fn write(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Of bytes; `None` if they are none.
    #[must_use]
    pub fn read(bytes: Bytes) -> Option<Self> {
        Self::decode(bytes).ok()
    }
}
