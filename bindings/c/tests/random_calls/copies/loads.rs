//! Part of `copies.rs`: files of sorted writers, ingests, and bulk loads.

use std::ffi::{c_char, c_void};

use esker_c::own::ingest::*;

use super::*;

/// Entries of a file, in the key order of their keyspace.
type Entries = Vec<(Vec<u8>, Entry)>;

#[derive(Clone)]
enum Entry {
    Put(Vec<u8>, u64),
    Merge(Vec<u8>),
    Delete,
}

/// The pairs of a bulk load.
struct Source {
    pairs: Pairs,
    next: usize,
    /// Number of pairs after which the source fails.
    limit: usize,
}

unsafe extern "C" fn next_pair(
    state: *mut c_void,
    key: *mut *const u8,
    key_len: *mut usize,
    value: *mut *const u8,
    value_len: *mut usize,
) -> i32 {
    // SAFETY: the state is a `Source` that outlives the call of the load; the places are valid.
    unsafe {
        let source = &mut *state.cast::<Source>();
        if source.next == source.limit {
            return ESKER_SOURCE_FAILED;
        }
        let Some((own_key, own_value)) = source.pairs.get(source.next) else {
            return ESKER_SOURCE_END;
        };
        source.next += 1;
        (*key, *key_len) = (own_key.as_ptr(), own_key.len());
        (*value, *value_len) = (own_value.as_ptr(), own_value.len());
    }
    ESKER_SOURCE_PAIR
}

fn add(writer: &mut Owned<esker_sorted_writer_t>, key: &[u8], entry: &Entry) -> i32 {
    let (k, k_len, to) = (key.as_ptr(), key.len(), writer.get_mut());
    // SAFETY: buffers are borrowed.
    unsafe {
        match entry {
            Entry::Put(value, ESKER_NEVER_MS) => {
                esker_sorted_writer_put(to, k, k_len, value.as_ptr(), value.len(), None)
            }
            Entry::Put(value, ttl_ms) => {
                let (v, v_len) = (value.as_ptr(), value.len());
                esker_sorted_writer_put_with_ttl(to, k, k_len, v, v_len, *ttl_ms, None)
            }
            Entry::Merge(operand) => {
                esker_sorted_writer_merge(to, k, k_len, operand.as_ptr(), operand.len(), None)
            }
            Entry::Delete => esker_sorted_writer_delete(to, k, k_len, None),
        }
    }
}

impl RandomCalls {
    /// Ingests files, or loads pairs.
    pub(super) fn load(&mut self) {
        let at = self.rng.below(2);
        let mut keys: Vec<Vec<u8>> = (0..1 + self.rng.below(8)).map(|_| self.rng.key()).collect();
        keys.sort_by(|a, b| self.contents[at].compare(a, b));
        keys.dedup();
        match self.rng.chance(3) {
            true => self.load_pairs(at, keys),
            false => self.ingest(at, &keys),
        }
        assert_eq!(contents_of(&self.store, self.backwards), self.contents);
        self.note();
    }

    fn load_pairs(&mut self, at: usize, keys: Vec<Vec<u8>>) {
        let mut pairs: Pairs = keys.into_iter().map(|key| (key, self.rng.value())).collect();
        let unordered = pairs.len() > 1 && self.rng.chance(6);
        if unordered {
            pairs.reverse();
        }
        let fails = self.rng.chance(6);
        let limit = if fails { self.rng.below(pairs.len()) } else { usize::MAX };
        let mut source = Source { pairs, next: 0, limit };
        let mut report = null_mut();
        // SAFETY: the source outlives the call; the report is freed once.
        unsafe {
            let (state, next) = ((&raw mut source).cast(), Some(next_pair as _));
            let place = Some(&mut report);
            let code = match at == 0 && self.rng.chance(2) {
                true => esker_bulk_load(self.store.get(), state, next, place, None),
                false => esker_keyspace_bulk_load(self.spaces[at].get(), state, next, place, None),
            };
            assert_eq!(code, if fails || unordered { INVALID } else { OK });
            if code != OK {
                return assert!(report.is_null());
            }
            assert_eq!((*report).entries, source.pairs.len() as u64);
            esker_free(report.cast());
        }
        for (key, value) in source.pairs {
            self.contents[at].apply(&Op::Put(key, value));
        }
    }

    fn entry(&mut self) -> Entry {
        match self.rng.below(5) {
            0 => Entry::Delete,
            1 => Entry::Merge(self.rng.value()),
            _ => Entry::Put(self.rng.value(), TTLS_MS[self.rng.below(3)]),
        }
    }

    /// Ingests one file or two, once, or twice as a copy.
    fn ingest(&mut self, at: usize, keys: &[Vec<u8>]) {
        let entries: Entries = keys.iter().map(|key| (key.clone(), self.entry())).collect();
        let (first, second) = entries.split_at(1 + self.rng.below(entries.len()));
        let mut paths = vec![self.new_file(at, first)];
        if !second.is_empty() {
            paths.push(self.new_file(at, second));
        }
        if self.rng.chance(6) {
            // Files of the other key order are refused.
            let other = 1 - at;
            let code = self.ingest_files(other, &paths, true, 0);
            assert_eq!(code, if self.backwards { INCOMPATIBLE } else { OK });
            if code == OK {
                self.apply_entries(other, &entries);
                self.note();
            }
        }
        if self.rng.chance(3) {
            let twice = [paths.clone(), paths.clone()].concat();
            assert_eq!(self.ingest_files(at, &twice, true, 0), INVALID);
            assert_eq!(self.ingest_files(at, &paths, true, entries.len()), OK);
            self.apply_entries(at, &entries);
            self.note();
        }
        assert_eq!(self.ingest_files(at, &paths, false, entries.len()), OK);
        self.apply_entries(at, &entries);
    }

    /// Writes entries to a new file.
    fn new_file(&mut self, at: usize, entries: &[(Vec<u8>, Entry)]) -> CString {
        let path = self.new_path("file");
        let options = if at == 0 { &self.options } else { &self.plain };
        // SAFETY: borrowed for the call.
        let writer = made(esker_sorted_writer_destroy, |place| unsafe {
            esker_sorted_writer_create(path.as_ptr(), Some(options), place, None)
        });
        let mut writer = writer.unwrap_or_else(|code| panic!("code {code}"));
        for (nth, (key, entry)) in entries.iter().enumerate() {
            assert_eq!(add(&mut writer, key, entry), OK);
            // A key is written once.
            assert_eq!(add(&mut writer, &entries[0].0, &Entry::Delete), INVALID);
            assert_eq!(esker_sorted_writer_entries(writer.get()), nth as u64 + 1);
        }
        assert!(esker_sorted_writer_estimated_bytes(writer.get()) > 0);
        if self.rng.chance(6) {
            // A file that was not finished is removed with its writer.
            drop(writer);
            return self.new_file(at, entries);
        }
        let mut file = null();
        // SAFETY: the result is valid as long as the writer.
        unsafe {
            let place = Some(&mut file);
            assert_eq!(esker_sorted_writer_finish(writer.get_mut(), place, None), OK);
            let file = &*file;
            assert_eq!(file.entries, entries.len() as u64);
            let bounds = [(file.smallest, file.smallest_len), (file.largest, file.largest_len)];
            let [smallest, largest] = bounds.map(|(start, len)| copied(start, len));
            assert_eq!((&smallest, &largest), (&entries[0].0, &entries[entries.len() - 1].0));
        }
        assert_eq!(add(&mut writer, b"~", &Entry::Delete), INVALID);
        path
    }

    /// Ingests files, and checks the number of entries if it is not 0.
    fn ingest_files(&mut self, at: usize, paths: &[CString], copy: bool, entries: usize) -> i32 {
        let files: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
        let (copy, verify) = (u8::from(copy), u8::from(self.rng.chance(2)));
        let mut report = null_mut();
        // SAFETY: the array and its paths are borrowed; the report is freed once.
        unsafe {
            let (start, count, place) = (files.as_ptr(), files.len(), Some(&mut report));
            let code = match at == 0 && self.rng.chance(2) {
                true => esker_ingest(self.store.get(), start, count, copy, verify, place, None),
                false => {
                    let space = self.spaces[at].get();
                    esker_keyspace_ingest(space, start, count, copy, verify, place, None)
                }
            };
            assert_eq!(code == OK, !report.is_null());
            if let Some(report) = report.as_ref() {
                assert!(entries == 0 || report.entries == entries as u64);
            }
            esker_free(report.cast());
            code
        }
    }

    fn apply_entries(&mut self, at: usize, entries: &[(Vec<u8>, Entry)]) {
        let content = &mut self.contents[at];
        for (key, entry) in entries.iter().cloned() {
            match entry {
                Entry::Put(value, ttl_ms) => put(content, key, value, ttl_ms),
                Entry::Merge(operand) => merge(content, key, &operand),
                Entry::Delete => content.apply(&Op::Delete(key)),
            }
        }
    }
}
