//! Selection of the unsynced changes that survive a crash.
//!
//! The models follow Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014: they cover
//! the cases that POSIX allows, not the behaviour of one file system.
//!
//! Invariants: synced bytes under synced names survive in every model. A rename takes effect
//! completely or not at all. The same seed gives the same result.

use std::sync::Arc;

use super::nodes::{Change, Inode, apply, write};
use crate::rng::SplitMix64;

/// Unit, in bytes, that a device writes completely or not at all.
const SECTOR_BYTES: usize = 512;
/// Unit of the kernel's write-back, in bytes.
const PAGE_BYTES: usize = 4096;

/// The unsynced changes that survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CrashModel {
    /// None survive: only synced bytes under synced names.
    SyncedOnly,
    /// All survive: the process died, but the machine did not.
    Everything,
    /// Of each file and each directory the first few changes, as the seed chooses. The first
    /// missing change of a file may be partly present.
    Prefix {
        /// Chooses the number of changes.
        seed: u64,
    },
    /// Any of the changes, sector by sector and name by name, in any order. A sector of a grown
    /// file that did not reach the device holds zeros.
    Scattered {
        /// Chooses which.
        seed: u64,
    },
    /// All changes of names, but only the synced bytes of files.
    NamesAhead,
    /// All changes of names and lengths. Unsynced bytes are zeros or, with `garbage`, the device's
    /// previous content.
    SizesAhead {
        /// Whether the bytes are random.
        garbage: bool,
        /// Chooses the bytes.
        seed: u64,
    },
    /// Of each file any of its 4 KiB pages and a length between the synced and the last one, as
    /// write-back of a memory mapping leaves it. Of each directory the first few changes.
    Pages {
        /// Chooses which.
        seed: u64,
    },
    /// All changes except one write to one file.
    OneDropped {
        /// Chooses which.
        seed: u64,
    },
    /// All bytes, and any of the changes of names, in any order.
    StrictNames {
        /// Chooses which.
        seed: u64,
    },
}

impl CrashModel {
    /// Returns every model, the seeded ones with `seed`.
    pub fn all(seed: u64) -> [CrashModel; 10] {
        [
            CrashModel::SyncedOnly,
            CrashModel::Everything,
            CrashModel::NamesAhead,
            CrashModel::SizesAhead { garbage: false, seed },
            CrashModel::SizesAhead { garbage: true, seed },
            CrashModel::Prefix { seed },
            CrashModel::Scattered { seed },
            CrashModel::Pages { seed },
            CrashModel::OneDropped { seed },
            CrashModel::StrictNames { seed },
        ]
    }

    /// Returns the model's name, without the seed.
    pub fn name(&self) -> &'static str {
        match self {
            CrashModel::SyncedOnly => "synced only",
            CrashModel::Everything => "process killed",
            CrashModel::Prefix { .. } => "first changes of each file",
            CrashModel::Scattered { .. } => "any 512-byte sectors, any names",
            CrashModel::NamesAhead => "names ahead of data",
            CrashModel::SizesAhead { garbage: false, .. } => "sizes ahead, zeros",
            CrashModel::SizesAhead { garbage: true, .. } => "sizes ahead, garbage",
            CrashModel::Pages { .. } => "any 4 KiB pages",
            CrashModel::OneDropped { .. } => "one write dropped",
            CrashModel::StrictNames { .. } => "any names, all data",
        }
    }

    /// Returns whether the model keeps a prefix of each directory's changes.
    pub(super) fn keeps_the_first_names(self) -> bool {
        matches!(self, CrashModel::Prefix { .. } | CrashModel::Pages { .. })
    }

    pub(super) fn seed(self) -> u64 {
        match self {
            CrashModel::SyncedOnly | CrashModel::Everything | CrashModel::NamesAhead => 0,
            CrashModel::Prefix { seed }
            | CrashModel::Scattered { seed }
            | CrashModel::SizesAhead { seed, .. }
            | CrashModel::Pages { seed }
            | CrashModel::OneDropped { seed }
            | CrashModel::StrictNames { seed } => seed,
        }
    }
}

/// Returns the contents of every file after a crash.
pub(super) fn contents(
    inodes: &[Inode],
    model: CrashModel,
    rng: &mut SplitMix64,
) -> Vec<Arc<Vec<u8>>> {
    let dropped = match model {
        CrashModel::OneDropped { .. } => {
            let writes: usize = inodes.iter().map(|i| i.changes.len()).sum();
            Some(rng.below(writes as u64) as usize)
        }
        _ => None,
    };
    let mut before = 0;
    let fate = |inode: &Inode| {
        let first = before;
        before += inode.changes.len();
        if inode.changes.is_empty() {
            return inode.synced.clone();
        }
        match model {
            CrashModel::SyncedOnly | CrashModel::NamesAhead => inode.synced.clone(),
            CrashModel::Everything | CrashModel::StrictNames { .. } => all(inode),
            CrashModel::Prefix { .. } => Arc::new(prefix(inode, rng)),
            CrashModel::Scattered { .. } => Arc::new(scattered(inode, rng)),
            CrashModel::SizesAhead { garbage, .. } => Arc::new(sizes(inode, garbage, rng)),
            CrashModel::Pages { .. } => Arc::new(pages(inode, rng)),
            CrashModel::OneDropped { .. } => {
                let mine = dropped.and_then(|d| d.checked_sub(first));
                match mine.filter(|d| *d < inode.changes.len()) {
                    Some(index) => Arc::new(without(inode, index)),
                    None => all(inode),
                }
            }
        }
    };
    inodes.iter().map(fate).collect()
}

/// Returns all data that can reach the device, without changes dropped by a failed sync.
fn all(inode: &Inode) -> Arc<Vec<u8>> {
    if !inode.dropped {
        return inode.now.clone();
    }
    let mut bytes = inode.synced.to_vec();
    inode.changes.iter().for_each(|change| apply(&mut bytes, change));
    Arc::new(bytes)
}

fn prefix(inode: &Inode, rng: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = inode.synced.to_vec();
    let whole = rng.below(inode.changes.len() as u64 + 1) as usize;
    for change in &inode.changes[..whole] {
        apply(&mut bytes, change);
    }
    if let Some(Change::Write { offset, bytes: new }) = inode.changes.get(whole) {
        let part = rng.below(new.len() as u64 + 1) as usize;
        if part > 0 {
            write(&mut bytes, *offset, &new[..part]);
        }
    }
    bytes
}

fn scattered(inode: &Inode, rng: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = inode.synced.to_vec();
    for change in &inode.changes {
        let Change::Write { offset, bytes: new } = change else {
            if rng.chance(2) {
                apply(&mut bytes, change);
            }
            continue;
        };
        let end = offset + new.len();
        let mut at = *offset;
        while at < end {
            let next = end.min((at / SECTOR_BYTES + 1) * SECTOR_BYTES);
            match rng.below(4) {
                0 => {}
                // The file grew, but the data did not arrive.
                1 if bytes.len() < next => bytes.resize(next, 0),
                _ => write(&mut bytes, at, &new[at - offset..next - offset]),
            }
            at = next;
        }
    }
    bytes
}

/// Applies all lengths without data. A range that was lengthened but not written holds zeros on any
/// device, because no space was allocated for it.
fn sizes(inode: &Inode, garbage: bool, rng: &mut SplitMix64) -> Vec<u8> {
    let (mut bytes, len) = (inode.synced.to_vec(), all(inode).len());
    let old = bytes.len();
    bytes.resize(len, 0);
    if !garbage {
        return bytes;
    }
    for change in &inode.changes {
        if let Change::Write { offset, bytes: new } = change {
            let (start, end) = ((*offset).max(old), (offset + new.len()).min(len));
            if start < end {
                rng.fill(&mut bytes[start..end]);
            }
        }
    }
    bytes
}

fn pages(inode: &Inode, rng: &mut SplitMix64) -> Vec<u8> {
    let (old, new) = (&inode.synced, all(inode));
    let (least, most) = (old.len().min(new.len()), old.len().max(new.len()));
    let len = match rng.below(4) {
        0 => old.len(),
        1 => least + rng.below((most - least) as u64 + 1) as usize,
        _ => new.len(),
    };
    let mut bytes = vec![0; len];
    for start in (0..len).step_by(PAGE_BYTES) {
        let from: &[u8] = if rng.chance(2) { &new } else { old };
        let end = (start + PAGE_BYTES).min(len).min(from.len());
        if start < end {
            bytes[start..end].copy_from_slice(&from[start..end]);
        }
    }
    bytes
}

fn without(inode: &Inode, index: usize) -> Vec<u8> {
    let mut bytes = inode.synced.to_vec();
    for (at, change) in inode.changes.iter().enumerate() {
        match change {
            // The file grew nevertheless.
            Change::Write { offset, bytes: new } if at == index => {
                let end = offset + new.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
            }
            _ => apply(&mut bytes, change),
        }
    }
    bytes
}

/// Returns which of a directory's `changes` reach the device.
pub(super) fn names_kept(changes: usize, model: CrashModel, rng: &mut SplitMix64) -> Vec<bool> {
    match model {
        CrashModel::SyncedOnly => vec![false; changes],
        CrashModel::Everything
        | CrashModel::NamesAhead
        | CrashModel::SizesAhead { .. }
        | CrashModel::OneDropped { .. } => vec![true; changes],
        CrashModel::Prefix { .. } | CrashModel::Pages { .. } => {
            let kept = rng.below(changes as u64 + 1) as usize;
            (0..changes).map(|at| at < kept).collect()
        }
        CrashModel::Scattered { .. } | CrashModel::StrictNames { .. } => {
            (0..changes).map(|_| rng.chance(2)).collect()
        }
    }
}
