//! Second half of `transactions.rs`: iterators, plain writes, wrong calls, opening and closing.

use super::*;

impl RandomCalls {
    /// Moves a new iterator of a transaction, with writes of the transaction between the moves, and
    /// sometimes its end.
    pub(super) fn iterate(&mut self) {
        let Some(at) = self.some() else { return };
        let (space, named) = (self.rng.below(2), self.rng.chance(2));
        let mut keys = [self.rng.key(), self.rng.key()];
        keys.sort_by(|a, b| self.contents[space].compare(a, b));
        let bounded = keys[0] != keys[1] && self.rng.chance(2);
        let [start, end] = keys.each_ref().map(|key| bounded.then_some(key.as_slice()));
        let bound = |key: Option<&[u8]>| key.map_or((null(), 0), |key| (key.as_ptr(), key.len()));
        let ((s, s_len), (e, e_len)) = (bound(start), bound(end));
        let (mut raw, t, keyspace) = (null_mut(), self.raw(at), self.space(space));
        // SAFETY: buffers are borrowed.
        let code = unsafe {
            let place = Some(&mut raw);
            match named || space == 1 {
                true => {
                    esker_transaction_iter_create_in(t, keyspace, s, s_len, e, e_len, place, None)
                }
                false => esker_transaction_iter_create(t, s, s_len, e, e_len, place, None),
            }
        };
        if let Some(refusal) = self.refusal(at) {
            assert_eq!((code, raw.is_null()), (refusal, true));
            return;
        }
        let item = Item::Range(start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
        let expected = self.expect_iter(at, space, item);
        assert_eq!((code, raw.is_null()), (expected, expected != OK));
        if code == OK {
            let model = &self.transactions[at].model;
            let base = model.snapshot.as_ref().map(|(_, contents)| contents[space].clone());
            self.moves(at, space, raw, (base.expect("a snapshot"), start, end));
            // SAFETY: created above, freed only here.
            esker_iter_destroy(Some(unsafe { Box::from_raw(raw) }));
        }
    }

    fn expect_iter(&mut self, at: usize, space: usize, item: Item) -> i32 {
        let model = &mut self.transactions[at].model;
        if !model.serializable {
            model.has_free_reads = true;
        } else if model.pessimistic {
            let code = self.lock(at, space, &item, false);
            if code != OK {
                return code;
            }
            self.transactions[at].model.reads.push((space, item));
        } else {
            model.is_loose = true;
        }
        let model = &mut self.transactions[at].model;
        if model.snapshot.is_none() {
            model.take_snapshot(&self.log, &self.contents);
        }
        OK
    }

    /// Moves an iterator. The model has the current pair, and finds the next one in the present
    /// view of the transaction.
    fn moves(
        &mut self,
        at: usize,
        space: usize,
        raw: *mut esker_iter_t,
        (base, start, end): (Content, Option<&[u8]>, Option<&[u8]>),
    ) {
        let mut current: Option<(Vec<u8>, Vec<u8>)> = None;
        for _ in 0..self.rng.below(12) {
            if self.rng.chance(4) {
                self.write_in(at);
            }
            if self.rng.chance(30) {
                self.end(at);
            }
            let model = &self.transactions[at].model;
            let view = model.over(base.clone(), space).between(start, end);
            let (what, key) = (self.rng.below(8), self.rng.key());
            let place = |key: &[u8], after: bool| {
                view.pairs.partition_point(|(k, _)| {
                    let order = view.compare(k, key);
                    order.is_lt() || (after && order.is_eq())
                })
            };
            // SAFETY: alive and not used elsewhere; buffers are borrowed.
            let index = unsafe {
                let iter = raw.as_mut();
                match (what, &current) {
                    (0, _) => (esker_iter_seek_to_first(iter), Some(0)).1,
                    (1, _) => (esker_iter_seek_to_last(iter), view.pairs.len().checked_sub(1)).1,
                    (2, _) => {
                        esker_iter_seek(iter, key.as_ptr(), key.len());
                        Some(place(&key, false))
                    }
                    (3, _) => {
                        esker_iter_seek_for_prev(iter, key.as_ptr(), key.len());
                        place(&key, true).checked_sub(1)
                    }
                    (4 | 5, Some((now, _))) => {
                        esker_iter_prev(iter);
                        place(now, false).checked_sub(1)
                    }
                    (_, Some((now, _))) => (esker_iter_next(iter), Some(place(now, true))).1,
                    (_, None) => continue,
                }
            };
            // SAFETY: as above.
            let failure = unsafe { esker_iter_failure(raw.as_ref(), None) };
            if model.ended {
                assert_eq!(failure, INVALID, "a move after the end");
                return;
            }
            assert_eq!(failure, OK);
            current = index.and_then(|index| view.pairs.get(index).cloned());
            compare(raw, current.as_ref());
        }
    }

    /// Writes without a transaction.
    pub(super) fn plain_write(&mut self) {
        let (space, what) = (self.rng.below(2), self.rng.below(5));
        let (key, other, value) = (self.rng.key(), self.rng.key(), self.rng.value());
        let (db, keyspace) = (self.db(), self.space(space));
        let (k, k_len, v, v_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        let (o, o_len) = (other.as_ptr(), other.len());
        // SAFETY: buffers are borrowed.
        let code = unsafe {
            match (what, space) {
                (0, 0) => esker_delete(db, k, k_len, 0, None),
                (0, _) => esker_keyspace_delete(keyspace, k, k_len, 0, None),
                (1, 0) => esker_delete_range(db, k, k_len, o, o_len, 0, None),
                (1, _) => esker_keyspace_delete_range(keyspace, k, k_len, o, o_len, 0, None),
                (_, 0) => esker_put(db, k, k_len, v, v_len, 0, None),
                (_, _) => esker_keyspace_put(keyspace, k, k_len, v, v_len, 0, None),
            }
        };
        assert_eq!(code, if self.closed { CLOSED } else { OK });
        if code == OK {
            let op = match what {
                0 => Op::Delete(key),
                1 => Op::DeleteRange(key, other),
                _ => Op::Put(key, value),
            };
            self.contents[space].apply(&op);
            self.log.push((space, op));
        }
    }

    pub(super) fn maintain(&mut self) {
        let (db, what, space) = (self.db(), self.rng.below(3), self.rng.below(2));
        // SAFETY: handles are alive.
        let code = unsafe {
            match what {
                0 => esker_flush(db, None),
                1 => esker_keyspace_compact_range(self.space(space), null(), 0, null(), 0, None),
                _ => esker_verify(db, None),
            }
        };
        assert_eq!(code, if self.closed { CLOSED } else { OK });
    }

    /// Passes wrong arguments, which change nothing.
    pub(super) fn wrong(&mut self) {
        let Some(at) = self.some() else { return };
        let (t, mut value, mut len) = (self.raw(at), null_mut(), 7);
        // SAFETY: an impossible length is refused before the read; the keyspace is null or alive.
        unsafe {
            let (k, place) = (b"k".as_ptr(), (Some(&mut value), Some(&mut len)));
            let codes = [
                esker_transaction_put(t, k, usize::MAX, null(), 0, None),
                esker_transaction_put(t, null(), 1, null(), 0, None),
                esker_transaction_delete_in(t, None, k, 1, None),
                esker_transaction_delete_range(t, null(), 0, null(), 3, None),
                esker_transaction_get(t, null(), 2, place.0, place.1, None),
                esker_transaction_put_in(t, self.old_space.as_ref(), k, 1, null(), 0, None),
                esker_transaction_iter_create(t, null(), 0, null(), 0, None, None),
                esker_transaction_prepare(t, null(), None),
            ];
            assert!(codes.iter().all(|code| [INVALID, CLOSED].contains(code)), "{codes:?}");
        }
        assert!(value.is_null());
    }

    /// Frees a transaction, which rolls it back.
    pub(super) fn destroy(&mut self) {
        if let Some(at) = self.some() {
            let handle = self.transactions.swap_remove(at);
            // SAFETY: created by the library, freed only here.
            esker_transaction_destroy(Some(unsafe { Box::from_raw(handle.raw) }));
        }
    }

    pub(super) fn close_or_reopen(&mut self) {
        if self.rng.chance(3) {
            // SAFETY: alive.
            assert_eq!(unsafe { esker_close(self.db(), None) }, OK);
            self.closed = true;
        } else {
            self.reopen();
        }
    }

    /// Opens the store again, with the transactions of earlier openings still in use.
    pub(super) fn reopen(&mut self) {
        let close = |space: *mut esker_keyspace_t| {
            if !space.is_null() {
                // SAFETY: created by the library, freed only here.
                esker_keyspace_close(Some(unsafe { Box::from_raw(space) }));
            }
        };
        close(std::mem::replace(&mut self.old_space, self.spaces[0]));
        close(self.spaces[1]);
        self.free_db();
        // SAFETY: strings are borrowed; the handles are kept until they are freed.
        unsafe {
            let (options, mut kind) = (Some(&*self.options), esker_keyspace_options_create());
            assert_eq!(esker_open(PATH.as_ptr(), options, Some(&mut self.db), None), OK);
            let order = c"sequences.backwards".as_ptr();
            let set = esker_keyspace_options_set_key_order(Some(&mut *kind), order, None);
            assert_eq!(set, OK);
            let [first, second] = &mut self.spaces;
            let (db, name) = (self.db.as_ref(), c"default".as_ptr());
            assert_eq!(esker_keyspace_open(db, name, None, Some(first), None), OK);
            let name = c"backwards".as_ptr();
            assert_eq!(esker_keyspace_open(db, name, Some(&kind), Some(second), None), OK);
            esker_keyspace_options_destroy(Some(kind));
        }
        self.log.clear();
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

    /// Compares both keyspaces in a new transaction, and frees everything in a random order.
    pub fn end_all(mut self) {
        self.reopen();
        let mut t = null_mut();
        // SAFETY: handles are alive; iterators are freed here.
        unsafe {
            assert_eq!(esker_transaction_begin(self.db(), None, Some(&mut t), None), OK);
            for space in 0..2 {
                let (mut raw, keyspace, n) = (null_mut(), self.space(space), null());
                let place = Some(&mut raw);
                let made =
                    esker_transaction_iter_create_in(t.as_ref(), keyspace, n, 0, n, 0, place, None);
                assert_eq!(made, OK);
                esker_iter_seek_to_first(raw.as_mut());
                for pair in &self.contents[space].pairs {
                    compare(raw, Some(pair));
                    esker_iter_next(raw.as_mut());
                }
                compare(raw, None);
                esker_iter_destroy(Some(Box::from_raw(raw)));
            }
        }
        let model = Model::new(false, false);
        self.transactions.push(Handle { raw: t, opening: self.openings, model });
        let store_first = self.rng.chance(2);
        if store_first {
            self.free_db();
        }
        while !self.transactions.is_empty() {
            self.destroy();
        }
        for space in self.spaces.into_iter().chain([self.old_space]) {
            if !space.is_null() {
                // SAFETY: created by the library, freed only here.
                esker_keyspace_close(Some(unsafe { Box::from_raw(space) }));
            }
        }
        self.free_db();
        esker_options_destroy(Some(self.options));
    }
}

/// Compares the position of an iterator.
fn compare(raw: *mut esker_iter_t, expected: Option<&(Vec<u8>, Vec<u8>)>) {
    // SAFETY: alive; borrowed keys and values are compared before it moves.
    unsafe {
        let (iter, mut key_len, mut value_len) = (raw.as_ref(), 1, 1);
        assert_eq!(esker_iter_valid(iter), u8::from(expected.is_some()));
        let key = esker_iter_key(iter, Some(&mut key_len));
        let value = esker_iter_value(iter, Some(&mut value_len));
        let borrowed = |start: *const u8, len| std::slice::from_raw_parts(start, len);
        let (key, value) = (borrowed(key, key_len), borrowed(value, value_len));
        let (k, v) = expected.map_or((&[][..], &[][..]), |(key, value)| (key, value));
        assert_eq!((key, value), (k, v));
    }
}
