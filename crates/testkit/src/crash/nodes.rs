//! Files of the simulated disk: the current bytes, the durable bytes, and every change between the
//! two.
//!
//! Invariants: `synced` with `changes` is the data that can reach the device. `now` is the data
//! that programs see; it differs only after a failed sync dropped changes.

use std::sync::Arc;

use super::WINDOW_BYTES;

#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Default)]
pub(super) struct Inode {
    pub(super) now: Arc<Vec<u8>>,
    pub(super) synced: Arc<Vec<u8>>,
    pub(super) changes: Vec<Change>,
    /// Whether syncs do nothing and report success.
    pub(super) sync_ignored: bool,
    /// Whether a failed sync dropped changes that readers still see.
    pub(super) dropped: bool,
    /// Whether the file's length grows ahead of the appended data.
    pub(super) mapped: bool,
    /// Position of the next append, where it differs from the length: in a memory-mapped file, and
    /// while data is written behind the end.
    pub(super) end: Option<usize>,
}

pub(super) fn write(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

impl Inode {
    pub(super) fn change(&mut self, change: Change) {
        apply(Arc::make_mut(&mut self.now), &change);
        self.changes.push(change);
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        let offset = self.end.unwrap_or(self.now.len());
        let end = offset + bytes.len();
        if self.end.is_some() {
            self.end = (self.mapped || end < self.now.len()).then_some(end);
            if self.mapped && end > self.now.len() {
                self.change(Change::SetLen(end.next_multiple_of(WINDOW_BYTES)));
            }
        }
        self.change(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn write_behind_end(&mut self, bytes: &[u8]) {
        let offset = *self.end.get_or_insert(self.now.len());
        self.change(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.end = self.mapped.then_some(len);
        self.change(Change::SetLen(len));
    }

    pub(super) fn sync(&mut self) {
        if !self.dropped {
            self.synced = self.now.clone();
            self.changes.clear();
            return;
        }
        let synced = Arc::make_mut(&mut self.synced);
        self.changes.drain(..).for_each(|change| apply(synced, &change));
    }

    /// Applies a failed sync: readers see the changes, but the device never will.
    pub(super) fn drop_changes(&mut self) {
        self.dropped |= !self.changes.is_empty();
        self.changes.clear();
    }
}

pub(super) fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes: new } => write(bytes, *offset, new),
        Change::SetLen(len) => bytes.resize(*len, 0),
    }
}
