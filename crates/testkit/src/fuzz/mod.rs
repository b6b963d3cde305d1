//! Fuzzing of every decoder: for each a function that takes any bytes, and a driver that makes them.
//!
//! The same functions are driven by `fuzz/` under libFuzzer, where it is installed, and by
//! [`drive::drive`] in `make test`. What stays true: a target ends without a panic, in time and
//! memory that the input's length bounds, whatever the input is; where bytes stand behind a
//! checksum, the target also looks at them with the checksums made right, so that mutations reach
//! the decoder.

pub mod drive;
mod fixup;
mod targets;

/// A decoder under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also that of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Feeds it.
    pub run: fn(&[u8]),
    /// Good inputs, from which others are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every decoder of the engine's.
pub const TARGETS: &[Target] = &[
    Target { name: "log", run: targets::log, seeds: targets::log_seeds },
    Target { name: "batch", run: targets::batch, seeds: targets::batch_seeds },
    Target { name: "block", run: targets::block, seeds: targets::block_seeds },
    Target { name: "table", run: targets::table, seeds: targets::table_seeds },
    Target { name: "edit", run: targets::edit, seeds: targets::edit_seeds },
    Target { name: "manifest", run: targets::manifest, seeds: targets::manifest_seeds },
    Target { name: "current", run: targets::current, seeds: targets::current_seeds },
    Target { name: "mark", run: targets::mark, seeds: targets::mark_seeds },
    Target { name: "options", run: targets::options, seeds: targets::options_seeds },
    Target { name: "names", run: targets::names, seeds: targets::names_seeds },
    Target { name: "codec", run: targets::codec, seeds: targets::codec_seeds },
];

/// A decoder that trusts a length it was told: whoever drives targets must find that out.
pub const CANARY: Target =
    Target { name: "canary", run: targets::canary, seeds: targets::canary_seeds };
