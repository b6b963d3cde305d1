//! Measures a get through the C interfaces against the same get in Rust: `cargo run --release -p
//! esker-c --example overhead`. Prints nanoseconds per get, as the minimum of interleaved rounds,
//! because other load on the machine only adds time.

use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::time::Instant;

use esker::{Db, Options};
use esker_c::own::read::esker_get_visit;
use esker_c::own::store::esker_open;
use esker_leveldb::objects::leveldb_free;
use esker_leveldb::options::{leveldb_options_create, leveldb_options_set_create_if_missing};
use esker_leveldb::store::{leveldb_get, leveldb_open, leveldb_put};

const KEYS: u32 = 10_000;
const GETS: u32 = 100_000;
const ROUNDS: usize = 60;

unsafe extern "C" fn visit(state: *mut c_void, value: *const u8, len: usize) {
    // SAFETY: `state` is the buffer passed to the get; `value` has `len` bytes.
    unsafe {
        let buffer = &mut *state.cast::<Vec<u8>>();
        buffer.clear();
        buffer.extend_from_slice(std::slice::from_raw_parts(value, len));
    }
}

fn key(number: u32) -> [u8; 8] {
    u64::from(number.wrapping_mul(7919) % KEYS).to_be_bytes()
}

fn nanoseconds_each(mut get: impl FnMut(&[u8])) -> f64 {
    let began = Instant::now();
    for number in 0..GETS {
        get(black_box(&key(number)));
    }
    began.elapsed().as_nanos() as f64 / f64::from(GETS)
}

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| dir.path().join(name);
    let c_path = |name: &str| CString::new(path(name).to_str().expect("UTF-8")).expect("no zero");
    let rust = Db::open(path("rust"), Options::default()).expect("opens");
    let mut own = std::ptr::null_mut();
    let mut options = leveldb_options_create();
    leveldb_options_set_create_if_missing(Some(&mut options), 1);
    // SAFETY: paths outlive the calls; the handles live until the process ends.
    let (own, level) = unsafe {
        assert_eq!(esker_open(c_path("own").as_ptr(), None, Some(&mut own), None), 0);
        (&*own, leveldb_open(Some(&options), c_path("level").as_ptr(), None).expect("opens"))
    };
    for number in 0..KEYS {
        let (key, value) = (u64::from(number).to_be_bytes(), [7u8; 100]);
        rust.put(key, value).expect("puts");
        // SAFETY: buffers outlive the call.
        unsafe {
            let (start, len) = (key.as_ptr(), key.len());
            let done = esker_c::own::db::esker_put(
                Some(own),
                start,
                len,
                value.as_ptr(),
                value.len(),
                0,
                None,
            );
            assert_eq!(done, 0);
            let value_start = value.as_ptr().cast();
            leveldb_put(Some(&level), None, start.cast(), len, value_start, value.len(), None);
        }
    }
    let mut buffer: Vec<u8> = Vec::with_capacity(128);
    let state: *mut c_void = (&raw mut buffer).cast();
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let mut copy = Vec::with_capacity(128);
        times[0].push(nanoseconds_each(|key| {
            copy.clear();
            let found = rust.read(key, |value| copy.extend_from_slice(value)).expect("gets");
            black_box((found, &copy));
        }));
        // SAFETY: key and buffer outlive the call; values are freed.
        times[1].push(nanoseconds_each(|key| unsafe {
            let (start, len) = (key.as_ptr(), key.len());
            black_box(esker_get_visit(Some(own), None, 1, start, len, state, Some(visit), None));
        }));
        // SAFETY: as above.
        times[2].push(nanoseconds_each(|key| unsafe {
            let (start, mut len) = (key.as_ptr().cast(), 0);
            let value = leveldb_get(Some(&level), None, start, key.len(), Some(&mut len), None);
            leveldb_free(black_box(value).cast());
        }));
    }
    let least = |times: &mut Vec<f64>| times.iter().copied().fold(f64::INFINITY, f64::min);
    let [rust, own, level] = times.each_mut().map(least);
    println!("rust read        {rust:6.1} ns");
    println!("esker_get_visit  {own:6.1} ns  ({:+.1})", own - rust);
    println!("leveldb_get      {level:6.1} ns  ({:+.1}, with malloc and free)", level - rust);
}
