//! What a victim says about itself in a file that outlives it: numbers in fixed places.
//!
//! What stays true: each number has one writer at a time; what was written before a death by
//! SIGKILL is there after it, because the file is not the victim's to lose.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plan::WRITERS_MAX;

/// A number's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// What the victim is at: one of [`Phase`].
    Phase,
    /// What its chores are at: one of [`Chore`].
    Chore,
    /// The file operation at which it killed itself, plus one.
    DeathOp,
    /// The kind of file that was for: one of [`FileKind`].
    DeathFile,
    /// Operations done: batches, reads and chores.
    Operations,
    /// Faults that were met.
    Faults,
    /// How often the store was opened.
    Opened,
    /// How many checkpoints were begun.
    CopyBegun,
    /// How many checkpoints were done.
    CopyDone,
    /// How many backups were begun.
    BackupBegun,
    /// How many backups were done.
    BackupDone,
    /// The newest batch of a writer that was handed to the store.
    Tried(usize),
    /// The newest that was acknowledged.
    Acknowledged(usize),
    /// The newest that survives a power cut.
    Durable(usize),
    /// What a writer had acknowledged when the newest checkpoint was begun.
    CopyFrom(usize),
    /// What a writer had acknowledged when the newest backup was begun.
    BackupFrom(usize),
}

const SINGLE: usize = 16;
const PER_WRITER: usize = 8;
const SLOTS: usize = SINGLE + WRITERS_MAX * PER_WRITER;

impl Slot {
    fn index(self) -> usize {
        let of = |writer: usize, field: usize| SINGLE + writer * PER_WRITER + field;
        match self {
            Slot::Phase => 0,
            Slot::Chore => 1,
            Slot::DeathOp => 2,
            Slot::DeathFile => 3,
            Slot::Operations => 4,
            Slot::Faults => 5,
            Slot::Opened => 6,
            Slot::CopyBegun => 7,
            Slot::CopyDone => 8,
            Slot::BackupBegun => 9,
            Slot::BackupDone => 10,
            Slot::Tried(writer) => of(writer, 0),
            Slot::Acknowledged(writer) => of(writer, 1),
            Slot::Durable(writer) => of(writer, 2),
            Slot::CopyFrom(writer) => of(writer, 3),
            Slot::BackupFrom(writer) => of(writer, 4),
        }
    }
}

/// What a victim is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It has just begun.
    Starting,
    /// It opens the store: creation or recovery.
    Opening,
    /// Its threads work.
    Serving,
    /// It closes the store.
    Closing,
}

/// What a victim's chores are at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chore {
    /// Waiting.
    None,
    /// `Db::flush`.
    Flush,
    /// `Db::compact_range`, or pieces of background work.
    Compact,
    /// `Db::checkpoint`.
    Checkpoint,
    /// `Db::backup`.
    Backup,
    /// `Db::set_option`.
    Option,
    /// `Db::verify`.
    Verify,
    /// `Db::sync`.
    Sync,
}

/// Kinds of files of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A log.
    Log,
    /// A table.
    Table,
    /// A manifest.
    Manifest,
    /// `CURRENT`.
    Current,
    /// A directory, `LOCK`, a backup's own files.
    Other,
}

impl FileKind {
    /// Every kind, in order.
    pub const ALL: [FileKind; 5] =
        [FileKind::Log, FileKind::Table, FileKind::Manifest, FileKind::Current, FileKind::Other];

    /// Of a file's name.
    pub fn of(path: &Path) -> FileKind {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match () {
            () if name.ends_with(".wal") => FileKind::Log,
            () if name.ends_with(".sst") => FileKind::Table,
            () if name.starts_with("manifest-") => FileKind::Manifest,
            () if name.starts_with("CURRENT") => FileKind::Current,
            () => FileKind::Other,
        }
    }
}

/// The file.
pub struct Slots {
    file: File,
    operations: AtomicU64,
}

impl Slots {
    /// Opens the file, or makes one of zeros.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(path: &Path) -> io::Result<Slots> {
        let mut how = File::options();
        let file = how.read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len((SLOTS * 8) as u64)?;
        let slots = Slots { file, operations: AtomicU64::new(0) };
        slots.operations.store(slots.get(Slot::Operations), Ordering::Relaxed);
        Ok(slots)
    }

    /// Sets every number to zero.
    pub fn clear(&self) {
        self.file.write_all_at(&[0; SLOTS * 8], 0).expect("write the slots");
        self.operations.store(0, Ordering::Relaxed);
    }

    /// Sets a number.
    pub fn set(&self, slot: Slot, number: u64) {
        let at = (slot.index() * 8) as u64;
        self.file.write_all_at(&number.to_le_bytes(), at).expect("write a slot");
    }

    /// A number.
    pub fn get(&self, slot: Slot) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, (slot.index() * 8) as u64).expect("read a slot");
        u64::from_le_bytes(bytes)
    }

    /// One more; for numbers that one thread counts.
    pub fn bump(&self, slot: Slot) {
        self.set(slot, self.get(slot) + 1);
    }

    /// Counts operations, from any thread.
    pub fn count(&self, more: u64) {
        let all = self.operations.fetch_add(more, Ordering::Relaxed) + more;
        if all.is_multiple_of(64) || more > 1 {
            self.set(Slot::Operations, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let dir = std::env::temp_dir().join(format!("esker-slots-{}", std::process::id()));
        let slots = Slots::open(&dir).unwrap();
        slots.clear();
        let per_writer = |w| {
            [
                Slot::Tried(w),
                Slot::Acknowledged(w),
                Slot::Durable(w),
                Slot::CopyFrom(w),
                Slot::BackupFrom(w),
            ]
        };
        let single = [
            Slot::Phase,
            Slot::Chore,
            Slot::DeathOp,
            Slot::DeathFile,
            Slot::Operations,
            Slot::Faults,
            Slot::Opened,
            Slot::CopyBegun,
            Slot::CopyDone,
            Slot::BackupBegun,
            Slot::BackupDone,
        ];
        let all: Vec<Slot> =
            single.into_iter().chain((0..WRITERS_MAX).flat_map(per_writer)).collect();
        all.iter().zip(1..).for_each(|(slot, n)| slots.set(*slot, n));
        let again = Slots::open(&dir).unwrap();
        for (slot, n) in all.iter().zip(1..) {
            assert_eq!(again.get(*slot), n, "{slot:?}");
        }
        std::fs::remove_file(&dir).unwrap();
    }

    #[test]
    fn files_are_known_by_their_names() {
        let kind = |name: &str| FileKind::of(Path::new(name));
        let names = ["/d/000001.wal", "000002.sst", "manifest-000001", "CURRENT.new", "LOCK"];
        assert_eq!(names.map(kind), FileKind::ALL);
    }
}
