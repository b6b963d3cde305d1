//! Options of a runtime from text, and numbers by name: of a runtime, and of a thread's calls.
//!
//! Invariant: an unknown name or a text that is no value is `InvalidArgument`, and names what is
//! accepted.

use esker::internals::{self, parse_bytes};
use esker::perf::PerfContext;
use esker::report::RuntimeMetrics;
use esker::{ErrorKind, Result, RuntimeOptions};

fn invalid<T>(message: String) -> Result<T> {
    Err(internals::error(ErrorKind::InvalidArgument, message, None))
}

/// Parses a size, or `auto`.
fn size(name: &str, text: &str) -> Result<Option<u64>> {
    match parse_bytes(text) {
        _ if text.eq_ignore_ascii_case("auto") => Ok(None),
        Some(bytes) => Ok(Some(bytes)),
        None => invalid(format!(
            "the option {name} of a runtime cannot be {text:?}: expected auto or a size such as \
             64MiB"
        )),
    }
}

/// Sets an option of a runtime from text: `memory_budget_bytes`, `cache_size_bytes` and
/// `background_bytes_per_second` (sizes such as `64MiB`), `threads_max` (a number) and
/// `cache_policy`. `auto` selects the default.
///
/// # Errors
/// `InvalidArgument` for another name, or a text that is no value of the option.
pub fn set(options: &mut RuntimeOptions, name: &str, text: &str) -> Result<()> {
    let text = text.trim();
    match name {
        "memory_budget_bytes" => options.memory_budget_bytes = size(name, text)?,
        "cache_size_bytes" => options.cache_size_bytes = size(name, text)?,
        "background_bytes_per_second" => {
            options.background_bytes_per_second = size(name, text)?.unwrap_or(0);
        }
        "cache_policy" => options.cache_policy = text.parse()?,
        "threads_max" => {
            let count = text.parse().ok();
            if count.is_none() && !text.eq_ignore_ascii_case("auto") {
                return invalid(format!(
                    "the option threads_max of a runtime cannot be {text:?}: expected auto or a \
                     number"
                ));
            }
            options.threads_max = count;
        }
        _ => {
            return invalid(format!(
                "a runtime has no option {name:?}; it has memory_budget_bytes, cache_size_bytes, \
                 cache_policy, threads_max and background_bytes_per_second"
            ));
        }
    }
    Ok(())
}

/// Returns what the stores of a runtime use, by name. The names contain the units.
pub fn metrics(of: &RuntimeMetrics) -> [(&'static str, u64); 9] {
    [
        ("stores", of.stores),
        ("threads", of.threads),
        ("budget_bytes", of.budget_bytes),
        ("memtable_bytes", of.memtable_bytes),
        ("memtable_limit_bytes", of.memtable_limit_bytes),
        ("tables_bytes", of.tables_bytes),
        ("cache_bytes", of.cache_bytes),
        ("cache_capacity_bytes", of.cache_capacity_bytes),
        ("background_bytes", of.background_bytes),
    ]
}

/// Returns the counts of the calls of a thread, by name.
pub fn perf(of: &PerfContext) -> [(&'static str, u64); 14] {
    [
        ("gets", of.gets),
        ("memtable_hits", of.memtable_hits),
        ("tables_searched", of.tables_searched),
        ("filter_checks", of.filter_checks),
        ("filter_negatives", of.filter_negatives),
        ("value_bytes_read", of.value_bytes_read),
        ("cache_hits", of.cache_hits),
        ("cache_misses", of.cache_misses),
        ("blocks_read", of.blocks_read),
        ("block_bytes_read", of.block_bytes_read),
        ("wal_bytes", of.wal_bytes),
        ("wal_syncs", of.wal_syncs),
        ("stall_ns", of.stall_ns),
        ("throttle_ns", of.throttle_ns),
    ]
}

#[cfg(test)]
mod tests {
    use esker::{CachePolicy, Runtime};

    use super::*;

    #[test]
    fn options_of_a_runtime_are_set_from_text() {
        let mut options = RuntimeOptions::default();
        for (name, text) in [
            ("memory_budget_bytes", "64MiB"),
            ("cache_size_bytes", "1 MiB"),
            ("cache_policy", "lru"),
            ("threads_max", "5"),
            ("background_bytes_per_second", "1MiB"),
        ] {
            set(&mut options, name, text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(options.memory_budget_bytes, Some(64 << 20));
        assert_eq!(options.cache_size_bytes, Some(1 << 20));
        assert_eq!(options.cache_policy, CachePolicy::Lru);
        assert_eq!((options.threads_max, options.background_bytes_per_second), (Some(5), 1 << 20));
        let runtime = Runtime::new(options.clone()).unwrap();
        assert_eq!(metrics(&runtime.metrics())[2], ("budget_bytes", 64 << 20));
        for name in ["memory_budget_bytes", "cache_size_bytes", "threads_max"] {
            set(&mut options, name, "auto").unwrap();
        }
        set(&mut options, "background_bytes_per_second", "0").unwrap();
        set(&mut options, "cache_policy", "s3fifo").unwrap();
        assert_eq!(options, RuntimeOptions::default());
    }

    #[test]
    fn unknown_options_and_values_are_refused_by_name() {
        let mut options = RuntimeOptions::default();
        for (name, text) in [
            ("memory_budget_bytes", "much"),
            ("threads_max", "many"),
            ("threads_max", "-1"),
            ("cache_policy", "best"),
            ("threads", "3"),
        ] {
            let error = set(&mut options, name, text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
        }
        assert_eq!(options, RuntimeOptions::default());
        let text = set(&mut options, "thread", "3").unwrap_err().to_string();
        assert!(text.contains("\"thread\"") && text.contains("threads_max"), "{text}");
    }
}
