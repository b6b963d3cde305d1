//! Sets linker flags: the shared library is never unloaded, because threads of the engine may live
//! as long as the process and must not run unmapped code.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
