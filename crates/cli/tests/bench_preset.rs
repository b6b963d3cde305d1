//! Tests of `esker bench --preset`: the tables of redb, RocksDB and YCSB at tiny sizes.
//!
//! Invariant: a table has exactly the rows and columns that its community knows.

mod common;

use common::TestDir;
use serde_json::Value;

/// Columns of the report of RocksDB's `tools/benchmark.sh`.
const COLUMNS: &str = "ops_sec mb_sec lsm_sz blob_sz c_wgb w_amp c_mbps c_wsecs c_csecs b_rgb \
                       b_wgb usec_op p50 p99 p99.9 p99.99 pmax uptime stall% Nstall u_cpu s_cpu \
                       rss test date version job_id";

/// Rows of the table in redb's README, and the compaction.
const ROWS: [&str; 16] = [
    "bulk load",
    "individual writes",
    "batch writes",
    "len()",
    "random reads",
    "random reads",
    "random range reads",
    "random range reads",
    "random reads (4 threads)",
    "random reads (8 threads)",
    "random reads (16 threads)",
    "random reads (32 threads)",
    "removals",
    "compaction",
    "uncompacted size",
    "compacted size",
];

fn bench(dir: &TestDir, preset: &str, flags: &[&str]) -> String {
    let preset = format!("--preset={preset}");
    dir.ok(&[&["bench", &preset, "--engines=esker,reference"][..], flags].concat())
}

fn objects(text: &str) -> Vec<Value> {
    let value = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(value).collect()
}

#[test]
fn redb_preset_prints_the_rows_of_the_readme() {
    let dir = TestDir::new();
    let text = bench(&dir, "redb", &["--num=3000", "--repetitions=2"]);
    let (head, table) = text.split_once("\n\n").expect("a line before the table");
    assert!(head.contains("at scale 0.0006: 3000 pairs in bulk"), "{head}");
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
    };
    let lines: Vec<Vec<String>> = table.lines().map(cells).collect();
    assert_eq!(lines[0], ["", "esker", "reference"]);
    let names: Vec<&str> = lines[2..].iter().map(|line| line[0].as_str()).collect();
    assert_eq!(names, ROWS);
    for line in &lines[2..] {
        let unit = if line[0].ends_with("size") { "iB" } else { "ms" };
        assert!(line[1].trim_matches('*').ends_with(unit), "{line:?}");
    }
    // The in-memory engine syncs and stores nothing.
    for row in [0, 1, 2, 13, 14, 15] {
        assert_eq!(lines[row + 2][2], "N/A", "{:?}", lines[row + 2]);
    }
    let json = objects(&bench(&dir, "redb", &["--num=500", "--json", "--reads=40"]));
    assert_eq!(json.len(), 2 * ROWS.len());
    assert_eq!((&json[8]["row"], &json[8]["operations"]), (&"random reads".into(), &40.into()));
    assert!(json[8]["milliseconds"].is_number() && json[8]["bytes"].is_null(), "{}", json[8]);
    assert_eq!(json[10]["row"], "random reads#2");
    assert!(!dir.path("bench").exists(), "no record is written");
}

#[test]
fn rocksdb_preset_prints_the_columns_of_the_script() {
    let dir = TestDir::new();
    let flags = ["--num=2000", "--value_size=50", "--threads=2", "--record=none"];
    let text = bench(&dir, "rocksdb-benchmark.sh", &flags);
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().expect("a header").split('\t').collect();
    assert_eq!(header.join(" "), COLUMNS);
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    let of = |name: &str| header.iter().position(|column| *column == name).expect(name);
    let tests: Vec<&str> = rows.iter().map(|row| row[of("test")]).collect();
    let known = [
        "fillseq.wal_enabled.v50",
        "readrandom.t2",
        "multireadrandom.t2",
        "fwdrange.t2",
        "overwrite.t2.s0",
        "readwhilewriting.t2",
    ];
    assert_eq!(tests, [known, known].concat());
    for row in &rows {
        assert_eq!(row.len(), header.len());
        let esker = row[of("job_id")] == "esker";
        for column in ["ops_sec", "usec_op", "p50", "p99.99", "pmax"] {
            assert!(row[of(column)].parse::<f64>().is_ok(), "{column}: {row:?}");
        }
        for column in ["lsm_sz", "c_wgb", "stall%", "uptime"] {
            assert_eq!(!row[of(column)].is_empty(), esker, "{column}: {row:?}");
        }
        for column in ["c_wsecs", "b_rgb", "Nstall"] {
            assert_eq!(row[of(column)], "", "no engine here counts {column}");
        }
    }
    let json = objects(&bench(&dir, "rocksdb-benchmark.sh", &[&flags[..], &["--json"]].concat()));
    assert_eq!(json.len(), rows.len());
    assert!(json[0]["ops_sec"].is_number() && json[0]["Nstall"].is_null(), "{}", json[0]);
}

#[test]
fn ycsb_preset_prints_the_lines_of_all_workloads() {
    let dir = TestDir::new();
    let flags = ["--num=300", "--reads=200", "--value_size=100"];
    let text = bench(&dir, "ycsb", &flags);
    let names = ["Load A", "A", "B", "C", "D", "E", "F"];
    for engine in ["esker", "reference"] {
        for name in names {
            let head = format!("# {engine}, workload {name}, run 1\n[OVERALL], RunTime(ms), ");
            assert!(text.contains(&head), "{head}: {text}");
        }
    }
    assert_eq!(text.lines().filter(|line| line.starts_with('#')).count(), 2 * names.len());
    assert!(text.contains("[INSERT], Return=OK, 300\n"), "{text}");
    assert!(text.contains("[READ], 99thPercentileLatency(us), "), "{text}");
    let json = objects(&bench(&dir, "ycsb", &[&flags[..], &["--json"]].concat()));
    let workloads: Vec<&str> = json.iter().map(|o| o["workload"].as_str().unwrap()).collect();
    assert_eq!(workloads, [names, names].concat());
    let reads = &json[3]["results"]["READ"];
    assert_eq!((&reads["Operations"], &reads["Return=OK"]), (&200.0.into(), &200.0.into()));
}

#[test]
fn preset_with_a_contradiction_is_a_sentence() {
    let dir = TestDir::new();
    for (flags, part) in [
        (["--preset=redb", "--threads=4"], "--threads contradicts --preset redb"),
        (["--preset=redb", "--csv=rows.csv"], "--csv contradicts --preset redb"),
        (["--preset=redb", "--key_size=1"], "key_size 1 is too short"),
        (["--preset=rocksdb-benchmark.sh", "--benchmarks=fillseq"], "which has its own tasks"),
        (["--preset=ycsb", "--value_size=15"], "must be a multiple of 10"),
        (["--preset=ycsb", "--engines=nobody"], "unknown engine \"nobody\""),
        (["--preset=lmdb", "--num=5"], "the presets are redb, rocksdb-benchmark.sh, ycsb"),
    ] {
        dir.fails(&[&["bench", "--num=500"][..], &flags[..]].concat(), 2, part);
    }
    assert!(!dir.path("bench").exists());
    let help = dir.ok(&["bench", "--help"]);
    for part in ["--preset=NAME", "  rocksdb-benchmark.sh ", "  ycsb "] {
        assert!(help.contains(part), "{help}");
    }
    assert!(dir.ok(&["man", "bench"]).contains("preset"));
}
