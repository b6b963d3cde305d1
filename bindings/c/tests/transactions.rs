//! Transactions through the C interface: what they see, their conflicts and locks, their end, and
//! what wrong uses of a handle get.
//!
//! Invariants: each handle is freed once, and each code is checked.

#[allow(dead_code, reason = "these tests use a part of the helpers")]
mod common;
#[allow(dead_code, reason = "as above")]
mod keyspace_handles;
mod transaction_handles;

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use common::taken;
use esker_c::own::iter::*;
use esker_c::own::options::*;
use esker_c::own::store::*;
use esker_c::own::transaction::*;
use keyspace_handles::{Refused, Store, options_in};
use transaction_handles::{Txn, kind, put, value_of};

const OK: i32 = 0;
const INVALID: i32 = 1;
const READ_ONLY: i32 = 7;
const CLOSED: i32 = 8;
const NOT_FOUND: i32 = 10;
const CONFLICT: i32 = 11;
const BUSY: i32 = 12;
const DEADLOCK: i32 = 13;

/// Returns the code of a result.
fn code<T>(result: Result<T, Refused>) -> i32 {
    result.err().map_or(OK, |(code, _)| code)
}

#[test]
fn transaction_sees_its_own_writes_and_others_see_them_after_the_commit() {
    let store = Store::new();
    let space = store.keyspace("space", None).unwrap();
    for key in ["a", "c", "e"] {
        put(&store, key, "1");
        assert_eq!(space.put(key, "1"), OK);
    }
    let t = Txn::begin(&store, None);
    put(&store, "late", "1");
    t.put(None, "b", "2").unwrap();
    t.delete(None, "c").unwrap();
    t.put(Some(&space), "b", "2").unwrap();
    t.delete_range(Some(&space), "c", "e").unwrap();
    t.delete(Some(&space), "a").unwrap();
    assert_eq!(t.keys(None), ["a", "b", "e"]);
    assert_eq!(t.keys(Some(&space)), ["b", "e"]);
    assert_eq!(t.value(None, "b").unwrap(), "2");
    assert_eq!(t.value(None, "c").unwrap(), "none");
    assert_eq!(t.value(None, "late").unwrap(), "none");
    assert_eq!(t.value_for_update(Some(&space), "e").unwrap(), "1");
    assert_eq!((value_of(&store, "b"), value_of(&store, "c")), ("none".into(), "1".into()));
    assert_eq!(space.keys(), ["a", "c", "e"]);
    t.delete_range(None, "e", "f").unwrap();
    t.commit().unwrap();
    assert_eq!(space.keys(), ["b", "e"]);
    let after = Txn::begin(&store, None);
    assert_eq!(after.keys(None), ["a", "b", "late"]);
    assert!(after.id() > t.id() && t.id() > 0);
    after.rollback().unwrap();
    drop(Txn::begin(&store, None));
}

#[test]
fn first_committer_wins_and_only_serializable_reads_are_protected() {
    let store = Store::new();
    put(&store, "x", "1");
    let (first, second) = (Txn::begin(&store, None), Txn::begin(&store, None));
    first.put(None, "x", "2").unwrap();
    second.put(None, "x", "3").unwrap();
    second.put(None, "y", "3").unwrap();
    first.commit().unwrap();
    let (code_of, text) = second.commit().unwrap_err();
    assert!(code_of == CONFLICT && text.contains("run the transaction again"), "{text}");
    assert_eq!((value_of(&store, "x"), value_of(&store, "y")), ("2".into(), "none".into()));

    for (serializable, expected) in [(false, OK), (true, CONFLICT)] {
        let t = Txn::begin(&store, Some(&kind(serializable, false, 0)));
        assert_eq!(t.value(None, "x").unwrap(), "2");
        put(&store, "x", "2");
        t.put(None, "z", "1").unwrap();
        assert_eq!(code(t.commit()), expected);
    }
    let t = Txn::begin(&store, None);
    assert_eq!(t.value_for_update(None, "x").unwrap(), "2");
    put(&store, "x", "2");
    t.put(None, "z", "1").unwrap();
    assert_eq!(code(t.commit()), CONFLICT, "a read for an update is protected");
}

#[test]
fn savepoints_nest_and_missing_ones_are_reported() {
    let store = Store::new();
    let t = Txn::begin(&store, None);
    assert_eq!(code(t.rollback_to_savepoint()), NOT_FOUND);
    t.put(None, "a", "1").unwrap();
    t.savepoint().unwrap();
    t.put(None, "a", "2").unwrap();
    t.savepoint().unwrap();
    t.delete(None, "a").unwrap();
    t.rollback_to_savepoint().unwrap();
    assert_eq!(t.value(None, "a").unwrap(), "2");
    t.savepoint().unwrap();
    t.put(None, "b", "3").unwrap();
    t.pop_savepoint().unwrap();
    t.rollback_to_savepoint().unwrap();
    assert_eq!((t.value(None, "a").unwrap(), t.keys(None).len()), ("1".into(), 1));
    assert_eq!(code(t.pop_savepoint()), NOT_FOUND);
    t.commit().unwrap();
    assert_eq!(value_of(&store, "a"), "1");
}

#[test]
fn iterator_sees_writes_ahead_of_it_and_fails_after_the_end() {
    let store = Store::new();
    put(&store, "a", "1");
    let t = Txn::begin(&store, None);
    let iter = t.iter(None).unwrap();
    let mut message = null_mut();
    // SAFETY: alive; freed at the end.
    unsafe {
        esker_iter_seek_to_first(iter.as_mut());
        t.put(None, "b", "2").unwrap();
        esker_iter_next(iter.as_mut());
        let mut len = 0;
        let key = esker_iter_key(iter.as_ref(), Some(&mut len));
        assert_eq!(std::slice::from_raw_parts(key, len), b"b");
        t.commit().unwrap();
        esker_iter_prev(iter.as_mut());
        assert_eq!(esker_iter_valid(iter.as_ref()), 0);
        assert_eq!(esker_iter_failure(iter.as_ref(), Some(&mut message)), INVALID);
        assert!(taken(&mut message).contains("was committed"));
        esker_iter_seek_to_first(iter.as_mut());
        assert_eq!(esker_iter_failure(iter.as_ref(), None), INVALID);
        drop(t);
        esker_iter_seek_to_last(iter.as_mut());
        assert_eq!(esker_iter_failure(iter.as_ref(), None), INVALID);
        esker_iter_destroy(Some(Box::from_raw(iter)));
    }
}

/// A call that ends a transaction.
type End = fn(&Txn) -> Result<(), Refused>;

/// Returns the codes of all calls on a transaction.
fn every_call(t: &Txn) -> Vec<i32> {
    vec![
        code(t.value(None, "k")),
        code(t.value_for_update(None, "k")),
        code(t.put(None, "k", "v")),
        code(t.delete(None, "k")),
        code(t.delete_range(None, "a", "b")),
        code(t.iter(None)),
        code(t.savepoint()),
        code(t.rollback_to_savepoint()),
        code(t.pop_savepoint()),
        code(t.prepare("name")),
        code(t.commit()),
        code(t.rollback()),
    ]
}

#[test]
fn calls_after_the_end_are_refused_and_say_how_it_ended() {
    let store = Store::new();
    let ends: [(End, &str); 3] = [
        (Txn::commit, "was committed"),
        (Txn::rollback, "was rolled back"),
        (|t| t.prepare("some"), "was prepared"),
    ];
    for (end, text) in ends {
        let t = Txn::begin(&store, None);
        t.put(None, "k", "v").unwrap();
        end(&t).unwrap();
        assert_eq!(every_call(&t), [INVALID; 12], "{text}");
        let (_, message) = t.commit().unwrap_err();
        assert!(message.contains(text) && message.contains("_begin"), "{message}");
    }
    let t = Txn::begin(&store, None);
    t.put(None, "other", "v").unwrap();
    put(&store, "other", "w");
    assert_eq!(code(t.commit()), CONFLICT);
    let (_, message) = t.put(None, "other", "v").unwrap_err();
    assert!(message.contains("was rolled back"), "{message}");
}

#[test]
fn transactions_of_a_closed_store_are_refused_and_freed_later() {
    let memory = esker_memory_create();
    let options = options_in(&memory);
    let store = Store::open(&options).unwrap();
    let (t, pessimistic) =
        (Txn::begin(&store, None), Txn::begin(&store, Some(&kind(true, true, 1000))));
    t.put(None, "k", "v").unwrap();
    pessimistic.put(None, "l", "v").unwrap();
    let iter = t.iter(None).unwrap();
    // SAFETY: alive.
    assert_eq!(unsafe { esker_close(store.get(), None) }, OK);
    assert_eq!(every_call(&t), [CLOSED; 12]);
    assert_eq!(every_call(&pessimistic), [CLOSED; 12]);
    drop(store);
    let again = Store::open(&options).unwrap();
    assert_eq!(every_call(&t), [CLOSED; 12]);
    assert_eq!((value_of(&again, "k"), value_of(&again, "l")), ("none".into(), "none".into()));
    drop((t, pessimistic));
    // SAFETY: created by the library, freed only here.
    esker_iter_destroy(Some(unsafe { Box::from_raw(iter) }));
    put(&again, "k", "w");
}

#[test]
fn keyspaces_of_another_store_or_opening_and_dropped_ones_are_refused() {
    let memory = esker_memory_create();
    let options = options_in(&memory);
    let store = Store::open(&options).unwrap();
    let earlier = store.keyspace("space", None).unwrap();
    drop(store);
    let (store, other) = (Store::open(&options).unwrap(), Store::new());
    let foreign = other.keyspace("space", None).unwrap();
    for concurrency in [false, true] {
        let t = Txn::begin(&store, Some(&kind(false, concurrency, 0)));
        for space in [&earlier, &foreign] {
            let (code_of, text) = t.put(Some(space), "k", "v").unwrap_err();
            assert!(code_of == INVALID && text.contains("another"), "{text}");
            assert_eq!(code(t.value(Some(space), "k")), INVALID);
            assert_eq!(code(t.iter(Some(space))), INVALID);
            assert_eq!(code(t.delete_range(Some(space), "a", "b")), INVALID);
        }
        let space = store.keyspace("dropped", None).unwrap();
        t.put(Some(&space), "k", "v").unwrap();
        t.put(None, "k", "v").unwrap();
        store.drop_keyspace("dropped").unwrap();
        assert_eq!(code(t.put(Some(&space), "k", "v")), NOT_FOUND);
        assert_eq!(code(t.commit()), NOT_FOUND);
        assert_eq!(value_of(&store, "k"), "none");
    }
}

#[test]
fn locked_keys_are_busy_until_their_holder_ends() {
    let store = Store::new();
    let options = kind(false, true, 0);
    let (holder, other) = (Txn::begin(&store, Some(&options)), Txn::begin(&store, Some(&options)));
    holder.put(None, "k", "1").unwrap();
    let (code_of, text) = other.put(None, "k", "2").unwrap_err();
    assert!(code_of == BUSY && text.contains(&holder.id().to_string()), "{text}");
    assert_eq!(code(other.value_for_update(None, "k")), BUSY);
    assert_eq!(code(other.delete_range(None, "a", "z")), BUSY);
    assert_eq!(other.value(None, "k").unwrap(), "none", "a plain read takes no lock");
    holder.rollback().unwrap();
    other.put(None, "k", "2").unwrap();
    other.commit().unwrap();
    assert_eq!(value_of(&store, "k"), "2");
}

#[test]
fn deadlock_fails_one_of_the_two_and_the_other_commits() {
    let store = Store::new();
    let options = kind(false, true, 600_000);
    let (one, two) = (Txn::begin(&store, Some(&options)), Txn::begin(&store, Some(&options)));
    one.put(None, "a", "1").unwrap();
    two.put(None, "b", "2").unwrap();
    let cross = |t: &Txn, key: &str| match t.put(None, key, "both") {
        Ok(()) => code(t.commit()),
        Err((code, text)) => {
            assert!(text.contains(&one.id().to_string()), "{text}");
            t.rollback().unwrap();
            code
        }
    };
    let mut codes = std::thread::scope(|scope| {
        let thread = scope.spawn(|| cross(&one, "b"));
        [cross(&two, "a"), thread.join().unwrap()]
    });
    codes.sort_unstable();
    assert_eq!(codes, [OK, DEADLOCK]);
    assert!(value_of(&store, "a") == "both" || value_of(&store, "b") == "both");
}

#[test]
fn second_thread_is_refused_during_a_call_and_a_close_ends_the_wait() {
    let store = Store::new();
    let options = kind(false, true, u64::MAX);
    let (holder, waiter) = (Txn::begin(&store, Some(&options)), Txn::begin(&store, Some(&options)));
    holder.put(None, "k", "1").unwrap();
    let waited = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            loop {
                // A call of the main thread may be running.
                match waiter.put(None, "k", "2").unwrap_err() {
                    (INVALID, text) => assert!(text.contains("another thread"), "{text}"),
                    refused => return refused,
                }
            }
        });
        // Until the call of the thread waits for the lock, this succeeds.
        let (code, text) = loop {
            if let Err(refused) = waiter.savepoint() {
                break refused;
            }
            std::thread::yield_now();
        };
        assert!(code == INVALID && text.contains("another thread"), "{text}");
        // SAFETY: alive.
        assert_eq!(unsafe { esker_close(store.get(), None) }, OK);
        thread.join().unwrap()
    });
    assert_eq!(waited.0, CLOSED, "{}", waited.1);
    assert_eq!(code(waiter.commit()), CLOSED);
}

unsafe extern "C" fn keep_name(state: *mut c_void, name: *const u8, len: usize) {
    // SAFETY: the state is a list; the name is valid during the call.
    unsafe {
        let name = std::slice::from_raw_parts(name, len).to_vec();
        (*state.cast::<Vec<String>>()).push(String::from_utf8(name).unwrap());
    }
}

fn prepared(store: &Store) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the list outlives the call.
    let code = unsafe {
        let state = (&raw mut names).cast();
        esker_prepared_transactions(store.get(), state, Some(keep_name), None)
    };
    assert_eq!(code, OK);
    names
}

fn resolve(store: &Store, name: &CStr, commits: bool) -> i32 {
    // SAFETY: a borrowed string.
    unsafe {
        match commits {
            true => esker_commit_prepared(store.get(), name.as_ptr(), None),
            false => esker_rollback_prepared(store.get(), name.as_ptr(), None),
        }
    }
}

#[test]
fn prepared_transactions_are_listed_and_ended_after_reopening() {
    let memory = esker_memory_create();
    let options = options_in(&memory);
    let store = Store::open(&options).unwrap();
    for name in ["two", "one"] {
        let t = Txn::begin(&store, None);
        t.put(None, name, "v").unwrap();
        t.prepare(name).unwrap();
    }
    let wrong = Txn::begin(&store, None);
    wrong.put(None, "k", "v").unwrap();
    assert_eq!(code(wrong.prepare("one")), INVALID, "the name is in use");
    let late = Txn::begin(&store, None);
    late.put(None, "one", "w").unwrap();
    assert_eq!(code(late.commit()), CONFLICT);
    drop((store, wrong, late));
    let store = Store::open(&options).unwrap();
    assert_eq!(prepared(&store), ["one", "two"]);
    assert_eq!(value_of(&store, "one"), "none");
    assert_eq!((resolve(&store, c"one", true), resolve(&store, c"two", false)), (OK, OK));
    assert_eq!(resolve(&store, c"one", true), NOT_FOUND);
    assert_eq!((value_of(&store, "one"), value_of(&store, "two")), ("v".into(), "none".into()));
    assert!(prepared(&store).is_empty());
}

#[test]
fn wrong_options_and_arguments_change_nothing() {
    let store = Store::new();
    let mut options = esker_transaction_options_t::default();
    let mut message = null_mut();
    // SAFETY: no buffers are passed.
    unsafe {
        for number in [-1, 2, i32::MAX] {
            let set = [
                esker_transaction_options_set_isolation(Some(&mut options), number, None),
                esker_transaction_options_set_concurrency(Some(&mut options), number, None),
            ];
            assert_eq!(set, [INVALID; 2]);
        }
        let (o, place) = (Some(&mut options), Some(&mut message));
        assert_eq!(esker_transaction_options_set_durability(o, 9, place), INVALID);
        assert!(taken(&mut message).contains("durability 9"));
        let o = Some(&mut options);
        assert_eq!(esker_transaction_options_set_durability(o, 3, None), OK);
    }
    let t = Txn::begin(&store, Some(&options));
    let long = "x".repeat(esker::internals::KEY_BYTES_MAX + 1);
    assert_eq!(code(t.put(None, &long, "v")), INVALID);
    assert_eq!(code(t.value_for_update(None, &long)), INVALID);
    assert_eq!(code(t.delete_range(None, "a", &long)), INVALID);
    assert_eq!(t.keys(None).len(), 0);
    t.put(None, "", "").unwrap();
    t.commit().unwrap();
    assert_eq!(value_of(&store, ""), "");
    for name in ["", "n".repeat(256).as_str()] {
        let t = Txn::begin(&store, None);
        t.put(None, "k", "v").unwrap();
        assert_eq!(code(t.prepare(name)), INVALID);
        assert_eq!(code(t.commit()), INVALID, "it was rolled back");
    }
}

#[test]
fn read_only_store_has_transactions_that_read() {
    let memory = esker_memory_create();
    let options = options_in(&memory);
    let store = Store::open(&options).unwrap();
    put(&store, "k", "v");
    let (mut db, mut t) = (null_mut(), null_mut());
    // SAFETY: borrowed strings; handles are freed at the end.
    unsafe {
        let path = c"/store".as_ptr();
        assert_eq!(esker_open_read_only(path, Some(&options), Some(&mut db), None), OK);
        assert_eq!(esker_transaction_begin(db.as_ref(), None, Some(&mut t), None), OK);
        let (k, t_ref) = (b"k".as_ptr(), t.as_ref());
        let put = esker_c::own::transaction_data::esker_transaction_put;
        assert_eq!(put(t_ref, k, 1, k, 1, None), READ_ONLY);
        assert_eq!(esker_transaction_commit(t_ref, None), OK);
        esker_db_destroy(Some(Box::from_raw(db)));
        esker_transaction_destroy(Some(Box::from_raw(t)));
    }
}
