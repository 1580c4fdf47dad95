//! Names the shared library, so that programs linked to it find any later build of the same ABI.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libps.so.1");
}
