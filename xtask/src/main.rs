//! `cargo xtask tidy` checks the structure of the source tree. `cargo xtask options [--check]`
//! writes `docs/options.md` from the option table, or checks that it is current, and
//! `cargo xtask metrics [--check]` does the same for `docs/metrics.md` and the metrics table.
//! `cargo xtask results [--check]` does the same for the README's result table and its chart, and
//! `cargo xtask headers [--check]` for the header of the C interface, and
//! `cargo xtask rocksdb [--check]` for the table of RocksDB's functions in `docs/rocksdb.md`.
//! `cargo xtask api [--list]` counts the items of the public interface.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = xtask::root();
    let result = match args.as_slice() {
        ["tidy"] => match xtask::tidy::problems(&root) {
            Ok(problems) if problems.is_empty() => Ok(()),
            Ok(problems) => Err(problems.join("\n")),
            Err(error) => Err(error.to_string()),
        },
        ["api"] => xtask::api::check(&root, false),
        ["api", "--list"] => xtask::api::check(&root, true),
        ["options"] => xtask::options::write(&root),
        ["results"] => xtask::results::write(&root),
        ["results", "--check"] => xtask::results::check(&root),
        ["options", "--check"] => xtask::options::check(&root),
        ["metrics"] => xtask::metrics::write(&root),
        ["metrics", "--check"] => xtask::metrics::check(&root),
        ["headers"] => xtask::headers::write(&root),
        ["headers", "--check"] => xtask::headers::check(&root),
        ["rocksdb"] => xtask::rocksdb::write(&root),
        ["rocksdb", "--check"] => xtask::rocksdb::check(&root),
        _ => Err("usage: cargo xtask tidy | api [--list] | \
                  (options | metrics | results | headers | rocksdb) [--check]"
            .into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
