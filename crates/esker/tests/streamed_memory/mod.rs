//! Memory of values from and to readers, under the limit of `limits.rs`.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use esker::{Db, Options};

use crate::common::processes::status_bytes;
use crate::{MEMORY, large_options};

/// A value of 64 MiB is written, read, checked and moved by compactions in 2 MiB of memory besides what
/// the store holds.
pub fn streamed_value(dir: &Path) {
    const BYTES: u64 = 64 << 20;
    let options = Options { background_threads: Some(0), ..large_options() };
    let db = Db::open(dir.join("db"), options).unwrap();
    let warm = |db: &Db| {
        db.put("small", "value").unwrap();
        db.put_reader("warm", std::io::repeat(1).take(1 << 20)).unwrap();
        db.compact_range(None, None).unwrap();
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    };
    warm(&db);
    MEMORY.set_limit(MEMORY.allocated() + (2 << 20)).unwrap();
    let peak_before = status_bytes("VmHWM");
    let begin = || std::io::repeat(7).take(BYTES / 2);
    let value = begin().chain(std::io::repeat(9).take(BYTES / 2));
    assert_eq!(db.put_reader("film", value).unwrap(), BYTES);
    let check = || {
        let mut reader = db.get_reader("film").unwrap().unwrap();
        let (mut piece, mut sum) = (vec![0; 10_000], 0);
        loop {
            let read = reader.read(&mut piece).unwrap();
            if read == 0 {
                break;
            }
            sum += piece[..read].iter().map(|byte| u64::from(*byte)).sum::<u64>();
        }
        assert_eq!(sum, BYTES / 2 * 16);
        reader.seek(SeekFrom::Start(BYTES / 2 - 1)).unwrap();
        reader.read_exact(&mut piece[..2]).unwrap();
        assert_eq!(piece[..2], [7, 9]);
    };
    check();
    warm(&db);
    check();
    let copy = db.get_reader("film").unwrap().unwrap();
    assert_eq!(db.put_reader("copy", copy).unwrap(), BYTES);
    db.delete("film").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.metrics().value_files, 2, "\"copy\" and \"warm\"");
    let grown = status_bytes("VmHWM").saturating_sub(peak_before);
    assert!(grown < 16 << 20, "{grown} bytes with what the store maps itself");
    db.close().unwrap();
}
