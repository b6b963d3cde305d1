//! Random operations with crashes at random points: the feed, applied to a map, equals the store.
//!
//! The reader keeps a copy of its map for each position that it has tried to confirm, as a program
//! does whose own data is lost with the crash. After a crash it goes on with the copy at the position
//! of the slot. The variable `ESKER_FEED_MODEL_SEEDS` sets the number of runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::tiny_options;
use esker::feed::{Applier, Change, ChangeReader, ChangeWriter, Changes, SlotOptions, StreamItem};
use esker::fs::{Fs, MemFs};
use esker::{Batch, Db, KeyspaceOptions, TransactionOptions, WriteOptions};
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::rng::SplitMix64;

/// The pairs of each keyspace.
type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn dir() -> &'static Path {
    Path::new("/db")
}

/// Returns what the store holds.
fn content_of(db: &Db) -> Content {
    let of = |name: &String| {
        let keyspace = db.existing_keyspace(name).unwrap().unwrap();
        keyspace.iter().unwrap().map(|pair| pair.unwrap()).collect()
    };
    db.keyspaces().iter().map(|name| (name.clone(), of(name))).collect()
}

fn empty() -> Content {
    Content::from([("default".to_string(), BTreeMap::new())])
}

/// Applies a change to the map. Every change must fit.
fn apply(content: &mut Content, change: Change) {
    fn of<'a>(content: &'a mut Content, name: &str) -> &'a mut BTreeMap<Vec<u8>, Vec<u8>> {
        content.get_mut(name).expect("the keyspace exists")
    }
    match change {
        Change::Put { keyspace, key, value, .. } => drop(of(content, &keyspace).insert(key, value)),
        Change::Delete { keyspace, key } => drop(of(content, &keyspace).remove(&key)),
        Change::DeleteRange { keyspace, start, end } => {
            of(content, &keyspace).retain(|key, _| *key < start || *key >= end);
        }
        Change::Clear { keyspace } => of(content, &keyspace).clear(),
        Change::KeyspaceCreated { keyspace, .. } => {
            assert!(content.insert(keyspace.to_string(), BTreeMap::new()).is_none());
        }
        Change::KeyspaceRenamed { keyspace, new_name } => {
            let pairs = content.remove(&*keyspace).expect("the keyspace exists");
            assert!(content.insert(new_name.to_string(), pairs).is_none());
        }
        Change::KeyspaceDropped { keyspace } => {
            content.remove(&*keyspace).expect("the keyspace exists");
        }
        _ => panic!("an unexpected change: {change:?}"),
    }
}

fn key(rng: &mut SplitMix64) -> String {
    format!("{:02}", rng.next_u64() % 40)
}

/// Does one random operation. An error is possible only after the image was taken.
fn operate(db: &Db, rng: &mut SplitMix64) -> esker::Result<()> {
    let name = NAMES[(rng.next_u64() % 3) as usize];
    let value = vec![rng.next_u64() as u8; (rng.next_u64() % 300) as usize];
    let options = match rng.next_u64() % 4 {
        0 => WriteOptions::SYNC,
        1 => WriteOptions::NONE,
        _ => WriteOptions::BUFFERED,
    };
    let existing = || db.existing_keyspace(name);
    match rng.next_u64() % 25 {
        0 => db.keyspace(name, &KeyspaceOptions::default()).map(drop),
        1 if rng.next_u64().is_multiple_of(3) && existing()?.is_some() => db.drop_keyspace(name),
        2 if existing()?.is_some() && db.existing_keyspace("d")?.is_none() => {
            db.rename_keyspace(name, "d")
        }
        3 if db.existing_keyspace("d")?.is_some() && existing()?.is_none() => {
            db.rename_keyspace("d", name)
        }
        4 => match existing()? {
            Some(keyspace) => keyspace.clear(),
            None => Ok(()),
        },
        5 => db.flush(),
        6 => {
            let transaction = db.transaction(TransactionOptions::default());
            transaction.put(key(rng), &value)?;
            let name = format!("{}", rng.next_u64());
            transaction.prepare(&name)?;
            if rng.next_u64().is_multiple_of(2) {
                db.commit_prepared(&name)
            } else {
                db.rollback_prepared(&name)
            }
        }
        7 => db.delete_range(key(rng), key(rng)),
        24 => {
            let first = rng.next_u64() % 35;
            let pairs = (first..first + 5).map(|number| (format!("{number:02}"), &value));
            match existing()? {
                Some(keyspace) => keyspace.bulk_load(pairs).map(drop),
                None => db.bulk_load(pairs).map(drop),
            }
        }
        8..12 => db.delete_with(key(rng), &options),
        12..16 => {
            let mut batch = Batch::new();
            for _ in 0..rng.next_u64() % 4 {
                batch.put(key(rng), &value).delete(key(rng));
                if let Some(keyspace) = existing()? {
                    batch.put_in(&keyspace, key(rng), &value).delete_in(&keyspace, key(rng));
                }
            }
            db.write_with(&batch, &options)
        }
        _ => db.put_with(key(rng), &value, &options),
    }
}

/// A reader of the slot.
struct Reader {
    content: Content,
    position: u64,
    /// The content at each position that it has tried to confirm.
    saved: BTreeMap<u64, Content>,
}

impl Reader {
    fn read(&mut self, changes: Changes) -> esker::Result<()> {
        for batch in changes {
            let batch = batch?;
            assert_eq!(batch.previous, self.position);
            self.position = batch.sequence;
            batch.changes.into_iter().for_each(|change| apply(&mut self.content, change));
        }
        Ok(())
    }

    /// Goes on at the position of the slot, as after a crash.
    fn resume(&mut self, db: &Db, what: &str) {
        let slot = db.slot("s").unwrap();
        self.position = slot.position().unwrap();
        self.content = self.saved.get(&self.position).unwrap_or_else(|| panic!("{what}")).clone();
        self.read(slot.changes().unwrap()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(self.content, content_of(db), "{what}");
    }
}

fn run(seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let mut image: Arc<MemFs> = MemFs::new();
    let mut reader =
        Reader { content: empty(), position: 0, saved: BTreeMap::from([(0, empty())]) };
    for life in 0..4 {
        let what = format!("seed {seed}, life {life}");
        let crash = match life {
            0 => CrashFs::seeded(seed),
            _ => esker_testkit::crash::Image::of(&*image, dir()).unwrap().to_disk(rng.next_u64()),
        };
        let fs: Arc<dyn Fs> = crash.clone();
        let db = Db::open_on(fs, dir(), tiny_options()).unwrap();
        if life == 0 {
            db.subscribe("s", &SlotOptions::default()).unwrap();
        }
        reader.resume(&db, &what);
        // Their locks would make later operations wait.
        for (at, name) in db.prepared_transactions().iter().enumerate() {
            let is_kept = (seed + at as u64).is_multiple_of(2);
            let end = if is_kept { Db::commit_prepared } else { Db::rollback_prepared };
            end(&db, name).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let models = CrashModel::all(rng.next_u64());
        let model = models[(rng.next_u64() % models.len() as u64) as usize];
        let (left, taken) = (AtomicU64::new(1 + rng.next_u64() % 400), Arc::new(Mutex::new(None)));
        crash.watch({
            let taken = taken.clone();
            move |crash| {
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    *taken.lock().unwrap() = Some(crash.crash_image(model));
                }
            }
        });
        let slot = db.slot("s").unwrap();
        for _ in 0..3000 {
            if taken.lock().unwrap().is_some() {
                break;
            }
            operate(&db, &mut rng).unwrap_or_else(|error| panic!("{what}: {error}"));
            if rng.next_u64().is_multiple_of(16) {
                reader.position = slot.position().unwrap();
                reader.content = reader.saved[&reader.position].clone();
                reader.read(slot.changes().unwrap()).unwrap();
                assert_eq!(reader.content, content_of(&db), "{what}");
                reader.saved.insert(reader.position, reader.content.clone());
                slot.confirm(reader.position).unwrap();
            }
        }
        crash.unwatch();
        let now = || crash.crash_image(CrashModel::Everything);
        image = taken.lock().unwrap().take().unwrap_or_else(now);
        drop((db, slot));
    }
    let db = Db::open_on(image, dir(), tiny_options()).unwrap();
    reader.resume(&db, &format!("seed {seed}, at the end"));
}

#[test]
fn the_feed_equals_the_store_after_crashes() {
    let runs = std::env::var("ESKER_FEED_MODEL_SEEDS").ok().and_then(|text| text.parse().ok());
    for seed in 0..runs.unwrap_or(12) {
        run(seed);
    }
}

/// Streams the feed of a store to another, cut at random places, while the target crashes.
#[test]
fn a_target_that_crashes_has_no_loss_and_nothing_twice() {
    for seed in 0..6 {
        let mut rng = SplitMix64::new(seed);
        let source = Db::open_on(MemFs::new(), dir(), tiny_options()).unwrap();
        let slot = source.subscribe("s", &SlotOptions::default()).unwrap();
        let mut target: Arc<MemFs> = MemFs::new();
        let is_bootstrapped = seed % 2 == 0;
        for round in 0..8 {
            for _ in 0..60 {
                operate(&source, &mut rng).unwrap();
            }
            let mut bytes = Vec::new();
            let mut writer = ChangeWriter::new(&mut bytes, source.store_id()).unwrap();
            let crash = match round {
                0 => CrashFs::seeded(seed),
                _ => esker_testkit::crash::Image::of(&*target, dir())
                    .unwrap()
                    .to_disk(rng.next_u64()),
            };
            let fs: Arc<dyn Fs> = crash.clone();
            let db = Db::open_on(fs, dir(), tiny_options()).unwrap();
            let from = match db.applied_position().unwrap() {
                Some((store, position)) => {
                    assert_eq!(store, source.store_id());
                    position
                }
                None if is_bootstrapped => source.content(|item| writer.write(&item)).unwrap(),
                None => 0,
            };
            let mut end = from;
            for batch in source.changes(from).unwrap() {
                let batch = batch.unwrap();
                end = batch.sequence;
                writer.write(&StreamItem::Batch(batch)).unwrap();
            }
            writer.write(&StreamItem::End { position: end }).unwrap();
            let is_last = round == 7;
            let cut = if is_last { bytes.len() } else { rng.next_u64() as usize % bytes.len() };
            let mut applied = 0;
            if let Ok(mut reader) = ChangeReader::new(&bytes[..cut]) {
                let mut applier = Applier::new(&db, reader.source()).unwrap();
                while let Ok(Some(item)) = reader.next() {
                    applied += u64::from(applier.apply(&item).unwrap());
                }
                // What was applied is left out when it comes again.
                let mut again = ChangeReader::new(&bytes[..cut]).unwrap();
                while let Ok(Some(item)) = again.next() {
                    if matches!(item, StreamItem::Batch(_)) && applier.position().is_some() {
                        assert!(!applier.apply(&item).unwrap());
                    }
                }
            }
            if is_last {
                assert_eq!(content_of(&db), content_of(&source), "seed {seed}");
                assert!(applied > 0);
            } else if let Some((_, position)) = db.applied_position().unwrap() {
                db.sync().unwrap();
                slot.confirm(position.min(slot.position().unwrap())).unwrap();
            }
            let models = CrashModel::all(rng.next_u64());
            target = crash.crash_image(models[rng.next_u64() as usize % models.len()]);
            drop(db);
        }
    }
}

#[test]
fn a_stream_that_does_not_fit_is_refused() {
    let open = || Db::open_on(MemFs::new(), dir(), tiny_options()).unwrap();
    let (source, other) = (open(), open());
    source.subscribe("s", &SlotOptions::default()).unwrap();
    for number in 0..5 {
        source.put(format!("{number}"), "x").unwrap();
    }
    let batches: Vec<_> = source.changes(0).unwrap().map(|batch| batch.unwrap()).collect();
    let item = |at: usize| StreamItem::Batch(batches[at].clone());
    let target = open();
    let mut applier = Applier::new(&target, source.store_id()).unwrap();
    let message = |error: esker::Error| error.message().to_string();
    assert!(message(applier.apply(&item(2)).unwrap_err()).contains("begins after position 2"));
    assert!(applier.apply(&item(0)).unwrap());
    assert!(!applier.apply(&item(0)).unwrap());
    assert!(message(applier.apply(&item(2)).unwrap_err()).contains("up to position 1"));
    let StreamItem::Batch(mut changed) = item(0) else { panic!() };
    changed.checksum ^= 2;
    let error = applier.apply(&StreamItem::Batch(changed)).unwrap_err();
    assert!(message(error).contains("a crash of the source lost it"));
    let StreamItem::Batch(mut changed) = item(1) else { panic!() };
    changed.previous_checksum ^= 2;
    assert!(applier.apply(&StreamItem::Batch(changed)).is_err());
    let content = StreamItem::Content(Vec::new());
    assert!(message(applier.apply(&content).unwrap_err()).contains("out of order"));
    assert!(
        message(applier.apply(&StreamItem::BootstrapBegins).unwrap_err()).contains("not empty")
    );
    assert!(applier.apply(&item(1)).unwrap());
    assert!(Applier::new(&target, other.store_id()).is_err(), "the stream of another store");
    assert!(Applier::new(&source, source.store_id()).is_err(), "the stream of the store itself");
    assert_eq!(target.applied_position().unwrap(), Some((source.store_id(), 2)));
    assert!(applier.start_at(9).is_err());
    let mut fresh = Applier::new(&other, source.store_id()).unwrap();
    fresh.start_at(3).unwrap();
    assert!(fresh.apply(&item(3)).unwrap());
}
