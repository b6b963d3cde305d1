//! The decoders of the change feed: its stream, which may come over a network, the files of its slots,
//! and the records that it keeps in a store. And the files of an encrypted store.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use esker::encryption::{EncryptedFs, MasterKey};
use esker::feed::{Change, ChangeBatch, ChangeReader, ChangeWriter, StreamItem};
use esker::fs::{Fs, MemFs};
use esker::internals::{FeedSlotFile, SlotFate, decode_feed_records};
use esker::{Db, Options};

use super::fixup;

/// Identity of the store of the seeds.
const SOURCE: u64 = 7;
/// Fewest bytes of a change in a stream: its kind, and the length of a name.
const CHANGE_BYTES_MIN: usize = 2;

fn read_stream(bytes: &[u8]) {
    let Ok(mut reader) = ChangeReader::new(bytes) else { return };
    let (mut items, mut changes) = (0, 0);
    while let Ok(Some(item)) = reader.next() {
        items += 1;
        changes += match &item {
            StreamItem::Batch(batch) => batch.changes.len(),
            StreamItem::Content(content) => content.len(),
            _ => 0,
        };
        // What was read is written as bytes that give the same item.
        let mut again = Vec::new();
        let written = ChangeWriter::new(&mut again, SOURCE).and_then(|mut w| w.write(&item));
        written.unwrap_or_else(|e| panic!("a vector takes bytes: {e}"));
        let found = ChangeReader::new(&again[..]).and_then(|mut reader| reader.next());
        assert_eq!(found.ok().flatten(), Some(item), "another item");
    }
    assert!(items * 17 <= bytes.len(), "{items} items of {} bytes", bytes.len());
    assert!(changes * CHANGE_BYTES_MIN <= bytes.len(), "{changes} changes");
}

/// Reads a stream of changes, as it is and with corrected checksums.
pub fn stream(input: &[u8]) {
    read_stream(input);
    let mut fixed = input.to_vec();
    let _ = fixup::stream(&mut fixed);
    read_stream(&fixed);
}

/// Returns a batch of a store.
fn any_batch() -> ChangeBatch {
    let read = || {
        let db = Db::open_on(MemFs::new(), "/db", Options::default())?;
        db.put("key", "value")?;
        let first = db.changes(0)?.next().transpose();
        db.close()?;
        first
    };
    match read() {
        Ok(Some(batch)) => batch,
        other => panic!("a store in memory has a change: {other:?}"),
    }
}

pub fn stream_seeds() -> Vec<Vec<u8>> {
    let keyspace: Arc<str> = Arc::from("users");
    let (key, value) = (b"key".to_vec(), b"value".to_vec());
    let changes = vec![
        Change::KeyspaceCreated {
            keyspace: keyspace.clone(),
            key_order: "esker.bytewise".to_string(),
            options: vec![("ttl_ms".to_string(), "7".to_string())],
        },
        Change::Put {
            keyspace: keyspace.clone(),
            key: key.clone(),
            value: value.clone(),
            expires_ms: None,
        },
        Change::Put {
            keyspace: keyspace.clone(),
            key: key.clone(),
            value: vec![],
            expires_ms: Some(9),
        },
        Change::Merge { keyspace: keyspace.clone(), key: key.clone(), operand: value },
        Change::Delete { keyspace: keyspace.clone(), key: key.clone() },
        Change::DeleteRange { keyspace: keyspace.clone(), start: vec![], end: key },
        Change::KeyspaceRenamed { keyspace: keyspace.clone(), new_name: Arc::from("people") },
        Change::Clear { keyspace: Arc::from("people") },
        Change::KeyspaceDropped { keyspace: Arc::from("people") },
    ];
    let batch = |part, continues, changes: &[Change]| {
        let mut batch = any_batch();
        (batch.part, batch.continues, batch.changes) = (part, continues, changes.to_vec());
        batch
    };
    let items = [
        StreamItem::BootstrapBegins,
        StreamItem::Content(changes[..3].to_vec()),
        StreamItem::BootstrapEnds { position: 1 },
        StreamItem::Alive { position: 1 },
        StreamItem::Batch(batch(0, false, &changes)),
        StreamItem::Batch(batch(2, true, &changes[..1])),
        StreamItem::End { position: 10 },
    ];
    let written = |items: &[StreamItem]| {
        let mut bytes = Vec::new();
        let mut write = || {
            let mut writer = ChangeWriter::new(&mut bytes, SOURCE)?;
            items.iter().try_for_each(|item| writer.write(item))
        };
        write().unwrap_or_else(|e: esker::Error| panic!("a vector takes bytes: {e}"));
        bytes
    };
    vec![written(&items), written(&items[4..5])]
}

/// Decodes the file of a slot, as it is and with a corrected checksum.
pub fn slot(input: &[u8]) {
    let mut fixed = input.to_vec();
    let _ = fixup::last_word(&mut fixed);
    for bytes in [input, &fixed] {
        if let Some((version, Some(file))) = FeedSlotFile::decode(bytes) {
            let again = FeedSlotFile::decode(&file.encode());
            assert_eq!(again, Some((version, Some(file))), "another slot");
        }
    }
}

pub fn slot_seeds() -> Vec<Vec<u8>> {
    let fates = [SlotFate::Active, SlotFate::Dropped { lag_bytes: 77 }, SlotFate::Ahead];
    let seed = |fate| {
        let limit = (fate == SlotFate::Active).then_some(1 << 30);
        FeedSlotFile { store_id: SOURCE, position: 12, lag_limit_bytes: limit, fate }.encode()
    };
    fates.map(seed).to_vec()
}

/// Decodes the records that the feed keeps in a store: keyspaces, ingests and applied positions.
pub fn feed_records(input: &[u8]) {
    assert!(decode_feed_records(input) <= 3);
}

pub fn feed_records_seeds() -> Vec<Vec<u8>> {
    let keyspace = b"\x01\x05users\x00\x0eesker.bytewise\x01\x06ttl_ms\x017".to_vec();
    let numbers = |head: [u8; 2], count: u64| {
        let tail = (1..=count).flat_map(u64::to_le_bytes);
        head.into_iter().chain(tail).collect::<Vec<u8>>()
    };
    let ingest = b"\x01\xac\x02\x00\x01\x02\x09\x0a".to_vec();
    vec![keyspace, numbers([1, 0], 4), numbers([2, 1], 7), ingest]
}

/// The names of the files that are fuzzed: one for each layout, and the keys.
const ENCRYPTED: [&str; 4] = ["000001.sst", "000001.wal", "CURRENT", "KEYS"];
/// The place of the keys in them.
const KEYS: usize = 3;

fn master() -> MasterKey {
    MasterKey::from_bytes([3; 32])
}

fn dir() -> &'static Path {
    Path::new("/d")
}

/// Returns files in memory with an encrypted directory, and its encrypting view.
fn encrypted_dir(keys: Option<&[u8]>) -> (Arc<MemFs>, Arc<dyn Fs>) {
    let made = || -> Result<_, String> {
        let io = |error: std::io::Error| error.to_string();
        let inner = MemFs::new();
        inner.create_dir(dir()).map_err(io)?;
        let fs = EncryptedFs::new(inner.clone(), master());
        match keys {
            Some(keys) => {
                let file = inner.create_new(&dir().join(ENCRYPTED[KEYS]));
                file.and_then(|mut file| file.append(keys)).map_err(io)?;
            }
            None => fs.share_keys(None, dir()).map_err(|e| e.to_string())?,
        }
        Ok((inner, fs))
    };
    made().unwrap_or_else(|e| panic!("a directory in memory: {e}"))
}

/// The content of `KEYS`, and of a file of each layout. Made once: keys are random.
static SEALED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let (inner, fs) = encrypted_dir(None);
    let view = fs.pinned(dir()).ok().flatten().unwrap_or(fs);
    let sealed = |name: &&str| {
        let path = dir().join(name);
        if *name != ENCRYPTED[KEYS] {
            let written = view.create_new(&path).and_then(|mut file| {
                file.append(&[1; 300])?;
                file.append(&[2; 5000])?;
                file.sync()
            });
            written.unwrap_or_else(|e| panic!("a file in memory: {e}"));
        }
        inner.read(&path, 1 << 20).unwrap_or_else(|e| panic!("a file in memory: {e}"))
    };
    ENCRYPTED.iter().map(sealed).collect()
});

fn read_encrypted(which: usize, bytes: &[u8]) {
    let (inner, fs) = encrypted_dir(Some(if which == KEYS { bytes } else { &SEALED[KEYS] }));
    let Some(view) = fs.pinned(dir()).ok().flatten() else { return };
    if which == KEYS {
        let _ = fs.check_keys(dir());
        return;
    }
    let path = dir().join(ENCRYPTED[which]);
    let written = inner.create_new(&path).and_then(|mut file| file.append(bytes));
    written.unwrap_or_else(|e| panic!("a file in memory: {e}"));
    if let Ok(content) = view.read(&path, 1 << 20) {
        assert!(content.len() <= bytes.len(), "a file is longer than its sealed bytes");
    }
    let mut head = [0; 64];
    let _ = view.open_read(&path).and_then(|file| file.read_exact_at(&mut head, 0));
}

/// Reads a file of an encrypted store. The first byte says which.
pub fn encrypted_file(input: &[u8]) {
    let Some((which, bytes)) = input.split_first() else { return };
    let which = usize::from(*which) % ENCRYPTED.len();
    read_encrypted(which, bytes);
    if which == KEYS {
        // Two copies, each with its checksum.
        let mut fixed = bytes.to_vec();
        let (first, second) = fixed.split_at_mut(bytes.len() / 2);
        let _ = (fixup::last_word(first), fixup::last_word(second));
        read_encrypted(which, &fixed);
    }
}

pub fn encrypted_file_seeds() -> Vec<Vec<u8>> {
    let seeds = SEALED.iter().enumerate();
    seeds.map(|(which, sealed)| [&[which as u8][..], sealed].concat()).collect()
}
