//! Every example runs to its end.

/// Includes an example as a module and runs its `main` as a test.
macro_rules! examples {
    ($($name:ident at $path:literal),+ $(,)?) => { $(
        #[path = $path]
        #[allow(dead_code)]
        mod $name;

        #[test]
        fn $name() {
            $name::main().unwrap();
        }
    )+ };
}

examples! {
    quickstart at "../examples/quickstart.rs",
    batch at "../examples/batch.rs",
    snapshot_scan at "../examples/snapshot_scan.rs",
    choosing_options at "../examples/choosing_options.rs",
    backup at "../examples/backup.rs",
    inspecting at "../examples/inspecting.rs",
    bulk_load at "../examples/bulk_load.rs",
    dictionary_and_fork at "../examples/dictionary_and_fork.rs",
}

#[cfg(feature = "encryption")]
examples! {
    encryption_cost at "../examples/encryption_cost.rs",
}
