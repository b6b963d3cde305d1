//! The inputs of a repair, and its result: the tables that the manifest names, or every existing
//! table; and the edit that makes the new store.
//!
//! Invariants: without a manifest the trees and the keyspaces are those that tables and entries
//! name. Only the names of keyspaces are lost.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::log_chain::LogChain;
use super::salvage::{Keyspaces, Made, Salvage};
use super::{RepairReport, read_config};
use crate::base::key::SeqNo;
use crate::base::keyspace::TreeId;
use crate::base::order::KeyOrder;
use crate::compaction::TreeLimits;
use crate::db::dir::list_dir;
use crate::db::tree::{known_orders, options_of, stored_order_of};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Fs;
use crate::metrics::LEVELS;
use crate::options::Options;
use crate::table::Table;
use crate::tree::catalog::{Catalog, CatalogChange, KeyspaceSpec, Pairs, TREES_MAX, TreeSpec};
use crate::tree::edit::{AddedFile, AddedSlice, VersionEdit};
use crate::tree::names;
use crate::tree::output::NewFile;
use crate::tree::set::VersionSet;

/// A table that the store may need, with the key bounds of the needed part.
pub struct Source {
    /// The tree of the table.
    pub tree: TreeId,
    /// The file number.
    pub number: u64,
    /// The table's identity, when the manifest states it.
    pub table_id: Option<u64>,
    /// The sequence number of an ingest, when the manifest states it.
    pub ingested: Option<SeqNo>,
    /// First key of the part.
    pub lo: Option<Vec<u8>>,
    /// First key after the part.
    pub hi: Option<Vec<u8>>,
}

/// The inputs of a repair.
pub struct Inputs {
    /// The trees and keyspaces.
    pub catalog: Catalog,
    /// The tables to read, newest first.
    pub sources: Vec<Source>,
    /// The expected log chain.
    pub chain: LogChain,
}

/// Returns the inputs: the tables in the manifest, or every existing table.
pub fn inputs(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    report: &mut RepairReport,
) -> Result<Inputs> {
    match VersionSet::recover(fs.clone(), dir, known_orders(options), true) {
        Ok(versions) => {
            report.manifest_readable = true;
            Ok(Inputs {
                catalog: versions.catalog().clone(),
                sources: sources_of(&versions),
                chain: LogChain::new(&versions),
            })
        }
        // Another key order, or a manifest of a newer version: not damaged, and not repairable
        // here.
        Err(error) if error.kind() == ErrorKind::Incompatible => Err(error),
        Err(error) => {
            report.lost.push(format!("the manifest: {error}"));
            let (catalog, sources) = sources_without_manifest(fs, dir, options, report)?;
            Ok(Inputs { catalog, sources, chain: LogChain::default() })
        }
    }
}

/// Returns the tables of the manifest, newest first.
fn sources_of(versions: &VersionSet) -> Vec<Source> {
    let forest = versions.current();
    let ids: HashMap<u64, (u64, Option<SeqNo>)> = forest
        .files()
        .iter()
        .map(|file| (file.number, (file.info.table_id, file.info.ingested)))
        .collect();
    let mut sources = Vec::new();
    for (tree, version) in (0..).zip(forest.trees()) {
        // Fragments before guards cut them: each file once, wherever possible.
        let mut slices = version.to_edit().added;
        slices.sort_by(|a, b| a.level.cmp(&b.level).then(b.order.cmp(&a.order)));
        sources.extend(slices.into_iter().map(|slice| {
            let (AddedFile::New { number, .. } | AddedFile::Existing(number)) = slice.file;
            let (table_id, ingested) = ids.get(&number).copied().unzip();
            let ingested = ingested.flatten();
            Source { tree, number, table_id, ingested, lo: slice.lo, hi: slice.hi }
        }));
    }
    sources
}

/// Returns every existing table, newest first, and a catalog of the trees that they name.
fn sources_without_manifest(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    report: &mut RepairReport,
) -> Result<(Catalog, Vec<Source>)> {
    let entries = list_dir(&**fs, dir)?.entries;
    let mut numbers: Vec<u64> =
        entries.iter().filter_map(|e| names::parse_table(&e.name)).collect();
    // Later compactions write larger numbers.
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let (mut sources, mut orders) = (Vec::new(), BTreeMap::<TreeId, String>::new());
    for number in numbers {
        let path = names::table_path(dir, number);
        let (tree, order) = match Table::identify_tree(&**fs, &path) {
            Ok(identity) => identity,
            // In another tree its entries would be wrong data.
            Err(error) => {
                report.tables += 1;
                report.lost.push(format!("all entries of a table: {error}"));
                continue;
            }
        };
        let tree = if (tree as usize) < TREES_MAX { tree } else { 0 };
        if tree != 0 {
            if KeyOrder::by_name(&order, &known_orders(options)).is_none() {
                let message = format!(
                    "expected a table in a known key order, found the key order {order}; add it to \
                     `Options::key_orders`"
                );
                return Err(Error::new(ErrorKind::Incompatible, message).with_path(&path));
            }
            orders.entry(tree).or_insert(order);
        }
        let (table_id, ingested, lo, hi) = (None, None, None, None);
        sources.push(Source { tree, number, table_id, ingested, lo, hi });
    }
    let mut catalog = Catalog::default();
    let last = orders.keys().last().copied().unwrap_or(0);
    for id in 1..=last {
        let bytewise = || KeyOrder::Bytewise.name().to_string();
        let order = orders.remove(&id).unwrap_or_else(bytewise);
        catalog.apply(&[CatalogChange::AddTree(TreeSpec { id, order, options: Pairs::new() })])?;
    }
    if last > 0 {
        let what = "the names and options of keyspaces; a keyspace with number N is now named \
                    keyspace-N, also one that was dropped";
        report.lost.push(what.to_string());
    }
    Ok((catalog, sources))
}

/// Adds the trees of the catalog to the repair. `known` says that the catalog has the keyspaces.
pub fn add_trees(salvage: &mut Salvage, catalog: &Catalog, known: bool, options: &Options) {
    for spec in catalog.trees() {
        let order = stored_order_of(&spec.order, options);
        let own = options_of(options, &order, &spec.options);
        let keyspaces = if known {
            let live: HashSet<_> = catalog.keyspaces().map(|keyspace| keyspace.id).collect();
            Keyspaces::Known(live)
        } else {
            Keyspaces::Found(Default::default())
        };
        let config = read_config(&own);
        salvage.add_tree(&own, config, keyspaces);
    }
    salvage.divide_memory();
}

/// Merges the inputs of all trees. Returns the edit that makes the new store.
pub fn merge_trees(
    mut salvage: Salvage,
    catalog: Catalog,
    report: &mut RepairReport,
) -> Result<VersionEdit> {
    let others = salvage.take_others();
    let (mut edit, mut found) = (VersionEdit::default(), Vec::new());
    for salvage in std::iter::once(salvage).chain(others) {
        let limits = salvage.limits();
        let level = level_for(&limits, salvage.bytes());
        let made: Made = salvage.merge_all(level)?;
        report.pairs += made.pairs;
        report.entries_held_max += made.entries_held_max;
        report.lost.extend(made.lost);
        edit.next_file = edit.next_file.max(Some(made.next_number));
        // Merge operands keep their sequence numbers.
        let newest = made.files.iter().map(|file| file.info.seqno_max).max();
        edit.last_seqno = edit.last_seqno.max(newest.filter(|seqno| *seqno > 0));
        add_content(edit.tree_mut(made.tree), &limits, level, made.files);
        found.extend(made.keyspaces.into_iter().map(|id| KeyspaceSpec {
            id,
            tree: made.tree,
            name: format!("keyspace-{id}"),
            settings: Pairs::new(),
        }));
    }
    edit.others.retain(|(_, other)| other.changes_tree());
    edit.catalog = catalog.to_changes();
    edit.catalog.extend(found.into_iter().map(CatalogChange::Create));
    // Nothing of dropped keyspaces is left.
    edit.catalog.retain(|change| !matches!(change, CatalogChange::Dropped(..)));
    Ok(edit)
}

/// Returns the first level with room for `bytes`.
fn level_for(limits: &TreeLimits, bytes: u64) -> usize {
    (1..LEVELS - 1).find(|level| limits.capacity_bytes(*level) >= bytes).unwrap_or(LEVELS - 1)
}

/// Adds the content of a tree to `edit`: one run in `level`, with the guards that a compaction
/// would create.
fn add_content(edit: &mut VersionEdit, limits: &TreeLimits, level: usize, files: Vec<NewFile>) {
    let mut in_guard = 0;
    for file in files {
        let bytes = file.info.size_bytes;
        if limits.split_guard_bytes().is_some_and(|most| in_guard > 0 && in_guard + bytes > most) {
            edit.bounds_added.push((level, file.info.smallest.clone()));
            in_guard = 0;
        }
        in_guard += bytes;
        let new = AddedFile::New { number: file.number, info: file.info };
        edit.added.push(AddedSlice { level, order: 1, file: new, lo: None, hi: file.hi });
    }
}
