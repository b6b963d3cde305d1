//! Part of `copies.rs`: forks, comparisons, backups, checkpoints, verifications and repairs.

use std::ffi::{c_char, c_void};

use esker_c::own::backup::*;
use esker_c::own::fork::*;
use esker_c::own::inspect::*;
use esker_c::own::reports::*;

use super::*;

const BACKUPS: &CStr = c"/backups";

/// A difference: the keyspace, the key, and the values of both sides.
type Differing = (usize, Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

/// A side of a comparison.
#[derive(Clone, Copy)]
struct Side<'a> {
    db: &'a Owned<esker_db_t>,
    snapshot: Option<&'a esker_snapshot_t>,
    contents: &'a Contents,
}

/// Returns the keys with different values, in the order of a comparison.
fn expected_differences(old: &Contents, new: &Contents) -> Vec<Differing> {
    let mut differing = Vec::new();
    for at in [0, 1] {
        let (old, new) = (&old[at], &new[at]);
        let mut keys: Vec<&Vec<u8>> =
            old.pairs.iter().chain(&new.pairs).map(|(key, _)| key).collect();
        keys.sort_by(|a, b| old.compare(a, b));
        keys.dedup();
        for key in keys.into_iter().filter(|key| old.get(key) != new.get(key)) {
            let side = |content: &Content| content.get(key).map(<[u8]>::to_vec);
            differing.push((at, key.clone(), side(old), side(new)));
        }
    }
    differing
}

/// Compares two sides, or the keyspace `only` of them.
fn compare(old: Side<'_>, new: Side<'_>, only: Option<usize>, relation: i32) {
    let name = only.map_or(null(), |at| NAMES[at].as_ptr());
    // SAFETY: borrowed for the call.
    let diff = made(esker_diff_destroy, |place| unsafe {
        let (a, b) = ((old.db.get(), old.snapshot), (new.db.get(), new.snapshot));
        esker_diff_create(a.0, a.1, b.0, b.1, name, place, None)
    });
    let mut diff = diff.unwrap_or_else(|code| panic!("code {code}"));
    assert_eq!(esker_diff_relation(diff.get()), relation);
    let shared = (esker_diff_shared_files(diff.get()), esker_diff_shared_bytes(diff.get()));
    assert_eq!(shared.0 == 0, shared.1 == 0);
    for side in [0, 1] {
        let names = esker_diff_keyspaces_only_in(diff.get(), side);
        // SAFETY: a text of the library, freed once.
        unsafe {
            assert!(CStr::from_ptr(names).is_empty(), "both stores have both keyspaces");
            esker_free(names.cast());
        }
    }
    let mut found = Vec::new();
    loop {
        let mut next = null();
        // SAFETY: a difference is valid until the next call on the comparison.
        unsafe {
            assert_eq!(esker_diff_next(diff.get_mut(), Some(&mut next), None), OK);
            let Some(next) = next.as_ref() else { break };
            let name = CStr::from_ptr(next.keyspace);
            let at = NAMES.iter().position(|known| *known == name).expect("a keyspace");
            let value = |start: *const u8, len| (!start.is_null()).then(|| copied(start, len));
            let (old, old_ms) = (value(next.old_value, next.old_value_len), next.old_expires_ms);
            let (new, new_ms) = (value(next.new_value, next.new_value_len), next.new_expires_ms);
            if old == new {
                assert_ne!(old_ms, new_ms, "pairs differ by their value or their time");
            } else {
                found.push((at, copied(next.key, next.key_len), old, new));
            }
        }
    }
    let mut expected = expected_differences(old.contents, new.contents);
    expected.retain(|(at, ..)| only.is_none_or(|only| only == *at));
    assert_eq!(found, expected);
}

/// What `esker_lineage` visits.
unsafe extern "C" fn see_ancestor(state: *mut c_void, id: u64, name: *const c_char, _at: u64) {
    assert!(name.is_null());
    // SAFETY: the state is a list that outlives the call.
    unsafe { (*state.cast::<Vec<u64>>()).push(id) }
}

/// What `esker_backups` visits.
unsafe extern "C" fn see_backup(state: *mut c_void, backup: *const esker_backup_info_t) {
    // SAFETY: the state is a list that outlives the call; the backup is valid during the call.
    unsafe {
        let backup = &*backup;
        assert!(backup.problem.is_null() && backup.has_store == 1);
        (*state.cast::<Vec<(u64, u64)>>()).push((backup.number, backup.store_id));
    }
}

unsafe extern "C" fn progress(state: *mut c_void, bytes: u64, _of: u64) {
    // SAFETY: the state is a number that outlives the call.
    unsafe {
        let last = &mut *state.cast::<u64>();
        assert!(bytes >= *last);
        *last = bytes;
    }
}

/// Returns the ancestors of a store, and whether it has a name.
fn lineage(db: &Owned<esker_db_t>) -> (Vec<u64>, bool) {
    let (mut ancestors, mut name): (Vec<u64>, _) = (Vec::new(), null_mut());
    // SAFETY: the list outlives the call; the name is freed once.
    unsafe {
        let state = (&raw mut ancestors).cast();
        let code = esker_lineage(db.get(), Some(&mut name), state, Some(see_ancestor), None);
        assert_eq!(code, OK);
        esker_free(name.cast());
    }
    (ancestors, !name.is_null())
}

impl RandomCalls {
    /// Opens a copy of the store, and checks its contents.
    fn copy_with(&self, path: &CStr, contents: &Contents) -> Owned<esker_db_t> {
        let db = opened(path, &self.options);
        assert_eq!(&contents_of(&db, self.backwards), contents);
        db
    }

    fn remove(&self, path: &CStr) {
        // SAFETY: borrowed for the call.
        let code = unsafe { esker_destroy_store(path.as_ptr(), Some(&self.options), None) };
        assert_eq!(code, OK);
    }

    /// Makes a fork, which follows the store or goes its own way, and removes it.
    pub(super) fn fork(&mut self) {
        let (path, position, named) = (self.new_path("fork"), self.note(), self.rng.chance(2));
        let name = if named { c"branch".as_ptr() } else { null() };
        let mut report = null_mut();
        // SAFETY: borrowed for the calls; the report is freed once.
        let fork_id = unsafe {
            let (db, place) = (self.store.get(), Some(&mut report));
            assert_eq!(esker_fork(db, path.as_ptr(), name, place, None), OK);
            let id = (*report).store_id;
            esker_free(report.cast());
            assert_eq!(esker_fork(db, path.as_ptr(), name, None, None), INVALID);
            id
        };
        let fork = self.copy_with(&path, &self.contents);
        assert_eq!(lineage(&fork), (vec![self.id], named));
        assert!(lineage(&self.store).0.is_empty() && fork_id != self.id);
        if self.rng.chance(2) {
            self.follow(&fork, position);
        } else {
            let mut theirs = self.contents.clone();
            for _ in 0..self.rng.below(5) {
                let (at, key, value) = (self.rng.below(2), self.rng.key(), self.rng.value());
                let space = found(&fork, at);
                let (k, k_len, v, v_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
                let deletes = self.rng.chance(3);
                // SAFETY: buffers are borrowed.
                let code = unsafe {
                    match deletes {
                        true => esker_keyspace_delete(space.get(), k, k_len, 2, None),
                        false => esker_keyspace_put(space.get(), k, k_len, v, v_len, 2, None),
                    }
                };
                assert_eq!(code, OK);
                let op = if deletes { Op::Delete(key) } else { Op::Put(key, value) };
                theirs[at].apply(&op);
            }
            self.write();
            let ours = Side { db: &self.store, snapshot: None, contents: &self.contents };
            let fork = Side { db: &fork, snapshot: None, contents: &theirs };
            let only = [None, Some(0), Some(1)][self.rng.below(3)];
            compare(ours, fork, only, ESKER_RELATION_DESCENDANT);
            compare(fork, ours, only, ESKER_RELATION_ANCESTOR);
        }
        drop(fork);
        self.remove(&path);
    }

    /// Compares the store with an earlier state of it, or with the replica.
    pub(super) fn compare_states(&mut self) {
        let now = Side { db: &self.store, snapshot: None, contents: &self.contents };
        if let Some((snapshot, contents)) = &self.snapshot {
            let then = Side { db: &self.store, snapshot: snapshot.get(), contents };
            compare(then, now, None, ESKER_RELATION_SAME_STORE);
            compare(now, then, Some(self.rng.below(2)), ESKER_RELATION_SAME_STORE);
        }
        if let Some(position) = self.applied(&self.replica) {
            let contents = self.at(position);
            let replica = Side { db: &self.replica, snapshot: None, contents };
            compare(replica, now, None, ESKER_RELATION_UNRELATED);
        }
        // SAFETY: borrowed for the call.
        let none = made(esker_diff_destroy, |place| unsafe {
            let (db, name) = (self.store.get(), c"none".as_ptr());
            esker_diff_create(db, None, db, None, name, place, None)
        });
        assert_eq!(none.err(), Some(NOT_FOUND));
    }

    /// Runs jobs of the store, verifies it, or reads the keys with a prefix.
    pub(super) fn maintain(&mut self) {
        let (mut report, mut heard) = (null_mut(), 0_u64);
        let (what, db) = (self.rng.below(6), self.store.get());
        // SAFETY: borrowed for the calls; the report is freed once.
        unsafe {
            let code = match what {
                0 => esker_flush(db, None),
                1 => esker_compact_all(db, None),
                2 => {
                    let code = esker_run_one_job(db, None, None);
                    return assert_eq!(code, if self.has_threads { INVALID } else { OK });
                }
                3 => {
                    let (state, place) = ((&raw mut heard).cast(), Some(&mut report));
                    let code = esker_verify_with(db, state, Some(progress), place, None);
                    assert_eq!((*report).problems, 0);
                    esker_free(report.cast());
                    code
                }
                _ => return self.read_prefix(),
            };
            assert_eq!(code, OK);
        }
    }

    fn read_prefix(&mut self) {
        let (at, prefix) = (self.rng.below(2), self.rng.key());
        let prefix = &prefix[..prefix.len().min(2)];
        // SAFETY: borrowed for the call.
        let iter = made(esker_iter_destroy, |place| unsafe {
            let (space, start, len) = (self.spaces[at].get(), prefix.as_ptr(), prefix.len());
            esker_keyspace_iter_create_prefix(space, None, start, len, 1, place, None)
        });
        let content = &self.contents[at];
        match iter {
            Err(code) => assert_eq!((code, content.backwards), (INVALID, true)),
            Ok(iter) => {
                let with = content.pairs.iter().filter(|(key, _)| key.starts_with(prefix));
                assert_eq!(drained(iter), with.cloned().collect::<Pairs>());
            }
        }
    }

    /// Adds a backup, lists all, and removes the oldest.
    pub(super) fn back_up(&mut self) {
        let (mut number, mut removed, mut seen) = (0, 7, Vec::<(u64, u64)>::new());
        let keep = self.rng.below(4);
        // SAFETY: borrowed for the calls; the list outlives them.
        unsafe {
            let (db, path, options) = (self.store.get(), BACKUPS.as_ptr(), Some(&*self.options));
            assert_eq!(esker_backup(db, path, 0, Some(&mut number), None, None), OK);
            self.backups.push((number, self.contents.clone()));
            let other = self.replica.get();
            assert_eq!(esker_backup(other, path, 0, None, None, None), INCOMPATIBLE);
            let state = (&raw mut seen).cast();
            assert_eq!(esker_backups(path, options, state, Some(see_backup), None), OK);
            let code = esker_prune_backups(path, options, keep, Some(&mut removed), None);
            assert_eq!(code, if keep == 0 { INVALID } else { OK });
        }
        let expected: Vec<(u64, u64)> = self.backups.iter().map(|(n, _)| (*n, self.id)).collect();
        assert_eq!(seen, expected);
        if keep > 0 {
            let over = self.backups.len().saturating_sub(keep);
            self.backups.drain(..over);
            assert_eq!(removed, over as u64);
        }
    }

    /// Restores a backup, and removes the restored store.
    pub(super) fn restore(&mut self) {
        let (path, mut restored) = (self.new_path("restored"), 0);
        let newest = self.backups.last().map_or(1, |(number, _)| *number);
        let number = self.rng.below(newest as usize + 2) as u64;
        let known = match number {
            0 => self.backups.last(),
            _ => self.backups.iter().find(|(known, _)| *known == number),
        };
        // SAFETY: borrowed for the call.
        let code = unsafe {
            let (from, into, options) = (BACKUPS.as_ptr(), path.as_ptr(), Some(&*self.options));
            esker_restore(from, number, into, options, Some(&mut restored), None)
        };
        let Some((number, contents)) = known else { return assert_eq!(code, NOT_FOUND) };
        assert_eq!((code, restored), (OK, *number));
        drop(self.copy_with(&path, contents));
        self.remove(&path);
    }

    /// Makes a checkpoint, may repair it, and removes it.
    pub(super) fn checkpoint(&mut self) {
        let path = self.new_path("copy");
        let (mut report, mut lost, mut originals) = (null_mut(), null_mut(), null_mut());
        // SAFETY: borrowed for the calls; results are freed once.
        unsafe {
            assert_eq!(esker_checkpoint(self.store.get(), path.as_ptr(), None), OK);
            let own = self.copy_with(&path, &self.contents);
            let options = Some(&*self.options);
            let code = esker_repair_with(path.as_ptr(), options, None, None, None, None);
            assert_eq!(code, LOCKED);
            drop(own);
            if self.rng.chance(2) {
                let places = (Some(&mut report), Some(&mut lost), Some(&mut originals));
                let p = path.as_ptr();
                let code = esker_repair_with(p, options, places.0, places.1, places.2, None);
                assert_eq!((code, lost.is_null(), originals.is_null()), (OK, true, false));
                assert_eq!(((*report).manifest_readable, (*report).losses), (1, 0));
                esker_free(report.cast());
                esker_free(originals.cast());
            }
        }
        drop(self.copy_with(&path, &self.contents));
        self.remove(&path);
    }
}
