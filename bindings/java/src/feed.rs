//! The change feed, slots, forks and comparisons.
//!
//! Batches and differences leave as `esker_bindings::feed` encodes them, one after the other.
//!
//! Invariants:
//! 1. A wait for a batch does not keep the store open: a close ends it.
//! 2. Java uses a feed and a comparison under their locks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use esker::diff::{Diff, DiffOptions, DiffSource};
use esker::feed::{Changes, SlotOptions};
use esker::fork::ForkOptions;
use esker::{Db, Snapshot, internals};
use esker_bindings::feed::{add_batch, add_difference};
use esker_bindings::handle::Handle;
use jni_sys::{jbyteArray, jlong, jlongArray};

use crate::env::{Env, Failure, Outcome, natives, pack};
use crate::handle::{Given, give, object, take};
use crate::part::Part;
use crate::snapshot::Held;

/// A reply is not begun again after so many bytes.
const REPLY_BYTES: usize = 64 << 10;

/// A change feed.
pub struct Feed {
    store: Arc<Handle>,
    changes: Mutex<Changes>,
}

impl Given for Feed {
    const TAG: u64 = 0x4573_6b65_7200_0006;
    const NAME: &'static str = "change feed";
}

/// A comparison of two stores.
pub struct Comparison(Mutex<Diff>);

impl Given for Comparison {
    const TAG: u64 = 0x4573_6b65_7200_0007;
    const NAME: &'static str = "comparison";
}

/// Returns a text that may be null.
fn optional(env: Env, array: jbyteArray) -> Outcome<Option<String>> {
    match array.is_null() {
        true => Ok(None),
        false => env.text(array).map(Some),
    }
}

/// Returns a position of Java.
fn position_of(position: jlong) -> Outcome<u64> {
    u64::try_from(position)
        .map_err(|_| Failure::invalid(format!("a position is at least 0, not {position}")))
}

fn source<'a>(db: &'a Db, snapshot: Option<&'a Arc<Snapshot>>) -> DiffSource<'a> {
    match snapshot {
        Some(snapshot) => DiffSource::from(&**snapshot),
        None => DiffSource::from(db),
    }
}

natives! {
    /// Opens a slot, or makes it. The limit of its lag: 0 is the default, a negative one none.
    fn Java_dev_esker_Native_subscribe(
        env, part: jlong, name: jbyteArray, limit: jlong,
    ) -> (), (); {
        let name = env.text(name)?;
        let options = match limit {
            0 => SlotOptions::default(),
            limit => SlotOptions::default().lag_limit_bytes(u64::try_from(limit).ok()),
        };
        object::<Part>(part)?.open()?.subscribe(&name, &options)?;
        Ok(())
    }

    /// Returns the position of a slot.
    fn Java_dev_esker_Native_slotPosition(env, part: jlong, name: jbyteArray) -> jlong, 0; {
        let name = env.text(name)?;
        Ok(object::<Part>(part)?.open()?.slot(&name)?.position()? as jlong)
    }

    /// Confirms the batches of a slot up to a position.
    fn Java_dev_esker_Native_confirm(
        env, part: jlong, name: jbyteArray, position: jlong,
    ) -> (), (); {
        let (name, position) = (env.text(name)?, position_of(position)?);
        Ok(object::<Part>(part)?.open()?.slot(&name)?.confirm(position)?)
    }

    /// Removes a slot.
    fn Java_dev_esker_Native_dropSlot(env, part: jlong, name: jbyteArray) -> (), (); {
        let name = env.text(name)?;
        Ok(object::<Part>(part)?.open()?.drop_slot(&name)?)
    }

    /// Returns five packed texts for each slot: name, position, lag, its limit or -1, problem or
    /// nothing.
    fn Java_dev_esker_Native_slots(env, part: jlong) -> jbyteArray, std::ptr::null_mut(); {
        let mut texts = Vec::new();
        for slot in object::<Part>(part)?.open()?.slots()? {
            let limit = slot.lag_limit_bytes.map_or("-1".to_string(), |bytes| bytes.to_string());
            for text in [
                slot.name,
                slot.position.to_string(),
                slot.lag_bytes.to_string(),
                limit,
                slot.problem.unwrap_or_default(),
            ] {
                pack(&mut texts, text.as_bytes());
            }
        }
        Ok(env.give_bytes(&texts))
    }

    /// Begins the feed of a slot; without one, that of the changes after `from`.
    fn Java_dev_esker_Native_changes(
        env, part: jlong, slot: jbyteArray, from: jlong,
    ) -> jlong, 0; {
        let (part, slot) = (object::<Part>(part)?, optional(env, slot)?);
        let db = part.open()?;
        let changes = match slot {
            Some(name) => db.slot(&name)?.changes()?,
            None => db.changes(position_of(from)?)?,
        };
        Ok(give(Feed { store: part.store.clone(), changes: Mutex::new(changes) }))
    }

    /// Returns the next batch, and waits for it for so many milliseconds; null after that time.
    fn Java_dev_esker_Native_nextChanges(
        env, feed: jlong, wait_ms: jlong,
    ) -> jbyteArray, std::ptr::null_mut(); {
        let feed = object::<Feed>(feed)?;
        drop(feed.store.open()?);
        let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0));
        let mut changes = feed.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(batch) = changes.wait(wait)? else { return Ok(std::ptr::null_mut()) };
        let mut reply = Vec::new();
        add_batch(&mut reply, &batch)?;
        Ok(env.give_bytes(&reply))
    }

    /// Frees a feed.
    fn Java_dev_esker_Native_freeFeed(env, feed: jlong) -> (), (); {
        take::<Feed>(feed)
    }

    /// Creates a snapshot. Returns it, and its position in the feed.
    fn Java_dev_esker_Native_snapshotWithPosition(env, part: jlong) -> jlongArray,
        std::ptr::null_mut();
    {
        let (snapshot, position) = internals::snapshot_with_position(&*object::<Part>(part)?.open()?)?;
        Ok(env.give_longs(&[give(Held::new(snapshot)), position as jlong]))
    }

    /// Creates a fork, with a name that may be null. Returns the numbers of its report.
    fn Java_dev_esker_Native_fork(
        env, part: jlong, path: jbyteArray, name: jbyteArray,
    ) -> jlongArray, std::ptr::null_mut(); {
        let (path, name) = (env.text(path)?, optional(env, name)?);
        let options = match name {
            Some(name) => ForkOptions::default().name(name),
            None => ForkOptions::default(),
        };
        let made = object::<Part>(part)?.open()?.fork_with(path, &options)?;
        let numbers = [
            made.store_id,
            made.linked_files,
            made.linked_bytes,
            made.copied_files,
            made.copied_bytes,
        ];
        Ok(env.give_longs(&numbers.map(|number| number as jlong)))
    }

    /// Returns packed texts: the identity of the store, its name as a fork or nothing, and three texts
    /// for each ancestor.
    fn Java_dev_esker_Native_lineage(env, part: jlong) -> jbyteArray, std::ptr::null_mut(); {
        let db = object::<Part>(part)?.open()?;
        let (lineage, mut texts) = (db.lineage(), Vec::new());
        pack(&mut texts, db.store_id().to_string().as_bytes());
        pack(&mut texts, lineage.name.unwrap_or_default().as_bytes());
        for ancestor in lineage.ancestors {
            pack(&mut texts, ancestor.store_id.to_string().as_bytes());
            pack(&mut texts, ancestor.name.unwrap_or_default().as_bytes());
            pack(&mut texts, ancestor.seqno.to_string().as_bytes());
        }
        Ok(env.give_bytes(&texts))
    }

    /// Compares two stores, at snapshots or now (0), and perhaps one keyspace only.
    fn Java_dev_esker_Native_diff(
        env, old: jlong, old_snapshot: jlong, new: jlong, new_snapshot: jlong,
        keyspace: jbyteArray,
    ) -> jlong, 0; {
        let options = match optional(env, keyspace)? {
            Some(name) => DiffOptions::default().keyspace(name),
            None => DiffOptions::default(),
        };
        let at = |snapshot: jlong| match snapshot {
            0 => Ok(None),
            snapshot => object::<Held>(snapshot)?.open().map(Some),
        };
        let (old_db, new_db) = (object::<Part>(old)?.open()?, object::<Part>(new)?.open()?);
        let (old_at, new_at) = (at(old_snapshot)?, at(new_snapshot)?);
        let (old, new) = (source(&old_db, old_at.as_ref()), source(&new_db, new_at.as_ref()));
        Ok(give(Comparison(Mutex::new(esker::diff::diff_with(old, new, &options)?))))
    }

    /// Returns the next differences; nothing at the end.
    fn Java_dev_esker_Native_nextDifferences(
        env, diff: jlong,
    ) -> jbyteArray, std::ptr::null_mut(); {
        let diff = object::<Comparison>(diff)?;
        let mut diff = diff.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reply = Vec::new();
        while reply.len() < REPLY_BYTES
            && let Some(found) = diff.next()
        {
            add_difference(&mut reply, &found?);
        }
        Ok(env.give_bytes(&reply))
    }

    /// Returns packed texts: the relation of the stores and the number of shared tables.
    fn Java_dev_esker_Native_diffFacts(env, diff: jlong) -> jbyteArray, std::ptr::null_mut(); {
        let diff = object::<Comparison>(diff)?;
        let diff = diff.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut texts = Vec::new();
        pack(&mut texts, diff.relation.to_string().as_bytes());
        pack(&mut texts, diff.shared_files.to_string().as_bytes());
        Ok(env.give_bytes(&texts))
    }

    /// Frees a comparison.
    fn Java_dev_esker_Native_freeDiff(env, diff: jlong) -> (), (); {
        take::<Comparison>(diff)
    }
}
