//! Secondary instances: the same answers from Esker's library and from RocksDB's, where one is
//! installed.

mod calls;
#[path = "../../../crates/peers/src/installed.rs"]
mod installed;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use calls::{Api, Handle, Scan, Store, kind, start};
use esker_rocksdb as _;

const NAMES: &[&str] = &["default", "one"];

/// Runs the calls on a library and returns every answer.
fn answers(api: Api) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let (path, own) = (dir.path().join("db"), dir.path().join("secondary"));
    let primary = Store::open(api, &path, NAMES).unwrap();
    let mut seen = Vec::new();
    primary.set(0, b"a", Some(b"1")).unwrap();
    primary.set(0, b"c", Some(b"1")).unwrap();
    primary.set(1, b"b", Some(b"1")).unwrap();
    primary.merge(1, b"sum", &1u64.to_le_bytes()).unwrap();
    let secondary = Store::open_secondary(api, &path, &own, NAMES).unwrap();
    let mut look = |what: &str| {
        let gets = [secondary.get(0, b"a"), secondary.get(1, b"b"), secondary.get(1, b"sum")];
        let scan = secondary.all(1);
        seen.push(format!("{what}: {gets:?} {scan:?}"));
    };
    look("opened");
    primary.set(0, b"a", Some(b"2")).unwrap();
    primary.set(0, b"c", None).unwrap();
    primary.set(1, b"b", None).unwrap();
    primary.merge(1, b"sum", &2u64.to_le_bytes()).unwrap();
    look("before the catch-up");
    // An iterator stays as it is, also through a catch-up and a flush of the primary.
    let kept = secondary.scan(0, &Scan::default(), |iter| {
        iter.first();
        secondary.catch_up().unwrap();
        primary.flush().unwrap();
        secondary.catch_up().unwrap();
        let first = iter.pair();
        iter.next();
        let second = iter.pair();
        // Positioned again, it still shows what it was created over.
        iter.first();
        (first, second, iter.pair())
    });
    look("after it");
    seen.push(format!("kept: {kept:?}"));
    let refused = secondary.set(0, b"x", Some(b"1")).unwrap_err();
    seen.push(format!("write: {}", kind(&refused)));
    // SAFETY: an open store, whose snapshot is released.
    unsafe {
        let snapshot = (api.rocksdb_create_snapshot)(secondary.db);
        (api.rocksdb_readoptions_set_snapshot)(secondary.read, snapshot);
        seen.push(format!("snapshot: {} {:?}", snapshot.is_null(), secondary.get(0, b"a")));
        (api.rocksdb_readoptions_set_snapshot)(secondary.read, std::ptr::null_mut());
        (api.rocksdb_release_snapshot)(secondary.db, snapshot);
    }
    seen.push(format!("primary: {}", primary.catch_up().is_err()));
    drop(secondary);
    drop(primary);
    // Without a primary.
    let secondary = Store::open_secondary(api, &path, &own, NAMES).unwrap();
    secondary.catch_up().unwrap();
    seen.push(format!("alone: {:?}", secondary.get(0, b"a")));
    let missing = Store::open_secondary(api, &dir.path().join("none"), &own, NAMES);
    seen.push(format!("missing: {}", missing.is_err()));
    seen
}

/// Two threads catch up while others write and read: what a call returns is of one moment, and no
/// reader goes back.
#[test]
fn concurrent_catch_ups_are_whole_and_never_go_back() {
    const READS: u64 = 50_000;
    let dir = tempfile::tempdir().unwrap();
    let (path, own) = (dir.path().join("db"), dir.path().join("secondary"));
    // With many column families, a catch-up takes long enough to be met.
    let names: Vec<String> = (10..99).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> =
        std::iter::once("default").chain(names.iter().map(String::as_str)).collect();
    let primary = Shared(Store::open(Api::esker(), &path, &names).unwrap());
    let number = |round: u64| round.to_be_bytes();
    primary.write(&number(0));
    let secondary = Shared(Store::open_secondary(Api::esker(), &path, &own, &names).unwrap());
    let (done, reads, mut written) = (AtomicBool::new(false), AtomicU64::new(0), 0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    secondary.catch_up();
                }
            });
        }
        let reader = scope.spawn(|| {
            let mut last = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let [one, two] = secondary.both();
                assert_eq!(one, two);
                assert!(one >= last, "{one:?} after {last:?}");
                last = one;
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
        while reads.load(Ordering::Relaxed) < READS && !reader.is_finished() {
            written += 1;
            primary.write(&number(written));
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    secondary.catch_up();
    assert_eq!(secondary.both(), [number(written).to_vec(), number(written).to_vec()]);
}

/// A store that threads share.
struct Shared(Store);

// SAFETY: RocksDB's stores, column families and options may be used by many threads.
unsafe impl Sync for Shared {}

impl Shared {
    fn catch_up(&self) {
        self.0.catch_up().unwrap();
    }

    /// Returns the first and the last column family.
    fn ends(&self) -> [Handle; 2] {
        [self.0.families[0], self.0.families[self.0.families.len() - 1]]
    }

    /// Puts the same value in the first and the last column family, in one batch.
    fn write(&self, value: &[u8]) {
        let (store, api) = (&self.0, self.0.api);
        // SAFETY: objects of an open store; the buffers live through the calls.
        unsafe {
            let batch = (api.rocksdb_writebatch_create)();
            for family in self.ends() {
                let put = api.rocksdb_writebatch_put_cf;
                put(batch, family, start(b"k"), 1, start(value), value.len());
            }
            let written = api.checked(|e| (api.rocksdb_write)(store.db, store.write, batch, e));
            written.unwrap();
            (api.rocksdb_writebatch_destroy)(batch);
        }
    }

    /// Reads both of them in one call.
    fn both(&self) -> [Vec<u8>; 2] {
        let (store, api) = (&self.0, self.0.api);
        let (keys, lens) = ([start(b"k"); 2], [1usize; 2]);
        let (mut values, mut value_lens) = ([null_mut(); 2], [0usize; 2]);
        let mut errors = [null_mut(); 2];
        // SAFETY: each array has an item for each of the two keys.
        unsafe {
            (api.rocksdb_multi_get_cf)(
                store.db,
                store.read,
                self.ends().as_ptr(),
                2,
                keys.as_ptr(),
                lens.as_ptr(),
                values.as_mut_ptr(),
                value_lens.as_mut_ptr(),
                errors.as_mut_ptr(),
            );
        }
        assert!(errors.iter().all(|error| error.is_null()));
        std::array::from_fn(|at| api.take(values[at], value_lens[at]).unwrap())
    }
}

#[test]
fn secondary_shows_newer_writes_after_a_catch_up() {
    let ours = answers(Api::esker());
    assert_eq!(
        ours,
        [
            "opened: [Ok(Some([49])), Ok(Some([49])), Ok(Some([1, 0, 0, 0, 0, 0, 0, 0]))] \
         [([98], [49]), ([115, 117, 109], [1, 0, 0, 0, 0, 0, 0, 0])]",
            "before the catch-up: [Ok(Some([49])), Ok(Some([49])), Ok(Some([1, 0, 0, 0, 0, 0, 0, 0]))] \
         [([98], [49]), ([115, 117, 109], [1, 0, 0, 0, 0, 0, 0, 0])]",
            "after it: [Ok(Some([50])), Ok(None), Ok(Some([3, 0, 0, 0, 0, 0, 0, 0]))] \
         [([115, 117, 109], [3, 0, 0, 0, 0, 0, 0, 0])]",
            "kept: (Some(([97], [49])), Some(([99], [49])), Some(([97], [49])))",
            "write: Not implemented",
            "snapshot: false Ok(Some([50]))",
            "primary: true",
            "alone: Ok(Some([50]))",
            "missing: true"
        ]
    );
    let Some(library) = installed::rocksdb_installed() else {
        eprintln!("skipped: the comparison with RocksDB, which is not installed");
        return;
    };
    let theirs = Api::load(&library.display().to_string()).unwrap();
    assert_eq!(ours, answers(theirs));
}
