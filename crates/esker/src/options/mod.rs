//! Layer 0: all options. `table.rs` has the rows, `kinds.rs` the named values, and `validate.rs`
//! resolves `auto`.

pub mod kinds;
pub mod table;
pub mod validate;
pub mod value;

use crate::base::order::KeyOrder;
use crate::error::{Error, Result};
pub use table::{Mutability, OPTIONS, OptionSpec, Options};

impl Options {
    /// Sets an option by name or alias, from text such as `64MiB`, `true`, `lz4` or `auto`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] for an unknown name or a value out of range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let spec = find(name).ok_or_else(|| unknown_option(name))?;
        self.set_row(spec.name, value).ok_or_else(|| {
            Error::invalid(format!("{} cannot be {value:?}: it takes {}", spec.name, spec.range))
        })
    }

    /// Returns the value of an option by name or alias, as text that [`Options::set`] accepts.
    pub fn get(&self, name: &str) -> Option<String> {
        self.get_row(find(name)?.name)
    }

    /// Returns the names and values of the options that differ from their defaults, and the name of
    /// a key order that is not bytewise.
    pub(crate) fn changed(&self) -> Vec<(String, String)> {
        let row = |spec: &OptionSpec| {
            let value = self.get_row(spec.name)?;
            (value != spec.default).then(|| (spec.name.to_string(), value))
        };
        let mut changed: Vec<(String, String)> = OPTIONS.iter().filter_map(row).collect();
        if !matches!(self.key_order, KeyOrder::Bytewise) {
            changed.push(("key_order".to_string(), self.key_order.name().to_string()));
        }
        changed
    }
}

/// Options that a keyspace can have of its own: those of its tables and of their compaction.
pub const OF_KEYSPACES: &[&str] = &[
    "block_size_bytes",
    "block_layout",
    "restart_interval",
    "compression",
    "compression_upper",
    "compression_level",
    "compression_dictionary_max_bytes",
    "value_separation_min_bytes",
    "filter_bits_per_key",
    "file_size_max_bytes",
    "policy",
    "fan_out",
    "l0_runs_max",
    "runs_max",
    "last_runs_max",
    "base_rewrite_ratio",
    "space_amplification_max",
    "guard_size_max_bytes",
    "guard_piece_min_bytes",
];

/// Returns whether a keyspace can have this option of its own. `name` is not an alias.
pub fn is_of_keyspaces(name: &str) -> bool {
    OF_KEYSPACES.contains(&name)
}

/// Returns the row of an option by name or alias, in any case. `-` is accepted for `_`.
pub fn find(name: &str) -> Option<&'static OptionSpec> {
    // YCSB's properties start with the name of the store.
    let bare = name.strip_prefix("esker.").or_else(|| name.strip_prefix("leveldb."));
    let name = bare.unwrap_or(name).replace('-', "_");
    OPTIONS.iter().find(|k| {
        k.name.eq_ignore_ascii_case(&name)
            || k.aliases.iter().any(|a| a.eq_ignore_ascii_case(&name))
    })
}

/// Returns the error for an unknown option, with the nearest existing name.
fn unknown_option(name: &str) -> Error {
    let near = OPTIONS.iter().max_by_key(|k| {
        let shared = crate::base::key::shared_prefix_len(k.name.as_bytes(), name.as_bytes());
        (shared, std::cmp::Reverse(k.name.len()))
    });
    let hint = near.map_or(String::new(), |k| format!("; the nearest name is {}", k.name));
    Error::invalid(format!("unknown option {name:?}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_in_range_and_round_trips() {
        let mut options = Options::default();
        assert_eq!(options.row_out_of_range(), None);
        for spec in OPTIONS.iter() {
            let text = options.get(spec.name).unwrap();
            assert_eq!(text, spec.default);
            options.set(spec.name, &text).unwrap();
            for alias in spec.aliases {
                assert_eq!(options.get(alias).as_ref(), Some(&text), "{alias}");
            }
        }
    }

    #[test]
    fn changed_options_are_those_without_default() {
        let mut options = Options::default();
        assert!(options.changed().is_empty());
        options.set("policy", "leveled").unwrap();
        options.set("block_size", "8k").unwrap();
        let changed = options.changed();
        let changed: Vec<(&str, &str)> =
            changed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(changed, [("block_size_bytes", "8192"), ("policy", "leveled")]);
    }

    #[test]
    fn names_and_aliases_are_unique() {
        let mut names: Vec<String> = OPTIONS
            .iter()
            .flat_map(|k| std::iter::once(k.name).chain(k.aliases.iter().copied()))
            .map(str::to_ascii_lowercase)
            .collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(count, names.len());
    }

    #[test]
    fn unknown_names_and_values_return_error_message() {
        let mut options = Options::default();
        let error = options.set("block_sise", "1").unwrap_err().to_string();
        assert!(error.contains("block_size_bytes"), "{error}");
        let error = options.set("block_size", "3").unwrap_err().to_string();
        assert!(error.contains("64 to"), "{error}");
        assert!(options.set("policy", "best").unwrap_err().to_string().contains("fluid"));
        options.set("write_buffer_size", "2MiB").unwrap();
        assert_eq!(options.memtable_size_bytes, Some(2 << 20));
    }
}
