//! redb: a copy-on-write B-tree in Rust, compiled in by the feature `rust-engines`.
//!
//! Every write is a separate transaction, as everywhere in the lab, unless it belongs to a batch.
//! Its commits are either lost with the process or survive power loss. Durability levels between
//! the two use the former, and the report states this.

use std::ops::Bound;
use std::path::Path;

use ::redb::{
    AccessGuard, Database, Durability as RedbDurability, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, TableDefinition,
};
use esker_lab::error::{LabError, Result};
use esker_lab::target::{
    Capabilities, Direction, Durability, Engine, StoreOptions, Target, Transaction,
    TransactionKind, TransactionResult, TransactionWork, VisitPair, Writes, not_offered,
};

/// redb, in the version linked into this program.
#[derive(Debug, Default)]
pub struct Redb;

const NAME: &str = "redb";
const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

fn fail(error: impl std::fmt::Display) -> LabError {
    LabError::engine(format!("{NAME}: {error}"))
}

impl Engine for Redb {
    fn name(&self) -> &str {
        NAME
    }

    fn description(&self) -> String {
        "redb 4, a Rust crate".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: true,
            compact: false,
            checksums: true,
            concurrent_writers: false,
            persistent: true,
            transactions: true,
            merge: false,
            bulk_load: false,
        }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (name.to_string(), value);
        let durability = match options.durability {
            Durability::Sync => "Immediate",
            _ => "None: a killed process loses commits",
        };
        options.given(vec![
            pair(
                "cache_size",
                format!("{} (cache and memtable)", options.cache_and_memtable_bytes()),
            ),
            pair("compression", "none (not offered)".into()),
            pair("durability", durability.into()),
        ])
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let mut builder = Database::builder();
        if !options.as_shipped {
            builder.set_cache_size(options.cache_and_memtable_bytes() as usize);
        }
        let db = builder.create(dir.join("store.redb")).map_err(fail)?;
        let store = Store { db, sync_always: options.durability == Durability::Sync };
        store.write(true, |_| Ok(()))?;
        Ok(Box::new(store))
    }
}

struct Store {
    db: Database,
    sync_always: bool,
}

type Pairs<'a> = ::redb::Table<'a, &'static [u8], &'static [u8]>;

type Pair<'a> = (AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>);

impl Store {
    fn walk<'a>(
        pairs: impl Iterator<Item = std::result::Result<Pair<'a>, ::redb::StorageError>>,
        visit: VisitPair<'_>,
    ) -> Result<()> {
        for pair in pairs {
            let (key, value) = pair.map_err(fail)?;
            if !visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, sync: bool, change: impl FnOnce(&mut Pairs<'_>) -> Result<()>) -> Result<()> {
        self.transaction(sync, change)
    }

    /// Runs `change` in a write transaction and commits it. After an error of `change` it is rolled
    /// back.
    fn transaction<E: From<LabError>>(
        &self,
        sync: bool,
        change: impl FnOnce(&mut Pairs<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut txn = self.db.begin_write().map_err(fail)?;
        let durability = match sync || self.sync_always {
            true => RedbDurability::Immediate,
            false => RedbDurability::None,
        };
        txn.set_durability(durability).map_err(fail)?;
        {
            let mut table = txn.open_table(PAIRS).map_err(fail)?;
            change(&mut table)?;
        }
        Ok(txn.commit().map_err(fail)?)
    }
}

/// Reads of a transaction that only reads.
struct Reading<'a>(&'a ::redb::ReadOnlyTable<&'static [u8], &'static [u8]>);

impl Transaction for Reading<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        let value = self.0.get(key).map_err(fail)?;
        Ok(value.inspect(|value| visit(value.value())).is_some())
    }

    fn put(&mut self, _key: &[u8], _value: &[u8]) -> TransactionResult<()> {
        Err(not_offered(NAME, "writes in a transaction that only reads").into())
    }
}

/// Reads and writes of a write transaction.
struct Writing<'a, 'b>(&'a mut Pairs<'b>);

impl Transaction for Writing<'_, '_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        let value = self.0.get(key).map_err(fail)?;
        Ok(value.inspect(|value| visit(value.value())).is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> TransactionResult<()> {
        self.0.insert(key, value).map_err(fail)?;
        Ok(())
    }
}

impl Target for Store {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.write(sync, |table| table.insert(key, value).map(|_| ()).map_err(fail))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(false, |table| table.remove(key).map(|_| ()).map_err(fail))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let txn = self.db.begin_read().map_err(fail)?;
        let table = txn.open_table(PAIRS).map_err(fail)?;
        let value = table.get(key).map_err(fail)?;
        if let Some(value) = &value {
            visit(value.value());
        }
        Ok(value.is_some())
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        if direction == Direction::Forward {
            return self.scan_from(b"", visit);
        }
        let txn = self.db.begin_read().map_err(fail)?;
        let table = txn.open_table(PAIRS).map_err(fail)?;
        Store::walk(table.range::<&[u8]>(..).map_err(fail)?.rev(), visit)
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        let txn = self.db.begin_read().map_err(fail)?;
        let table = txn.open_table(PAIRS).map_err(fail)?;
        let bounds = (Bound::Included(start), Bound::Unbounded);
        Store::walk(table.range::<&[u8]>(bounds).map_err(fail)?, visit)
    }

    fn compact(&self) -> Result<()> {
        Err(not_offered(NAME, "compaction of a store in use"))
    }

    fn transact(&self, kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        if let TransactionKind::ReadWrite { sync } = kind {
            return self.transaction(sync, |table| work(&mut Writing(table)));
        }
        let txn = self.db.begin_read().map_err(fail)?;
        let table = txn.open_table(PAIRS).map_err(fail)?;
        work(&mut Reading(&table))
    }

    fn write_many(&self, writes: Writes<'_, '_>, sync: bool) -> Result<bool> {
        self.write(sync, |table| {
            for (key, value) in writes {
                match value {
                    Some(value) => table.insert(key, value),
                    None => table.remove(key),
                }
                .map_err(fail)?;
            }
            Ok(())
        })?;
        Ok(true)
    }

    fn count(&self) -> Result<u64> {
        let txn = self.db.begin_read().map_err(fail)?;
        txn.open_table(PAIRS).map_err(fail)?.len().map_err(fail)
    }

    fn stats(&self) -> Option<String> {
        None
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Commits without durability become durable with one durable commit.
        self.write(true, |_| Ok(()))
    }
}
