//! Random calls of the `esker_*` functions on the keyspaces of one store.
//!
//! Invariants:
//! 1. Every handle is freed once and not used afterwards. Handles of earlier openings stay in use.
//! 2. A batch names keyspaces of the current opening, live and dropped ones.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

use esker_c::own::batch::*;
use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::iter::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::store::*;

use super::model::{Content, IterModel, Op, Rng};
use super::own::{backwards, backwards_name, count};

mod rest;

const OK: i32 = 0;
const INVALID: i32 = 1;
const CLOSED: i32 = 8;
const NOT_FOUND: i32 = 10;
const PATH: &CStr = c"/store";
const NAMES: [&str; 4] = ["default", "a", "b", "c"];

/// A handle of a keyspace.
struct Handle {
    raw: *mut esker_keyspace_t,
    /// Number of the keyspace.
    id: u32,
    /// Number of the opening that the handle belongs to.
    opening: u32,
}

/// One store with keyspaces, and its objects.
pub struct RandomCalls {
    rng: Rng,
    options: Box<esker_options_t>,
    db: *mut esker_db_t,
    closed: bool,
    openings: u32,
    /// Names and contents of the keyspaces, by number.
    contents: BTreeMap<u32, (String, Content)>,
    handles: Vec<Handle>,
    batch: Box<esker_batch_t>,
    /// Operations of the batch, with the numbers of their keyspaces.
    ops: Vec<(u32, Op)>,
    /// A snapshot of the current opening, with the contents of the keyspaces.
    snapshot: Option<(*mut esker_snapshot_t, BTreeMap<u32, Content>)>,
    iters: Vec<(*mut esker_iter_t, IterModel)>,
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

/// Records an operation of a batch.
unsafe extern "C" fn record(state: *mut c_void, operation: *const esker_operation_t) {
    // SAFETY: the state is a list that outlives the call; the operation and its buffers are valid
    // during the call.
    unsafe {
        let op = &*operation;
        let keyspace = op.keyspace;
        let first = std::slice::from_raw_parts(op.key, op.key_len).to_vec();
        let second = match op.value.is_null() {
            true => Vec::new(),
            false => std::slice::from_raw_parts(op.value, op.value_len).to_vec(),
        };
        let op = match op.kind {
            ESKER_OPERATION_PUT => Op::Put(first, second),
            ESKER_OPERATION_DELETE => Op::Delete(first),
            _ => Op::DeleteRange(first, second),
        };
        (*state.cast::<Vec<(u32, Op)>>()).push((keyspace, op));
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
        let default = ("default".to_string(), Content::default());
        let mut world = RandomCalls {
            rng,
            options,
            db: null_mut(),
            closed: true,
            openings: 0,
            contents: BTreeMap::from([(0, default)]),
            handles: Vec::new(),
            batch: esker_batch_create(),
            ops: Vec::new(),
            snapshot: None,
            iters: Vec::new(),
        };
        world.reopen();
        world
    }

    /// Makes one random call.
    pub fn step(&mut self) {
        match self.rng.below(40) {
            0..6 => self.open_keyspace(),
            6 => self.close_keyspace(),
            7..17 => self.write(),
            17..23 => self.change_batch(),
            23..29 => self.read(),
            29 => self.take_snapshot(),
            30..36 => self.iterator(),
            36..39 => self.manage(),
            _ => self.close_or_reopen(),
        }
    }

    fn db<'a>(&self) -> Option<&'a esker_db_t> {
        // SAFETY: null, or alive until the next opening.
        unsafe { self.db.as_ref() }
    }

    fn space<'a>(&self, at: usize) -> Option<&'a esker_keyspace_t> {
        // SAFETY: alive until it is removed from the list.
        unsafe { self.handles[at].raw.as_ref() }
    }

    fn some_handle(&mut self) -> Option<usize> {
        match self.handles.len() {
            0 => None,
            all => Some(self.rng.below(all)),
        }
    }

    /// Returns the code of a valid call on a handle.
    fn code_of(&self, at: usize) -> i32 {
        let handle = &self.handles[at];
        if self.closed || handle.opening != self.openings {
            return CLOSED;
        }
        if self.contents.contains_key(&handle.id) { OK } else { NOT_FOUND }
    }

    fn id_of(&self, name: &str) -> Option<u32> {
        self.contents.iter().find(|(_, (known, _))| known == name).map(|(id, _)| *id)
    }

    fn content(&mut self, id: u32) -> &mut Content {
        &mut self.contents.get_mut(&id).expect("the keyspace exists").1
    }

    fn open_keyspace(&mut self) {
        let (name, backwards) = (NAMES[self.rng.below(4)], self.rng.chance(3));
        let c_name = CString::new(name).expect("no zero byte");
        let mut options = esker_keyspace_options_create();
        let mut raw = null_mut();
        // SAFETY: borrowed for the calls.
        let code = unsafe {
            let (o, order) = (Some(&mut *options), c"sequences.backwards".as_ptr());
            assert_eq!(esker_keyspace_options_set_key_order(o, order, None), OK);
            let options = backwards.then_some(&*options);
            esker_keyspace_open(self.db(), c_name.as_ptr(), options, Some(&mut raw), None)
        };
        esker_keyspace_options_destroy(Some(options));
        let known = self.id_of(name);
        let fits = known.is_none_or(|id| self.contents[&id].1.backwards == backwards);
        let expected = if self.closed { CLOSED } else { [INVALID, OK][usize::from(fits)] };
        assert_eq!((code, raw.is_null()), (expected, expected != OK));
        if code != OK {
            return;
        }
        // SAFETY: created above.
        let id = esker_keyspace_id(unsafe { raw.as_ref() });
        match known {
            Some(known) => assert_eq!(id, known),
            None => {
                let newest = self.handles.iter().map(|handle| handle.id).max();
                assert!(newest.is_none_or(|newest| newest < id), "a number is used once");
                let content = Content { backwards, pairs: Vec::new() };
                self.contents.insert(id, (name.to_string(), content));
            }
        }
        self.handles.push(Handle { raw, id, opening: self.openings });
        if self.handles.len() > 8 {
            self.close_keyspace();
        }
    }

    fn close_keyspace(&mut self) {
        if let Some(at) = self.some_handle() {
            let handle = self.handles.swap_remove(at);
            // SAFETY: created by the library, freed only here and at the end.
            esker_keyspace_close(Some(unsafe { Box::from_raw(handle.raw) }));
        }
    }

    fn write(&mut self) {
        let Some(at) = self.some_handle() else { return };
        let (key, other, value) = (self.rng.key(), self.rng.key(), self.rng.value());
        let what = self.rng.below(10);
        let (space, mut existed) = (self.space(at), 7);
        let (k, k_len, v, v_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        // SAFETY: buffers are borrowed; an impossible length is refused before the read.
        let code = unsafe {
            match what {
                0 => esker_keyspace_delete(space, k, k_len, 0, None),
                1 => esker_keyspace_remove(space, k, k_len, Some(&mut existed), None),
                2 => {
                    let (o, o_len) = (other.as_ptr(), other.len());
                    esker_keyspace_delete_range(space, k, k_len, o, o_len, 2, None)
                }
                3 => esker_keyspace_clear(space, None),
                4 => {
                    let code = esker_keyspace_put(space, k, usize::MAX, v, v_len, 0, None);
                    assert!([INVALID, CLOSED].contains(&code));
                    return;
                }
                _ => esker_keyspace_put(space, k, k_len, v, v_len, 0, None),
            }
        };
        let (id, mut expected) = (self.handles[at].id, self.code_of(at));
        if what == 3 && id == 0 && expected == OK {
            expected = INVALID;
        }
        assert_eq!(code, expected);
        if code != OK {
            return;
        }
        let content = self.content(id);
        match what {
            1 => assert_eq!(existed == 1, content.get(&key).is_some()),
            3 => content.pairs.clear(),
            _ => {}
        }
        match what {
            0 | 1 => content.apply(&Op::Delete(key)),
            2 => content.apply(&Op::DeleteRange(key, other)),
            3 => {}
            _ => content.apply(&Op::Put(key, value)),
        }
    }

    fn change_batch(&mut self) {
        match self.rng.below(8) {
            0 => {
                esker_batch_clear(Some(&mut self.batch));
                self.ops.clear();
            }
            1 | 2 => self.write_batch(),
            _ => self.add_to_batch(),
        }
        let mut visited: Vec<(u32, Op)> = Vec::new();
        // SAFETY: the list outlives the call.
        unsafe {
            let state = (&raw mut visited).cast();
            esker_batch_visit_keyspaces(Some(&self.batch), state, Some(record));
        }
        assert_eq!(visited, self.ops);
    }

    fn write_batch(&mut self) {
        // SAFETY: handles are alive.
        let code = unsafe { esker_write(self.db(), Some(&self.batch), 2, None) };
        let live = self.ops.iter().all(|(id, _)| self.contents.contains_key(id));
        assert_eq!(code, if self.closed { CLOSED } else { [NOT_FOUND, OK][usize::from(live)] });
        if code == OK {
            for (id, op) in self.ops.clone() {
                self.content(id).apply(&op);
            }
        }
    }

    fn add_to_batch(&mut self) {
        let Some(at) = self.some_handle() else { return };
        let (id, opening) = (self.handles[at].id, self.handles[at].opening);
        if opening != self.openings || self.ops.len() > 100 {
            return;
        }
        let (key, other, value) = (self.rng.key(), self.rng.key(), self.rng.value());
        let (what, space) = (self.rng.below(4), self.space(at));
        let (k, k_len, batch) = (key.as_ptr(), key.len(), Some(&mut *self.batch));
        // SAFETY: buffers are borrowed.
        let (code, op) = unsafe {
            match what {
                0 => (esker_batch_delete_in(batch, space, k, k_len, None), Op::Delete(key)),
                1 => {
                    let (o, o_len) = (other.as_ptr(), other.len());
                    let code = esker_batch_delete_range_in(batch, space, k, k_len, o, o_len, None);
                    (code, Op::DeleteRange(key, other))
                }
                _ => {
                    let (v, v_len) = (value.as_ptr(), value.len());
                    let code = esker_batch_put_in(batch, space, k, k_len, v, v_len, None);
                    (code, Op::Put(key, value))
                }
            }
        };
        assert_eq!(code, OK);
        self.ops.push((id, op));
    }

    fn close_or_reopen(&mut self) {
        if self.rng.chance(3) {
            // SAFETY: alive.
            assert_eq!(unsafe { esker_close(self.db(), None) }, OK);
            self.closed = true;
        } else {
            self.reopen();
        }
    }

    /// Opens the store again, with the handles of earlier openings still in use.
    fn reopen(&mut self) {
        self.free_readers();
        esker_batch_clear(Some(&mut self.batch));
        self.ops.clear();
        self.free_db();
        // SAFETY: borrowed for the call; the handle is kept until it is freed.
        let code =
            unsafe { esker_open(PATH.as_ptr(), Some(&self.options), Some(&mut self.db), None) };
        assert_eq!(code, OK);
        self.openings += 1;
        self.closed = false;
    }

    fn free_db(&mut self) {
        if !self.db.is_null() {
            // SAFETY: created by `esker_open`, freed only here.
            esker_db_destroy(Some(unsafe { Box::from_raw(self.db) }));
            self.db = null_mut();
        }
    }
}
