//! Input of a repair: tables and fragments of tables, combined into chains.
//!
//! Invariants:
//! * The parts of a chain are disjoint and in key order, so only one table of a chain is open at a
//!   time.
//! * The number of chains is minimal: the largest number of parts that overlap at one key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::fs::Fs;
use crate::table::{ReadConfig, Table, TableSource};
use crate::tree::fragment::{FileMeta, Fragment};
use crate::tree::names;
use crate::tree::output::NewFile;

/// A table, or a fragment of a table, that a repair reads.
pub struct SalvagePart {
    /// The table's path.
    pub path: PathBuf,
    /// The visible fragment of the table.
    pub shown: Fragment,
    /// Age. Of two parts with the same version of a key, the one with the larger age wins.
    pub age: u64,
    /// Whether this repair wrote the table. Damage in such a table is an error, not a loss.
    pub is_own: bool,
}

impl SalvagePart {
    /// Returns the part for a table that this repair wrote into `dir`.
    pub fn own(dir: &Path, file: NewFile, age: u64) -> Arc<SalvagePart> {
        let path = names::table_path(dir, file.number);
        let estimated_bytes = file.info.size_bytes;
        let (lo, hi) = (None, file.hi);
        let file = Arc::new(FileMeta::new(file.number, file.info, None));
        Arc::new(SalvagePart {
            path,
            shown: Fragment { file, lo, hi, estimated_bytes },
            age,
            is_own: true,
        })
    }

    /// Opens the part's table.
    pub fn open(&self, fs: &Arc<dyn Fs>, config: &ReadConfig) -> Result<Table> {
        let file = &self.shown.file;
        open_table(fs, &self.path, file.number, file.info.ingested, config)
    }

    /// Returns whether `key` is within the fragment's bounds, whatever the table says of itself.
    pub fn shows(&self, order: &KeyOrder, key: &[u8]) -> bool {
        let before = self.shown.lo.as_ref().is_some_and(|lo| order.compare(key, lo).is_lt());
        let after = self.shown.hi.as_ref().is_some_and(|hi| order.compare(key, hi).is_ge());
        !before && !after
    }
}

/// Opens the table in `path` with the identity that its own footer states. `ingested` is the
/// sequence number of an ingest that the manifest states.
pub fn open_table(
    fs: &Arc<dyn Fs>,
    path: &Path,
    number: u64,
    ingested: Option<SeqNo>,
    config: &ReadConfig,
) -> Result<Table> {
    let identity = Table::identify(&**fs, path)?;
    let source = TableSource {
        fs: fs.clone(),
        path: path.to_path_buf(),
        file_number: number,
        table_id: identity.table_id,
        size_bytes: identity.size_bytes,
        ingested,
    };
    Table::open(source, config)
}

/// Combines parts into as few chains as possible: each part is appended to the first chain that
/// ends before it.
pub fn chains(order: &KeyOrder, parts: &[Arc<SalvagePart>]) -> Vec<Vec<Arc<SalvagePart>>> {
    let mut sorted: Vec<&Arc<SalvagePart>> = parts.iter().collect();
    sorted.sort_by(|a, b| a.shown.compare_start(order, &b.shown));
    let mut chains: Vec<Vec<Arc<SalvagePart>>> = Vec::new();
    for part in sorted {
        let free = chains
            .iter_mut()
            .find(|chain| chain.last().is_none_or(|last| last.shown.is_before(order, &part.shown)));
        match free {
            Some(chain) => chain.push(part.clone()),
            None => chains.push(vec![part.clone()]),
        }
    }
    chains
}

/// Splits `parts`, newest first, into windows of neighbouring ages. Each window has at most
/// `width_max` chains.
pub fn windows(
    order: &KeyOrder,
    parts: &[Arc<SalvagePart>],
    width_max: usize,
) -> Vec<Vec<Arc<SalvagePart>>> {
    let mut windows = Vec::new();
    let mut rest = parts;
    while !rest.is_empty() {
        let mut len = rest.len();
        while len > 1 && chains(order, &rest[..len]).len() > width_max {
            len /= 2;
        }
        windows.push(rest[..len].to_vec());
        rest = &rest[len..];
    }
    windows
}
