//! A batch: operations that become visible together and survive a crash together or not at all.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::base::expiry::{self, TIME_BYTES};
use crate::base::key::{KEY_BYTES_MAX, Kind, VALUE_BYTES_MAX};
use crate::base::keyspace::{KeyspaceState, PREFIX_BYTES, Place, keyspace_of};
use crate::base::ops;
use crate::error::{Error, Result};

/// Operations applied atomically by [`crate::Db::write`], in the order they were added.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
/// let mut batch = esker::Batch::new();
/// batch.put("from", "90").put("to", "110").delete("pending");
/// db.write(&batch)?;
/// assert_eq!(&*db.get("to")?.unwrap(), b"110");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Batch {
    payload: Vec<u8>,
    count: u32,
    user_bytes: u64,
    error: Option<Error>,
    /// Offsets in `payload` of the times of puts that expire. While the puts are in the batch, they
    /// have their time to live there.
    ttls_at: Vec<u32>,
    /// Whether the batch merges into the default keyspace.
    merges_default: bool,
    /// The keyspaces of the operations, except the default one.
    keyspaces: Vec<Arc<KeyspaceState>>,
    /// The addresses of `keyspaces`, once there are more than [`SEARCHED_MAX`].
    known: Option<HashSet<usize>>,
}

/// An operation of a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchOp<'a> {
    /// Sets a key to a value.
    Put {
        /// Number of the keyspace; 0 is the default one.
        keyspace: u32,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Sets a key to a value that expires.
    PutWithTtl {
        /// Number of the keyspace; 0 is the default one.
        keyspace: u32,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// The time to live, from the write of the batch on.
        ttl: Duration,
    },
    /// Merges an operand into the value of a key.
    Merge {
        /// Number of the keyspace; 0 is the default one.
        keyspace: u32,
        /// The key.
        key: &'a [u8],
        /// The operand.
        operand: &'a [u8],
    },
    /// Deletes a key.
    Delete {
        /// Number of the keyspace; 0 is the default one.
        keyspace: u32,
        /// The key.
        key: &'a [u8],
    },
    /// Deletes the keys in `[start, end)`.
    DeleteRange {
        /// Number of the keyspace; 0 is the default one.
        keyspace: u32,
        /// Start key, inclusive.
        start: &'a [u8],
        /// End key, exclusive.
        end: &'a [u8],
    },
}

/// A place between two operations of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchMark {
    /// Bytes of the encoded operations before it.
    pub payload_bytes: usize,
    /// Number of operations before it.
    pub count: u32,
    user_bytes: u64,
}

/// Number of keyspaces of a batch that are searched one by one.
const SEARCHED_MAX: usize = 16;

/// Maximum size of a batch in bytes of keys, values and their framing: just under 4 GiB.
pub const BATCH_BYTES_MAX: usize = u32::MAX as usize - (64 << 10);

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets `key` to `value`. With a key over 1 MiB or a value over 1 GiB, the write of the whole
    /// batch fails.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        self.put_at(None, key.as_ref(), value.as_ref());
        self
    }

    pub(crate) fn put_at(
        &mut self,
        keyspace: Option<&Arc<KeyspaceState>>,
        key: &[u8],
        value: &[u8],
    ) {
        if let Some(ttl_ms) = keyspace.and_then(|keyspace| keyspace.rules.ttl_ms) {
            return self.put_expiring_at(keyspace, key, value, ttl_ms);
        }
        self.put_lasting_at(keyspace, key, value);
    }

    fn put_lasting_at(&mut self, keyspace: Option<&Arc<KeyspaceState>>, key: &[u8], value: &[u8]) {
        if self.admit(check_key(key).and(check_value(value)), key.len() + value.len()) {
            let place = self.place(keyspace);
            ops::encode_put_at(&mut self.payload, place, key, value);
        }
    }

    /// Sets `key` to `value` until `ttl` has passed since the write of the batch. See
    /// [`Db::put_with_ttl`](crate::Db::put_with_ttl).
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> &mut Batch {
        self.put_with_ttl_at(None, key.as_ref(), value.as_ref(), ttl);
        self
    }

    pub(crate) fn put_with_ttl_at(
        &mut self,
        keyspace: Option<&Arc<KeyspaceState>>,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) {
        match expiry::ttl_ms(ttl) {
            Some(ttl_ms) => self.put_expiring_at(keyspace, key, value, ttl_ms),
            None => self.put_lasting_at(keyspace, key, value),
        }
    }

    fn put_expiring_at(
        &mut self,
        keyspace: Option<&Arc<KeyspaceState>>,
        key: &[u8],
        value: &[u8],
        ttl_ms: u64,
    ) {
        if self.admit(check_key(key).and(check_value(value)), key.len() + value.len()) {
            let place = self.place(keyspace);
            let at = ops::encode_expiring_at(&mut self.payload, place, key, ttl_ms, value);
            self.ttls_at.push(at as u32);
        }
    }

    /// Merges `operand` into the value of `key` by the merge operator of the default keyspace. The
    /// write of the whole batch fails if there is no operator or it refuses the operand. See
    /// [`Db::merge`](crate::Db::merge).
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Batch {
        self.merge_at(None, key.as_ref(), operand.as_ref());
        self
    }

    pub(crate) fn merge_at(
        &mut self,
        keyspace: Option<&Arc<KeyspaceState>>,
        key: &[u8],
        operand: &[u8],
    ) {
        let checked = check_key(key).and(check_value(operand)).and_then(|()| match keyspace {
            Some(keyspace) => keyspace.rules.check_merge(&keyspace.name(), operand),
            // Only the store knows the operator.
            None => Ok(()),
        });
        if self.admit(checked, key.len() + operand.len()) {
            self.merges_default |= keyspace.is_none();
            let place = self.place(keyspace);
            ops::encode_merge_at(&mut self.payload, place, key, operand);
        }
    }

    /// Deletes `key`. The key need not exist.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Batch {
        self.delete_at(None, key.as_ref());
        self
    }

    pub(crate) fn delete_at(&mut self, keyspace: Option<&Arc<KeyspaceState>>, key: &[u8]) {
        if self.admit(check_key(key), key.len()) {
            let place = self.place(keyspace);
            ops::encode_delete_at(&mut self.payload, place, key);
        }
    }

    /// Deletes every key in `[start, end)`. An empty or inverted range deletes nothing.
    pub fn delete_range(&mut self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> &mut Batch {
        self.delete_range_at(None, start.as_ref(), end.as_ref());
        self
    }

    pub(crate) fn delete_range_at(
        &mut self,
        keyspace: Option<&Arc<KeyspaceState>>,
        start: &[u8],
        end: &[u8],
    ) {
        if self.admit(check_key(start).and(check_key(end)), start.len() + end.len()) {
            let place = self.place(keyspace);
            ops::encode_range_delete_at(&mut self.payload, place, start, end);
        }
    }

    /// Records the keyspace of an operation and returns its place.
    #[inline]
    fn place(&mut self, keyspace: Option<&Arc<KeyspaceState>>) -> Option<Place> {
        let keyspace = keyspace?;
        // The last one is often the right one, and of a few a search is the quickest.
        let searched = self.keyspaces.len().min(SEARCHED_MAX);
        let mut last = self.keyspaces.iter().rev().take(searched);
        if !last.any(|known| Arc::ptr_eq(known, keyspace)) {
            self.add_keyspace(keyspace);
        }
        Some(keyspace.place())
    }

    /// Records a keyspace that is not among the last [`SEARCHED_MAX`] of the batch.
    #[cold]
    fn add_keyspace(&mut self, keyspace: &Arc<KeyspaceState>) {
        let address = |keyspace: &Arc<KeyspaceState>| Arc::as_ptr(keyspace).addr();
        if self.keyspaces.len() >= SEARCHED_MAX {
            // The batch holds the keyspaces, so no other one gets the address of one of them.
            let known = self.known.get_or_insert_default();
            if known.len() < self.keyspaces.len() {
                known.extend(self.keyspaces.iter().map(address));
            }
            if !known.insert(address(keyspace)) {
                return;
            }
        }
        self.keyspaces.push(keyspace.clone());
    }

    /// Returns the keyspaces of the operations, except the default one.
    pub(crate) fn keyspaces(&self) -> &[Arc<KeyspaceState>] {
        &self.keyspaces
    }

    /// Appends all operations of `other`. If the result is too large, the write of the whole batch
    /// fails. The limits are just under 4 GiB of keys, values and framing, and 2^32 - 1 operations.
    pub fn append(&mut self, other: &Batch) -> &mut Batch {
        let count = self.count.checked_add(other.count);
        match count {
            Some(count) if self.payload.len() + other.payload.len() <= BATCH_BYTES_MAX => {
                let moved = self.payload.len() as u32;
                self.ttls_at.extend(other.ttls_at.iter().map(|at| moved + at));
                self.merges_default |= other.merges_default;
                self.payload.extend_from_slice(&other.payload);
                self.count = count;
                self.user_bytes += other.user_bytes;
                self.error = self.error.take().or_else(|| other.error.clone());
                for keyspace in &other.keyspaces {
                    self.place(Some(keyspace));
                }
            }
            _ => {
                self.error.get_or_insert_with(too_long);
            }
        }
        self
    }

    /// Removes all operations. The memory is kept.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.count = 0;
        self.user_bytes = 0;
        self.error = None;
        self.ttls_at.clear();
        self.merges_default = false;
        self.keyspaces.clear();
        self.known = None;
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the encoded size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Iterates over the operations in order.
    pub fn operations(&self) -> impl Iterator<Item = BatchOp<'_>> {
        ops::Ops::new(&self.payload).map_while(|op| {
            let ops::Op { kind, tree, key, value } = op?;
            let in_keyspace = tree != 0;
            let keyspace = if in_keyspace { keyspace_of(key)? } else { 0 };
            let key = if in_keyspace { key.get(PREFIX_BYTES..)? } else { key };
            Some(match kind {
                Kind::Put => BatchOp::Put { keyspace, key, value },
                Kind::PutExpiring => {
                    let (ttl_ms, value) = expiry::split(value);
                    let ttl = Duration::from_millis(ttl_ms);
                    BatchOp::PutWithTtl { keyspace, key, value, ttl }
                }
                Kind::Merge => BatchOp::Merge { keyspace, key, operand: value },
                Kind::Delete => BatchOp::Delete { keyspace, key },
                // Only tables have pointers.
                Kind::PutSeparated => return None,
                Kind::RangeDelete => {
                    let end = if in_keyspace { value.get(PREFIX_BYTES..)? } else { value };
                    BatchOp::DeleteRange { keyspace, start: key, end }
                }
            })
        })
    }

    fn admit(&mut self, checked: Result<()>, bytes: usize) -> bool {
        let checked = checked.and_then(|()| {
            let fits = self.payload.len() + bytes + 16 <= BATCH_BYTES_MAX && self.count < u32::MAX;
            if fits { Ok(()) } else { Err(too_long()) }
        });
        match checked {
            Ok(()) => {
                self.count += 1;
                self.user_bytes += bytes as u64;
                true
            }
            Err(error) => {
                self.error.get_or_insert(error);
                false
            }
        }
    }

    /// Returns the operands that the batch merges into the default keyspace.
    pub(crate) fn default_operands(&self) -> impl Iterator<Item = &[u8]> {
        let payload = if self.merges_default { &self.payload[..] } else { &[] };
        let merges = ops::Ops::new(payload).flatten();
        merges.filter(|op| op.kind == Kind::Merge && op.tree == 0).map(|op| op.value)
    }

    /// Returns whether the batch has puts that expire.
    pub(crate) fn has_ttls(&self) -> bool {
        !self.ttls_at.is_empty()
    }

    /// Returns the encoded operations as they are written at `now_ms`: puts that expire have the
    /// time at which they do.
    pub(crate) fn payload_at(&self, now_ms: u64) -> Vec<u8> {
        let mut payload = self.payload.clone();
        for at in &self.ttls_at {
            let at = *at as usize;
            if let Some(place) = payload.get_mut(at..at + TIME_BYTES) {
                let time_ms = expiry::time_ms(now_ms, expiry::split(place).0);
                place.copy_from_slice(&time_ms.to_be_bytes());
            }
        }
        payload
    }

    /// Returns the encoded operations.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Returns the place after the last operation.
    pub(crate) fn mark(&self) -> BatchMark {
        let (payload_bytes, count) = (self.payload.len(), self.count);
        BatchMark { payload_bytes, count, user_bytes: self.user_bytes }
    }

    /// Removes the operations after a place. The keyspaces of the batch stay.
    pub(crate) fn truncate(&mut self, mark: &BatchMark) {
        self.payload.truncate(mark.payload_bytes);
        self.ttls_at.retain(|at| (*at as usize) < mark.payload_bytes);
        self.count = mark.count;
        self.user_bytes = mark.user_bytes;
    }

    /// Returns why the last operation was not added, and makes the batch usable again.
    pub(crate) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    pub(crate) fn parts(&self) -> Result<(&[u8], u32, u64)> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok((&self.payload, self.count, self.user_bytes)),
        }
    }
}

/// Refuses a key longer than 1 MiB.
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!("the key has {} bytes; the maximum is {KEY_BYTES_MAX}", key.len())))
}

/// Refuses a value longer than 1 GiB.
pub fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the value has {} bytes; the maximum is {VALUE_BYTES_MAX}",
        value.len()
    )))
}

fn too_long() -> Error {
    Error::invalid(format!(
        "the batch has more than {BATCH_BYTES_MAX} bytes or {} operations; split it into several \
         batches",
        u32::MAX
    ))
}
