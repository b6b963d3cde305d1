//! Metrics of the store.

use crate::base::sync::atomic::Ordering;
use std::cmp::Ordering as KeyOrdering;

use super::published_hints::PublishedHints;
use super::state::DbInner;
use super::tree::Tree;
use crate::error::Result;
use crate::metrics::{LevelMetrics, MemoryMetrics, Metrics, TableEntry};
use crate::read::ReadState;
use crate::tree::fragment::Fragment;

impl DbInner {
    /// Returns the metrics per level of all trees, from level 0 to the deepest nonempty level.
    fn level_metrics(&self, read_state: &ReadState) -> Vec<LevelMetrics> {
        let versions =
            || std::iter::once(read_state).chain(read_state.others().iter().map(|other| &**other));
        let versions = || versions().map(|state| &state.version);
        let deepest = versions().filter_map(|version| version.deepest_nonempty()).max();
        let mut levels = Vec::new();
        for number in 0..=deepest.unwrap_or(0) {
            let count = &self.counters.levels[number];
            let guards = || versions().flat_map(|version| &version.levels[number].guards);
            let fragments = || guards().flat_map(|g| &g.runs).flat_map(|r| &r.fragments);
            let mut files: Vec<u64> = fragments().map(|f| f.file.number).collect();
            files.sort_unstable();
            files.dedup();
            levels.push(LevelMetrics {
                level: number,
                guards: guards().count() as u64,
                runs_max: guards().map(|g| g.runs.len()).max().unwrap_or(0) as u64,
                fragments: fragments().count() as u64,
                files: files.len() as u64,
                bytes: fragments().map(|f| f.est_bytes()).sum(),
                read_bytes: count.read_bytes.get(),
                written_bytes: count.written_bytes.get(),
                compactions: count.compactions.get(),
                moves: count.moves.get(),
                table_gets: count.table_gets.get(),
            });
        }
        levels
    }

    /// Returns the memory that no tree has for itself.
    fn shared_memory_metrics(&self) -> MemoryMetrics {
        MemoryMetrics {
            pooled_bytes: self.pool.free_bytes() as u64,
            cache_bytes: self.cache.used_bytes(),
            cache_spare_bytes: self.cache.spare_bytes(),
            cache_reserved_bytes: self.cache.reserved_bytes(),
            cache_capacity_bytes: self.cache.capacity_bytes(),
            budget_bytes: self.sizes.load().memory_budget_bytes,
            ..MemoryMetrics::default()
        }
    }

    /// Returns the metrics for [`crate::Db::metrics`].
    pub fn metrics(&self) -> Metrics {
        let read_state = self.read_state.load();
        let trees = self.trees();
        let lists = std::iter::once(&self.hints).chain(trees.iter().map(|tree| &tree.hints));
        let (hints, hint_jumps) =
            lists.map(PublishedHints::counts).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let counters = &self.counters;
        let cache = self.cache.stats();
        let files = read_state.files();
        let values = self.value_totals(&files);
        let mut metrics = Metrics {
            levels: self.level_metrics(&read_state),
            memory: MemoryMetrics {
                active_memtable_bytes: read_state.active_bytes(),
                frozen_memtables_bytes: read_state.frozen_bytes(),
                tables_bytes: self.tables.memory_bytes(&files),
                ..self.shared_memory_metrics()
            },
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            cache_evictions: cache.evictions,
            user_bytes: counters.user_bytes.get(),
            user_ops: counters.user_ops.get(),
            log_bytes: counters.log_bytes.get(),
            log_mapped_bytes: counters.log_mapped_bytes.get(),
            log_syncs: counters.log_syncs.get(),
            flushes: counters.flushes.get(),
            flush_bytes: counters.flush_bytes.get(),
            ingests: counters.ingests.get(),
            ingested_bytes: counters.ingested_bytes.get(),
            compactions: counters.compactions.get(),
            compaction_bytes: counters.compaction_bytes.get(),
            compaction_read_bytes: counters.compaction_read_bytes.get(),
            rest_compactions: counters.rest_compactions.get(),
            rest_bytes: counters.rest_bytes.get(),
            operands_merged: counters.rewrites.operands_merged.get(),
            long_chains: counters.rewrites.long_chains.get(),
            expired: counters.rewrites.expired.get(),
            expired_files: counters.rewrites.expired_files.get(),
            filtered: counters.rewrites.filtered.get(),
            callback_problems: counters.rewrites.callback_problems.get(),
            callback_problem: counters.rewrites.last_problem(),
            debt_bytes: self.debt_bytes.load(Ordering::Relaxed),
            live_bytes: self.space_bound.live_bytes(),
            slowed_us: counters.slowed_us.get(),
            yielded_us: counters.yielded_us.get(),
            stalled_us: counters.stalled_us.get(),
            snapshots: self.snapshots.count() as u64,
            frozen_memtables: read_state.frozen.len() as u64,
            format_version: u64::from(self.format().number()),
            last_seqno: self.visible_seqno(),
            table_bytes: files.iter().map(|f| f.info.size_bytes).sum(),
            table_files: files.len() as u64,
            value_bytes: values.bytes,
            value_live_bytes: values.live_bytes,
            value_files: values.files,
            hints,
            hint_jumps,
            scrub_bytes: counters.scrub_bytes.get(),
            scrub_rounds: counters.scrub_rounds.get(),
            scrub_problems: counters.scrub_problems.get(),
            scrub_problem: self.scrub_problem.lock().as_ref().map(ToString::to_string),
            ..Metrics::default()
        };
        self.observers.add_to(&mut metrics);
        metrics
    }

    /// Returns the table list for [`crate::Db::tables`].
    pub fn table_entries(&self) -> Vec<TableEntry> {
        let read_state = self.read_state.load();
        let mut entries: Vec<TableEntry> = Vec::new();
        for tree in self.trees.load().iter() {
            let Some(version) = read_state.version_of(tree.id) else { continue };
            for (level, slices) in version.levels.iter().enumerate() {
                let runs = slices.guards.iter().flat_map(|guard| &guard.runs);
                for file in runs.flat_map(|run| &run.fragments).map(|fragment| &fragment.file) {
                    entries.push(TableEntry {
                        tree: tree.id,
                        level,
                        number: file.number,
                        size_bytes: file.info.size_bytes,
                        entries: file.info.entries,
                        deletes: file.info.deletes,
                        range_deletes: file.info.range_deletes,
                        raw_bytes: file.info.raw_bytes,
                        smallest: file.info.smallest.clone(),
                        largest: file.info.largest.clone(),
                    });
                }
            }
        }
        entries.sort_by_key(|entry| (entry.tree, entry.level, entry.number));
        entries.dedup_by_key(|entry| (entry.tree, entry.level, entry.number));
        entries
    }

    /// Returns the approximate number of table bytes of tree 0.
    pub fn main_tree_bytes(&self) -> Result<u64> {
        self.check_open()?;
        let read_state = self.read_state.load();
        let guards = read_state.version.levels.iter().flat_map(|level| level.guards.iter());
        Ok(guards.flat_map(|guard| &guard.runs).map(|run| run.bytes()).sum())
    }

    /// Returns the approximate number of table bytes that hold the stored keys in `[start, end)`.
    pub fn approximate_size(&self, tree: &Tree, start: &[u8], end: &[u8]) -> Result<u64> {
        self.check_open()?;
        if tree.order.compare(start, end) != KeyOrdering::Less {
            return Ok(0);
        }
        let read_state = self.read_state.load();
        let mut bytes = 0;
        for level in read_state.version_of(tree.id).into_iter().flat_map(|version| &version.levels)
        {
            for guard in level.guards.iter() {
                for fragment in guard.runs.iter().flat_map(|r| &r.fragments) {
                    bytes += slice_size(tree, fragment, start, end)?;
                }
            }
        }
        Ok(bytes)
    }
}

/// Returns the approximate bytes of a slice that hold the keys in `[start, end)`.
fn slice_size(tree: &Tree, fragment: &Fragment, start: &[u8], end: &[u8]) -> Result<u64> {
    let less = |a: &[u8], b: &[u8]| tree.order.compare(a, b) == KeyOrdering::Less;
    let from = fragment.lo.as_deref().filter(|lo| less(start, lo)).unwrap_or(start);
    let to = fragment.hi.as_deref().filter(|hi| less(hi, end)).unwrap_or(end);
    let info = &fragment.file.info;
    if !less(from, to) || less(&info.largest, from) || !less(&info.smallest, to) {
        return Ok(0);
    }
    let table = tree.tables.get(&fragment.file)?;
    Ok(table.approximate_offset(to).saturating_sub(table.approximate_offset(from)))
}
