//! Which bytes a node speaks with its peers: those of dmlc's ps-lite (MXNet), or those of one of
//! the two generations of bytedance's that are public. All nodes of a job speak the same; nothing
//! on the wire says which.
//!
//! The same messages travel on each ([`super::message`]). What a dialect has no bytes for does not
//! travel: of BytePS's, all extensions of ours, priorities, and a push that asks for values too.

use bytes::Bytes;

use super::byteps::{self, GITHUB, PYPI};
use super::decode::{DecodeError, decode_meta};
use super::encode::encode_meta;
use super::message::Meta;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// dmlc's ps-lite: protobuf (`docs/wire.md`).
    #[default]
    Mxnet,
    /// The ps-lite in BytePS 0.2.5.post15 of PyPI: C structs, 88 bytes and 168 for a node.
    Byteps025,
    /// The ps-lite of BytePS's later releases: C structs, 112 bytes and 552 for a node.
    Byteps,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mxnet, Self::Byteps025, Self::Byteps];

    /// What `PSLITE_WIRE` calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mxnet => "mxnet",
            Self::Byteps025 => "byteps-0.2.5",
            Self::Byteps => "byteps",
        }
    }

    /// The dialect of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// True for those of BytePS: answers to requests for values go back over the connection that
    /// the request came by, and connections have no other names than `ps<id>`.
    #[must_use]
    pub const fn is_byteps(self) -> bool {
        !matches!(self, Self::Mxnet)
    }

    /// True if the barriers at the start and the end have a command of their own
    /// (INSTANCE_BARRIER).
    #[must_use]
    pub const fn has_instance_barrier(self) -> bool {
        matches!(self, Self::Byteps)
    }

    /// The value of an `int` field that is not set (`Meta::kEmpty`).
    #[must_use]
    pub const fn empty(self) -> i32 {
        match self {
            Self::Mxnet | Self::Byteps025 => i32::MAX,
            Self::Byteps => i16::MAX as i32,
        }
    }

    /// Appends the bytes of `meta` to `out`. `data`: the frames that follow it, of which BytePS's
    /// say the size.
    pub fn encode(self, meta: &Meta, data: &[Bytes], out: &mut Vec<u8>) {
        match self {
            Self::Mxnet => encode_meta(meta, out),
            Self::Byteps025 => byteps::encode(&PYPI, meta, data, out),
            Self::Byteps => byteps::encode(&GITHUB, meta, data, out),
        }
    }

    /// Reads metadata. `sender` and `recver` are not in the bytes.
    ///
    /// # Errors
    /// The bytes are not what a node of this dialect sends.
    pub fn decode(self, bytes: &[u8]) -> Result<Meta, DecodeError> {
        match self {
            Self::Mxnet => decode_meta(bytes),
            Self::Byteps025 => byteps::decode(&PYPI, bytes),
            Self::Byteps => byteps::decode(&GITHUB, bytes),
        }
    }
}
