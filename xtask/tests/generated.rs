//! What is generated and committed is what would be generated now.

#[test]
fn the_header_is_current() {
    xtask::headers::check(&xtask::root()).unwrap();
}

#[test]
fn the_page_of_options_is_current() {
    xtask::options::check(&xtask::root()).unwrap();
}

#[test]
fn the_table_of_results_is_current() {
    xtask::results::check(&xtask::root()).unwrap();
}
