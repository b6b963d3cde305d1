//! Each campaign against a deliberately broken disk or store, which it must detect.
//!
//! These tests guard against a past failure: a crash test that never failed, because a typing error
//! kept it from checking.

use std::io;
use std::path::Path;
use std::sync::Arc;

use esker::fs::MemFs;
use esker::fs::{DirEntry, FileLock, Fs, ReadableFile, WritableFile};
use esker::{CompactionFilter, FilterDecision, Options, Policy, ValueSeparation};
use esker_testkit::campaign::corruption::{self, Store};
use esker_testkit::campaign::cuts::{self, Effort};
use esker_testkit::campaign::faults::{self, Cause};
use esker_testkit::campaign::keyspaces::ValueFilter;
use esker_testkit::campaign::ledger::Ledger;
use esker_testkit::campaign::ops::Op;
use esker_testkit::campaign::repair_failures;
use esker_testkit::campaign::script::{Script, Step, Theme, script, tiny_options};
use esker_testkit::campaign::script_run::{PlantedBug, ScriptRun};
use esker_testkit::campaign::tally::{Tally, Verdict};
use esker_testkit::campaign::task_faults::{self, InitialState, Task};
use esker_testkit::crash::Flaws;
use parking_lot::Mutex;

/// Returns the effort for cuts without cuts of their recovery.
fn shallow(flaws: Flaws, bug: PlantedBug) -> Effort {
    Effort { seeds: 1, nest_one_in: 0, depth: 1, flaws, bug }
}

/// Runs the cuts of `script` on a disk that ignores the syncs of the files with this extension or name.
fn cuts_without_syncs_of(ignored: Option<&'static str>, script: &Script) -> Tally {
    let flaws = Flaws { sync_ignored_of: ignored, ..Flaws::default() };
    cuts::run(script, &shallow(flaws, PlantedBug::None))
}

/// Runs the cuts of a script about `theme` on a disk with these flaws.
fn cuts_on(theme: Theme, flaws: Flaws, depth: u32) -> Tally {
    let effort = Effort { seeds: 1, nest_one_in: 10, depth, flaws, bug: PlantedBug::None };
    cuts::run(&script(Policy::Leveled, theme, 3, 60), &effort)
}

#[test]
fn correct_disk_loses_nothing() {
    let tally = cuts_on(Theme::Levels, Flaws::default(), 2);
    assert!(tally.failures.is_empty(), "{}", tally.report());
    assert!(tally.of("images") > 500 && tally.of("flushes") > 5, "{:?}", tally.counts);
    assert!(tally.of("nested images") > 100, "{:?}", tally.counts);
}

#[test]
fn ignored_file_syncs_are_detected() {
    let tally = cuts_on(Theme::Levels, Flaws { sync_ignored: true, ..Flaws::default() }, 1);
    assert!(tally.failed(Verdict::Lost) > 0, "{:?}", tally.counts);
}

/// Returns a script whose values are all in value files.
fn with_value_files(theme: Theme, steps: usize) -> Script {
    let mut script = script(Policy::Leveled, theme, 3, steps);
    script.options.value_separation_min_bytes = ValueSeparation::From(0);
    script
}

#[test]
fn ignored_syncs_of_value_files_are_detected() {
    let cuts_with = |ignored| cuts_without_syncs_of(ignored, &with_value_files(Theme::Levels, 60));
    let tally = cuts_with(None);
    assert!(tally.failures.is_empty(), "{}", tally.report());
    assert!(tally.of("value files") > 5, "{:?}", tally.counts);
    assert!(cuts_with(Some("val")).failed(Verdict::Lost) > 0);
}

#[test]
fn ignored_directory_syncs_are_detected() {
    let tally = cuts_on(Theme::Levels, Flaws { dir_sync_ignored: true, ..Flaws::default() }, 1);
    assert!(tally.failed(Verdict::Lost) > 0, "{:?}", tally.counts);
}

#[test]
fn ignored_directory_syncs_are_detected_during_repair() {
    let store = Store::make(Policy::Leveled, Theme::Mixed, 7, 40, false);
    let flaws = Flaws { dir_sync_ignored: true, ..Flaws::default() };
    let effort = shallow(flaws, PlantedBug::None);
    let tally = repair_failures::cuts(&store, &effort);
    assert!(tally.failed(Verdict::Lost) > 0, "{:?}", tally.counts);
}

/// A file system that reports success for every write and sync, whatever happened.
struct ErrorSwallowingFs(Arc<dyn Fs>);

struct ErrorSwallowingFile(Box<dyn WritableFile>);

impl WritableFile for ErrorSwallowingFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let _ = self.0.append(bytes);
        Ok(())
    }
    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        let _ = self.0.write_at(bytes, offset_bytes);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        let _ = self.0.sync();
        Ok(())
    }
    fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
        self.0.set_len(len_bytes)
    }
}

impl Fs for ErrorSwallowingFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(Box::new(ErrorSwallowingFile(self.0.create_new(path)?)))
    }
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(Box::new(ErrorSwallowingFile(self.0.open_write(path)?)))
    }
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        self.0.open_read(path)
    }
    fn read(&self, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
        self.0.read(path, len_bytes_max)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.hard_link(from, to)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn FileLock>> {
        self.0.lock(path, holder)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.0.free_bytes(path)
    }
}

#[test]
fn swallowed_write_errors_are_detected() {
    let mut script = script(Policy::Leveled, Theme::Levels, 3, 30);
    script.steps.retain(|step| !matches!(step, Step::Kill));
    for cause in [Cause::Full, Cause::SyncDrops] {
        let tally = faults::run(&script, &[cause], |fs| Arc::new(ErrorSwallowingFs(fs)));
        assert!(!tally.failures.is_empty(), "{cause:?}: {:?}", tally.counts);
    }
}

#[test]
fn missing_checksums_are_detected() {
    let store = Store::make(Policy::Leveled, Theme::Levels, 3, 40, true);
    let tally = corruption::without_checksums(&store, 1, 400);
    assert!(tally.failed(Verdict::Wrong) > 0, "{:?}", tally.counts);
}

#[test]
fn ignored_sync_markers_are_detected() {
    // Without a flush, the log is long.
    let store = Store::make(Policy::Leveled, Theme::Logs, 3, 40, false);
    let tally = corruption::without_sync_markers(&store);
    assert!(tally.failed(Verdict::Lost) > 0, "{:?}", tally.counts);
}

/// Runs the cuts of scripts about keyspaces with this bug. The tally also counts the steps in which
/// the bug could show.
fn cuts_with(bug: PlantedBug) -> Tally {
    let effort = shallow(Flaws::default(), bug);
    let mut all = Tally::default();
    for (seed, policy) in Policy::ALL.iter().enumerate() {
        all.merge(cuts::run(&script(*policy, Theme::Keyspaces, seed as u64, 40), &effort));
    }
    all
}

#[test]
fn whole_batches_over_several_keyspaces_pass() {
    let tally = cuts_with(PlantedBug::None);
    assert!(tally.failures.is_empty(), "{}", tally.report());
    for what in ["batches over several keyspaces", "transactions over several keyspaces"] {
        assert!(tally.of(what) >= 5, "{:?}", tally.counts);
    }
    assert!(tally.of("conflicts") >= 5, "{:?}", tally.counts);
}

#[test]
fn forgotten_change_of_the_feed_is_detected() {
    let of = |bug| {
        let effort = shallow(Flaws::default(), bug);
        cuts::run(&script(Policy::Fluid, Theme::Feed, 3, 60), &effort)
    };
    let without = of(PlantedBug::None);
    assert!(without.failures.is_empty(), "{}", without.report());
    assert!(without.of("readings of the feed") > 3, "{:?}", without.counts);
    let tally = of(PlantedBug::ForgottenChange);
    let found = tally.failures.iter().filter(|f| f.message.contains("reader of the change feed"));
    assert!(found.count() > 0, "{:?} {}", tally.counts, tally.report());
}

#[test]
fn forgotten_expiry_and_repeated_operand_are_detected() {
    let of = |bug| {
        let effort = shallow(Flaws::default(), bug);
        cuts::run(&script(Policy::Fluid, Theme::Rules, 3, 60), &effort)
    };
    let without = of(PlantedBug::None);
    assert!(without.failures.is_empty(), "{}", without.report());
    for bug in [PlantedBug::ForgottenExpiry, PlantedBug::RepeatedOperand] {
        let tally = of(bug);
        assert!(tally.failed(Verdict::Wrong) > 0, "{bug:?} {:?}", tally.counts);
    }
}

/// Runs the cuts of a script with ingests of several files, and with forks.
fn cuts_of_ingests_and_forks(bug: PlantedBug) -> Tally {
    let effort = shallow(Flaws::default(), bug);
    let mut script = script(Policy::Fluid, Theme::Feed, 5, 30);
    let put = |n: u8| Op::Put(0, vec![b'a' + n], vec![n; 9]);
    // A file has seven entries.
    script.steps.extend([Step::Ingest((0..20).map(put).collect()), Step::Read]);
    script.steps.extend([Step::Checkpoint, Step::Checkpoint, Step::Checkpoint]);
    cuts::run(&script, &effort)
}

#[test]
fn torn_ingest_and_fork_without_a_pair_are_detected() {
    let without = cuts_of_ingests_and_forks(PlantedBug::None);
    assert!(without.failures.is_empty(), "{}", without.report());
    assert!(without.of("ingests") > 0 && without.of("forks") > 0, "{:?}", without.counts);
    let tally = cuts_of_ingests_and_forks(PlantedBug::TornIngest);
    let torn = tally.failures.iter().filter(|f| f.message.contains("no number of first batches"));
    assert!(torn.count() > 0, "{:?} {}", tally.counts, tally.report());
    let tally = cuts_of_ingests_and_forks(PlantedBug::ShortFork);
    let short = tally.failures.iter().filter(|f| f.message.contains("a checkpoint has unexpected"));
    assert!(short.count() > 0, "{:?} {}", tally.counts, tally.report());
}

#[test]
fn keys_of_an_encryption_that_are_not_synced_are_detected() {
    let script = script(Policy::Leveled, Theme::Levels, 4, 16).into_encrypted();
    let cuts_with = |ignored| cuts_without_syncs_of(ignored, &script);
    let tally = cuts_with(None);
    assert!(tally.failures.is_empty(), "{}", tally.report());
    assert!(!cuts_with(Some("KEYS.new")).failures.is_empty());
}

/// A compaction filter with the name of the campaigns' one, which removes pairs that it should keep.
struct GreedyFilter;

impl CompactionFilter for GreedyFilter {
    fn name(&self) -> &str {
        ValueFilter::NAME
    }

    fn filter(&self, _level: usize, key: &[u8], _value: &[u8]) -> FilterDecision {
        match key.last().is_some_and(|last| last % 2 == 0) {
            true => FilterDecision::Remove,
            false => FilterDecision::Keep,
        }
    }
}

#[test]
fn pairs_that_a_filter_must_not_remove_are_missed() {
    let mut script = script(Policy::Fluid, Theme::Rules, 3, 60);
    script.options.compaction_filter = Some(Arc::new(GreedyFilter));
    let (flaws, bug) = (Flaws::default(), PlantedBug::None);
    let effort = shallow(flaws, bug);
    let tally = cuts::run(&script, &effort);
    assert!(tally.failed(Verdict::Wrong) > 0, "{:?}", tally.counts);
}

#[test]
fn torn_batch_over_several_keyspaces_is_detected() {
    let tally = cuts_with(PlantedBug::TornBatch);
    let torn = tally.failures.iter().filter(|f| f.message.contains("no number of first batches"));
    assert!(torn.count() > 0, "{:?} {}", tally.counts, tally.report());
}

#[test]
fn lost_update_is_detected() {
    let tally = cuts_with(PlantedBug::LostUpdate);
    let lost = tally.failures.iter().filter(|f| f.message.contains("lost update"));
    assert!(lost.count() > 0, "{:?} {}", tally.counts, tally.report());
}

#[test]
fn forgotten_write_is_detected() {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/data")).unwrap();
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let options = Options { ..tiny_options() };
    let mut script_run = ScriptRun::new(fs, options, ledger.clone());
    script_run.open().unwrap();
    let op = Op::Put(0, b"k".to_vec(), b"v".to_vec());
    script_run.step(&Step::Write(vec![op], true)).unwrap();
    assert!(script_run.read().is_ok());
    ledger.lock().attempt(&[Op::Put(0, b"forgotten".to_vec(), Vec::new())]);
    ledger.lock().acknowledge(true);
    assert!(script_run.read().is_err());
}

#[test]
fn swallowed_write_errors_in_tasks_are_detected() {
    let state = InitialState::make(&script(Policy::Leveled, Theme::Mixed, 5, 30));
    for task in [Task::Checkpoint, Task::Backup, Task::Restore, Task::Repair] {
        let tally = task_faults::run(&state, &[task], |fs| Arc::new(ErrorSwallowingFs(fs)));
        assert!(!tally.failures.is_empty(), "{task:?}: {:?}", tally.counts);
    }
}
