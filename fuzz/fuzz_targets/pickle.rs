//! The pickle reader: no bytes may make it panic, recurse without end, or take much memory; what it
//! reads is within its bounds and has known classes only.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pslite_core::store::pickle::{self, Value, reader};

fuzz_target!(|data: &[u8]| {
    if let Ok(value) = pickle::read(data) {
        let mut values = 0;
        check(&value, 0, &mut values);
        assert!(values <= reader::RESULT_VALUES_MAX);
    }
});

fn check(value: &Value, depth: usize, values: &mut usize) {
    *values += 1;
    // An object's attributes are a dict of their own.
    assert!(depth <= reader::DEPTH_MAX);
    match value {
        Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
        Value::Text(text) => assert!(text.len() <= reader::TEXT_BYTES_MAX),
        Value::List(items) | Value::Tuple(items) => {
            items.iter().for_each(|item| check(item, depth + 1, values));
        }
        Value::Dict(items) => {
            for (key, item) in items {
                check(key, depth + 1, values);
                check(item, depth + 1, values);
            }
        }
        Value::Object(object) => {
            assert!(pickle::is_known(&object.class));
            object.attributes.iter().for_each(|(_, item)| check(item, depth + 1, values));
        }
    }
}
