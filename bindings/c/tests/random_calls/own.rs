//! Random calls of the `esker_*` functions on one store and its objects.
//!
//! Invariants:
//! 1. Every handle is freed once and not used afterwards.
//! 2. All other allowed calls are made in any order, also with nulls and impossible lengths.

use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use esker_c::own::batch::*;
use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::iter::*;
use esker_c::own::merge_and_ttl::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::store::*;

use super::model::{Content, IterModel, Op, Rng};

mod rest;

const OK: i32 = 0;
const INVALID: i32 = 1;
const LOCKED: i32 = 5;
const CLOSED: i32 = 8;
const PATH: &CStr = c"/store";

/// A comparator for reverse bytewise order.
pub unsafe extern "C" fn backwards(
    _state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: the interface passes valid buffers.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(a.cast::<u8>(), a_len),
            std::slice::from_raw_parts(b.cast::<u8>(), b_len),
        )
    };
    match b.cmp(a) {
        Ordering::Less => -3,
        Ordering::Equal => 0,
        Ordering::Greater => 700,
    }
}

pub unsafe extern "C" fn backwards_name(_state: *mut c_void) -> *const c_char {
    c"sequences.backwards".as_ptr()
}

/// Counts the frees of a state.
pub unsafe extern "C" fn count(state: *mut c_void) {
    // SAFETY: the state is a counter of the sequence that outlives all stores.
    unsafe { *state.cast::<u32>() += 1 }
}

/// Creates a filter that matches every key.
pub unsafe extern "C" fn keep_all(
    _state: *mut c_void,
    _keys: *const *const c_char,
    _lens: *const usize,
    _count: c_int,
    len: *mut usize,
) -> *mut c_char {
    // SAFETY: the interface passes a place for the length; the memory comes from `calloc`.
    unsafe {
        *len = 1;
        libc::calloc(1, 1).cast()
    }
}

pub unsafe extern "C" fn matches_all(
    _state: *mut c_void,
    _key: *const c_char,
    _key_len: usize,
    _filter: *const c_char,
    _filter_len: usize,
) -> u8 {
    1
}

/// State of an `esker_get_visit` callback: the store for a nested call, and the value.
struct Seen {
    db: *mut esker_db_t,
    value: Option<Vec<u8>>,
}

unsafe extern "C" fn visit(state: *mut c_void, value: *const u8, len: usize) {
    // SAFETY: the state is a `Seen` that outlives the call; the value is valid during the call.
    unsafe {
        let seen = &mut *state.cast::<Seen>();
        seen.value = Some(std::slice::from_raw_parts(value, len).to_vec());
        let code = esker_put(seen.db.as_ref(), null(), 1, null(), 0, 0, None);
        assert_eq!(code, INVALID, "a call from within a call is answered");
    }
}

/// Asserts that there is a message exactly if `code` is a failure, and frees it.
fn message_of(code: i32, message: &mut *mut c_char) {
    assert_eq!(code == OK, message.is_null(), "code {code}");
    if !message.is_null() {
        // SAFETY: a text of the library, freed once.
        unsafe {
            assert!(CStr::from_ptr(*message).to_bytes().len() > 8);
            esker_free((*message).cast());
        }
        *message = null_mut();
    }
}

/// A buffer argument: borrowed, `NULL`, or with an impossible length.
#[derive(Clone, Copy)]
struct InputBuffer {
    start: *const u8,
    len: usize,
    fine: bool,
}

fn input_buffer(rng: &mut Rng, bytes: &[u8]) -> InputBuffer {
    match rng.below(24) {
        0 => InputBuffer { start: null(), len: 1 + rng.below(9), fine: false },
        1 => InputBuffer { start: bytes.as_ptr(), len: usize::MAX - rng.below(3), fine: false },
        2 if bytes.is_empty() => InputBuffer { start: null(), len: 0, fine: true },
        _ => InputBuffer { start: bytes.as_ptr(), len: bytes.len(), fine: true },
    }
}

/// One store and its objects.
pub struct RandomCalls {
    rng: Rng,
    memory: Option<Box<esker_memory_t>>,
    options: Box<esker_options_t>,
    db: *mut esker_db_t,
    closed: bool,
    /// Whether the store has threads, which run its jobs.
    has_threads: bool,
    content: Content,
    batches: Vec<(Box<esker_batch_t>, Vec<Op>)>,
    /// Snapshots, each with its content and the number of the opening that it belongs to.
    snapshots: Vec<(*mut esker_snapshot_t, Content, u32)>,
    openings: u32,
    /// Iterators, each with its model, and whether its files may have been removed since. Such an
    /// iterator may fail, but must not return wrong data.
    iters: Vec<(*mut esker_iter_t, IterModel, bool)>,
    copies: u32,
}

impl RandomCalls {
    /// Creates a world without a store. `freed` counts the freed states of callbacks.
    pub fn new(seed: u64, freed: *mut u32) -> RandomCalls {
        let mut rng = Rng(seed);
        let memory = esker_memory_create();
        let mut options = esker_options_create();
        esker_options_set_memory(Some(&mut options), Some(&memory));
        let backwards_order = rng.chance(4);
        let threads = [c"0", c"0", c"1"][rng.below(3)];
        let policy = [c"leveled", c"tiered", c"fragmented", c"lazy", c"fluid"][rng.below(5)];
        // SAFETY: borrowed strings; the counter outlives every store.
        unsafe {
            for (name, value) in [
                (c"background_threads", threads),
                (c"memtable_size_bytes", [c"4KiB", c"64KiB"][rng.below(2)]),
                (c"block_size", [c"64", c"4096"][rng.below(2)]),
                (c"file_size_max_bytes", c"4KiB"),
                (c"memory_budget_bytes", c"16MiB"),
                (c"policy", policy),
            ] {
                let (n, v) = (name.as_ptr(), value.as_ptr());
                assert_eq!(esker_options_set(Some(&mut options), n, v, None), OK, "{name:?}");
            }
            let append = c"append".as_ptr();
            assert_eq!(esker_options_set_merge_operator(Some(&mut options), append, None), OK);
            if backwards_order {
                let (o, state) = (Some(&mut *options), freed.cast());
                let (order, name) = (Some(backwards as _), Some(backwards_name as _));
                let set = esker_options_set_comparator(o, state, Some(count), order, 0, name, None);
                assert_eq!(set, OK);
            }
            if rng.chance(5) {
                let (o, state) = (Some(&mut *options), freed.cast());
                let (make, ask) = (Some(keep_all as _), Some(matches_all as _));
                let (free, name) = (Some(count as _), Some(backwards_name as _));
                let set = esker_options_set_filter(o, state, free, make, ask, name, None);
                assert_eq!(set, OK);
            }
        }
        RandomCalls {
            rng,
            memory: Some(memory),
            options,
            db: null_mut(),
            closed: false,
            has_threads: threads == c"1",
            content: Content { backwards: backwards_order, pairs: Vec::new() },
            batches: Vec::new(),
            snapshots: Vec::new(),
            openings: 0,
            iters: Vec::new(),
            copies: 0,
        }
    }
}

impl RandomCalls {
    fn db(&self) -> Option<&esker_db_t> {
        // SAFETY: null or alive.
        unsafe { self.db.as_ref() }
    }

    /// Asserts the code of a call; `fine` tells whether its buffers were valid.
    fn expect(&self, fine: bool, code: i32) {
        match (fine, self.db.is_null(), self.closed) {
            (true, false, false) => assert_eq!(code, OK),
            (false, _, false) | (_, true, _) => assert_eq!(code, INVALID),
            (true, false, true) => assert_eq!(code, CLOSED),
            (false, false, true) => assert!([INVALID, CLOSED].contains(&code)),
        }
    }

    /// Makes one random call.
    pub fn step(&mut self) {
        match self.rng.below(40) {
            0..3 => self.open(),
            3..11 => self.write(),
            11..16 => self.batch(),
            16..21 => self.read(),
            21 => self.read_many(),
            22..24 => self.snapshot(),
            24..33 => self.iterator(),
            33..37 => self.maintenance(),
            37 => self.copy(),
            38 => self.close(),
            _ => self.outside(),
        }
    }

    fn open(&mut self) {
        let (mut db, mut message) = (null_mut(), null_mut());
        // SAFETY: borrowed for the call; the handle is kept until it is freed.
        let code = unsafe {
            esker_open(PATH.as_ptr(), Some(&self.options), Some(&mut db), Some(&mut message))
        };
        message_of(code, &mut message);
        let is_open = !self.db.is_null() && !self.closed;
        assert_eq!(code, if is_open { LOCKED } else { OK });
        if !is_open {
            self.free_db();
            (self.db, self.closed) = (db, false);
            self.openings += 1;
            // Compactions of this opening may remove files that older iterators do not hold open.
            self.iters.iter_mut().for_each(|iter| iter.2 = true);
        }
    }

    fn free_db(&mut self) {
        if !self.db.is_null() {
            // SAFETY: created by `esker_open`, freed only here.
            esker_db_destroy(Some(unsafe { Box::from_raw(self.db) }));
            self.db = null_mut();
        }
        self.closed = false;
    }

    fn close(&mut self) {
        if self.rng.chance(3) {
            return self.free_db();
        }
        for _ in 0..1 + self.rng.below(2) {
            // SAFETY: null or alive.
            let code = unsafe { esker_close(self.db(), None) };
            assert_eq!(code, if self.db.is_null() { INVALID } else { OK });
        }
        self.closed = !self.db.is_null();
    }

    fn write(&mut self) {
        let (key, value) = (self.rng.key(), self.rng.value());
        let (k, v) = (input_buffer(&mut self.rng, &key), input_buffer(&mut self.rng, &value));
        let durability = self.rng.below(6) as i32 - 1;
        let known = (0..=3).contains(&durability);
        let mut message = null_mut();
        if self.rng.chance(6) {
            return self.remove(key, k);
        }
        if self.rng.chance(4) {
            return self.merge_or_expire(durability, (key, k), (value, v));
        }
        // SAFETY: buffers are borrowed; an impossible length is refused before the read.
        unsafe {
            let place = Some(&mut message);
            if self.rng.chance(4) {
                let code = esker_delete(self.db(), k.start, k.len, durability, place);
                message_of(code, &mut message);
                self.expect(k.fine && known, code);
                if code == OK {
                    self.content.apply(&Op::Delete(key));
                }
                return;
            }
            let code = esker_put(self.db(), k.start, k.len, v.start, v.len, durability, place);
            message_of(code, &mut message);
            self.expect(k.fine && v.fine && known, code);
            if code == OK {
                self.content.apply(&Op::Put(key, value));
            }
        }
    }

    /// Appends an operand to a value, or puts a pair that is expired or stays.
    fn merge_or_expire(
        &mut self,
        durability: i32,
        (key, k): (Vec<u8>, InputBuffer),
        (value, v): (Vec<u8>, InputBuffer),
    ) {
        let fine = k.fine && v.fine && (0..=3).contains(&durability);
        let ttl_ms = [None, None, Some(0), Some(1 << 45), Some(ESKER_NEVER_MS)][self.rng.below(5)];
        let (db, d, mut message) = (self.db(), durability, null_mut());
        // SAFETY: as in `write`.
        let code = unsafe {
            let place = Some(&mut message);
            match ttl_ms {
                None => esker_merge(db, k.start, k.len, v.start, v.len, d, place),
                Some(ttl_ms) => {
                    esker_put_with_ttl(db, k.start, k.len, v.start, v.len, ttl_ms, d, place)
                }
            }
        };
        message_of(code, &mut message);
        self.expect(fine, code);
        if code == OK {
            let old = self.content.get(&key).unwrap_or_default();
            let op = match ttl_ms {
                None => Op::Put(key, [old, &value].concat()),
                Some(0) => Op::Delete(key),
                Some(_) => Op::Put(key, value),
            };
            self.content.apply(&op);
        }
    }

    /// Removes a key, or deletes a range of keys.
    fn remove(&mut self, key: Vec<u8>, k: InputBuffer) {
        let end = self.rng.key();
        let (e, mut existed) = (input_buffer(&mut self.rng, &end), 7);
        let is_range = self.rng.chance(2);
        // SAFETY: as in `write`.
        let code = unsafe {
            match is_range {
                true => esker_delete_range(self.db(), k.start, k.len, e.start, e.len, 2, None),
                false => esker_remove(self.db(), k.start, k.len, Some(&mut existed), None),
            }
        };
        self.expect(k.fine && (e.fine || !is_range), code);
        if code != OK {
            return;
        }
        if is_range {
            return self.content.apply(&Op::DeleteRange(key, end));
        }
        assert_eq!(existed == 1, self.content.get(&key).is_some());
        self.content.apply(&Op::Delete(key));
    }

    fn batch(&mut self) {
        if self.batches.is_empty() || self.rng.chance(8) {
            self.batches.push((esker_batch_create(), Vec::new()));
        }
        let at = self.rng.below(self.batches.len());
        match self.rng.below(12) {
            0 => {
                let (batch, _) = self.batches.swap_remove(at);
                esker_batch_destroy(Some(batch));
            }
            1 => {
                esker_batch_clear(Some(&mut self.batches[at].0));
                self.batches[at].1.clear();
            }
            2 | 3 => self.append(at),
            4..7 => {
                // SAFETY: handles are null or alive.
                let code = unsafe { esker_write(self.db(), Some(&self.batches[at].0), 2, None) };
                self.expect(true, code);
                if code == OK {
                    self.batches[at].1.iter().for_each(|op| self.content.apply(op));
                }
            }
            _ => self.add(at),
        }
        if let Some((batch, ops)) = self.batches.get(at) {
            assert_eq!(esker_batch_count(Some(batch)), ops.len());
        }
    }

    /// Appends a batch to another one or to itself.
    fn append(&mut self, at: usize) {
        let other = self.rng.below(self.batches.len());
        if self.batches[at].1.len() + self.batches[other].1.len() > 400 {
            return;
        }
        let ops = self.batches[other].1.clone();
        let source: *const esker_batch_t = &raw const *self.batches[other].0;
        let target: *mut esker_batch_t = &raw mut *self.batches[at].0;
        // SAFETY: both are alive.
        assert_eq!(unsafe { esker_batch_append(target, source, None) }, OK);
        self.batches[at].1.extend(ops);
    }

    fn add(&mut self, at: usize) {
        let (key, other, value) = (self.rng.key(), self.rng.key(), self.rng.value());
        let rng = &mut self.rng;
        let (k, o, v) =
            (input_buffer(rng, &key), input_buffer(rng, &other), input_buffer(rng, &value));
        let kind = rng.below(4);
        let (batch, ops) = &mut self.batches[at];
        let batch = Some(&mut **batch);
        // SAFETY: as in `write`.
        let (code, fine, op) = unsafe {
            match kind {
                0 => {
                    let code = esker_batch_delete(batch, k.start, k.len, None);
                    (code, k.fine, Op::Delete(key))
                }
                1 => {
                    let code =
                        esker_batch_delete_range(batch, k.start, k.len, o.start, o.len, None);
                    (code, k.fine && o.fine, Op::DeleteRange(key, other))
                }
                _ => {
                    let code = esker_batch_put(batch, k.start, k.len, v.start, v.len, None);
                    (code, k.fine && v.fine, Op::Put(key, value))
                }
            }
        };
        assert_eq!(code, if fine { OK } else { INVALID });
        if fine {
            ops.push(op);
        }
    }

    fn read(&mut self) {
        let key = self.rng.key();
        let k = input_buffer(&mut self.rng, &key);
        let snapshot_index = self.some_snapshot();
        let snapshot = snapshot_index.map_or(null_mut(), |at| self.snapshots[at].0);
        let content = snapshot_index.map_or(&self.content, |at| &self.snapshots[at].1);
        let expected = content.get(&key).map(<[u8]>::to_vec);
        let (code, found) = if self.rng.chance(2) {
            let mut seen = Seen { db: self.db, value: None };
            // SAFETY: as in `write`; the state outlives the call; the snapshot is null or alive.
            let code = unsafe {
                let state = (&raw mut seen).cast();
                let (db, snapshot) = (self.db(), snapshot.as_ref());
                esker_get_visit(db, snapshot, 0, k.start, k.len, state, Some(visit), None)
            };
            (code, seen.value)
        } else {
            let (mut value, mut len) = (null_mut(), 7);
            // SAFETY: as above; the value is copied and freed.
            unsafe {
                let place = (Some(&mut value), Some(&mut len));
                let (db, snapshot) = (self.db(), snapshot.as_ref());
                let code = esker_get(db, snapshot, k.start, k.len, place.0, place.1, None);
                let found = (code == OK && !value.is_null())
                    .then(|| std::slice::from_raw_parts(value, len).to_vec());
                esker_free(value.cast());
                (code, found)
            }
        };
        self.expect(k.fine && self.belongs(snapshot_index), code);
        if code == OK {
            assert_eq!(found, expected, "{}", key.escape_ascii());
        }
    }

    fn some_snapshot(&mut self) -> Option<usize> {
        match self.snapshots.len() {
            0 => None,
            all => self.rng.chance(2).then(|| self.rng.below(all)),
        }
    }

    /// Reads several keys at once, and asks for each of them.
    fn read_many(&mut self) {
        let then = self.some_snapshot();
        let (belongs, fill_cache) = (self.belongs(then), u8::from(self.rng.chance(2)));
        let content = then.map_or(&self.content, |at| &self.snapshots[at].1).clone();
        let snapshot = then.map_or(null_mut(), |at| self.snapshots[at].0);
        let keys: Vec<Vec<u8>> = (0..self.rng.below(4)).map(|_| self.rng.key()).collect();
        let buffers: Vec<InputBuffer> =
            keys.iter().map(|key| input_buffer(&mut self.rng, key)).collect();
        let starts: Vec<*const u8> = buffers.iter().map(|buffer| buffer.start).collect();
        let lens: Vec<usize> = buffers.iter().map(|buffer| buffer.len).collect();
        let (mut values, mut value_lens) = (vec![null_mut(); keys.len()], vec![7; keys.len()]);
        // SAFETY: as in `write`; the arrays have as many items as there are keys; values are copied
        // and freed; the snapshot is null or alive.
        unsafe {
            let at = snapshot.as_ref();
            let (v, l) = (values.as_mut_ptr(), value_lens.as_mut_ptr());
            let (s, s_len, count) = (starts.as_ptr(), lens.as_ptr(), keys.len());
            let code = esker_multi_get(self.db(), at, fill_cache, count, s, s_len, v, l, None);
            self.expect(belongs && buffers.iter().all(|buffer| buffer.fine), code);
            for (nth, key) in keys.iter().enumerate() {
                let (value, len) = (values[nth], value_lens[nth]);
                let found =
                    (!value.is_null()).then(|| std::slice::from_raw_parts(value, len).to_vec());
                esker_free(value.cast());
                let expected = content.get(key).filter(|_| code == OK);
                assert_eq!(found.as_deref(), expected, "{}", key.escape_ascii());
                let (buffer, mut has) = (buffers[nth], 7);
                let place = Some(&mut has);
                let asked = esker_contains(self.db(), at, buffer.start, buffer.len, place, None);
                self.expect(belongs && buffer.fine, asked);
                let expected = if asked == OK { u8::from(content.get(key).is_some()) } else { 7 };
                assert_eq!(has, expected);
            }
        }
    }

    /// Returns whether a snapshot belongs to the current opening of the store.
    fn belongs(&self, snapshot: Option<usize>) -> bool {
        snapshot.is_none_or(|at| self.snapshots[at].2 == self.openings)
    }

    fn snapshot(&mut self) {
        if self.snapshots.len() > 2 || (!self.snapshots.is_empty() && self.rng.chance(2)) {
            let at = self.rng.below(self.snapshots.len());
            // SAFETY: created by the library, freed only here.
            esker_snapshot_destroy(Some(unsafe {
                Box::from_raw(self.snapshots.swap_remove(at).0)
            }));
            return;
        }
        let mut snapshot = null_mut();
        // SAFETY: handles are null or alive.
        let code = unsafe { esker_snapshot_create(self.db(), Some(&mut snapshot), None) };
        self.expect(true, code);
        if code == OK {
            self.snapshots.push((snapshot, self.content.clone(), self.openings));
        }
    }
}
