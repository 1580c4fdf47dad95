//! The inputs that fuzzing has found (`fuzz/corpus`, `scripts/fuzz`), once through what they were
//! found for: no coverage counters, no new inputs, but in every run of the tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::PathBuf;

use pslite::store::pickle;
use pslite::values::compression::Compression;
use pslite::wire::native::{self, Hello, Info, LENT, Lent, Parsed, Welcome};
use pslite::wire::{Dialect, decode_meta};

/// Runs the job on each input of a target; how often it said yes, and no.
fn replay(target: &str, job: impl Fn(&[u8]) -> bool) -> (usize, usize) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let answers: Vec<bool> = files.map(|path| job(&fs::read(path).unwrap())).collect();
    let yes = answers.iter().filter(|answer| **answer).count();
    (yes, answers.len() - yes)
}

#[test]
fn pickles() {
    let (read, refused) = replay("pickle", |bytes| pickle::read(bytes).is_ok());
    assert!(read >= 20 && refused >= 50, "{read} read, {refused} refused");
}

#[test]
fn metadata() {
    let (read, refused) = replay("wire_meta", |bytes| decode_meta(bytes).is_ok());
    assert!(read >= 20 && refused >= 20, "{read} read, {refused} refused");
}

#[test]
fn metadata_of_byteps() {
    let (read, refused) = replay("wire_byteps", |data| {
        let Some((choice, bytes)) = data.split_first() else { return false };
        let dialect = if choice % 2 == 0 { Dialect::Byteps025 } else { Dialect::Byteps };
        let Ok(meta) = dialect.decode(bytes) else { return false };
        let mut again = Vec::new();
        dialect.encode(&meta, &[], &mut again);
        assert_eq!(dialect.decode(&again), Ok(meta));
        true
    });
    assert!(read >= 12 && refused >= 12, "{read} read, {refused} refused");
}

#[test]
fn compression_bodies() {
    let body = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').next().map(<[u8]>::to_vec);
    let read = |bytes: &[u8]| Compression::from_body(&body(bytes).unwrap()).is_ok();
    let (read, refused) = replay("compression_body", read);
    assert!(read >= 5 && refused >= 5, "{read} read, {refused} refused");
}

#[test]
fn native_frames() {
    let (read, refused) = replay("native_frames", |data| {
        let Some((choice, bytes)) = data.split_first() else { return false };
        match choice {
            0 => matches!(native::parse(bytes, 1 << 31), Ok(Parsed::Head(_))),
            1 => Hello::decode(bytes).is_ok(),
            2 => Welcome::decode(bytes).is_ok(),
            3 => Info::decode(bytes).is_ok(),
            _ => bytes.first_chunk::<LENT>().is_some_and(|bytes| Lent::decode(bytes).is_some()),
        }
    });
    assert!(read >= 8 && refused >= 4, "{read} read, {refused} refused");
}
