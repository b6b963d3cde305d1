//! The committed C header is what the functions say.

#[test]
fn the_header_is_current() {
    xtask::headers::check(&xtask::root()).unwrap();
}
