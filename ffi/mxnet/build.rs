//! Compiles the C++ side with the wheel's string ABI and links it whole, exporting exactly what
//! `exports.map` names. rust-lld takes that version script beside rustc's own.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

const FILES: [&str; 13] = [
    "wheel",
    "guard",
    "stack",
    "errors",
    "completion",
    "process",
    "python",
    "server_stop",
    "postoffice",
    "customer",
    "simple_app",
    "kv_worker",
    "kv_server",
];

fn main() -> io::Result<()> {
    let out = env::var("OUT_DIR").unwrap_or_default();
    let here = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let header = Path::new(&here).join("../../include/pslite.h");
    let hidden = Path::new(&out).join("hidden.cc");
    fs::write(&hidden, hide_all(&fs::read_to_string(&header)?))?;

    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++11")
        .define("_GLIBCXX_USE_CXX11_ABI", "0")
        .include("../../include")
        .flag("-fvisibility-inlines-hidden")
        .warnings(true)
        .extra_warnings(true)
        .cargo_metadata(false)
        .file(&hidden);
    for file in FILES {
        build.file(format!("cpp/{file}.cc"));
    }
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-changed=exports.map");
    println!("cargo:rerun-if-changed={}", header.display());
    build.compile("pslite_mxnet_cpp");
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static:+whole-archive=pslite_mxnet_cpp");
    println!("cargo:rustc-link-lib=dylib=stdc++");
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={here}/exports.map");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpslite_mxnet.so");
    Ok(())
}

/// An object that refers to every function of the C ABI with hidden visibility. rustc exports each
/// `no_mangle` function from a cdylib; the linker makes a symbol as hidden as its most hidden
/// reference, so this takes them back.
fn hide_all(header: &str) -> String {
    let mut assembly = String::new();
    for name in functions(header) {
        let _ = writeln!(assembly, "__asm__(\".globl {name}\\n.hidden {name}\\n\");");
    }
    assembly
}

/// The names of the functions that the header declares: `pslite_x(` outside comments.
fn functions(header: &str) -> Vec<String> {
    let mut code = String::new();
    for part in header.split("/*") {
        code.push_str(part.split_once("*/").map_or(part, |(_, after)| after));
    }
    let names = code.match_indices("pslite_").filter_map(|(at, _)| {
        let end = code[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let free = !code[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        (free && code[at + end..].starts_with('(')).then(|| code[at..at + end].to_owned())
    });
    names.collect()
}
