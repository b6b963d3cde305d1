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
