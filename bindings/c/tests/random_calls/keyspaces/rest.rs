//! Second half of `keyspaces.rs`: reads, snapshots, iterators, and the list of keyspaces.

use std::ffi::{CStr, CString};

use super::*;

impl RandomCalls {
    pub(super) fn read(&mut self) {
        let Some(at) = self.some_handle() else { return };
        let keys: Vec<Vec<u8>> = (0..3).map(|_| self.rng.key()).collect();
        let in_snapshot = self.rng.chance(2);
        let snapshot = self.snapshot.as_ref().filter(|_| in_snapshot);
        let (id, expected) = (self.handles[at].id, self.code_of(at));
        let empty = Content::default();
        let content = match snapshot {
            Some((_, contents)) => contents.get(&id).unwrap_or(&empty),
            None => self.contents.get(&id).map_or(&empty, |(_, content)| content),
        };
        let (space, first) = (self.space(at), &keys[0]);
        let (mut value, mut len) = (null_mut(), 7);
        // SAFETY: buffers are borrowed; the snapshot is alive.
        let code = unsafe {
            let snapshot = snapshot.and_then(|(raw, _)| raw.as_ref());
            let (k, place) = (first.as_ptr(), (Some(&mut value), Some(&mut len)));
            esker_keyspace_get(space, snapshot, k, first.len(), place.0, place.1, None)
        };
        let found = taken(value, len);
        assert_eq!(code, expected);
        if code == OK {
            assert_eq!(found.as_deref(), content.get(first));
        }
        if snapshot.is_none() {
            self.read_many(at, &keys);
        }
    }

    /// Reads several keys at once, and asks for one of them.
    fn read_many(&self, at: usize, keys: &[Vec<u8>]) {
        let starts: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
        let lens: Vec<usize> = keys.iter().map(Vec::len).collect();
        let mut values: Vec<*mut u8> = vec![null_mut(); keys.len()];
        let mut value_lens = vec![7; keys.len()];
        let (space, expected, mut has) = (self.space(at), self.code_of(at), 7);
        // SAFETY: buffers are borrowed, and the arrays have as many items as there are keys.
        unsafe {
            let (k, l, count) = (starts.as_ptr(), lens.as_ptr(), keys.len());
            let (v, v_l) = (values.as_mut_ptr(), value_lens.as_mut_ptr());
            assert_eq!(
                esker_keyspace_multi_get(space, None, 1, count, k, l, v, v_l, None),
                expected
            );
            let code =
                esker_keyspace_contains(space, None, starts[0], lens[0], Some(&mut has), None);
            assert_eq!(code, expected);
        }
        let found = values.into_iter().zip(value_lens).map(|(value, len)| taken(value, len));
        let found: Vec<Option<Vec<u8>>> = found.collect();
        if expected != OK {
            assert!(found.iter().all(Option::is_none) && has == 7);
            return;
        }
        let content = &self.contents[&self.handles[at].id].1;
        let wanted = keys.iter().map(|key| content.get(key).map(<[u8]>::to_vec));
        assert_eq!(found, wanted.collect::<Vec<_>>());
        assert_eq!(has == 1, found[0].is_some());
    }

    pub(super) fn take_snapshot(&mut self) {
        self.free_snapshot();
        let mut raw = null_mut();
        // SAFETY: handles are alive.
        let code = unsafe { esker_snapshot_create(self.db(), Some(&mut raw), None) };
        assert_eq!(code, if self.closed { CLOSED } else { OK });
        if code == OK {
            let contents = self.contents.iter().map(|(id, (_, content))| (*id, content.clone()));
            self.snapshot = Some((raw, contents.collect()));
        }
    }

    pub(super) fn iterator(&mut self) {
        if self.iters.is_empty() || (self.iters.len() < 4 && self.rng.chance(4)) {
            return self.make_iterator();
        }
        let at = self.rng.below(self.iters.len());
        if self.rng.chance(10) {
            let (iter, _) = self.iters.swap_remove(at);
            // SAFETY: created by the library, freed only here and in `free_readers`.
            return esker_iter_destroy(Some(unsafe { Box::from_raw(iter) }));
        }
        let key = self.rng.key();
        for _ in 0..1 + self.rng.below(6) {
            let what = self.rng.below(8);
            let (iter, iter_model) = &mut self.iters[at];
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
                    4 | 5 => (esker_iter_prev(iter), iter_model.prev()).1,
                    _ => (esker_iter_next(iter), iter_model.next()).1,
                }
            }
            self.compare(at);
        }
    }

    fn make_iterator(&mut self) {
        let Some(at) = self.some_handle() else { return };
        let keys = [self.rng.key(), self.rng.key()];
        let [start, end] = keys.each_ref().map(|key| self.rng.chance(2).then_some(key.as_slice()));
        let bound = |key: Option<&[u8]>| key.map_or((null(), 0), |key| (key.as_ptr(), key.len()));
        let ((s, s_len), (e, e_len)) = (bound(start), bound(end));
        let mut iter = null_mut();
        // SAFETY: handles are alive; buffers are borrowed.
        let code = unsafe {
            let (space, place) = (self.space(at), Some(&mut iter));
            esker_keyspace_iter_create(space, None, s, s_len, e, e_len, 0, place, None)
        };
        assert_eq!(code, self.code_of(at));
        if code == OK {
            let content = self.contents[&self.handles[at].id].1.between(start, end);
            self.iters.push((iter, IterModel::new(content)));
            self.compare(self.iters.len() - 1);
        }
    }

    fn compare(&self, at: usize) {
        let (iter, iter_model) = &self.iters[at];
        // SAFETY: alive; borrowed keys and values are compared before it moves.
        unsafe {
            let iter = iter.as_ref();
            assert_eq!(esker_iter_failure(iter, None), OK);
            assert_eq!(esker_iter_valid(iter), u8::from(iter_model.at.is_some()));
            let (mut key_len, mut value_len) = (1, 1);
            let key = esker_iter_key(iter, Some(&mut key_len));
            let value = esker_iter_value(iter, Some(&mut value_len));
            let borrowed = |start: *const u8, len| std::slice::from_raw_parts(start, len);
            assert_eq!((borrowed(key, key_len), borrowed(value, value_len)), iter_model.pair());
        }
    }

    /// Renames, drops, finds or lists keyspaces, or compacts one.
    pub(super) fn manage(&mut self) {
        match self.rng.below(8) {
            0 => self.rename(),
            1 => self.drop_one(),
            2 => self.find(),
            3 => self.list(),
            4 => {
                // SAFETY: alive.
                let code = unsafe { esker_flush(self.db(), None) };
                assert_eq!(code, if self.closed { CLOSED } else { OK });
            }
            what => {
                let Some(at) = self.some_handle() else { return };
                let (space, expected, mut bytes) = (self.space(at), self.code_of(at), 0);
                // SAFETY: no buffers are passed.
                let code = unsafe {
                    match what {
                        5 => esker_keyspace_size_bytes(space, Some(&mut bytes), None),
                        _ => esker_keyspace_compact_range(space, null(), 0, null(), 0, None),
                    }
                };
                assert_eq!(code, expected);
            }
        }
    }

    /// Returns the code of a change of the keyspace `name`, and its number.
    fn change_of(&self, name: &str) -> (i32, Option<u32>) {
        let id = self.id_of(name);
        let code = match id {
            _ if self.closed => CLOSED,
            Some(0) => INVALID,
            Some(_) => OK,
            None => NOT_FOUND,
        };
        (code, id)
    }

    fn rename(&mut self) {
        let (name, new_name) = (NAMES[self.rng.below(4)], NAMES[self.rng.below(4)]);
        let (from, to) = (CString::new(name), CString::new(new_name));
        let (from, to) = (from.expect("no zero byte"), to.expect("no zero byte"));
        // SAFETY: strings are borrowed.
        let code = unsafe { esker_keyspace_rename(self.db(), from.as_ptr(), to.as_ptr(), None) };
        let (mut expected, id) = self.change_of(name);
        if expected == OK && self.id_of(new_name).is_some() {
            expected = INVALID;
        }
        assert_eq!(code, expected);
        if let (OK, Some(id)) = (code, id) {
            let renamed = self.contents.get_mut(&id).expect("the keyspace exists");
            renamed.0 = new_name.to_string();
        }
    }

    fn drop_one(&mut self) {
        let name = NAMES[self.rng.below(4)];
        let c_name = CString::new(name).expect("no zero byte");
        // SAFETY: the string is borrowed.
        let code = unsafe { esker_keyspace_drop(self.db(), c_name.as_ptr(), None) };
        let (expected, id) = self.change_of(name);
        assert_eq!(code, expected);
        if let (OK, Some(id)) = (code, id) {
            self.contents.remove(&id);
        }
    }

    fn find(&mut self) {
        let name = NAMES[self.rng.below(4)];
        let c_name = CString::new(name).expect("no zero byte");
        let mut raw = null_mut();
        // SAFETY: the string is borrowed.
        let code = unsafe { esker_keyspace_find(self.db(), c_name.as_ptr(), Some(&mut raw), None) };
        assert_eq!(code, if self.closed { CLOSED } else { OK });
        let known = self.id_of(name).filter(|_| !self.closed);
        assert_eq!(raw.is_null(), known.is_none());
        if let Some(id) = known {
            // SAFETY: created above.
            assert_eq!(esker_keyspace_id(unsafe { raw.as_ref() }), id);
            self.handles.push(Handle { raw, id, opening: self.openings });
        }
    }

    fn list(&self) {
        let mut text = null_mut();
        // SAFETY: the text is copied and freed.
        let (code, listed) = unsafe {
            let code = esker_keyspaces(self.db(), Some(&mut text), None);
            let listed = match text.is_null() {
                true => String::new(),
                false => CStr::from_ptr(text).to_string_lossy().into_owned(),
            };
            esker_free(text.cast());
            (code, listed)
        };
        assert_eq!(code, if self.closed { CLOSED } else { OK });
        if code == OK {
            let mut names: Vec<&str> =
                self.contents.values().skip(1).map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            names.insert(0, "default");
            assert_eq!(listed, names.join("\n"));
        }
        for at in 0..self.handles.len() {
            let name = esker_keyspace_name(self.space(at));
            // SAFETY: a text of the library, freed once.
            unsafe {
                assert!(!CStr::from_ptr(name).is_empty());
                esker_free(name.cast());
            }
        }
    }

    fn free_snapshot(&mut self) {
        if let Some((raw, _)) = self.snapshot.take() {
            // SAFETY: created by the library, freed only here.
            esker_snapshot_destroy(Some(unsafe { Box::from_raw(raw) }));
        }
    }

    /// Frees the iterators and the snapshot, which are of the current opening.
    pub(super) fn free_readers(&mut self) {
        self.free_snapshot();
        for (iter, _) in std::mem::take(&mut self.iters) {
            // SAFETY: created by the library, freed only here and in `iterator`.
            esker_iter_destroy(Some(unsafe { Box::from_raw(iter) }));
        }
    }

    /// Compares every keyspace, and frees everything in a random order.
    pub fn end(mut self) {
        self.reopen();
        self.list();
        let contents = self.contents.clone();
        for (id, (name, content)) in contents {
            let name = CString::new(name).expect("no zero byte");
            let (mut raw, mut iter) = (null_mut(), null_mut());
            // SAFETY: the string is borrowed.
            unsafe {
                let code = esker_keyspace_find(self.db(), name.as_ptr(), Some(&mut raw), None);
                assert_eq!((code, esker_keyspace_id(raw.as_ref())), (OK, id));
                let (space, none, place) = (raw.as_ref(), null(), Some(&mut iter));
                let code =
                    esker_keyspace_iter_create(space, None, none, 0, none, 0, 1, place, None);
                assert_eq!(code, OK);
            }
            self.handles.push(Handle { raw, id, opening: self.openings });
            self.iters.push((iter, IterModel::new(content)));
            self.compare_all(self.iters.len() - 1);
        }
        let store_first = self.rng.chance(2);
        if store_first {
            self.free_db();
        }
        while !self.handles.is_empty() {
            self.close_keyspace();
        }
        self.free_readers();
        self.free_db();
        esker_batch_destroy(Some(self.batch));
        esker_options_destroy(Some(self.options));
    }

    /// Compares every pair of an iterator.
    fn compare_all(&mut self, at: usize) {
        let (iter, iter_model) = &mut self.iters[at];
        iter_model.first();
        // SAFETY: alive.
        esker_iter_seek_to_first(unsafe { iter.as_mut() });
        self.compare(at);
        while self.iters[at].1.at.is_some() {
            let (iter, iter_model) = &mut self.iters[at];
            iter_model.next();
            // SAFETY: alive.
            esker_iter_next(unsafe { iter.as_mut() });
            self.compare(at);
        }
    }
}
