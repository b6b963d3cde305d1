//! Keyspaces: random operations on several of them against maps, what a drop frees, what survives
//! each kind of copy, and what bad input gets.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Oracle, in_order, tiny_options};
use esker::fs::{Fs, MemFs};
use esker::{
    Batch, BatchOp, Comparator, Db, ErrorKind, KeyOrder, Keyspace, KeyspaceOptions, Options,
    ReadOptions, Snapshot,
};
use esker_testkit::rng::SplitMix64;

/// By length, then bytewise: an order without a bytewise shortcut.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

fn by_length() -> KeyOrder {
    KeyOrder::Custom(Arc::new(ByLength))
}

fn options() -> Options {
    Options { key_orders: vec![by_length()], ..tiny_options() }
}

/// Options of the keyspaces that the model creates: combinations of order and storage options.
fn kinds() -> Vec<KeyspaceOptions> {
    let plain = KeyspaceOptions::default;
    vec![
        plain(),
        plain(),
        plain().set("compression", "none").unwrap().set("policy", "leveled").unwrap(),
        plain().key_order(KeyOrder::Reverse),
        plain().key_order(by_length()).set("filter_bits", "0").unwrap(),
        plain().set("policy", "tiered").unwrap().set("block_layout", "delta").unwrap(),
    ]
}

/// The content of one keyspace.
#[derive(Clone, Default)]
struct Content {
    order: KeyOrder,
    pairs: Oracle,
}

type World = BTreeMap<String, Content>;

/// A store with keyspaces and its model.
struct Model {
    fs: Arc<dyn Fs>,
    options: Options,
    db: Option<Db>,
    world: World,
    snapshots: Vec<(Snapshot, World)>,
    rng: SplitMix64,
    named: u64,
}

fn dir() -> &'static Path {
    Path::new("/db")
}

impl Model {
    fn new(options: Options, seed: u64) -> Model {
        let fs: Arc<dyn Fs> = MemFs::new();
        let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
        let world = World::from([("default".to_string(), Content::default())]);
        let (snapshots, rng) = (Vec::new(), SplitMix64::new(seed));
        Model { fs, options, db: Some(db), world, snapshots, rng, named: 0 }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn key(&mut self) -> Vec<u8> {
        let n = self.below(200);
        match n % 5 {
            0 => vec![0xff; (n % 9) as usize],
            1 => vec![0; (n % 6) as usize],
            2 => format!("user{n}").into_bytes(),
            _ => (n as u32).to_be_bytes().to_vec(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = [0, 3, 40, 700][self.below(4) as usize];
        (0..len).map(|_| self.rng.next_u64() as u8).collect()
    }

    /// Returns a random keyspace by name.
    fn name(&mut self) -> String {
        let at = self.below(self.world.len() as u64) as usize;
        self.world.keys().nth(at).unwrap().clone()
    }

    fn handle(&self, name: &str) -> Keyspace {
        self.db().existing_keyspace(name).unwrap().expect("the keyspace exists")
    }

    fn content(&mut self, name: &str) -> &mut Content {
        self.world.get_mut(name).unwrap()
    }

    fn step(&mut self) {
        let name = self.name();
        let keyspace = self.handle(&name);
        match self.below(100) {
            0..40 => {
                let (key, value) = (self.key(), self.value());
                keyspace.put(&key, &value).unwrap();
                self.content(&name).pairs.insert(key, value);
            }
            40..50 => {
                let key = self.key();
                let was = self.content(&name).pairs.remove(&key).is_some();
                assert_eq!(keyspace.remove(&key).unwrap(), was);
            }
            50..58 => self.write_batch(),
            58..61 => {
                let (a, b) = (self.key(), self.key());
                keyspace.delete_range(&a, &b).unwrap();
                delete_range(self.content(&name), &a, &b);
            }
            61..75 => {
                let keys: Vec<Vec<u8>> = (0..4).map(|_| self.key()).collect();
                let want: Vec<_> =
                    keys.iter().map(|key| self.world[&name].pairs.get(key).cloned()).collect();
                let many = keyspace.multi_get(&keys).unwrap();
                for ((key, want), found) in keys.iter().zip(want).zip(many) {
                    assert_eq!(found.as_deref(), want.as_deref(), "{name} {key:?}");
                    assert_eq!(keyspace.get(key).unwrap().as_deref(), want.as_deref());
                    let read = keyspace.read(key, <[u8]>::to_vec).unwrap();
                    assert_eq!(
                        (read, keyspace.contains_key(key).unwrap()),
                        (want.clone(), want.is_some())
                    );
                }
            }
            75..80 => self.check_range(&name),
            80..83 if self.snapshots.len() < 3 => {
                self.snapshots.push((self.db().snapshot(), self.world.clone()));
            }
            83 => drop(self.snapshots.pop()),
            84..86 => self.check_snapshot(),
            86..89 if self.world.len() < 9 => self.create(),
            89 => self.drop_one(&name),
            90 if name != "default" => {
                keyspace.clear().unwrap();
                self.content(&name).pairs.clear();
            }
            91 if name != "default" => {
                let new = format!("renamed-{}", self.rng.next_u64());
                self.db().rename_keyspace(&name, &new).unwrap();
                assert_eq!(keyspace.name(), new);
                let content = self.world.remove(&name).unwrap();
                self.world.insert(new, content);
                self.snapshots.clear();
            }
            92 => self.db().flush().unwrap(),
            93 => keyspace.compact_range(None, None).unwrap(),
            94 if self.below(5) == 0 => self.reopen(),
            _ => {}
        }
    }

    fn create(&mut self) {
        self.named += 1;
        let (name, kinds) = (format!("keyspace {}", self.named), kinds());
        let kind = &kinds[self.below(kinds.len() as u64) as usize];
        let keyspace = self.db().keyspace(&name, kind).unwrap();
        assert_eq!(keyspace.name(), name);
        let again = self.db().keyspace(&name, kind).unwrap();
        assert_eq!(again.id(), keyspace.id());
        let content = Content { order: kind.key_order.clone(), pairs: Oracle::new() };
        self.world.insert(name, content);
    }

    fn drop_one(&mut self, name: &str) {
        if name == "default" {
            return;
        }
        let keyspace = self.handle(name);
        let open = keyspace.iter().unwrap();
        self.db().drop_keyspace(name).unwrap();
        let content = self.world.remove(name).unwrap();
        self.snapshots.clear();
        assert_eq!(keyspace.get("user2").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(keyspace.put("user2", "").unwrap_err().kind(), ErrorKind::NotFound);
        let mut batch = Batch::new();
        batch.put("a", "in the same batch").put_in(&keyspace, "a", "b");
        assert_eq!(self.db().write(&batch).unwrap_err().kind(), ErrorKind::NotFound);
        // The same name is another keyspace.
        let other = self.db().keyspace(name, &KeyspaceOptions::default()).unwrap();
        assert!(other.iter().unwrap().next().is_none() && other.id() != keyspace.id());
        self.world.insert(name.to_string(), Content::default());
        assert_eq!(pairs(open), in_order(&content.pairs, &content.order));
    }

    fn write_batch(&mut self) {
        let mut batch = Batch::new();
        let mut told = 0;
        for _ in 0..self.below(10) {
            let (name, key, value) = (self.name(), self.key(), self.value());
            let keyspace = self.handle(&name);
            told += 1;
            match self.below(8) {
                0 => {
                    let end = self.key();
                    batch.delete_range_in(&keyspace, &key, &end);
                    delete_range(self.content(&name), &key, &end);
                }
                1..3 => {
                    batch.delete_in(&keyspace, &key);
                    self.content(&name).pairs.remove(&key);
                }
                _ => {
                    batch.put_in(&keyspace, &key, &value);
                    assert!(batch.operations().last().is_some_and(|op| op
                        == BatchOp::Put { keyspace: keyspace.id(), key: &key, value: &value }));
                    self.content(&name).pairs.insert(key, value);
                }
            }
        }
        assert_eq!(batch.operations().count(), told);
        self.db().write(&batch).unwrap();
    }

    fn check_range(&mut self, name: &str) {
        let (a, b) = (self.key(), self.key());
        let content = &self.world[name];
        let less = |x: &[u8], y: &[u8]| content.order.compare(x, y).is_lt();
        let mut want = in_order(&content.pairs, &content.order);
        let keyspace = self.handle(name);
        let mut iter = keyspace.iter().unwrap();
        iter.seek(&a).unwrap();
        let at = want.iter().find(|(key, _)| !less(key, &a));
        assert_eq!(iter.valid().then(|| iter.key().to_vec()), at.map(|(key, _)| key.clone()));
        iter.seek_for_prev(&a).unwrap();
        let at = want.iter().rfind(|(key, _)| !less(&a, key));
        assert_eq!(iter.valid().then(|| iter.key().to_vec()), at.map(|(key, _)| key.clone()));
        want.retain(|(key, _)| !less(key, &a) && less(key, &b));
        let bounds = (Bound::Included(a), Bound::Excluded(b));
        let options = ReadOptions::default();
        let range = || keyspace.iter_with(&options, bounds.clone()).unwrap();
        assert_eq!(pairs(range()), want);
        want.reverse();
        assert_eq!(range().rev().map(Result::unwrap).collect::<Vec<_>>(), want);
    }

    fn check_snapshot(&mut self) {
        let (name, key) = (self.name(), self.key());
        let keyspace = self.handle(&name);
        for (snapshot, world) in &self.snapshots {
            let Some(content) = world.get(&name) else { continue };
            let options = ReadOptions::default().snapshot(snapshot);
            let found = keyspace.get_with(&key, &options).unwrap();
            assert_eq!(found.as_deref(), content.pairs.get(&key).map(Vec::as_slice));
            let bounds = (Bound::Unbounded, Bound::Unbounded);
            let all = keyspace.iter_with(&options, bounds).unwrap();
            assert_eq!(pairs(all), in_order(&content.pairs, &content.order));
        }
    }

    fn reopen(&mut self) {
        self.reopen_without_check();
        self.check_all();
    }

    fn reopen_without_check(&mut self) {
        self.snapshots.clear();
        self.db.take().unwrap().close().unwrap();
        self.db = Some(Db::open_on(self.fs.clone(), dir(), self.options.clone()).unwrap());
    }

    fn check_all(&self) {
        check(self.db(), &self.world);
    }
}

fn delete_range(content: &mut Content, a: &[u8], b: &[u8]) {
    let order = content.order.clone();
    let less = |x: &[u8], y: &[u8]| order.compare(x, y).is_lt();
    content.pairs.retain(|key, _| less(key, a) || !less(key, b));
}

fn pairs(iter: esker::DbIterator) -> Vec<(Vec<u8>, Vec<u8>)> {
    iter.map(Result::unwrap).collect()
}

/// Checks that the store holds the world and nothing else.
fn check(db: &Db, world: &World) {
    let mut names = db.keyspaces();
    assert_eq!(names[0], "default");
    names.sort();
    assert_eq!(names, world.keys().cloned().collect::<Vec<_>>());
    for (name, content) in world {
        let keyspace = db.existing_keyspace(name).unwrap().unwrap();
        let want = in_order(&content.pairs, &content.order);
        assert_eq!(pairs(keyspace.iter().unwrap()), want, "{name}");
        let back: Vec<_> = keyspace.iter().unwrap().rev().map(Result::unwrap).collect();
        assert_eq!(back, want.into_iter().rev().collect::<Vec<_>>(), "{name}");
    }
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
}

#[test]
fn keyspaces_answer_as_maps_do() {
    for seed in 0..24 {
        // A small manifest is rewritten again and again, with the whole catalog.
        let manifest_size_min_bytes = [256, 1 << 20][seed as usize % 2];
        let mut model = Model::new(Options { manifest_size_min_bytes, ..options() }, seed);
        for _ in 0..1_500 {
            model.step();
        }
        model.check_all();
        model.db().wait_idle().unwrap();
        model.reopen();
    }
}

#[test]
fn keyspaces_answer_as_maps_do_without_threads() {
    let mut model = Model::new(Options { background_threads: Some(0), ..options() }, 7);
    for step in 0..4_000 {
        model.step();
        if step % 7 == 0 {
            model.db().run_one_job().unwrap();
        }
    }
    model.check_all();
}

/// Returns a store of several keyspaces, with content in tables and in the log.
fn filled(seed: u64) -> Model {
    let mut model = Model::new(options(), seed);
    for _ in 0..6 {
        model.create();
    }
    for _ in 0..1_200 {
        model.step();
    }
    model
}

#[test]
fn checkpoints_and_backups_have_every_keyspace() {
    let model = filled(3);
    let open = |path: &str| Db::open_on(model.fs.clone(), path, options()).unwrap();
    model.db().checkpoint("/checkpoint").unwrap();
    check(&open("/checkpoint"), &model.world);
    model.db().backup("/backups").unwrap();
    model.db().backup("/backups").unwrap();
    Db::restore_on(model.fs.clone(), "/backups", None, "/restored", options()).unwrap();
    let restored = open("/restored");
    check(&restored, &model.world);
    // Numbers go on where they were.
    let ids = |db: &Db| db.keyspace("new", &KeyspaceOptions::default()).unwrap().id();
    assert_eq!(ids(&restored), ids(model.db()));
    let read_only = Db::open_read_only_on(model.fs.clone(), dir(), options()).unwrap();
    let refused = read_only.keyspace("other", &KeyspaceOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    assert_eq!(read_only.keyspaces(), model.db().keyspaces());
}

#[test]
fn a_repair_keeps_every_keyspace_and_without_a_manifest_all_but_the_names() {
    for (seed, without_manifest) in [(11, false), (12, true), (13, false), (14, true)] {
        let mut model = filled(seed);
        model.snapshots.clear();
        let ids: BTreeMap<u32, String> =
            model.world.keys().map(|name| (model.handle(name).id(), name.clone())).collect();
        model.db.take().unwrap().close().unwrap();
        if without_manifest {
            for entry in model.fs.list(dir()).unwrap() {
                if entry.name.starts_with("manifest-") {
                    model.fs.remove(&dir().join(&entry.name)).unwrap();
                }
            }
        }
        let report = Db::repair_on(model.fs.clone(), dir(), options()).unwrap();
        assert_eq!(report.manifest_readable, !without_manifest);
        let db = Db::open_on(model.fs.clone(), dir(), options()).unwrap();
        if !without_manifest {
            assert_eq!(report.lost, [""; 0]);
            check(&db, &model.world);
            continue;
        }
        for (id, name) in ids {
            let content = &model.world[&name];
            let found = if id == 0 { "default".to_string() } else { format!("keyspace-{id}") };
            let Some(keyspace) = db.existing_keyspace(&found).unwrap() else {
                assert!(content.pairs.is_empty(), "{name} is lost");
                continue;
            };
            // A delete may be undone: obsolete tables may exist.
            for (key, value) in &content.pairs {
                assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(value.as_slice()), "{name}");
            }
        }
    }
}

#[test]
fn a_dropped_keyspace_leaves_no_bytes_and_its_neighbours_stay() {
    let mut model = Model::new(options(), 5);
    let plain = KeyspaceOptions::default();
    let spaces: Vec<Keyspace> =
        ["left", "middle", "right"].map(|name| model.db().keyspace(name, &plain).unwrap()).into();
    for n in 0..3_000_u32 {
        for keyspace in &spaces {
            keyspace.put(n.to_be_bytes(), [n as u8; 100]).unwrap();
        }
    }
    let content: Oracle =
        (0..3_000_u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 100])).collect();
    for name in ["left", "right"] {
        let content = Content { order: KeyOrder::Bytewise, pairs: content.clone() };
        model.world.insert(name.into(), content);
    }
    model.db().flush().unwrap();
    model.db().wait_idle().unwrap();
    let before: Vec<u64> = spaces.iter().map(|k| k.size_bytes().unwrap()).collect();
    let all = model.db().metrics().table_bytes;
    assert!(before.iter().all(|bytes| *bytes > all / 5), "{before:?} of {all}");
    model.db().drop_keyspace("middle").unwrap();
    model.db().wait_idle().unwrap();
    let bytes = |db: &Db| {
        let levels = db.metrics().levels;
        levels.iter().map(|level| level.bytes).sum::<u64>()
    };
    let left = bytes(model.db());
    assert!(left < before[0] + before[2] + before[1] / 4, "{left} of {before:?}");
    assert!(spaces[1].size_bytes().is_err());
    model.reopen();
    model.db().wait_idle().unwrap();
    model.check_all();
    // After a drop of all, the files are gone.
    for name in ["left", "right"] {
        model.db().drop_keyspace(name).unwrap();
        model.world.remove(name);
    }
    model.db().wait_idle().unwrap();
    model.check_all();
    let left = model.db().tables();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn bad_names_other_options_and_foreign_handles_are_refused() {
    let model = Model::new(options(), 1);
    let (db, plain) = (model.db(), KeyspaceOptions::default());
    let kind = |result: esker::Result<Keyspace>| result.unwrap_err().kind();
    for name in ["", "a\0b", &"n".repeat(256), &"n".repeat(1 << 20)] {
        assert_eq!(kind(db.keyspace(name, &plain)), ErrorKind::InvalidArgument);
    }
    let users = db.keyspace("users", &plain).unwrap();
    let reverse = KeyspaceOptions::default().key_order(KeyOrder::Reverse);
    let zstd = KeyspaceOptions::default().set("compression", "zstd").unwrap();
    for options in [&reverse, &zstd] {
        let error = db.keyspace("users", options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("users"), "{error}");
        assert_eq!(kind(db.keyspace("default", options)), ErrorKind::InvalidArgument);
    }
    assert_eq!(db.keyspace("default", &plain).unwrap().id(), 0);
    struct Unknown;
    impl Comparator for Unknown {
        fn name(&self) -> &str {
            "test.Unknown"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.cmp(b)
        }
    }
    let unknown = KeyspaceOptions::default().key_order(KeyOrder::Custom(Arc::new(Unknown)));
    assert_eq!(kind(db.keyspace("unknown", &unknown)), ErrorKind::InvalidArgument);
    for (name, value) in [("wal_io", "write"), ("block_size", "1"), ("nothing", "1")] {
        assert!(KeyspaceOptions::default().set(name, value).is_err(), "{name}");
    }
    for result in [
        db.drop_keyspace("default"),
        db.rename_keyspace("default", "other"),
        db.rename_keyspace("users", "default"),
        db.rename_keyspace("users", "users"),
        db.rename_keyspace("users", ""),
        db.existing_keyspace("default").unwrap().unwrap().clear(),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    for result in [db.drop_keyspace("none"), db.rename_keyspace("none", "some")] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound);
    }
    let other = Model::new(options(), 2);
    let mut batch = Batch::new();
    batch.put_in(&users, "a", "b");
    let error = other.db().write(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(other.db().iter().unwrap().next().is_none());
    // A batch that is cleared names no keyspace any more.
    batch.clear();
    batch.put("a", "b");
    other.db().write(&batch).unwrap();
}

#[test]
fn a_store_with_an_unknown_key_order_is_refused_by_the_name_of_the_order() {
    let mut model = Model::new(options(), 1);
    let by_length = KeyspaceOptions::default().key_order(by_length());
    model.db().keyspace("sizes", &by_length).unwrap().put("a", "b").unwrap();
    model.db.take().unwrap().close().unwrap();
    let open = |options| Db::open_on(model.fs.clone(), dir(), options);
    let error = open(tiny_options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    assert!(error.to_string().contains("test.ByLength"), "{error}");
    let db = open(options()).unwrap();
    let sizes = db.existing_keyspace("sizes").unwrap().unwrap();
    assert_eq!(&*sizes.get("a").unwrap().unwrap(), b"b");
    assert!(sizes.prefix("a").is_err(), "this order may separate keys with the same prefix");
}

#[test]
fn combinations_of_options_are_limited_and_keyspaces_are_not() {
    let model = Model::new(options(), 1);
    let size =
        |n: usize| KeyspaceOptions::default().set("block_size", &(1024 + n).to_string()).unwrap();
    for n in 0..63 {
        model.db().keyspace(&format!("k{n}"), &size(n)).unwrap().put("a", "b").unwrap();
    }
    let error = model.db().keyspace("k63", &size(63)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    for n in 0..500 {
        model.db().keyspace(&format!("more{n}"), &size(n % 63)).unwrap().put("a", "b").unwrap();
    }
    let db = model.db();
    db.flush().unwrap();
    assert_eq!(db.keyspaces().len(), 564);
    for name in db.keyspaces().iter().skip(1) {
        let keyspace = db.existing_keyspace(name).unwrap().unwrap();
        assert_eq!(pairs(keyspace.iter().unwrap()).len(), 1, "{name}");
    }
}

#[test]
fn keys_at_the_limit_of_length_are_stored_in_every_keyspace() {
    let model = Model::new(Options { memtable_size_bytes: Some(8 << 20), ..options() }, 1);
    let key = vec![7; 1 << 20];
    for (n, kind) in kinds().iter().enumerate() {
        let keyspace = model.db().keyspace(&format!("k{n}"), kind).unwrap();
        keyspace.put(&key, "long").unwrap();
        assert!(keyspace.put(vec![7; (1 << 20) + 1], "").is_err());
        keyspace.delete_range(&key, &key).unwrap();
        model.db().flush().unwrap();
        assert_eq!(&*keyspace.get(&key).unwrap().unwrap(), b"long");
        let mut iter = keyspace.prefix("").unwrap();
        iter.seek_to_last().unwrap();
        assert_eq!(iter.key(), key);
    }
}

#[test]
fn handles_show_tree_order_and_options_and_one_call_compacts_all_keyspaces() {
    let mut model = Model::new(options(), 1);
    let [_, _, own, ..] = &kinds()[..] else { unreachable!("six kinds") };
    let reverse = KeyspaceOptions::default().key_order(KeyOrder::Reverse);
    for (name, options) in [("a", own), ("b", own), ("c", &reverse)] {
        model.db().keyspace(name, options).unwrap().put("key", "value").unwrap();
    }
    model.db().put("key", "value").unwrap();
    for _ in 0..2 {
        let [default, a, b, c] = ["default", "a", "b", "c"].map(|name| model.handle(name));
        assert_eq!((default.tree(), a.tree(), b.tree(), c.tree()), (0, 1, 1, 2));
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(a.options(), [pair("compression", "none"), pair("policy", "leveled")]);
        assert!(default.options().is_empty() && c.options().is_empty() && b.options().len() == 2);
        let reversed = |keyspace: &Keyspace| matches!(keyspace.key_order(), KeyOrder::Reverse);
        assert!(reversed(&c) && !reversed(&a) && !reversed(&default));
        model.db().compact_all().unwrap();
        assert!(model.db().tables().iter().all(|table| table.level > 0));
        assert!([default, b, c].iter().all(|keyspace| keyspace.size_bytes().unwrap() > 0));
        model.reopen_without_check();
    }
}
