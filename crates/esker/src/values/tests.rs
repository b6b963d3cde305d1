//! Tests of the value file.

use std::path::Path;

use super::*;
use crate::base::separated::ValuePointer;
use crate::error::ErrorKind;
use crate::fs::{Fs, MemFs};

fn written(fs: &dyn Fs, path: &Path) -> Vec<(Vec<u8>, Vec<u8>, ValuePointer)> {
    let mut writer = ValueFileWriter::create(fs, path, 7, 99).unwrap();
    let mut all = Vec::new();
    for n in 0..40_usize {
        let (key, value) = (format!("key{n}").into_bytes(), vec![n as u8; n * n * 9]);
        let pointer = writer.add(&key, &value).unwrap();
        all.push((key, value, pointer));
    }
    let large = vec![5; 600 << 10];
    all.push((b"large".to_vec(), large.clone(), writer.add(b"large", &large).unwrap()));
    all.push((Vec::new(), Vec::new(), writer.add(b"", b"").unwrap()));
    let stated = writer.len_bytes();
    assert_eq!(writer.finish().unwrap(), stated);
    all
}

#[test]
fn values_are_read_back_and_other_pointers_are_refused() {
    let (fs, path) = (MemFs::new(), Path::new("/000007.val"));
    let all = written(&*fs, path);
    let reader = ValueFileReader::open(&*fs, path, 7).unwrap();
    assert_eq!((reader.content().records, reader.content().id), (42, 99));
    assert!(reader.check(&mut |_| true).unwrap());
    assert!(!reader.check(&mut |_| false).unwrap());
    for (key, value, pointer) in &all {
        assert_eq!(&*reader.read(Some(key), pointer).unwrap(), &value[..]);
        assert_eq!(&*reader.read(None, pointer).unwrap(), &value[..]);
        let other = [&key[..], b"x"].concat();
        let wrong = [
            reader.read(Some(&other), pointer),
            reader.read(None, &ValuePointer { checksum: pointer.checksum ^ 1, ..*pointer }),
            reader.read(None, &ValuePointer { offset_bytes: pointer.offset_bytes + 1, ..*pointer }),
            reader.read(None, &ValuePointer { offset_bytes: u64::MAX / 2, ..*pointer }),
            reader.read(None, &ValuePointer { offset_bytes: 0, ..*pointer }),
            reader.read(None, &ValuePointer { value_bytes: pointer.value_bytes + 1, ..*pointer }),
            reader.read(None, &ValuePointer { value_bytes: 1 << 30, ..*pointer }),
        ];
        for outcome in wrong {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains("000007.val"), "{error}");
        }
    }
}

#[test]
fn every_changed_bit_and_every_missing_byte_is_found() {
    let (fs, path) = (MemFs::new(), Path::new("/000007.val"));
    let mut writer = ValueFileWriter::create(&*fs, path, 7, 99).unwrap();
    let pointers = [("a", "one"), ("b", ""), ("c", "three")]
        .map(|(key, value)| writer.add(key.as_bytes(), value.as_bytes()).unwrap());
    writer.finish().unwrap();
    let whole = fs.read(path, 1 << 20).unwrap();
    let is_whole = |bytes: &[u8]| {
        fs.remove(path).unwrap();
        fs.create_new(path).unwrap().append(bytes).unwrap();
        let read = || {
            let reader = ValueFileReader::open(&*fs, path, 7)?;
            for pointer in &pointers {
                reader.read(None, pointer)?;
            }
            reader.check(&mut |_| true)
        };
        match read() {
            Ok(whole) => whole,
            Err(error) => {
                let kinds = [ErrorKind::Corruption, ErrorKind::Incompatible];
                assert!(kinds.contains(&error.kind()), "{error}");
                false
            }
        }
    };
    assert!(is_whole(&whole));
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_whole(&changed), "bit {bit}");
    }
    for len in 0..whole.len() {
        assert!(!is_whole(&whole[..len]), "{len} bytes");
    }
}

#[test]
fn streamed_values_are_read_back_and_other_pointers_are_refused() {
    let (fs, path) = (MemFs::new(), Path::new("/000007.val"));
    let value: Vec<u8> = (0..150_000_u32).map(|n| (n % 253) as u8).collect();
    let mut writer = StreamedValueWriter::create(&*fs, path, (7, 99), b"key").unwrap();
    value.chunks(7001).for_each(|part| writer.write(part).unwrap());
    let (pointer, bytes) = writer.finish().unwrap();
    assert_eq!(bytes, pointer.record_bytes() + OVERHEAD_BYTES);
    let reader = ValueFileReader::open(&*fs, path, 7).unwrap();
    assert_eq!((reader.content().records, reader.content().size_bytes), (1, bytes));
    assert!(reader.check(&mut |_| true).unwrap());
    assert!(!reader.check(&mut |_| false).unwrap());
    assert!(*reader.read(Some(b"key"), &pointer).unwrap() == *value);
    let mut piece = vec![1];
    reader.read_piece(&pointer, 2, &mut piece).unwrap();
    assert!(piece == value[2 * 65_536..]);
    reader.read_piece(&pointer, 3, &mut piece).unwrap();
    assert!(piece.is_empty(), "behind the last piece");
    let wrong = [
        (Some(&b"other"[..]), pointer),
        (None, ValuePointer { checksum: pointer.checksum ^ 1, ..pointer }),
        (None, ValuePointer { offset_bytes: 33, ..pointer }),
        (None, ValuePointer { offset_bytes: u64::MAX / 2, ..pointer }),
        (None, ValuePointer { key_bytes: 4, ..pointer }),
        (None, ValuePointer { value_bytes: pointer.value_bytes - 1, ..pointer }),
        (None, ValuePointer { value_bytes: pointer.value_bytes + 1, ..pointer }),
        (None, ValuePointer { is_streamed: false, ..pointer }),
    ];
    for (key, pointer) in wrong {
        let error = reader.read(key, &pointer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{pointer:?}: {error}");
    }
    // A file of version 1 has no streamed record.
    let plain = Path::new("/000008.val");
    let mut writer = ValueFileWriter::create(&*fs, plain, 8, 99).unwrap();
    let pointer = writer.add(b"key", &value).unwrap();
    writer.finish().unwrap();
    let reader = ValueFileReader::open(&*fs, plain, 8).unwrap();
    let streamed = ValuePointer { value_bytes: 9, is_streamed: true, ..pointer };
    assert_eq!(reader.read(None, &streamed).unwrap_err().kind(), ErrorKind::Corruption);
}
