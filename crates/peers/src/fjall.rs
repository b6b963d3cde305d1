//! fjall: a log-structured store in Rust, compiled in by the feature `rust-engines`.

use std::ops::Bound;
use std::path::Path;

use ::fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    RestartIntervalPolicy,
};
use ::fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use esker_lab::error::{LabError, Result};
use esker_lab::target::{
    Capabilities, Compression, Direction, Durability, Engine, StoreOptions, Target, VisitPair,
};

/// fjall, in the version linked into this program.
#[derive(Debug, Default)]
pub struct Fjall;

const NAME: &str = "fjall";

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
        NAME
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
        }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (name.to_string(), value);
        let mut name = compression(options).name().to_string();
        if compression(options) != options.compression {
            name.push_str(&format!(" ({} is not offered)", options.compression.name()));
        }
        options.given(vec![
            pair("max_memtable_size", options.memtable_bytes.to_string()),
            pair("cache_size", options.cache_bytes.to_string()),
            pair("data_block_size", options.block_bytes.to_string()),
            pair("restart_interval", restart_interval(options).to_string()),
            pair("filter_bits", options.filter_bits_per_key.to_string()),
            pair("compression", name),
            pair("durability", options.durability.name().into()),
        ])
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let mut builder = Database::builder(dir);
        if !options.as_shipped {
            builder = builder.cache_size(options.cache_bytes);
        }
        let db = builder.open().map_err(fail)?;
        let create = || {
            if options.as_shipped {
                return KeyspaceCreateOptions::default();
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
        };
        let pairs = db.keyspace("pairs", create).map_err(fail)?;
        Ok(Box::new(Store { db, pairs, sync_always: options.durability == Durability::Sync }))
    }
}

struct Store {
    db: Database,
    pairs: Keyspace,
    sync_always: bool,
}

impl Store {
    fn persisted(&self, sync: bool) -> Result<()> {
        if sync || self.sync_always {
            return self.db.persist(PersistMode::SyncData).map_err(fail);
        }
        Ok(())
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

    fn stats(&self) -> Option<String> {
        Some(format!("{} tables\n", self.pairs.table_count()))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
