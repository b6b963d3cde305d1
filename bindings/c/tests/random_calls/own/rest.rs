//! Second half of `own.rs`: iterators, maintenance, copies, and calls on a store that is not open.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use esker_c::own::common::*;
use esker_c::own::iter::*;
use esker_c::own::observe::*;
use esker_c::own::options::*;
use esker_c::own::store::*;

use super::*;

impl RandomCalls {
    pub(super) fn iterator(&mut self) {
        if self.iters.is_empty() || (self.iters.len() < 4 && self.rng.chance(5)) {
            return self.make_iterator();
        }
        let at = self.rng.below(self.iters.len());
        if self.rng.chance(16) {
            let (iter, ..) = self.iters.swap_remove(at);
            // SAFETY: created by the library, freed only here.
            return esker_iter_destroy(Some(unsafe { Box::from_raw(iter) }));
        }
        let key = self.rng.key();
        for _ in 0..1 + self.rng.below(6) {
            let what = self.rng.below(10);
            let (iter, iter_model, _) = &mut self.iters[at];
            // SAFETY: alive and not used elsewhere now; buffers are borrowed.
            unsafe {
                let iter = iter.as_mut();
                match what {
                    0 => (esker_iter_seek_to_first(iter), iter_model.first()).1,
                    1 => (esker_iter_seek_to_last(iter), iter_model.last()).1,
                    2 => (esker_iter_seek(iter, key.as_ptr(), key.len()), iter_model.seek(&key)).1,
                    3 => {
                        esker_iter_seek_for_prev(iter, key.as_ptr(), key.len());
                        iter_model.seek_for_prev(&key);
                    }
                    4..7 => (esker_iter_prev(iter), iter_model.prev()).1,
                    _ => (esker_iter_next(iter), iter_model.next()).1,
                }
            }
            self.compare(at);
        }
    }

    fn compare(&self, at: usize) {
        let (iter, iter_model, loose) = &self.iters[at];
        // SAFETY: alive; borrowed keys and values are compared before it moves.
        unsafe {
            let iter = iter.as_ref();
            if *loose && esker_iter_failure(iter, None) != OK {
                assert_eq!(esker_iter_valid(iter), 0);
                return;
            }
            let mut message = null_mut();
            let code = esker_iter_failure(iter, Some(&mut message));
            let message_text =
                if code == OK { "" } else { CStr::from_ptr(message).to_str().unwrap_or("") };
            assert_eq!(code, OK, "{message_text}");
            assert_eq!(esker_iter_valid(iter), u8::from(iter_model.at.is_some()));
            let (mut key_len, mut value_len) = (1, 1);
            let key = esker_iter_key(iter, Some(&mut key_len));
            let value = esker_iter_value(iter, Some(&mut value_len));
            let borrowed = |start: *const u8, len| {
                if len == 0 { &[][..] } else { std::slice::from_raw_parts(start, len) }
            };
            assert_eq!((borrowed(key, key_len), borrowed(value, value_len)), iter_model.pair());
        }
    }

    fn make_iterator(&mut self) {
        let (start, end) = (self.rng.key(), self.rng.key());
        let (no_start, no_end) = (self.rng.chance(2), self.rng.chance(2));
        let bound = |none: bool, key: &Vec<u8>| match none {
            true => (null(), 0),
            false => (key.as_ptr(), key.len()),
        };
        let (s, e) = (bound(no_start, &start), bound(no_end, &end));
        let (mut iter, mut message) = (null_mut(), null_mut());
        let then = (!self.snapshots.is_empty() && self.rng.chance(2)).then_some(0);
        let snapshot = then.map_or(null_mut(), |at| self.snapshots[at].0);
        // SAFETY: handles are null or alive; buffers are borrowed.
        let code = unsafe {
            let (db, snapshot) = (self.db(), snapshot.as_ref());
            let place = (Some(&mut iter), Some(&mut message));
            esker_iter_create(db, snapshot, s.0, s.1, e.0, e.1, 1, place.0, place.1)
        };
        message_of(code, &mut message);
        self.expect(self.belongs(then), code);
        if code == OK {
            let content = then.map_or(&self.content, |at| &self.snapshots[at].1);
            let start = (!no_start).then_some(start.as_slice());
            let end = (!no_end).then_some(end.as_slice());
            self.iters.push((iter, IterModel::new(content.between(start, end)), false));
            self.compare(self.iters.len() - 1);
        }
    }

    pub(super) fn maintenance(&mut self) {
        let (key, other) = (self.rng.key(), self.rng.key());
        let mut size = 0;
        let what = self.rng.below(12);
        if what == 11 {
            return self.observe();
        }
        // SAFETY: handles are null or alive; buffers and strings are borrowed.
        let code = unsafe {
            let db = self.db();
            match what {
                0 | 1 => esker_flush(db, None),
                2 => esker_sync(db, None),
                3 => esker_wait_idle(db, None),
                4 => {
                    let (k, o) = (key.as_ptr(), other.as_ptr());
                    esker_compact_range(db, k, key.len(), o, other.len(), None)
                }
                5 => {
                    let (k, o) = (key.as_ptr(), other.as_ptr());
                    let place = Some(&mut size);
                    esker_approximate_size(db, k, key.len(), o, other.len(), place, None)
                }
                6 => esker_verify(db, None),
                7 => {
                    let policies = [c"leveled", c"tiered", c"fragmented", c"lazy", c"fluid"];
                    let value = policies[key.len() % 5].as_ptr();
                    esker_set_option(db, c"policy".as_ptr(), value, None)
                }
                8 => {
                    let code = esker_run_one_job(db, None, None);
                    return self.expect(!self.has_threads, code);
                }
                9 => {
                    let mut text = null_mut();
                    let code = esker_openmetrics(db, Some(&mut text), None);
                    assert_eq!(code == OK, !text.is_null());
                    esker_free(text.cast());
                    code
                }
                _ => {
                    let name = [c"esker.stats", c"leveldb.stats", c"esker.option.policy", c"\xff"];
                    esker_free(esker_property(db, name[key.len() % 4].as_ptr()).cast());
                    return;
                }
            }
        };
        self.expect(true, code);
    }

    /// Asks what writes wait for, what a crash lost, and how often this thread has read.
    fn observe(&mut self) {
        let (mut stall, mut text, mut id) = (null_mut(), null_mut(), 0);
        let what = self.rng.below(4);
        // SAFETY: handles are null or alive; results are freed.
        let code = unsafe {
            let db = self.db();
            match what {
                0 => esker_stall(db, Some(&mut stall), None),
                1 => esker_recovery_notes(db, Some(&mut text), None),
                2 => esker_store_id(db, Some(&mut id), None),
                _ => {
                    esker_perf_enable(u8::from(self.rng.chance(2)));
                    return esker_free(esker_perf_take().cast());
                }
            }
        };
        assert!(code == OK || (stall.is_null() && text.is_null() && id == 0));
        // SAFETY: made by the calls above, freed once.
        unsafe {
            esker_stall_destroy((!stall.is_null()).then(|| Box::from_raw(stall)));
            esker_free(text.cast());
        }
        self.expect(true, code);
    }

    /// Creates a checkpoint, opens and reads it while the store is open, and removes it.
    pub(super) fn copy(&mut self) {
        self.copies += 1;
        let path = CString::new(format!("/copy-{}", self.copies)).expect("a path");
        // SAFETY: handles are null or alive; strings are borrowed; handles created here are freed
        // here.
        unsafe {
            let code = esker_checkpoint(self.db(), path.as_ptr(), None);
            self.expect(true, code);
            if code != OK {
                return;
            }
            assert_eq!(esker_checkpoint(self.db(), path.as_ptr(), None), INVALID);
            let mut db = null_mut();
            let opened = match self.rng.chance(2) {
                true => esker_open(path.as_ptr(), Some(&self.options), Some(&mut db), None),
                false => {
                    esker_open_read_only(path.as_ptr(), Some(&self.options), Some(&mut db), None)
                }
            };
            assert_eq!(opened, OK);
            let mut iter = null_mut();
            let place = Some(&mut iter);
            let made = esker_iter_create(db.as_ref(), None, null(), 0, null(), 0, 0, place, None);
            assert_eq!(made, OK);
            esker_db_destroy(Some(Box::from_raw(db)));
            self.iters.push((iter, IterModel::new(self.content.clone()), false));
            esker_iter_seek_to_last(iter.as_mut());
            let at = self.iters.len() - 1;
            self.iters[at].1.last();
            self.compare(at);
            assert_eq!(esker_destroy_store(path.as_ptr(), Some(&self.options), None), OK);
            self.iters[at].2 = true;
        }
    }

    /// Repairs or removes the store, which is refused while it is open, or sets invalid options.
    pub(super) fn outside(&mut self) {
        let is_open = !self.db.is_null() && !self.closed;
        let (mut lost, mut message) = (null_mut(), null_mut());
        let what = self.rng.below(4);
        // SAFETY: strings are borrowed; texts are freed.
        unsafe {
            match what {
                0 if is_open => {
                    let code = esker_repair(PATH.as_ptr(), Some(&self.options), None, None);
                    assert_eq!(code, LOCKED);
                }
                0 => {
                    let place = (Some(&mut lost), Some(&mut message));
                    let code = esker_repair(PATH.as_ptr(), Some(&self.options), place.0, place.1);
                    esker_free(lost.cast());
                    esker_free(message.cast());
                    self.iters.iter_mut().for_each(|iter| iter.2 = true);
                    // A store that was never created cannot be repaired.
                    assert!(code == OK || self.content.pairs.is_empty(), "repair: {code}");
                }
                1 if self.rng.chance(3) => {
                    let code = esker_destroy_store(PATH.as_ptr(), Some(&self.options), None);
                    assert_eq!(code == LOCKED, is_open);
                    if !is_open {
                        self.content.pairs.clear();
                        self.iters.iter_mut().for_each(|iter| iter.2 = true);
                    }
                }
                2 => {
                    let names = [c"", c"no such option", c"block_size", c"\xff\xfe", c"policy"];
                    let name = names[self.rng.below(5)].as_ptr();
                    let code =
                        esker_options_set(Some(&mut self.options), name, c"?".as_ptr(), None);
                    assert_eq!(code, INVALID);
                    esker_free(esker_options_get(Some(&self.options), name).cast());
                }
                _ => esker_options_set_memory(None, self.memory.as_deref()),
            }
        }
    }

    /// Frees everything, in a random order.
    pub fn end(mut self) {
        let store_first = self.rng.chance(2);
        if store_first {
            self.free_db();
        }
        if self.rng.chance(2) {
            esker_memory_destroy(self.memory.take());
        }
        for at in 0..self.iters.len() {
            self.compare(at);
        }
        // SAFETY: each was created by the library and is freed only here.
        unsafe {
            for (iter, ..) in std::mem::take(&mut self.iters) {
                esker_iter_destroy(Some(Box::from_raw(iter)));
            }
            for (snapshot, ..) in std::mem::take(&mut self.snapshots) {
                esker_snapshot_destroy(Some(Box::from_raw(snapshot)));
            }
        }
        for (batch, _) in std::mem::take(&mut self.batches) {
            esker_batch_destroy(Some(batch));
        }
        self.free_db();
        esker_memory_destroy(self.memory.take());
        esker_options_destroy(Some(self.options));
    }
}
