//! Sets linker flags of the shared library. Its SONAME is `libesker.so.N`, where N is the major
//! version. It is never unloaded, because threads of the engine may live as long as the process and
//! must not run unmapped code.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libesker.so.{major}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
