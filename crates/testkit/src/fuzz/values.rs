//! The decoder of value files and of the pointers into them.

use std::path::Path;

use esker::fs::{Fs, MemFs};
use esker::internals::{ValueFileReader, ValueFileWriter, ValuePointer, file_names};

use super::fixup;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn read(bytes: &[u8]) {
    let path = file_names::value_path(Path::new("/"), 1);
    let fs = MemFs::new();
    let written = fs.create_new(&path).and_then(|mut file| file.append(bytes));
    written.unwrap_or_else(|e| panic!("a file in memory: {e}"));
    let pointer = ValuePointer::decode(bytes);
    let first = || {
        Some(ValuePointer {
            file: 1,
            offset_bytes: 32,
            key_bytes: u32_at(bytes, 40)?,
            value_bytes: u32_at(bytes, 44)?,
            checksum: u64_at(bytes, 32)?,
        })
    };
    for opened in
        [ValueFileReader::open(&*fs, &path, 1), ValueFileReader::open_damaged(&*fs, &path, 1)]
    {
        let Ok(reader) = opened else { continue };
        let _ = reader.check(&mut |_| true);
        for pointer in pointer.iter().chain(&first()) {
            if let Ok(value) = reader.read(None, pointer) {
                assert!(value.len() <= bytes.len(), "a value is longer than its file");
            }
        }
    }
}

/// Reads a value file, as it is and with corrected checksums.
pub fn value_file(input: &[u8]) {
    read(input);
    let mut fixed = input.to_vec();
    let _ = fixup::values(&mut fixed);
    read(&fixed);
}

pub fn value_file_seeds() -> Vec<Vec<u8>> {
    let fs = MemFs::new();
    let path = file_names::value_path(Path::new("/"), 1);
    let written = || {
        let mut writer = ValueFileWriter::create(&*fs, &path, 1, 77)?;
        for (key, value) in [("a", "one"), ("", ""), ("longer key", "a longer value")] {
            writer.add(key.as_bytes(), value.as_bytes())?;
        }
        writer.finish()
    };
    let len = written().unwrap_or_else(|e| panic!("a file in memory: {e}"));
    vec![fs.read(&path, len).unwrap_or_else(|e| panic!("a file in memory: {e}"))]
}
