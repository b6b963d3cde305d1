//! Nulls in every argument of the functions on transactions and backups, and of the functions that
//! have a variant on keyspaces.
//!
//! Invariants: a failure is a code with a message; no call crashes.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use esker_c::own::backup::*;
use esker_c::own::batch::*;
use esker_c::own::bulk::*;
use esker_c::own::db::*;
use esker_c::own::encryption::*;
use esker_c::own::feed::*;
use esker_c::own::follower::*;
use esker_c::own::fork::*;
use esker_c::own::ingest::*;
use esker_c::own::inspect::*;
use esker_c::own::iter::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::merge_and_ttl::*;
use esker_c::own::observe::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::reports::*;
use esker_c::own::runtime::*;
use esker_c::own::store::*;
use esker_c::own::stream::*;
use esker_c::own::transaction::*;
use esker_c::own::transaction_data::*;
use esker_c::own::wire::*;

use crate::common::taken;
use crate::{INVALID, refused};

#[test]
fn null_handles_return_error_from_functions_on_many_keys_and_ranges() {
    refused! {
        esker_remove(None, null(), 0, None);
        esker_delete_range(None, null(), 0, null(), 0, 0);
        esker_multi_get(None, None, 1, 0, null(), null(), null_mut(), null_mut());
        esker_multi_get(None, None, 0, 1, null(), null(), null_mut(), null_mut());
        esker_contains(None, None, null(), 0, Some(&mut 0));
        esker_get_with(None, None, 1, null(), 0, Some(&mut null_mut()), Some(&mut 0));
        esker_get_with(None, None, 0, null(), 0, None, Some(&mut 0));
        esker_keyspace_get_with(None, None, 1, null(), 0, Some(&mut null_mut()), Some(&mut 0));
        esker_keyspace_approximate_size(None, null(), 0, null(), 0, Some(&mut 0));
        esker_keyspace_approximate_size(None, null(), 0, null(), 0, None);
        esker_openmetrics(None, Some(&mut null_mut()));
        esker_openmetrics(None, None);
    }
}

/// Functions in C that a refused call must not reach.
mod unreached {
    use super::*;

    pub unsafe extern "C" fn write(_: *mut c_void, _: *const u8, _: usize) -> i32 {
        unreachable!("the call is refused before")
    }

    pub unsafe extern "C" fn read(_: *mut c_void, _: *mut u8, _: usize) -> i64 {
        unreachable!("the call is refused before")
    }
}

#[test]
fn null_handles_return_error_from_functions_on_prefixes_reports_and_streams_of_changes() {
    let (mut iter, mut writer, mut applier) = (null_mut(), null_mut(), null_mut());
    refused! {
        esker_iter_create_prefix(None, None, null(), 0, 1, Some(&mut iter));
        esker_iter_create_prefix(None, None, null(), 0, 1, None);
        esker_iter_create_prefix(None, None, null(), 1, 1, Some(&mut iter));
        esker_keyspace_iter_create_prefix(None, None, null(), 0, 1, Some(&mut iter));
        esker_keyspace_iter_create_prefix(None, None, null(), 0, 1, None);
        esker_verify_with(None, null_mut(), None, None);
        esker_verify_with(None, null_mut(), None, Some(&mut null_mut()));
        esker_repair_with(null(), None, None, None, None);
        esker_repair_with(
            null(), None, Some(&mut null_mut()), Some(&mut null_mut()), Some(&mut null_mut())
        );
        esker_change_writer_create(None, null_mut(), Some(unreached::write), Some(&mut writer));
        esker_change_writer_create(None, null_mut(), Some(unreached::write), None);
        esker_change_writer_create(None, null_mut(), None, Some(&mut writer));
        esker_change_writer_batch(None, None);
        esker_change_writer_content(None, None);
        esker_change_writer_alive(None, 1);
        esker_change_writer_end(None, 1);
        esker_applier_create(None, null_mut(), Some(unreached::read), Some(&mut applier));
        esker_applier_create(None, null_mut(), Some(unreached::read), None);
        esker_applier_create(None, null_mut(), None, Some(&mut applier));
        esker_applier_start_at(None, 1);
        esker_applier_next(None, None, None);
        esker_applied_position(None, Some(&mut 0), Some(&mut 0), Some(&mut 0));
    }
    assert!(iter.is_null() && writer.is_null() && applier.is_null());
    assert_eq!(esker_applier_source(None), 0);
    esker_change_writer_destroy(None);
    esker_applier_destroy(None);
}

#[test]
fn null_handles_return_error_from_functions_that_inspect_and_stream() {
    refused! {
        esker_tables(None, null_mut(), None);
        esker_metric(None, null(), Some(&mut 0));
        esker_level_metric(None, 0, null(), Some(&mut 0));
        esker_options_visit(null_mut(), None);
        esker_set_options(None, 0, null(), null());
        esker_compact_all(None);
        esker_path(None, Some(&mut null_mut()));
        esker_path(None, None);
        esker_put_reader(None, null(), 0, null_mut(), None, None);
        esker_keyspace_put_reader(None, null(), 0, null_mut(), None, None);
        esker_get_reader(None, null(), 0, Some(&mut null_mut()));
        esker_get_reader(None, null(), 0, None);
        esker_keyspace_get_reader(None, null(), 0, Some(&mut null_mut()));
        esker_value_reader_read(None, 0, null_mut(), 0, Some(&mut 0));
    }
    assert_eq!(esker_value_reader_len(None), 0);
    esker_value_reader_destroy(None);
    assert_eq!(esker_iter_expires_ms(None), ESKER_NEVER_MS);
    assert_eq!((esker_snapshot_position(None), esker_diff_shared_bytes(None)), (0, 0));
    assert_eq!(esker_sorted_writer_estimated_bytes(None), 0);
}

#[test]
fn null_handles_return_error_from_functions_on_many_operations() {
    let (mut rows, mut bytes) = (7, 7);
    refused! {
        esker_batch_add_packed(None, null(), 0, null(), 0);
        esker_batch_add_packed(Some(&mut esker_batch_create()), null(), 1, null(), 0);
        esker_batch_add_packed(Some(&mut esker_batch_create()), null(), 0, null(), 1);
        esker_iter_read(None, 0, 1, null_mut(), 0, Some(&mut rows), Some(&mut bytes));
        esker_iter_read(None, 1, 1, null_mut(), 1, Some(&mut rows), None);
        esker_iter_read(None, 1, 1, null_mut(), 1, None, Some(&mut bytes));
    }
    assert_eq!((rows, bytes), (0, 0));
}

#[test]
fn null_handles_return_error_from_functions_on_merges_and_expiry() {
    let (mut value, mut len, mut time) = (null_mut(), 0, 7);
    let (mut options, name) = (esker_options_create(), c"add_i64".as_ptr());
    refused! {
        esker_merge(None, null(), 0, null(), 0, 0);
        esker_keyspace_merge(None, null(), 0, null(), 0, 0);
        esker_batch_merge(None, null(), 0, null(), 0);
        esker_batch_merge_in(None, None, null(), 0, null(), 0);
        esker_put_with_ttl(None, null(), 0, null(), 0, 0, 0);
        esker_keyspace_put_with_ttl(None, null(), 0, null(), 0, 0, 0);
        esker_batch_put_with_ttl(None, null(), 0, null(), 0, 0);
        esker_batch_put_with_ttl_in(None, None, null(), 0, null(), 0, 0);
        esker_batch_merge(Some(&mut esker_batch_create()), null(), 1, null(), 0);
        esker_batch_merge_in(Some(&mut esker_batch_create()), None, null(), 0, null(), 0);
        esker_touch(None, null(), 0, 0, None);
        esker_touch(None, null(), 1, 0, None);
        esker_keyspace_touch(None, null(), 0, 0, None);
        esker_get_with_expiry(None, None, null(), 0, Some(&mut value), Some(&mut len), None);
        esker_get_with_expiry(None, None, null(), 0, Some(&mut value), Some(&mut len), Some(&mut time));
        esker_keyspace_get_with_expiry(None, None, null(), 0, None, Some(&mut len), Some(&mut time));
        esker_options_add_merge_operator(None, null_mut(), None, None, None, None);
        esker_options_add_merge_operator(Some(&mut options), null_mut(), None, None, None, None);
        esker_options_set_merge_operator(None, name);
        esker_options_set_merge_operator(Some(&mut options), null());
        esker_options_add_compaction_filter(None, null_mut(), None, None, None);
        esker_options_set_compaction_filter(None, null());
        esker_keyspace_options_set_merge_operator(None, name);
        esker_keyspace_options_set_merge_operator(None, null());
        esker_keyspace_options_set_compaction_filter(None, name);
        esker_keyspace_options_set_ttl_ms(None, 0);
    }
    assert!(value.is_null() && time == ESKER_NEVER_MS);
}

#[test]
fn null_handles_return_error_from_functions_on_feeds_and_forks() {
    let (mut at, mut name) = (7, null_mut());
    refused! {
        esker_changes_create(None, 0, Some(&mut null_mut()));
        esker_changes_create(None, 0, None);
        esker_changes_next(None, 0, Some(&mut null()));
        esker_changes_next(None, 0, None);
        esker_subscribe(None, c"slot".as_ptr(), 0, Some(&mut null_mut()));
        esker_subscribe(None, null(), 0, Some(&mut null_mut()));
        esker_subscribe(None, null(), 0, None);
        esker_slot_open(None, c"slot".as_ptr(), Some(&mut null_mut()));
        esker_slot_open(None, null(), None);
        esker_slot_position(None, Some(&mut at));
        esker_slot_position(None, None);
        esker_slot_changes(None, Some(&mut null_mut()));
        esker_slot_changes(None, None);
        esker_slot_confirm(None, 0);
        esker_slots(None, null_mut(), None);
        esker_drop_slot(None, c"slot".as_ptr());
        esker_snapshot_create_with_position(None, Some(&mut null_mut()), Some(&mut at));
        esker_snapshot_create_with_position(None, None, None);
        esker_fork(None, c"fork".as_ptr(), null(), None);
        esker_lineage(None, Some(&mut name), null_mut(), None);
        esker_diff_create(None, None, None, None, null(), Some(&mut null_mut()));
        esker_diff_create(None, None, None, None, null(), None);
        esker_diff_next(None, Some(&mut null()));
        esker_diff_next(None, None);
    }
    assert!(at == 7 && name.is_null() && esker_changes_position(None) == 0);
    assert!(esker_diff_relation(None) == 0 && esker_diff_shared_files(None) == 0);
    assert!(esker_diff_keyspaces_only_in(None, 1).is_null());
    esker_changes_destroy(None);
    esker_slot_close(None);
    esker_diff_destroy(None);
}

#[test]
fn null_handles_return_error_from_functions_on_keys_and_followers() {
    let (mut options, mut shown, mut report) = (esker_options_create(), 7, null_mut());
    let (mut position, mut lag, mut error) = (7, null_mut(), null_mut());
    refused! {
        esker_options_set_key(None, null(), 0);
        esker_options_set_key(Some(&mut options), null(), 32);
        esker_options_set_key_file(None, c"key".as_ptr());
        esker_options_set_key_file(Some(&mut options), null());
        esker_options_set_key_source(None, null_mut(), None, None);
        esker_options_set_key_source(Some(&mut options), null_mut(), None, None);
        esker_rekey(null(), Some(&options), Some(&options), Some(&mut report));
        esker_rekey(c"db".as_ptr(), None, Some(&options), None);
        esker_rekey(c"db".as_ptr(), Some(&options), None, None);
        esker_follow(null(), None, Some(&mut null_mut()));
        esker_follow(c"db".as_ptr(), None, None);
        esker_follower_db(None, Some(&mut null_mut()));
        esker_follower_catch_up(None, Some(&mut position));
        esker_follower_catch_up_every(None, 1);
        esker_follower_wait_for(None, 1, 0, Some(&mut shown));
        esker_follower_wait_for(None, 1, 0, None);
        esker_follower_lag(None, Some(&mut lag), Some(&mut error));
        esker_follower_promote(None, Some(&mut null_mut()));
    }
    assert!(shown == 0 && position == 7 && report.is_null() && lag.is_null() && error.is_null());
    assert_eq!(esker_follower_position(None), 0);
    esker_follower_destroy(None);
    // An empty key is no key, and options without a key change none.
    let (mut message, mut made) = (null_mut(), null_mut());
    // SAFETY: null pointers and borrowed texts, which the contract allows.
    unsafe {
        let empty = esker_options_set_key(Some(&mut options), null(), 0, Some(&mut message));
        assert!(empty == INVALID && taken(&mut message).contains("64 hexadecimal digits"));
        let without = esker_rekey(
            c"db".as_ptr(),
            Some(&options),
            Some(&options),
            Some(&mut made),
            Some(&mut message),
        );
        assert!(without == INVALID && taken(&mut message).contains("the present key is missing"));
    }
}

#[test]
fn null_handles_return_error_from_functions_on_ingests() {
    refused! {
        esker_sorted_writer_create(null(), None, Some(&mut null_mut()));
        esker_sorted_writer_create(c"file".as_ptr(), None, None);
        esker_sorted_writer_put(None, null(), 0, null(), 0);
        esker_sorted_writer_put_with_ttl(None, null(), 0, null(), 0, 0);
        esker_sorted_writer_merge(None, null(), 0, null(), 0);
        esker_sorted_writer_delete(None, null(), 1);
        esker_sorted_writer_finish(None, None);
        esker_ingest(None, null(), 0, 0, 0, None);
        esker_ingest(None, null(), 1, 0, 0, None);
        esker_ingest(None, [null()].as_ptr(), 1, 0, 0, None);
        esker_keyspace_ingest(None, null(), 0, 0, 0, None);
        esker_bulk_load(None, null_mut(), None, None);
        esker_keyspace_bulk_load(None, null_mut(), None, None);
    }
    assert_eq!(esker_sorted_writer_entries(None), 0);
    esker_sorted_writer_destroy(None);
}

#[test]
fn null_handles_return_error_from_functions_that_observe_and_share() {
    let (mut options, mut runtime_options) =
        (esker_options_create(), esker_runtime_options_create());
    let (mut text, name) = (null_mut(), c"stores".as_ptr());
    refused! {
        esker_runtime_options_set(None, c"threads_max".as_ptr(), c"3".as_ptr());
        esker_runtime_options_set(Some(&mut runtime_options), null(), null());
        esker_runtime_create(None, None);
        esker_runtime_metric(None, name, Some(&mut 0));
        esker_runtime_metric(None, name, None);
        esker_options_add_listener(None, null_mut(), None, None);
        esker_options_add_listener(Some(&mut options), null_mut(), None, None);
        esker_options_set_clock(None, null_mut(), None, None);
        esker_options_set_clock(Some(&mut options), null_mut(), None, None);
        esker_stall(None, Some(&mut null_mut()));
        esker_stall(None, None);
        esker_recovery_notes(None, Some(&mut text));
        esker_recovery_notes(None, None);
        esker_live_status(null(), None, Some(&mut text), None);
        esker_live_status(c"x".as_ptr(), None, None, None);
        esker_store_id(None, Some(&mut 0));
        esker_run_one_job(None, None);
        esker_write_within(None, None, 0, 0);
        esker_transaction_merge(None, null(), 0, null(), 0);
        esker_transaction_merge_in(None, None, null(), 0, null(), 0);
        esker_transaction_put_with_ttl(None, null(), 0, null(), 0, 0);
        esker_transaction_put_with_ttl_in(None, None, null(), 0, null(), 0, 0);
    }
    assert!(text.is_null());
    esker_options_set_runtime(None, None);
    esker_options_set_runtime(Some(&mut options), None);
    esker_runtime_options_destroy(None);
    esker_runtime_destroy(None);
    esker_stall_destroy(None);
    esker_perf_enable(0);
    assert!(taken(&mut esker_perf_take()).contains("wal_syncs 0"));
    esker_runtime_options_destroy(Some(runtime_options));
    esker_options_destroy(Some(options));
}

#[test]
fn null_handles_return_error_from_backup_functions() {
    refused! {
        esker_backup(None, c"x".as_ptr(), 0, None, None);
        esker_backup(None, null(), 0, None, None);
        esker_backups(null(), None, null_mut(), None);
        esker_backups(c"x".as_ptr(), None, null_mut(), None);
        esker_prune_backups(null(), None, 1, None);
        esker_restore(null(), 0, c"x".as_ptr(), None, None);
        esker_restore(c"x".as_ptr(), 0, null(), None, None);
    }
}

#[test]
fn null_handles_return_error_from_transaction_functions() {
    let (mut value, mut len, mut iter) = (null_mut(), 0, null_mut());
    refused! {
        esker_transaction_options_set_isolation(None, 0);
        esker_transaction_options_set_concurrency(None, 0);
        esker_transaction_options_set_lock_timeout_ms(None, 0);
        esker_transaction_options_set_durability(None, 0);
        esker_transaction_begin(None, None, Some(&mut null_mut()));
        esker_transaction_begin(None, None, None);
        esker_transaction_savepoint(None);
        esker_transaction_rollback_to_savepoint(None);
        esker_transaction_pop_savepoint(None);
        esker_transaction_commit(None);
        esker_transaction_rollback(None);
        esker_transaction_prepare(None, c"x".as_ptr());
        esker_prepared_transactions(None, null_mut(), None);
        esker_commit_prepared(None, c"x".as_ptr());
        esker_rollback_prepared(None, null());
        esker_transaction_get(None, null(), 0, Some(&mut value), Some(&mut len));
        esker_transaction_get(None, null(), 0, None, None);
        esker_transaction_get_in(None, None, null(), 0, Some(&mut value), Some(&mut len));
        esker_transaction_get_for_update(None, null(), 1, Some(&mut value), Some(&mut len));
        esker_transaction_get_for_update_in(None, None, null(), 0, Some(&mut value), None);
        esker_transaction_put(None, null(), 0, null(), 0);
        esker_transaction_put_in(None, None, null(), 0, null(), 0);
        esker_transaction_delete(None, null(), 0);
        esker_transaction_delete_in(None, None, null(), 0);
        esker_transaction_delete_range(None, null(), 0, null(), 0);
        esker_transaction_delete_range_in(None, None, null(), 0, null(), 0);
        esker_transaction_iter_create(None, null(), 0, null(), 0, Some(&mut iter));
        esker_transaction_iter_create(None, null(), 0, null(), 0, None);
        esker_transaction_iter_create_in(None, None, null(), 0, null(), 0, Some(&mut iter));
    }
    assert!(value.is_null() && iter.is_null());
}

#[test]
fn null_transactions_are_ignored_by_functions_without_error_code() {
    assert_eq!(esker_transaction_id(None), 0);
    esker_transaction_destroy(None);
    esker_transaction_options_destroy(None);
    esker_transaction_options_destroy(Some(esker_transaction_options_create()));
}
