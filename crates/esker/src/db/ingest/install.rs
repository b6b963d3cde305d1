//! Makes tables in the directory part of the store.
//!
//! The call holds the writer state from the choice of the sequence number until the tables are
//! visible. So the number is above every earlier write and below every later one, and no write can
//! come between them.
//!
//! Invariants:
//! 1. Everything older is in tables when the tables are installed. So reads find what is newer first,
//!    and no damage to a log can take away what came before an ingest that the manifest has.
//! 2. The number is used up even if the installation fails: the manifest may have it.
//! 3. Every earlier write is durable before the manifest names the tables.
//! 4. The change feed has an ingest as soon as the next write could come: `feed/kept_tables.rs`.
//! 5. The tables are in the read state before their number is visible, and they leave the empty-range
//!    hints before that, too.

use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::keyspace::KeyspaceState;
use crate::base::sync::atomic::Ordering;
use crate::base::workers::JobClass;
use crate::compaction::place::{PlacedTable, Places, place};
use crate::db::created_tables::created_tables;
use crate::db::keyspace::dropped;
use crate::db::stall_list::StallCause;
use crate::db::state::DbInner;
use crate::db::tree::Tree;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::table::write_stamp;
use crate::tree::edit::{AddedFile, AddedSlice, VersionEdit};
use crate::tree::names;
use crate::tree::output::NewFile;
use crate::write::writer_state::WriterState;

/// What an installation did.
pub(super) struct Installed {
    pub seqno: SeqNo,
    /// The level of each table.
    pub levels: Vec<usize>,
    pub has_flushed: bool,
}

/// Why an installation failed.
pub(super) struct Refused {
    pub error: Error,
    /// Whether the manifest certainly does not name the tables.
    pub is_unchanged: bool,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused { error, is_unchanged: true }
    }
}

impl DbInner {
    /// Makes `files`, which are in the directory and durable, part of `tree`. They are disjoint and in
    /// key order. `keyspace` is that of the entries, unless it is the default one.
    pub(super) fn install_ingested(
        &self,
        tree: &Arc<Tree>,
        keyspace: Option<&KeyspaceState>,
        files: &[NewFile],
    ) -> std::result::Result<Installed, Refused> {
        self.check_writable()?;
        // Memtables that wait for their flush anyway: no writer needs to wait for that.
        self.wait_flushed(self.newest_frozen().as_ref())?;
        let (installed, seqno) = {
            let mut writer = self.committer.lock();
            self.check_writable()?;
            let has_flushed = self.flush_older(&mut writer)?;
            writer.sync_logs(self)?;
            let seqno = writer.next_seqno;
            for file in files {
                // Synced below: without the stamp the manifest still states the number. Encryption
                // writes more than the stamp again, which a power failure must not tear later.
                let path = self.table_path(file);
                let mut stamped = write_stamp(&*self.fs, &path, &file.info, seqno)?;
                if self.fs.encrypts() {
                    stamped.sync().map_err(|e| Error::io(&path, "sync the stamp", e))?;
                }
            }
            let kept = self.keep_ingested(seqno, tree.id, keyspace, files)?;
            let installed = writer
                .poison_on_panic(|writer| self.install_as(writer, seqno, tree, keyspace, files));
            if let Some(record) = kept {
                match &installed {
                    // A manifest that may have the ingest decides at the next opening.
                    Err(refused) if !refused.is_unchanged => {}
                    Err(_) => self.forget_ingested(seqno),
                    Ok(_) => {
                        let logged = self.log_ingest(&mut writer, &record);
                        logged.map_err(|error| Refused { error, is_unchanged: false })?;
                    }
                }
            }
            (installed.map(|levels| Installed { seqno, levels, has_flushed })?, seqno)
        };
        // With encryption the stamps are durable already.
        let unsynced = if self.fs.encrypts() { &[] } else { files };
        for file in unsynced {
            let path = self.table_path(file);
            let synced = match self.fs.open_write(&path) {
                Ok(mut open) => open.sync().map_err(|e| Error::io(&path, "sync the stamp", e)),
                // A compaction may have replaced the table.
                Err(_) => Ok(()),
            };
            if let Err(error) = synced {
                self.note_error("ingest", &error);
            }
        }
        debug_assert!(self.visible_seqno() >= seqno);
        self.feed.wake();
        self.refresh_debt();
        self.resize_cache();
        self.wake(JobClass::Compact);
        Ok(installed)
    }

    fn table_path(&self, file: &NewFile) -> std::path::PathBuf {
        names::table_path(&self.dir, file.number)
    }

    /// Returns the memtable of tree 0 that was frozen last and waits for its flush.
    fn newest_frozen(&self) -> Option<Arc<Memtable>> {
        self.queue.lock().frozen.back().map(|frozen| frozen.memtables.main.clone())
    }

    /// Flushes the memtables. Returns whether the active one had something.
    fn flush_older(&self, writer: &mut WriterState) -> Result<bool> {
        let is_active = !writer.memtables.is_empty();
        if is_active {
            self.retry_with_space(|| self.freeze(writer))?;
        }
        let Some(last) = self.newest_frozen() else { return Ok(is_active) };
        let text = "an ingest waits for the flush of what was written before";
        let stall = (!self.is_manual_background())
            .then(|| self.begin_stall(StallCause::Flush(text), &mut self.queue.lock()));
        let flushed = self.wait_flushed(Some(&last));
        if let Some(stall) = stall {
            self.end_stall(stall, &mut self.queue.lock());
        }
        flushed.map(|()| is_active)
    }

    /// Installs the tables under `seqno`. Returns their levels.
    fn install_as(
        &self,
        writer: &mut WriterState,
        seqno: SeqNo,
        tree: &Tree,
        keyspace: Option<&KeyspaceState>,
        files: &[NewFile],
    ) -> std::result::Result<Vec<usize>, Refused> {
        let mut versions = self.versions.lock();
        if let Some(state) = keyspace.filter(|state| state.is_dropped()) {
            return Err(dropped(state).into());
        }
        writer.next_seqno = seqno + 1;
        let forest = versions.current();
        let version = forest.trees().get(tree.id as usize);
        let version = version.ok_or_else(|| Error::invalid("the store has no such tree"))?;
        let limits = tree.limits(self.sizes.load().memtable_bytes);
        let tables: Vec<PlacedTable<'_>> = files
            .iter()
            .map(|NewFile { info, .. }| PlacedTable {
                smallest: &info.smallest,
                largest: &info.largest,
                size_bytes: info.size_bytes,
            })
            .collect();
        let places = place(version, &limits, &tables);
        let mut edit = edit_of(seqno, tree, files, &places, versions.allocate_order());
        edit.next_file = Some(self.numbers.load(Ordering::Relaxed));
        let created = created_tables(0, &edit);
        if files.iter().any(|file| file.info.expiring > 0) {
            self.rules.clock.mark_used();
        }
        versions.check_sound()?;
        let forest = versions.apply(edit).map_err(|error| {
            let is_unchanged = versions.check_sound().is_ok();
            if !is_unchanged {
                // The manifest may have the edit. A later write must not become durable beside an
                // ingest of which nobody knows whether it is.
                writer.poisoned.get_or_insert_with(|| error.clone());
            }
            Refused { error, is_unchanged }
        })?;
        self.emit_created(&created);
        self.counters.ingests.add(1);
        self.counters.ingested_bytes.add(files.iter().map(|file| file.info.size_bytes).sum());
        {
            let _queue = self.queue.lock();
            self.replace_read_state(|view| view.with_forest(&forest));
        }
        drop(versions);
        let ranges = files.iter().map(|file| (&file.info.smallest[..], &file.info.largest[..]));
        writer.show_ingest(seqno, tree.id, ranges, self);
        Ok(places.levels)
    }
}

/// Returns the edit that adds `files` under `seqno`, as runs of the age `order`.
fn edit_of(
    seqno: SeqNo,
    tree: &Tree,
    files: &[NewFile],
    places: &Places,
    order: u64,
) -> VersionEdit {
    let mut edit = VersionEdit { ingested_seqno: Some(seqno), ..VersionEdit::default() };
    let own = edit.tree_mut(tree.id);
    own.bounds_added.extend(places.bounds_added.iter().cloned());
    for (file, level) in files.iter().zip(&places.levels) {
        let mut info = file.info.clone();
        info.set_ingested(seqno);
        let file = AddedFile::New { number: file.number, info };
        own.added.push(AddedSlice { level: *level, order, file, lo: None, hi: None });
    }
    edit
}
