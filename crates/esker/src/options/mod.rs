//! Layer 0: every knob. The rows are in `table.rs`, words in `kinds.rs`, what `auto` means in
//! `validate.rs`.

pub mod kinds;
pub mod table;
pub mod validate;
pub mod value;

use crate::error::{Error, Result};
pub use table::{KNOBS, Knob, Options, When};

impl Options {
    /// Sets a knob by its name or an alias, from text such as `64MiB`, `true`, `lz4` or `auto`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] for an unknown name or a value out of range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let knob = find(name).ok_or_else(|| unknown(name))?;
        self.set_row(knob.name, value).ok_or_else(|| {
            Error::invalid(format!("{} cannot be {value:?}: it takes {}", knob.name, knob.range))
        })
    }

    /// The value of a knob by its name or an alias, as text that [`Options::set`] reads.
    pub fn get(&self, name: &str) -> Option<String> {
        self.get_row(find(name)?.name)
    }
}

/// The row of a knob by its name or an alias, in any case, with `-` for `_` allowed.
pub fn find(name: &str) -> Option<&'static Knob> {
    // YCSB's properties name the store first.
    let bare = name.strip_prefix("esker.").or_else(|| name.strip_prefix("leveldb."));
    let name = bare.unwrap_or(name).replace('-', "_");
    KNOBS.iter().find(|k| {
        k.name.eq_ignore_ascii_case(&name)
            || k.aliases.iter().any(|a| a.eq_ignore_ascii_case(&name))
    })
}

/// The error for a knob that does not exist, with the nearest name that does.
fn unknown(name: &str) -> Error {
    let near = KNOBS.iter().max_by_key(|k| {
        let shared = crate::base::key::shared_prefix_len(k.name.as_bytes(), name.as_bytes());
        (shared, std::cmp::Reverse(k.name.len()))
    });
    let hint = near.map_or(String::new(), |k| format!("; the nearest is {}", k.name));
    Error::invalid(format!("there is no option {name:?}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_in_its_range_and_reads_back() {
        let mut options = Options::default();
        assert_eq!(options.row_out_of_range(), None);
        for knob in KNOBS.iter() {
            let text = options.get(knob.name).unwrap();
            assert_eq!(text, knob.default);
            options.set(knob.name, &text).unwrap();
            for alias in knob.aliases {
                assert_eq!(options.get(alias).as_ref(), Some(&text), "{alias}");
            }
        }
    }

    #[test]
    fn names_are_unique_among_all_names() {
        let mut names: Vec<String> = KNOBS
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
    fn bad_names_and_values_are_sentences() {
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
