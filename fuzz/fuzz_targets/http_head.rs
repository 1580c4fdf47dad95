//! Gives what libFuzzer makes up to the check of that name.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/http_head.rs"]
mod check;

fuzz_target!(|data: &[u8]| {
    check::check(data);
});
