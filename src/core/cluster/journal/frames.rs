//! Records as bytes of a file, one behind the other, each with its length and a checksum; so what
//! was cut off or damaged is noticed, and nothing behind it is believed.
//!
//! A record is: its length (u32), the CRC-32 of length and record (u32), both little-endian, the
//! record.

use super::{Record, State};

/// What a journal begins with.
pub const MAGIC: &[u8; 8] = b"pslitej1";
/// The longest record, in bytes.
pub const RECORD_MAX: usize = 64 << 20;
/// Bytes in front of a record.
const HEAD: usize = 8;

/// What is in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What the sound records add up to; none if there is none.
    pub state: Option<State>,
    /// Bytes up to the end of the last sound record.
    pub sound: usize,
    /// Behind them is a record that makes no sense, and then one that does: the file was damaged,
    /// not only cut off in the middle of a record.
    pub damaged: bool,
}

/// The bytes of a record.
#[must_use]
pub fn frame(record: &Record) -> Vec<u8> {
    let record = record.to_bytes();
    let mut bytes = Vec::with_capacity(HEAD + record.len());
    bytes.extend((record.len() as u32).to_le_bytes());
    bytes.extend(checksum(&record).to_le_bytes());
    bytes.extend(record);
    bytes
}

/// Reads a journal; none if the bytes are none.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Read> {
    if bytes.len() < MAGIC.len() {
        let cut_off = MAGIC.starts_with(bytes);
        return cut_off.then_some(Read { state: None, sound: 0, damaged: false });
    }
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let mut state: Option<State> = None;
    let mut sound = MAGIC.len();
    while let Some((record, length)) = next(&bytes[sound..]) {
        state.get_or_insert_default().apply(&record);
        sound += length;
    }
    let rest = &bytes[sound..];
    let damaged = (1..rest.len()).any(|at| next(&rest[at..]).is_some());
    Some(Read { state, sound, damaged })
}

/// The record that the bytes begin with, and how many of them it takes.
fn next(bytes: &[u8]) -> Option<(Record, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > RECORD_MAX {
        return None;
    }
    let record = rest.get(..length)?;
    if checksum(record) != u32::from_le_bytes(*sum) {
        return None;
    }
    Some((Record::from_bytes(record)?, HEAD + length))
}

fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(record.len() as u32).to_le_bytes());
    hasher.update(record);
    hasher.finalize()
}
