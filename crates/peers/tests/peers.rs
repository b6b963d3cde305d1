//! Every peer that is installed does every task right; one that is not says how to get it.

use esker_lab::LabErrorKind;
use esker_lab::mix::ycsb::Properties;
use esker_peers::ycsb::YcsbRun;
use esker_peers::{config, engine_named, run};

const TASKS: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,readmissing,readhot,\
seekrandom,readseq,readreverse,compact,readrandom,readwhilewriting,mixgraph,deleterandom,readseq,open,\
readrandom,fill100K,readrandom,deleteseq,readreverse,fillaccounts,randomtransaction,\
zipfiantransaction,readtransaction,randomtransactionsync,updaterandom,open,zipfiantransactionsync,\
readseq,queue,readseq,readfirst,open,readseq,bulkload,readseq,open,readrandom,stats";

/// Engines whose transactions are measured.
const WITH_TRANSACTIONS: &[&str] = &[
    "esker",
    "esker-pessimistic",
    "rocksdb-optimistic",
    "rocksdb-pessimistic",
    "lmdb",
    "sqlite",
    "fjall-optimistic",
    "redb",
    "reference",
];

/// Engines whose bulk load is measured.
const WITH_BULK_LOAD: &[&str] = &["esker", "esker-pessimistic", "rocksdb", "reference"];

fn bench(engine: &str, flags: &[(&str, &str)]) {
    if let Err(error) = engine_named(engine, None) {
        assert_eq!(error.kind(), LabErrorKind::NotInstalled);
        assert!(error.to_string().starts_with("not "), "{error}");
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut settings = config();
    let db = dir.path().display().to_string();
    let base = [
        ("engines", engine),
        ("num", "3000"),
        ("record", "none"),
        ("db", &db),
        ("repetitions", "2"),
    ];
    for (flag, value) in base.iter().chain(&[("benchmarks", TASKS)]).chain(flags) {
        settings.set(flag, value).expect("a flag");
    }
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let outcome = run(&settings, &mut out, &mut messages).expect("runs");
    assert_eq!(outcome.exit_code, 0, "{}", String::from_utf8_lossy(&messages));
    let tasks = TASKS.split(',').count();
    assert_eq!(outcome.record.samples.len(), 2 * tasks);
    for sample in &outcome.record.samples {
        let is_transaction = sample.task.contains("transaction") && !sample.task.ends_with("sync");
        if is_transaction {
            let runs = WITH_TRANSACTIONS.contains(&engine);
            assert_eq!(!sample.not_available, runs, "{sample:?}");
            assert_eq!(sample.transactions.is_some(), runs, "{sample:?}");
        }
        if let Some(expected) = sample.found_expected {
            assert_eq!(sample.found, Some(expected), "{sample:?}");
        }
        if sample.task == "bulkload" {
            assert_eq!(!sample.not_available, WITH_BULK_LOAD.contains(&engine), "{sample:?}");
        }
        if sample.task == "queue" {
            let queue = sample.queue.as_ref().expect("a queue");
            assert!(sample.operations >= 2700 && queue.depth <= 300, "{sample:?}");
        }
    }
    let filled = outcome.record.samples.iter().find(|sample| sample.task == "fillrandom");
    let amplification = filled.and_then(|sample| sample.write_amplification);
    assert_eq!(amplification.is_some(), engine != "reference", "{filled:?}");
}

fn bench_all_ways(engine: &str) {
    bench(engine, &[]);
    bench(engine, &[("threads", "3"), ("bloom_bits", "10"), ("compression", "none")]);
    bench(engine, &[("durability", "none"), ("write_buffer_size", "64K"), ("cache_size", "0")]);
}

#[test]
fn counters_are_right_after_merges_and_a_compaction() {
    let tasks = "fillaccounts,mergerandom,updaterandom,mergerandom,readaccounts,compact,rest,\
                 readaccounts,open,readaccounts";
    for engine in ["esker", "rocksdb", "leveldb", "lmdb"] {
        if engine_named(engine, None).is_err() {
            continue;
        }
        let dir = tempfile::tempdir().expect("a temporary folder");
        let db = dir.path().display().to_string();
        let mut settings = config();
        for (flag, value) in [
            ("engines", engine),
            ("num", "3000"),
            ("value_size", "8"),
            ("threads", "2"),
            ("rest_ms", "1"),
            ("write_buffer_size", "64K"),
            ("record", "none"),
            ("db", &db),
            ("repetitions", "1"),
            ("benchmarks", tasks),
        ] {
            settings.set(flag, value).expect("a flag");
        }
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        let outcome = run(&settings, &mut out, &mut messages).expect("runs");
        assert_eq!(outcome.exit_code, 0, "{}", String::from_utf8_lossy(&messages));
        for sample in &outcome.record.samples {
            match sample.task.as_str() {
                "mergerandom" => {
                    let merges = ["esker", "rocksdb"].contains(&engine);
                    assert_eq!(sample.not_available, !merges, "{sample:?}");
                }
                "readaccounts" => {
                    assert_eq!((sample.found, sample.wrong), (Some(6000), 0), "{sample:?}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn leveldb_does_every_task() {
    bench_all_ways("leveldb");
}

#[test]
fn lmdb_does_every_task() {
    bench_all_ways("lmdb");
}

#[test]
fn sqlite_does_every_task() {
    bench_all_ways("sqlite");
}

#[test]
fn berkeleydb_does_every_task() {
    bench_all_ways("berkeleydb");
}

#[test]
fn fjall_does_every_task() {
    bench_all_ways("fjall");
}

#[test]
fn redb_does_every_task() {
    bench_all_ways("redb");
}

#[test]
fn rocksdb_does_every_task() {
    bench_all_ways("rocksdb");
}

#[test]
fn rocksdb_optimistic_does_every_task() {
    bench_all_ways("rocksdb-optimistic");
}

#[test]
fn rocksdb_pessimistic_does_every_task() {
    bench_all_ways("rocksdb-pessimistic");
}

#[test]
fn fjall_optimistic_does_every_task() {
    bench_all_ways("fjall-optimistic");
}

#[test]
fn sled_does_every_task() {
    bench_all_ways("sled");
}

#[test]
fn wiredtiger_does_every_task() {
    bench_all_ways("wiredtiger");
}

#[test]
fn wiredtiger_lsm_does_every_task() {
    bench("wiredtiger-lsm", &[("threads", "3"), ("bloom_bits", "10")]);
}

#[test]
fn reference_does_every_task() {
    bench_all_ways("reference");
}

#[test]
#[cfg(feature = "engine")]
fn esker_does_every_task() {
    bench_all_ways("esker");
}

#[test]
#[cfg(feature = "engine")]
fn esker_pessimistic_does_every_task() {
    bench_all_ways("esker-pessimistic");
}

#[test]
#[cfg(feature = "engine")]
fn transactions_work_over_keyspaces() {
    for engine in ["esker", "esker-pessimistic"] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let db = dir.path().display().to_string();
        let mut settings = config();
        let tasks = "fillaccounts,zipfiantransaction,readtransaction,updaterandom";
        for (flag, value) in [
            ("engines", engine),
            ("num", "2000"),
            ("threads", "3"),
            ("record", "none"),
            ("db", &db),
            ("repetitions", "1"),
            ("esker.keyspaces", "16"),
            ("benchmarks", tasks),
        ] {
            settings.set(flag, value).expect("a flag");
        }
        let mut messages = Vec::new();
        let outcome = run(&settings, &mut Vec::new(), &mut messages).expect("runs");
        assert_eq!(outcome.exit_code, 0, "{}", String::from_utf8_lossy(&messages));
        let counts = outcome.record.samples.iter().filter(|s| s.transactions.is_some());
        assert_eq!(counts.count(), 2);
    }
}

#[test]
fn unknown_and_missing_engines_return_error_message() {
    let error = |name: &str, path: Option<&str>| match engine_named(name, path) {
        Ok(_) => panic!("{name} should not load"),
        Err(error) => error,
    };
    assert_eq!(error("leveldbb", None).kind(), LabErrorKind::Usage);
    let absent = error("fork", Some("/nonexistent/lib.so"));
    assert_eq!(absent.kind(), LabErrorKind::NotInstalled);
    assert!(absent.to_string().contains("/nonexistent/lib.so"), "{absent}");
    let mut settings = config();
    settings.set("engines", "leveldb,leveldb").expect("a flag");
    assert!(run(&settings, &mut Vec::new(), &mut Vec::new()).is_err());
    settings.set("engines", ",").expect("a flag");
    assert!(run(&settings, &mut Vec::new(), &mut Vec::new()).is_err());
}

#[test]
fn kept_store_is_read_again() {
    let Ok(_) = engine_named("leveldb", None) else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut settings = config();
    let db = dir.path().display().to_string();
    for (flag, value) in [
        ("engines", "leveldb"),
        ("num", "500"),
        ("record", "none"),
        ("db", &db),
        ("repetitions", "1"),
        ("benchmarks", "fillseq"),
    ] {
        settings.set(flag, value).expect("a flag");
    }
    run(&settings, &mut Vec::new(), &mut Vec::new()).expect("fills");
    settings.set("use_existing_db", "1").expect("a flag");
    settings.set("benchmarks", "fillseq,readrandom,readseq").expect("a flag");
    let again = run(&settings, &mut Vec::new(), &mut Vec::new()).expect("reads");
    let samples = &again.record.samples;
    assert!(samples[0].not_available);
    assert_eq!((samples[1].found, samples[2].found), (Some(500), Some(500)));
    assert_eq!(again.exit_code, 0);
}

#[test]
fn every_engine_runs_every_ycsb_workload_with_correct_content() {
    for engine in esker_peers::bench::ENGINES {
        if engine_named(engine, None).is_err() {
            continue;
        }
        for letter in ["a", "b", "c", "d", "e", "f"] {
            let mut properties = Properties::core(letter).expect("a to f");
            let threads = if letter == "a" { "3" } else { "1" };
            for (name, value) in
                [("recordcount", "800"), ("operationcount", "1500"), ("threadcount", threads)]
            {
                properties.set(name, value);
            }
            properties.set(&format!("{engine}.write_buffer_size"), "65536");
            let (load, run) = (true, true);
            let base = config();
            let ycsb = YcsbRun { engine: (*engine).into(), properties, load, run, base };
            let samples = esker_peers::ycsb::run(&ycsb, &mut Vec::new()).expect("runs");
            assert_eq!(samples.len(), 2);
            for sample in samples {
                assert_eq!(sample.error, None, "{engine}, workload {letter}");
                assert_eq!(sample.wrong, 0);
            }
        }
    }
}

#[test]
#[cfg(feature = "engine")]
fn overwrite_storm_samples_space_of_each_bound_and_compaction_style() {
    use esker_lab::experiment::check::Experiment;
    use esker_lab::experiment::plan::Scale;
    use esker_lab::lab::LabOptions;
    use esker_lab::report::lab_html;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let found = esker_lab::experiment::find::find("space").expect("built in");
    let known = esker_peers::lab::known();
    let experiment = Experiment::parse(&found.name, &found.text, &known).expect("right");
    let mut base = config();
    for (flag, value) in [
        ("db", dir.path().join("db").display().to_string()),
        ("record", "none".into()),
        ("space_every_ms", "5".into()),
    ] {
        base.set(flag, &value).expect("a flag");
    }
    let options = LabOptions {
        scale: Scale::Times(0.005),
        scale_text: "0.005".into(),
        repetitions: Some(1),
        engines: None,
        series: Vec::new(),
        resume: None,
        base,
    };
    let mut messages = Vec::new();
    let outcome = esker_peers::lab::run(&experiment, &options, &mut messages).expect("runs");
    let text = String::from_utf8_lossy(&messages);
    assert!(!outcome.failed, "{text}");
    let engines = ["esker", "rocksdb"].into_iter().filter(|name| engine_named(name, None).is_ok());
    let points: usize = engines.map(|name| if name == "esker" { 5 } else { 2 }).sum();
    assert_eq!(outcome.record.samples.len(), points, "{text}");
    for sample in outcome.record.samples.iter().map(|sample| &sample.sample) {
        assert_eq!((sample.operations, &sample.error), (50_000, &None));
        let space = sample.space.as_ref().expect("sampled");
        assert!(space.samples.len() > 2 && space.most_bytes() > sample.live_bytes, "{space:?}");
    }
    let page = lab_html::page(&experiment, &outcome.record);
    assert!(page.contains("Space over time"));
}

/// Options of RocksDB alone: a value of each, and how RocksDB writes it down.
const ROCKSDB_OPTIONS: &[(&str, &str, &str)] = &[
    ("compaction_style", "universal", "kCompactionStyleUniversal"),
    ("level_compaction_dynamic_level_bytes", "false", "false"),
    ("compaction_pri", "round_robin", "kRoundRobin"),
    ("level0_file_num_compaction_trigger", "2", "2"),
    ("max_bytes_for_level_base", "64M", "67108864"),
    ("bottommost_compression", "zstd", "kZSTD"),
    ("max_write_buffer_number", "3", "3"),
    ("max_background_jobs", "4", "4"),
    ("bytes_per_sync", "1M", "1048576"),
    ("allow_concurrent_memtable_write", "false", "false"),
    ("enable_pipelined_write", "true", "true"),
    ("memtable_prefix_bloom_size_ratio", "0.1", "0.1"),
    ("memtable_whole_key_filtering", "true", "true"),
    ("use_direct_reads", "true", "true"),
    ("use_direct_io_for_flush_and_compaction", "true", "true"),
    ("enable_blob_files", "true", "true"),
    ("min_blob_size", "4K", "4096"),
    ("blob_compression_type", "lz4", "kLZ4Compression"),
    ("enable_blob_gc", "true", "true"),
    ("blob_gc_age_cutoff", "0.5", "0.5"),
    ("index_type", "two_level_index_search", "kTwoLevelIndexSearch"),
    ("partition_filters", "true", "true"),
    ("data_block_index_type", "binary_search_and_hash", "kDataBlockBinaryAndHash"),
    ("cache_index_and_filter_blocks", "true", "true"),
    ("pin_l0_filter_and_index_blocks_in_cache", "true", "true"),
    ("format_version", "5", "5"),
];

#[test]
fn each_option_of_rocksdb_alone_is_set_and_a_wrong_value_is_an_error() {
    use esker_lab::target::Engine;
    let Ok(engine) = engine_named("rocksdb", None) else {
        eprintln!("skipped: RocksDB is not installed");
        return;
    };
    // Returns what RocksDB wrote down about its options.
    let written = |dir: &std::path::Path| {
        let files =
            std::fs::read_dir(dir).expect("a folder").map(|file| file.expect("a file").path());
        let is_options = |path: &std::path::PathBuf| path.to_string_lossy().contains("OPTIONS-");
        let path = files.filter(is_options).max().expect("a file of options");
        std::fs::read_to_string(path).expect("text")
    };
    let open = |option: &str, value: &str, as_shipped: bool| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut settings = config();
        settings.set(&format!("rocksdb.{option}"), value).expect("a known option");
        if option == "partition_filters" {
            // RocksDB refuses or ignores it with any other index.
            settings.set("rocksdb.index_type", "two_level_index_search").expect("a known option");
        }
        settings.store.as_shipped = as_shipped;
        let opened = Engine::open(&*engine, &dir.path().join("db"), &settings.store);
        opened.map(|_| written(&dir.path().join("db"))).map_err(|error| error.to_string())
    };
    let mut set = 0;
    for (option, value, known) in ROCKSDB_OPTIONS.iter().copied() {
        for as_shipped in [false, true] {
            let written = match open(option, value, as_shipped) {
                // An earlier version of the library, such as Debian's, lacks some.
                Err(error) if error.contains("does not export") => continue,
                opened => opened.expect(option),
            };
            set += 1;
            let written_as = match option {
                "enable_blob_gc" => "enable_blob_garbage_collection",
                "blob_gc_age_cutoff" => "blob_garbage_collection_age_cutoff",
                same => same,
            };
            let line = format!("  {written_as}={known}");
            assert!(written.lines().any(|own| own.starts_with(&line)), "{line}: {written}");
        }
        let error = open(option, "-1", false).expect_err("a wrong value");
        assert!(error.contains(&format!("rocksdb.{option}: expected ")), "{error}");
    }
    assert!(set >= 30, "{set} options were set");
    // RocksDB refuses what its reader does not know, so the option has reached it.
    let error = open("format_version", "99", true).expect_err("an unknown version");
    assert!(error.contains("BlockBasedTable"), "{error}");
}
