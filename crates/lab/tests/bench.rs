//! Tests of whole benchmarks over the in-memory engine and over engines with deliberate faults.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use common::run;
use esker_lab::bench;
use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::record::schema::TaskSample;
use esker_lab::record::store;
use esker_lab::reference::Reference;
use esker_lab::report::html;
use esker_lab::target::{Direction, Engine, SortedPairs, Target, VisitMany, VisitPair, get_each};
use esker_lab::{BenchConfig, workload::tasks::TASKS};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Returns a wrong value occasionally.
    WrongValues,
    /// Fails after some writes.
    FullDisk,
    /// Omits the last pair of a scan.
    ShortScans,
    /// Ends a scan after a few pairs.
    ShortWalks,
    /// Returns the second pair's value for the third pair of a scan.
    WrongWalks,
    /// Omits the first pair of a scan.
    SkipsFirst,
    /// Omits the last result of a multi-get.
    FewAnswers,
    /// Returns the second pair from a seek, occasionally.
    WrongSeeks,
    /// Loads all pairs but the first of a bulk load.
    ShortLoads,
}

struct FaultyStore {
    fault: Fault,
    store: Box<dyn Target>,
    calls: AtomicU64,
}

/// Returns an in-memory engine with one fault.
fn faulty(fault: Fault) -> Box<dyn Engine> {
    common::faulty(move |store| Box::new(FaultyStore { fault, store, calls: AtomicU64::new(0) }))
}

impl Target for FaultyStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        if self.fault == Fault::FullDisk && self.calls.fetch_add(1, Ordering::Relaxed) > 150 {
            return Err(LabError::engine("no space left"));
        }
        self.store.put(key, value, sync)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.store.delete(key)
    }
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fault == Fault::WrongValues && call % 10 == 3 {
            visit(b"nonsense");
            return Ok(true);
        }
        self.store.get(key, visit)
    }
    fn get_many(&self, keys: &[&[u8]], visit: VisitMany<'_>) -> Result<()> {
        let kept = keys.len() - usize::from(self.fault == Fault::FewAnswers);
        get_each(&keys[..kept], visit, |key, visit| self.get(key, visit))
    }
    fn seek(&self, key: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fault == Fault::WrongSeeks && call % 50 == 7 {
            let mut seen = 0;
            self.store.scan_from(key, &mut |key, value| {
                seen += 1;
                if seen == 2 {
                    visit(key, value);
                }
                seen < 2
            })?;
            return Ok(seen == 2);
        }
        self.store.seek(key, visit)
    }
    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        let mut left = if self.fault == Fault::ShortScans { 99 } else { u64::MAX };
        let mut skip = self.fault == Fault::SkipsFirst;
        self.store.scan(direction, &mut |key, value| {
            if std::mem::take(&mut skip) {
                return true;
            }
            left -= 1;
            visit(key, value) && left > 0
        })
    }
    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        let (mut seen, mut second) = (0, Vec::new());
        self.store.scan_from(start, &mut |key, value| {
            seen += 1;
            if seen == 2 {
                second = value.to_vec();
            }
            match self.fault {
                Fault::ShortWalks => visit(key, value) && seen < 3,
                Fault::WrongWalks if seen == 3 => visit(key, &second),
                _ => visit(key, value),
            }
        })
    }
    fn compact(&self) -> Result<()> {
        self.store.compact()
    }
    fn bulk_load(&self, pairs: SortedPairs<'_, '_>) -> Result<()> {
        let left_out = usize::from(self.fault == Fault::ShortLoads);
        self.store.bulk_load(&mut pairs.skip(left_out))
    }
    fn stats(&self) -> Option<String> {
        None
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn all_tasks() -> String {
    let names: Vec<&str> = TASKS.iter().map(|task| task.name).collect();
    format!("{},fillrandom,deleterandom,readrandom,seekrandom,readseq,readreverse", names.join(","))
}

#[test]
fn every_task_reads_written_data() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (threads, histogram) in [("1", "0"), ("3", "1")] {
        let flags =
            [("threads", threads), ("histogram", histogram), ("benchmarks", &all_tasks()[..])];
        let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
        assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
        assert!(
            ran.messages.contains("absent: not installed: apt install nothing"),
            "{}",
            ran.messages
        );
        assert!(ran.out.contains("fillrandom   : "), "{}", ran.out);
        assert!(ran.out.contains("compact      : n/a"), "{}", ran.out);
        for sample in &ran.outcome.record.samples {
            if let Some(expected) = sample.found_expected {
                assert_eq!(sample.found, Some(expected), "{sample:?}");
            }
        }
    }
}

#[test]
fn threads_share_one_tasks_operations() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let done = |threads: &str, share: &str, tasks: &str| -> Vec<(u64, Option<u64>)> {
        let flags = [("threads", threads), ("share_operations", share), ("benchmarks", tasks)];
        let ran =
            run(dir.path(), &[&flags[..], &[("num", "1001")]].concat(), vec![Box::new(Reference)]);
        assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
        let samples = &ran.outcome.record.samples;
        samples.iter().take(4).map(|sample| (sample.operations, sample.found)).collect()
    };
    // In order, each thread processes its own interval: nothing is omitted and nothing repeated.
    let alone = done("1", "0", "fillseq,readrandom,deleteseq,readrandom");
    assert_eq!(alone, [(1001, None), (1001, Some(1001)), (1001, None), (1001, Some(0))]);
    assert_eq!(done("3", "1", "fillseq,readrandom,deleteseq,readrandom"), alone);
    let each = done("3", "0", "fillseq,readrandom,deleteseq");
    assert_eq!(each[..2], [(3003, None), (3003, Some(3003))]);
    // At random, the store has the same keys as with one thread, not those of three times as many
    // operations. Each of the three scans reads all of them.
    let live = |threads, share| {
        let scanned = done(threads, share, "fillrandom,readrandom,readseq")[2].1.expect("found");
        scanned / threads.parse::<u64>().expect("a number")
    };
    assert_eq!(live("3", "1"), live("1", "0"));
    assert!((580..690).contains(&live("1", "0")), "of 1001, where 633 are to be expected");
    assert!(live("3", "0") > 900);
}

#[test]
fn more_threads_than_operations_do_no_extra_work() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let flags = [("threads", "4"), ("share_operations", "1"), ("num", "3"), ("repetitions", "1")];
    let tasks = "fillseq,readrandom,seekrandom,readfirst,deleterandom";
    let flags = [&flags[..], &[("benchmarks", tasks)]].concat();
    let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
    assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
    let done: Vec<u64> = ran.outcome.record.samples.iter().map(|s| s.operations).collect();
    assert_eq!(done[..5], [3, 3, 3, 1, 3]);
}

#[test]
fn threads_write_each_csv_row_once() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("rows.csv");
    let rows: String =
        (0..50).map(|row| format!("key{row},value {row} of some length\n")).collect();
    std::fs::write(&path, format!("key,value\n{rows}")).expect("written");
    let csv = path.to_str().expect("a name in UTF-8");
    let flags = [("threads", "3"), ("share_operations", "1"), ("csv", csv), ("repetitions", "1")];
    let flags = [&flags[..], &[("benchmarks", "fillrandom,readseq")]].concat();
    let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
    assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
    let samples = &ran.outcome.record.samples;
    assert_eq!((samples[0].operations, samples[1].found), (50, Some(3 * 50)));
}

#[test]
fn record_round_trips_to_same_page() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let flags = [("benchmarks", "fillrandom,readrandom"), ("repetitions", "2")];
    let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
    let path = ran.outcome.record_path.expect("saved");
    let record = store::load(&path).expect("readable");
    assert_eq!(html::page(&record), html::page(&ran.outcome.record));
    assert_eq!(record.samples.len(), 4);
    let page = html::page(&record);
    assert!(page.contains("<svg") && !page.contains("<script") && !page.contains("src="));
    let newer = std::fs::read_to_string(&path).expect("there");
    std::fs::write(&path, newer.replace("\"schema_version\":1,", "\"schema_version\":99,"))
        .expect("written");
    let error = store::load(&path).expect_err("newer").to_string();
    assert!(error.contains("found 99"), "{error}");
}

#[test]
fn both_terms_appear_first_in_text_and_page() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let page = dir.path().join("page.html").display().to_string();
    let flags = [
        ("benchmarks", "fillrandom,readrandom"),
        ("repetitions", "2"),
        ("terms", "shipped,equal"),
        ("cache_size", "48MiB"),
        ("html", &page),
    ];
    let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
    let (shipped, equal) = ran.out.split_once("\nEqual memory\n").expect("two tables");
    assert!(shipped.contains("\nAs shipped\n") && !shipped.contains("MiB of cache"), "{}", ran.out);
    assert!(equal.contains("48.0 MiB of cache") && equal.contains("readrandom"), "{}", ran.out);
    assert!(ran.out.contains("absent: not installed"), "{}", ran.out);
    for table in [shipped, equal] {
        assert!(
            table.contains("The durability of reference is weaker: a killed process"),
            "{table}"
        );
    }
    let page = std::fs::read_to_string(page).expect("written");
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing: {page}"));
    assert!(place("<h2>As shipped") < place("<h2>Equal memory"));
    assert!(place("<h2>Equal memory") < place("every figure and picture"), "the tables lead");
    let terms =
        |record: &str| std::fs::read_to_string(record).expect("a record").contains("shipped");
    let records = std::fs::read_dir(dir.path().join("record")).expect("made");
    let mut of: Vec<bool> =
        records.map(|entry| terms(&entry.expect("read").path().display().to_string())).collect();
    of.sort_unstable();
    assert_eq!(of, [false, true], "a record for each of the terms");
}

#[test]
fn histogram_is_printed() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let flags = [("benchmarks", "fillrandom,readrandom"), ("histogram", "1")];
    let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
    let page = html::page(&ran.outcome.record);
    assert!(page.contains("<h2>Latency</h2>"), "{page}");
    for task in ["fillrandom", "readrandom"] {
        assert!(page.contains(&format!("latency of {task}")), "{page}");
    }
    let plain = run(dir.path(), &flags[..1], vec![Box::new(Reference)]);
    assert!(!html::page(&plain.outcome.record).contains("<h2>Latency</h2>"));
}

#[test]
fn json_lines_have_documented_fields() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let flags = [("benchmarks", "fillseq,readseq"), ("json", "1")];
    let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
    let lines: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3);
    let read = &lines[1];
    assert_eq!(read["task"], "readseq");
    assert_eq!(read["found"], 200);
    assert_eq!(read["samples"].as_array().map(Vec::len), Some(3));
    assert!(read["micros_per_op"].as_f64().is_some_and(|micros| micros > 0.0));
    for missing in ["ratio_to_esker", "write_amplification"] {
        assert!(read[missing].is_null(), "{read}");
    }
    assert_eq!(lines[2]["engine"], "absent");
}

#[test]
fn wrong_data_is_an_error_and_other_engines_continue() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tasks = [("benchmarks", "fillseq,overwrite,readrandom,readseq")];
    for (fault, message) in [
        (Fault::WrongValues, "another value than the one written"),
        (Fault::FullDisk, "no space left"),
        (Fault::ShortScans, "the scan returned 99 pairs, expected 200"),
    ] {
        let engines: Vec<Box<dyn Engine>> = vec![faulty(fault), Box::new(Reference)];
        let ran = run(dir.path(), &tasks, engines);
        assert_eq!(ran.outcome.exit_code, 1);
        assert!(ran.messages.contains(message), "{message}: {}", ran.messages);
        let whole = |s: &&TaskSample| s.engine == "reference";
        assert_eq!(ran.outcome.record.samples.iter().filter(whole).count(), 12);
    }
}

#[test]
fn csv_rows_with_repeated_keys_round_trip() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("rows.csv");
    let mut text = String::from("id,title\n");
    for row in 0..300 {
        text.push_str(&format!("key{},\"title, {row}\"\n", row % 70));
    }
    text.push_str("short\n");
    std::fs::write(&file, text).expect("written");
    let path = file.display().to_string();
    for threads in ["1", "4"] {
        let flags = [
            ("csv", &path[..]),
            ("num", "1000"),
            ("key-column", "id"),
            ("value-column", "title"),
            ("threads", threads),
            ("benchmarks", &all_tasks()[..]),
        ];
        let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
        assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
        assert!(ran.messages.contains("line 302: number of fields: 1"), "{}", ran.messages);
        assert_eq!(ran.outcome.record.workload.keys, 70);
    }
}

/// Runs `task` with that many threads over the in-memory engine. It must find the expected results
/// for each of the 200 keys of each thread.
fn right_reads(dir: &Path, threads: &str, flags: &[(&str, &str)], task: &str) -> Vec<TaskSample> {
    let flags = [flags, &[("threads", threads)]].concat();
    let ran = run(dir, &flags, vec![Box::new(Reference)]);
    assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
    let mut samples = ran.outcome.record.samples;
    samples.retain(|sample| sample.task == task);
    assert!(!samples.is_empty(), "{task} was not run");
    for sample in &samples {
        assert_eq!(sample.found, sample.found_expected, "{sample:?}");
        assert_eq!(sample.operations, 200 * threads.parse::<u64>().expect("a number"));
    }
    samples
}

#[test]
fn multi_get_results_are_each_checked() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tasks = "fillrandom,deleterandom,fillrandom,multireadrandom";
    for (threads, size) in [("1", "1"), ("3", "7"), ("1", "1000")] {
        let flags = [("batch_size", size), ("benchmarks", tasks)];
        for sample in right_reads(dir.path(), threads, &flags, "multireadrandom") {
            assert!(sample.found > Some(0) && sample.user_read_bytes > 0, "{sample:?}");
        }
    }
    let flags = [("benchmarks", "fillseq,multireadrandom"), ("batch_size", "9")];
    for (fault, message) in [
        (Fault::WrongValues, "another value than the one written"),
        (Fault::FewAnswers, "a call with 9 keys returned 8 answers"),
    ] {
        let ran = run(dir.path(), &flags, vec![faulty(fault)]);
        assert_eq!(ran.outcome.exit_code, 1, "{}", ran.messages);
        assert!(ran.messages.contains(message), "{}", ran.messages);
    }
}

#[test]
fn pairs_after_seek_are_checked() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tasks = "fillrandom,deleterandom,seekrandom,fillseq,seekrandom";
    for (threads, nexts) in [("1", "50"), ("3", "7"), ("1", "100000")] {
        let flags = [("seek_nexts", nexts), ("benchmarks", tasks)];
        right_reads(dir.path(), threads, &flags, "seekrandom");
    }
    let flags = [("benchmarks", "fillseq,seekrandom"), ("seek_nexts", "5")];
    for fault in [Fault::ShortWalks, Fault::WrongWalks] {
        let ran = run(dir.path(), &flags, vec![faulty(fault)]);
        assert_eq!(ran.outcome.exit_code, 1, "{}", ran.messages);
        assert!(ran.messages.contains("returned wrong content"), "{}", ran.messages);
    }
}

#[test]
fn gets_and_scans_of_a_mix_are_checked() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tasks = "fillrandom,deleterandom,mixgraph,readseq,fillseq,mixgraph,mixgraph,readseq";
    for (threads, shared) in [("1", "0"), ("3", "0"), ("3", "1")] {
        let flags = [
            ("threads", threads),
            ("share_operations", shared),
            ("benchmarks", tasks),
            ("reads", "3000"),
            ("histogram", "1"),
        ];
        let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
        assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
        let mixes = ran.outcome.record.samples.iter().filter(|s| s.task.starts_with("mixgraph"));
        for mix in mixes {
            assert_eq!(mix.operations, if shared == "1" || threads == "1" { 3000 } else { 9000 });
            let kinds: Vec<(&str, u64)> =
                mix.kinds.iter().map(|kind| (kind.kind.as_str(), kind.latency.count)).collect();
            let [("READ", gets), ("UPDATE", puts), ("SCAN", scans)] = kinds[..] else {
                panic!("{kinds:?}")
            };
            assert_eq!(gets + puts + scans, mix.operations);
            assert!(gets > 5 * puts && puts > 2 * scans, "{kinds:?}");
            assert!(mix.user_written_bytes > puts * 17 && mix.user_read_bytes > gets, "{mix:?}");
            assert_eq!(mix.found.is_some(), mix.found_expected.is_some() || threads != "1");
        }
    }
    let flags = [("benchmarks", "fillseq,mixgraph"), ("reads", "3000")];
    for (fault, message) in [
        (Fault::WrongValues, "another value than the one written"),
        (Fault::ShortWalks, "had wrong content"),
        (Fault::WrongWalks, "had wrong content"),
    ] {
        let ran = run(dir.path(), &flags, vec![faulty(fault)]);
        assert_eq!(ran.outcome.exit_code, 1, "{}", ran.messages);
        assert!(ran.messages.contains(message), "{}", ran.messages);
    }
}

#[test]
fn seek_finds_first_live_key_after_deleted_keys() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tasks = "fillseq,readfirst,deleteseq,readfirst,readseq";
    let flags = [("benchmarks", tasks), ("reads", "50000"), ("histogram", "1")];
    let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
    assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
    let of = |position: usize| {
        let own = ran.outcome.record.samples.iter().find(|s| s.position == position);
        own.map(|s| (s.operations, s.found, s.live_bytes)).expect("ran")
    };
    assert_eq!(of(1), (5, Some(5), Some(200 * 116)));
    assert_eq!(of(2).2, Some(0));
    assert_eq!(of(3), (5, Some(5), Some(116)), "one key is put behind those deleted");
    assert_eq!(of(4), (1, Some(1), Some(116)));
    assert!(ran.outcome.record.samples.iter().all(|s| s.idle.is_some()));
    assert!(ran.out.contains("An idle thread's longest pause: "), "{}", ran.out);
    let flags = [("benchmarks", "fillseq,readfirst")];
    let ran = run(dir.path(), &flags, vec![faulty(Fault::SkipsFirst)]);
    assert_eq!(ran.outcome.exit_code, 1);
    assert!(ran.messages.contains("the store returned a wrong first pair"), "{}", ran.messages);
}

#[test]
fn queue_pops_what_was_pushed_and_keeps_its_depth() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // Each of the threads has a queue of its own, of twenty keys.
    for (threads, depth, left, scanned) in [("1", "20", 20, 20), ("3", "62", 60, 3 * 60)] {
        let flags = [("queue_depth", depth), ("threads", threads), ("repetitions", "1")];
        let flags = [&flags[..], &[("benchmarks", "queue,readseq,readfirst")]].concat();
        let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
        assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
        let samples = &ran.outcome.record.samples;
        let queue = &samples[0];
        assert_eq!((queue.operations, queue.found), (200 - left, Some(200 - left)));
        assert_eq!(queue.live_bytes, Some(left * 116));
        assert_eq!(queue.latency.as_ref().map(|latency| latency.count), Some(200 - left));
        let counts = queue.queue.as_ref().expect("a queue");
        assert_eq!((counts.depth, counts.push.count), (left, 200 - left));
        assert!(counts.first_tenth_ops_per_sec > 0.0 && counts.last_tenth_ops_per_sec > 0.0);
        assert_eq!(samples[1].found, Some(scanned), "each thread scans all");
        assert!(ran.out.contains("last tenth") && ran.out.contains("per push"), "{}", ran.out);
    }
    let flags = [("benchmarks", "queue"), ("queue_depth", "20")];
    let ran = run(dir.path(), &flags, vec![faulty(Fault::WrongSeeks)]);
    assert_eq!(ran.outcome.exit_code, 1);
    assert!(ran.messages.contains("pop 7 must return 0000000000000007, found"), "{}", ran.messages);
    let flags = [("benchmarks", "queue"), ("queue_depth", "200")];
    let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
    assert!(ran.messages.contains("the data is too small"), "{}", ran.messages);
}

#[test]
fn bulk_load_is_read_and_compared() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let flags = [("benchmarks", "fillseq,readseq,bulkload,readseq,readrandom")];
    let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
    assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
    let load = ran.outcome.record.samples.iter().find(|s| s.task == "bulkload").expect("ran");
    assert_eq!((load.operations, load.user_written_bytes), (200, 200 * 116));
    let ran = run(dir.path(), &flags, vec![faulty(Fault::ShortLoads)]);
    assert_eq!(ran.outcome.exit_code, 1);
    assert!(ran.messages.contains("pair 0 of the scan is wrong"), "{}", ran.messages);
}

#[test]
fn unknown_task_or_column_runs_nothing() {
    let refused = |flag: &str, value: &str| {
        let mut config = BenchConfig::default();
        config.record_dir = None;
        config.set(flag, value).expect("a flag");
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        let error = bench::run(&config, &[], &|| {}, &mut out, &mut messages).expect_err("refused");
        assert!(out.is_empty() && !error.to_string().is_empty());
        error.kind()
    };
    assert_eq!(refused("benchmarks", "fillfast"), LabErrorKind::Usage);
    assert_eq!(refused("csv", "/nonexistent/file.csv"), LabErrorKind::Io);
    assert_eq!(refused("key_size", "2"), LabErrorKind::Usage);
    assert_eq!(refused("use_existing_db", "1"), LabErrorKind::Usage);
}
