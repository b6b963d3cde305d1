//! Stores and runtimes: opening, closing, options, metrics and maintenance.
//!
//! Invariant: a close waits for the running calls, and later calls throw.

use std::path::Path;
use std::sync::Arc;

use esker::fs::{Fs, OsFs};
use esker::schema::METRICS;
use esker::{Db, Options, Runtime, RuntimeOptions, built_in_merge_operator};
use esker_bindings::encryption::{self, Key, KeyOptions};
use esker_bindings::handle::Handle;
use jni_sys::{jboolean, jbyteArray, jlong, jlongArray};

use crate::env::{Env, Failure, Outcome, natives, pack};
use crate::handle::{Given, give, object, take};
use crate::part::Part;

/// A runtime.
pub struct Shared(Runtime);

impl Given for Shared {
    const TAG: u64 = 0x4573_6b65_7200_0005;
    const NAME: &'static str = "runtime";
}

/// Options from Java.
pub struct Chosen {
    pub options: Options,
    /// The key of an encrypted store.
    pub key: Option<Key>,
}

impl Chosen {
    /// Returns the file system of the store: an encrypting one with a key.
    pub fn fs(&self) -> Arc<dyn Fs> {
        encryption::file_system(OsFs::shared(), self.key.as_ref())
    }

    /// Sets the runtime with a number, which may be 0.
    pub fn share(&mut self, runtime: jlong) -> Outcome<()> {
        if runtime != 0 {
            self.options.runtime = Some(object::<Shared>(runtime)?.0.clone());
        }
        Ok(())
    }
}

/// Returns the options of packed names and values. `merge_operator` names a built-in operator.
/// Those of the key are in [`KeyOptions`].
pub fn chosen(env: Env, packed: jbyteArray) -> Outcome<Chosen> {
    let (mut options, mut key) = (Options::default(), KeyOptions::default());
    for pair in env.texts(packed)?.chunks_exact(2) {
        let (name, value) = (pair[0].as_str(), pair[1].as_str());
        match name {
            "merge_operator" => {
                let operator = built_in_merge_operator(value).ok_or_else(|| {
                    Failure::invalid(format!(
                        "there is no merge operator \"{value}\"; the operators are add_i64, \
                         add_u64, max, min, append, append(text), set_union and set_union(text)"
                    ))
                })?;
                options.merge_operator = Some(operator);
            }
            _ if key.set(name, value)? => {}
            _ => options.set(name, value)?,
        }
    }
    Ok(Chosen { options, key: key.key()? })
}

/// Returns a number for Java, which has no unsigned ones.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a number from Java: a negative one is not set.
fn given(number: jlong) -> Option<u64> {
    u64::try_from(number).ok()
}

natives! {
    /// Creates a runtime. Negative numbers are not set.
    fn Java_dev_esker_Native_runtime(
        env, memory_bytes: jlong, cache_bytes: jlong, threads_max: jlong, rate_bytes: jlong,
    ) -> jlong, 0; {
        let options = RuntimeOptions {
            memory_budget_bytes: given(memory_bytes),
            cache_size_bytes: given(cache_bytes),
            threads_max: given(threads_max),
            background_bytes_per_second: given(rate_bytes).unwrap_or(0),
            ..RuntimeOptions::default()
        };
        Ok(give(Shared(Runtime::new(options)?)))
    }

    /// Returns the numbers of a runtime, in the order of the class `RuntimeMetrics`.
    fn Java_dev_esker_Native_runtimeMetrics(env, runtime: jlong) -> jlongArray,
        std::ptr::null_mut();
    {
        let metrics = object::<Shared>(runtime)?.0.metrics();
        let numbers = [
            metrics.stores,
            metrics.threads,
            metrics.budget_bytes,
            metrics.memtable_bytes,
            metrics.memtable_limit_bytes,
            metrics.tables_bytes,
            metrics.cache_bytes,
            metrics.cache_capacity_bytes,
            metrics.background_bytes,
        ];
        Ok(env.give_longs(&numbers.map(signed)))
    }

    /// Frees a runtime, which lives on as long as its stores.
    fn Java_dev_esker_Native_freeRuntime(env, runtime: jlong) -> (), (); {
        take::<Shared>(runtime)
    }

    /// Opens a store with packed options. `runtime` may be 0.
    fn Java_dev_esker_Native_open(
        env, path: jbyteArray, packed: jbyteArray, runtime: jlong, is_read_only: jboolean,
    ) -> jlong, 0; {
        let (path, mut chosen) = (env.text(path)?, chosen(env, packed)?);
        chosen.share(runtime)?;
        let (fs, path) = (chosen.fs(), Path::new(&path));
        let db = match is_read_only {
            true => Db::open_read_only_on(fs, path, chosen.options)?,
            false => Db::open_on(fs, path, chosen.options)?,
        };
        Ok(give(Part { store: Arc::new(Handle::new(db)), keyspace: None, is_read_only }))
    }

    /// Closes a store, and waits for the running calls.
    fn Java_dev_esker_Native_close(env, part: jlong) -> (), (); {
        Ok(object::<Part>(part)?.store.close()?)
    }

    /// Writes the memtables to tables.
    fn Java_dev_esker_Native_flush(env, part: jlong) -> (), (); {
        Ok(object::<Part>(part)?.open()?.flush()?)
    }

    /// Syncs the log.
    fn Java_dev_esker_Native_sync(env, part: jlong) -> (), (); {
        Ok(object::<Part>(part)?.open()?.sync()?)
    }

    /// Waits until the store has no background work.
    fn Java_dev_esker_Native_waitIdle(env, part: jlong) -> (), (); {
        Ok(object::<Part>(part)?.open()?.wait_idle()?)
    }

    /// Sets options of the open store, from packed names and values.
    fn Java_dev_esker_Native_setOptions(env, part: jlong, packed: jbyteArray) -> (), (); {
        let texts = env.texts(packed)?;
        let pairs: Vec<(&str, &str)> =
            texts.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        Ok(object::<Part>(part)?.open()?.set_options(&pairs)?)
    }

    /// Returns the value of an option, or null for an unknown name.
    fn Java_dev_esker_Native_option(env, part: jlong, name: jbyteArray) -> jbyteArray,
        std::ptr::null_mut();
    {
        let name = env.text(name)?;
        let value = object::<Part>(part)?.open()?.option(&name);
        Ok(value.map_or(std::ptr::null_mut(), |value| env.give_bytes(value.as_bytes())))
    }

    /// Returns the packed names of the numbers of `metrics`.
    fn Java_dev_esker_Native_metricNames(env) -> jbyteArray, std::ptr::null_mut(); {
        let mut names = Vec::new();
        METRICS.iter().for_each(|metric| pack(&mut names, metric.name.as_bytes()));
        Ok(env.give_bytes(&names))
    }

    /// Returns the numbers of a store. A number of levels is the sum over the levels.
    fn Java_dev_esker_Native_metrics(env, part: jlong) -> jlongArray, std::ptr::null_mut(); {
        let metrics = object::<Part>(part)?.open()?.metrics();
        let number = |metric: &esker::schema::MetricSpec| {
            metric.value(&metrics).unwrap_or_else(|| {
                metrics.levels.iter().filter_map(|level| metric.level_value(level)).sum()
            })
        };
        let numbers: Vec<i64> = METRICS.iter().map(|metric| signed(number(metric))).collect();
        Ok(env.give_longs(&numbers))
    }

    /// Returns the numbers of a store as OpenMetrics text.
    fn Java_dev_esker_Native_openMetrics(env, part: jlong) -> jbyteArray, std::ptr::null_mut(); {
        let text = object::<Part>(part)?.open()?.metrics().to_openmetrics();
        Ok(env.give_bytes(text.as_bytes()))
    }

    /// Returns the packed names of the keyspaces.
    fn Java_dev_esker_Native_keyspaces(env, part: jlong) -> jbyteArray, std::ptr::null_mut(); {
        let mut names = Vec::new();
        for name in object::<Part>(part)?.open()?.keyspaces() {
            pack(&mut names, name.as_bytes());
        }
        Ok(env.give_bytes(&names))
    }

    /// Drops a keyspace.
    fn Java_dev_esker_Native_dropKeyspace(env, part: jlong, name: jbyteArray) -> (), (); {
        let name = env.text(name)?;
        Ok(object::<Part>(part)?.open()?.drop_keyspace(&name)?)
    }

    /// Returns the packed names of the prepared transactions.
    fn Java_dev_esker_Native_prepared(env, part: jlong) -> jbyteArray, std::ptr::null_mut(); {
        let mut names = Vec::new();
        for name in object::<Part>(part)?.open()?.prepared_transactions() {
            pack(&mut names, name.as_bytes());
        }
        Ok(env.give_bytes(&names))
    }

    /// Reads and checks all files. Returns the packed problems.
    fn Java_dev_esker_Native_verify(env, part: jlong) -> jbyteArray, std::ptr::null_mut(); {
        let report = object::<Part>(part)?.open()?.verify(&mut |_, _| {})?;
        let mut problems = Vec::new();
        for problem in &report.problems {
            pack(&mut problems, problem.to_string().as_bytes());
        }
        Ok(env.give_bytes(&problems))
    }

    /// Does nothing: the cost of a call.
    fn Java_dev_esker_Native_nothing(env) -> (), (); {
        Ok(())
    }

    /// Panics, for the test that a panic is an exception.
    fn Java_dev_esker_Native_panic(env) -> (), (); {
        panic!("asked for by a test")
    }
}
