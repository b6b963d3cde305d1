//! Conversion of the engine's metrics to a dict.
//!
//! Invariant: each number has the name of the engine's field, which contains its unit.

use esker::Metrics;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Puts fields into a dict under their names.
macro_rules! fields {
    ($dict:ident, $of:expr, $($field:ident)+) => {
        $($dict.set_item(stringify!($field), &$of.$field)?;)+
    };
}

/// Converts the metrics to a dict.
pub fn to_dict<'py>(py: Python<'py>, metrics: &Metrics) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let mut levels = Vec::with_capacity(metrics.levels.len());
    for level in &metrics.levels {
        let one = PyDict::new(py);
        fields!(one, level, level guards runs_max fragments files bytes read_bytes written_bytes
            compactions moves table_gets);
        levels.push(one);
    }
    dict.set_item("levels", levels)?;
    let memory = PyDict::new(py);
    fields!(memory, metrics.memory, active_memtable_bytes frozen_memtables_bytes pooled_bytes
        cache_bytes cache_spare_bytes cache_reserved_bytes cache_capacity_bytes tables_bytes
        budget_bytes);
    dict.set_item("memory", memory)?;
    fields!(dict, metrics, cache_hits cache_misses cache_evictions user_bytes user_ops log_bytes
        log_mapped_bytes log_syncs flushes flush_bytes ingests ingested_bytes compactions
        compaction_bytes
        compaction_read_bytes rest_compactions rest_bytes debt_bytes slowed_us yielded_us stalled_us
        snapshots frozen_memtables
        operands_merged long_chains expired expired_files filtered callback_problems
        callback_problem live_bytes value_bytes value_live_bytes value_files format_version
        last_seqno table_bytes table_files hints hint_jumps scrub_bytes scrub_rounds scrub_problems
        scrub_problem listener_panics events_lost log_file_lines_lost status_file_failures);
    dict.set_item("write_amplification", metrics.write_amplification())?;
    dict.set_item("cache_hit_rate", metrics.cache_hit_rate())?;
    Ok(dict)
}
