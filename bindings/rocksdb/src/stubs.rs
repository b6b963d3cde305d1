//! The functions that are not written by hand: setters and getters of plain values, and refusals.
//! `build.rs` makes them from `functions.tsv`.
//!
//! Invariant: every function of the table that has no Rust code of its own is here, so that each
//! name of RocksDB's header is exported.
#![allow(clippy::too_many_lines, reason = "the code is generated")]

use std::ffi::{c_char, c_void};
use std::sync::atomic::AtomicBool;

use esker_c::callbacks::{State, esker_destructor_t};
use esker_c::failure::{Failure, Outcome};

use crate::failure::{kept, pend, refusal};
use crate::{accepted, settings};

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));

/// Returns whether a setting of a store or of its tables has no effect.
pub(crate) fn is_accepted(name: &str) -> bool {
    ACCEPTED.contains(&name)
}

/// Returns the key and the value of a setting of a store that is given as text.
///
/// # Errors
/// `InvalidArgument` for an unknown name or a value that is not of the setting's type.
pub(crate) fn parse(name: &str, value: &str) -> Outcome<(&'static str, u64)> {
    let (key, kind) = SETTINGS
        .iter()
        .find(|(key, _)| *key == name)
        .ok_or_else(|| Failure::invalid(format!("Unrecognized option: {name}")))?;
    let bits = match *kind {
        'd' => value.parse::<f64>().ok().map(f64::to_bits),
        // Some functions take a truth value as an int.
        'b' | 'i' if value == "true" => Some(1),
        'b' | 'i' if value == "false" => Some(0),
        'b' => number(value).filter(|number| *number <= 1),
        _ => number(value),
    };
    let bits =
        bits.ok_or_else(|| Failure::invalid(format!("the option {name} cannot be {value:?}")))?;
    Ok((key, bits))
}

/// Returns a whole number, with a suffix for powers of 1,024, or RocksDB's name of a compression.
fn number(value: &str) -> Option<u64> {
    let kinds = [
        ("kNoCompression", 0),
        ("kSnappyCompression", 1),
        ("kZlibCompression", 2),
        ("kBZip2Compression", 3),
        ("kLZ4Compression", 4),
        ("kLZ4HCCompression", 5),
        ("kZSTD", 7),
        ("kCompactionStyleLevel", 0),
        ("kCompactionStyleUniversal", 1),
        ("kCompactionStyleFIFO", 2),
    ];
    if let Some((_, number)) = kinds.iter().find(|(name, _)| *name == value) {
        return Some(*number);
    }
    let shift = match value.as_bytes().last()? {
        b'k' | b'K' => 10,
        b'm' | b'M' => 20,
        b'g' | b'G' => 30,
        b't' | b'T' => 40,
        _ => return value.parse::<i64>().ok().map(|number| number as u64),
    };
    let digits = value.get(..value.len() - 1)?;
    digits.parse::<i64>().ok()?.checked_mul(1 << shift).map(|number| number as u64)
}

/// Reports the refusal of a function that can report errors.
///
/// # Safety
/// `place` is null, or the place of an error text of the caller.
unsafe fn refuse(place: *mut *mut c_char, function: &str, why: &str) {
    // SAFETY: guaranteed by the caller.
    unsafe { kept(place.as_mut(), || Err::<(), _>(refusal(function, why))) };
}

/// Frees the state of an object that is refused: its maker would have owned it.
///
/// # Safety
/// `destructor` is null, or a function that takes the pointer.
unsafe fn free_state(pointer: *mut c_void, destructor: *mut c_void) {
    // SAFETY: guaranteed by the caller; null is no function.
    let destructor = unsafe { std::mem::transmute::<*mut c_void, esker_destructor_t>(destructor) };
    drop(State { pointer, destructor });
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use super::*;

    #[test]
    fn settings_are_parsed_by_their_type() {
        assert_eq!(parse("write_buffer_size", "64M").unwrap(), ("write_buffer_size", 64 << 20));
        assert_eq!(parse("max_open_files", "-1").unwrap().1 as i64, -1);
        assert_eq!(parse("disable_auto_compactions", "true").unwrap().1, 1);
        assert_eq!(parse("compression", "kZSTD").unwrap().1, 7);
        assert!(parse("write_buffer_size", "many").is_err());
        assert!(parse("no_such_option", "1").is_err());
        assert!(is_accepted("use_fsync") && !is_accepted("write_buffer_size"));
    }

    #[test]
    fn the_state_of_a_refused_object_is_freed_once() {
        unsafe extern "C" fn free(state: *mut c_void) {
            // SAFETY: the state of this test.
            unsafe { *state.cast::<u32>() += 1 }
        }
        let (mut freed, none) = (0u32, std::ptr::null_mut());
        let state = (&raw mut freed).cast::<c_void>();
        let end = free as *mut c_void;
        // SAFETY: the functions call the destructor alone; there is no place of an error text.
        unsafe {
            assert!(rocksdb_walfilter_create(state, end, none, none, none).is_null());
            let of_time = rocksdb_comparator_with_ts_create;
            assert!(of_time(state, end, none, none, none, none, 8).is_null());
            let service = rocksdb_compactionservice_create;
            assert!(service(state, end, none, none, none, none, none).is_null());
            let [a, b, c, d, e] = [none; 5];
            let listener = rocksdb_eventlistener_create;
            assert!(listener(state, end, a, b, c, d, e, a, b, c, d, e).is_null());
            // Without a destructor nothing is freed.
            assert!(rocksdb_walfilter_create(state, none, none, none, none).is_null());
            assert!(kept(None, || Ok(())).is_none(), "the next call reports the refusals");
        }
        assert_eq!(freed, 4);
    }

    /// The table and the code must agree on which functions are written by hand.
    #[test]
    fn the_table_names_every_function_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let table = std::fs::read_to_string(root.join("functions.tsv")).unwrap();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('\t').collect())
            .collect();
        let mut by_hand = BTreeSet::new();
        for row in &rows {
            assert_eq!(row.len(), 5, "{row:?}");
            assert!(["done", "accepted", "refused"].contains(&row[2]), "{row:?}");
            if row[3] == "rust" {
                by_hand.insert(row[0].to_string());
            }
        }
        let names: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
        assert_eq!((names.len(), rows.len()), (1745, 1745));
        let mut written = BTreeMap::new();
        for entry in std::fs::read_dir(root.join("src")).unwrap() {
            let path = entry.unwrap().path();
            let code = std::fs::read_to_string(&path).unwrap();
            for (at, _) in code.match_indices("extern \"C\" fn rocksdb_") {
                let name = &code[at + "extern \"C\" fn ".len()..];
                let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap();
                written.insert(name[..end].to_string(), path.clone());
            }
        }
        let written: BTreeSet<String> = written.into_keys().collect();
        assert_eq!(written, by_hand);
    }
}
