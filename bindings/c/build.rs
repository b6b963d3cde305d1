//! The shared library is `libesker.so.N` to programs that were linked with it, N being the first
//! number of the version. It stays loaded once it is: threads of the engine may live as long as the
//! process, and must not run code that was unmapped.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libesker.so.{major}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
