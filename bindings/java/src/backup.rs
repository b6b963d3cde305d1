//! Checkpoints, backups, and work on stores that are not open.
//!
//! Invariant: the engine defines the rules of a directory of backups.

use esker::Db;
use jni_sys::{jbyteArray, jint, jlong, jlongArray};

use crate::env::{Failure, natives, pack};
use crate::handle::object;
use crate::part::Part;
use crate::store::options;

natives! {
    /// Creates a checkpoint: a store in another directory.
    fn Java_dev_esker_Native_checkpoint(env, part: jlong, path: jbyteArray) -> (), (); {
        let path = env.text(path)?;
        Ok(object::<Part>(part)?.open()?.checkpoint(path)?)
    }

    /// Adds a backup to a directory of backups, and returns its number.
    fn Java_dev_esker_Native_backup(env, part: jlong, path: jbyteArray) -> jlong, 0; {
        let path = env.text(path)?;
        Ok(object::<Part>(part)?.open()?.backup(path)?.number as i64)
    }

    /// Returns the numbers of the backups in a directory.
    fn Java_dev_esker_Native_backups(env, path: jbyteArray) -> jlongArray, std::ptr::null_mut(); {
        let found = Db::backups(env.text(path)?)?;
        let numbers: Vec<i64> = found.iter().map(|backup| backup.number as i64).collect();
        Ok(env.give_longs(&numbers))
    }

    /// Removes the oldest backups until `keep` are left.
    fn Java_dev_esker_Native_pruneBackups(env, path: jbyteArray, keep: jint) -> (), (); {
        let keep = usize::try_from(keep)
            .map_err(|_| Failure::invalid(format!("{keep} backups cannot be kept")))?;
        Db::prune_backups(env.text(path)?, keep)?;
        Ok(())
    }

    /// Creates a store from a backup: from the newest one if `number` is negative.
    fn Java_dev_esker_Native_restore(
        env, path: jbyteArray, number: jlong, into: jbyteArray, packed: jbyteArray,
    ) -> jlong, 0; {
        let number = u64::try_from(number).ok();
        let (path, into, options) = (env.text(path)?, env.text(into)?, options(env, packed)?);
        Ok(Db::restore(path, number, into, options)? as i64)
    }

    /// Removes a store that is not open.
    fn Java_dev_esker_Native_destroy(env, path: jbyteArray) -> (), (); {
        Ok(Db::destroy(env.text(path)?)?)
    }

    /// Rebuilds a store that is not open from its intact parts. Returns the packed losses.
    fn Java_dev_esker_Native_repair(
        env, path: jbyteArray, packed: jbyteArray,
    ) -> jbyteArray, std::ptr::null_mut(); {
        let report = Db::repair(env.text(path)?, options(env, packed)?)?;
        let mut losses = Vec::new();
        report.lost.iter().for_each(|loss| pack(&mut losses, loss.as_bytes()));
        Ok(env.give_bytes(&losses))
    }
}
