//! Files of the simulated disk: what is there, what is durable, and every change between the two.
//!
//! What stays true: `synced` with `changes` is what can reach the device; `now` is what programs
//! see, and differs from it only after a failed sync dropped changes.

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
    /// Whether a failed sync dropped changes that readers still see.
    pub(super) dropped: bool,
    /// Whether its length grows ahead of what is appended.
    pub(super) mapped: bool,
    /// Where the next append goes, if that is not the length: in a mapped file, and while something
    /// was written behind the end.
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

    /// What a failed sync leaves: readers see the changes, the device never will.
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
