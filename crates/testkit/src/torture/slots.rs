//! A victim's progress, in a file that outlives the victim: numbers at fixed positions.
//!
//! Invariants: each number has one writer at a time. Data written before a death by SIGKILL is
//! present after it, because the file does not depend on the victim.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plan::WRITERS_MAX;

/// The position of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The victim's current phase: one of [`Phase`].
    Phase,
    /// The victim's current maintenance task: one of [`Task`].
    Task,
    /// The file operation at which the victim killed itself, plus one.
    DeathOp,
    /// The kind of file of that operation: one of [`FileKind`].
    DeathFile,
    /// Number of completed operations: batches, reads and maintenance tasks.
    Operations,
    /// Number of faults met.
    Faults,
    /// Number of openings of the store.
    Opened,
    /// Number of started checkpoints.
    CopyBegun,
    /// Number of completed checkpoints.
    CopyDone,
    /// Number of started backups.
    BackupBegun,
    /// Number of completed backups.
    BackupDone,
    /// The newest batch of a writer passed to the store.
    Tried(usize),
    /// The newest acknowledged batch of a writer.
    Acknowledged(usize),
    /// The newest batch of a writer that survives a power cut.
    Durable(usize),
    /// A writer's newest acknowledged batch at the start of the newest checkpoint.
    CopyFrom(usize),
    /// A writer's newest acknowledged batch at the start of the newest backup.
    BackupFrom(usize),
    /// One more than the newest batch of a writer when a round began, or 0 before the round.
    RoundFrom(usize, u64),
}

/// Maximum number of rounds of a store.
pub const ROUNDS_MAX: u64 = 128;

const SINGLE: usize = 16;
const PER_WRITER: usize = 8;
const ROUNDS: usize = SINGLE + WRITERS_MAX * PER_WRITER;
const SLOTS: usize = ROUNDS + WRITERS_MAX * ROUNDS_MAX as usize;

impl Slot {
    fn index(self) -> usize {
        let of = |writer: usize, field: usize| SINGLE + writer * PER_WRITER + field;
        match self {
            Slot::Phase => 0,
            Slot::Task => 1,
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
            Slot::RoundFrom(writer, round) => {
                ROUNDS + writer * ROUNDS_MAX as usize + (round % ROUNDS_MAX) as usize
            }
        }
    }
}

/// The phase of a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The victim has just started.
    Starting,
    /// The victim opens the store: creation or recovery.
    Opening,
    /// The victim's threads work.
    Serving,
    /// The victim closes the store.
    Closing,
}

/// The maintenance task of a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// None; the thread waits.
    None,
    /// `Db::flush`.
    Flush,
    /// `Db::compact_range`, or background jobs.
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
    /// Creating, filling, renaming and dropping a keyspace.
    Keyspace,
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

    /// Returns the kind of a file, by its name.
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

/// The file of a victim's numbers.
pub struct Slots {
    file: File,
    operations: AtomicU64,
}

impl Slots {
    /// Opens the file, or creates one of zeros.
    ///
    /// # Errors
    /// The file system's error.
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

    /// Returns a number.
    pub fn get(&self, slot: Slot) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, (slot.index() * 8) as u64).expect("read a slot");
        u64::from_le_bytes(bytes)
    }

    /// Adds one to a number that only one thread counts.
    pub fn bump(&self, slot: Slot) {
        self.set(slot, self.get(slot) + 1);
    }

    /// Counts operations. Any thread may call this.
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
    fn every_slot_has_its_own_position() {
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
            Slot::Task,
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
    fn file_kinds_follow_names() {
        let kind = |name: &str| FileKind::of(Path::new(name));
        let names = ["/d/000001.wal", "000002.sst", "manifest-000001", "CURRENT.new", "LOCK"];
        assert_eq!(names.map(kind), FileKind::ALL);
    }
}
