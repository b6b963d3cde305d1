//! What is generated and committed is what would be generated now.

#[test]
fn header_is_current() {
    xtask::headers::check(&xtask::root()).unwrap();
}

#[test]
fn metrics_page_is_current() {
    xtask::metrics::check(&xtask::root()).unwrap();
}

#[test]
fn options_page_is_current() {
    xtask::options::check(&xtask::root()).unwrap();
}

#[test]
fn results_table_is_current() {
    xtask::results::check(&xtask::root()).unwrap();
}

#[test]
fn rocksdb_page_is_current() {
    xtask::rocksdb::check(&xtask::root()).unwrap();
}
