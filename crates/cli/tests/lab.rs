//! Experiments from the command line.

mod common;

use common::Place;

const TEXT: &str = "title = \"Mine\"\nengines = [\"esker\", \"reference\"]\nrepetitions = 1\n\n\
                    [[series]]\nname = \"fill\"\ntasks = \"fillseq,readrandom\"\nentries = 300\n";

#[test]
fn an_experiment_is_checked_run_reported_and_compared() {
    let place = Place::new();
    place.file("mine.toml", TEXT);
    assert_eq!(place.ok(&["lab", "check", "mine.toml"]), "mine.toml: right\n");
    let text = place.ok(&["lab", "run", "mine.toml", "--html", "page.html"]);
    assert!(text.contains("fill, us/op") && text.contains("readrandom"), "{text}");
    assert!(std::fs::read_to_string(place.path("page.html")).unwrap().contains("<svg"));
    let again = place.ok(&["lab", "report", "mine", "--form", "csv"]);
    assert_eq!(again.lines().count(), 1 + 4, "{again}");
    let record = std::fs::read_dir(place.path("bench/record")).unwrap().next().unwrap().unwrap();
    let record = record.path().display().to_string();
    let same = place.ok(&["lab", "compare", &record, &record]);
    assert!(same.contains("0 slower"), "{same}");
}

#[test]
fn mistakes_are_told_by_line_and_nothing_runs() {
    let place = Place::new();
    place.file("bad.toml", TEXT.replace("reference", "nobody").replace("300", "0"));
    let ran = place.run(&["lab", "check", "bad.toml"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("bad.toml:2: unknown engine \"nobody\""), "{}", ran.err);
    assert!(ran.err.contains("bad.toml:8: entries"), "{}", ran.err);
    place.fails(&["lab", "run", "bad.toml"], 2, "2 in all");
    place.fails(&["lab", "run", "nothing"], 2, "leveldb-knobs");
    place.fails(&["lab", "report", "mine"], 4, "bench/record");
    assert!(!place.path("bench").exists());
}

#[test]
fn every_built_in_experiment_is_right() {
    let place = Place::new();
    let list = place.ok(&["lab", "list"]);
    assert!(list.lines().count() > 0);
    for line in list.lines() {
        let name = line.split('\t').next().unwrap();
        assert_eq!(place.ok(&["lab", "check", name]), format!("{name}: right\n"));
    }
}

#[test]
fn ycsb_takes_its_properties_and_prints_its_lines() {
    let place = Place::new();
    place.file("small", "recordcount=2000\noperationcount=3000\nthreadcount=2\n");
    for (letter, kinds) in [
        ("a", "[READ], Operations|[UPDATE], Operations"),
        ("c", "[READ], Return=OK, 3000"),
        ("d", "[INSERT], Operations"),
        ("e", "[SCAN], Operations"),
        ("f", "[READ-MODIFY-WRITE], Operations"),
    ] {
        let file = format!("workload{letter}");
        let option = "esker.block_size=1024";
        let out = place.ok(&["lab", "ycsb", "--run", "-P", &file, "-P", "small", "-p", option]);
        assert!(out.starts_with("[OVERALL], RunTime(ms), "), "{out}");
        for kind in kinds.split('|') {
            assert!(out.contains(kind), "{letter}: {kind} is missing: {out}");
        }
    }
    let load = place.ok(&["lab", "ycsb", "--load", "-P", "small", "--db", "reference"]);
    assert!(load.contains("[INSERT], Return=OK, 2000"), "{load}");
    place.fails(&["lab", "ycsb", "-P", "nowhere"], 4, "nowhere");
    place.fails(&["lab", "ycsb", "-p", "reedproportion=1"], 2, "reedproportion");
    place.fails(&["lab", "ycsb", "-p", "esker.nonsense=1"], 2, "nonsense");
}

#[test]
fn engines_are_listed_and_one_that_must_is_run_in_a_process_of_its_own() {
    let place = Place::new();
    let list = place.ok(&["lab", "engines"]);
    for name in ["esker", "leveldb", "rocksdb", "wiredtiger", "berkeleydb", "sled"] {
        assert!(list.lines().any(|line| line.trim().starts_with(name)), "{name}: {list}");
    }
    let ready = |name: &str| {
        let json = place.ok(&["--json", "lab", "engines"]);
        let own = json.lines().find(|line| line.contains(&format!("\"engine\":\"{name}\"")));
        own.is_some_and(|line| {
            line.contains("\"ready\":true") && line.contains("own_process\":true")
        })
    };
    place.fails(&["lab", "engines", "install", "lmdb"], 2, "liblmdb0");
    for name in ["berkeleydb", "wiredtiger"] {
        if !ready(name) {
            continue;
        }
        place.file("mine.toml", TEXT);
        let text = place.ok(&["lab", "run", "mine.toml", "--engines", &format!("esker,{name}")]);
        assert!(text.contains(name) && !text.contains("n/a"), "{text}");
        let bench = ["bench", "--num=500", "--repetitions=2", "--record=none"];
        let engines = format!("--engines={name}");
        let rows = place.ok(&[&bench[..], &[&engines, "--benchmarks=fillseq,readrandom"]].concat());
        assert!(rows.contains("(500 of 500 found)"), "{rows}");
        let lines = place.ok(&["lab", "ycsb", "--db", name, "-P", "workloada", "--run"]);
        assert!(lines.contains("[READ], Operations"), "{lines}");
    }
}

#[test]
fn a_library_is_named_by_its_path_and_a_wrong_one_is_a_sentence() {
    let place = Place::new();
    place.file("mine.toml", TEXT);
    place.file("lib.so", "no library");
    let path = format!("fork:{}", place.path("lib.so").display());
    let ran = place.run(&["lab", "run", "mine.toml", "--engines", &format!("esker,{path}")]);
    assert_eq!(ran.code, 0, "the others go on: {}", ran.err);
    assert!(ran.err.contains("cannot load") && ran.out.contains("fork: n/a"), "{}", ran.err);
}

/// Runs a built-in experiment at its smallest; everything it promises must hold.
fn smallest(name: &str) {
    let place = Place::new();
    let args =
        ["lab", "run", name, "--scale", "0.00001", "--repetitions", "1", "--engines", "esker"];
    let ran = place.run(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("esker"), "{}", ran.out);
}

#[test]
fn projectdb_runs() {
    smallest("projectdb");
}

#[test]
fn leveldb_knobs_runs() {
    smallest("leveldb-knobs");
}

#[test]
fn pebblesdb_runs() {
    smallest("pebblesdb");
}

#[test]
fn kvstore_runs() {
    smallest("kvstore");
}

#[test]
fn ycsb_tuning_runs() {
    smallest("ycsb-tuning");
}
