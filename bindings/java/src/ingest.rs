//! Ingests, and the writers of sorted files for them.
//!
//! Invariant: Java uses a writer under its lock. A writer that is freed before its end removes its
//! file.

use std::sync::{Mutex, PoisonError};

use esker::ingest::{IngestOptions, SortedWriter};
use jni_sys::{jboolean, jbyteArray, jint, jlong, jlongArray};

use crate::env::{Failure, Outcome, natives};
use crate::handle::{Given, give, object, take};
use crate::part::{Part, there, ttl};
use crate::store::chosen;

/// A writer, until its file is finished.
pub struct Writer(Mutex<Option<SortedWriter>>);

impl Given for Writer {
    const TAG: u64 = 0x4573_6b65_7200_0008;
    const NAME: &'static str = "sorted writer";
}

impl Writer {
    fn with<R>(&self, body: impl FnOnce(&mut SortedWriter) -> esker::Result<R>) -> Outcome<R> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = writer.as_mut();
        Ok(body(writer.ok_or_else(|| Failure::closed("the sorted writer is finished"))?)?)
    }
}

natives! {
    /// Creates a writer of a file, with packed options.
    fn Java_dev_esker_Native_sortedWriter(
        env, path: jbyteArray, packed: jbyteArray,
    ) -> jlong, 0; {
        let writer = SortedWriter::create(env.text(path)?, &chosen(env, packed)?.options)?;
        Ok(give(Writer(Mutex::new(Some(writer)))))
    }

    /// Adds a put (0), a put with a time to live (1), a merge (2) or a delete (3).
    fn Java_dev_esker_Native_sortedAdd(
        env, writer: jlong, kind: jint, key: jbyteArray, value: jbyteArray, ttl_ms: jlong,
    ) -> (), (); {
        let key = there(env, key)?;
        let value = match kind {
            3 => None,
            _ => Some(there(env, value)?),
        };
        let value = value.as_deref().unwrap_or_default();
        let lives = ttl(ttl_ms);
        object::<Writer>(writer)?.with(|writer| match kind {
            0 => writer.put(&*key, value),
            1 => writer.put_with_ttl(&*key, value, lives),
            2 => writer.merge(&*key, value),
            _ => writer.delete(&*key),
        })
    }

    /// Finishes a file. Returns the number of its entries and its length.
    fn Java_dev_esker_Native_sortedFinish(env, writer: jlong) -> jlongArray,
        std::ptr::null_mut();
    {
        let writer = object::<Writer>(writer)?;
        let taken = writer.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let made = taken.ok_or_else(|| Failure::closed("the sorted writer is finished"))?.finish()?;
        Ok(env.give_longs(&[made.entries as jlong, made.bytes as jlong]))
    }

    /// Frees a writer, and removes its file if it was not finished.
    fn Java_dev_esker_Native_freeSortedWriter(env, writer: jlong) -> (), (); {
        take::<Writer>(writer)
    }

    /// Makes files, whose names are packed, part of a keyspace. Returns the numbers of the report.
    fn Java_dev_esker_Native_ingest(
        env, part: jlong, files: jbyteArray, copy: jboolean, verify: jboolean,
    ) -> jlongArray, std::ptr::null_mut(); {
        let (part, files) = (object::<Part>(part)?, env.texts(files)?);
        let (db, options) = (part.open()?, IngestOptions::default().copy(copy).verify(verify));
        let made = match part.keyspace()?.as_deref() {
            None => db.ingest(&files, &options)?,
            Some(keyspace) => keyspace.ingest(&files, &options)?,
        };
        let numbers = [made.seqno, made.files, made.entries, made.bytes, made.flushed.into()];
        Ok(env.give_longs(&numbers.map(|number| number as jlong)))
    }
}
