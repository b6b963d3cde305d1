//! Snapshots: reads at one moment, in all keyspaces of a store.
//!
//! Invariant: a released snapshot throws at each use.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use esker::{ReadOptions, Snapshot, internals};
use jni_sys::{jbyteArray, jint, jlong};

use crate::env::{Failure, Outcome, natives};
use crate::handle::{Given, give, object, take};
use crate::part::Part;

/// A snapshot, until it is released.
pub struct Held(ArcSwapOption<Snapshot>);

impl Given for Held {
    const TAG: u64 = 0x4573_6b65_7200_0002;
    const NAME: &'static str = "snapshot";
}

impl Held {
    /// Holds a snapshot.
    pub fn new(snapshot: Snapshot) -> Held {
        Held(ArcSwapOption::from_pointee(snapshot))
    }

    /// Returns the snapshot.
    pub fn open(&self) -> Outcome<Arc<Snapshot>> {
        self.0.load_full().ok_or_else(|| Failure::closed("the snapshot is closed"))
    }
}

natives! {
    /// Creates a snapshot.
    fn Java_dev_esker_Native_snapshot(env, part: jlong) -> jlong, 0; {
        let part: &Part = object(part)?;
        Ok(give(Held::new(internals::snapshot(&*part.open()?)?)))
    }

    /// Returns the value of a key at a snapshot, or null.
    fn Java_dev_esker_Native_getAt(
        env, part: jlong, snapshot: jlong, key: jbyteArray, offset: jint, len: jint,
    ) -> jbyteArray, std::ptr::null_mut(); {
        let (part, held) = (object::<Part>(part)?, object::<Held>(snapshot)?);
        let key = env.bytes(key, offset, len)?;
        let (db, snapshot) = (part.open()?, held.open()?);
        let options = ReadOptions::default().snapshot(&*snapshot);
        let found = match part.keyspace()?.as_deref() {
            None => db.read_with(&*key, &options, |value| env.give_bytes(value))?,
            Some(keyspace) => {
                keyspace.get_with(&*key, &options)?.map(|value| env.give_bytes(&value))
            }
        };
        Ok(found.unwrap_or(std::ptr::null_mut()))
    }

    /// Releases a snapshot when the calls that read it have ended.
    fn Java_dev_esker_Native_releaseSnapshot(env, snapshot: jlong) -> (), (); {
        drop(object::<Held>(snapshot)?.0.swap(None));
        Ok(())
    }

    /// Frees a snapshot.
    fn Java_dev_esker_Native_freeSnapshot(env, snapshot: jlong) -> (), (); {
        take::<Held>(snapshot)
    }
}
