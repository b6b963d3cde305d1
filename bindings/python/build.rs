//! The shared library stays loaded once it is: threads of the engine may live as long as the
//! process, and must not run code that was unmapped.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
