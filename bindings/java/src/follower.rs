//! Followers: read-only views of a store that another process writes.
//!
//! Invariants:
//! 1. A wait is short, and Java repeats it: so a close or an interrupt ends it.
//! 2. A view and a promoted store are parts of their own, which Java closes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use esker::Db;
use esker::fs::OsFs;
use esker_bindings::follower::FollowerHandle;
use esker_bindings::handle::Handle;
use jni_sys::{jboolean, jbyteArray, jlong};

use crate::env::{Outcome, natives, pack};
use crate::handle::{Given, give, object, take};
use crate::part::Part;
use crate::store::chosen;

/// A follower, until it is closed.
pub struct Following(FollowerHandle);

impl Given for Following {
    const TAG: u64 = 0x4573_6b65_7200_0009;
    const NAME: &'static str = "follower";
}

impl Following {
    /// Gives a view or a promoted store to Java.
    fn give(&self, db: Db, is_read_only: bool) -> jlong {
        let store = Arc::new(Handle::of(db, self.0.functions()));
        give(Part { store, keyspace: None, is_read_only })
    }
}

/// Returns a time from Java; a negative one is zero.
fn time(ms: jlong) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn follower<'a>(number: jlong) -> Outcome<&'a Following> {
    object::<Following>(number)
}

natives! {
    /// Follows a store, with packed options. `runtime` may be 0.
    fn Java_dev_esker_Native_follow(
        env, path: jbyteArray, packed: jbyteArray, runtime: jlong,
    ) -> jlong, 0; {
        let (path, mut chosen) = (env.text(path)?, chosen(env, packed)?);
        chosen.share(runtime)?;
        let (path, key) = (Path::new(&path), chosen.key.as_ref());
        let handle = FollowerHandle::follow(OsFs::shared(), path, chosen.options, key)?;
        Ok(give(Following(handle)))
    }

    /// Returns the newest view.
    fn Java_dev_esker_Native_followerView(env, number: jlong) -> jlong, 0; {
        let following = follower(number)?;
        Ok(following.give(following.0.open()?.db(), true))
    }

    /// Returns the position of the newest view.
    fn Java_dev_esker_Native_followerPosition(env, number: jlong) -> jlong, 0; {
        Ok(follower(number)?.0.open()?.position() as jlong)
    }

    /// Makes a newer view. Returns its position.
    fn Java_dev_esker_Native_catchUp(env, number: jlong) -> jlong, 0; {
        Ok(follower(number)?.0.open()?.catch_up()? as jlong)
    }

    /// Lets a thread make newer views.
    fn Java_dev_esker_Native_catchUpEvery(env, number: jlong, interval_ms: jlong) -> (), (); {
        Ok(follower(number)?.0.open()?.catch_up_every(time(interval_ms))?)
    }

    /// Waits for a position. Returns whether the newest view shows it.
    fn Java_dev_esker_Native_waitForPosition(
        env, number: jlong, position: jlong, wait_ms: jlong,
    ) -> jboolean, false; {
        let position = u64::try_from(position).unwrap_or(0);
        Ok(follower(number)?.0.wait_for(position, Some(time(wait_ms)), || true)?)
    }

    /// Returns packed texts: the position of the newest view, that of the store, the operations between
    /// them, the age in milliseconds, and why the last catch-up failed or nothing.
    fn Java_dev_esker_Native_followerLag(env, number: jlong) -> jbyteArray,
        std::ptr::null_mut();
    {
        let lag = follower(number)?.0.open()?.lag()?;
        let mut texts = Vec::new();
        for text in [
            lag.position.to_string(),
            lag.newest.to_string(),
            lag.operations.to_string(),
            lag.age.as_millis().to_string(),
            lag.error.map(|error| error.to_string()).unwrap_or_default(),
        ] {
            pack(&mut texts, text.as_bytes());
        }
        Ok(env.give_bytes(&texts))
    }

    /// Opens the store for writing.
    fn Java_dev_esker_Native_promote(env, number: jlong) -> jlong, 0; {
        let following = follower(number)?;
        Ok(following.give(following.0.open()?.promote()?, false))
    }

    /// Closes a follower, and waits for the running calls.
    fn Java_dev_esker_Native_closeFollower(env, number: jlong) -> (), (); {
        Ok(follower(number)?.0.close()?)
    }

    /// Frees a follower.
    fn Java_dev_esker_Native_freeFollower(env, number: jlong) -> (), (); {
        take::<Following>(number)
    }
}
