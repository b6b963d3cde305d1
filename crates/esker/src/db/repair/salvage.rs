//! The salvage phase of a repair. Logs and unsorted tables are sorted one memtable at a time. Then
//! all parts are merged into one run of new tables.
//!
//! Invariants:
//! * Memory holds at once: the entries of one memtable; one block, index and filter for each of at
//!   most [`WIDTH_MAX`] chains; and the range tombstones. Where more parts overlap, neighbours in
//!   age are merged first.
//! * Damage in the input is listed. Damage in the repair's own output ends the repair.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::context::SalvageContext;
use super::log_chain::LogChain;
use super::log_scan::{Chain, Scanned, Stop};
use super::parts::{SalvagePart, chains, windows};
use crate::base::checksum::checksum;
use crate::base::key::{Kind, SeqNo};
use crate::base::keyspace::{KeyspaceId, LiveKeys, TreeId, keyspace_of};
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::ops::Ops;
use crate::base::range_delete::{RangeDeleteRef, RangeDeletes, RangeDeletesBuilder};
use crate::compaction::TreeLimits;
use crate::db::lifecycle::sizes_here;
use crate::db::table_output::table_options;
use crate::error::{Error, Result};
use crate::flush;
use crate::fs::{Fs, parent_of};
use crate::iter::rewrite::{EntrySink, InputEntry, Rewrite, RewriteRules};
use crate::memtable::Memtable;
use crate::metrics::RewriteCounters;
use crate::options::Options;
use crate::table::ReadConfig;
use crate::tree::output::{NewFile, Output, OutputConfig};
use crate::tree::value_output::ValueConfig;
use crate::wal::{LogEnd, LogReader};

/// Maximum number of chains merged at once, which is the number of open tables.
const WIDTH_MAX: usize = 64;

/// State of a running repair of one tree. That of tree 0 has those of the other trees.
pub struct Salvage {
    tree: TreeId,
    others: Vec<Salvage>,
    keyspaces: Keyspaces,
    context: SalvageContext,
    /// Directory of the new tables.
    rebuilt: PathBuf,
    options: Options,
    memtable: Arc<Memtable>,
    memtable_bytes: usize,
    parts: Vec<Arc<SalvagePart>>,
    deletes: RangeDeletesBuilder,
    numbers: Arc<AtomicU64>,
    id: u64,
    pairs: u64,
}

/// Returns the rules of a repair: no operator is called, and nothing expires.
fn keep_all(counters: &RewriteCounters) -> RewriteRules<'_> {
    let live = LiveKeys::all(Arc::new(KeyspaceRules::default()));
    let (snapshots, values) = (Vec::new(), None);
    RewriteRules { snapshots, now_ms: 0, live, filter_level: None, counters, values }
}

/// Destination of a merge of parts, which counts the pairs.
struct RepairSink<'a> {
    output: &'a mut Output,
    /// Whether nothing older and no tombstone is left below the output.
    is_last: bool,
    pairs: u64,
    /// The last key.
    key: Vec<u8>,
}

impl EntrySink for RepairSink<'_> {
    fn add(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8]) -> Result<()> {
        // Merge operands keep their numbers, which order them.
        let seqno = if self.is_last && kind != Kind::Merge { 0 } else { seqno };
        self.output.add(key, seqno, kind, value)?;
        if self.pairs == 0 || self.key != key {
            self.pairs += 1;
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        Ok(())
    }
}

/// The keyspaces of a tree other than tree 0.
pub enum Keyspaces {
    /// The manifest states them. Entries of others are left out.
    Known(HashSet<KeyspaceId>),
    /// The manifest is lost. These were found in the entries.
    Found(BTreeSet<KeyspaceId>),
}

impl Keyspaces {
    /// Returns whether an entry with the stored key `key` is kept.
    fn keep(&mut self, tree: TreeId, key: &[u8]) -> bool {
        let Some(id) = keyspace_of(key).filter(|_| tree != 0) else { return tree == 0 };
        match self {
            Keyspaces::Known(known) => known.contains(&id),
            Keyspaces::Found(found) => {
                found.insert(id);
                true
            }
        }
    }
}

/// Output of a repair of one tree.
pub struct Made {
    /// Number of the tree.
    pub tree: TreeId,
    /// Keyspaces found in the entries, if the manifest is lost.
    pub keyspaces: BTreeSet<KeyspaceId>,
    /// The tables, disjoint and in key order.
    pub files: Vec<NewFile>,
    /// The first free file number.
    pub next_number: u64,
    /// The lost data, one sentence each.
    pub lost: Vec<String>,
    /// Number of pairs in the tables.
    pub pairs: u64,
    /// Maximum number of entries in memory at once.
    pub entries_held_max: u64,
}

impl Salvage {
    /// Creates a repair that writes into `rebuilt`, with file numbers from `first_number`. `id` is
    /// random.
    pub fn new(
        fs: &Arc<dyn Fs>,
        rebuilt: &Path,
        options: &Options,
        config: ReadConfig,
        first_number: u64,
        id: u64,
    ) -> Salvage {
        let order = options.key_order.clone();
        Salvage {
            tree: 0,
            others: Vec::new(),
            keyspaces: Keyspaces::Found(BTreeSet::new()),
            context: SalvageContext::new(fs.clone(), order.clone(), config, parent_of(rebuilt)),
            rebuilt: rebuilt.to_path_buf(),
            options: options.clone(),
            memtable: Arc::new(Memtable::new(options.memtable_kind, order)),
            memtable_bytes: sizes_here(options).memtable_bytes as usize,
            parts: Vec::new(),
            deletes: RangeDeletesBuilder::default(),
            numbers: Arc::new(AtomicU64::new(first_number)),
            id,
            pairs: 0,
        }
    }

    /// Adds the next tree. `options` has its storage options and the order of its stored keys.
    pub fn add_tree(&mut self, options: &Options, config: ReadConfig, keyspaces: Keyspaces) {
        let tree = self.others.len() as TreeId + 1;
        let id = checksum(&tree.to_le_bytes(), self.id);
        let (fs, rebuilt) = (&self.context.fs, &self.rebuilt);
        let mut other = Salvage::new(fs, rebuilt, options, config, 0, id);
        other.numbers = self.numbers.clone();
        self.others.push(Salvage { tree, keyspaces, ..other });
    }

    /// Returns the repair of a tree.
    pub fn of(&mut self, tree: TreeId) -> Option<&mut Salvage> {
        if tree == 0 { Some(self) } else { self.others.get_mut(tree as usize - 1) }
    }

    /// Limits the memory of all memtables together to one memtable.
    pub fn divide_memory(&mut self) {
        let share = self.memtable_bytes / (1 + self.others.len());
        self.memtable_bytes = share;
        self.others.iter_mut().for_each(|other| other.memtable_bytes = share);
    }

    /// Returns the configuration for reading tables of the tree.
    pub fn config(&self) -> &ReadConfig {
        &self.context.config
    }

    /// Returns the sizes and the policy of the tree.
    pub fn limits(&self) -> TreeLimits {
        let bytes = sizes_here(&self.options).memtable_bytes;
        TreeLimits::new(&self.options, bytes, self.context.order.clone())
    }

    /// Lists a loss, once.
    pub fn record_loss(&mut self, what: String) {
        self.context.record_loss(what);
    }

    /// Adds a part, without its range tombstones.
    pub fn add_part(&mut self, part: SalvagePart) {
        self.parts.push(Arc::new(part));
    }

    /// Adds the range tombstones of a part whose visible keys are `[lo, hi)`.
    pub fn add_deletes(&mut self, set: &RangeDeletes, lo: Option<&[u8]>, hi: Option<&[u8]>) {
        for delete in set.iter().filter_map(|delete| delete.clamp(&self.context.order, lo, hi)) {
            self.deletes.push(delete);
        }
    }

    /// Adds every record of a log with a valid checksum, and lists the rest as lost. Returns the
    /// number of the log that continues this one, if this log names one.
    pub fn add_log(
        &mut self,
        path: &Path,
        number: u64,
        age: u64,
        chain: &mut LogChain,
    ) -> Result<Option<u64>> {
        let mut reader = match LogReader::open(&*self.context.fs, path, number) {
            Ok(reader) => reader,
            Err(error) => {
                self.record_loss(error.to_string());
                chain.note_reported_loss();
                return Ok(None);
            }
        };
        if let Some(what) = chain.begin(&reader) {
            self.record_loss(Error::corruption(path, 0, what).to_string());
        }
        let next = self.add_records(&mut reader, path, age, chain)?;
        if let Some(what) = chain.end(&reader, number) {
            self.record_loss(Error::corruption(path, reader.at_bytes(), what).to_string());
        }
        Ok(next)
    }

    fn add_records(
        &mut self,
        reader: &mut LogReader,
        path: &Path,
        age: u64,
        chain: &mut LogChain,
    ) -> Result<Option<u64>> {
        loop {
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    if let Some(LogEnd::Torn { offset_bytes, .. }) = reader.end() {
                        let what = "expected a whole record, found only its start";
                        self.record_loss(Error::corruption(path, offset_bytes, what).to_string());
                        chain.note_reported_loss();
                    }
                    if let Some(LogEnd::Continued { number }) = reader.end() {
                        return Ok(Some(number));
                    }
                    if !reader.skip_bad()? {
                        return Ok(None);
                    }
                    continue;
                }
                Err(error) => {
                    let goes_on = error.is_corruption();
                    self.record_loss(error.to_string());
                    chain.note_reported_loss();
                    if !goes_on || !reader.skip_bad()? {
                        return Ok(None);
                    }
                    continue;
                }
            };
            if let Some(what) = chain.record(record.ordinal) {
                self.record_loss(Error::corruption(path, record.offset_bytes, what).to_string());
            }
            if Ops::new(record.payload).any(|op| op.is_none()) {
                let what = "expected operations in a log record, found other bytes";
                self.record_loss(Error::corruption(path, record.offset_bytes, what).to_string());
                continue;
            }
            for (seqno, op) in (record.first_seqno..).zip(Ops::new(record.payload).flatten()) {
                let Some(salvage) = self.of(op.tree) else {
                    let what = format!(
                        "this record has entries of tree {}, and neither the manifest nor a table \
                         says what their key order is",
                        op.tree
                    );
                    self.record_loss(
                        Error::corruption(path, record.offset_bytes, what).to_string(),
                    );
                    continue;
                };
                if op.kind == Kind::RangeDelete {
                    salvage.deletes.push(RangeDeleteRef { start: op.key, end: op.value, seqno });
                } else {
                    salvage.sort(op.key, seqno, op.kind, op.value, age)?;
                }
            }
        }
    }

    /// Adds an entry to the memtable, and writes the memtable to a table when it is full.
    fn sort(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8], age: u64) -> Result<()> {
        self.memtable.add(seqno, kind, key, value);
        self.context.held.more(1);
        if self.memtable.memory_bytes() >= self.memtable_bytes {
            self.spill(age)?;
        }
        Ok(())
    }

    /// Writes the memtable as parts of this age.
    pub fn spill(&mut self, age: u64) -> Result<()> {
        for other in &mut self.others {
            other.spill(age)?;
        }
        let (config, order) = (self.output(0), &self.context.order);
        let counters = RewriteCounters::default();
        let files = flush::write_tables(&self.memtable, order, keep_all(&counters), config)?;
        self.context.held.less(self.memtable.len());
        self.memtable =
            Arc::new(Memtable::new(self.options.memtable_kind, self.context.order.clone()));
        self.parts.extend(files.into_iter().map(|f| SalvagePart::own(&self.rebuilt, f, age)));
        Ok(())
    }

    /// Returns the size of everything added, in bytes, at most.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.shown.est_bytes()).sum()
    }

    /// Takes the repairs of the other trees.
    pub fn take_others(&mut self) -> Vec<Salvage> {
        std::mem::take(&mut self.others)
    }

    /// Merges everything of this tree into one run of tables for `level`.
    pub fn merge_all(mut self, level: usize) -> Result<Made> {
        let deletes = Arc::new(std::mem::take(&mut self.deletes).build(&self.context.order));
        let files = loop {
            match self.try_merge_all(level, &deletes) {
                Ok(files) => break files,
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Disorder(part)) => self.sort_part(&part)?,
            }
        };
        Ok(Made {
            tree: self.tree,
            keyspaces: match self.keyspaces {
                Keyspaces::Found(found) => found,
                Keyspaces::Known(_) => BTreeSet::new(),
            },
            files,
            next_number: self.numbers.load(Ordering::Relaxed),
            pairs: self.pairs,
            entries_held_max: self.context.held.max,
            lost: self.context.into_losses(),
        })
    }

    fn try_merge_all(
        &mut self,
        level: usize,
        deletes: &Arc<RangeDeletes>,
    ) -> Scanned<Vec<NewFile>> {
        while chains(&self.context.order, &self.parts).len() > WIDTH_MAX {
            self.parts.sort_by_key(|part| std::cmp::Reverse(part.age));
            for window in windows(&self.context.order, &self.parts, WIDTH_MAX) {
                let age = window[0].age;
                let files = self.merge(&window, 0, false, deletes)?;
                let made =
                    files.into_iter().map(|f| SalvagePart::own(&self.rebuilt, f, age)).collect();
                self.replace(&window, made);
            }
        }
        let all = self.parts.clone();
        let files = self.merge(&all, level, true, deletes)?;
        self.replace(&all, Vec::new());
        Ok(files)
    }

    /// Replaces `parts` by `made`, and removes the replaced tables that the repair itself wrote.
    fn replace(&mut self, parts: &[Arc<SalvagePart>], made: Vec<Arc<SalvagePart>>) {
        let gone: HashSet<*const SalvagePart> = parts.iter().map(Arc::as_ptr).collect();
        self.parts.retain(|part| !gone.contains(&Arc::as_ptr(part)));
        self.parts.extend(made);
        for part in parts.iter().filter(|part| part.is_own) {
            // The next opening removes a table that stays behind.
            let _ = self.context.fs.remove(&part.path);
        }
    }

    /// Merges parts into one run of tables. The last merge keeps only pairs.
    fn merge(
        &mut self,
        parts: &[Arc<SalvagePart>],
        level: usize,
        is_last: bool,
        deletes: &Arc<RangeDeletes>,
    ) -> Scanned<Vec<NewFile>> {
        let mut all: Vec<Chain> =
            chains(&self.context.order, parts).into_iter().map(Chain::new).collect();
        let mut output = Output::new(self.output(level), Vec::new(), Vec::new());
        let counters = RewriteCounters::default();
        let (order, rules) = (self.context.order.clone(), keep_all(&counters));
        let rewrite = Rewrite::new(order, rules, deletes.clone());
        let mut sink = RepairSink { output: &mut output, is_last, pairs: 0, key: Vec::new() };
        let kept = self.write_kept(&mut all, rewrite, &mut sink);
        self.pairs = sink.pairs;
        all.iter().for_each(|chain| self.context.held.less(chain.held()));
        match kept {
            Ok(()) => Ok(output.finish()?),
            Err(stop) => {
                output.abandon();
                Err(stop)
            }
        }
    }

    fn write_kept(
        &mut self,
        all: &mut [Chain],
        mut rewrite: Rewrite<'_>,
        sink: &mut RepairSink<'_>,
    ) -> Scanned<()> {
        // Sorted merge list: the chains with a current entry, in the order of their entries.
        let mut by_entry: Vec<usize> = Vec::with_capacity(all.len());
        for (at, chain) in all.iter_mut().enumerate() {
            if chain.move_next(&mut self.context)? {
                by_entry.push(at);
            }
        }
        let order = self.context.order.clone();
        by_entry.sort_by(|a, b| all[*a].compare(&order, &all[*b]));
        while let Some(&first) = by_entry.first() {
            let chain = &all[first];
            let (key, (seqno, kind)) = (chain.key(), chain.version());
            if self.keyspaces.keep(self.tree, key) {
                let (stored, bottom) = (chain.value(), sink.is_last);
                match self.context.values.read(key, kind, stored) {
                    Ok(separated) => {
                        let kind = if separated.is_some() { Kind::Put } else { kind };
                        let value = separated.as_deref().unwrap_or(stored);
                        rewrite.add(InputEntry { key, seqno, kind, value, bottom }, sink)?;
                    }
                    Err(error) => self.record_loss(format!("the value of an entry: {error}")),
                }
            }
            by_entry.remove(0);
            if all[first].move_next(&mut self.context)? {
                let moved = &all[first];
                let to = by_entry.partition_point(|at| all[*at].compare(&order, moved).is_lt());
                by_entry.insert(to, first);
            }
        }
        Ok(rewrite.finish(sink)?)
    }

    /// Replaces a part with unsorted entries by parts of the same entries, sorted.
    fn sort_part(&mut self, part: &Arc<SalvagePart>) -> Result<()> {
        let kept = self.parts.len();
        match part.open(&self.context.fs, &self.context.config) {
            Ok(table) => {
                for block in 0..table.block_count() {
                    self.sort_block(part, &table, block)?;
                }
                self.spill(part.age)?;
            }
            Err(error) => self.record_loss(format!("all entries of a table: {error}")),
        }
        let made = self.parts.split_off(kept);
        self.replace(std::slice::from_ref(part), made);
        Ok(())
    }

    fn sort_block(
        &mut self,
        part: &SalvagePart,
        table: &crate::table::Table,
        block: usize,
    ) -> Result<()> {
        let mut sorted = Ok(());
        let order = self.context.order.clone();
        let read = table.visit_block(block, &mut |key, seqno, kind, value| {
            if sorted.is_err() || !part.shows(&order, key) {
                return;
            }
            match self.context.values.read(key, kind, value) {
                Ok(None) => sorted = self.sort(key, seqno, kind, value, part.age),
                Ok(Some(value)) => sorted = self.sort(key, seqno, Kind::Put, &value, part.age),
                Err(error) => self.record_loss(format!("the value of an entry: {error}")),
            }
        });
        sorted?;
        if let Err(error) = read {
            self.record_loss(format!("all entries of a block: {error}"));
        }
        Ok(())
    }

    /// Returns the configuration for writing tables of `level`.
    fn output(&mut self, level: usize) -> OutputConfig {
        let numbers = self.numbers.clone();
        let seed = self.id;
        let mut next_id = self.numbers.load(Ordering::Relaxed);
        OutputConfig {
            fs: self.context.fs.clone(),
            dir: self.rebuilt.clone(),
            table: table_options(&self.options, self.tree, level),
            read: self.context.config.clone(),
            file_size_max_bytes: self.options.file_size_max_bytes,
            verify: self.options.verify_tables,
            next_number: Box::new(move || numbers.fetch_add(1, Ordering::Relaxed)),
            next_table_id: Box::new(move || {
                next_id += 1;
                checksum(&next_id.to_le_bytes(), seed) | 1
            }),
            opened: None,
            pace: None,
            over_others: false,
            // The compactions of the new store separate values again.
            values: ValueConfig::default(),
        }
    }
}
