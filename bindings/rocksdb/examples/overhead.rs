//! Measures calls of RocksDB's C interface against the same calls in Rust: `cargo run --release -p
//! esker-rocksdb --example overhead [LIBRARY]...`. Prints nanoseconds per key, as the minimum of
//! interleaved rounds, because other load on the machine only adds time. Esker's C functions are linked,
//! and called by pointers: a second copy of Esker in the process would get no mapped log. Libraries, such
//! as RocksDB's own, get columns of their own.

#[path = "../tests/calls/mod.rs"]
mod calls;

use std::ffi::CString;
use std::hint::black_box;
use std::ptr::null_mut;
use std::time::Instant;

use calls::{Api, Handle, start};
use esker::{Db, Options};
use esker_rocksdb as _;

const KEYS: u32 = 10_000;
const READS: u32 = 64_000;
/// Every value.
const VALUE: [u8; 100] = [7; 100];
const KEYS_PER_CALL: usize = 32;
const ROUNDS: usize = 40;
const WHAT: [&str; 4] = ["get, pinned", "32 keys in a call, pinned", "next, key and value", "put"];

fn key(number: u32) -> [u8; 8] {
    u64::from(number.wrapping_mul(7919) % KEYS).to_be_bytes()
}

/// Returns the nanoseconds of each of `count` repetitions.
fn each(count: u32, body: impl FnOnce()) -> f64 {
    let began = Instant::now();
    body();
    began.elapsed().as_nanos() as f64 / f64::from(count)
}

/// A store behind the functions of a library.
struct Foreign {
    api: Api,
    db: Handle,
    family: Handle,
    read: Handle,
    write: Handle,
}

impl Foreign {
    fn open(api: Api, path: &str) -> Foreign {
        let (path, name) = (CString::new(path).expect("no zero"), c"default");
        let mut family = null_mut();
        // SAFETY: all objects are of this library; the arrays have one item.
        unsafe {
            let options = (api.rocksdb_options_create)();
            (api.rocksdb_options_set_create_if_missing)(options, 1);
            let open = api.rocksdb_open_column_families;
            let names = [name.as_ptr()];
            let db = api.checked(|error| {
                let families = &raw mut family;
                open(options, path.as_ptr(), 1, names.as_ptr(), &raw const options, families, error)
            });
            (api.rocksdb_options_destroy)(options);
            let (read, write) =
                ((api.rocksdb_readoptions_create)(), (api.rocksdb_writeoptions_create)());
            Foreign { api, db: db.expect("opens"), family, read, write }
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        let (put, key_len, value_len) = (self.api.rocksdb_put, key.len(), value.len());
        let mut error = null_mut();
        // SAFETY: objects of an open store; the buffers live through the call.
        unsafe {
            put(self.db, self.write, start(key), key_len, start(value), value_len, &raw mut error);
        }
        assert!(error.is_null(), "a put fails");
    }

    fn get(&self, key: &[u8]) {
        let (api, mut error, mut len) = (self.api, null_mut(), 0usize);
        // SAFETY: objects of an open store; the value is read before it is freed.
        unsafe {
            let get = api.rocksdb_get_pinned_cf;
            let (from, of) = (start(key), self.family);
            let value = get(self.db, self.read, of, from, key.len(), &raw mut error);
            assert!(error.is_null() && !value.is_null());
            let bytes = (api.rocksdb_pinnableslice_value)(value, &raw mut len);
            assert!(len == VALUE.len() && *bytes.cast::<u8>() == VALUE[0]);
            (api.rocksdb_pinnableslice_destroy)(value);
        }
    }

    fn multi_get(&self, keys: &[[u8; 8]; KEYS_PER_CALL]) {
        let (api, count) = (self.api, KEYS_PER_CALL);
        let starts = keys.each_ref().map(|key| start(key));
        let lens = [8usize; KEYS_PER_CALL];
        let (mut values, mut errors) = ([null_mut(); KEYS_PER_CALL], [null_mut(); KEYS_PER_CALL]);
        // SAFETY: each array has an item for each key; values are read before they are freed.
        unsafe {
            (api.rocksdb_batched_multi_get_cf)(
                self.db,
                self.read,
                self.family,
                count,
                starts.as_ptr(),
                lens.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                0,
            );
            for (value, error) in values.into_iter().zip(errors) {
                let mut len = 0usize;
                assert!(error.is_null() && !value.is_null());
                let bytes = (api.rocksdb_pinnableslice_value)(value, &raw mut len);
                assert!(len == VALUE.len() && *bytes.cast::<u8>() == VALUE[0]);
                (api.rocksdb_pinnableslice_destroy)(value);
            }
        }
    }

    fn scan(&self) {
        let (api, mut len, mut seen) = (self.api, 0usize, 0);
        // SAFETY: a live iterator, whose key and value are read before it moves.
        unsafe {
            let iter = (api.rocksdb_create_iterator_cf)(self.db, self.read, self.family);
            (api.rocksdb_iter_seek_to_first)(iter);
            while (api.rocksdb_iter_valid)(iter) != 0 {
                black_box((api.rocksdb_iter_key)(iter, &raw mut len));
                black_box((api.rocksdb_iter_value)(iter, &raw mut len));
                (api.rocksdb_iter_next)(iter);
                seen += 1;
            }
            let scan = api.checked(|error| (api.rocksdb_iter_get_error)(iter, error));
            assert_eq!(scan, Ok(()));
            (api.rocksdb_iter_destroy)(iter);
        }
        assert_eq!(seen, KEYS);
    }

    /// Returns one round's times, in the order of [`WHAT`].
    fn round(&self) -> [f64; 4] {
        [
            each(READS, || (0..READS).for_each(|n| self.get(black_box(&key(n))))),
            each(READS, || {
                for at in (0..READS).step_by(KEYS_PER_CALL) {
                    self.multi_get(&std::array::from_fn(|n| key(at + n as u32)));
                }
            }),
            each(KEYS, || self.scan()),
            each(KEYS, || (0..KEYS).for_each(|n| self.put(&key(n), &VALUE))),
        ]
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let api = self.api;
        // SAFETY: each object is freed once, the store last.
        unsafe {
            (api.rocksdb_column_family_handle_destroy)(self.family);
            (api.rocksdb_readoptions_destroy)(self.read);
            (api.rocksdb_writeoptions_destroy)(self.write);
            (api.rocksdb_close)(self.db);
        }
    }
}

/// Returns one round's times of Rust's calls, in the order of [`WHAT`].
fn round(db: &Db) -> [f64; 4] {
    [
        each(READS, || {
            for n in 0..READS {
                let value = db.get(black_box(key(n))).expect("gets").expect("is there");
                assert!(value.len() == VALUE.len() && value[0] == VALUE[0]);
            }
        }),
        each(READS, || {
            for at in (0..READS).step_by(KEYS_PER_CALL) {
                let keys: [_; KEYS_PER_CALL] = std::array::from_fn(|n| key(at + n as u32));
                for value in db.multi_get(&keys).expect("gets") {
                    let value = value.expect("is there");
                    assert!(value.len() == VALUE.len() && value[0] == VALUE[0]);
                }
            }
        }),
        each(KEYS, || {
            let (mut iter, mut seen) = (db.iter().expect("an iterator"), 0);
            iter.seek_to_first().expect("a first key");
            while iter.valid() {
                black_box((iter.key(), iter.value()));
                iter.move_next().expect("a next key");
                seen += 1;
            }
            assert_eq!(seen, KEYS);
        }),
        each(KEYS, || (0..KEYS).for_each(|n| db.put(key(n), VALUE).expect("puts"))),
    ]
}

fn main() {
    let names: Vec<String> =
        std::iter::once("Esker's C".to_string()).chain(std::env::args().skip(1)).collect();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let rust = Db::open(dir.path().join("rust"), Options::default()).expect("opens");
    let open = |(at, name): (usize, &String)| {
        let api = match at {
            0 => Api::esker(),
            _ => Api::load(name).expect("the library has the functions"),
        };
        Foreign::open(api, dir.path().join(at.to_string()).to_str().expect("UTF-8"))
    };
    let stores: Vec<Foreign> = names.iter().enumerate().map(open).collect();
    for number in 0..KEYS {
        let key = u64::from(number).to_be_bytes();
        rust.put(key, VALUE).expect("puts");
        stores.iter().for_each(|store| store.put(&key, &VALUE));
    }
    let mut least = vec![[f64::INFINITY; 4]; 1 + stores.len()];
    for _ in 0..ROUNDS {
        let times = std::iter::once(round(&rust)).chain(stores.iter().map(Foreign::round));
        for (least, times) in least.iter_mut().zip(times.collect::<Vec<_>>()) {
            *least = std::array::from_fn(|at| least[at].min(times[at]));
        }
    }
    println!("ns per key, after {KEYS} pairs of 8 and 100 bytes; in brackets: more than in Rust");
    for (at, what) in WHAT.iter().enumerate() {
        print!("{what:28} Rust {:7.1}", least[0][at]);
        for (name, least_of) in names.iter().zip(&least[1..]) {
            print!("  {name} {:7.1} ({:+.1})", least_of[at], least_of[at] - least[0][at]);
        }
        println!();
    }
}
