//! Random calls of the `esker_*` functions that copy one store to another: the feed and its streams,
//! forks, comparisons, backups, checkpoints, ingests and bulk loads.
//!
//! Invariants:
//! 1. Every handle is freed once and not used afterwards.
//! 2. `history` has the contents of the store at each position of its feed that a write has made.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::ops::RangeBounds;
use std::ptr::{null, null_mut};

use esker_c::own::batch::*;
use esker_c::own::common::*;
use esker_c::own::db::*;
use esker_c::own::feed::*;
use esker_c::own::iter::*;
use esker_c::own::keyspace::*;
use esker_c::own::keyspace_data::*;
use esker_c::own::merge_and_ttl::*;
use esker_c::own::observe::*;
use esker_c::own::options::*;
use esker_c::own::read::*;
use esker_c::own::store::*;

use super::model::{Content, Op, Rng};
use super::own::{backwards, backwards_name, count};

mod branches;
mod feed;
mod loads;

use feed::Feed;

const OK: i32 = 0;
const INVALID: i32 = 1;
const CORRUPTION: i32 = 2;
const IO: i32 = 3;
const LOCKED: i32 = 5;
const INCOMPATIBLE: i32 = 6;
const CLOSED: i32 = 8;
const NOT_FOUND: i32 = 10;
const PATH: &CStr = c"/store";
const REPLICA: &CStr = c"/replica";
const NAMES: [&CStr; 2] = [c"default", c"own"];
/// Times to live: never, none, and one that no test outlives.
const TTLS_MS: [u64; 3] = [ESKER_NEVER_MS, 0, LONG_MS];
const LONG_MS: u64 = 1 << 45;

/// Contents of the keyspaces `default` and `own`.
type Contents = [Content; 2];
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Owns a handle, which may be null, and frees it.
struct Owned<T> {
    raw: *mut T,
    free: extern "C" fn(Option<Box<T>>),
}

impl<T> Owned<T> {
    fn get(&self) -> Option<&T> {
        // SAFETY: null, or alive until the drop.
        unsafe { self.raw.as_ref() }
    }

    fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: null, or alive until the drop and borrowed only here.
        unsafe { self.raw.as_mut() }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: null, or created by the library and freed only here.
        (self.free)((!self.raw.is_null()).then(|| unsafe { Box::from_raw(self.raw) }));
    }
}

/// Returns what `make` stores in its place, or the code of its failure.
fn made<T>(
    free: extern "C" fn(Option<Box<T>>),
    make: impl FnOnce(Option<&mut *mut T>) -> i32,
) -> Result<Owned<T>, i32> {
    let mut raw = null_mut();
    let code = make(Some(&mut raw));
    assert!(code == OK || raw.is_null(), "code {code}");
    if code == OK { Ok(Owned { raw, free }) } else { Err(code) }
}

fn opened(path: &CStr, options: &esker_options_t) -> Owned<esker_db_t> {
    // SAFETY: borrowed for the call.
    let db = made(esker_db_destroy, |place| unsafe {
        esker_open(path.as_ptr(), Some(options), place, None)
    });
    db.unwrap_or_else(|code| panic!("{path:?}: code {code}"))
}

/// Returns a keyspace, with a null handle if the store does not have it.
fn found(db: &Owned<esker_db_t>, at: usize) -> Owned<esker_keyspace_t> {
    // SAFETY: borrowed for the call.
    let space = made(esker_keyspace_close, |place| unsafe {
        esker_keyspace_find(db.get(), NAMES[at].as_ptr(), place, None)
    });
    space.unwrap_or_else(|code| panic!("code {code}"))
}

/// Returns the pairs of an iterator.
fn drained(mut iter: Owned<esker_iter_t>) -> Pairs {
    let mut pairs = Pairs::new();
    // SAFETY: alive; borrowed keys and values are copied before it moves.
    unsafe {
        esker_iter_seek_to_first(iter.get_mut());
        while esker_iter_valid(iter.get()) == 1 {
            let (mut key_len, mut value_len) = (0, 0);
            let key = esker_iter_key(iter.get(), Some(&mut key_len));
            let value = esker_iter_value(iter.get(), Some(&mut value_len));
            pairs.push((copied(key, key_len), copied(value, value_len)));
            esker_iter_next(iter.get_mut());
        }
        assert_eq!(esker_iter_failure(iter.get(), None), OK);
    }
    pairs
}

/// Returns a copy of a buffer, which may be null if it is empty.
///
/// # Safety
/// The buffer is valid and has that length.
unsafe fn copied(start: *const u8, len: usize) -> Vec<u8> {
    // SAFETY: guaranteed by the caller.
    if len == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(start, len).to_vec() } }
}

/// Returns the contents of a store.
fn contents_of(db: &Owned<esker_db_t>, backwards: bool) -> Contents {
    [0, 1].map(|at| {
        let space = found(db, at);
        let pairs = space.get().map_or_else(Pairs::new, |space| {
            // SAFETY: borrowed for the call.
            let iter = made(esker_iter_destroy, |place| unsafe {
                esker_keyspace_iter_create(Some(space), None, null(), 0, null(), 0, 1, place, None)
            });
            drained(iter.unwrap_or_else(|code| panic!("code {code}")))
        });
        Content { backwards: backwards && at == 0, pairs }
    })
}

/// Applies a put with a time to live.
fn put(content: &mut Content, key: Vec<u8>, value: Vec<u8>, ttl_ms: u64) {
    content.apply(&if ttl_ms == 0 { Op::Delete(key) } else { Op::Put(key, value) });
}

/// Appends an operand to a value.
fn merge(content: &mut Content, key: Vec<u8>, operand: &[u8]) {
    let value = [content.get(&key).unwrap_or_default(), operand].concat();
    content.apply(&Op::Put(key, value));
}

/// A store, a replica of it, and their objects.
pub struct RandomCalls {
    rng: Rng,
    options: Box<esker_options_t>,
    /// Options with the key order of the keyspace `own`.
    plain: Box<esker_options_t>,
    backwards: bool,
    has_threads: bool,
    store: Owned<esker_db_t>,
    spaces: [Owned<esker_keyspace_t>; 2],
    id: u64,
    contents: Contents,
    history: BTreeMap<u64, Contents>,
    /// A snapshot of the present opening, with its contents.
    snapshot: Option<(Owned<esker_snapshot_t>, Contents)>,
    /// The slot `reader`, and what it has confirmed.
    slot: Owned<esker_slot_t>,
    confirmed: u64,
    feed: Option<Feed>,
    replica: Owned<esker_db_t>,
    /// The position of the slot `replica`.
    kept: u64,
    backups: Vec<(u64, Contents)>,
    paths: u32,
}

/// Returns options of stores in memory.
fn new_options(rng: &mut Rng) -> (Box<esker_options_t>, Box<esker_options_t>, bool) {
    let (mut options, mut plain) = (esker_options_create(), esker_options_create());
    let memory = esker_memory_create();
    let threads = [c"0", c"0", c"1"][rng.below(3)];
    let policy = [c"leveled", c"tiered", c"fragmented", c"lazy", c"fluid"][rng.below(5)];
    for own in [&mut options, &mut plain] {
        esker_options_set_memory(Some(own), Some(&memory));
        for (name, value) in [
            (c"background_threads", threads),
            (c"memtable_size_bytes", [c"4KiB", c"64KiB"][rng.below(2)]),
            (c"file_size_max_bytes", c"4KiB"),
            (c"memory_budget_bytes", c"16MiB"),
            (c"policy", policy),
        ] {
            let (n, v) = (name.as_ptr(), value.as_ptr());
            // SAFETY: borrowed strings.
            assert_eq!(unsafe { esker_options_set(Some(own), n, v, None) }, OK, "{name:?}");
        }
        let append = c"append".as_ptr();
        // SAFETY: a borrowed string.
        assert_eq!(unsafe { esker_options_set_merge_operator(Some(own), append, None) }, OK);
    }
    esker_memory_destroy(Some(memory));
    (options, plain, threads == c"1")
}

impl RandomCalls {
    /// Creates a world with an open store. `freed` counts the freed states of callbacks.
    pub fn new(seed: u64, freed: *mut u32) -> RandomCalls {
        let mut rng = Rng(seed);
        let (mut options, plain, has_threads) = new_options(&mut rng);
        let is_backwards = rng.chance(4);
        if is_backwards {
            let (o, state) = (Some(&mut *options), freed.cast());
            let (order, name) = (Some(backwards as _), Some(backwards_name as _));
            // SAFETY: the counter outlives every store.
            let set = unsafe {
                esker_options_set_comparator(o, state, Some(count), order, 0, name, None)
            };
            assert_eq!(set, OK);
        }
        let (store, replica) = (opened(PATH, &options), opened(REPLICA, &options));
        let mut world = RandomCalls {
            rng,
            options,
            plain,
            backwards: is_backwards,
            has_threads,
            spaces: [0, 1].map(|at| found(&store, at)),
            store,
            id: 0,
            contents: [is_backwards, false]
                .map(|backwards| Content { backwards, pairs: Vec::new() }),
            history: BTreeMap::new(),
            snapshot: None,
            slot: Owned { raw: null_mut(), free: esker_slot_close },
            confirmed: 0,
            feed: None,
            replica,
            kept: 0,
            backups: Vec::new(),
            paths: 0,
        };
        // SAFETY: borrowed for the call.
        assert_eq!(unsafe { esker_store_id(world.store.get(), Some(&mut world.id), None) }, OK);
        world.note();
        world.subscribe();
        world.create_own();
        world
    }

    fn create_own(&mut self) {
        let mut options = esker_keyspace_options_create();
        // SAFETY: borrowed for the calls.
        let own = unsafe {
            let (o, append) = (Some(&mut *options), c"append".as_ptr());
            assert_eq!(esker_keyspace_options_set_merge_operator(o, append, None), OK);
            made(esker_keyspace_close, |place| {
                let name = NAMES[1].as_ptr();
                esker_keyspace_open(self.store.get(), name, Some(&options), place, None)
            })
        };
        esker_keyspace_options_destroy(Some(options));
        self.spaces[1] = own.unwrap_or_else(|code| panic!("code {code}"));
        self.note();
    }

    /// Makes one random call, or a few that belong together.
    pub fn step(&mut self) {
        match self.rng.below(40) {
            0..13 => self.write(),
            13 | 14 => self.write_batch(),
            15 | 16 => self.load(),
            17..22 => self.read_feed(),
            22 => self.confirm(),
            23 => self.begin_feed(),
            24..28 => self.replicate(),
            28 => self.interrupt(),
            29 | 30 => self.fork(),
            31 | 32 => self.compare_states(),
            33..35 => self.maintain(),
            35 => self.back_up(),
            36 => self.restore(),
            37 => self.checkpoint(),
            38 => self.slots(),
            _ => self.reopen(),
        }
    }

    /// Frees everything: the store before or after its objects.
    pub fn end(mut self) {
        assert_eq!(contents_of(&self.store, self.backwards), self.contents);
        if self.rng.chance(2) {
            self.free_store();
        }
    }

    fn free_store(&mut self) {
        self.store = Owned { raw: null_mut(), free: esker_db_destroy };
    }

    fn new_path(&mut self, kind: &str) -> CString {
        self.paths += 1;
        CString::new(format!("/{kind}-{}", self.paths)).expect("no zero byte")
    }

    /// Records the contents at the present position. Returns the position.
    fn note(&mut self) -> u64 {
        let mut position = 0;
        // SAFETY: borrowed for the call.
        let snapshot = made(esker_snapshot_destroy, |place| unsafe {
            let at = Some(&mut position);
            esker_snapshot_create_with_position(self.store.get(), place, at, None)
        });
        let snapshot = snapshot.unwrap_or_else(|code| panic!("code {code}"));
        assert_eq!(esker_snapshot_position(snapshot.get()), position);
        assert!(self.history.keys().next_back().is_none_or(|last| *last <= position));
        self.history.insert(position, self.contents.clone());
        if self.rng.chance(8) {
            self.snapshot = Some((snapshot, self.contents.clone()));
        }
        position
    }

    /// Returns the contents at a position of the feed.
    fn at(&self, position: u64) -> &Contents {
        let (_, contents) = self.history.range(..=position).next_back().expect("a first position");
        contents
    }

    fn some_position(&mut self, range: impl RangeBounds<u64>) -> u64 {
        let known: Vec<u64> = self.history.range(range).map(|(position, _)| *position).collect();
        known[self.rng.below(known.len())]
    }

    fn write(&mut self) {
        let (at, key, value) = (self.rng.below(2), self.rng.key(), self.rng.value());
        let (end, ttl_ms) = (self.rng.key(), TTLS_MS[self.rng.below(3)]);
        let (what, durability) = (self.rng.below(12), self.rng.below(4) as i32);
        let (space, mut existed) = (self.spaces[at].get(), 7);
        let (k, k_len, v, v_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        // SAFETY: buffers are borrowed.
        let code = unsafe {
            match what {
                0 => esker_keyspace_delete(space, k, k_len, durability, None),
                1 => {
                    let (e, e_len) = (end.as_ptr(), end.len());
                    esker_keyspace_delete_range(space, k, k_len, e, e_len, durability, None)
                }
                2 => esker_keyspace_clear(space, None),
                3 => esker_keyspace_touch(space, k, k_len, ttl_ms, Some(&mut existed), None),
                4 | 5 => esker_keyspace_merge(space, k, k_len, v, v_len, durability, None),
                6 | 7 => {
                    let d = durability;
                    esker_keyspace_put_with_ttl(space, k, k_len, v, v_len, ttl_ms, d, None)
                }
                _ => esker_keyspace_put(space, k, k_len, v, v_len, durability, None),
            }
        };
        // The keyspace `default` cannot be cleared.
        assert_eq!(code, if what == 2 && at == 0 { INVALID } else { OK });
        let content = &mut self.contents[at];
        match what {
            0 => content.apply(&Op::Delete(key)),
            1 => content.apply(&Op::DeleteRange(key, end)),
            2 if at == 0 => {}
            2 => content.pairs.clear(),
            3 => {
                let found = content.get(&key).map(<[u8]>::to_vec);
                assert_eq!(existed == 1, found.is_some());
                found.into_iter().for_each(|value| put(content, key.clone(), value, ttl_ms));
            }
            4 | 5 => merge(content, key, &value),
            6 | 7 => put(content, key, value, ttl_ms),
            _ => content.apply(&Op::Put(key, value)),
        }
        self.note();
    }

    /// Writes operations on both keyspaces together.
    fn write_batch(&mut self) {
        let mut batch = esker_batch_create();
        for _ in 0..1 + self.rng.below(6) {
            let (at, key, value) = (self.rng.below(2), self.rng.key(), self.rng.value());
            let (what, ttl_ms) = (self.rng.below(4), TTLS_MS[self.rng.below(3)]);
            let (to, space) = (Some(&mut *batch), self.spaces[at].get());
            let (k, k_len, v, v_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
            // SAFETY: buffers are borrowed.
            let code = unsafe {
                match what {
                    0 => esker_batch_delete_in(to, space, k, k_len, None),
                    1 => esker_batch_merge_in(to, space, k, k_len, v, v_len, None),
                    2 => esker_batch_put_with_ttl_in(to, space, k, k_len, v, v_len, ttl_ms, None),
                    _ => esker_batch_put_in(to, space, k, k_len, v, v_len, None),
                }
            };
            assert_eq!(code, OK);
            let content = &mut self.contents[at];
            match what {
                0 => content.apply(&Op::Delete(key)),
                1 => merge(content, key, &value),
                2 => put(content, key, value, ttl_ms),
                _ => content.apply(&Op::Put(key, value)),
            }
        }
        // SAFETY: borrowed for the call.
        let code = unsafe { esker_write_within(self.store.get(), Some(&batch), 2, 60_000, None) };
        assert_eq!(code, OK);
        esker_batch_destroy(Some(batch));
        self.note();
    }

    /// Closes the store, whose objects then fail, and opens it again.
    fn reopen(&mut self) {
        // SAFETY: borrowed for the calls.
        unsafe {
            if self.rng.chance(2) {
                assert_eq!(esker_close(self.store.get(), None), OK);
                let mut position = 7;
                let place = Some(&mut position);
                assert_eq!(esker_slot_position(self.slot.get(), place, None), CLOSED);
                if let Some(feed) = &mut self.feed {
                    assert_eq!(feed.next(), Err(CLOSED));
                }
            }
        }
        let keeps_objects = self.rng.chance(2);
        self.free_store();
        let old = (self.feed.take(), self.snapshot.take());
        if !keeps_objects {
            drop(old);
            self.slot = Owned { raw: null_mut(), free: esker_slot_close };
        }
        self.store = opened(PATH, &self.options);
        self.spaces = [0, 1].map(|at| found(&self.store, at));
        // SAFETY: borrowed for the call.
        let slot = made(esker_slot_close, |place| unsafe {
            esker_slot_open(self.store.get(), c"reader".as_ptr(), place, None)
        });
        self.slot = slot.unwrap_or_else(|code| panic!("code {code}"));
        assert_eq!(contents_of(&self.store, self.backwards), self.contents);
        self.note();
    }
}
