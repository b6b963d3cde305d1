//! Random calls of LevelDB's functions on one store and its objects.
//!
//! Invariants:
//! 1. Iterators and snapshots are freed before their store, which is LevelDB's own rule.
//! 2. All other calls are made in any order, also with nulls and impossible lengths.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use esker_c::own::options::*;
use esker_leveldb::batch::*;
use esker_leveldb::iter::*;
use esker_leveldb::objects::*;
use esker_leveldb::options::*;
use esker_leveldb::shim::*;
use esker_leveldb::store::*;

use super::model::{Content, IterModel, Op, Rng};
use super::own::{backwards, backwards_name, count, keep_all, matches_all};

const PATH: &CStr = c"/a/b/store";

/// One store and its objects.
pub struct RandomCalls {
    rng: Rng,
    memory: Box<esker_memory_t>,
    options: Box<leveldb_options_t>,
    objects: (Option<Box<leveldb_comparator_t>>, Option<Box<leveldb_filterpolicy_t>>),
    writes: Box<leveldb_writeoptions_t>,
    db: Option<Box<leveldb_t>>,
    content: Content,
    batch: Box<leveldb_writebatch_t>,
    ops: Vec<Op>,
    snapshot: Option<(*mut leveldb_snapshot_t, Content)>,
    iters: Vec<(Box<leveldb_iterator_t>, IterModel)>,
}

/// Returns the text at `err`, and frees it; empty if the call succeeded.
fn taken(err: &mut *mut c_char) -> String {
    if err.is_null() {
        return String::new();
    }
    // SAFETY: a text of the library, freed once.
    unsafe {
        let text = CStr::from_ptr(*err).to_string_lossy().into_owned();
        leveldb_free((*err).cast());
        *err = null_mut();
        text
    }
}

/// Records a put of a batch as an operation.
unsafe extern "C" fn put_seen(
    state: *mut c_void,
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
) {
    // SAFETY: the state is a list of operations; the buffers are valid during the call.
    unsafe {
        let key = std::slice::from_raw_parts(key.cast::<u8>(), key_len).to_vec();
        let value = std::slice::from_raw_parts(value.cast::<u8>(), value_len).to_vec();
        (*state.cast::<Vec<Op>>()).push(Op::Put(key, value));
    }
}

unsafe extern "C" fn delete_seen(state: *mut c_void, key: *const c_char, key_len: usize) {
    // SAFETY: as in `put_seen`.
    unsafe {
        let key = std::slice::from_raw_parts(key.cast::<u8>(), key_len).to_vec();
        (*state.cast::<Vec<Op>>()).push(Op::Delete(key));
    }
}

impl RandomCalls {
    /// Creates a world without a store. `freed` counts the freed states of callbacks.
    pub fn new(seed: u64, freed: *mut u32) -> RandomCalls {
        let mut rng = Rng(seed);
        let memory = esker_memory_create();
        let mut options = leveldb_options_create();
        let mut objects = (None, None);
        {
            let o = &mut *options;
            esker_shim_set_memory(Some(o), Some(&memory));
            leveldb_options_set_create_if_missing(Some(o), 1);
            leveldb_options_set_write_buffer_size(Some(o), [1, 70_000][rng.below(2)]);
            leveldb_options_set_block_size(Some(o), [1, 4096, usize::MAX][rng.below(3)]);
            leveldb_options_set_max_open_files(Some(o), [-1, 20][rng.below(2)]);
            leveldb_options_set_compression(Some(o), rng.below(2) as i32);
            let cache = leveldb_cache_create_lru([0, 1 << 20][rng.below(2)]);
            leveldb_options_set_cache(Some(o), Some(&cache));
            leveldb_cache_destroy(Some(cache));
            // SAFETY: the counter outlives every store.
            unsafe {
                let state = freed.cast();
                if rng.chance(4) {
                    let (order, name) = (Some(backwards as _), Some(backwards_name as _));
                    objects.0 = leveldb_comparator_create(state, Some(count), order, name);
                    leveldb_options_set_comparator(Some(o), objects.0.as_deref());
                }
                if rng.chance(4) {
                    let (make, ask) = (Some(keep_all as _), Some(matches_all as _));
                    let (free, name) = (Some(count as _), Some(backwards_name as _));
                    objects.1 = leveldb_filterpolicy_create(state, free, make, ask, name);
                    leveldb_options_set_filter_policy(Some(o), objects.1.as_deref());
                }
            }
        }
        RandomCalls {
            rng,
            memory,
            options,
            content: Content { backwards: objects.0.is_some(), pairs: Vec::new() },
            objects,
            writes: leveldb_writeoptions_create(),
            db: None,
            batch: leveldb_writebatch_create(),
            ops: Vec::new(),
            snapshot: None,
            iters: Vec::new(),
        }
    }

    /// Makes one random call.
    pub fn step(&mut self) {
        match self.rng.below(40) {
            0..4 => self.open(),
            4..12 => self.write(),
            12..18 => self.batch(),
            18..24 => self.read(),
            24..26 => self.snapshot(),
            26..35 => self.iterator(),
            35..38 => self.maintenance(),
            _ => self.close(),
        }
    }

    /// Asserts that a call succeeds if `fine` and a store is open, and otherwise fails with a text.
    fn expect(&self, fine: bool, text: &str) {
        assert_eq!(text.is_empty(), fine && self.db.is_some(), "{text}");
    }

    fn open(&mut self) {
        let mut err = null_mut();
        // SAFETY: borrowed for the call.
        let db = unsafe { leveldb_open(Some(&self.options), PATH.as_ptr(), Some(&mut err)) };
        let text = taken(&mut err);
        assert_eq!(text.is_empty(), db.is_some());
        assert_eq!(db.is_some(), self.db.is_none(), "{text}");
        self.db = self.db.take().or(db);
    }

    fn close(&mut self) {
        for (iter, _) in self.iters.drain(..) {
            leveldb_iter_destroy(Some(iter));
        }
        self.release();
        leveldb_close(self.db.take());
        let mut err = null_mut();
        let what = self.rng.below(6);
        // SAFETY: borrowed for the calls.
        unsafe {
            let (options, place) = (Some(&*self.options), Some(&mut err));
            match what {
                0 => leveldb_repair_db(options, PATH.as_ptr(), place),
                1 => leveldb_destroy_db(options, PATH.as_ptr(), place),
                _ => {}
            }
        }
        let text = taken(&mut err);
        match what {
            0 => assert!(text.is_empty() || self.content.pairs.is_empty(), "{text}"),
            1 => {
                assert_eq!(text, "");
                self.content.pairs.clear();
            }
            _ => {}
        }
    }

    fn release(&mut self) {
        if let Some((snapshot, _)) = self.snapshot.take() {
            // SAFETY: created by the library, freed only here.
            let snapshot = unsafe { Box::from_raw(snapshot) };
            leveldb_release_snapshot(self.db.as_deref(), Some(snapshot));
        }
    }

    fn snapshot(&mut self) {
        self.release();
        if let Some(snapshot) = leveldb_create_snapshot(self.db.as_deref()) {
            self.snapshot = Some((Box::into_raw(snapshot), self.content.clone()));
        } else {
            assert!(self.db.is_none());
        }
    }

    fn write(&mut self) {
        let (key, value) = (self.rng.key(), self.rng.value());
        let fine = !self.rng.chance(10);
        let len = if fine { key.len() } else { usize::MAX };
        let k: *const c_char = key.as_ptr().cast();
        let mut err = null_mut();
        leveldb_writeoptions_set_sync(Some(&mut self.writes), self.rng.below(2) as u8);
        let writes = (!self.rng.chance(3)).then_some(&*self.writes);
        let db = self.db.as_deref();
        let op = if self.rng.chance(4) {
            // SAFETY: buffers are borrowed; an impossible length is refused before the read.
            unsafe { leveldb_delete(db, writes, k, len, Some(&mut err)) };
            Op::Delete(key)
        } else {
            let (v, v_len) = (value.as_ptr().cast(), value.len());
            // SAFETY: as above.
            unsafe { leveldb_put(db, writes, k, len, v, v_len, Some(&mut err)) };
            Op::Put(key, value)
        };
        let text = taken(&mut err);
        self.expect(fine, &text);
        if text.is_empty() {
            self.content.apply(&op);
        }
    }

    fn batch(&mut self) {
        let (key, value) = (self.rng.key(), self.rng.value());
        let k: *const c_char = key.as_ptr().cast();
        let batch = &mut *self.batch;
        let mut err = null_mut();
        // SAFETY: buffers are borrowed; the list of operations outlives the call.
        unsafe {
            match self.rng.below(10) {
                0 => (leveldb_writebatch_clear(Some(batch)), self.ops.clear()).1,
                1 if self.ops.len() < 200 => {
                    let same = &raw mut *batch;
                    leveldb_writebatch_append(same, same);
                    self.ops.extend_from_within(..);
                }
                2 => {
                    let mut visited: Vec<Op> = Vec::new();
                    let state = (&raw mut visited).cast();
                    let shown = (Some(put_seen as _), Some(delete_seen as _));
                    leveldb_writebatch_iterate(Some(batch), state, shown.0, shown.1);
                    assert_eq!(visited, self.ops);
                }
                3 | 4 => {
                    let (db, batch) = (self.db.as_deref(), Some(&*batch));
                    leveldb_write(db, Some(&self.writes), batch, Some(&mut err));
                    let text = taken(&mut err);
                    self.expect(true, &text);
                    if text.is_empty() {
                        self.ops.iter().for_each(|op| self.content.apply(op));
                    }
                }
                5 | 6 => {
                    leveldb_writebatch_delete(Some(batch), k, key.len());
                    self.ops.push(Op::Delete(key));
                }
                7 => leveldb_writebatch_put(Some(batch), null(), 4, k, key.len()),
                _ => {
                    let (v, v_len) = (value.as_ptr().cast(), value.len());
                    leveldb_writebatch_put(Some(batch), k, key.len(), v, v_len);
                    self.ops.push(Op::Put(key, value));
                }
            }
        }
    }

    /// Returns read options, with or without the snapshot.
    fn reads(&mut self) -> (Box<leveldb_readoptions_t>, bool) {
        let mut reads = leveldb_readoptions_create();
        leveldb_readoptions_set_fill_cache(Some(&mut reads), self.rng.below(2) as u8);
        let at_snapshot = self.snapshot.as_ref().filter(|_| self.rng.chance(2));
        let snapshot = at_snapshot.map_or(null(), |(snapshot, _)| (*snapshot).cast_const());
        // SAFETY: null, or alive until the options are freed.
        unsafe { leveldb_readoptions_set_snapshot(Some(&mut reads), snapshot) };
        (reads, at_snapshot.is_some())
    }

    fn content_for(&self, at_snapshot: bool) -> &Content {
        self.snapshot.as_ref().filter(|_| at_snapshot).map_or(&self.content, |(_, content)| content)
    }

    fn read(&mut self) {
        let key = self.rng.key();
        let (reads, at_snapshot) = self.reads();
        let (mut err, mut len) = (null_mut(), 9);
        // SAFETY: buffers are borrowed; the value is copied and freed.
        let found = unsafe {
            let k = key.as_ptr().cast();
            let (db, reads, place) = (self.db.as_deref(), Some(&*reads), Some(&mut len));
            let value = leveldb_get(db, reads, k, key.len(), place, Some(&mut err));
            let found = (!value.is_null())
                .then(|| std::slice::from_raw_parts(value.cast::<u8>(), len).to_vec());
            leveldb_free(value.cast());
            found
        };
        leveldb_readoptions_destroy(Some(reads));
        let text = taken(&mut err);
        self.expect(true, &text);
        if self.db.is_some() {
            assert_eq!(found.as_deref(), self.content_for(at_snapshot).get(&key));
        }
    }

    fn iterator(&mut self) {
        if self.iters.is_empty() || (self.iters.len() < 4 && self.rng.chance(6)) {
            let (reads, at_snapshot) = self.reads();
            // SAFETY: the snapshot is null or alive.
            let iter = unsafe { leveldb_create_iterator(self.db.as_deref(), Some(&reads)) };
            leveldb_readoptions_destroy(Some(reads));
            assert_eq!(iter.is_some(), self.db.is_some());
            let iter_model = IterModel::new(self.content_for(at_snapshot).clone());
            self.iters.extend(iter.map(|iter| (iter, iter_model)));
            return;
        }
        let at = self.rng.below(self.iters.len());
        if self.rng.chance(16) {
            return leveldb_iter_destroy(Some(self.iters.swap_remove(at).0));
        }
        let key = self.rng.key();
        for _ in 0..1 + self.rng.below(6) {
            let what = self.rng.below(8);
            let (iter, iter_model) = &mut self.iters[at];
            match what {
                0 => (leveldb_iter_seek_to_first(Some(iter)), iter_model.first()).1,
                1 => (leveldb_iter_seek_to_last(Some(iter)), iter_model.last()).1,
                2 => {
                    // SAFETY: borrowed for the call.
                    unsafe { leveldb_iter_seek(Some(iter), key.as_ptr().cast(), key.len()) };
                    iter_model.seek(&key);
                }
                3..5 => (leveldb_iter_prev(Some(iter)), iter_model.prev()).1,
                _ => (leveldb_iter_next(Some(iter)), iter_model.next()).1,
            }
            self.compare(at);
        }
    }

    fn compare(&self, at: usize) {
        let (iter, iter_model) = &self.iters[at];
        let mut err = null_mut();
        let (mut key_len, mut value_len) = (1, 1);
        let key = leveldb_iter_key(Some(iter), Some(&mut key_len));
        let value = leveldb_iter_value(Some(iter), Some(&mut value_len));
        // SAFETY: borrowed keys and values are compared before the iterator moves.
        unsafe {
            leveldb_iter_get_error(Some(iter), Some(&mut err));
            let borrowed = |start: *const c_char, len| match len {
                0 => &[][..],
                len => std::slice::from_raw_parts(start.cast::<u8>(), len),
            };
            assert_eq!((borrowed(key, key_len), borrowed(value, value_len)), iter_model.pair());
        }
        assert_eq!(taken(&mut err), "");
        assert_eq!(leveldb_iter_valid(Some(iter)), u8::from(iter_model.at.is_some()));
    }

    fn maintenance(&mut self) {
        let (key, other) = (self.rng.key(), self.rng.key());
        let (k, o): (*const c_char, *const c_char) = (key.as_ptr().cast(), other.as_ptr().cast());
        let db = self.db.as_deref();
        // SAFETY: buffers, arrays and strings are borrowed.
        unsafe {
            match self.rng.below(4) {
                0 => leveldb_compact_range(db, null(), 0, null(), 0),
                1 => leveldb_compact_range(db, k, key.len(), o, other.len()),
                2 => {
                    let mut sizes = [7; 2];
                    let (starts, ends) = ([k, null()], [o, null()]);
                    let (lens, end_lens) = ([key.len(), 5], [other.len(), 0]);
                    let (s, e) = (starts.as_ptr(), ends.as_ptr());
                    let (sl, el) = (lens.as_ptr(), end_lens.as_ptr());
                    leveldb_approximate_sizes(db, 2, s, sl, e, el, sizes.as_mut_ptr());
                    assert_eq!(sizes[1], 0, "the size of an invalid range");
                }
                _ => {
                    let names = [c"leveldb.stats", c"leveldb.sstables", c"nothing", c"\xff"];
                    let text = leveldb_property_value(db, names[key.len() % 4].as_ptr());
                    leveldb_free(text.cast());
                }
            }
        }
    }

    /// Frees everything.
    pub fn end(mut self) {
        self.close();
        leveldb_writebatch_destroy(Some(self.batch));
        leveldb_writeoptions_destroy(Some(self.writes));
        leveldb_comparator_destroy(self.objects.0);
        leveldb_filterpolicy_destroy(self.objects.1);
        leveldb_options_destroy(Some(self.options));
        esker_memory_destroy(Some(self.memory));
    }
}
