//! The change feed, forks, and what differs between two stores.
//!
//! Batches and differences leave as `esker_bindings::feed` encodes them, one after the other.
//!
//! Invariants:
//! 1. A wait for a batch keeps no store open. It ends with the feed, with the store, and with the
//!    environment.
//! 2. A batch that was read and not yet replied is the next reply's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use esker::diff::{DiffOptions, DiffSource};
use esker::feed::{ChangeBatch, Changes, SlotOptions};
use esker::fork::ForkOptions;
use esker::{Db, Snapshot, internals};
use esker_bindings::feed::{add_batch, add_difference};
use napi::Env;
use napi::bindgen_prelude::{AsyncTask, Object as JsObject};
use napi_derive::napi;

use crate::errors::{closed, invalid};
use crate::maintenance::part_of;
use crate::objects::{Object, Part, with};
use crate::shared::Store;
use crate::waits::in_a_thread;
use crate::work::{Answer, Work, later};

/// Time between two looks at the end of a feed during a wait.
const LOOK: Duration = Duration::from_millis(50);
/// A reply is not begun again after so many bytes.
const REPLY_BYTES: usize = 64 << 10;

/// A feed, and whether it has ended.
pub struct Reading {
    changes: Mutex<Changes>,
    has_ended: AtomicBool,
    store: Weak<Store>,
}

/// A feed of one thread of JavaScript. Its end ends a wait.
pub struct Feed(pub Arc<Reading>);

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
    }
}

impl Reading {
    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this is a feed of `store`.
    pub fn is_of(&self, store: &Arc<Store>) -> bool {
        self.store.ptr_eq(&Arc::downgrade(store))
    }

    /// Fails if the feed or its store was closed.
    fn check_open(&self) -> esker::Result<()> {
        if self.has_ended.load(Ordering::Acquire) {
            return Err(closed("change feed"));
        }
        let store = self.store.upgrade().ok_or_else(|| closed("database"))?;
        store.open().map(drop)
    }

    /// Passes the next batches to `add`, which returns the length of the reply; none after `timeout`.
    pub fn next(
        &self,
        timeout: Duration,
        mut add: impl FnMut(ChangeBatch) -> esker::Result<usize>,
    ) -> esker::Result<()> {
        let end = Instant::now().checked_add(timeout);
        let mut changes = self.lock();
        let mut bytes = 0;
        while bytes < REPLY_BYTES {
            self.check_open()?;
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
            let wait = if bytes == 0 { left.min(LOOK) } else { Duration::ZERO };
            match changes.wait(wait) {
                Ok(Some(batch)) => bytes = add(batch)?,
                Ok(None) if bytes == 0 && !left.is_zero() => {}
                Ok(None) => return Ok(()),
                // It comes again with the next call.
                Err(_) if bytes > 0 => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns a position that JavaScript gives.
pub fn position_of(number: f64) -> esker::Result<u64> {
    if number.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&number) {
        return Ok(number as u64);
    }
    Err(invalid(format!("a position is an integer of at least 0, not {number}")))
}

/// Opens the slot with this name, or makes it. `limit` is the maximum lag in bytes: infinity for none,
/// nothing for the default.
#[napi]
pub fn subscribe_later(
    part: u32,
    name: String,
    limit: Option<f64>,
) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let options = match limit {
            None => SlotOptions::default(),
            Some(limit) if limit == f64::INFINITY => SlotOptions::default().lag_limit_bytes(None),
            Some(limit) => SlotOptions::default().lag_limit_bytes(position_of(limit)?),
        };
        part.open()?.subscribe(&name, &options).map(|_| Answer::Nothing)
    }))
}

/// Returns the position of a slot.
#[napi]
pub fn slot_position_later(part: u32, name: String) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || Ok(Answer::Number(part.open()?.slot(&name)?.position()? as f64))))
}

/// Confirms the batches of a slot up to a position.
#[napi]
pub fn confirm_later(part: u32, name: String, position: f64) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        part.open()?.slot(&name)?.confirm(position_of(position)?).map(|()| Answer::Nothing)
    }))
}

/// Removes a slot.
#[napi]
pub fn drop_slot_later(part: u32, name: String) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || part.open()?.drop_slot(&name).map(|()| Answer::Nothing)))
}

/// Returns five texts for each slot: name, position, lag, its limit or nothing, problem or nothing.
#[napi]
pub fn slots_later(part: u32) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let slots = part.open()?.slots()?.into_iter().flat_map(|slot| {
            let limit = slot.lag_limit_bytes.map_or(String::new(), |bytes| bytes.to_string());
            [
                slot.name,
                slot.position.to_string(),
                slot.lag_bytes.to_string(),
                limit,
                slot.problem.unwrap_or_default(),
            ]
        });
        Ok(Answer::Texts(slots.collect()))
    }))
}

/// Begins the feed of a slot, or without one that of the changes after `from`. Returns its number.
#[napi]
pub fn changes_later(part: u32, slot: Option<String>, from: f64) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let db = part.open()?;
        let changes = match slot {
            Some(name) => db.slot(&name)?.changes()?,
            None => db.changes(position_of(from)?)?,
        };
        let (changes, has_ended) = (Mutex::new(changes), AtomicBool::new(false));
        let reading = Reading { changes, has_ended, store: Arc::downgrade(&part.store) };
        Ok(Answer::Object(Object::Feed(Arc::new(Feed(Arc::new(reading))))))
    }))
}

/// Returns the next batches of a feed, and waits for one for so many milliseconds; infinity waits for
/// ever.
#[napi]
pub fn next_changes_later(env: &Env, feed: u32, timeout_ms: f64) -> napi::Result<JsObject<'_>> {
    let reading = with(|shared| Ok(shared.feed(feed)?.0.clone()))?;
    let timeout = with(|_| crate::write::time(timeout_ms))?;
    in_a_thread(env, move || {
        let mut reply = Vec::new();
        reading.next(timeout, |batch| {
            add_batch(&mut reply, &batch)?;
            Ok(reply.len())
        })?;
        Ok(Answer::Bytes(reply))
    })
}

/// Takes a snapshot. Returns its number and its position in the feed.
#[napi]
pub fn snapshot_with_position(part: u32) -> napi::Result<Vec<f64>> {
    with(|shared| {
        let (snapshot, position) = internals::snapshot_with_position(&*shared.part(part)?.open()?)?;
        let number = shared.add(Object::Snapshot(Arc::new(snapshot)));
        Ok(vec![f64::from(number), position as f64])
    })
}

/// Makes a fork. Returns its identity, and the numbers of its report.
#[napi]
pub fn fork_later(
    part: u32,
    directory: String,
    name: Option<String>,
) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let options = match name {
            Some(name) => ForkOptions::default().name(name),
            None => ForkOptions::default(),
        };
        let made = part.open()?.fork_with(&directory, &options)?;
        let numbers = [
            made.store_id,
            made.linked_files,
            made.linked_bytes,
            made.copied_files,
            made.copied_bytes,
        ];
        Ok(Answer::Texts(numbers.iter().map(u64::to_string).collect()))
    }))
}

/// Returns the identity of the store and its name as a fork, and three texts for each ancestor.
#[napi]
pub fn lineage(part: u32) -> napi::Result<Vec<String>> {
    with(|shared| {
        let db = shared.part(part)?.open()?;
        let lineage = db.lineage();
        let mut texts = vec![db.store_id().to_string(), lineage.name.unwrap_or_default()];
        for ancestor in lineage.ancestors {
            texts.push(ancestor.store_id.to_string());
            texts.push(ancestor.name.unwrap_or_default());
            texts.push(ancestor.seqno.to_string());
        }
        Ok(texts)
    })
}

/// One side of a comparison: a store and perhaps one of its snapshots.
type Side = (Arc<Part>, Option<Arc<Snapshot>>);

fn side_of(part: u32, snapshot: i32) -> napi::Result<Side> {
    with(|shared| Ok((shared.part(part)?.clone(), shared.snapshot(snapshot)?.cloned())))
}

/// Compares two stores or snapshots. Returns the number of the comparison.
#[napi]
pub fn diff_later(
    old: u32,
    old_snapshot: i32,
    new: u32,
    new_snapshot: i32,
    keyspace: Option<String>,
) -> napi::Result<AsyncTask<Work>> {
    let (old, new) = (side_of(old, old_snapshot)?, side_of(new, new_snapshot)?);
    Ok(later(move || {
        let options = match keyspace {
            Some(name) => DiffOptions::default().keyspace(name),
            None => DiffOptions::default(),
        };
        let (old_db, new_db) = (old.0.open()?, new.0.open()?);
        let made =
            esker::diff::diff_with(source(&old_db, &old.1), source(&new_db, &new.1), &options)?;
        Ok(Answer::Object(Object::Diff(Arc::new(Mutex::new(made)))))
    }))
}

fn source<'a>(db: &'a Db, snapshot: &'a Option<Arc<Snapshot>>) -> DiffSource<'a> {
    match snapshot {
        Some(snapshot) => DiffSource::from(&**snapshot),
        None => DiffSource::from(db),
    }
}

/// Returns the next differences; none at the end.
#[napi]
pub fn next_differences_later(diff: u32) -> napi::Result<AsyncTask<Work>> {
    let diff = with(|shared| Ok(shared.diff(diff)?.clone()))?;
    Ok(later(move || {
        let mut diff = diff.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reply = Vec::new();
        while reply.len() < REPLY_BYTES
            && let Some(found) = diff.next()
        {
            add_difference(&mut reply, &found?);
        }
        Ok(Answer::Bytes(reply))
    }))
}

/// Returns the relation, the number of shared tables, the number of keyspaces only in the old store,
/// and the names of these and of those only in the new store.
#[napi]
pub fn diff_facts(diff: u32) -> napi::Result<Vec<String>> {
    with(|shared| {
        let diff = shared.diff(diff)?.lock().unwrap_or_else(PoisonError::into_inner);
        let only_old = &diff.keyspaces_only_in_old;
        let mut facts = vec![
            diff.relation.to_string(),
            diff.shared_files.to_string(),
            only_old.len().to_string(),
        ];
        facts.extend(only_old.iter().chain(&diff.keyspaces_only_in_new).cloned());
        Ok(facts)
    })
}
