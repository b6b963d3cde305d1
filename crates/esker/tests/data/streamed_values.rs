//! Values that are written from a reader and read by one: lengths around the pieces, failing readers,
//! readers beside writes, damage, copies, crashes at every point, and a model.
//!
//! These tests guard against: a value that is visible in part; a value file that is left behind or
//! removed under a reader; damage that is returned as a part of a value.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex};

use esker::backup::BackupOptions;
use esker::diff::{DiffOptions, diff_with};
use esker::fs::{Fs, MemFs};
use esker::{
    CompactionFilter, Db, ErrorKind, FilterDecision, Keyspace, KeyspaceOptions, Options,
    TransactionOptions, ValueSeparation, built_in_merge_operator,
};
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::rng::SplitMix64;

use crate::common::{files, image, pairs, tiny_options, with_damage};

const DB: &str = "/db";
const PIECE: usize = 64 << 10;

/// Values of more than 100 bytes are streamed ([`tiny_options`]).
fn options() -> Options {
    Options {
        background_threads: Some(0),
        merge_operator: built_in_merge_operator("append"),
        ..tiny_options()
    }
}

fn open(fs: &Arc<MemFs>) -> Db {
    Db::open_on(fs.clone(), DB, options()).unwrap()
}

/// Returns bytes that differ from piece to piece.
fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = SplitMix64::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// A reader that returns a few bytes at a time, is interrupted, and fails or panics at a place.
struct Slow<'a> {
    bytes: &'a [u8],
    calls: usize,
    end: fn() -> io::Result<usize>,
}

impl Slow<'_> {
    fn of(bytes: &[u8]) -> Slow<'_> {
        Slow { bytes, calls: 0, end: || Ok(0) }
    }
}

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = out.len().min(1 + self.calls * 997 % 30_000);
        match self.bytes.read(&mut out[..most])? {
            0 => (self.end)(),
            read => Ok(read),
        }
    }
}

fn value_files(fs: &dyn Fs) -> Vec<String> {
    let entries = fs.list(Path::new(DB)).unwrap().into_iter().map(|entry| entry.name);
    entries.filter(|name| name.ends_with(".val")).collect()
}

fn read_all(mut reader: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    all
}

#[test]
fn values_of_every_length_are_read_back_in_whole_and_in_parts() {
    let lengths = [0, 1, 100, 101, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 77];
    for separation in [ValueSeparation::Off, ValueSeparation::From(0)] {
        let fs = MemFs::new();
        let options = Options { value_separation_min_bytes: separation, ..options() };
        let mut db = Db::open_on(fs.clone(), DB, options.clone()).unwrap();
        db.put("before", "in the memtable").unwrap();
        for len in lengths {
            let value = content(len, 1);
            db.put(format!("{len:07}"), "old").unwrap();
            assert_eq!(db.put_reader(format!("{len:07}"), Slow::of(&value)).unwrap(), len as u64);
        }
        let own = db.keyspace("own", &KeyspaceOptions::default()).unwrap();
        own.put_reader("0000101", &content(101, 2)[..]).unwrap();
        drop(own);
        for round in 0..3 {
            for len in lengths {
                let (key, value) = (format!("{len:07}"), content(len, 1));
                assert!(*db.get(&key).unwrap().unwrap() == *value, "{len}");
                let mut reader = db.get_reader(&key).unwrap().unwrap();
                assert_eq!(reader.len_bytes(), len as u64);
                assert!(read_all(&mut reader) == value, "{len}");
                for at in [len / 2, 0, len.saturating_sub(3), PIECE.min(len), len] {
                    reader.seek(SeekFrom::Start(at as u64)).unwrap();
                    assert!(read_all(&mut reader) == value[at..], "{len} from {at}");
                }
                reader.seek(SeekFrom::End(9)).unwrap();
                assert_eq!(reader.read(&mut [0; 5]).unwrap(), 0);
                assert!(reader.seek(SeekFrom::Current(-(len as i64) - 10)).is_err());
            }
            assert_eq!(db.iter().unwrap().count(), lengths.len() + 1);
            let own = db.keyspace("own", &KeyspaceOptions::default()).unwrap();
            assert!(read_all(own.get_reader("0000101").unwrap().unwrap()) == content(101, 2));
            assert!(own.get_reader("before").unwrap().is_none());
            drop(own);
            assert!(db.get_reader("nothing").unwrap().is_none());
            assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
            if round == 1 {
                db.compact_range(None, None).unwrap();
            } else {
                db.close().unwrap();
                db = Db::open_on(fs.clone(), DB, options.clone()).unwrap();
            }
        }
    }
}

#[test]
fn a_reader_that_fails_or_panics_changes_nothing_and_leaves_no_file() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put_reader("k", &content(200, 1)[..]).unwrap();
    let before = value_files(&*fs);
    let bytes = content(3 * PIECE, 2);
    for len in [0, 50, 150, 3 * PIECE] {
        let end = || Err(io::Error::other("the network is gone"));
        let error = db.put_reader("k", Slow { bytes: &bytes[..len], calls: 0, end }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let text = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(text.contains("nothing was written") && text.contains("network"), "{text}");
        let end = || panic!("the reader panics");
        let slow = Slow { bytes: &bytes[..len], calls: 0, end };
        let put = std::panic::AssertUnwindSafe(|| db.put_reader("k", slow));
        assert!(std::panic::catch_unwind(put).is_err());
    }
    struct Liar(usize);
    impl Read for Liar {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            Ok(out.len() + usize::from(self.0 > 9 && out.len() >= PIECE))
        }
    }
    let error = db.put_reader("k", Liar(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(db.put_reader(vec![0; (1 << 20) + 1], &bytes[..]).is_err());
    let timed = KeyspaceOptions::default().ttl(std::time::Duration::from_secs(3600));
    let timed = db.keyspace("timed", &timed).unwrap();
    let error = timed.put_reader("k", &bytes[..]).unwrap_err();
    assert!(error.message().contains("ttl_ms"), "{error}");
    assert_eq!(value_files(&*fs), before);
    assert_eq!(db.get("k").unwrap().unwrap(), content(200, 1));
    drop(timed);
    db.close().unwrap();
    let read_only = Db::open_read_only_on(fs.clone(), DB, options()).unwrap();
    assert_eq!(read_only.put_reader("k", &bytes[..]).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert!(read_all(read_only.get_reader("k").unwrap().unwrap()) == content(200, 1));
}

#[test]
fn a_reader_keeps_its_value_while_the_key_is_written_and_its_file_goes_with_it() {
    let fs = MemFs::new();
    let db = open(&fs);
    let (old, new) = (content(4 * PIECE, 1), content(2 * PIECE, 2));
    db.put_reader("k", &old[..]).unwrap();
    let snapshot = db.snapshot();
    let mut reader = db.get_reader("k").unwrap().unwrap();
    let mut read = vec![0; PIECE + 5];
    reader.read_exact(&mut read).unwrap();
    // The source of a write can be the reader of the same key.
    let copied = db.put_reader("copy", db.get_reader("k").unwrap().unwrap()).unwrap();
    assert_eq!(copied, old.len() as u64);
    db.put_reader("k", &new[..]).unwrap();
    assert!(*snapshot.get("k").unwrap().unwrap() == *old);
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    assert!(read_all(db.get_reader("k").unwrap().unwrap()) == new);
    assert_eq!(value_files(&*fs).len(), 3, "the reader holds the first file");
    read.extend(read_all(&mut reader));
    assert!(read == old);
    reader.rewind().unwrap();
    db.delete("copy").unwrap();
    db.put("k", "short").unwrap();
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    assert!(read_all(&mut reader) == old, "also after the close");
    drop(reader);
    let db = open(&fs);
    assert_eq!(value_files(&*fs), Vec::<String>::new());
    assert_eq!(db.get("k").unwrap().unwrap(), *b"short");
}

#[test]
fn merges_filters_transactions_and_separation_see_the_value() {
    struct Shorten;
    impl CompactionFilter for Shorten {
        fn name(&self) -> &str {
            "test.shorten"
        }
        fn filter(&self, _level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
            match key {
                b"s" if value.len() > 5 => FilterDecision::Replace(value[..5].to_vec()),
                _ => FilterDecision::Keep,
            }
        }
    }
    let fs = MemFs::new();
    let filter: Option<Arc<dyn CompactionFilter>> = Some(Arc::new(Shorten));
    let db = Db::open_on(fs.clone(), DB, Options { compaction_filter: filter, ..options() });
    let db = db.unwrap();
    let value = content(PIECE + 9, 3);
    let transaction = db.transaction(TransactionOptions::default());
    transaction.put("s", "x").unwrap();
    for key in ["m", "s", "t"] {
        db.put_reader(key, &value[..]).unwrap();
    }
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    let transaction = db.transaction(TransactionOptions::default());
    assert!(*transaction.get("t").unwrap().unwrap() == *value);
    transaction.rollback();
    db.merge("m", "+1").unwrap();
    let merged = [&value[..], b"+1"].concat();
    assert!(read_all(db.get_reader("m").unwrap().unwrap()) == merged);
    let only = [("m".into(), merged), ("s".into(), value[..5].to_vec()), ("t".into(), value)];
    db.compact_range(None, None).unwrap();
    assert!(pairs(db.iter().unwrap()) == only);
    assert_eq!(value_files(&*fs).len(), 1, "only \"t\" is streamed now");
    db.delete_range("t", "u").unwrap();
    assert!(db.get_reader("t").unwrap().is_none());
    db.compact_range(None, None).unwrap();
    assert_eq!(value_files(&*fs).len(), 0);
}

type Files = Vec<(String, Vec<u8>)>;

/// Returns the files of a closed store with one streamed value, the index of its value file, and the
/// value.
fn one_value(len: usize) -> (Files, usize, Vec<u8>) {
    let fs = MemFs::new();
    let db = open(&fs);
    let value = content(len, 4);
    db.put_reader("k", &value[..]).unwrap();
    db.close().unwrap();
    let all = files(&*fs, Path::new(DB));
    let at = all.iter().position(|(name, _)| name.ends_with(".val")).unwrap();
    (all, at, value)
}

#[test]
fn every_changed_byte_and_every_cut_is_found_and_never_read() {
    let (all, at, value) = one_value(150);
    let check = |bad: &[(String, Vec<u8>)], what: &str| {
        let db = Db::open_on(image(Path::new(DB), bad), DB, options()).unwrap();
        let report = db.verify(&mut |_, _| {}).unwrap();
        assert_eq!(report.problems.len(), 1, "{what}");
        assert!(report.problems[0].path().unwrap().ends_with(&all[at].0), "{what}");
        match db.get("k") {
            Ok(found) => assert_eq!(found.unwrap(), value, "{what}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}"),
        }
        let Ok(reader) = db.get_reader("k") else { return };
        let mut read = Vec::new();
        let outcome = reader.unwrap().read_to_end(&mut read);
        assert!(if outcome.is_ok() { read == value } else { read.is_empty() }, "{what}");
    };
    let len = all[at].1.len();
    with_damage(&all, at, &[0, 31, 100, len - 1], check);
}

#[test]
fn damage_in_one_piece_is_an_error_there_and_the_other_pieces_are_read() {
    let (mut all, at, value) = one_value(3 * PIECE + 500);
    let begin = 32 + 16 + 1;
    let place = begin + (12 + PIECE) + 12 + 1000;
    assert_eq!(all[at].1[place], value[PIECE + 1000]);
    all[at].1[place] ^= 4;
    let fs = image(Path::new(DB), &all);
    let db = open(&fs);
    let mut reader = db.get_reader("k").unwrap().unwrap();
    let mut first = vec![0; PIECE];
    reader.read_exact(&mut first).unwrap();
    assert!(first == value[..PIECE]);
    for _ in 0..2 {
        let error = reader.read(&mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let inner = error.get_ref().and_then(|e| e.downcast_ref::<esker::Error>()).unwrap();
        assert_eq!(inner.kind(), ErrorKind::Corruption);
        assert!(inner.path().unwrap().ends_with(&all[at].0), "{inner}");
        assert_eq!(inner.offset_bytes(), Some((begin + 12 + PIECE) as u64), "{inner}");
    }
    reader.seek(SeekFrom::Start(2 * PIECE as u64)).unwrap();
    assert!(read_all(&mut reader) == value[2 * PIECE..]);
    assert_eq!(db.get("k").unwrap_err().kind(), ErrorKind::Corruption);
    assert!(db.put_reader("copy", db.get_reader("k").unwrap().unwrap()).is_err());
    assert!(db.get("copy").unwrap().is_none());
    drop((db, reader));
    // A repair keeps what is whole.
    let report = Db::repair_on(fs.clone(), DB, options()).unwrap();
    assert!(report.lost.iter().any(|lost| lost.contains(".val")), "{:?}", report.lost);
    assert!(open(&fs).get("k").unwrap().is_none());
    let (all, _, value) = one_value(3 * PIECE + 500);
    let kept: Vec<_> = all.into_iter().filter(|(name, _)| name != "CURRENT").collect();
    let fs = image(Path::new(DB), &kept);
    Db::repair_on(fs.clone(), DB, options()).unwrap();
    assert!(*open(&fs).get("k").unwrap().unwrap() == *value);
}

#[test]
fn copies_of_a_store_have_streamed_values() {
    let fs = MemFs::new();
    let db = open(&fs);
    let (first, second) = (content(PIECE + 1, 5), content(2 * PIECE, 6));
    db.put_reader("a", &first[..]).unwrap();
    db.checkpoint("/checkpoint").unwrap();
    db.fork("/fork").unwrap();
    db.backup_with("/backups", &BackupOptions::default()).unwrap();
    let follower = Db::open_read_only_on(fs.clone(), DB, options()).unwrap();
    db.put_reader("b", &second[..]).unwrap();
    db.put("a", "short").unwrap();
    db.compact_range(None, None).unwrap();
    assert!(read_all(follower.get_reader("a").unwrap().unwrap()) == first);
    Db::restore_on(fs.clone(), "/backups", None, "/restored", options()).unwrap();
    for dir in ["/checkpoint", "/fork", "/restored"] {
        let copy = Db::open_on(fs.clone(), dir, options()).unwrap();
        assert!(read_all(copy.get_reader("a").unwrap().unwrap()) == first, "{dir}");
        assert!(copy.get("b").unwrap().is_none(), "{dir}");
        assert!(copy.verify(&mut |_, _| {}).unwrap().is_whole(), "{dir}");
        copy.close().unwrap();
    }
    let fork = Db::open_on(fs.clone(), "/fork", options()).unwrap();
    let found = diff_with(&fork, &db, &DiffOptions::default()).unwrap();
    let found: Vec<_> = found.map(|found| found.unwrap()).collect();
    assert_eq!(found.len(), 2);
    assert!(found[0].old.as_ref().unwrap().value == first);
    assert!(found[1].new.as_ref().unwrap().value == second);
}

#[test]
fn a_crash_at_every_point_leaves_the_old_value_or_the_new_one_and_no_file() {
    let crash = CrashFs::seeded(1);
    let db = Db::open_on(crash.clone(), DB, options()).unwrap();
    let (old, new) = (content(PIECE + 1, 7), content(2 * PIECE + 1, 8));
    db.put_reader("k", &old[..]).unwrap();
    db.put("earlier", "x").unwrap();
    let images = Arc::new(Mutex::new(Vec::new()));
    crash.watch({
        let images = images.clone();
        move |crash| {
            for model in [CrashModel::SyncedOnly, CrashModel::Everything, CrashModel::NamesAhead] {
                images.lock().unwrap().push(crash.crash_image(model));
            }
        }
    });
    db.put_reader("k", &new[..]).unwrap();
    crash.unwatch();
    let last = crash.crash_image(CrashModel::SyncedOnly);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let mut seen = [0, 0];
    for (at, image) in images.into_iter().enumerate() {
        let db = open(&image);
        let found = read_all(db.get_reader("k").unwrap().unwrap());
        assert!(found == old || found == new, "image {at}");
        seen[usize::from(found == new)] += 1;
        assert!(found == old || db.get("earlier").unwrap().is_some(), "image {at}");
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole(), "image {at}");
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
        let db = open(&image);
        assert_eq!(value_files(&*image).len(), 1, "image {at}: no file is left behind");
        assert!(*db.get("k").unwrap().unwrap() == *found, "image {at}");
    }
    assert!(seen[0] > 10 && seen[1] > 0, "{seen:?}");
    let db = open(&last);
    assert!(*db.get("k").unwrap().unwrap() == *new, "it is durable when the call returns");
    assert_eq!(db.get("earlier").unwrap().unwrap(), *b"x", "and so is what came before");
}

#[test]
fn writers_go_on_while_a_reader_is_slow() {
    let fs = MemFs::new();
    let db = open(&fs);
    /// Writes to the store between its bytes.
    struct Writing<'a>(&'a Db, u32);
    impl Read for Writing<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0.put(self.1.to_be_bytes(), [7; 50]).map_err(io::Error::other)?;
            self.0.put("k", "meanwhile").map_err(io::Error::other)?;
            self.0.flush().map_err(io::Error::other)?;
            self.1 += 1;
            if self.1 > 20 {
                return Ok(0);
            }
            let bytes = out.len().min(40);
            out[..bytes].fill(self.1 as u8);
            Ok(bytes)
        }
    }
    let len = db.put_reader("k", Writing(&db, 0)).unwrap();
    assert!(len > 500, "{len}");
    let found = db.get("k").unwrap().unwrap();
    assert_eq!(found.len() as u64, len, "the put has its place where the reader ends");
    assert_eq!(db.iter().unwrap().count(), 22);
}

#[test]
fn random_streamed_values_equal_a_model() {
    for seed in 0..4 {
        let fs = MemFs::new();
        let mut db = open(&fs);
        let mut rng = SplitMix64::new(seed);
        let mut model: BTreeMap<(usize, Vec<u8>), Vec<u8>> = BTreeMap::new();
        let spaces = |db: &Db| {
            ["default", "one", "two"]
                .map(|name| db.keyspace(name, &KeyspaceOptions::default()).unwrap())
        };
        let mut held: [Keyspace; 3] = spaces(&db);
        for step in 0..300_u64 {
            let (space, key) = ((rng.next_u64() % 3) as usize, vec![(rng.next_u64() % 9) as u8]);
            let len = match rng.next_u64() % 4 {
                0 => PIECE + (rng.next_u64() % 3) as usize - 1,
                1 => (rng.next_u64() % 100) as usize,
                _ => (rng.next_u64() % 5000) as usize,
            };
            let value = content(len, step);
            match rng.next_u64() % 12 {
                0..=4 => {
                    held[space].put_reader(&key, &value[..]).unwrap();
                    model.insert((space, key), value);
                }
                5 | 6 => {
                    held[space].put(&key, &value).unwrap();
                    model.insert((space, key), value);
                }
                7 => {
                    held[space].delete(&key).unwrap();
                    model.remove(&(space, key));
                }
                8 => {
                    let found = held[space].get_reader(&key).unwrap().map(read_all);
                    assert!(found.as_ref() == model.get(&(space, key)), "seed {seed} step {step}");
                }
                9 => while db.run_one_job().unwrap() {},
                10 => held[space].compact_range(None, None).unwrap(),
                _ => {
                    drop(held);
                    db.close().unwrap();
                    db = open(&fs);
                    held = spaces(&db);
                }
            }
        }
        for (space, keyspace) in held.iter().enumerate() {
            let of = |((at, key), value): (&(usize, Vec<u8>), &Vec<u8>)| {
                (*at == space).then(|| (key.clone(), value.clone()))
            };
            let want: Vec<_> = model.iter().filter_map(of).collect();
            assert!(pairs(keyspace.iter().unwrap()) == want, "seed {seed}");
        }
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    }
}
