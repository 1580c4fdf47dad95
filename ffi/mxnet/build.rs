//! Compiles the C++ side with the wheel's string ABI and links it whole. The library exports what
//! `exports.map` names, and the functions of the C ABI: those are in rustc's own version script,
//! beside which rust-lld takes that one.

use std::env;

const FILES: [&str; 15] = [
    "wheel",
    "guard",
    "stack",
    "errors",
    "completion",
    "process",
    "kvstores",
    "initial_values",
    "python",
    "server_stop",
    "postoffice",
    "customer",
    "simple_app",
    "kv_worker",
    "kv_server",
];

fn main() {
    let out = env::var("OUT_DIR").unwrap_or_default();
    let here = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++11")
        .define("_GLIBCXX_USE_CXX11_ABI", "0")
        .include("../../include")
        .flag("-fvisibility-inlines-hidden")
        .warnings(true)
        .extra_warnings(true)
        .cargo_metadata(false);
    for file in FILES {
        build.file(format!("cpp/{file}.cc"));
    }
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-changed=exports.map");
    println!("cargo:rerun-if-changed=../../include/pslite.h");
    build.compile("pslite_mxnet_cpp");
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static:+whole-archive=pslite_mxnet_cpp");
    println!("cargo:rustc-link-lib=dylib=stdc++");
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={here}/exports.map");
    // The C++ side calls the C ABI of this library, also where a program has another copy of it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpslite_mxnet.so");
}
