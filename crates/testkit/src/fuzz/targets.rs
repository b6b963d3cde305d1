//! The function and the valid inputs of each target.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use esker::codec::{Key, KeyReader};
use esker::fs::Fs;
use esker::fs::MemFs;
use esker::internals::BackupMeta;
use esker::internals::Block;
use esker::internals::BlockCache;
use esker::internals::Cursor;
use esker::internals::RangeDelete;
use esker::internals::VersionEdit;
use esker::internals::file_names;
use esker::internals::prepared_record::{self, PreparedRecord};
use esker::internals::transaction_item::{KeyRange, Reads};
use esker::internals::{Current, Slot};
use esker::internals::{
    External, IndexBudget, ReadConfig, Table, TableOptions, TableSource, TableWriter,
};
use esker::internals::{FileHeader, LogStart};
use esker::internals::{KeyBuf, Rows};
use esker::internals::{Kind, SEQNO_MAX};
use esker::internals::{LogReader, LogWriter};
use esker::internals::{ManifestWriter, manifest};
use esker::internals::{Op, Ops, ops};
use esker::internals::{decode_status, encode_status};
use esker::schema::OPTIONS;
use esker::{BlockLayout, Compression, Db, KeyOrder, Options};
use esker::{CachePolicy, IndexSearch};

use super::fixup;
use crate::campaign::corruption::Store;
use crate::campaign::script::Theme;
use crate::campaign::script_run::store_dir;

fn file_of(path: &Path, bytes: &[u8]) -> Arc<MemFs> {
    let fs = MemFs::new();
    let written = fs.create_new(path).and_then(|mut file| file.append(bytes));
    written.unwrap_or_else(|e| panic!("a file in memory: {e}"));
    fs
}

/// Runs the target on the input unchanged, and with corrected checksums.
fn both(input: &[u8], fix: impl FnOnce(&mut [u8]) -> Option<()>, run: impl Fn(&[u8])) {
    run(input);
    let mut fixed = input.to_vec();
    let _ = fix(&mut fixed);
    run(&fixed);
}

const LOG: &str = "/000007.wal";

pub fn log(input: &[u8]) {
    both(input, fixup::log, |bytes| {
        let fs = file_of(Path::new(LOG), bytes);
        let number = bytes.get(16).map_or(7, |b| u64::from(*b));
        let Ok(mut reader) = LogReader::open(&*fs, Path::new(LOG), number) else { return };
        for _ in 0..bytes.len() {
            match reader.next() {
                Ok(Some(record)) => drop(Ops::new(record.payload).count()),
                Ok(None) | Err(_) => match reader.skip_bad() {
                    Ok(true) => {}
                    _ => break,
                },
            }
        }
    });
}

pub fn log_seeds() -> Vec<Vec<u8>> {
    let fs = MemFs::new();
    let header = FileHeader { number: 7, generation: 5 };
    let start = LogStart { first_ordinal: 3, first_seqno: 9, durable_ordinal: 2 };
    let log = LogWriter::create(&*fs, Path::new(LOG), header, start, false);
    let mut log = log.unwrap_or_else(|e| panic!("a log in memory: {e}"));
    let payload = &batch_seeds()[0];
    let written = log
        .append(9, payload)
        .and_then(|()| log.sync())
        .and_then(|()| log.append_group(&[(14, payload), (19, b"")]))
        .and_then(|()| log.mark_continued(8));
    written.unwrap_or_else(|e| panic!("a log in memory: {e}"));
    vec![fs.read(Path::new(LOG), u64::MAX).unwrap_or_default()]
}

pub fn batch(input: &[u8]) {
    let mut again = Vec::new();
    let mut whole = true;
    for op in Ops::new(input) {
        let Some(op) = op else {
            whole = false;
            break;
        };
        ops::encode(&mut again, &op);
    }
    if whole {
        let same = Ops::new(&again).flatten().eq(Ops::new(input).flatten());
        assert!(same, "operations change when they are encoded again");
    }
}

pub fn batch_seeds() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    ops::encode_put(&mut out, b"key", &[7; 200]);
    ops::encode_delete(&mut out, b"another");
    ops::encode(&mut out, &Op { kind: Kind::Put, tree: 300, key: b"\0\0\0\x02key", value: b"1" });
    ops::encode_range_delete(&mut out, b"a", b"z");
    ops::encode_put(&mut out, b"", b"");
    vec![out, Vec::new()]
}

pub fn block(input: &[u8]) {
    let Ok(block) = Block::copy_of(input) else { return };
    let mut buf = KeyBuf::default();
    let order = KeyOrder::Bytewise;
    for row in 0..block.rows() {
        let found = block.load(row, &mut buf);
        let _ = block.value(found).len();
        let key = buf.key().to_vec();
        let _ = block.lower_bound(&order, &key, found.seqno(), &mut KeyBuf::default());
        let _ = block.find(&order, &key, SEQNO_MAX);
    }
    block.load(0, &mut buf);
    for row in 1..block.rows() {
        block.step_forward(row, &mut buf);
    }
    for row in (0..block.rows().saturating_sub(1)).rev() {
        block.step_back(row, &mut buf);
    }
}

/// Returns the data blocks of an uncompressed table, without their checksums.
pub fn block_seeds() -> Vec<Vec<u8>> {
    let plain = tables().iter().filter(|table| table.compression == Compression::None);
    let blocks = plain.flat_map(|table| {
        let block = |(start, end): &(usize, usize)| table.bytes[*start..*end - 1].to_vec();
        table.blocks.iter().take(2).map(block)
    });
    blocks.collect()
}

/// A valid table, and the positions of its data blocks. A block's end includes its compression
/// byte.
struct Made {
    bytes: Vec<u8>,
    blocks: Vec<(usize, usize)>,
    compression: Compression,
}

/// Returns tables of every layout and compression, and one of each layout for an ingest.
fn tables() -> &'static [Made] {
    static TABLES: OnceLock<Vec<Made>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut all = Vec::new();
        for layout in BlockLayout::ALL {
            let built = Compression::ALL.iter().map(|compression| (*compression, false));
            for (compression, is_external) in built.chain([(Compression::None, true)]) {
                let bytes = make_table(*layout, compression, is_external);
                let ranges = crate::campaign::checksum_range::checksum_ranges("1.sst", &bytes);
                // The last four parts and the footer hold no data.
                let data = ranges.iter().take(ranges.len().saturating_sub(5));
                let blocks = data.map(|range| (range.start, range.end)).collect();
                all.push(Made { bytes, blocks, compression });
            }
        }
        all
    })
}

fn make_table(layout: BlockLayout, compression: Compression, is_external: bool) -> Vec<u8> {
    let fs = MemFs::new();
    let path = PathBuf::from("/1.sst");
    let external = is_external.then(|| External { merge_operator: "add_i64".to_string() });
    let block_size_bytes = 256;
    let options =
        TableOptions { layout, compression, block_size_bytes, external, ..TableOptions::default() };
    let written = TableWriter::create(&*fs, &path, 77, &options).and_then(|mut table| {
        for i in 0..40u64 {
            let key = format!("key{:02}", if is_external { i } else { i / 2 });
            let kind = if i % 7 == 3 { Kind::Delete } else { Kind::Put };
            let value = if kind == Kind::Put { vec![b'v'; i as usize] } else { Vec::new() };
            table.add(key.as_bytes(), if is_external { 0 } else { 100 - i }, kind, &value)?;
        }
        if is_external {
            return table.finish();
        }
        let (start, end) = (b"key05".to_vec(), b"key09".to_vec());
        table.add_range_delete(&RangeDelete { start, end, seqno: 3 })?;
        table.finish()
    });
    written.unwrap_or_else(|e| panic!("a table in memory: {e}"));
    fs.read(&path, u64::MAX).unwrap_or_default()
}

pub fn table(input: &[u8]) {
    let nearest = tables()
        .iter()
        .max_by_key(|table| table.bytes.iter().zip(input).take_while(|(a, b)| a == b).count());
    let blocks = nearest.map_or(&[][..], |table| &table.blocks);
    both(
        input,
        |bytes| fixup::table(bytes, blocks),
        |bytes| {
            let path = PathBuf::from("/1.sst");
            let fs = file_of(&path, bytes);
            let Ok(identity) = Table::identify(&*fs, &path) else { return };
            let searches = [IndexSearch::Btree, IndexSearch::Binary, IndexSearch::Interpolation];
            let all = searches.into_iter().flat_map(|search| {
                // With the index and filter in memory, and in partitions.
                [(search, None, u64::MAX), (search, Some(9), u64::MAX), (search, Some(9), 0)]
            });
            for (search, ingested, index_bytes_max) in all {
                let cache_bytes = if index_bytes_max == 0 { 64 << 10 } else { 0 };
                let source = TableSource {
                    fs: fs.clone(),
                    path: path.clone(),
                    file_number: 1,
                    table_id: identity.table_id,
                    size_bytes: identity.size_bytes,
                    ingested,
                };
                let config = ReadConfig {
                    index_search: search,
                    cache: Arc::new(BlockCache::new(CachePolicy::Clock, cache_bytes)),
                    index_budget: IndexBudget::new(index_bytes_max),
                    ..ReadConfig::without_cache(KeyOrder::Bytewise)
                };
                let Ok(table) = Table::open(source, &config) else { continue };
                read_table(&Arc::new(table));
            }
        },
    );
}

fn read_table(table: &Arc<Table>) {
    let _ = table.check();
    for key in [&b""[..], b"key", b"key07", b"key19", b"zz"] {
        let _ = table.get(key, esker::internals::key_hash(key), SEQNO_MAX, false);
        let _ = table.approximate_offset(key);
    }
    let mut cursor = table.cursor(false);
    let _ = cursor.seek_to_first();
    for _ in 0..100 {
        if !cursor.valid() {
            break;
        }
        let _ = (cursor.key().len(), cursor.value().len());
        if cursor.next().is_err() {
            return;
        }
    }
    let _ = cursor.seek_to_last();
    for _ in 0..100 {
        if !cursor.valid() {
            break;
        }
        if cursor.prev().is_err() {
            return;
        }
    }
}

pub fn table_seeds() -> Vec<Vec<u8>> {
    tables().iter().map(|table| table.bytes.clone()).collect()
}

pub fn edit(input: &[u8]) {
    if let Some(edit) = VersionEdit::decode(input) {
        let again = VersionEdit::decode(&edit.encode());
        assert!(again.as_ref() == Some(&edit), "an edit changes when it is encoded again");
    }
}

/// Returns the files of a store that flushed and compacted.
fn store_files() -> &'static [(String, Vec<u8>)] {
    static FILES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let store = Store::make(esker::Policy::Fluid, Theme::Levels, 1, 60, true);
        let name = |path: &Path| path.strip_prefix(store_dir()).map(|p| p.display().to_string());
        let files = store.files().map(|path| {
            let bytes = store.image.bytes(path).unwrap_or_default().to_vec();
            (name(path).unwrap_or_default(), bytes)
        });
        files.collect()
    })
}

fn the_manifest() -> (u64, Vec<u8>) {
    let found = store_files()
        .iter()
        .find_map(|(name, bytes)| Some((file_names::parse_manifest(name)?, bytes.clone())));
    found.unwrap_or_default()
}

pub fn edit_seeds() -> Vec<Vec<u8>> {
    let (number, bytes) = the_manifest();
    let path = file_names::manifest_path(Path::new("/"), number);
    let store_id = bytes.get(16..24).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    let found = manifest::read(&*file_of(&path, &bytes), Path::new("/"), number, store_id, 0);
    found.map_or(Vec::new(), |found| found.edits.iter().map(VersionEdit::encode).collect())
}

pub fn manifest(input: &[u8]) {
    both(
        input,
        |bytes| fixup::manifest(bytes, 1),
        |bytes| {
            let dir = Path::new("/");
            let fs = file_of(&file_names::manifest_path(dir, 1), bytes);
            let id =
                bytes.get(16..24).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
            if let Ok(found) = manifest::read(&*fs, dir, 1, id, 0) {
                if let Ok(mut writer) = ManifestWriter::resume(&*fs, dir, &found) {
                    let _ = writer.append(&VersionEdit::default());
                }
                for edit in found.edits {
                    edit_version(&edit);
                }
            }
        },
    );
}

/// Applies an edit to an empty version.
fn edit_version(edit: &VersionEdit) {
    let version = esker::internals::Version::empty(KeyOrder::Bytewise);
    let make = |number, info: &esker::internals::TableInfo| {
        esker::internals::FileMeta::new(number, info.clone(), None)
    };
    if let Ok(next) = version.after(edit, make) {
        let _ = next.to_edit().encode();
    }
}

pub fn manifest_seeds() -> Vec<Vec<u8>> {
    let (number, mut bytes) = the_manifest();
    let _ = fixup::manifest(&mut bytes, if number == 1 { number } else { 1 });
    vec![bytes]
}

pub fn current(input: &[u8]) {
    both(input, fixup::current, |bytes| {
        let dir = Path::new("/");
        let fs = file_of(&dir.join(file_names::CURRENT), bytes);
        if let Ok(slot) = Current::read(&*fs, dir) {
            let Slot { manifest, manifest_bytes, .. } = slot;
            if let Ok(mut current) = Current::open(&*fs, dir, slot) {
                let _ = current.switch(manifest, manifest_bytes);
            }
        }
    });
}

pub fn current_seeds() -> Vec<Vec<u8>> {
    let found = store_files().iter().filter(|(name, _)| name == file_names::CURRENT);
    found.map(|(_, bytes)| bytes.clone()).collect()
}

pub fn backup_meta(input: &[u8]) {
    both(input, fixup::last_word, |bytes| {
        if let Some((_, Some(meta))) = BackupMeta::decode(bytes) {
            assert_eq!(meta.encode(), bytes, "backup metadata changes when it is encoded again");
        }
    });
}

pub fn backup_meta_seeds() -> Vec<Vec<u8>> {
    let meta = |store_path: &str| BackupMeta {
        store_id: 0x0123_4567_89ab_cdef,
        created_unix_ms: 1_700_000_000_000,
        tables: 0x1122_3344_5566_7788,
        store_path: PathBuf::from(store_path),
    };
    vec![meta("/data/db").encode(), meta("").encode()]
}

pub fn status(input: &[u8]) {
    both(input, fixup::status, |bytes| {
        let Some(mut status) = decode_status(bytes) else { return };
        // The text of a problem is cut and put on one line.
        status.metrics.scrub_problem = None;
        let again = decode_status(&encode_status(&status));
        assert_eq!(again, Some(status), "the encoded status differs");
    });
}

pub fn status_seeds() -> Vec<Vec<u8>> {
    let (fs, dir) = (MemFs::new(), Path::new("/db"));
    let options = Options { background_threads: Some(0), ..Options::default() };
    let published = Db::open_on(fs.clone(), dir, options).map(|db| {
        let bytes = fs.read(&dir.join(file_names::STATUS), 1 << 20);
        drop(db);
        bytes.unwrap_or_default()
    });
    vec![published.unwrap_or_else(|e| panic!("a store in memory: {e}"))]
}

pub fn prepared(input: &[u8]) {
    let Ok(record) = PreparedRecord::decode(input) else { return };
    let count = record.reads.items(record.operations).count();
    assert!(count >= record.count as usize, "an operation or a read has no item");
    let again = prepared_record::encode(&record.reads, record.operations);
    let again = PreparedRecord::decode(&again).expect("an encoded record can be decoded");
    assert_eq!((again.count, again.operations), (record.count, record.operations));
    assert_eq!(again.reads.items(again.operations).count(), count);
}

pub fn prepared_seeds() -> Vec<Vec<u8>> {
    let mut reads = Reads::default();
    let mut operations = Vec::new();
    let empty = prepared_record::encode(&reads, &operations);
    reads.add_key(0, b"key");
    reads.add_key(3, b"\0\0\0\x0ekey");
    let (lo, hi) = (Bound::Included(b"a".to_vec()), Bound::Excluded(b"z".to_vec()));
    reads.add_range(KeyRange { tree: 0, lo, hi });
    reads.add_range(KeyRange { tree: 3, lo: Bound::Unbounded, hi: Bound::Unbounded });
    ops::encode_put(&mut operations, b"key", b"value");
    ops::encode_range_delete(&mut operations, b"a", b"b");
    vec![empty, prepared_record::encode(&reads, &operations)]
}

pub fn options(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut options = Options::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once('=') else { continue };
        if options.set(name, value).is_ok() {
            let shown = options.get(name).unwrap_or_default();
            assert!(
                options.set(name, &shown).is_ok(),
                "{name}: the printed value {shown} was refused"
            );
            assert_eq!(options.get(name), Some(shown));
        }
    }
    let _ = options.validate();
}

pub fn options_seeds() -> Vec<Vec<u8>> {
    let all: Vec<String> =
        OPTIONS.iter().map(|spec| format!("{}={}\n", spec.name, spec.default)).collect();
    let mut seeds: Vec<Vec<u8>> = all.iter().map(|line| line.clone().into_bytes()).collect();
    seeds.push(b"memtable_size_bytes=64MiB\nalpha=1e3\nfilter_bits=-1\ncache_size=1.5GB".to_vec());
    seeds
}

pub fn names(input: &[u8]) {
    let Ok(name) = std::str::from_utf8(input) else { return };
    let dir = Path::new("/store");
    let paths = [
        file_names::parse_log(name).map(|n| file_names::log_path(dir, n)),
        file_names::parse_table(name).map(|n| file_names::table_path(dir, n)),
        file_names::parse_manifest(name).map(|n| file_names::manifest_path(dir, n)),
        file_names::parse_value_file(name).map(|n| file_names::value_path(dir, n)),
    ];
    for path in paths.into_iter().flatten() {
        assert_eq!(path, dir.join(name), "the name differs from the name of its number");
    }
    if file_names::is_store_file(name) {
        assert_eq!(dir.join(name).parent(), Some(dir), "the name leads out of the store");
    }
}

pub fn names_seeds() -> Vec<Vec<u8>> {
    let names = [
        "000001.wal",
        "000012.sst",
        "000013.val",
        "manifest-000003",
        "CURRENT",
        "LOCK",
        "../1.sst",
    ];
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

pub fn codec(input: &[u8]) {
    let read = |decode: &dyn Fn(&mut KeyReader<'_>) -> bool| {
        let mut reader = KeyReader::new(input);
        while reader.remaining() > 0 && decode(&mut reader) {}
    };
    read(&|reader| u64::decode_from(reader).is_ok());
    read(&|reader| i32::decode_from(reader).is_ok());
    read(&|reader| f64::decode_from(reader).is_ok());
    read(&|reader| String::decode_from(reader).is_ok());
    read(&|reader| <Vec<u8>>::decode_from(reader).is_ok());
}

pub fn codec_seeds() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    esker::codec::encode_bytes_into(b"a\0b", &mut out);
    esker::codec::encode_str_into("text", &mut out);
    vec![out, vec![0xff; 9], vec![0; 9]]
}

/// Trusts the length in its first byte.
pub fn canary(input: &[u8]) {
    if let Some((length, rest)) = input.split_first() {
        assert!(rest[..usize::from(*length)].len() <= 255);
    }
}

pub fn canary_seeds() -> Vec<Vec<u8>> {
    vec![vec![3, 1, 2, 3, 4]]
}
