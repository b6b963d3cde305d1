//! The change feed, applied to LMDB and to SQLite, while the process that writes the store and the
//! process that applies the feed are killed: the copies have every batch, and none twice.
//!
//! Both processes are this program again, with [`ROLE`] set. Environment: `FEED_KILLS` is the number
//! of kills of each engine (24), `FEED_SEED` the first store's seed (1).
//!
//! Invariants: one batch of the feed is one transaction of the copy, which also stores the position
//! and counts the batches. A batch of the writer is a function of its number. So the store tells
//! the number of batches that the copy must have counted.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use esker::feed::{Change, ChangeBatch, SlotOptions};
use esker::{Db, ErrorKind, Options, WriteOptions};
use esker_lab::target::{Durability, StoreOptions, Target, TransactionError, TransactionKind};
use esker_peers::engine_named;
use esker_testkit::campaign::cell::Cell;
use esker_testkit::campaign::keyspaces::{SLOTS, is_reversed, names, seen};
use esker_testkit::campaign::ops::deletes;
use esker_testkit::rng::SplitMix64;
use esker_testkit::torture::plan;

/// Environment variable with the role of the process: `writer` or `reader`.
const ROLE: &str = "FEED_ROLE";
/// Name of the slot.
const SLOT: &str = "copy";
/// Keys of the copy that are no pairs: names of keyspaces are not empty.
const POSITION: &[u8] = b"\0position";
const COUNT: &[u8] = b"\0count";
/// First byte of a value of the copy: of a pair, and of a deleted one.
const PRESENT: u8 = 1;
const DELETED: u8 = 0;
/// Number of batches from one confirmation to the next.
const CONFIRM_EVERY: u64 = 50;
/// Time in which a process must find the store, and write or apply its first batch.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Kills of one store, at least and at most.
const KILLS: std::ops::RangeInclusive<u64> = 12..=50;

/// A deliberate error of the process that applies, which the comparison must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlantedBug {
    None,
    /// The position is stored by a transaction before that of the batch.
    PositionFirst,
    /// The position is stored by a transaction after that of the batch.
    PositionLast,
}

impl PlantedBug {
    const ALL: [PlantedBug; 3] =
        [PlantedBug::None, PlantedBug::PositionFirst, PlantedBug::PositionLast];

    fn named(name: &str) -> PlantedBug {
        PlantedBug::ALL.into_iter().find(|bug| format!("{bug:?}") == name).expect("a bug")
    }
}

fn store_dir(base: &Path) -> PathBuf {
    base.join("store")
}

/// Returns the file that says that a process with this role has written or applied a batch.
fn ready_path(base: &Path, role: &str) -> PathBuf {
    base.join(format!("{role}.ready"))
}

fn is_ready(base: &Path, role: &str) {
    std::fs::write(ready_path(base, role), b"ready").expect("a file");
}

/// Writes batches to the store until killed.
fn write(base: &Path, seed: u64, round: u64) -> esker::Result<()> {
    let options = Options { background_threads: Some(1), ..plan::options_of(seed, round, 0) };
    let db = Db::open(store_dir(base), options)?;
    // The slot is older than every pair, so the feed after it is all that the copy needs.
    if let Err(error) = db.slot(SLOT) {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        db.subscribe(SLOT, &SlotOptions::default())?;
    }
    let keyspaces = plan::open_keyspaces(&db)?;
    let first = written(&db)? + 1;
    for number in first.. {
        let (ops, durability) = plan::batch(seed, 0, number);
        let how = WriteOptions::default().durability(Some(durability));
        db.write_with(&plan::to_batch(&keyspaces, &ops), &how)?;
        if number == first {
            is_ready(base, "writer");
        }
        if number.is_multiple_of(200) {
            db.flush()?;
        }
    }
    Ok(())
}

/// Returns the number of the last batch in the store.
fn written(db: &Db) -> esker::Result<u64> {
    let counter = db.get(plan::counter_key(0))?;
    Ok(counter.as_deref().and_then(plan::number_in).unwrap_or(0))
}

/// The copy in another engine.
struct Copy {
    target: Box<dyn Target>,
    bug: PlantedBug,
}

fn copy_key(keyspace: &str, key: &[u8]) -> Vec<u8> {
    [keyspace.as_bytes(), b"\0", key].concat()
}

fn whole(key: &[u8], prefix: &[u8]) -> Vec<u8> {
    key.strip_prefix(prefix).expect("a key of the keyspace").to_vec()
}

/// Returns the value after a merge into a value, both with their first byte.
fn merged(before: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let existing = before.and_then(|value| value.strip_prefix(&[PRESENT]));
    let cell = existing.map_or_else(Cell::default, |value| Cell::put(value, None));
    let value = cell.merged(operand).value_at(0).expect("a cell with an operand has a value");
    [&[PRESENT], &value[..]].concat()
}

impl Copy {
    fn open(base: &Path, engine: &str, bug: PlantedBug) -> Copy {
        let dir = base.join(engine);
        std::fs::create_dir_all(&dir).expect("a directory");
        let options = StoreOptions {
            durability: Durability::Buffered,
            data_bytes_expected: 64 << 20,
            ..StoreOptions::default()
        };
        let engine = engine_named(engine, None).expect("installed");
        Copy { target: engine.open(&dir, &options).expect("the copy opens"), bug }
    }

    fn number(&self, key: &[u8]) -> Option<u64> {
        let mut number = None;
        let found = self.target.get(key, &mut |value| number = plan::number_in(value));
        found.expect("a get").then(|| number.expect("eight bytes"))
    }

    /// Returns the value of a key of a keyspace, with its first byte.
    fn value(&self, (keyspace, key): &(String, Vec<u8>)) -> Option<Vec<u8>> {
        let mut value = None;
        let key = copy_key(keyspace, key);
        let found = self.target.get(&key, &mut |found| value = Some(found.to_vec()));
        found.expect("a get");
        value
    }

    /// Returns the pairs of a keyspace, with the deleted ones.
    fn pairs(&self, keyspace: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let (prefix, mut pairs) = (copy_key(keyspace, b""), BTreeMap::new());
        let scan = self.target.scan_from(&prefix, &mut |key, value| {
            let is_own = key.starts_with(&prefix);
            if is_own {
                pairs.insert(whole(key, &prefix), value.to_vec());
            }
            is_own
        });
        scan.expect("a scan");
        pairs
    }

    /// Applies the parts of one batch.
    fn apply(&self, parts: &[ChangeBatch]) {
        let mut after: BTreeMap<(String, Vec<u8>), Vec<u8>> = BTreeMap::new();
        let mut is_of_writer = false;
        for change in parts.iter().flat_map(|part| &part.changes) {
            match change {
                Change::Put { keyspace, key, value, expires_ms } => {
                    assert_eq!(expires_ms.is_some(), key.starts_with(plan::EXPIRING));
                    is_of_writer |= &**keyspace == names(0)[0] && *key == plan::counter_key(0);
                    let value = [&[PRESENT], &value[..]].concat();
                    after.insert((keyspace.to_string(), key.clone()), value);
                }
                Change::Merge { keyspace, key, operand } => {
                    let place = (keyspace.to_string(), key.clone());
                    let before = after.get(&place).cloned().or_else(|| self.value(&place));
                    after.insert(place, merged(before.as_deref(), operand));
                }
                Change::Delete { keyspace, key } => {
                    after.insert((keyspace.to_string(), key.clone()), vec![DELETED]);
                }
                Change::DeleteRange { keyspace, start, end } => {
                    let slot = (0..SLOTS).find(|slot| names(*slot)[0] == &**keyspace);
                    let is_reversed = is_reversed(slot.expect("a keyspace of the plan"));
                    // In the reverse order the start is the larger key.
                    let (low, high) = if is_reversed { (end, start) } else { (start, end) };
                    let before = self.pairs(keyspace).into_keys();
                    let of_batch = after.keys().filter(|(name, _)| *name == **keyspace);
                    let keys: Vec<_> = before.chain(of_batch.map(|(_, key)| key.clone())).collect();
                    let gone = |key: &Vec<u8>| deletes(is_reversed, low, high, key);
                    for key in keys.into_iter().filter(gone) {
                        after.insert((keyspace.to_string(), key), vec![DELETED]);
                    }
                }
                Change::KeyspaceCreated { .. } => {}
                other => panic!("the writer made no such change: {other:?}"),
            }
        }
        let position = parts.last().expect("a part").sequence;
        let stored = self.number(POSITION).unwrap_or(0);
        assert!(position > stored, "batch {position} came again after {stored}");
        let mut pairs: Vec<(Vec<u8>, Vec<u8>)> =
            after.into_iter().map(|((name, key), value)| (copy_key(&name, &key), value)).collect();
        let count = self.number(COUNT).unwrap_or(0) + u64::from(is_of_writer);
        pairs.push((COUNT.to_vec(), count.to_be_bytes().to_vec()));
        let position = (POSITION.to_vec(), position.to_be_bytes().to_vec());
        match self.bug {
            PlantedBug::None => {
                pairs.push(position);
                self.store(&pairs);
            }
            PlantedBug::PositionFirst => {
                self.store(&[position]);
                self.store(&pairs);
            }
            PlantedBug::PositionLast => {
                self.store(&pairs);
                self.store(&[position]);
            }
        }
    }

    fn store(&self, pairs: &[(Vec<u8>, Vec<u8>)]) {
        let kind = TransactionKind::ReadWrite { sync: false };
        let done = self.target.transact(kind, &mut |transaction| {
            pairs.iter().try_for_each(|(key, value)| transaction.put(key, value))
        });
        match done {
            Ok(()) => {}
            Err(TransactionError::Failed(error)) => panic!("{error}"),
            Err(TransactionError::Conflict) => panic!("a conflict with nobody"),
        }
    }
}

/// Applies the feed until killed, or, with `to_end`, to its end.
fn read(base: &Path, engine: &str, bug: PlantedBug, to_end: bool) -> esker::Result<()> {
    let copy = Copy::open(base, engine, bug);
    let open = || Db::open_read_only(store_dir(base), Options::default());
    let begun = Instant::now();
    loop {
        // The writer may still create them.
        match open().and_then(|db| db.slot(SLOT)) {
            Ok(_) => break,
            Err(error)
                if error.kind() == ErrorKind::NotFound && !to_end && begun.elapsed() < TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
    // A handle that is older than the slot does not know the keyspaces that are created later.
    let db = open()?;
    let slot = db.slot(SLOT)?;
    let mut position = match copy.number(POSITION) {
        Some(position) => position,
        None => slot.position()?,
    };
    slot.confirm(position)?;
    let mut changes = db.changes(position)?;
    let (mut parts, mut unconfirmed) = (Vec::new(), 0);
    loop {
        let patience = if to_end { Duration::ZERO } else { Duration::from_millis(50) };
        let Some(batch) = changes.wait(patience)? else {
            match to_end {
                true => return Ok(()),
                false => continue,
            }
        };
        let continues = batch.continues;
        parts.push(batch);
        if continues {
            continue;
        }
        copy.apply(&parts);
        if unconfirmed == 0 {
            is_ready(base, "reader");
        }
        position = parts.last().map_or(position, |part| part.sequence);
        parts.clear();
        unconfirmed += 1;
        if unconfirmed == CONFIRM_EVERY {
            slot.confirm(position)?;
            unconfirmed = 0;
        }
    }
}

/// The processes that are killed. As a test of its own it does nothing.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    esker_lab::run::subprocess::end_with_parent();
    let value = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let number = |name: &str| value(name).parse().expect("a number");
    let base = PathBuf::from(value("FEED_BASE"));
    let done = match role.as_str() {
        "writer" => write(&base, number("FEED_SEED"), number("FEED_ROUND")),
        _ => read(&base, &value("FEED_ENGINE"), PlantedBug::named(&value("FEED_BUG")), false),
    };
    done.unwrap_or_else(|error| panic!("{role}: {error}"));
}

/// A process, which is killed when this is dropped.
struct Running {
    role: &'static str,
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A process that has ended is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One store, its copy and their processes.
struct Trial {
    base: tempfile::TempDir,
    engine: &'static str,
    seed: u64,
    bug: PlantedBug,
    rounds: u64,
}

impl Drop for Trial {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("kept for inspection: {}", self.base.path().display());
            self.base.disable_cleanup(true);
        }
    }
}

impl Trial {
    fn messages(&self, role: &str) -> PathBuf {
        self.base.path().join(format!("{role}.messages"))
    }

    fn start(&mut self, role: &'static str) -> Running {
        self.rounds += 1;
        let messages = std::fs::File::create(self.messages(role)).expect("a file");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "role", "--nocapture"])
            .env(ROLE, role)
            .env("FEED_BASE", self.base.path())
            .env("FEED_SEED", self.seed.to_string())
            .env("FEED_ROUND", self.rounds.to_string())
            .env("FEED_ENGINE", self.engine)
            .env("FEED_BUG", format!("{:?}", self.bug))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(messages)
            .spawn()
            .expect("a process");
        Running { role, child }
    }

    /// Waits until a process has written or applied a batch.
    fn wait(&self, running: &mut Running) -> Result<(), String> {
        let begun = Instant::now();
        while !ready_path(self.base.path(), running.role).exists() {
            if running.child.try_wait().expect("a status").is_some() || begun.elapsed() > TIMEOUT {
                return Err(self.ended(running.role, "did nothing"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn ended(&self, role: &str, how: &str) -> String {
        let messages = std::fs::read_to_string(self.messages(role)).unwrap_or_default();
        format!("the {role} {how}: {messages}")
    }

    /// Kills a process, which must not have ended by itself or be about to.
    fn kill(&self, mut running: Running) -> Result<(), String> {
        running.child.kill().expect("a kill");
        let status = running.child.wait().expect("a wait");
        let messages = std::fs::read_to_string(self.messages(running.role)).unwrap_or_default();
        match status.signal() {
            Some(9) if !messages.contains("panicked") => Ok(()),
            _ => Err(self.ended(running.role, &format!("ended by itself ({status})"))),
        }
    }

    /// Kills processes `kills` times, and compares the copy with the store.
    fn run(&mut self, kills: u64) -> Result<Counts, String> {
        let mut rng = SplitMix64::new(self.seed);
        let (mut writer, mut reader) = (self.start("writer"), self.start("reader"));
        // Later ones may also be killed before they have done anything.
        self.wait(&mut writer)?;
        self.wait(&mut reader)?;
        let mut counts = Counts::default();
        while counts.kills < kills {
            std::thread::sleep(Duration::from_millis(5 + rng.below(75)));
            let which = rng.below(3);
            if which != 0 {
                self.kill(writer)?;
                writer = self.start("writer");
                counts.kills += 1;
            }
            if which != 1 {
                self.kill(reader)?;
                reader = self.start("reader");
                counts.kills += 1;
            }
        }
        self.kill(writer)?;
        self.kill(reader)?;
        self.compare(&mut counts)?;
        Ok(counts)
    }

    fn compare(&self, counts: &mut Counts) -> Result<(), String> {
        let base = self.base.path();
        let db = Db::open(store_dir(base), Options::default()).map_err(|e| e.to_string())?;
        let before = Copy::open(base, self.engine, self.bug).number(COUNT);
        counts.applied_before_end = before.unwrap_or(0);
        read(base, self.engine, PlantedBug::None, true).map_err(|e| e.to_string())?;
        let copy = Copy::open(base, self.engine, self.bug);
        counts.batches = written(&db).map_err(|e| e.to_string())?;
        let applied = copy.number(COUNT).unwrap_or(0);
        if applied != counts.batches {
            return Err(format!("{applied} batches were applied of {}", counts.batches));
        }
        for slot in 0..SLOTS {
            let name = names(slot)[0];
            let keyspace = db.existing_keyspace(name).map_err(|e| e.to_string())?;
            let mut stored = BTreeMap::new();
            for pair in keyspace.expect("created").iter().map_err(|e| e.to_string())? {
                let (key, value) = pair.map_err(|e| e.to_string())?;
                if let Some(value) = seen(&key, &value) {
                    let value = value.into_owned();
                    stored.insert(key, value);
                }
            }
            // By the clock of the system, all pairs that expire have expired.
            let is_left = |key: &[u8]| !key.starts_with(plan::EXPIRING);
            let copied = copy.pairs(name).into_iter().filter_map(|(key, value)| {
                let value = value.strip_prefix(&[PRESENT])?;
                let value = seen(&key, value)?.into_owned();
                is_left(&key).then_some((key, value))
            });
            let copied: BTreeMap<Vec<u8>, Vec<u8>> = copied.collect();
            if stored != copied {
                let (stored, copied) = (stored.len(), copied.len());
                return Err(format!("{name}: {stored} pairs differ from the copy's {copied}"));
            }
            counts.pairs += stored.len();
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Counts {
    kills: u64,
    batches: u64,
    applied_before_end: u64,
    pairs: usize,
}

fn trial(engine: &'static str, seed: u64, bug: PlantedBug) -> Trial {
    let base = tempfile::Builder::new().prefix("esker-feed-").tempdir().expect("a directory");
    Trial { base, engine, seed, bug, rounds: 0 }
}

fn installed(engine: &str) -> bool {
    match engine_named(engine, None) {
        Ok(_) => true,
        Err(error) => {
            println!("skipped {engine}: {error}");
            false
        }
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn killed_processes_leave_a_copy_with_every_batch_once() {
    let kills = from_environment("FEED_KILLS", 24);
    let first_seed = from_environment("FEED_SEED", 1);
    let engines: Vec<_> = ["lmdb", "sqlite"].into_iter().filter(|name| installed(name)).collect();
    let is_short = std::env::var_os("FEED_KILLS").is_none();
    assert!(is_short || engines.len() == 2, "install liblmdb0 and libsqlite3-0");
    for engine in engines {
        let began = Instant::now();
        let mut all = Counts::default();
        for seed in first_seed.. {
            let left = kills.saturating_sub(all.kills);
            if left == 0 {
                break;
            }
            let mut trial = trial(engine, seed, PlantedBug::None);
            let kills = left.clamp(*KILLS.start(), *KILLS.end());
            let counts = trial.run(kills).unwrap_or_else(|why| {
                panic!("{engine}, seed {seed}: {why}");
            });
            all.kills += counts.kills;
            all.batches += counts.batches;
            all.applied_before_end += counts.applied_before_end;
            all.pairs += counts.pairs;
        }
        assert!(all.batches > 0 && all.applied_before_end > 0, "{engine}: {all:?}");
        println!(
            "{engine}: {} kills, {} batches, {} of them applied by processes that were killed, {} \
             pairs compared, {:.1} s",
            all.kills,
            all.batches,
            all.applied_before_end,
            all.pairs,
            began.elapsed().as_secs_f64()
        );
    }
}

#[test]
fn planted_bugs_of_the_reader_are_found() {
    let Some(engine) = ["sqlite", "lmdb"].into_iter().find(|engine| installed(engine)) else {
        return;
    };
    for bug in [PlantedBug::PositionFirst, PlantedBug::PositionLast] {
        // About every third kill of the reader is between its two transactions.
        let found = (100..140).find_map(|seed| trial(engine, seed, bug).run(12).err());
        let found = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(found.contains("were applied") || found.contains("came again"), "{found}");
    }
}
