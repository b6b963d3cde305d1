//! `esker stats` with `--openmetrics` and `--live`, and `esker top`, beside a store that this process
//! has open.

mod common;

use common::TestDir;
use esker::{Db, Options};

/// Opens a store for writing, with a hundred pairs, and waits until they are published.
fn open(dir: &TestDir, name: &str) -> Db {
    let db = Db::open(dir.path(name), Options::default()).unwrap();
    (0..100u32).for_each(|i| db.put(i.to_be_bytes(), "value").unwrap());
    let began = std::time::Instant::now();
    while Db::live_status(dir.path(name)).unwrap().metrics.user_ops < 100 {
        assert!(began.elapsed().as_secs() < 120, "the store does not publish its metrics");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    db
}

#[test]
fn openmetrics_text_is_printed() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "a", "1"]);
    let text = dir.ok(&["stats", "db", "--openmetrics"]);
    assert!(text.contains("# TYPE esker_user_ops counter\n"), "{text}");
    assert!(text.contains("\nesker_last_seqno 1\n") && text.ends_with("# EOF\n"), "{text}");
    dir.fails(&["stats", "db", "--openmetrics", "--json"], 2, "cannot be used with");
    dir.fails(&["stats", "none", "--openmetrics"], 4, "there is no store here");
}

#[test]
fn live_metrics_are_those_of_the_running_store() {
    let dir = TestDir::new();
    let db = open(&dir, "db");
    let text = dir.ok(&["stats", "--live", "db"]);
    let process = format!("ago by process {}, which opened", std::process::id());
    assert!(text.starts_with("published ") && text.contains(&process), "{text}");
    assert!(text.contains("in 100 operations"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&dir.ok(&["stats", "--live", "db", "--json"])).unwrap();
    assert_eq!(json["user_ops"], 100);
    assert_eq!(json["live"]["process"], std::process::id());
    assert!(json["live"]["age_ms"].is_u64() && json["memory"]["budget_bytes"].as_u64() > Some(0));
    let text = dir.ok(&["stats", "--live", "db", "--openmetrics"]);
    assert!(text.contains("\nesker_user_ops_total 100\n"), "{text}");
    // Without --live the counters of the other process are not known.
    assert!(dir.ok(&["stats", "db"]).contains("in 0 operations"));
    dir.fails(&["stats", "--live", "db", "--set", "block_size=8k"], 2, "--set has no effect");
    let status = std::fs::read(dir.path("db/STATUS")).unwrap();
    db.close().unwrap();
    dir.fails(&["stats", "--live", "db"], 4, "not open for writing");
    dir.fails(&["stats", "--live", "none"], 4, "there is no store here");
    // The last publication of a process that was killed is shown with its age.
    dir.file("db/STATUS", &status);
    assert!(dir.ok(&["stats", "--live", "db"]).contains(&process));
    dir.file("db/STATUS", &status[1..]);
    dir.fails(&["stats", "--live", "db"], 3, "expected the published metrics");
}

#[test]
fn top_prints_a_line_for_each_store_and_refresh() {
    let dir = TestDir::new();
    let stores = [open(&dir, "one"), open(&dir, "two")];
    let text = dir.ok(&["top", "one", "two", "--count", "3", "--interval", "0.01"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 3, "{text}");
    assert!(lines[0].contains("writes/s") && lines[0].ends_with("store"), "{text}");
    assert!(lines[1].ends_with("  one") && lines[6].ends_with("  two"), "{text}");
    assert!(!text.contains('\x1b'), "a file gets no terminal codes: {text}");
    // The columns stand under their headings.
    let widths: Vec<usize> = lines.iter().map(|line| line.rfind("  ").unwrap()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{text}");

    let json = dir.ok(&["top", "one", "two", "--count", "2", "--interval", "0.01", "--json"]);
    let objects: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 4);
    for (at, (object, name)) in objects.iter().zip(["one", "two", "one", "two"]).enumerate() {
        assert_eq!(object["db"], name);
        assert_eq!(object["metrics"]["user_ops"], 100);
        assert_eq!(object["live"]["process"], std::process::id());
        // The first rate is the average since the opening. Nothing is written now.
        let rate = object["rates"]["user_ops_per_second"].as_f64().unwrap();
        assert!(rate > 0.0 || at >= 2, "{object}");
    }
    for db in stores {
        db.close().unwrap();
    }
}

#[test]
fn top_names_stores_that_publish_nothing() {
    let dir = TestDir::new();
    dir.ok(&["put", "closed", "a", "1"]);
    dir.fails(&["top", "closed"], 4, "not open for writing");
    dir.fails(&["top", "closed", "none", "--json"], 4, "\"kind\":\"not found\"");
    let db = open(&dir, "open");
    let text = dir.ok(&["top", "closed", "open", "--count", "1"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[1].starts_with("closed: ") && lines[1].contains("status_file"), "{text}");
    assert!(lines[2].ends_with("  open"), "{text}");
    let json = dir.ok(&["top", "closed", "open", "--count", "1", "--json"]);
    assert!(json.lines().next().unwrap().contains("\"kind\":\"not found\""), "{json}");
    db.close().unwrap();
}

#[test]
fn wrong_arguments_of_top_are_refused() {
    let dir = TestDir::new();
    dir.fails(&["top"], 2, "<DBS>");
    for interval in ["0", "-1", "x", "1e9"] {
        let argument = format!("--interval={interval}");
        dir.fails(&["top", "db", &argument], 2, "expected seconds from 0.01");
    }
    dir.fails(&["top", "db", "--count", "many"], 2, "many");
    dir.fails(&["top", "db", "--set", "block_size=8k"], 2, "--set");
}
