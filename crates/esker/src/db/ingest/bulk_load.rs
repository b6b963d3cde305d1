//! Bulk loads: sorted pairs become tables of the store, without the log and the memtable.
//!
//! Invariants: the tables are removed unless they are installed, whatever the source of the pairs
//! does. Memory holds one block, one index and one filter.

use super::{Destination, IngestReport, not_ascending};
use crate::base::expiry;
use crate::base::key::Kind;
use crate::base::keyspace::{PREFIX_BYTES, prefix};
use crate::base::order::KeyOrder;
use crate::db::keyspace::Keyspace;
use crate::error::{Error, Result};
use crate::iter::rewrite::EntrySink;
use crate::table::External;
use crate::tree::output::{NewFile, Output};
use crate::write::batch::{check_key, check_value};

/// Writes ascending entries of one keyspace as tables that get their sequence number later.
pub(super) struct TableLoader {
    /// `None` after `finish`.
    output: Option<Output>,
    order: KeyOrder,
    /// The stored key of the last entry; before the first one, the prefix of the keyspace.
    key: Vec<u8>,
    prefix_bytes: usize,
    is_begun: bool,
}

impl TableLoader {
    /// Creates a loader without tables.
    pub(super) fn new(destination: &Destination<'_>, external: External) -> TableLoader {
        let key = destination.own.map_or_else(Vec::new, |own| prefix(own.state.id).to_vec());
        TableLoader {
            output: Some(Output::new(destination.output_config(external), Vec::new(), Vec::new())),
            order: destination.tree().user_order.clone(),
            prefix_bytes: if key.is_empty() { 0 } else { PREFIX_BYTES },
            key,
            is_begun: false,
        }
    }

    /// Adds an entry.
    pub(super) fn add_entry(&mut self, key: &[u8], kind: Kind, value: &[u8]) -> Result<()> {
        check_key(key)?;
        let last = &self.key[self.prefix_bytes..];
        if self.is_begun && self.order.compare(last, key).is_ge() {
            return Err(not_ascending(self.order.name(), last, key));
        }
        self.is_begun = true;
        self.key.truncate(self.prefix_bytes);
        self.key.extend_from_slice(key);
        match &mut self.output {
            Some(output) => output.add(&self.key, 0, kind, value),
            None => Ok(()),
        }
    }

    /// Returns the tables, which are durable.
    pub(super) fn finish(mut self) -> Result<Vec<NewFile>> {
        // After an error the output has removed its files.
        self.output.take().map_or_else(|| Ok(Vec::new()), Output::finish)
    }
}

impl Drop for TableLoader {
    fn drop(&mut self) {
        if let Some(output) = self.output.take() {
            output.abandon();
        }
    }
}

/// A bulk load in several calls, of entries of every kind.
pub(in crate::db) struct SortedLoad {
    keyspace: Keyspace,
    loader: TableLoader,
}

impl SortedLoad {
    /// Begins a load into a keyspace.
    pub fn new(keyspace: &Keyspace) -> Result<SortedLoad> {
        let destination = Destination::of(keyspace)?;
        let operator = destination.rules().operator.as_ref();
        let merge_operator = operator.map_or_else(String::new, |own| own.name().to_string());
        let loader = TableLoader::new(&destination, External { merge_operator });
        Ok(SortedLoad { keyspace: keyspace.clone(), loader })
    }

    /// Adds an entry, whose key must be after all keys so far.
    pub fn add(&mut self, key: &[u8], kind: Kind, value: &[u8]) -> Result<()> {
        self.loader.add_entry(key, kind, value)
    }

    /// Makes the entries visible and durable, all at once. `before` is called when nothing but that is
    /// left to do. After an error in it nothing is changed.
    pub fn install(self, before: impl FnOnce() -> Result<()>) -> Result<()> {
        let destination = Destination::of(&self.keyspace)?;
        let files = self.loader.finish()?;
        let ready = before();
        if ready.is_err() {
            destination.remove(&files);
        }
        ready?;
        destination.install(&destination.tree(), files).map(drop)
    }
}

impl Destination<'_> {
    /// Loads pairs.
    pub(super) fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>, E: From<Error>>(
        &self,
        pairs: impl IntoIterator<Item = std::result::Result<(K, V), E>>,
    ) -> std::result::Result<IngestReport, E> {
        let mut loader = TableLoader::new(self, External::default());
        let ttl_ms = self.rules().ttl_ms;
        let mut timed = Vec::new();
        for pair in pairs {
            let (key, value) = pair?;
            let (key, value) = (key.as_ref(), value.as_ref());
            check_value(value)?;
            match ttl_ms {
                None => loader.add_entry(key, Kind::Put, value)?,
                Some(ttl_ms) => {
                    let time_ms = expiry::time_ms(self.inner.write_time_ms(), ttl_ms);
                    timed.clear();
                    timed.extend_from_slice(&time_ms.to_be_bytes());
                    timed.extend_from_slice(value);
                    loader.add_entry(key, Kind::PutExpiring, &timed)?;
                }
            }
        }
        let loaded = self.install(&self.tree(), loader.finish()?);
        self.inner.deliver_events();
        Ok(loaded?)
    }
}
