//! The content of a store as items of a stream, with which a reader of its feed begins.

use std::ops::Bound;
use std::sync::Arc;

use super::change::Change;
use super::stream::StreamItem;
use crate::db::keyspace::Keyspace;
use crate::db::{Db, ReadOptions};
use crate::error::{ErrorKind, Result};
use crate::tree::catalog::DEFAULT_KEYSPACE;

/// Bytes of keys and values of one [`StreamItem::Content`].
const CONTENT_BYTES: usize = 256 << 10;

/// A keyspace and its name at the position of the content.
type Named = (Arc<str>, Keyspace);

impl Db {
    /// Passes the content of the store at one moment to `take`, as the items with which a stream of
    /// changes begins: [`StreamItem::BootstrapBegins`], the content, and
    /// [`StreamItem::BootstrapEnds`]. Returns the position of the content in the feed. A slot must
    /// exist before this call.
    ///
    /// Merge operands become part of the values.
    ///
    /// # Errors
    /// As [`Db::iter`]; the errors of `take`.
    pub fn content(&self, mut take: impl FnMut(StreamItem) -> Result<()>) -> Result<u64> {
        let (snapshot, position, keyspaces) = {
            // The keyspaces as the feed has them at this position.
            let _changing = self.inner.feed.catalog_change.lock();
            let (snapshot, position) = self.snapshot_with_position();
            let named = self.keyspaces().into_iter().map(|name| {
                Ok(self
                    .existing_keyspace(&name)?
                    .map(|keyspace| (Arc::<str>::from(name), keyspace)))
            });
            (snapshot, position, named.collect::<Result<Vec<Option<Named>>>>()?)
        };
        take(StreamItem::BootstrapBegins)?;
        for (name, keyspace) in keyspaces.into_iter().flatten() {
            let mut changes = Vec::new();
            if &*name != DEFAULT_KEYSPACE {
                changes.push(Change::KeyspaceCreated {
                    keyspace: name.clone(),
                    key_order: keyspace.key_order().name().to_string(),
                    options: keyspace.options(),
                });
            }
            let reads = ReadOptions::default().snapshot(&snapshot).fill_cache(false);
            let iter = keyspace.iter_with(&reads, (Bound::Unbounded, Bound::Unbounded));
            let mut iter = match iter {
                // Dropped meanwhile: the feed says so.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    take(StreamItem::Content(changes))?;
                    continue;
                }
                iter => iter?,
            };
            iter.seek_to_first()?;
            let mut bytes = 0;
            while iter.valid() {
                let (key, value) = (iter.key().to_vec(), iter.value().to_vec());
                bytes += key.len() + value.len();
                let (keyspace, expires_ms) = (name.clone(), iter.expires_ms());
                changes.push(Change::Put { keyspace, key, value, expires_ms });
                if bytes >= CONTENT_BYTES {
                    take(StreamItem::Content(std::mem::take(&mut changes)))?;
                    bytes = 0;
                }
                iter.move_next()?;
            }
            if !changes.is_empty() {
                take(StreamItem::Content(changes))?;
            }
        }
        take(StreamItem::BootstrapEnds { position })?;
        Ok(position)
    }
}
