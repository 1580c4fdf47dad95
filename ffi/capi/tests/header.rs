//! Holds `include/pslite.h` and the Rust side equal: names of functions, sizes and offsets.
//!
//! bindgen reads the header with libclang; `scripts/test` says where that is. Without it the test
//! fails rather than pretend.

#![allow(clippy::expect_used, reason = "a test that cannot read its input fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{offset_of, size_of};
use std::path::PathBuf;

use ps::{
    CArray, CBatch, CBuffer, CDestination, CDevices, CExchangeCounts, CFrame, CJob, CKv, CMeta,
    CMovable, CNodeInfo, CPart, CRange, CSessionSettings, CSessionStart, CSlice,
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where the compiler keeps its own headers (stddef.h): the library alone of clang has none.
fn compiler_headers() -> String {
    let answer = std::process::Command::new("gcc").arg("-print-file-name=include").output();
    String::from_utf8_lossy(&answer.expect("gcc answers").stdout).trim().to_owned()
}

fn bindings() -> String {
    bindgen::Builder::default()
        .clang_args(["-isystem", &compiler_headers()])
        .header(root().join("include/pslite.h").to_string_lossy())
        .allowlist_item("pslite_.*")
        .generate()
        .expect("bindgen reads the header")
        .to_string()
}

fn exported() -> BTreeSet<String> {
    let folder = root().join("ffi/capi/src");
    let inside = std::fs::read_dir(folder.join("entry")).expect("entry");
    let files = inside.map(|file| file.expect("a file").path()).chain([folder.join("entry.rs")]);
    let text: String = files.map(|file| std::fs::read_to_string(file).expect("its text")).collect();
    text.lines()
        .filter_map(|line| line.strip_prefix("    fn pslite_"))
        .map(|rest| format!("pslite_{}", rest.split('(').next().unwrap_or_default()))
        .collect()
}

#[test]
fn every_declared_function_is_exported_and_no_other() {
    let text = bindings();
    let declared: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub fn "))
        .map(|rest| rest.split('(').next().unwrap_or_default().to_owned())
        .collect();
    assert!(declared.len() > 30, "only {} declarations found", declared.len());
    assert_eq!(declared, exported());
}

/// Sizes and offsets as bindgen's own layout checks state them.
fn layout(text: &str) -> BTreeMap<String, usize> {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = BTreeMap::new();
    for (word, prefix) in [("[\"Size of ", ""), ("[\"Offset of field: ", "")] {
        for part in flat.split(word).skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            let number = part.split(" - ").nth(1).and_then(|rest| rest.split("usize").next());
            if let Some(number) = number.and_then(|n| n.trim().parse().ok()) {
                found.insert(format!("{prefix}{name}"), number);
            }
        }
    }
    found
}

macro_rules! same {
    ($found:ident, $c:literal, $rust:ident { $($field:ident),* }) => {
        assert_eq!($found.get($c), Some(&size_of::<$rust>()), "size of {}", $c);
        $(assert_eq!(
            $found.get(concat!($c, "::", stringify!($field))),
            Some(&offset_of!($rust, $field)),
            "offset of {}::{}", $c, stringify!($field)
        );)*
    };
}

#[test]
fn structs_have_the_headers_layout() {
    let found = layout(&bindings());
    same!(found, "pslite_range", CRange { begin, end });
    same!(found, "pslite_buffer", CBuffer { data, size, release, release_arg });
    same!(found, "pslite_slice", CSlice { data, size });
    same!(found, "pslite_job", CJob { host, port, timeout_ms, own_host });
    same!(found, "pslite_array", CArray { data, bytes, filled });
    same!(found, "pslite_batch", CBatch { iteration, epoch, place, size, workers });
    same!(
        found,
        "pslite_session_settings",
        CSessionSettings {
            name,
            length,
            total,
            members,
            rank,
            min,
            max,
            quantum,
            lookahead,
            rule,
            seed,
            epochs,
            wraps,
            measured
        }
    );
    same!(found, "pslite_session_start", CSessionStart { first, order_hash, order });
    same!(found, "pslite_exchange_counts", CExchangeCounts { iterations, sent, done, held });
    same!(found, "pslite_kv", CKv { keys, vals, lens });
    same!(found, "pslite_part", CPart { rank, kv });
    same!(found, "pslite_frame", CFrame { buffer, data_type });
    same!(found, "pslite_devices", CDevices { src_type, src_id, dst_type, dst_id });
    same!(
        found,
        "pslite_meta",
        CMeta {
            head,
            app_id,
            customer_id,
            timestamp,
            sender,
            recver,
            priority,
            request,
            push,
            pull,
            simple_app,
            body,
            body_size,
            error
        }
    );
    same!(
        found,
        "pslite_node_info",
        CNodeInfo {
            role,
            id,
            rank,
            num_workers,
            num_servers,
            port,
            verbose,
            is_recovery,
            is_ready,
            hostname
        }
    );
    same!(
        found,
        "pslite_destination",
        CDestination { place_vals, place_lens, arg, vals, vals_bytes, lens, lens_count }
    );
    same!(
        found,
        "pslite_movable",
        CMovable { size, user, stateless, export_key, import_key, forget_key, released }
    );
}
