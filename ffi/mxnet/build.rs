//! Compiles the C++ side with the wheel's string ABI and links it whole, exporting exactly what
//! `exports.map` names. rust-lld takes that version script beside rustc's own.

fn main() {
    let files = ["wheel", "errors", "postoffice", "app", "kv"];
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
    for file in files {
        build.file(format!("cpp/{file}.cc"));
    }
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-changed=exports.map");
    println!("cargo:rerun-if-changed=../../include/pslite.h");
    build.compile("pslite_mxnet_cpp");
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static:+whole-archive=pslite_mxnet_cpp");
    println!("cargo:rustc-link-lib=dylib=stdc++");
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={here}/exports.map");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpslite_mxnet.so");
}
