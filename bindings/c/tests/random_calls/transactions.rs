//! Random calls of the `esker_transaction_*` functions on one store with two keyspaces: several
//! transactions at once, with plain writes between them. The model predicts each result and each
//! conflict.
//!
//! Invariants:
//! 1. Every handle is freed once and not used afterwards. Transactions of earlier openings stay in
//!    use.
//! 2. No call waits: the lock timeout is 0, so a lock that another transaction has is `ESKER_BUSY`.

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::iter::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::merge_and_ttl::ESKER_NEVER_MS;
use esker_c::own::options::*;
use esker_c::own::store::*;
use esker_c::own::transaction::*;
use esker_c::own::transaction_data::*;

use super::model::{Content, Op, Rng};
use super::own::{backwards, backwards_name, count};
use predicted::{Item, Model};

mod predicted;
mod rest;

const OK: i32 = 0;
const INVALID: i32 = 1;
const CLOSED: i32 = 8;
const NOT_FOUND: i32 = 10;
const CONFLICT: i32 = 11;
const BUSY: i32 = 12;
const PATH: &CStr = c"/store";

/// A transaction and what is expected of it.
struct Handle {
    raw: *mut esker_transaction_t,
    /// Number of the opening that the transaction belongs to.
    opening: u32,
    model: Model,
}

/// One store with two keyspaces, and its transactions.
pub struct RandomCalls {
    rng: Rng,
    options: Box<esker_options_t>,
    db: *mut esker_db_t,
    closed: bool,
    openings: u32,
    /// The keyspace `default`, and one in reverse order.
    spaces: [*mut esker_keyspace_t; 2],
    /// A handle of the keyspace `default` of an earlier opening, or null.
    old_space: *mut esker_keyspace_t,
    contents: [Content; 2],
    /// The operations of this opening, in the order of their commits.
    log: Vec<(usize, Op)>,
    transactions: Vec<Handle>,
}

/// Returns the copy of a value, and frees the original.
fn taken(value: *mut u8, len: usize) -> Option<Vec<u8>> {
    if value.is_null() {
        return None;
    }
    // SAFETY: a value of the library with `len` bytes, freed once.
    unsafe {
        let copy = std::slice::from_raw_parts(value, len).to_vec();
        esker_free(value.cast());
        Some(copy)
    }
}

impl RandomCalls {
    /// Creates a world with an open store. `freed` counts the freed states of callbacks.
    pub fn new(seed: u64, freed: *mut u32) -> RandomCalls {
        let mut rng = Rng(seed);
        let memory = esker_memory_create();
        let mut options = esker_options_create();
        esker_options_set_memory(Some(&mut options), Some(&memory));
        esker_memory_destroy(Some(memory));
        let policy = [c"leveled", c"tiered", c"fragmented", c"lazy", c"fluid"][rng.below(5)];
        // SAFETY: borrowed strings; the counter outlives every store.
        unsafe {
            for (name, value) in [
                (c"background_threads", [c"0", c"0", c"1"][rng.below(3)]),
                (c"memtable_size_bytes", [c"4KiB", c"64KiB"][rng.below(2)]),
                (c"file_size_max_bytes", c"4KiB"),
                (c"memory_budget_bytes", c"16MiB"),
                (c"policy", policy),
            ] {
                let (n, v) = (name.as_ptr(), value.as_ptr());
                assert_eq!(esker_options_set(Some(&mut options), n, v, None), OK, "{name:?}");
            }
            let (o, state) = (Some(&mut *options), freed.cast());
            let (order, name) = (Some(backwards as _), Some(backwards_name as _));
            assert_eq!(
                esker_options_add_comparator(o, state, Some(count), order, 0, name, None),
                OK
            );
        }
        let reversed = Content { backwards: true, pairs: Vec::new() };
        let mut world = RandomCalls {
            rng,
            options,
            db: null_mut(),
            closed: true,
            openings: 0,
            spaces: [null_mut(); 2],
            old_space: null_mut(),
            contents: [Content::default(), reversed],
            log: Vec::new(),
            transactions: Vec::new(),
        };
        world.reopen();
        world
    }

    /// Makes one random call.
    pub fn step(&mut self) {
        match self.rng.below(48) {
            0..5 => self.begin(),
            5..15 => self.write(),
            15..22 => self.read(),
            22..26 => self.iterate(),
            26..30 => self.savepoint(),
            30..36 => self.end_one(),
            36..38 => self.destroy(),
            38..44 => self.plain_write(),
            44..46 => self.maintain(),
            46 => self.wrong(),
            _ => self.close_or_reopen(),
        }
    }

    fn db<'a>(&self) -> Option<&'a esker_db_t> {
        // SAFETY: alive until the next opening.
        unsafe { self.db.as_ref() }
    }

    fn space<'a>(&self, space: usize) -> Option<&'a esker_keyspace_t> {
        // SAFETY: alive until the next opening.
        unsafe { self.spaces[space].as_ref() }
    }

    fn raw<'a>(&self, at: usize) -> Option<&'a esker_transaction_t> {
        // SAFETY: alive until it is removed from the list.
        unsafe { self.transactions[at].raw.as_ref() }
    }

    fn some(&mut self) -> Option<usize> {
        match self.transactions.len() {
            0 => None,
            all => Some(self.rng.below(all)),
        }
    }

    /// Returns the code that every call on a transaction gets which does not reach the engine.
    fn refusal(&self, at: usize) -> Option<i32> {
        let handle = &self.transactions[at];
        if self.closed || handle.opening != self.openings {
            return Some(CLOSED);
        }
        handle.model.ended.then_some(INVALID)
    }

    fn begin(&mut self) {
        let (serializable, pessimistic) = (self.rng.chance(3), self.rng.chance(2));
        let mut options = esker_transaction_options_create();
        let mut raw = null_mut();
        // SAFETY: borrowed for the calls; the handle is kept until it is freed.
        let code = unsafe {
            let o = Some(&mut *options);
            let isolation = i32::from(serializable);
            assert_eq!(esker_transaction_options_set_isolation(o, isolation, None), OK);
            let (o, concurrency) = (Some(&mut *options), i32::from(pessimistic));
            assert_eq!(esker_transaction_options_set_concurrency(o, concurrency, None), OK);
            let o = Some(&mut *options);
            assert_eq!(esker_transaction_options_set_lock_timeout_ms(o, 0, None), OK);
            let options = (serializable || pessimistic).then_some(&*options);
            esker_transaction_begin(self.db(), options, Some(&mut raw), None)
        };
        esker_transaction_options_destroy(Some(options));
        assert_eq!(code, if self.closed { CLOSED } else { OK });
        assert_eq!(raw.is_null(), self.closed);
        if code == OK {
            let mut model = Model::new(serializable, pessimistic);
            if !pessimistic {
                model.take_snapshot(&self.log, &self.contents);
            }
            self.transactions.push(Handle { raw, opening: self.openings, model });
        }
        if self.transactions.len() > 4 {
            self.destroy();
        }
    }

    /// Locks an item for a pessimistic transaction. Returns the code of the call that needs it.
    fn lock(&mut self, at: usize, space: usize, item: &Item, exclusive: bool) -> i32 {
        let contents = &self.contents;
        let order = |a: &[u8], b: &[u8]| contents[space].compare(a, b);
        let excluded = self.transactions.iter().enumerate().any(|(other, handle)| {
            other != at
                && handle.opening == self.openings
                && handle.model.excludes(space, item, exclusive, order)
        });
        if excluded {
            return BUSY;
        }
        let model = &mut self.transactions[at].model;
        if model.has_lock_or_adds_it(space, item, exclusive) {
            return OK;
        }
        if model.snapshot.is_none() {
            model.take_snapshot(&self.log, contents);
            return OK;
        }
        if !model.is_newer(&self.log, space, item, order) {
            return OK;
        }
        if model.has_free_reads || model.has_conflict(&self.log, contents) {
            return CONFLICT;
        }
        model.take_snapshot(&self.log, contents);
        OK
    }

    fn write(&mut self) {
        if let Some(at) = self.some() {
            self.write_in(at);
        }
    }

    /// Writes in a transaction.
    fn write_in(&mut self, at: usize) {
        let (space, named, what) = (self.rng.below(2), self.rng.chance(2), self.rng.below(6));
        let (key, other, value) = (self.rng.key(), self.rng.key(), self.rng.value());
        let (t, keyspace, named) = (self.raw(at), self.space(space), named || space == 1);
        let (k, k_len, v, v_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        let (o, o_len) = (other.as_ptr(), other.len());
        // SAFETY: buffers are borrowed.
        let code = unsafe {
            match (what, named) {
                (0, true) => esker_transaction_delete_in(t, keyspace, k, k_len, None),
                (0, false) => esker_transaction_delete(t, k, k_len, None),
                (1, true) => {
                    esker_transaction_delete_range_in(t, keyspace, k, k_len, o, o_len, None)
                }
                (1, false) => esker_transaction_delete_range(t, k, k_len, o, o_len, None),
                (2, true) => {
                    let never = ESKER_NEVER_MS;
                    esker_transaction_put_with_ttl_in(t, keyspace, k, k_len, v, v_len, never, None)
                }
                (2, false) => {
                    esker_transaction_put_with_ttl(t, k, k_len, v, v_len, ESKER_NEVER_MS, None)
                }
                (_, true) => esker_transaction_put_in(t, keyspace, k, k_len, v, v_len, None),
                (_, false) => esker_transaction_put(t, k, k_len, v, v_len, None),
            }
        };
        if let Some(refusal) = self.refusal(at) {
            assert_eq!(code, refusal);
            return;
        }
        let op = match what {
            0 => Op::Delete(key),
            1 => Op::DeleteRange(key, other),
            _ => Op::Put(key, value),
        };
        let empty = match &op {
            Op::DeleteRange(start, end) => self.contents[space].compare(start, end).is_ge(),
            _ => false,
        };
        let mut expected = OK;
        if !empty && self.transactions[at].model.pessimistic {
            expected = self.lock(at, space, &Item::of(&op), true);
        }
        assert_eq!(code, expected, "{op:?}");
        if code == OK && !empty {
            self.transactions[at].model.ops.push((space, op));
        }
    }

    fn read(&mut self) {
        let Some(at) = self.some() else { return };
        let (space, named, for_update) =
            (self.rng.below(2), self.rng.chance(2), self.rng.chance(3));
        let key = self.rng.key();
        let (t, keyspace, named) = (self.raw(at), self.space(space), named || space == 1);
        let (mut value, mut len) = (null_mut(), 7);
        let (k, k_len, v, l) = (key.as_ptr(), key.len(), Some(&mut value), Some(&mut len));
        // SAFETY: buffers are borrowed.
        let code = unsafe {
            match (for_update, named) {
                (true, true) => {
                    esker_transaction_get_for_update_in(t, keyspace, k, k_len, v, l, None)
                }
                (true, false) => esker_transaction_get_for_update(t, k, k_len, v, l, None),
                (false, true) => esker_transaction_get_in(t, keyspace, k, k_len, v, l, None),
                (false, false) => esker_transaction_get(t, k, k_len, v, l, None),
            }
        };
        let found = taken(value, len);
        if let Some(refusal) = self.refusal(at) {
            assert_eq!((code, found), (refusal, None));
            return;
        }
        let expected = self.expect_read(at, space, &key, for_update);
        assert_eq!(code, expected, "{}", key.escape_ascii());
        if code == OK {
            let view = self.transactions[at].model.view(space, &self.log, &self.contents);
            assert_eq!(found.as_deref(), view.get(&key), "{}", key.escape_ascii());
        }
    }

    fn expect_read(&mut self, at: usize, space: usize, key: &[u8], for_update: bool) -> i32 {
        let contents = &self.contents;
        let order = |a: &[u8], b: &[u8]| contents[space].compare(a, b);
        let model = &mut self.transactions[at].model;
        if model.writes(space, key, order) {
            return OK;
        }
        if !for_update && !model.serializable {
            model.has_free_reads = true;
            return OK;
        }
        let item = Item::Key(key.to_vec());
        if model.pessimistic {
            let code = self.lock(at, space, &item, for_update);
            if code != OK {
                return code;
            }
        }
        let model = &mut self.transactions[at].model;
        model.reads.push((space, item));
        model.has_update_reads |= for_update;
        OK
    }

    fn savepoint(&mut self) {
        let Some(at) = self.some() else { return };
        let (what, t, refusal) = (self.rng.below(4), self.raw(at), self.refusal(at));
        // SAFETY: no buffers are passed.
        let code = unsafe {
            match what {
                0 => esker_transaction_rollback_to_savepoint(t, None),
                1 => esker_transaction_pop_savepoint(t, None),
                _ => esker_transaction_savepoint(t, None),
            }
        };
        if let Some(refusal) = refusal {
            assert_eq!(code, refusal);
            return;
        }
        let model = &mut self.transactions[at].model;
        let expected = match what {
            0 | 1 => match model.savepoints.pop() {
                Some(ops) if what == 0 => {
                    model.ops.truncate(ops);
                    OK
                }
                Some(_) => OK,
                None => NOT_FOUND,
            },
            _ => {
                model.savepoints.push(model.ops.len());
                OK
            }
        };
        assert_eq!(code, expected);
    }

    fn end_one(&mut self) {
        if let Some(at) = self.some() {
            self.end(at);
        }
    }

    /// Commits a transaction, or rolls it back.
    fn end(&mut self, at: usize) {
        let (commits, t, refusal) = (!self.rng.chance(4), self.raw(at), self.refusal(at));
        // SAFETY: no buffers are passed.
        let code = unsafe {
            match commits {
                true => esker_transaction_commit(t, None),
                false => esker_transaction_rollback(t, None),
            }
        };
        if let Some(refusal) = refusal {
            assert_eq!(code, refusal);
            return;
        }
        let model = &mut self.transactions[at].model;
        model.ended = true;
        if !commits || (model.ops.is_empty() && !model.has_update_reads) {
            assert_eq!(code, OK);
            return;
        }
        let conflicts = model.has_conflict(&self.log, &self.contents);
        if conflicts || !model.is_loose {
            assert_eq!(code, if conflicts { CONFLICT } else { OK }, "{:?}", model.ops);
        }
        assert!([OK, CONFLICT].contains(&code));
        if code == OK {
            for (space, op) in std::mem::take(&mut model.ops) {
                self.contents[space].apply(&op);
                self.log.push((space, op));
            }
        }
    }
}
