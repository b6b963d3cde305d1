//! sled 0.34: a lock-free tree over a log, in Rust, compiled in by the feature `rust-engines`.
//!
//! Unless options are left as shipped, its own flushing thread is off: writes are passed to the
//! operating system as its segments fill, and synced on request of a write. The losses of a killed
//! process depend on its buffers.

use std::path::Path;

use esker_lab::error::{LabError, Result};
use esker_lab::target::{
    Capabilities, Direction, Durability, Engine, StoreOptions, Target, VisitPair, Writes,
    in_batches, not_offered,
};

/// sled, in the version linked into this program.
#[derive(Debug, Default)]
pub struct Sled;

const NAME: &str = "sled";

fn fail(error: impl std::fmt::Display) -> LabError {
    LabError::engine(format!("{NAME}: {error}"))
}

impl Engine for Sled {
    fn name(&self) -> &str {
        NAME
    }

    fn description(&self) -> String {
        "sled 0.34, a Rust crate".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sync: true,
            compact: false,
            checksums: true,
            concurrent_writers: true,
            persistent: true,
            transactions: false,
            merge: false,
            bulk_load: false,
        }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (name.to_string(), value);
        let durability = match options.durability {
            Durability::Sync => "a flush after each write",
            _ if options.as_shipped => {
                "a flush each half second: a killed process loses what came after it"
            }
            _ => "none: a killed process loses what its buffers held",
        };
        options.given(vec![
            pair(
                "cache_capacity",
                format!("{} (cache and memtable)", options.cache_and_memtable_bytes()),
            ),
            pair("compression", "none (not built in)".into()),
            pair("durability", durability.into()),
        ])
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let mut config = ::sled::Config::new().path(dir);
        if !options.as_shipped {
            config = config.cache_capacity(options.cache_and_memtable_bytes()).flush_every_ms(None);
        }
        let db = config.open().map_err(fail)?;
        Ok(Box::new(Store { db, sync_always: options.durability == Durability::Sync }))
    }
}

struct Store {
    db: ::sled::Db,
    sync_always: bool,
}

impl Store {
    fn settle(&self, sync: bool) -> Result<()> {
        if sync || self.sync_always {
            self.db.flush().map_err(fail)?;
        }
        Ok(())
    }

    fn walk(
        pairs: impl Iterator<Item = ::sled::Result<(::sled::IVec, ::sled::IVec)>>,
        visit: VisitPair<'_>,
    ) -> Result<()> {
        for pair in pairs {
            let (key, value) = pair.map_err(fail)?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

impl Target for Store {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.db.insert(key, value).map_err(fail)?;
        self.settle(sync)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.remove(key).map_err(fail)?;
        self.settle(false)
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get(key).map_err(fail)?;
        if let Some(value) = &value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        match direction {
            Direction::Forward => Store::walk(self.db.iter(), visit),
            Direction::Reverse => Store::walk(self.db.iter().rev(), visit),
        }
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        Store::walk(self.db.range(start..), visit)
    }

    fn compact(&self) -> Result<()> {
        Err(not_offered(NAME, "compaction on demand"))
    }

    fn write_many(&self, writes: Writes<'_, '_>, sync: bool) -> Result<bool> {
        in_batches(writes, |group| {
            let mut batch = ::sled::Batch::default();
            for (key, value) in group {
                match value {
                    Some(value) => batch.insert(*key, *value),
                    None => batch.remove(*key),
                }
            }
            self.db.apply_batch(batch).map_err(fail)?;
            self.settle(sync)
        })?;
        Ok(true)
    }

    fn stats(&self) -> Option<String> {
        None
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.flush().map(|_| ()).map_err(fail)
    }
}
