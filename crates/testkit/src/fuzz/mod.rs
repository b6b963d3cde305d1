//! Fuzzing of every decoder: each has a function that accepts any bytes, and a driver generates the
//! bytes.
//!
//! `fuzz/` runs the same functions under libFuzzer where it is installed, and [`drive::drive`] runs
//! them in `make test`.
//!
//! Invariants: whatever the input is, a target ends without a panic, within time and memory bounded
//! by the input's length. Where a checksum covers bytes, the target also decodes them with
//! corrected checksums, so that mutations reach the decoder.

pub mod drive;
mod feeds;
mod fixup;
mod targets;
mod values;

/// A decoder under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also the name of its directory in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs the decoder on an input.
    pub run: fn(&[u8]),
    /// Valid inputs, from which other inputs are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every decoder of the engine.
pub const TARGETS: &[Target] = &[
    Target { name: "log", run: targets::log, seeds: targets::log_seeds },
    Target { name: "batch", run: targets::batch, seeds: targets::batch_seeds },
    Target { name: "block", run: targets::block, seeds: targets::block_seeds },
    Target { name: "table", run: targets::table, seeds: targets::table_seeds },
    Target { name: "value_file", run: values::value_file, seeds: values::value_file_seeds },
    Target { name: "edit", run: targets::edit, seeds: targets::edit_seeds },
    Target { name: "manifest", run: targets::manifest, seeds: targets::manifest_seeds },
    Target { name: "current", run: targets::current, seeds: targets::current_seeds },
    Target { name: "backup_meta", run: targets::backup_meta, seeds: targets::backup_meta_seeds },
    Target { name: "status", run: targets::status, seeds: targets::status_seeds },
    Target { name: "prepared", run: targets::prepared, seeds: targets::prepared_seeds },
    Target { name: "stream", run: feeds::stream, seeds: feeds::stream_seeds },
    Target { name: "slot", run: feeds::slot, seeds: feeds::slot_seeds },
    Target { name: "feed_records", run: feeds::feed_records, seeds: feeds::feed_records_seeds },
    Target {
        name: "encrypted_file",
        run: feeds::encrypted_file,
        seeds: feeds::encrypted_file_seeds,
    },
    Target { name: "options", run: targets::options, seeds: targets::options_seeds },
    Target { name: "names", run: targets::names, seeds: targets::names_seeds },
    Target { name: "codec", run: targets::codec, seeds: targets::codec_seeds },
];

/// A decoder that trusts a length in its input. The driver of targets must find this error.
pub const CANARY: Target =
    Target { name: "canary", run: targets::canary, seeds: targets::canary_seeds };
