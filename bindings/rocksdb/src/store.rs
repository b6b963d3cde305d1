//! An open store with its column families, and how it is opened.
//!
//! Invariants:
//! 1. Column family `default` is the default keyspace. Every other column family is the keyspace of
//!    the same name, and has the keyspace's number.
//! 2. A store opened for writing was opened with every column family that it has.
//! 3. Calls from within the store's own comparator are refused.

use std::collections::{BTreeSet, HashMap};
use std::ffi::c_int;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use esker::follow::Follower;
use esker::internals::note_in_log;
use esker::{
    Batch, Db, KeyBounds, KeyOrder, Keyspace, MergeOperator, Options, Snapshot, WriteOptions,
};
use esker_bindings::calling::{self, Functions};
use esker_c::failure::{Failure, Outcome, there};

use crate::accepted;
use crate::access_mode::Access;
use crate::failure::{missing_is_invalid, read_only};
use crate::held::{Held, Now};
use crate::objects::Transform;
use crate::operators::no_operator;
use crate::options::rocksdb_options_t;
use crate::rep::{Record, Rep};
use crate::slots::{self, Slots};

/// The name of the default column family.
pub const DEFAULT: &str = "default";

/// A column family of an open store.
pub struct Family {
    keyspace: Held<Keyspace>,
    /// Prefix extractor of the options with which it was opened.
    pub prefix: Option<Arc<Transform>>,
    /// Merge operator of the options with which it was opened.
    operator: Option<Arc<dyn MergeOperator>>,
    /// Time after which pairs that are put expire.
    pub ttl: Option<Duration>,
}

impl Family {
    fn new(
        keyspace: Keyspace,
        options: &rocksdb_options_t,
        ttl: Option<Duration>,
        access: Access,
    ) -> Arc<Family> {
        let prefix = options.objects.prefix.clone();
        let keyspace = Held::new(keyspace, access == Access::Follow);
        Arc::new(Family { keyspace, prefix, operator: options.merge_operator(), ttl })
    }

    /// Returns the keyspace.
    #[inline]
    pub fn keyspace(&self) -> Now<'_, Keyspace> {
        self.keyspace.now()
    }

    /// Returns the merge operator.
    pub fn operator(&self) -> Option<&dyn MergeOperator> {
        self.operator.as_deref()
    }

    /// Returns a share of the merge operator.
    pub fn share_operator(&self) -> Option<Arc<dyn MergeOperator>> {
        self.operator.clone()
    }

    /// Adds a put to a batch, with the time to live of the column family.
    pub fn add_put(&self, batch: &mut Batch, key: &[u8], value: &[u8]) {
        match self.ttl {
            Some(ttl) => batch.put_with_ttl_in(&self.keyspace(), key, value, ttl),
            None => batch.put_in(&self.keyspace(), key, value),
        };
    }

    /// Returns the number of the column family.
    pub fn id(&self) -> u32 {
        self.keyspace().id()
    }
}

/// An open store.
pub struct Store {
    db: Held<Db>,
    /// What a secondary instance follows.
    follower: Option<Secondary>,
    /// The column family `default`.
    pub default: Arc<Family>,
    families: RwLock<HashMap<u32, Arc<Family>>>,
    functions: Functions,
    slots: Slots,
    access: Access,
    /// Names of live transactions.
    names: Mutex<BTreeSet<String>>,
    /// Names of the settings that have no effect.
    pub accepted: Vec<&'static str>,
    /// Number of the process's accepted functions that the store's `LOG` has.
    reported: AtomicUsize,
}

/// What a secondary instance follows.
struct Secondary {
    follower: Follower,
    /// Held for a whole catch-up, so that an older one does not replace what a newer one has found.
    catching_up: Mutex<()>,
    /// Held for writing while the parts of the store are replaced.
    replacing: RwLock<()>,
}

impl Secondary {
    fn new(follower: Follower) -> Secondary {
        Secondary { follower, catching_up: Mutex::default(), replacing: RwLock::default() }
    }
}

/// A handle of a store.
pub struct rocksdb_t {
    pub(crate) store: Arc<Store>,
}

impl rocksdb_t {
    /// Returns the store. Fails for a null handle, and within the store's own comparator.
    #[inline]
    pub(crate) fn open(db: Option<&rocksdb_t>) -> Outcome<&Arc<Store>> {
        let store = &there(db, "store")?.store;
        if calling::is_within(&store.functions) {
            return Err(Failure::invalid(
                "a comparator must not use its own store: it is called in the middle of a call on \
                 it",
            ));
        }
        Ok(store)
    }

    /// Returns the store, if it was opened for writing.
    #[inline]
    pub(crate) fn writable(db: Option<&rocksdb_t>) -> Outcome<&Arc<Store>> {
        let store = rocksdb_t::open(db)?;
        if store.access == Access::Write { Ok(store) } else { Err(read_only()) }
    }
}

/// What is opened.
pub struct Opening<'a> {
    /// Options of the store.
    pub options: &'a rocksdb_options_t,
    /// Directory.
    pub path: &'a Path,
    /// Column families with their options.
    pub families: Vec<(String, &'a rocksdb_options_t)>,
    /// The time to live of each column family, in seconds; empty if no pair expires. Pairs do not
    /// expire where it is not positive.
    pub ttls: &'a [c_int],
    /// How the store is opened.
    pub access: Access,
}

/// Returns a time to live of RocksDB. Zero and negative times never end.
pub fn ttl(seconds: c_int) -> Option<Duration> {
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

impl Opening<'_> {
    /// Opens the store. Returns it with its column families, in the order in which they were named.
    pub fn open(&self) -> Outcome<(Arc<Store>, Vec<Arc<Family>>)> {
        let default = self.families.iter().find(|(name, _)| name == DEFAULT);
        let (_, default) =
            default.ok_or_else(|| Failure::invalid("Default column family not specified"))?;
        let orders = self.families.iter().map(|(_, options)| options.order());
        let orders: Vec<KeyOrder> =
            orders.filter(|order| matches!(order, KeyOrder::Custom(_))).collect();
        for (_, options) in &self.families {
            options.check()?;
        }
        let mut options: Options = self.options.store_options(default, orders)?;
        let slots = Slots::open(&self.families, self.access != Access::Write, &mut options);
        let functions = calling::functions_of(&options);
        let fs = self.options.fs();
        let mut follower = None;
        let db = match self.access {
            Access::Write => Db::open_on(fs, self.path, options),
            Access::Read => Db::open_read_only_on(fs, self.path, options),
            Access::Follow => Db::follow_on(fs, self.path, options).map(|own| {
                let own = follower.insert(Secondary::new(own));
                own.follower.db()
            }),
        };
        let db = missing_is_invalid(db.map_err(Failure::from))?;
        let families = missing_is_invalid(self.families_of(&db, &slots))?;
        let own = families.iter().zip(&self.families).find(|(_, (name, _))| name == DEFAULT);
        let own = own.map(|(family, _)| family.clone());
        let mut accepted = self.options.accepted();
        for (_, options) in &self.families {
            accepted.extend(options.accepted());
        }
        accepted.sort_unstable();
        accepted.dedup();
        let store = Arc::new(Store {
            default: there(own, "default column family")?,
            families: RwLock::new(families.iter().map(|f| (f.id(), f.clone())).collect()),
            db: Held::new(db, self.access == Access::Follow),
            follower,
            functions,
            slots,
            access: self.access,
            names: Mutex::default(),
            accepted,
            reported: AtomicUsize::new(0),
        });
        self.attach(&store);
        store.report_accepted();
        Ok((store, families))
    }

    /// Tells the objects of the options about their store.
    fn attach(&self, store: &Arc<Store>) {
        let of_families = self.families.iter().map(|(_, options)| *options);
        for options in std::iter::once(self.options).chain(of_families) {
            if let Some(statistics) = &options.objects.statistics {
                statistics.set(store);
            }
            if let Some(buffers) = &options.objects.write_buffers {
                buffers.stores.add(store);
            }
            if let Some(files) = &options.objects.files {
                files.stores.add(store);
            }
        }
        if let Some((_, default)) = self.families.iter().find(|(name, _)| name == DEFAULT)
            && let Some(cache) = &default.objects.cache
        {
            cache.add(store);
        }
    }

    fn families_of(&self, db: &Db, slots: &Slots) -> Outcome<Vec<Arc<Family>>> {
        let existing = db.keyspaces();
        let is_named = |name: &String| self.families.iter().any(|(named, _)| named == name);
        let forgotten: Vec<String> =
            existing.iter().filter(|name| !is_named(name)).cloned().collect();
        if self.access == Access::Write && !forgotten.is_empty() {
            let names = forgotten.join(", ");
            return Err(Failure::invalid(format!("Column families not opened: {names}")));
        }
        let create = self.options.settings.flag("create_missing_column_families");
        let family = |(at, (name, options)): (usize, &(String, &rocksdb_options_t))| {
            let keyspace = match db.existing_keyspace(name)? {
                Some(keyspace) => {
                    slots::check(name, &keyspace, options)?;
                    keyspace
                }
                None if create && self.access == Access::Write => {
                    let made = options.keyspace_options()?;
                    db.keyspace(name, &slots.create(name, options, made)?)?
                }
                None => {
                    return Err(Failure::invalid(format!("Column family not found: {name}")));
                }
            };
            let (expected, found) = (options.order(), keyspace.key_order());
            if expected.name() != found.name() {
                return Err(Failure::invalid(format!(
                    "{name}: the comparator of the column family is {found:?}, and the options \
                     have {expected:?}"
                )));
            }
            let ttl = self.ttls.get(at).copied().and_then(ttl);
            Ok(Family::new(keyspace, options, ttl, self.access))
        };
        self.families.iter().enumerate().map(family).collect()
    }
}

impl Store {
    /// Closes the store for all handles, and returns errors of the close.
    pub fn close(&self) -> Outcome<()> {
        self.report_accepted();
        Ok(Db::clone(&self.db()).close()?)
    }

    /// Writes the accepted functions that this process has called since the last report into the
    /// store's `LOG`: at the opening, and at the close those of reads and writes.
    fn report_accepted(&self) {
        let (lines, next) = accepted::lines_from(self.reported.load(Ordering::Relaxed));
        self.reported.store(next, Ordering::Relaxed);
        let db = self.db();
        lines.iter().for_each(|line| note_in_log(&db, line));
    }

    /// Returns the store; of a secondary instance, what it shows now.
    #[inline]
    pub fn db(&self) -> Now<'_, Db> {
        self.db.now()
    }

    /// Returns a snapshot, for reads of one moment that are more than one call. None of a secondary
    /// instance, for which [`Store::steady`] does the same.
    pub fn moment(&self) -> Option<Snapshot> {
        self.follower.is_none().then(|| self.db().snapshot())
    }

    /// Keeps a catch-up from replacing parts of a secondary instance while the returned value lives.
    pub fn steady(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let own = self.follower.as_ref()?;
        Some(own.replacing.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a secondary instance show what the store has now. A column family that was dropped stays
    /// as it is. Returns false if this is no secondary instance.
    pub fn catch_up(&self) -> Outcome<bool> {
        let Some(own) = &self.follower else { return Ok(false) };
        let _alone = own.catching_up.lock().unwrap_or_else(PoisonError::into_inner);
        own.follower.catch_up()?;
        let db = own.follower.db();
        let mut keyspaces = Vec::new();
        for name in db.keyspaces() {
            keyspaces.extend(db.existing_keyspace(&name)?);
        }
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        let _replacing = own.replacing.write().unwrap_or_else(PoisonError::into_inner);
        // By number: another interface may have renamed a keyspace.
        for keyspace in keyspaces {
            if let Some(family) = families.get(&keyspace.id()) {
                family.keyspace.replace(keyspace);
            }
        }
        self.db.replace(db);
        Ok(true)
    }

    /// Returns the column family with this number.
    pub fn family(&self, id: u32) -> Outcome<Arc<Family>> {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        families
            .get(&id)
            .cloned()
            .ok_or_else(|| Failure::invalid("Invalid column family specified in write batch"))
    }

    /// Returns the number of the column family with this name; `None` if there is none.
    pub fn id_of(&self, name: &str) -> Option<u32> {
        if name == DEFAULT {
            return Some(0);
        }
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        families.values().find(|family| family.keyspace().name() == name).map(|family| family.id())
    }

    /// Creates a column family, whose pairs live for `ttl`.
    pub fn create_family(
        &self,
        name: &str,
        options: &rocksdb_options_t,
        ttl: Option<Duration>,
    ) -> Outcome<Arc<Family>> {
        let made = options.keyspace_options()?;
        if self.db().existing_keyspace(name)?.is_some() {
            return Err(Failure::invalid(format!("Column family already exists: {name}")));
        }
        let made = self.slots.create(name, options, made)?;
        let keyspace = self.db().keyspace(name, &made).inspect_err(|_| self.slots.release(name))?;
        let family = Family::new(keyspace, options, ttl, self.access);
        let mut families = self.families.write().unwrap_or_else(PoisonError::into_inner);
        families.insert(family.id(), family.clone());
        Ok(family)
    }

    /// Drops a column family.
    pub fn drop_family(&self, family: &Family) -> Outcome<()> {
        if family.id() == 0 {
            return Err(Failure::invalid("Can't drop default column family"));
        }
        self.db().drop_keyspace(&family.keyspace().name())?;
        self.slots.release(&family.keyspace().name());
        let mut families = self.families.write().unwrap_or_else(PoisonError::into_inner);
        families.remove(&family.id());
        Ok(())
    }

    /// Reserves the name of a transaction.
    pub fn reserve_name(&self, name: &str) -> Outcome<()> {
        let is_prepared = self.db().prepared_transactions().iter().any(|known| known == name);
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if is_prepared || !names.insert(name.to_string()) {
            return Err(Failure::invalid("Transaction name must be unique."));
        }
        Ok(())
    }

    /// Releases the name of a transaction.
    pub fn release_name(&self, name: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Applies a batch in RocksDB's format.
    pub fn write(&self, rep: &Rep, options: &WriteOptions) -> Outcome<()> {
        let mut batch = Batch::new();
        self.fill(rep, &mut batch)?;
        Ok(self.db().write_with(&batch, options)?)
    }

    fn fill(&self, rep: &Rep, batch: &mut Batch) -> Outcome<()> {
        let mut last = self.default.clone();
        for record in rep.records() {
            let record = record?;
            let id = record.family();
            if id != last.id() {
                last = if id == 0 { self.default.clone() } else { self.family(id)? };
            }
            let keyspace = &last.keyspace();
            match record {
                Record::Put { key, value, .. } => {
                    last.add_put(batch, key, value);
                }
                Record::Delete { key, .. } | Record::SingleDelete { key, .. } => {
                    batch.delete_in(keyspace, key);
                }
                Record::DeleteRange { start, end, .. } => {
                    check_range(keyspace, start, end)?;
                    batch.delete_range_in(keyspace, start, end);
                }
                Record::Merge { key, operand, .. } => {
                    if last.operator.is_none() {
                        return Err(no_operator());
                    }
                    batch.merge_in(keyspace, key, operand);
                }
                Record::LogData(_) => {}
            }
        }
        Ok(())
    }
}

/// Fails for a range whose end comes before its start, as RocksDB does.
pub fn check_range(keyspace: &Keyspace, start: &[u8], end: &[u8]) -> Outcome<()> {
    if keyspace.key_order().compare(start, end).is_gt() {
        return Err(Failure::invalid("end key comes before start key"));
    }
    Ok(())
}

/// A snapshot, as C holds it: allocated with `malloc`, so that the snapshot of a transaction may be
/// freed with `rocksdb_free`.
#[repr(C)]
pub struct rocksdb_snapshot_t {
    pub(crate) snapshot: *const Snapshot,
}

/// Returns bounds from `lower` (inclusive) to `upper` (exclusive).
pub fn bounds(lower: Option<&[u8]>, upper: Option<&[u8]>) -> KeyBounds {
    let owned = |key: &[u8]| key.to_vec();
    let lower = lower.map(owned).map_or(Bound::Unbounded, Bound::Included);
    (lower, upper.map(owned).map_or(Bound::Unbounded, Bound::Excluded))
}
