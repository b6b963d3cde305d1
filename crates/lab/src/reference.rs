//! The `reference` engine: a `BTreeMap` behind a lock, in memory only.
//!
//! It is the simplest correct target. Tests run every task against it. As an engine of a benchmark,
//! it shows the cost of the harness and a plain map without storage.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::RwLock;

use crate::error::Result;
use crate::target::{
    Capabilities, Direction, Engine, SortedPairs, StoreOptions, Target, Transaction,
    TransactionKind, TransactionResult, TransactionWork, VisitPair, Writes,
};
use crate::workload::accounts::change_balance;

/// Engine that opens empty in-memory maps.
#[derive(Debug, Default)]
pub struct Reference;

/// One in-memory map.
#[derive(Debug, Default)]
pub struct ReferenceStore {
    map: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Engine for Reference {
    fn name(&self) -> &str {
        "reference"
    }

    fn description(&self) -> String {
        "in-memory BTreeMap behind a lock (no storage)".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: false,
            compact: false,
            checksums: false,
            concurrent_writers: false,
            persistent: false,
            transactions: true,
            merge: true,
            bulk_load: true,
        }
    }

    fn given(&self, _options: &StoreOptions) -> Vec<(String, String)> {
        let durability = "none: a killed process loses everything";
        vec![("storage".into(), "none".into()), ("durability".into(), durability.into())]
    }

    fn open(&self, _dir: &Path, _options: &StoreOptions) -> Result<Box<dyn Target>> {
        Ok(Box::new(ReferenceStore::default()))
    }
}

impl ReferenceStore {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.map.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.map.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A transaction: the locked map, and the writes so far.
struct ReferenceTransaction<'a> {
    map: &'a BTreeMap<Vec<u8>, Vec<u8>>,
    writes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Transaction for ReferenceTransaction<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        let value = self.writes.get(key).or_else(|| self.map.get(key));
        if let Some(value) = value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> TransactionResult<()> {
        self.writes.insert(key.to_vec(), value.to_vec());
        Ok(())
    }
}

impl Target for ReferenceStore {
    fn put(&self, key: &[u8], value: &[u8], _sync: bool) -> Result<()> {
        self.write().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn merge_add(&self, key: &[u8], change: u64) -> Result<()> {
        let mut map = self.write();
        let counter = map.entry(key.to_vec()).or_insert_with(|| vec![0; 8]);
        change_balance(counter, change);
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write().remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let map = self.read();
        let value = map.get(key);
        if let Some(value) = value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn seek(&self, key: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let map = self.read();
        let bounds = (Bound::Included(key), Bound::Unbounded);
        let pair = map.range::<[u8], _>(bounds).next();
        if let Some((key, value)) = pair {
            visit(key, value);
        }
        Ok(pair.is_some())
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        let map = self.read();
        let mut all = map.iter();
        loop {
            let pair = match direction {
                Direction::Forward => all.next(),
                Direction::Reverse => all.next_back(),
            };
            match pair {
                Some((key, value)) if visit(key, value) => {}
                _ => return Ok(()),
            }
        }
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        let map = self.read();
        let bounds = (Bound::Included(start), Bound::Unbounded);
        for (key, value) in map.range::<[u8], _>(bounds) {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Err(crate::target::not_offered("reference", "compaction"))
    }

    fn transact(&self, _kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        let mut map = self.write();
        let mut transaction = ReferenceTransaction { map: &map, writes: BTreeMap::new() };
        work(&mut transaction)?;
        let writes = transaction.writes;
        map.extend(writes);
        Ok(())
    }

    fn bulk_load(&self, pairs: SortedPairs<'_, '_>) -> Result<()> {
        let mut map = self.write();
        pairs.for_each(|(key, value)| drop(map.insert(key.to_vec(), value.to_vec())));
        Ok(())
    }

    fn write_many(&self, writes: Writes<'_, '_>, _sync: bool) -> Result<bool> {
        let mut map = self.write();
        for (key, value) in writes {
            match value {
                Some(value) => drop(map.insert(key.to_vec(), value.to_vec())),
                None => drop(map.remove(key)),
            }
        }
        Ok(true)
    }

    fn count(&self) -> Result<u64> {
        Ok(self.read().len() as u64)
    }

    fn stats(&self) -> Option<String> {
        Some(format!("{} entries\n", self.read().len()))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
