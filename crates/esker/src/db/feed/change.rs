//! A committed batch of the change feed and its changes.

use std::sync::Arc;

use crate::base::expiry;
use crate::base::key::Kind;

/// One change of a [`ChangeBatch`]. `keyspace` is the name that the keyspace had then.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Change {
    /// A key was set to a value. With `expires_ms`, until that time in milliseconds since 1970.
    Put { keyspace: Arc<str>, key: Vec<u8>, value: Vec<u8>, expires_ms: Option<u64> },
    /// An operand was merged into the value of a key.
    Merge { keyspace: Arc<str>, key: Vec<u8>, operand: Vec<u8> },
    /// A key was deleted. It may not have existed.
    Delete { keyspace: Arc<str>, key: Vec<u8> },
    /// The keys in `[start, end)` were deleted.
    DeleteRange { keyspace: Arc<str>, start: Vec<u8>, end: Vec<u8> },
    /// All keys of a keyspace were deleted.
    Clear { keyspace: Arc<str> },
    /// A keyspace was created, with the name of its key order and with its own options.
    KeyspaceCreated { keyspace: Arc<str>, key_order: String, options: Vec<(String, String)> },
    /// A keyspace got another name.
    KeyspaceRenamed { keyspace: Arc<str>, new_name: Arc<str> },
    /// A keyspace was dropped with all its keys.
    KeyspaceDropped { keyspace: Arc<str> },
}

impl Change {
    /// Returns the name that the keyspace of the change had then.
    pub fn keyspace(&self) -> &str {
        self.shared_keyspace()
    }

    /// Returns [`Change::keyspace`] as a name that can be kept without a copy.
    pub(super) fn shared_keyspace(&self) -> &Arc<str> {
        match self {
            Change::Put { keyspace, .. }
            | Change::Merge { keyspace, .. }
            | Change::Delete { keyspace, .. }
            | Change::DeleteRange { keyspace, .. }
            | Change::Clear { keyspace }
            | Change::KeyspaceCreated { keyspace, .. }
            | Change::KeyspaceRenamed { keyspace, .. }
            | Change::KeyspaceDropped { keyspace } => keyspace,
        }
    }
}

/// A committed batch: changes that became visible together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeBatch {
    /// Sequence number of the first operation of the batch.
    pub first_sequence: u64,
    /// Sequence number of the last operation of the batch. It is the position after the batch.
    pub sequence: u64,
    /// Checksum of the batch, which tells batches with the same sequence number apart. Not 0.
    pub checksum: u64,
    /// Position before the batch: the sequence number of the batch that the feed returned before, or
    /// the position at which it began.
    pub previous: u64,
    /// Checksum of the batch that ends at `previous`; 0 if it is not known.
    pub previous_checksum: u64,
    /// Number of this part of the batch, from 0 on. Only the pairs of an [ingest](crate::Db::ingest) or
    /// a bulk load come in parts, of about 1 MiB each; all other batches are whole. The parts have
    /// equal sequence numbers and checksums. A reader applies all of them or none: in one transaction
    /// of its own store, or by keeping them aside until the last. It confirms and stores the position
    /// only with the last part. When it begins again before that, the feed begins with the first part.
    pub part: u64,
    /// Whether more parts of the same batch follow.
    pub continues: bool,
    /// The changes, in order. A key may occur more than once; the last change counts.
    pub changes: Vec<Change>,
}

/// Returns the change that an entry makes.
pub(super) fn plain_change(kind: Kind, keyspace: Arc<str>, key: &[u8], value: &[u8]) -> Change {
    let (key, owned) = (key.to_vec(), || value.to_vec());
    match kind {
        // No log has a pointer, and `value` is what the pointer in a kept table points to.
        Kind::Put | Kind::PutSeparated => {
            Change::Put { keyspace, key, value: owned(), expires_ms: None }
        }
        Kind::PutExpiring => {
            let (time_ms, value) = expiry::split(value);
            let expires_ms = Some(time_ms).filter(|time| *time != expiry::NEVER_MS);
            Change::Put { keyspace, key, value: value.to_vec(), expires_ms }
        }
        Kind::Merge => Change::Merge { keyspace, key, operand: owned() },
        Kind::Delete => Change::Delete { keyspace, key },
        Kind::RangeDelete => Change::DeleteRange { keyspace, start: key, end: owned() },
    }
}
