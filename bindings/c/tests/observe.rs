//! Runtimes, listeners, clocks and stalls through the C interface, and what a store tells.
//!
//! Invariants: no assertion depends on a duration; what a test waits for is made by the test.

#[allow(dead_code, reason = "these tests use a part of the helpers")]
mod common;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};

use common::{c_path, taken};
use esker_c::own::batch::*;
use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::keyspace::*;
use esker_c::own::merge_and_ttl::*;
use esker_c::own::observe::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::runtime::*;
use esker_c::own::store::*;
use esker_c::own::transaction::*;
use esker_c::own::transaction_data::*;

const OK: i32 = 0;
const INVALID: i32 = 1;
const NOT_FOUND: i32 = 10;
const BUSY: i32 = 12;

/// Opens a store, or fails with its message.
fn open(path: &Path, options: &esker_options_t) -> *mut esker_db_t {
    let (mut db, mut message) = (null_mut(), null_mut());
    let path = c_path(path);
    // SAFETY: borrowed for the call.
    let code =
        unsafe { esker_open(path.as_ptr(), Some(options), Some(&mut db), Some(&mut message)) };
    assert_eq!(code, OK, "{}", taken(&mut message));
    db
}

/// Closes and frees a store.
fn close(db: *mut esker_db_t) {
    // SAFETY: opened by `open`, freed once.
    unsafe {
        assert_eq!(esker_close(db.as_ref(), None), OK);
        esker_db_destroy(Some(Box::from_raw(db)));
    }
}

fn set(options: &mut esker_options_t, name: &CStr, value: &CStr) {
    // SAFETY: borrowed strings.
    let code = unsafe { esker_options_set(Some(options), name.as_ptr(), value.as_ptr(), None) };
    assert_eq!(code, OK, "{name:?}");
}

fn put(db: *mut esker_db_t, key: &[u8], value: &[u8]) -> i32 {
    let (k, v) = ((key.as_ptr(), key.len()), (value.as_ptr(), value.len()));
    // SAFETY: borrowed buffers.
    unsafe { esker_put(db.as_ref(), k.0, k.1, v.0, v.1, 0, None) }
}

fn get(db: *mut esker_db_t, key: &[u8]) -> Option<Vec<u8>> {
    let (mut value, mut len) = (null_mut(), 0);
    // SAFETY: borrowed buffers; the value has `len` bytes and is freed once.
    unsafe {
        let places = (Some(&mut value), Some(&mut len));
        let code = esker_get(db.as_ref(), None, key.as_ptr(), key.len(), places.0, places.1, None);
        assert_eq!(code, OK);
        let found = (!value.is_null()).then(|| std::slice::from_raw_parts(value, len).to_vec());
        esker_free(value.cast());
        found
    }
}

#[test]
fn stores_share_a_runtime_that_outlives_its_handle() {
    let dir = tempfile::tempdir().unwrap();
    let mut chosen = esker_runtime_options_create();
    let (mut runtime, mut message, mut value) = (null_mut(), null_mut(), 7);
    // SAFETY: borrowed strings and places; the handle is freed once.
    unsafe {
        for (name, text) in
            [(c"memory_budget_bytes", c"64MiB"), (c"threads_max", c"4"), (c"cache_policy", c"lru")]
        {
            let (name, text) = (name.as_ptr(), text.as_ptr());
            assert_eq!(esker_runtime_options_set(Some(&mut chosen), name, text, None), OK);
        }
        let name = c"threads".as_ptr();
        let place = Some(&mut message);
        let code = esker_runtime_options_set(Some(&mut chosen), name, c"4".as_ptr(), place);
        assert_eq!(code, INVALID);
        assert!(taken(&mut message).contains("threads_max"));
        let budget = c"memory_budget_bytes".as_ptr();
        assert_eq!(
            esker_runtime_options_set(Some(&mut chosen), budget, c"1KiB".as_ptr(), None),
            OK
        );
        let place = (Some(&mut runtime), Some(&mut message));
        assert_eq!(esker_runtime_create(Some(&chosen), place.0, place.1), INVALID);
        assert!(runtime.is_null() && taken(&mut message).contains("memory_budget_bytes"));
        assert_eq!(
            esker_runtime_options_set(Some(&mut chosen), budget, c"64MiB".as_ptr(), None),
            OK
        );
        assert_eq!(esker_runtime_create(Some(&chosen), Some(&mut runtime), None), OK);
    }
    esker_runtime_options_destroy(Some(chosen));
    let mut options = esker_options_create();
    // SAFETY: a live runtime.
    esker_options_set_runtime(Some(&mut options), unsafe { runtime.as_ref() });
    let stores = ["a", "b"].map(|name| open(&dir.path().join(name), &options));
    let mut metric = |name: &CStr| {
        // SAFETY: a live runtime, borrowed strings and places.
        unsafe {
            let place = Some(&mut value);
            assert_eq!(esker_runtime_metric(runtime.as_ref(), name.as_ptr(), place, None), OK);
        }
        value
    };
    assert_eq!((metric(c"stores"), metric(c"budget_bytes")), (2, 64 << 20));
    // SAFETY: as above; freed once.
    unsafe {
        let place = (Some(&mut value), Some(&mut message));
        let code = esker_runtime_metric(runtime.as_ref(), c"store".as_ptr(), place.0, place.1);
        assert_eq!(code, INVALID);
        assert!(taken(&mut message).contains("budget_bytes"));
        esker_runtime_destroy(Some(Box::from_raw(runtime)));
    }
    esker_options_destroy(Some(options));
    for db in stores {
        assert_eq!(put(db, b"key", b"value"), OK);
        // SAFETY: an open store.
        assert_eq!(unsafe { esker_flush(db.as_ref(), None) }, OK);
        assert_eq!(get(db, b"key").as_deref(), Some(&b"value"[..]));
        close(db);
    }
}

/// Kind, written bytes, text, name and new name of an event.
type Row = (i32, u64, String, String, String);

/// What a listener has received.
#[derive(Default)]
struct Heard {
    db: AtomicPtr<esker_db_t>,
    codes: Mutex<Vec<i32>>,
    events: Mutex<Vec<Row>>,
    freed: AtomicU32,
}

unsafe extern "C" fn hear(state: *mut c_void, event: *const esker_event_t) {
    // SAFETY: the state outlives the store; the event and its texts are valid during the call.
    unsafe {
        let (heard, event) = (&*state.cast::<Heard>(), &*event);
        let text = |text: *const c_char| match text.is_null() {
            true => String::new(),
            false => CStr::from_ptr(text).to_str().unwrap().to_string(),
        };
        assert!(!event.text.is_null());
        let texts = (text(event.text), text(event.name), text(event.new_name));
        let row = (event.kind, event.written_bytes, texts.0, texts.1, texts.2);
        heard.events.lock().unwrap().push(row);
        if let Some(db) = heard.db.load(SeqCst).as_ref() {
            let codes = [
                esker_put(Some(db), b"k".as_ptr(), 1, null(), 0, 0, None),
                esker_flush(Some(db), None),
                esker_close(Some(db), None),
            ];
            heard.codes.lock().unwrap().extend(codes);
        }
    }
}

unsafe extern "C" fn count_freed(state: *mut c_void) {
    // SAFETY: the state outlives the store.
    unsafe { (*state.cast::<Heard>()).freed.fetch_add(1, SeqCst) };
}

#[test]
fn listener_receives_events_in_order_and_cannot_use_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let heard = Heard::default();
    let state = std::ptr::from_ref(&heard).cast_mut().cast();
    let mut options = esker_options_create();
    // SAFETY: the state outlives the options and the store.
    let added = unsafe {
        let o = Some(&mut *options);
        esker_options_add_listener(o, state, Some(count_freed), Some(hear), None)
    };
    assert_eq!(added, OK);
    let db = open(&dir.path().join("db"), &options);
    esker_options_destroy(Some(options));
    assert_eq!(heard.freed.load(SeqCst), 0);
    let mut keyspace = null_mut();
    // SAFETY: an open store, borrowed strings; the keyspace is freed once.
    unsafe {
        let (db, name) = (db.as_ref(), c"users".as_ptr());
        assert_eq!(esker_keyspace_open(db, name, None, Some(&mut keyspace), None), OK);
        esker_keyspace_close(Some(Box::from_raw(keyspace)));
        assert_eq!(esker_keyspace_rename(db, name, c"people".as_ptr(), None), OK);
    }
    heard.db.store(db, SeqCst);
    assert_eq!(put(db, b"key", b"value"), OK);
    // SAFETY: an open store.
    let codes = unsafe { [esker_flush(db.as_ref(), None), esker_wait_idle(db.as_ref(), None)] };
    assert_eq!(codes, [OK; 2]);
    heard.db.store(null_mut(), SeqCst);
    close(db);
    assert_eq!(heard.freed.load(SeqCst), 1);
    let codes = heard.codes.lock().unwrap();
    assert!(!codes.is_empty() && codes.iter().all(|code| *code == INVALID), "{codes:?}");
    let events = heard.events.lock().unwrap();
    let kinds: Vec<i32> = events.iter().map(|event| event.0).collect();
    let at =
        |kind: i32| kinds.iter().position(|k| *k == kind).unwrap_or_else(|| panic!("{kinds:?}"));
    assert_eq!(at(ESKER_EVENT_OPENED), 0);
    assert!(at(ESKER_EVENT_KEYSPACE_CREATED) < at(ESKER_EVENT_KEYSPACE_RENAMED));
    assert!(at(ESKER_EVENT_FLUSH_BEGAN) < at(ESKER_EVENT_FLUSH_ENDED));
    assert_eq!(at(ESKER_EVENT_CLOSED), kinds.len() - 1);
    assert!(events[at(ESKER_EVENT_FLUSH_ENDED)].1 > 0);
    let renamed = &events[at(ESKER_EVENT_KEYSPACE_RENAMED)];
    assert_eq!((&*renamed.3, &*renamed.4), ("users", "people"));
    assert!(renamed.2.contains("people"), "{}", renamed.2);
}

#[test]
fn state_of_a_refused_listener_is_freed_at_once() {
    let heard = Heard::default();
    let state: *mut c_void = std::ptr::from_ref(&heard).cast_mut().cast();
    let mut options = esker_options_create();
    // SAFETY: the state outlives the calls.
    unsafe {
        let free: Option<unsafe extern "C" fn(*mut c_void)> = Some(count_freed);
        let refused = [
            esker_options_add_listener(Some(&mut options), state, free, None, None),
            esker_options_add_listener(None, state, free, Some(hear), None),
            esker_options_set_clock(Some(&mut options), state, free, None, None),
            esker_options_set_clock(None, state, free, Some(at_ten), None),
        ];
        assert_eq!(refused, [INVALID; 4]);
    }
    assert_eq!(heard.freed.load(SeqCst), 4);
    esker_options_destroy(Some(options));
}

unsafe extern "C" fn at_ten(_: *mut c_void) -> u64 {
    10
}

unsafe extern "C" fn told_time(state: *mut c_void) -> u64 {
    // SAFETY: the state outlives the store.
    unsafe { (*state.cast::<AtomicU64>()).load(SeqCst) }
}

#[test]
fn pairs_expire_by_the_clock_of_the_caller_also_in_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let now = AtomicU64::new(1_000);
    let mut options = esker_options_create();
    // SAFETY: borrowed strings and buffers; the state outlives the store; handles are freed once.
    unsafe {
        let state = std::ptr::from_ref(&now).cast_mut().cast();
        let (o, clock) = (Some(&mut *options), Some(told_time as _));
        assert_eq!(esker_options_set_clock(o, state, None, clock, None), OK);
        let name = c"append".as_ptr();
        assert_eq!(esker_options_set_merge_operator(Some(&mut options), name, None), OK);
        let db = open(&dir.path().join("db"), &options);
        let (mut keyspace, mut transaction) = (null_mut(), null_mut());
        let made = {
            let place = Some(&mut keyspace);
            let mut chosen = esker_keyspace_options_create();
            let o = Some(&mut *chosen);
            assert_eq!(esker_keyspace_options_set_merge_operator(o, name, None), OK);
            let made = esker_keyspace_open(db.as_ref(), c"k".as_ptr(), Some(&chosen), place, None);
            esker_keyspace_options_destroy(Some(chosen));
            made
        };
        assert_eq!(made, OK);
        assert_eq!(esker_transaction_begin(db.as_ref(), None, Some(&mut transaction), None), OK);
        let (t, k) = (transaction.as_ref(), keyspace.as_ref());
        let (one, two) = (b"1".as_ptr(), b"2".as_ptr());
        for code in [
            esker_transaction_put_with_ttl(t, b"a".as_ptr(), 1, one, 1, 50, None),
            esker_transaction_put_with_ttl_in(t, k, b"a".as_ptr(), 1, one, 1, 50, None),
            esker_transaction_put_with_ttl(t, b"b".as_ptr(), 1, one, 1, ESKER_NEVER_MS, None),
            esker_transaction_merge(t, b"b".as_ptr(), 1, two, 1, None),
            esker_transaction_merge_in(t, k, b"b".as_ptr(), 1, two, 1, None),
            esker_transaction_commit(t, None),
        ] {
            assert_eq!(code, OK);
        }
        esker_transaction_destroy(Some(Box::from_raw(transaction)));
        assert_eq!(get(db, b"a").as_deref(), Some(&b"1"[..]));
        assert_eq!(get(db, b"b").as_deref(), Some(&b"12"[..]));
        now.store(1_050, SeqCst);
        assert_eq!(get(db, b"a"), None);
        assert_eq!(get(db, b"b").as_deref(), Some(&b"12"[..]));
        let (mut found, a) = (1, b"a".as_ptr());
        assert_eq!(esker_keyspace_contains_of(k, a, &mut found), OK);
        assert_eq!(found, 0);
        assert_eq!(esker_keyspace_contains_of(k, b"b".as_ptr(), &mut found), OK);
        assert_eq!(found, 1);
        esker_keyspace_close(Some(Box::from_raw(keyspace)));
        close(db);
    }
    esker_options_destroy(Some(options));
}

/// Asks a keyspace for a key of one byte.
unsafe fn esker_keyspace_contains_of(
    keyspace: Option<&esker_keyspace_t>,
    key: *const u8,
    found: &mut u8,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        esker_c::own::keyspace_data::esker_keyspace_contains(
            keyspace,
            None,
            key,
            1,
            Some(found),
            None,
        )
    }
}

/// A gate that flushes pass, as part of their filter.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

/// Opens the gate also when a test fails.
struct OpenAtEnd<'a>(&'a Gate);

impl Drop for OpenAtEnd<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

unsafe extern "C" fn wait_at_gate(
    state: *mut c_void,
    _: *const *const c_char,
    _: *const usize,
    _: c_int,
    len: *mut usize,
) -> *mut c_char {
    // SAFETY: the state outlives the store; the filter is allocated with `malloc`.
    unsafe {
        let gate = &*state.cast::<Gate>();
        let mut is_open = gate.is_open.lock().unwrap();
        while !*is_open {
            is_open = gate.changed.wait(is_open).unwrap();
        }
        *len = 1;
        libc::calloc(1, 1).cast()
    }
}

unsafe extern "C" fn matches_all(
    _: *mut c_void,
    _: *const c_char,
    _: usize,
    _: *const c_char,
    _: usize,
) -> u8 {
    1
}

unsafe extern "C" fn gate_name(_: *mut c_void) -> *const c_char {
    c"test.gate".as_ptr()
}

#[test]
fn write_with_a_limit_returns_busy_with_the_stall() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    let mut options = esker_options_create();
    set(&mut options, c"memtable_size_bytes", c"64KiB");
    set(&mut options, c"frozen_memtables_max", c"1");
    // SAFETY: the state outlives the store.
    unsafe {
        let state = std::ptr::from_ref(&gate).cast_mut().cast();
        let (o, make) = (Some(&mut *options), Some(wait_at_gate as _));
        let (ask, name) = (Some(matches_all as _), Some(gate_name as _));
        assert_eq!(esker_options_set_filter(o, state, None, make, ask, name, None), OK);
    }
    let db = open(&dir.path().join("db"), &options);
    esker_options_destroy(Some(options));
    let _open = OpenAtEnd(&gate);
    let mut message = null_mut();
    let mut batch = esker_batch_create();
    let (mut written, mut code) = (0u32, OK);
    while code == OK {
        assert!(written < 100_000, "no write had to wait");
        let (key, value) = (written.to_be_bytes(), [7; 100]);
        esker_batch_clear(Some(&mut batch));
        // SAFETY: borrowed buffers.
        code = unsafe {
            let b = Some(&mut *batch);
            let added = esker_batch_put(b, key.as_ptr(), 4, value.as_ptr(), 100, None);
            assert_eq!(added, OK);
            esker_write_within(db.as_ref(), Some(&batch), 0, 20, Some(&mut message))
        };
        written += u32::from(code == OK);
    }
    let text = taken(&mut message);
    assert_eq!(code, BUSY, "{text}");
    let mut stall: *mut esker_stall_t = null_mut();
    // SAFETY: an open store; the stall is freed once.
    unsafe {
        assert_eq!(esker_stall(db.as_ref(), Some(&mut stall), None), OK);
        if let Some(found) = stall.as_ref() {
            let cause = CStr::from_ptr(found.cause).to_str().unwrap();
            assert!(!cause.is_empty() && !CStr::from_ptr(found.clears).is_empty(), "{cause}");
            esker_stall_destroy(Some(Box::from_raw(stall)));
        }
    }
    assert!(text.contains("written to tables"), "{text}");
    assert_eq!(get(db, &written.to_be_bytes()), None);
    gate.open();
    // SAFETY: an open store.
    unsafe {
        assert_eq!(esker_wait_idle(db.as_ref(), None), OK);
        assert_eq!(esker_write_within(db.as_ref(), Some(&batch), 0, u64::MAX, None), OK);
        assert_eq!(esker_write_within(db.as_ref(), Some(&batch), 9, 0, None), INVALID);
    }
    assert!(get(db, &written.to_be_bytes()).is_some());
    esker_batch_destroy(Some(batch));
    close(db);
}

#[test]
fn store_without_threads_runs_its_jobs_when_told_and_tells_about_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut options = esker_options_create();
    set(&mut options, c"background_threads", c"0");
    set(&mut options, c"memtable_size_bytes", c"64KiB");
    let db = open(&path, &options);
    for n in 0..2_000u32 {
        assert_eq!(put(db, &n.to_be_bytes(), &[1; 64]), OK);
    }
    let (mut ran, mut jobs, mut id, mut text) = (1, 0, 0, null_mut());
    // SAFETY: an open store, places for results; texts are freed.
    unsafe {
        while ran == 1 {
            assert_eq!(esker_run_one_job(db.as_ref(), Some(&mut ran), None), OK);
            jobs += u32::from(ran);
        }
        assert!(jobs > 0);
        assert_eq!(esker_store_id(db.as_ref(), Some(&mut id), None), OK);
        assert_eq!(esker_recovery_notes(db.as_ref(), Some(&mut text), None), OK);
        assert_eq!(taken(&mut text), "");
        let (mut snapshot, mut values, mut lens) = (null_mut(), [null_mut(); 2], [9usize; 2]);
        assert_eq!(esker_snapshot_create(db.as_ref(), Some(&mut snapshot), None), OK);
        assert_eq!(put(db, &1u32.to_be_bytes(), b"later"), OK);
        let keys = [1u32.to_be_bytes(), 9_999u32.to_be_bytes()];
        let starts = keys.each_ref().map(|key| key.as_ptr());
        let key_lens = [4usize; 2];
        esker_perf_enable(1);
        let code = esker_multi_get(
            db.as_ref(),
            snapshot.as_ref(),
            0,
            2,
            starts.as_ptr(),
            key_lens.as_ptr(),
            values.as_mut_ptr(),
            lens.as_mut_ptr(),
            None,
        );
        assert!(code == OK && lens == [64, 0] && !values[0].is_null() && values[1].is_null());
        esker_free(values[0].cast());
        esker_snapshot_destroy(Some(Box::from_raw(snapshot)));
        let mut counts = esker_perf_take();
        let counts = taken(&mut counts);
        assert!(counts.lines().any(|line| line == "gets 2"), "{counts}");
        esker_perf_enable(0);
        let mut counts = esker_perf_take();
        assert!(taken(&mut counts).starts_with("gets 0\n"));
    }
    assert_ne!(id, 0);
    close(db);
    esker_options_destroy(Some(options));
}

#[test]
fn status_of_an_open_store_is_read_from_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let options = esker_options_create();
    let (mut text, mut process) = (null_mut(), 0);
    let there: CString = c_path(&path);
    // SAFETY: borrowed strings and places; texts are freed.
    let mut status = |process: &mut u32| unsafe {
        let code = esker_live_status(there.as_ptr(), None, Some(&mut text), Some(process), None);
        (code, taken(&mut text))
    };
    assert_eq!(status(&mut process), (NOT_FOUND, String::new()));
    let db = open(&path, &options);
    assert_eq!(put(db, b"key", b"value"), OK);
    let began = std::time::Instant::now();
    let (code, shown) = loop {
        let (code, shown) = status(&mut process);
        if code == OK || began.elapsed().as_secs() > 120 {
            break (code, shown);
        }
        std::thread::yield_now();
    };
    assert_eq!(code, OK);
    assert!(shown.trim_end().ends_with("# EOF"), "{shown}");
    assert_eq!(process, std::process::id());
    close(db);
    esker_options_destroy(Some(options));
}

#[test]
fn parts_of_a_program_that_count_its_calls_nest() {
    let (dir, options) = (tempfile::tempdir().unwrap(), esker_options_create());
    let db = open(&dir.path().join("db"), &options);
    let gets = |count: u32| (0..count).for_each(|_| assert!(get(db, b"none").is_none()));
    let counted = || {
        let text = taken(&mut esker_perf_take());
        text.lines().next().unwrap().to_string()
    };
    esker_perf_enable(0);
    gets(1);
    assert_eq!(counted(), "gets 0");
    esker_perf_enable(1);
    gets(2);
    esker_perf_enable(255);
    gets(4);
    assert_eq!((counted().as_str(), counted().as_str()), ("gets 4", "gets 0"));
    gets(8);
    esker_perf_enable(0);
    gets(16);
    assert_eq!((counted().as_str(), counted().as_str()), ("gets 30", "gets 0"));
    esker_perf_enable(0);
    gets(32);
    assert_eq!(counted(), "gets 0");
    close(db);
    esker_options_destroy(Some(options));
}
