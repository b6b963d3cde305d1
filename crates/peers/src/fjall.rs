//! fjall: a log-structured store in Rust, compiled in by the feature `rust-engines`.

use std::ops::Bound;
use std::path::Path;

use ::fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    RestartIntervalPolicy,
};
use ::fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions,
    OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, PersistMode, Readable, Snapshot,
};
use esker_lab::error::{LabError, Result};
use esker_lab::run::config::bytes_of;
use esker_lab::target::{
    Capabilities, Compression, Direction, Durability, Engine, StoreOptions, Target, Transaction,
    TransactionError, TransactionKind, TransactionResult, TransactionWork, VisitPair, Writes,
    in_batches, not_offered,
};

use crate::bench::FJALL_SEPARATION as SEPARATION;

/// fjall, in the version linked into this program.
#[derive(Debug, Default)]
pub struct Fjall {
    /// Whether the store is an `OptimisticTxDatabase`, which has transactions.
    pub optimistic: bool,
}

const NAME: &str = "fjall";

/// Returns how values are kept apart from their keys, if an option asks for it.
fn separation(options: &StoreOptions) -> Result<Option<KvSeparationOptions>> {
    let own = options.own_options(NAME).rfind(|(name, _)| *name == SEPARATION);
    let Some((_, value)) = own else { return Ok(None) };
    let bytes = bytes_of(value).and_then(|bytes| u32::try_from(bytes).ok()).ok_or_else(|| {
        LabError::usage(format!("{NAME}.{SEPARATION}: expected a number of bytes, found {value:?}"))
    })?;
    let kind = match compression(options) {
        Compression::None => CompressionType::None,
        _ => CompressionType::Lz4,
    };
    Ok(Some(KvSeparationOptions::default().separation_threshold(bytes).compression(kind)))
}

fn fail(error: ::fjall::Error) -> LabError {
    LabError::engine(format!("{NAME}: {error}"))
}

fn compression(options: &StoreOptions) -> Compression {
    match options.compression {
        Compression::None => Compression::None,
        _ => Compression::Lz4,
    }
}

fn restart_interval(options: &StoreOptions) -> u8 {
    options.restart_interval.clamp(1, 255) as u8
}

impl Engine for Fjall {
    fn name(&self) -> &str {
        if self.optimistic { "fjall-optimistic" } else { NAME }
    }

    fn description(&self) -> String {
        "fjall 3, a Rust crate".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: true,
            compact: true,
            checksums: true,
            concurrent_writers: true,
            persistent: true,
            transactions: self.optimistic,
            merge: false,
            bulk_load: false,
        }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (name.to_string(), value);
        let mut name = compression(options).name().to_string();
        if compression(options) != options.compression {
            name.push_str(&format!(" ({} is not offered)", options.compression.name()));
        }
        let own = options.own_options(NAME).map(|(name, value)| pair(name, value.to_string()));
        let mut given = options.given(vec![
            pair("max_memtable_size", options.memtable_bytes.to_string()),
            pair("cache_size", options.cache_bytes.to_string()),
            pair("data_block_size", options.block_bytes.to_string()),
            pair("restart_interval", restart_interval(options).to_string()),
            pair("filter_bits", options.filter_bits_per_key.to_string()),
            pair("compression", name),
            pair("durability", options.durability.name().into()),
        ]);
        given.extend(own);
        given
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let separation = separation(options)?;
        let create = || {
            if options.as_shipped {
                return KeyspaceCreateOptions::default().with_kv_separation(separation.clone());
            }
            let kind = match compression(options) {
                Compression::None => CompressionPolicy::disabled(),
                _ => CompressionPolicy::all(CompressionType::Lz4),
            };
            let filter = match options.filter_bits_per_key {
                0 => FilterPolicy::disabled(),
                bits => FilterPolicy::all(FilterPolicyEntry::Bloom(
                    BloomConstructionPolicy::BitsPerKey(bits as f32),
                )),
            };
            KeyspaceCreateOptions::default()
                .max_memtable_size(options.memtable_bytes)
                .data_block_size_policy(BlockSizePolicy::all(options.block_bytes as u32))
                .data_block_restart_interval_policy(RestartIntervalPolicy::all(restart_interval(
                    options,
                )))
                .data_block_compression_policy(kind)
                .filter_policy(filter)
                .with_kv_separation(separation.clone())
        };
        let cache_bytes = (!options.as_shipped).then_some(options.cache_bytes);
        let (db, pairs) = if self.optimistic {
            let mut builder = OptimisticTxDatabase::builder(dir);
            if let Some(bytes) = cache_bytes {
                builder = builder.cache_size(bytes);
            }
            let db = builder.open().map_err(fail)?;
            let pairs = db.keyspace("pairs", create).map_err(fail)?;
            let keyspace: &Keyspace = pairs.as_ref();
            let keyspace = keyspace.clone();
            (Kind::Optimistic(db, pairs), keyspace)
        } else {
            let mut builder = Database::builder(dir);
            if let Some(bytes) = cache_bytes {
                builder = builder.cache_size(bytes);
            }
            let db = builder.open().map_err(fail)?;
            let pairs = db.keyspace("pairs", create).map_err(fail)?;
            (Kind::Plain(db), pairs)
        };
        Ok(Box::new(Store { db, pairs, sync_always: options.durability == Durability::Sync }))
    }
}

/// The database, without or with transactions.
enum Kind {
    Plain(Database),
    Optimistic(OptimisticTxDatabase, OptimisticTxKeyspace),
}

struct Store {
    db: Kind,
    /// Reads and writes outside of transactions.
    pairs: Keyspace,
    sync_always: bool,
}

/// Reads of a snapshot.
struct Reading<'a>(&'a Snapshot, &'a OptimisticTxKeyspace);

impl Transaction for Reading<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        let value = self.0.get(self.1, key).map_err(fail)?;
        Ok(value.inspect(|value| visit(value)).is_some())
    }

    fn put(&mut self, _key: &[u8], _value: &[u8]) -> TransactionResult<()> {
        Err(not_offered(NAME, "writes in a transaction that only reads").into())
    }
}

/// Reads and writes of a transaction.
struct Writing<'a>(&'a mut OptimisticWriteTx, &'a OptimisticTxKeyspace);

impl Transaction for Writing<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        let value = self.0.get(self.1, key).map_err(fail)?;
        Ok(value.inspect(|value| visit(value)).is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> TransactionResult<()> {
        self.0.insert(self.1, key, value);
        Ok(())
    }
}

impl Store {
    fn persisted(&self, sync: bool) -> Result<()> {
        if !sync && !self.sync_always {
            return Ok(());
        }
        match &self.db {
            Kind::Plain(db) => db.persist(PersistMode::SyncData),
            Kind::Optimistic(db, _) => db.persist(PersistMode::SyncData),
        }
        .map_err(fail)
    }

    fn walk(iter: impl Iterator<Item = ::fjall::Guard>, visit: VisitPair<'_>) -> Result<()> {
        for pair in iter {
            let (key, value) = pair.into_inner().map_err(fail)?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

impl Target for Store {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.pairs.insert(key, value).map_err(fail)?;
        self.persisted(sync)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.pairs.remove(key).map_err(fail)?;
        self.persisted(false)
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.pairs.get(key).map_err(fail)?;
        if let Some(value) = &value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        match direction {
            Direction::Forward => Store::walk(self.pairs.iter(), visit),
            Direction::Reverse => Store::walk(self.pairs.iter().rev(), visit),
        }
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        let bounds = (Bound::Included(start), Bound::Unbounded);
        Store::walk(self.pairs.range::<&[u8], _>(bounds), visit)
    }

    fn compact(&self) -> Result<()> {
        self.pairs.rotate_memtable_and_wait().map_err(fail)?;
        self.pairs.major_compact().map_err(fail)
    }

    fn transact(&self, kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        let Kind::Optimistic(db, pairs) = &self.db else {
            return Err(not_offered(NAME, "transactions in a store without them").into());
        };
        let TransactionKind::ReadWrite { sync } = kind else {
            return work(&mut Reading(&db.read_tx(), pairs));
        };
        let mut txn = db.write_tx().map_err(fail)?;
        if sync || self.sync_always {
            txn = txn.durability(Some(PersistMode::SyncData));
        }
        work(&mut Writing(&mut txn, pairs))?;
        txn.commit().map_err(fail)?.map_err(|_| TransactionError::Conflict)
    }

    fn write_many(&self, writes: Writes<'_, '_>, sync: bool) -> Result<bool> {
        let Kind::Plain(db) = &self.db else { return Ok(false) };
        in_batches(writes, |group| {
            let mut batch = db.batch();
            for (key, value) in group {
                match value {
                    Some(value) => batch.insert(&self.pairs, *key, *value),
                    None => batch.remove(&self.pairs, *key),
                }
            }
            batch.commit().map_err(fail)?;
            self.persisted(sync)
        })?;
        Ok(true)
    }

    fn stats(&self) -> Option<String> {
        Some(format!("{} tables\n", self.pairs.table_count()))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
