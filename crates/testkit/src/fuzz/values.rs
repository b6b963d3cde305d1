//! The decoder of value files and of the pointers into them.

use std::path::Path;

use esker::fs::{Fs, MemFs};
use esker::internals::{
    StreamedValueWriter, ValueFileReader, ValueFileWriter, ValuePointer, file_names,
};

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
        let key_word = u32_at(bytes, 40)?;
        let is_streamed = key_word & 1 << 31 != 0;
        // Of a streamed record, the first piece.
        let key_bytes = key_word & !(1 << 31);
        let value_at = if is_streamed { 56 + key_bytes as usize } else { 44 };
        Some(ValuePointer {
            file: 1,
            offset_bytes: 32,
            key_bytes,
            value_bytes: u32_at(bytes, value_at)?,
            checksum: u64_at(bytes, 32)?,
            is_streamed,
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
    let streamed_path = file_names::value_path(Path::new("/"), 2);
    let streamed = || {
        let mut writer = StreamedValueWriter::create(&*fs, &streamed_path, (2, 78), b"key")?;
        writer.write(b"a streamed value")?;
        Ok::<u64, esker::Error>(writer.finish()?.1)
    };
    let seeds = [(written(), &path), (streamed(), &streamed_path)];
    let content = seeds.map(|(len, path)| {
        let len = len.unwrap_or_else(|e| panic!("a file in memory: {e}"));
        fs.read(path, len).unwrap_or_else(|e| panic!("a file in memory: {e}"))
    });
    content.to_vec()
}
