//! Esker itself, through its public interface only.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ::esker::schema::OPTIONS;
use ::esker::{
    Batch, Concurrency, Db, Durability as EskerDurability, ErrorKind, Keyspace, KeyspaceOptions,
    MergeOperator, Options, TransactionOptions, WriteOptions,
};
use esker_lab::error::{LabError, Result};
use esker_lab::target::{
    Capabilities, Direction, Engine, LsmCounts, SortedPairs, StoreOptions, Target, Transaction,
    TransactionError, TransactionKind, TransactionResult, TransactionWork, VisitMany, VisitPair,
    Writes, in_batches, not_offered,
};

/// Esker, in the version linked into this program.
#[derive(Debug, Default)]
pub struct Esker {
    /// Whether transactions lock the keys that they write.
    pub pessimistic: bool,
}

/// Name of the engine in a benchmark, also for its options and messages.
pub const NAME: &str = "esker";

/// Name of the engine whose transactions are pessimistic.
const NAME_PESSIMISTIC: &str = "esker-pessimistic";

/// Option of a benchmark: the number of keyspaces over which keys are spread by their hash. 0 is the
/// default keyspace alone.
const KEYSPACES: &str = "keyspaces";

/// Returns every option name and alias that a user may set.
pub fn option_names() -> impl Iterator<Item = String> {
    let of_store = OPTIONS.iter().flat_map(|spec| {
        std::iter::once(spec.name).chain(spec.aliases.iter().copied()).map(str::to_string)
    });
    of_store.chain(std::iter::once(KEYSPACES.to_string()))
}

fn fail(error: ::esker::Error) -> LabError {
    LabError::engine(format!("{NAME}: {error}"))
}

/// Converts the result of `visit` to the iterator's control flow.
fn seen_by(visit: VisitPair<'_>) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> {
    move |key, value| {
        if visit(key, value) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Returns the shared settings under Esker's names; options for Esker alone come later and take
/// precedence.
fn settings(options: &StoreOptions) -> Vec<(String, String)> {
    let pair = |name: &str, value: String| (name.to_string(), value);
    let mut settings = match options.as_shipped {
        true => vec![pair("durability", options.durability.name().into())],
        false => shared(options),
    };
    for (name, value) in options.own_options(NAME) {
        settings.retain(|(shared, _)| shared != name);
        settings.push((name.to_string(), value.to_string()));
    }
    settings
}

/// Returns the options given to every engine of a benchmark alike, under Esker's names.
fn shared(options: &StoreOptions) -> Vec<(String, String)> {
    let pair = |name: &str, value: String| (name.to_string(), value);
    vec![
        pair("memtable_size_bytes", options.memtable_bytes.to_string()),
        pair("cache_size_bytes", options.cache_bytes.to_string()),
        pair("block_size_bytes", options.block_bytes.to_string()),
        pair("restart_interval", options.restart_interval.to_string()),
        pair("file_size_max_bytes", options.file_max_bytes.to_string()),
        pair("filter_bits_per_key", options.filter_bits_per_key.to_string()),
        pair("compression", options.compression.name().into()),
        pair("durability", options.durability.name().into()),
    ]
}

impl Engine for Esker {
    fn name(&self) -> &str {
        if self.pessimistic { NAME_PESSIMISTIC } else { NAME }
    }

    fn description(&self) -> String {
        format!("Esker {}", env!("CARGO_PKG_VERSION"))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: true,
            compact: true,
            checksums: true,
            concurrent_writers: true,
            persistent: true,
            transactions: true,
            merge: true,
            bulk_load: true,
        }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let mut given = settings(options);
        if options.as_shipped {
            given.insert(0, ("everything else".into(), "as shipped".into()));
        }
        given
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let (mut own, mut keyspaces) = (Options::default(), 0);
        if options.counters {
            own.merge_operator = Some(Arc::new(AddToCounter));
        }
        for (name, value) in settings(options) {
            if name == KEYSPACES {
                keyspaces = value.parse::<usize>().map_err(|_| {
                    LabError::engine(format!("{NAME}: {KEYSPACES} is a number, not {value:?}"))
                })?;
            } else {
                own.set(&name, &value).map_err(fail)?;
            }
        }
        let db = Db::open(dir, own).map_err(fail)?;
        let synced = WriteOptions::default().durability(Some(EskerDurability::Sync));
        let store =
            EskerStore { db, synced, pessimistic: self.pessimistic, opened: Instant::now() };
        if keyspaces == 0 {
            return Ok(Box::new(store));
        }
        let open = |n: usize| store.db.keyspace(&format!("{n:05}"), &KeyspaceOptions::default());
        let keyspaces = (0..keyspaces).map(open).collect::<::esker::Result<_>>().map_err(fail)?;
        Ok(Box::new(ManyKeyspaces { store, keyspaces }))
    }
}

/// Adds numbers of 8 bytes, little-endian, as RocksDB's `uint64add` does.
struct AddToCounter;

impl MergeOperator for AddToCounter {
    fn name(&self) -> &str {
        "lab.uint64add"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        let mut sum = 0u64;
        for number in existing.iter().chain(operands) {
            let bytes = <[u8; 8]>::try_from(*number)
                .map_err(|_| format!("a counter has 8 bytes, not {}", number.len()))?;
            sum = sum.wrapping_add(u64::from_le_bytes(bytes));
        }
        out.extend_from_slice(&sum.to_le_bytes());
        Ok(())
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        self.full_merge(key, None, operands, out).is_ok()
    }
}

/// A store whose keys are spread evenly over keyspaces. It has no order over all of them.
struct ManyKeyspaces {
    store: EskerStore,
    keyspaces: Vec<Keyspace>,
}

impl ManyKeyspaces {
    fn of(&self, key: &[u8]) -> &Keyspace {
        &self.keyspaces[self.place(key)]
    }

    /// Returns the index of the keyspace of `key`.
    fn place(&self, key: &[u8]) -> usize {
        let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        (hash >> 16) as usize % self.keyspaces.len()
    }
}

impl Target for ManyKeyspaces {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let options = if sync { self.store.synced } else { WriteOptions::default() };
        self.of(key).put_with(key, value, &options).map_err(fail)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.of(key).delete(key).map_err(fail)
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.of(key).read(key, visit).map_err(fail)?.is_some())
    }

    fn seek(&self, key: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let mut iter = self.of(key).iter().map_err(fail)?;
        iter.seek(key).map_err(fail)?;
        if iter.valid() {
            visit(iter.key(), iter.value());
        }
        Ok(iter.valid())
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        let mut visit = seen_by(visit);
        for keyspace in &self.keyspaces {
            let mut iter = keyspace.iter().map_err(fail)?;
            let mut stopped = false;
            let each = |key: &[u8], value: &[u8]| {
                let flow = visit(key, value);
                stopped = flow.is_break();
                flow
            };
            match direction {
                Direction::Forward => iter.for_each_forward(each).map_err(fail)?,
                Direction::Reverse => iter.for_each_backward(each).map_err(fail)?,
            }
            if stopped {
                break;
            }
        }
        Ok(())
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        let mut iter = self.of(start).iter().map_err(fail)?;
        iter.seek(start).map_err(fail)?;
        iter.for_each_forward(seen_by(visit)).map_err(fail)
    }

    fn merge_add(&self, _key: &[u8], _change: u64) -> Result<()> {
        Err(not_offered(NAME, "counters in several keyspaces of the lab"))
    }

    fn compact(&self) -> Result<()> {
        self.keyspaces
            .iter()
            .try_for_each(|keyspace| keyspace.compact_range(None, None))
            .map_err(fail)
    }

    fn transact(&self, kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        self.store.transact_in(Some(self), kind, work)
    }

    fn bulk_load(&self, pairs: SortedPairs<'_, '_>) -> Result<()> {
        let mut parts: Vec<Vec<(&[u8], &[u8])>> = vec![Vec::new(); self.keyspaces.len()];
        pairs.for_each(|pair| parts[self.place(pair.0)].push(pair));
        let mut loads = self.keyspaces.iter().zip(parts);
        loads.try_for_each(|(keyspace, part)| keyspace.bulk_load(part).map(drop)).map_err(fail)
    }

    fn stats(&self) -> Option<String> {
        self.store.stats()
    }

    fn lsm(&self) -> Option<LsmCounts> {
        self.store.lsm()
    }

    fn mapped_write_bytes(&self) -> u64 {
        self.store.mapped_write_bytes()
    }

    fn close(self: Box<Self>) -> Result<()> {
        let ManyKeyspaces { store, keyspaces } = *self;
        drop(keyspaces);
        store.db.close().map_err(fail)
    }
}

struct EskerStore {
    db: Db,
    synced: WriteOptions,
    pessimistic: bool,
    opened: Instant,
}

/// A transaction. Under its snapshot isolation a commit protects the keys that it writes.
struct EskerTransaction<'a> {
    inner: &'a ::esker::Transaction,
    /// Keyspaces over which the keys are spread, if they are.
    keyspaces: Option<&'a ManyKeyspaces>,
    /// Whether a read locks its key, because a write of it follows.
    for_update: bool,
}

fn fail_in_transaction(error: ::esker::Error) -> TransactionError {
    match error.kind() {
        ErrorKind::Conflict | ErrorKind::Busy | ErrorKind::Deadlock => TransactionError::Conflict,
        _ => TransactionError::Failed(fail(error)),
    }
}

impl Transaction for EskerTransaction<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        let value = match (self.keyspaces, self.for_update) {
            (None, true) => self.inner.get_for_update(key),
            (None, false) => self.inner.get(key),
            (Some(all), true) => self.inner.get_for_update_in(all.of(key), key),
            (Some(all), false) => self.inner.get_in(all.of(key), key),
        };
        let value = value.map_err(fail_in_transaction)?;
        if let Some(value) = &value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> TransactionResult<()> {
        match self.keyspaces {
            None => self.inner.put(key, value),
            Some(all) => self.inner.put_in(all.of(key), key, value),
        }
        .map_err(fail_in_transaction)
    }
}

impl EskerStore {
    fn transact_in(
        &self,
        keyspaces: Option<&ManyKeyspaces>,
        kind: TransactionKind,
        work: TransactionWork<'_>,
    ) -> TransactionResult<()> {
        let mut options = TransactionOptions::default();
        if self.pessimistic {
            options = options.concurrency(Concurrency::Pessimistic);
        }
        if kind == (TransactionKind::ReadWrite { sync: true }) {
            options = options.durability(EskerDurability::Sync);
        }
        let transaction = self.db.transaction(options);
        let for_update = self.pessimistic && kind != TransactionKind::ReadOnly;
        work(&mut EskerTransaction { inner: &transaction, keyspaces, for_update })?;
        transaction.commit().map_err(fail_in_transaction)
    }
}

impl Target for EskerStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        if sync {
            self.db.put_with(key, value, &self.synced).map_err(fail)
        } else {
            self.db.put(key, value).map_err(fail)
        }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete(key).map_err(fail)
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.db.read(key, visit).map_err(fail)?.is_some())
    }

    fn merge_add(&self, key: &[u8], change: u64) -> Result<()> {
        self.db.merge(key, change.to_le_bytes()).map_err(fail)
    }

    fn get_many(&self, keys: &[&[u8]], visit: VisitMany<'_>) -> Result<()> {
        let found = self.db.multi_get(keys).map_err(fail)?;
        found.iter().for_each(|value| visit(value.as_deref()));
        Ok(())
    }

    fn seek(&self, key: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let mut iter = self.db.iter().map_err(fail)?;
        iter.seek(key).map_err(fail)?;
        if !iter.valid() {
            return Ok(false);
        }
        visit(iter.key(), iter.value());
        Ok(true)
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        let mut iter = self.db.iter().map_err(fail)?;
        match direction {
            Direction::Forward => iter.for_each_forward(seen_by(visit)).map_err(fail),
            Direction::Reverse => iter.for_each_backward(seen_by(visit)).map_err(fail),
        }
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        let mut iter = self.db.iter().map_err(fail)?;
        iter.seek(start).map_err(fail)?;
        iter.for_each_forward(seen_by(visit)).map_err(fail)
    }

    fn compact(&self) -> Result<()> {
        self.db.compact_range(None, None).map_err(fail)
    }

    fn transact(&self, kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        self.transact_in(None, kind, work)
    }

    fn bulk_load(&self, pairs: SortedPairs<'_, '_>) -> Result<()> {
        self.db.bulk_load(pairs).map(drop).map_err(fail)
    }

    fn write_many(&self, writes: Writes<'_, '_>, sync: bool) -> Result<bool> {
        let mut batch = Batch::new();
        in_batches(writes, |group| {
            batch.clear();
            for (key, value) in group {
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                };
            }
            let options = if sync { self.synced } else { WriteOptions::default() };
            self.db.write_with(&batch, &options).map_err(fail)
        })?;
        Ok(true)
    }

    fn stats(&self) -> Option<String> {
        Some(self.db.metrics().to_string())
    }

    fn lsm(&self) -> Option<LsmCounts> {
        let metrics = self.db.metrics();
        Some(LsmCounts {
            table_bytes: Some(metrics.table_bytes),
            blob_bytes: Some(metrics.value_bytes),
            flush_bytes: Some(metrics.flush_bytes),
            written_bytes: Some(metrics.flush_bytes + metrics.compaction_bytes),
            stalled_seconds: Some((metrics.stalled_us + metrics.slowed_us) as f64 / 1e6),
            uptime_seconds: Some(self.opened.elapsed().as_secs_f64()),
            ..LsmCounts::default()
        })
    }

    fn mapped_write_bytes(&self) -> u64 {
        self.db.metrics().log_mapped_bytes
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.close().map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_option_is_listed_once() {
        let own = |name: &str, value: &str| (NAME.to_string(), name.to_string(), value.to_string());
        let engine_options = vec![own("compression", "lz4"), own("policy", "leveled")];
        let given =
            Esker::default().given(&StoreOptions { engine_options, ..StoreOptions::default() });
        let of = |name: &str| -> Vec<&str> {
            given.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect()
        };
        assert_eq!((of("compression"), of("policy")), (vec!["lz4"], vec!["leveled"]));
        assert_eq!(of("cache_size_bytes").len(), 1);
    }
}
