//! Part of `copies.rs`: the feed, its slots, and streams of it to other stores.

use std::ffi::c_void;

use esker_c::own::wire::*;

use super::*;

/// A limit of bytes or batches that no test reaches.
const NO_LIMIT: usize = usize::MAX;

/// A feed, and what its changes have made of the contents at its start.
pub(super) struct Feed {
    raw: Owned<esker_changes_t>,
    contents: Contents,
    position: u64,
}

impl Feed {
    /// Reads the next part of a batch, and applies its changes. Returns whether there was one, and
    /// whether more parts follow.
    pub(super) fn next(&mut self) -> Result<Option<bool>, i32> {
        let mut batch = null();
        // SAFETY: the batch is valid until the next call on the feed.
        unsafe {
            let code = esker_changes_next(self.raw.get_mut(), 0, Some(&mut batch), None);
            if code != OK {
                assert!(batch.is_null());
                return Err(code);
            }
            let Some(batch) = batch.as_ref() else { return Ok(None) };
            assert!(batch.previous >= self.position && batch.checksum != 0);
            for nth in 0..batch.changes_len {
                apply_change(&mut self.contents, &**batch.changes.add(nth));
            }
            let continues = batch.continues != 0;
            if !continues {
                self.position = batch.sequence;
                assert_eq!(esker_changes_position(self.raw.get()), self.position);
            }
            Ok(Some(continues))
        }
    }
}

/// Applies a change of the feed.
///
/// # Safety
/// The change is one of a batch that is valid.
unsafe fn apply_change(contents: &mut Contents, change: &esker_change_t) {
    // SAFETY: guaranteed by the caller.
    let (name, key, value) = unsafe {
        let key = copied(change.key, change.key_len);
        (CStr::from_ptr(change.keyspace), key, copied(change.value, change.value_len))
    };
    let at = NAMES.iter().position(|known| *known == name).expect("a keyspace of the store");
    let content = &mut contents[at];
    match change.kind {
        ESKER_CHANGE_PUT if change.expires_ms < LONG_MS => content.apply(&Op::Delete(key)),
        ESKER_CHANGE_PUT => content.apply(&Op::Put(key, value)),
        ESKER_CHANGE_MERGE => merge(content, key, &value),
        ESKER_CHANGE_DELETE => content.apply(&Op::Delete(key)),
        ESKER_CHANGE_DELETE_RANGE => content.apply(&Op::DeleteRange(key, value)),
        ESKER_CHANGE_CLEAR => content.pairs.clear(),
        kind => {
            assert_eq!((kind, at), (ESKER_CHANGE_KEYSPACE_CREATED, 1));
            assert!(content.pairs.is_empty() && !change.key_order.is_null());
        }
    }
}

/// Bytes on their way to another store.
struct Wire {
    bytes: Vec<u8>,
    read: usize,
    /// Number of bytes that one read gives at most.
    room: usize,
    /// Number of bytes after which the functions fail.
    limit: usize,
    calls: usize,
}

unsafe extern "C" fn take(state: *mut c_void, bytes: *const u8, len: usize) -> i32 {
    // SAFETY: the state is a `Wire` that outlives the writer; the bytes are valid during the call.
    unsafe {
        let wire = &mut *state.cast::<Wire>();
        wire.calls += 1;
        if wire.bytes.len() + len > wire.limit {
            return 1;
        }
        wire.bytes.extend(copied(bytes, len));
    }
    0
}

unsafe extern "C" fn give(state: *mut c_void, buffer: *mut u8, len: usize) -> i64 {
    // SAFETY: the state is a `Wire` that outlives the applier; the buffer has that length.
    unsafe {
        let wire = &mut *state.cast::<Wire>();
        if wire.read >= wire.limit {
            return -1;
        }
        let left = wire.bytes.len().min(wire.limit) - wire.read;
        let len = len.min(left).min(wire.room);
        std::ptr::copy_nonoverlapping(wire.bytes.as_ptr().add(wire.read), buffer, len);
        wire.read += len;
        len as i64
    }
}

impl RandomCalls {
    /// Makes the slots `reader` and `replica`, at the present position.
    pub(super) fn subscribe(&mut self) {
        let position = self.note();
        for name in [c"replica", c"reader"] {
            let limit = [ESKER_LAG_LIMIT_DEFAULT, ESKER_LAG_UNLIMITED][self.rng.below(2)];
            // SAFETY: borrowed for the call.
            let slot = made(esker_slot_close, |place| unsafe {
                esker_subscribe(self.store.get(), name.as_ptr(), limit, place, None)
            });
            self.slot = slot.unwrap_or_else(|code| panic!("code {code}"));
        }
        (self.confirmed, self.kept) = (position, position);
    }

    /// Begins a feed, at the slot or at a later position.
    pub(super) fn begin_feed(&mut self) {
        let from = match self.rng.chance(2) {
            true => self.confirmed,
            false => self.some_position(self.confirmed..),
        };
        // SAFETY: borrowed for the calls.
        let raw = made(esker_changes_destroy, |place| unsafe {
            match from == self.confirmed {
                true => esker_slot_changes(self.slot.get(), place, None),
                false => esker_changes_create(self.store.get(), from, place, None),
            }
        });
        let raw = raw.unwrap_or_else(|code| panic!("code {code}"));
        assert_eq!(esker_changes_position(raw.get()), from);
        self.feed = Some(Feed { raw, contents: self.at(from).clone(), position: from });
        // SAFETY: borrowed for the call.
        let late = made(esker_changes_destroy, |place| unsafe {
            esker_changes_create(self.store.get(), u64::MAX - 1, place, None)
        });
        assert_eq!(late.err(), Some(INVALID));
    }

    /// Reads some batches, or all.
    pub(super) fn read_feed(&mut self) {
        if self.feed.is_none() {
            self.begin_feed();
        }
        let Some(mut feed) = self.feed.take() else { return };
        let mut left = [1, 3, NO_LIMIT][self.rng.below(3)];
        while left > 0 {
            match feed.next() {
                Ok(Some(true)) => continue,
                Ok(Some(false)) => assert_eq!(&feed.contents, self.at(feed.position)),
                Ok(None) => {
                    assert_eq!(feed.contents, self.contents);
                    break;
                }
                Err(code) => panic!("code {code}"),
            }
            left -= 1;
        }
        self.feed = Some(feed);
    }

    /// Confirms what the feed has returned, or another position.
    pub(super) fn confirm(&mut self) {
        let position = match (&self.feed, self.rng.below(4)) {
            (_, 0) => self.some_position(..),
            (_, 1) => u64::MAX - 1,
            (Some(feed), _) => feed.position,
            (None, _) => self.confirmed,
        };
        let mut now = 0;
        // SAFETY: borrowed for the calls.
        unsafe {
            let code = esker_slot_confirm(self.slot.get(), position, None);
            assert_eq!(code, if position == u64::MAX - 1 { INVALID } else { OK });
            assert_eq!(esker_slot_position(self.slot.get(), Some(&mut now), None), OK);
        }
        // A position before the confirmed one changes nothing.
        if position != u64::MAX - 1 && position > self.confirmed {
            self.confirmed = position;
            // Logs that an older feed has yet to read may be removed.
            self.feed = self.feed.take().filter(|feed| feed.position >= position);
        }
        assert_eq!(now, self.confirmed);
    }

    /// Returns the position that a store has applied of this one.
    pub(super) fn applied(&self, db: &Owned<esker_db_t>) -> Option<u64> {
        let (mut has, mut source, mut position) = (7, 7, 7);
        // SAFETY: borrowed for the call.
        let code = unsafe {
            let places = (Some(&mut has), Some(&mut source), Some(&mut position));
            esker_applied_position(db.get(), places.0, places.1, places.2, None)
        };
        assert_eq!(code, OK);
        assert_eq!(source, if has == 1 { self.id } else { 0 });
        (has == 1).then_some(position)
    }

    /// Writes a stream of the changes after a position, or of the content and what follows. Returns
    /// it and its end.
    fn stream(&mut self, from: Option<u64>) -> (Box<Wire>, u64) {
        let room = [1, 13, NO_LIMIT][self.rng.below(3)];
        let wire = Wire { bytes: Vec::new(), read: 0, room, limit: NO_LIMIT, calls: 0 };
        let mut wire = Box::new(wire);
        let (state, mut end) = ((&raw mut *wire).cast(), from.unwrap_or_default());
        // SAFETY: the wire outlives the writer; other arguments are borrowed.
        unsafe {
            let mut writer = made(esker_change_writer_destroy, |place| {
                esker_change_writer_create(self.store.get(), state, Some(take), place, None)
            })
            .unwrap_or_else(|code| panic!("code {code}"));
            if from.is_none() {
                let place = Some(&mut end);
                assert_eq!(esker_change_writer_content(writer.get_mut(), place, None), OK);
            }
            let mut changes = made(esker_changes_destroy, |place| {
                esker_changes_create(self.store.get(), end, place, None)
            })
            .unwrap_or_else(|code| panic!("code {code}"));
            let batch = |writer: &mut Owned<_>, changes: &Owned<_>| {
                esker_change_writer_batch(writer.get_mut(), changes.get(), None)
            };
            assert_eq!(batch(&mut writer, &changes), INVALID);
            let mut next = null();
            while {
                let place = Some(&mut next);
                assert_eq!(esker_changes_next(changes.get_mut(), 0, place, None), OK);
                !next.is_null()
            } {
                assert_eq!(batch(&mut writer, &changes), OK);
                end = (*next).sequence;
                if self.rng.chance(4) {
                    assert_eq!(esker_change_writer_alive(writer.get_mut(), end, None), OK);
                }
            }
            assert_eq!(esker_change_writer_end(writer.get_mut(), end, None), OK);
        }
        (wire, end)
    }

    /// Applies a stream to a store, after `start_at` if that is a position. Returns the code of the
    /// first failure.
    fn apply(
        &self,
        db: &Owned<esker_db_t>,
        wire: &mut Wire,
        start_at: Option<u64>,
        end: u64,
    ) -> i32 {
        let state = std::ptr::from_mut(wire).cast();
        let (mut item, mut position) = (7, 7);
        // SAFETY: the wire outlives the applier; other arguments are borrowed.
        unsafe {
            let applier = made(esker_applier_destroy, |place| {
                esker_applier_create(db.get(), state, Some(give), place, None)
            });
            let mut applier = match applier {
                Ok(applier) => applier,
                Err(code) => return code,
            };
            assert_eq!(esker_applier_source(applier.get()), self.id);
            if let Some(at) = start_at {
                assert_eq!(esker_applier_start_at(applier.get_mut(), at, None), OK);
                assert_eq!(esker_applier_start_at(applier.get_mut(), at, None), INVALID);
            }
            while item != ESKER_STREAM_END {
                let places = (Some(&mut item), Some(&mut position));
                let code = esker_applier_next(applier.get_mut(), places.0, places.1, None);
                if code != OK {
                    return code;
                }
                assert!(item != ESKER_STREAM_OTHER && position <= end);
            }
        }
        assert_eq!(position, end);
        OK
    }

    /// Brings the changes to the replica, which may get them damaged or only in part.
    pub(super) fn replicate(&mut self) {
        let had = self.applied(&self.replica);
        let from = had.map(|had| self.some_position(self.kept..=had));
        let (mut wire, end) = self.stream(from);
        let at = self.rng.below(wire.bytes.len());
        let harm = self.rng.below(6);
        match harm {
            0 => wire.bytes.truncate(at),
            1 => wire.bytes[at] ^= 1 << self.rng.below(8),
            2 => wire.limit = at,
            _ => {}
        }
        let code = self.apply(&self.replica, &mut wire, None, end);
        let now = self.applied(&self.replica);
        assert!(now >= had);
        if harm > 2 {
            assert_eq!((code, now), (OK, Some(end)));
            assert_eq!(contents_of(&self.replica, self.backwards), self.contents);
        } else {
            assert!([IO, CORRUPTION].contains(&code), "code {code}");
        }
        let Some(now) = now else { return };
        assert_eq!(&contents_of(&self.replica, self.backwards), self.at(now));
        if self.rng.chance(2) {
            self.keep_from(now);
        }
    }

    /// Confirms what the replica has.
    fn keep_from(&mut self, position: u64) {
        // SAFETY: borrowed for the calls.
        unsafe {
            let slot = made(esker_slot_close, |place| {
                esker_slot_open(self.store.get(), c"replica".as_ptr(), place, None)
            });
            let slot = slot.unwrap_or_else(|code| panic!("code {code}"));
            assert_eq!(esker_slot_confirm(slot.get(), position, None), OK);
        }
        self.kept = position;
    }

    /// Opens the replica again, or writes a stream whose function fails.
    pub(super) fn interrupt(&mut self) {
        if self.rng.chance(2) {
            self.replica = Owned { raw: null_mut(), free: esker_db_destroy };
            self.replica = opened(REPLICA, &self.options);
            return;
        }
        let limit = self.rng.below(400);
        let mut wire = Box::new(Wire { bytes: Vec::new(), read: 0, room: 1, limit, calls: 0 });
        // SAFETY: the wire outlives the writer; other arguments are borrowed.
        unsafe {
            let state = (&raw mut *wire).cast();
            let writer = made(esker_change_writer_destroy, |place| {
                esker_change_writer_create(self.store.get(), state, Some(take), place, None)
            });
            let mut writer = match writer {
                Ok(writer) => writer,
                Err(code) => return assert_eq!(code, IO),
            };
            while esker_change_writer_content(writer.get_mut(), None, None) == OK {}
            // The function is not called again after its failure.
            let calls = wire.calls;
            assert_eq!(esker_change_writer_alive(writer.get_mut(), 1, None), IO);
            assert_eq!(esker_change_writer_end(writer.get_mut(), 1, None), IO);
            assert_eq!(wire.calls, calls);
        }
    }

    /// Brings a fork what the store writes after `position`, the place of the fork.
    pub(super) fn follow(&mut self, fork: &Owned<esker_db_t>, position: u64) {
        (0..self.rng.below(4)).for_each(|_| self.write());
        let (mut wire, end) = self.stream(Some(position));
        assert_eq!(self.apply(fork, &mut wire, Some(position), end), OK);
        assert_eq!(self.applied(fork), Some(end));
        assert_eq!(contents_of(fork, self.backwards), self.contents);
        // A store does not apply its own changes.
        wire.read = 0;
        assert_eq!(self.apply(&self.store, &mut wire, None, end), INCOMPATIBLE);
    }

    /// Lists the slots, and makes and drops another one.
    pub(super) fn slots(&mut self) {
        let mut seen: Vec<(CString, u64)> = Vec::new();
        // SAFETY: arguments are borrowed; the list outlives the call.
        unsafe {
            let name = c"short".as_ptr();
            let slot = made(esker_slot_close, |place| {
                esker_subscribe(self.store.get(), name, 1 << 20, place, None)
            });
            let slot = slot.unwrap_or_else(|code| panic!("code {code}"));
            assert_eq!(esker_drop_slot(self.store.get(), name, None), OK);
            assert_eq!(esker_drop_slot(self.store.get(), name, None), NOT_FOUND);
            let mut position = 7;
            let place = Some(&mut position);
            assert_eq!(esker_slot_position(slot.get(), place, None), NOT_FOUND);
            let state = (&raw mut seen).cast();
            assert_eq!(esker_slots(self.store.get(), state, Some(see_slot), None), OK);
        }
        let expected = [(c"reader".to_owned(), self.confirmed), (c"replica".to_owned(), self.kept)];
        assert_eq!(seen, expected);
    }
}

unsafe extern "C" fn see_slot(state: *mut c_void, slot: *const esker_slot_info_t) {
    // SAFETY: the state is a list that outlives the call; the slot is valid during the call.
    unsafe {
        let slot = &*slot;
        assert!(slot.problem.is_null());
        let name = CStr::from_ptr(slot.name).to_owned();
        (*state.cast::<Vec<(CString, u64)>>()).push((name, slot.position));
    }
}
