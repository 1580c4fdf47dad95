//! Keys and values as the frames of a message, and back. Pure.

use crate::values::KvPairs;
use crate::wire::{DataType, Frames, Message, Meta};

/// Adds the frames: with keys there is always a frame of values, if only an empty one
/// (kv_app.h:604).
#[must_use]
pub fn with_data(mut meta: Meta, kv: KvPairs) -> Message {
    let mut data = Frames::new();
    if !kv.keys.is_empty() {
        let lens = (!kv.lens.is_empty()).then_some(kv.lens);
        meta.data_type.push(DataType::UInt64 as i32);
        meta.data_type.push(meta.value_type);
        data.push(kv.keys);
        data.push(kv.vals);
        if let Some(lens) = lens {
            meta.data_type.push(DataType::Int32 as i32);
            data.push(lens);
        }
    }
    Message { meta, data }
}

/// The other way round: keys, values and lengths, or nothing.
#[must_use]
pub fn pairs_of(data: Frames) -> KvPairs {
    let mut frames = data.into_iter();
    match (frames.next(), frames.next(), frames.next()) {
        (Some(keys), Some(vals), lens) => KvPairs { keys, vals, lens: lens.unwrap_or_default() },
        _ => KvPairs::default(),
    }
}
