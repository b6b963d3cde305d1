//! The tree keeps its shape: `cargo xtask tidy` as a test.

#[test]
fn source_tree_is_tidy() {
    let problems = xtask::tidy::problems(&xtask::root()).unwrap();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}
