//! The store's own account of itself, and the changes that need no disk: options, shutting down.

use crate::base::sync::atomic::Ordering;
use std::cmp::Ordering as KeyOrdering;
use std::sync::Arc;

use super::state::Inner;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::memory;
use crate::metrics::{LevelMetrics, MemoryMetrics, Metrics, TableEntry};
use crate::options::Options;
use crate::options::validate::Sizes;
use crate::tree::edit::VersionEdit;
use crate::tree::fragment::Fragment;
use crate::tree::version::Version;

/// A memtable this long is flushed when the store is closed: it takes some 10 ms to read again, and
/// one of the usual size half a second.
const FLUSHED_AT_CLOSE_BYTES_MIN: usize = 4 << 20;

/// The sizes `options` come to for this process. To be asked once at an opening: how much memory and
/// how many processors it may have takes reading several files.
pub(crate) fn sizes_here(options: &Options) -> Sizes {
    let memory_bytes = memory::available_bytes();
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    options.sizes(memory_bytes, cores)
}

impl Inner {
    /// Takes over changed options.
    pub fn adopt(&self, next: Options) {
        let sizes = sizes_here(&next);
        self.cache.set_policy(next.cache_policy);
        self.pool.set_capacity(sizes.memtable_bytes as usize);
        self.write_knobs.adopt(&next, &sizes);
        self.options.store(Arc::new(next));
        self.sizes.store(Arc::new(sizes));
        self.fit_cache();
        self.refresh_debt();
        // With the lock held, so that no thread is between its last look and its wait.
        let _queue = self.queue.lock();
        self.work.notify_all();
    }

    /// The parts of the report that are a level's own, from level 0 to the deepest that holds anything.
    fn level_metrics(&self, version: &Version) -> Vec<LevelMetrics> {
        let deepest = version.deepest_nonempty().unwrap_or(0);
        let mut levels = Vec::new();
        for (number, level) in version.levels.iter().enumerate().take(deepest + 1) {
            let count = &self.counters.levels[number];
            let fragments = || level.guards.iter().flat_map(|g| &g.runs).flat_map(|r| &r.fragments);
            let mut files: Vec<u64> = fragments().map(|f| f.file.number).collect();
            files.sort_unstable();
            files.dedup();
            levels.push(LevelMetrics {
                level: number,
                guards: level.guards.len() as u64,
                runs_max: level.guards.iter().map(|g| g.runs.len()).max().unwrap_or(0) as u64,
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

    /// The report behind [`crate::Db::metrics`].
    pub fn metrics(&self) -> Metrics {
        let view = self.view.load();
        let version = &view.version;
        let counters = &self.counters;
        let cache = self.cache.stats();
        let files = version.files();
        Metrics {
            levels: self.level_metrics(version),
            memory: MemoryMetrics {
                active_memtable_bytes: view.active.memory_bytes() as u64,
                frozen_memtables_bytes: view.frozen.iter().map(|m| m.memory_bytes() as u64).sum(),
                pooled_bytes: self.pool.free_bytes() as u64,
                cache_bytes: self.cache.used_bytes(),
                cache_spare_bytes: self.cache.spare_bytes(),
                cache_lent_bytes: self.cache.lent_bytes(),
                cache_capacity_bytes: self.cache.capacity_bytes(),
                tables_bytes: self.tables.memory_bytes(version),
                budget_bytes: self.sizes.load().memory_budget_bytes,
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
            compactions: counters.compactions.get(),
            compaction_bytes: counters.compaction_bytes.get(),
            compaction_read_bytes: counters.compaction_read_bytes.get(),
            debt_bytes: self.debt_bytes.load(Ordering::Relaxed),
            slowed_us: counters.slowed_us.get(),
            rested_us: counters.rested_us.get(),
            stalled_us: counters.stalled_us.get(),
            snapshots: self.snapshots.count() as u64,
            frozen_memtables: view.frozen.len() as u64,
            last_seqno: self.visible_seqno(),
            table_bytes: files.iter().map(|f| f.info.size_bytes).sum(),
            table_files: files.len() as u64,
            hints: self.hints.load().len() as u64,
            hint_jumps: self.hints.load().jumps.get(),
            scrub_bytes: counters.scrub_bytes.get(),
            scrub_rounds: counters.scrub_rounds.get(),
            scrub_problems: counters.scrub_problems.get(),
            scrub_problem: self.scrub_problem.lock().as_ref().map(ToString::to_string),
        }
    }

    /// The list behind [`crate::Db::tables`].
    pub fn table_entries(&self) -> Vec<TableEntry> {
        let view = self.view.load();
        let mut entries: Vec<TableEntry> = Vec::new();
        for (level, slices) in view.version.levels.iter().enumerate() {
            let runs = slices.guards.iter().flat_map(|guard| &guard.runs);
            for file in runs.flat_map(|run| &run.fragments).map(|fragment| &fragment.file) {
                entries.push(TableEntry {
                    level,
                    number: file.number,
                    size_bytes: file.info.size_bytes,
                    smallest: file.info.smallest.clone(),
                    largest: file.info.largest.clone(),
                });
            }
        }
        entries.sort_by_key(|entry| (entry.level, entry.number));
        entries.dedup_by_key(|entry| (entry.level, entry.number));
        entries
    }

    /// Roughly how many table bytes hold the keys in `[start, end)`.
    pub fn approximate_size(&self, start: &[u8], end: &[u8]) -> Result<u64> {
        self.check_open()?;
        if self.order.compare(start, end) != KeyOrdering::Less {
            return Ok(0);
        }
        let view = self.view.load();
        let mut bytes = 0;
        for level in &view.version.levels {
            for guard in level.guards.iter() {
                for fragment in guard.runs.iter().flat_map(|r| &r.fragments) {
                    bytes += self.slice_size(fragment, start, end)?;
                }
            }
        }
        Ok(bytes)
    }

    fn slice_size(&self, fragment: &Fragment, start: &[u8], end: &[u8]) -> Result<u64> {
        let less = |a: &[u8], b: &[u8]| self.order.compare(a, b) == KeyOrdering::Less;
        let from = fragment.lo.as_deref().filter(|lo| less(start, lo)).unwrap_or(start);
        let to = fragment.hi.as_deref().filter(|hi| less(hi, end)).unwrap_or(end);
        let info = &fragment.file.info;
        if !less(from, to) || less(&info.largest, from) || !less(&info.smallest, to) {
            return Ok(0);
        }
        let table = self.tables.get(&fragment.file)?;
        Ok(table.approximate_offset(to).saturating_sub(table.approximate_offset(from)))
    }

    /// Flushes operations that no log holds (`Durability::None`), so that a close keeps them, and a
    /// long memtable, so that the next opening need not read its log again. What a log holds is safe
    /// there, so a failure of the latter is none of the close.
    pub fn save_memtable(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        let mut must;
        let last = {
            let mut core = self.committer.lock();
            // With the core held: until then any thread may freeze what no log holds.
            must = !self.queue.lock().frozen.is_empty();
            let long = core.memtable.held_bytes() >= FLUSHED_AT_CLOSE_BYTES_MIN;
            if (core.unlogged || long) && core.poisoned.is_none() {
                let unlogged = core.unlogged;
                must |= unlogged;
                let frozen = self.freeze(&mut core);
                if unlogged {
                    frozen?;
                }
            }
            self.last_frozen()
        };
        let flushed = self.wait_flushed(last.as_ref());
        if must { flushed } else { Ok(()) }
    }

    /// Tells the threads to end and refuses further calls.
    pub fn stop(&self) {
        self.threads.stop();
        self.closed.store(true, Ordering::Release);
        self.queue.lock().stop = true;
        self.work.notify_all();
        self.idle.notify_all();
        if let Some(purger) = &self.purger {
            purger.end();
        }
        self.pool.end();
    }

    /// Closes a file that was removed, where that keeps nobody.
    pub fn close_later(&self, file: impl Send + 'static) {
        if let Some(purger) = &self.purger {
            purger.close(Box::new(file));
        }
    }

    /// An error when the store's directory was removed.
    fn check_there(&self) -> Result<()> {
        match self.fs.exists(&self.dir) {
            _ if self.read_only => Ok(()),
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::new(ErrorKind::Io, "the directory is gone").at(&self.dir)),
            Err(error) => Err(Error::io(&self.dir, "look at the directory", error)),
        }
    }

    /// Syncs the log, notes its length in the manifest, ends it with its mark and lets the lock go.
    /// The mark says that all files are durable, so after a failure of either there is none.
    pub fn finish(&self) -> Result<()> {
        let mut core = self.committer.lock();
        let sound = match &core.poisoned {
            Some(error) => Err(error.clone()),
            None => self.versions.lock().check_sound(),
        };
        let synced = sound.and_then(|()| core.sync_logs(self));
        let log = core.log.take();
        // The mark alone would go unnoticed with the records before it.
        let noted = match log.as_ref().filter(|log| log.has_records()) {
            Some(log) if synced.is_ok() => {
                let closed_wal = Some((log.number(), log.len_bytes()));
                let edit = VersionEdit { closed_wal, ..VersionEdit::default() };
                self.versions.lock().apply(edit).map(drop)
            }
            _ => synced,
        };
        core.unsynced_logs.clear();
        drop(core);
        self.remove_next_log();
        let closed = noted.and_then(|()| log.map_or(Ok(()), |log| log.close()));
        // What was written to a log that has no name any more will not be found again.
        let closed = closed.and_then(|()| self.check_there());
        self.lock.lock().take();
        closed.map_err(|e: Error| e.at(&self.dir))
    }
}
