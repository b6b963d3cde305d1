//! `esker load --sorted`: sorts the pairs of an input outside of memory, and loads those of each
//! keyspace at once, as tables.
//!
//! Invariants: the pairs of a keyspace are loaded when all of them were read. An input that ends
//! early loads nothing of the keyspace in which it ends.

use std::path::{Path, PathBuf};

use esker::KeyOrder;

use super::load::{Sums, Target, at_line, fits, report_bad_row};
use crate::failure::Failure;
use crate::interrupt;
use crate::keyspaces::shown;
use crate::progress::{Count, Progress};
use crate::rows::sort::Sorter;
use crate::rows::{Content, Rows};

/// Bytes of pairs in memory while they are sorted.
const SORT_BYTES: usize = 64 << 20;

/// Where the input comes from, and where its runs go.
pub(super) struct Place<'a> {
    /// The input, for messages.
    pub source: &'a Path,
    /// The directory in which a directory for the runs is made.
    pub sort_dir: PathBuf,
}

impl Place<'_> {
    fn sorter(&self, order: &KeyOrder, number: u64) -> Sorter {
        let name = format!("esker-sort-{}-{number}", std::process::id());
        Sorter::new(order.clone(), self.sort_dir.join(name), SORT_BYTES)
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::file("sort the pairs in", &self.sort_dir, error)
    }
}

/// Loads the pairs.
pub(super) fn load_sorted(
    target: &mut Target,
    rows: &mut dyn Rows,
    place: &Place<'_>,
    sums: &mut Sums,
    progress: &mut Progress,
    json: bool,
) -> Result<(), Failure> {
    let mut sorter = place.sorter(target.keyspace.key_order(), 0);
    while !interrupt::asked() {
        let row = rows.next().map_err(|error| Failure::file("read", place.source, &error))?;
        let Some(row) = row else { break };
        let content = row.content.and_then(|content| fits(&content).map(|()| content));
        match content {
            Ok(Content::Pair(key, value)) => {
                sorter.add(key, value).map_err(|error| place.failed(&error))?;
            }
            Ok(Content::Timed(..)) => {
                let message = "--sorted cannot load a dump with pairs that expire; load it without \
                               --sorted";
                return Err(Failure::usage(message));
            }
            Ok(Content::Keyspace(spec)) => {
                install(target, sorter, place, sums)?;
                let created = target.enter(&spec, json).map_err(|failure| {
                    at_line(failure, place.source, row.line, &shown(&spec.name))
                })?;
                sums.keyspaces_created += u64::from(created);
                sorter = place.sorter(target.keyspace.key_order(), row.line);
            }
            Err(why) => {
                sums.bad += 1;
                progress.suspended(|| report_bad_row(json, sums.bad, row.line, &why));
            }
        }
        progress.set(rows.read_bytes());
    }
    if interrupt::asked() || rows.check_end().is_err() {
        // The rest of the keyspace is unknown.
        return Ok(());
    }
    install(target, sorter, place, sums)
}

/// Loads the pairs of the present keyspace.
fn install(
    target: &Target,
    sorter: Sorter,
    place: &Place<'_>,
    sums: &mut Sums,
) -> Result<(), Failure> {
    let sorted = sorter.finish().map_err(|error| place.failed(&error))?;
    let mut progress = Progress::new("write tables", None, Count::Pairs);
    let mut loaded = 0;
    let pairs = sorted.map(|pair| {
        interrupt::check()?;
        loaded += 1;
        progress.set(loaded);
        pair.map_err(|error| place.failed(&error))
    });
    let report = target.keyspace.try_bulk_load(pairs)?;
    sums.loaded += report.entries;
    Ok(())
}
