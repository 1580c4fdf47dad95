//! The pickle reader: no bytes may make it panic, recurse without end, or take much memory; what it
//! reads is within its bounds and has known classes only.

use pslite_optimizers::pickle::{self, Value, reader};

/// Whether the bytes were read, and not refused.
pub(crate) fn check(data: &[u8]) -> bool {
    let Ok(value) = pickle::read(data) else { return false };
    let mut values = 0;
    check_value(&value, 0, &mut values);
    assert!(values <= reader::RESULT_VALUES_MAX);
    true
}

fn check_value(value: &Value, depth: usize, values: &mut usize) {
    *values += 1;
    // An object's attributes are a dict of their own.
    assert!(depth <= reader::DEPTH_MAX);
    match value {
        Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
        Value::Text(text) => assert!(text.len() <= reader::TEXT_BYTES_MAX),
        Value::List(items) | Value::Tuple(items) => {
            items.iter().for_each(|item| check_value(item, depth + 1, values));
        }
        Value::Dict(items) => {
            for (key, item) in items {
                check_value(key, depth + 1, values);
                check_value(item, depth + 1, values);
            }
        }
        Value::Object(object) => {
            assert!(pickle::is_known(&object.class));
            object.attributes.iter().for_each(|(_, item)| check_value(item, depth + 1, values));
        }
    }
}
