//! Ingests in the change feed: their place, their parts, the files that are kept for them, and crashes
//! at every point of an ingest and of its application.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{pairs, tiny_options};
use esker::feed::{Applier, Change, ChangeBatch, Changes, SlotOptions, StreamItem};
use esker::fs::{Fs, MemFs};
use esker::ingest::{IngestOptions, SortedWriter};
use esker::{Db, ErrorKind, KeyspaceOptions, Options, built_in_merge_operator};
use esker_testkit::crash::{CrashFs, CrashModel};

/// Number of pairs of an ingest that has several parts.
const MANY: u64 = 2600;

fn dir() -> &'static Path {
    Path::new("/db")
}

fn options() -> Options {
    Options { merge_operator: built_in_merge_operator("add_i64"), ..tiny_options() }
}

fn open(fs: &Arc<dyn Fs>) -> Db {
    Db::open_on(fs.clone(), dir(), options()).unwrap()
}

/// Returns the names of the kept tables.
fn kept(fs: &dyn Fs) -> Vec<String> {
    let entries = fs.list(dir()).unwrap().into_iter().map(|entry| entry.name);
    entries.filter(|name| name.starts_with("ingested-")).collect()
}

fn many(value: &str) -> impl Iterator<Item = (String, String)> {
    (0..MANY).map(move |number| (format!("i{number:05}"), format!("{value}{number:0500}")))
}

/// Applies the feed to pairs; an ingest as a whole.
fn apply(content: &mut BTreeMap<Vec<u8>, Vec<u8>>, changes: Changes) -> u64 {
    let (mut position, mut last): (u64, Option<ChangeBatch>) = (changes.position(), None);
    for batch in changes {
        let batch = batch.unwrap();
        match last.take().filter(|last| last.continues) {
            Some(last) => {
                let of = |batch: &ChangeBatch| (batch.sequence, batch.previous, batch.checksum);
                assert_eq!((batch.part, of(&batch)), (last.part + 1, of(&last)));
            }
            None => assert_eq!(batch.part, 0),
        }
        for change in &batch.changes {
            match change {
                Change::Put { key, value, .. } => {
                    content.insert(key.clone(), value.clone());
                }
                Change::Delete { key, .. } => {
                    content.remove(key);
                }
                Change::Merge { key, operand, .. } => {
                    let number =
                        |bytes: &[u8]| String::from_utf8_lossy(bytes).parse::<i64>().unwrap();
                    let sum = content.get(key).map_or(0, |value| number(value)) + number(operand);
                    content.insert(key.clone(), sum.to_string().into_bytes());
                }
                other => panic!("an unexpected change: {other:?}"),
            }
        }
        position = if batch.continues { position } else { batch.sequence };
        last = Some(batch);
    }
    assert!(last.is_none_or(|last| !last.continues), "the feed ends within an ingest");
    position
}

fn content(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    pairs(db.iter().unwrap()).into_iter().collect()
}

/// Ingests a put, a delete, an operand and a pair that expires.
fn ingest_each_kind(fs: &Arc<dyn Fs>, db: &Db, name: &str) -> u64 {
    let file = Path::new(name);
    let mut writer = SortedWriter::create_on(fs.clone(), file, &options()).unwrap();
    writer.put("a", "9").unwrap();
    writer.delete("b").unwrap();
    writer.merge("n", "5").unwrap();
    writer.put_with_ttl("t", "1", std::time::Duration::from_secs(1 << 20)).unwrap();
    writer.finish().unwrap();
    db.ingest(&[file], &IngestOptions::default()).unwrap().seqno
}

#[test]
fn an_ingest_is_in_the_feed_where_it_happened_after_its_tables_are_gone() {
    let fs: Arc<dyn Fs> = MemFs::new();
    let db = open(&fs);
    let slot = db.subscribe("s", &SlotOptions::default()).unwrap();
    let users = db.keyspace("users", &KeyspaceOptions::default()).unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "1").unwrap();
    db.merge("n", "1").unwrap();
    let seqno = ingest_each_kind(&fs, &db, "/1.sst");
    db.put("a", "2").unwrap();
    let large = db.bulk_load(many("x")).unwrap();
    let report = users.bulk_load([("u", "1"), ("v", "2")]).unwrap();
    assert_eq!(report.entries, 2);
    db.put("i00007", "after").unwrap();
    db.compact_all().unwrap();
    db.compact_all().unwrap();
    assert!(kept(&*fs).len() >= 3, "{:?}", kept(&*fs));
    let in_users = |batch: &ChangeBatch| {
        let is = |change: &Change| matches!(change, Change::Put { keyspace, .. } if &**keyspace == "users");
        batch.changes.iter().any(is)
    };
    let check = |db: &Db, slot: &esker::feed::Slot| {
        let batches: Vec<ChangeBatch> = slot.changes().unwrap().map(|b| b.unwrap()).collect();
        let parts = batches.iter().map(|batch| batch.part).max().unwrap();
        assert!(parts >= 1, "the ingest has {} parts", parts + 1);
        let of_users: Vec<_> = batches.iter().filter(|batch| in_users(batch)).collect();
        assert_eq!((of_users.len(), of_users[0].changes.len()), (1, 2));
        let kinds = &batches.iter().find(|batch| batch.first_sequence > seqno).unwrap().changes;
        let texts: Vec<String> = kinds.iter().map(|change| format!("{change:?}")).collect();
        assert_eq!(kinds.len(), 4, "{texts:?}");
        assert!(matches!(&kinds[3], Change::Put { expires_ms: Some(_), .. }), "{texts:?}");
        let mut model = BTreeMap::new();
        // Only the default keyspace.
        let own: Vec<_> = batches.iter().filter(|batch| !in_users(batch)).cloned().collect();
        for batch in own {
            for change in batch.changes {
                match change {
                    Change::Put { key, value, .. } => drop(model.insert(key, value)),
                    Change::Delete { key, .. } => drop(model.remove(&key)),
                    Change::Merge { key, operand, .. } => {
                        let sum = if model.contains_key(&key) { b"6".to_vec() } else { operand };
                        model.insert(key, sum);
                    }
                    Change::KeyspaceCreated { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(model, content(db));
        batches.last().unwrap().sequence
    };
    let last = check(&db, &slot);
    // A snapshot has the ingest whose number is its position.
    assert!(db.changes(seqno).unwrap().all(|batch| batch.unwrap().first_sequence > seqno + 1));
    drop((slot, users));
    db.close().unwrap();
    let reader = Db::open_read_only_on(fs.clone(), dir(), options()).unwrap();
    check(&reader, &reader.slot("s").unwrap());
    let db = open(&fs);
    let slot = db.slot("s").unwrap();
    assert_eq!(check(&db, &slot), last);
    assert!(db.slots().unwrap()[0].lag_bytes >= large.bytes);
    slot.confirm(last).unwrap();
    assert!(kept(&*fs).is_empty(), "{:?}", kept(&*fs));
    assert_eq!(slot.changes().unwrap().count(), 0);
    let error = db.changes(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn kept_tables_count_for_the_limit_and_go_with_the_slots() {
    let fs: Arc<dyn Fs> = MemFs::new();
    let db = open(&fs);
    let bytes = db.bulk_load(many("before")).unwrap().bytes;
    assert!(kept(&*fs).is_empty(), "a store without slots keeps nothing");
    let limited = SlotOptions::default().lag_limit_bytes(bytes / 2);
    let small = db.subscribe("small", &limited).unwrap();
    let other = db.subscribe("other", &SlotOptions::default()).unwrap();
    db.bulk_load(many("x")).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    let message = small.changes().unwrap_err().message().to_string();
    assert!(message.contains("was dropped since it lagged"), "{message}");
    assert!(!kept(&*fs).is_empty(), "another slot needs the tables");
    assert!(other.changes().unwrap().count() > 2);
    db.drop_slot("other").unwrap();
    assert!(kept(&*fs).is_empty());
    // A slot that goes while the store is closed.
    let slot = db.subscribe("third", &SlotOptions::default()).unwrap();
    db.bulk_load(many("y")).unwrap();
    drop((slot, small, other));
    db.close().unwrap();
    let reader = Db::open_read_only_on(fs.clone(), dir(), options()).unwrap();
    reader.drop_slot("third").unwrap();
    assert!(!kept(&*fs).is_empty());
    let db = open(&fs);
    assert!(kept(&*fs).is_empty());
    assert_eq!(db.verify(&mut |_, _| {}).unwrap().problems.len(), 0);
    db.close().unwrap();
    Db::destroy_on(fs.clone(), dir()).unwrap();
    assert!(!fs.exists(dir()).unwrap());
}

/// Does `work` and returns an image of the files at each of its operations.
fn images(fs: &Arc<CrashFs>, work: impl FnOnce()) -> Vec<Arc<MemFs>> {
    let images = Arc::new(Mutex::new(Vec::new()));
    fs.watch({
        let images = images.clone();
        move |crash| {
            for model in [CrashModel::SyncedOnly, CrashModel::Everything, CrashModel::NamesAhead] {
                images.lock().unwrap().push(crash.crash_image(model));
            }
        }
    });
    work();
    fs.unwatch();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 20, "{}", images.len());
    images
}

#[test]
fn the_feed_equals_the_store_after_a_crash_at_every_point_of_an_ingest() {
    let crash = CrashFs::seeded(1);
    let fs: Arc<dyn Fs> = crash.clone();
    let db = open(&fs);
    db.subscribe("s", &SlotOptions::default()).unwrap();
    db.put("a", "1").unwrap();
    db.merge("n", "1").unwrap();
    let found = images(&crash, || {
        ingest_each_kind(&fs, &db, "/1.sst");
        db.put("a", "3").unwrap();
        db.merge("n", "1").unwrap();
    });
    let (mut with, mut without) = (0, 0);
    for (at, image) in found.into_iter().enumerate() {
        let image: Arc<dyn Fs> = image;
        let db = open(&image);
        let slot = db.slot("s").unwrap();
        let mut model = BTreeMap::new();
        let position = apply(&mut model, slot.changes().unwrap());
        assert_eq!(model, content(&db), "image {at}");
        *(if model.contains_key(&b"t"[..]) { &mut with } else { &mut without }) += 1;
        // What comes later has the right place, and the files go.
        ingest_each_kind(&image, &db, "/2.sst");
        apply(&mut model, db.changes(position).unwrap());
        assert_eq!(model, content(&db), "image {at}");
        slot.confirm(db.snapshot_with_position().1).unwrap();
        assert!(kept(&*image).is_empty(), "image {at}: {:?}", kept(&*image));
    }
    assert!(with > 0 && without > 0, "{with} images with the ingest, {without} without");
}

#[test]
fn a_target_has_all_of_an_ingest_or_nothing_after_a_crash_at_every_point() {
    let source_fs: Arc<dyn Fs> = MemFs::new();
    let source = open(&source_fs);
    source.subscribe("s", &SlotOptions::default()).unwrap();
    source.merge("n", "1").unwrap();
    let file = Path::new("/file.sst");
    let mut writer = SortedWriter::create_on(source_fs.clone(), file, &options()).unwrap();
    for number in 0..1500 {
        writer.put(format!("i{number:05}"), format!("{number:0900}")).unwrap();
    }
    writer.merge("n", "5").unwrap();
    writer.finish().unwrap();
    source.ingest(&[file], &IngestOptions::default()).unwrap();
    source.merge("n", "1").unwrap();
    let items: Vec<StreamItem> =
        source.changes(0).unwrap().map(|batch| StreamItem::Batch(batch.unwrap())).collect();
    assert!(items.len() >= 4, "{}", items.len());
    let wanted = content(&source);
    let crash = CrashFs::seeded(1);
    let target =
        Db::open_on(crash.clone(), dir(), Options { file_size_max_bytes: 1 << 20, ..options() });
    let target = target.unwrap();
    let mut applier = Applier::new(&target, source.store_id()).unwrap();
    assert!(applier.apply(&items[0]).unwrap());
    let error = applier.apply(&items[2]).unwrap_err();
    assert!(error.message().contains("out of order"), "a part without those before it: {error}");
    assert!(target.get("i00000").unwrap().is_none());
    let (before, last) = items[1..].split_at(items.len() - 3);
    before.iter().for_each(|item| assert!(applier.apply(item).unwrap()));
    assert!(target.get("i00000").unwrap().is_none());
    // The last part, and the batch behind the ingest.
    let found = images(&crash, || {
        for item in last {
            assert!(applier.apply(item).unwrap());
        }
    });
    assert_eq!(content(&target), wanted);
    let (mut with, mut without) = (0, 0);
    for (at, image) in found.into_iter().enumerate().step_by(2) {
        let image: Arc<dyn Fs> = image;
        let target = open(&image);
        let keys = target.prefix("i").unwrap().count();
        assert!(keys == 0 || keys == 1500, "image {at}: {keys} pairs");
        *(if keys > 0 { &mut with } else { &mut without }) += 1;
        let mut applier = Applier::new(&target, source.store_id()).unwrap();
        for item in &items {
            applier.apply(item).unwrap();
        }
        assert!(content(&target) == wanted, "image {at}");
        let end = target.applied_position().unwrap().unwrap();
        assert_eq!(end, (source.store_id(), source.snapshot_with_position().1), "image {at}");
    }
    assert!(with > 0 && without > 0, "{with} images with the ingest, {without} without");
}

#[test]
fn a_streamed_value_is_in_the_feed_after_its_key_is_overwritten() {
    let fs: Arc<dyn Fs> = MemFs::new();
    let db = open(&fs);
    let slot = db.subscribe("s", &SlotOptions::default()).unwrap();
    let users = db.keyspace("users", &KeyspaceOptions::default()).unwrap();
    let value: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    db.put("a", "1").unwrap();
    db.put_reader("a", &value[..]).unwrap();
    users.put_reader("u", &value[1..]).unwrap();
    db.put("a", "2").unwrap();
    users.delete("u").unwrap();
    db.compact_all().unwrap();
    db.compact_all().unwrap();
    let is_values = |name: &&String| name.ends_with(".val");
    assert_eq!(kept(&*fs).iter().filter(is_values).count(), 2, "{:?}", kept(&*fs));
    assert_eq!(db.metrics().value_files, 0, "only the feed needs them");
    let check = |db: &Db| {
        let slot = db.slot("s").unwrap();
        let batches: Vec<ChangeBatch> = slot.changes().unwrap().map(|b| b.unwrap()).collect();
        let puts = |wanted: &[u8]| {
            let changes = batches.iter().flat_map(|batch| &batch.changes);
            let values = changes.filter_map(|change| match change {
                Change::Put { key, value, .. } if key == wanted => Some(value.clone()),
                _ => None,
            });
            values.collect::<Vec<_>>()
        };
        assert!(puts(b"a") == [b"1".to_vec(), value.clone(), b"2".to_vec()]);
        assert!(puts(b"u") == [value[1..].to_vec()]);
        assert!(db.slots().unwrap()[0].lag_bytes > 2 * value.len() as u64);
        batches
    };
    check(&db);
    drop((slot, users));
    db.close().unwrap();
    check(&Db::open_read_only_on(fs.clone(), dir(), options()).unwrap());
    let db = open(&fs);
    let batches = check(&db);
    // A target has the values, too.
    let target = Db::open_on(MemFs::new(), dir(), options()).unwrap();
    let mut applier = Applier::new(&target, db.store_id()).unwrap();
    let last = batches.last().unwrap().sequence;
    for batch in batches.into_iter().take(3) {
        assert!(applier.apply(&StreamItem::Batch(batch)).unwrap());
    }
    assert!(*target.get("a").unwrap().unwrap() == *value);
    db.slot("s").unwrap().confirm(last).unwrap();
    assert!(kept(&*fs).is_empty(), "{:?}", kept(&*fs));
}

#[test]
fn the_feed_has_a_streamed_value_or_not_after_a_crash_at_every_point() {
    let crash = CrashFs::seeded(1);
    let fs: Arc<dyn Fs> = crash.clone();
    let db = open(&fs);
    db.subscribe("s", &SlotOptions::default()).unwrap();
    db.put("a", "1").unwrap();
    let found = images(&crash, || {
        db.put_reader("v", std::io::Read::take(std::io::repeat(7), 70_000)).unwrap();
        db.put("a", "3").unwrap();
    });
    let mut seen = [0, 0];
    for (at, image) in found.into_iter().enumerate() {
        let image: Arc<dyn Fs> = image;
        let db = open(&image);
        let slot = db.slot("s").unwrap();
        let mut model = BTreeMap::new();
        apply(&mut model, slot.changes().unwrap());
        assert!(model == content(&db), "image {at}");
        seen[usize::from(model.contains_key(&b"v"[..]))] += 1;
        slot.confirm(db.snapshot_with_position().1).unwrap();
        assert!(kept(&*image).is_empty(), "image {at}: {:?}", kept(&*image));
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn a_position_inside_an_ingest_is_not_the_feeds_and_a_slot_begins_with_the_first_part_again() {
    let fs: Arc<dyn Fs> = MemFs::new();
    let db = open(&fs);
    let slot = db.subscribe("s", &SlotOptions::default()).unwrap();
    db.bulk_load(many("x")).unwrap();
    let before = slot.position().unwrap();
    let mut changes = slot.changes().unwrap();
    let first = changes.next().unwrap().unwrap();
    assert!(first.continues && first.sequence > before);
    assert_eq!(changes.position(), before);
    slot.confirm(changes.position()).unwrap();
    let mut model = BTreeMap::new();
    let end = apply(&mut model, slot.changes().unwrap());
    assert_eq!((model, end), (content(&db), first.sequence));
    let parts = changes.by_ref().map(|batch| batch.unwrap()).collect::<Vec<_>>();
    assert!(parts.last().is_some_and(|last| !last.continues));
    assert_eq!(changes.position(), first.sequence);
    slot.confirm(changes.position()).unwrap();
    assert!(slot.changes().unwrap().next().is_none());
}
