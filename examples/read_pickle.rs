//! Reads pickles as the native server does and prints what is in them, for `compat-tests`.
//!
//! Standard input: for each pickle its length (4 bytes, little-endian) and its bytes. Standard
//! output: for each one line of JSON, `{"ok": value}` or `{"error": text}`. A value is a list: its
//! type, then its content; floats are their 64 bits in hexadecimal, since JSON has not all of them.

use std::fmt::Write;
use std::io::{self, Read};

use pslite::optimizers::pickle::{self, Value};

fn main() -> io::Result<()> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let mut rest = &input[..];
    while let Some((length, tail)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((bytes, tail)) = tail.split_at_checked(length) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        rest = tail;
        let mut line = String::new();
        match pickle::read(bytes) {
            Ok(found) => {
                line.push_str(r#"{"ok": "#);
                value(&mut line, &found);
            }
            Err(error) => {
                line.push_str(r#"{"error": "#);
                text(&mut line, &error.to_string());
            }
        }
        println!("{line}}}");
    }
    Ok(())
}

fn value(out: &mut String, content: &Value) {
    match content {
        Value::None => out.push_str(r#"["none"]"#),
        Value::Bool(flag) => put(out, format_args!(r#"["bool", {flag}]"#)),
        Value::Int(number) => put(out, format_args!(r#"["int", {number}]"#)),
        Value::Float(number) => put(out, format_args!(r#"["float", "{:016x}"]"#, number.to_bits())),
        Value::Text(content) => {
            out.push_str(r#"["text", "#);
            text(out, content);
            out.push(']');
        }
        Value::List(items) => list(out, "list", items),
        Value::Tuple(items) => list(out, "tuple", items),
        Value::Dict(items) => {
            out.push_str(r#"["dict""#);
            for (key, content) in items {
                out.push_str(", [");
                value(out, key);
                out.push_str(", ");
                value(out, content);
                out.push(']');
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push_str(r#"["object", "#);
            text(out, &object.class);
            for (name, content) in &object.attributes {
                out.push_str(", [");
                text(out, name);
                out.push_str(", ");
                value(out, content);
                out.push(']');
            }
            out.push(']');
        }
    }
}

fn list(out: &mut String, kind: &str, items: &[Value]) {
    put(out, format_args!(r#"["{kind}""#));
    for item in items {
        out.push_str(", ");
        value(out, item);
    }
    out.push(']');
}

fn text(out: &mut String, content: &str) {
    out.push('"');
    for unit in content.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ b' '..=b'~') if !matches!(byte, b'"' | b'\\') => out.push(char::from(byte)),
            _ => put(out, format_args!("\\u{unit:04x}")),
        }
    }
    out.push('"');
}

fn put(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = out.write_fmt(what);
}
