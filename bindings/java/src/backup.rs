//! Checkpoints, backups, and work on stores that are not open: also the change of a key.
//!
//! Invariant: the engine defines the rules of a directory of backups.

use std::path::Path;
use std::sync::Arc;

use esker::Db;
use esker::fs::{Fs, OsFs};
use esker_bindings::encryption;
use jni_sys::{jbyteArray, jint, jlong, jlongArray};

use crate::env::{Failure, natives, pack};
use crate::handle::object;
use crate::part::Part;
use crate::store::chosen;

natives! {
    /// Creates a checkpoint: a store in another directory.
    fn Java_dev_esker_Native_checkpoint(env, part: jlong, path: jbyteArray) -> (), (); {
        let path = env.text(path)?;
        Ok(object::<Part>(part)?.open()?.checkpoint(path)?)
    }

    /// Raises the format version.
    fn Java_dev_esker_Native_upgradeFormat(env, part: jlong, to: jint) -> (), (); {
        let to = u32::try_from(to)
            .map_err(|_| Failure::invalid(format!("there is no format version {to}")))?;
        Ok(object::<Part>(part)?.open()?.upgrade_format(to)?)
    }

    /// Adds a backup to a directory of backups, and returns its number.
    fn Java_dev_esker_Native_backup(env, part: jlong, path: jbyteArray) -> jlong, 0; {
        let path = env.text(path)?;
        Ok(object::<Part>(part)?.open()?.backup(path)?.number as i64)
    }

    /// Returns the numbers of the backups in a directory. Of the packed options only the key counts.
    fn Java_dev_esker_Native_backups(
        env, path: jbyteArray, packed: jbyteArray,
    ) -> jlongArray, std::ptr::null_mut(); {
        let found = Db::backups_on(chosen(env, packed)?.fs(), env.text(path)?)?;
        let numbers: Vec<i64> = found.iter().map(|backup| backup.number as i64).collect();
        Ok(env.give_longs(&numbers))
    }

    /// Removes the oldest backups until `keep` are left. Of the packed options only the key counts.
    fn Java_dev_esker_Native_pruneBackups(
        env, path: jbyteArray, keep: jint, packed: jbyteArray,
    ) -> (), (); {
        let keep = usize::try_from(keep)
            .map_err(|_| Failure::invalid(format!("{keep} backups cannot be kept")))?;
        Db::prune_backups_on(chosen(env, packed)?.fs(), env.text(path)?, keep)?;
        Ok(())
    }

    /// Creates a store from a backup: from the newest one if `number` is negative.
    fn Java_dev_esker_Native_restore(
        env, path: jbyteArray, number: jlong, into: jbyteArray, packed: jbyteArray,
    ) -> jlong, 0; {
        let number = u64::try_from(number).ok();
        let (path, into, chosen) = (env.text(path)?, env.text(into)?, chosen(env, packed)?);
        Ok(Db::restore_on(chosen.fs(), path, number, into, chosen.options)? as i64)
    }

    /// Removes a store that is not open.
    fn Java_dev_esker_Native_destroy(env, path: jbyteArray) -> (), (); {
        Ok(Db::destroy(env.text(path)?)?)
    }

    /// Rebuilds a store that is not open from its intact parts. Returns the packed losses.
    fn Java_dev_esker_Native_repair(
        env, path: jbyteArray, packed: jbyteArray,
    ) -> jbyteArray, std::ptr::null_mut(); {
        let chosen = chosen(env, packed)?;
        let report = Db::repair_on(chosen.fs(), env.text(path)?, chosen.options)?;
        let mut losses = Vec::new();
        report.lost.iter().for_each(|loss| pack(&mut losses, loss.as_bytes()));
        Ok(env.give_bytes(&losses))
    }

    /// Returns the name of the key that opens a store or the newest backup of a directory, or null if it
    /// is not encrypted or does not exist.
    fn Java_dev_esker_Native_wantedKey(env, path: jbyteArray) -> jbyteArray,
        std::ptr::null_mut();
    {
        let path = env.text(path)?;
        let name = encryption::wanted(&(OsFs::shared() as Arc<dyn Fs>), Path::new(&path))?;
        Ok(name.map_or(std::ptr::null_mut(), |name| env.give_bytes(name.as_bytes())))
    }

    /// Changes the key of a store that is not open, from that of the packed options to that of the others.
    /// Returns packed texts: the names of the keys before and now, and the numbers of data keys that are
    /// needed and that were removed.
    fn Java_dev_esker_Native_rekey(
        env, path: jbyteArray, packed: jbyteArray, next: jbyteArray,
    ) -> jbyteArray, std::ptr::null_mut(); {
        let (path, from, to) = (env.text(path)?, chosen(env, packed)?.key, chosen(env, next)?.key);
        let (from, to) = (from.as_ref(), to.as_ref());
        let made = encryption::rekey(OsFs::shared(), Path::new(&path), from, to)?;
        let mut texts = Vec::new();
        for text in [
            made.from,
            made.to,
            made.data_keys.to_string(),
            made.removed_data_keys.to_string(),
        ] {
            pack(&mut texts, text.as_bytes());
        }
        Ok(env.give_bytes(&texts))
    }
}
