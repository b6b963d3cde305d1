//! Tests of experiments from the command line.

mod common;

use common::TestDir;

const TEXT: &str = "title = \"Mine\"\nengines = [\"esker\", \"reference\"]\nrepetitions = 1\n\n\
                    [[series]]\nname = \"fill\"\ntasks = \"fillseq,readrandom\"\nentries = 300\n";

#[test]
fn experiment_is_checked_run_reported_and_compared() {
    let dir = TestDir::new();
    dir.file("mine.toml", TEXT);
    assert_eq!(dir.ok(&["lab", "check", "mine.toml"]), "mine.toml: right\n");
    let text = dir.ok(&["lab", "run", "mine.toml", "--html", "page.html"]);
    assert!(text.contains("fill, us/op") && text.contains("readrandom"), "{text}");
    assert!(std::fs::read_to_string(dir.path("page.html")).unwrap().contains("<svg"));
    let again = dir.ok(&["lab", "report", "mine", "--form", "csv"]);
    assert_eq!(again.lines().count(), 1 + 4, "{again}");
    let files = std::fs::read_dir(dir.path("bench/record")).unwrap();
    let files: Vec<_> = files.map(|entry| entry.unwrap().path().display().to_string()).collect();
    let [record] = files.as_slice() else { panic!("half a record is left behind: {files:?}") };
    let same = dir.ok(&["lab", "compare", record, record]);
    assert!(same.contains("0 slower") && same.contains("1.00 ?"), "{same}");
    let by_name = dir.ok(&["lab", "compare", "mine", record]);
    assert!(by_name.contains("0 slower"), "a name is the newest record: {by_name}");
    dir.fails(&["lab", "compare", "mine~1", "mine"], 2, "holds 1 record(s) of mine");
    dir.ok(&["lab", "run", "mine.toml", "--set", "compression=lz4"]);
    let other = dir.run(&["lab", "compare", "mine~1", "mine"]);
    assert_eq!(other.code, 2, "{}", other.err);
    let difference = "not comparable: esker, compression: snappy before, lz4 after";
    assert!(other.err.contains(difference) && other.err.contains("--force"), "{}", other.err);
    let forced = dir.run(&["lab", "compare", "mine~1", "mine", "--force"]);
    assert!(forced.err.contains(difference) && forced.out.contains("slower"), "{}", forced.out);
    std::fs::remove_dir_all(dir.path("bench")).unwrap();
    let text = std::fs::read_to_string(dir.path("mine.toml")).unwrap();
    let records = ["0.5", "1"].map(|scale| {
        dir.file("mine.toml", &text);
        dir.ok(&["lab", "run", "mine.toml", "--scale", scale, "--record", scale]);
        let folder = std::fs::read_dir(dir.path(scale)).unwrap();
        folder.map(|entry| entry.unwrap().path().display().to_string()).next().unwrap()
    });
    dir.fails(&["lab", "compare", &records[0], &records[1]], 2, "no point in common");
}

#[test]
fn rounds_of_a_program_are_run_reported_and_resumed() {
    let dir = TestDir::new();
    dir.file(
        "round.sh",
        "read -r request\ncase $request in *'\"threads\":2,'*) ;; *) exit 5 ;; esac\n\
         echo '{\"about\": \"a made-up system\"}'\n\
         echo '{\"phase\": \"first\", \"operations\": 500, \"seconds\": 0.5}'\n\
         [ \"$1\" = broken ] && exit 7\n\
         echo '{\"phase\": \"second\", \"operations\": 500, \"seconds\": 1, \"wrong\": 0}'\n",
    );
    let program =
        |name: &str| format!("[programs.{name}]\ncommand = [\"sh\", \"round.sh\", \"{name}\"]\n");
    let text = format!(
        "title = \"Programs\"\nengines = [\"mine\", \"other\"]\nrepetitions = 2\n{}{}{}\
         [[series]]\nname = \"both\"\nphases = [\"first\", \"second\"]\nentries = 500\n\
         threads = 2\nunit = \"ops/s\"\nrows = \"phase\"\ncolumns = \"engine\"\n",
        program("mine"),
        program("other"),
        program("broken"),
    );
    dir.file("programs.toml", &text);
    let shown = dir.ok(&["lab", "run", "programs.toml", "--html", "page.html"]);
    assert!(shown.contains("1000 (1.00"), "{shown}");
    assert!(shown.contains("a made-up system") && !shown.contains("checksums"), "{shown}");
    let page = std::fs::read_to_string(dir.path("page.html")).unwrap();
    assert!(page.contains("A program runs the round") && !page.contains("Every read is compared"));
    assert_eq!(dir.ok(&["lab", "report", "programs", "--form", "csv"]).lines().count(), 1 + 4);
    let record = std::fs::read_dir(dir.path("bench/record")).unwrap().next().unwrap().unwrap();
    let record = record.path().display().to_string();
    let again = dir.run(&["lab", "run", "programs.toml", "--resume", &record]);
    assert!(again.code == 0 && !again.err.contains("round 1 of"), "{}", again.err);
    let broken = dir.run(&["lab", "run", "programs.toml", "--engines", "broken"]);
    assert!(broken.code != 0 && broken.err.contains("exit status: 7"), "{}", broken.err);
    dir.file("programs.toml", text.replace("threads = 2", "threads = 3"));
    let none = dir.run(&["lab", "run", "programs.toml"]);
    assert!(none.code != 0 && none.err.contains("no phase was reported"), "{}", none.err);
    dir.file("programs.toml", text.replace("threads = 2", "steps = 2"));
    dir.fails(&["lab", "check", "programs.toml"], 2, "steps is not for \"mine\"");
}

#[test]
fn trend_shows_one_series_of_several_records() {
    let dir = TestDir::new();
    let text = TEXT.replace("repetitions = 1", "repetitions = 2");
    let other = text[text.find("[[series]]").unwrap()..].replace("\"fill\"", "\"other\"");
    dir.file("mine.toml", format!("{text}\n{other}"));
    dir.ok(&["lab", "run", "mine.toml"]);
    dir.fails(&["lab", "trend", "mine", "--series", "fill"], 2, "needs two records or more");
    dir.ok(&["lab", "run", "mine.toml", "--series", "fill"]);
    let records = ["mine~1", "mine"];
    dir.fails(&["lab", "trend", "mine~1", "mine"], 2, "\"fill\" (2 records), \"other\" (1 record)");
    dir.fails(&["lab", "trend", "mine", "nowhere.json"], 4, "nowhere.json");
    dir.fails(&["lab", "trend", "mine", "mine.toml"], 2, "no record of mine.toml");
    dir.fails(&["lab", "trend"], 2, "<RECORDS>");
    let args = |more: &[&'static str]| {
        [&["lab", "trend", records[0], records[1], "--series", "fill"][..], more].concat()
    };
    // What the machine did meanwhile decides whether a row got worse.
    let ran = dir.run(&args(&[]));
    assert!(ran.code <= 1 && ran.out.contains("esker : reference"), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("readrandom\n") && ran.out.contains("among 4 rows"), "{}", ran.out);
    let json: serde_json::Value = serde_json::from_str(&dir.run(&args(&["--json"])).out).unwrap();
    assert_eq!(json["records"].as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!((&json["series"], &json["judged_rows"]), (&"fill".into(), &4.into()), "{json}");
    assert!(dir.run(&args(&["--html", "page.html"])).code <= 1);
    assert!(std::fs::read_to_string(dir.path("page.html")).unwrap().contains("<svg"));
    dir.ok(&["lab", "run", "mine.toml", "--set", "compression=lz4"]);
    let ran = dir.run(&["lab", "trend", "mine~1", "mine", "--series", "fill"]);
    let difference =
        "not comparable: records 1 and 2: esker, compression: snappy before, lz4 after";
    assert!(ran.code == 2 && ran.err.contains(difference), "{}", ran.err);
    assert!(ran.err.contains("--force"), "{}", ran.err);
    assert!(dir.run(&["lab", "trend", "mine~1", "mine", "--series", "fill", "--force"]).code <= 1);
}

#[test]
fn experiment_errors_name_their_line_and_nothing_runs() {
    let dir = TestDir::new();
    dir.file("bad.toml", TEXT.replace("reference", "nobody").replace("300", "0"));
    let ran = dir.run(&["lab", "check", "bad.toml"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("bad.toml:2: unknown engine \"nobody\""), "{}", ran.err);
    assert!(ran.err.contains("bad.toml:8: entries"), "{}", ran.err);
    dir.fails(&["lab", "run", "bad.toml"], 2, "2 in all");
    dir.fails(&["lab", "run", "nothing"], 2, "leveldb-knobs");
    dir.fails(&["lab", "report", "mine"], 4, "bench/record");
    assert!(!dir.path("bench").exists());
}

#[test]
fn lab_output_is_json_if_requested() {
    let dir = TestDir::new();
    let value = |text: &str| -> serde_json::Value {
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
    };
    dir.file("mine.toml", TEXT);
    dir.file("bad.toml", TEXT.replace("reference", "nobody"));
    let ran = dir.run(&["lab", "check", "mine.toml", "bad.toml", "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let lines: Vec<_> = ran.out.lines().map(value).collect();
    assert_eq!(lines.len(), 2, "{}", ran.out);
    assert!(lines[0]["ok"] == true && lines[1]["mistakes"][0]["line"] == 2, "{}", ran.out);
    assert_eq!(value(&ran.err)["error"]["kind"], "invalid argument");
    let list = dir.ok(&["lab", "list", "--json"]);
    let all = dir.ok(&["lab", "list"]);
    assert_eq!(list.lines().count(), all.lines().count());
    for (json, text) in list.lines().zip(all.lines()) {
        assert_eq!(value(json)["experiment"], text.split('\t').next().unwrap());
    }
    let ran = dir.run(&["--json", "lab", "run", "mine.toml"]);
    let record = value(&ran.out);
    assert_eq!((ran.code, &record["experiment"]), (0, &"mine".into()), "{}", ran.err);
    assert_eq!(value(&dir.ok(&["lab", "report", "mine", "--json"])), record);
}

#[test]
fn every_built_in_experiment_is_valid() {
    let dir = TestDir::new();
    let list = dir.ok(&["lab", "list"]);
    assert!(list.lines().count() > 0);
    for line in list.lines() {
        let name = line.split('\t').next().unwrap();
        assert_eq!(dir.ok(&["lab", "check", name]), format!("{name}: right\n"));
    }
}

#[test]
fn ycsb_accepts_properties_and_prints_result_lines() {
    let dir = TestDir::new();
    dir.file("small", "recordcount=2000\noperationcount=3000\nthreadcount=2\n");
    for (letter, kinds) in [
        ("a", "[READ], Operations|[UPDATE], Operations"),
        ("c", "[READ], Return=OK, 3000"),
        ("d", "[INSERT], Operations"),
        ("e", "[SCAN], Operations"),
        ("f", "[READ-MODIFY-WRITE], Operations"),
    ] {
        let file = format!("workload{letter}");
        let option = "esker.block_size=1024";
        let out = dir.ok(&["lab", "ycsb", "--run", "-P", &file, "-P", "small", "-p", option]);
        assert!(out.starts_with("[OVERALL], RunTime(ms), "), "{out}");
        for kind in kinds.split('|') {
            assert!(out.contains(kind), "{letter}: {kind} is missing: {out}");
        }
    }
    let load = dir.ok(&["lab", "ycsb", "--load", "-P", "small", "--db", "reference"]);
    assert!(load.contains("[INSERT], Return=OK, 2000"), "{load}");
    dir.fails(&["lab", "ycsb", "-P", "nowhere"], 4, "nowhere");
    dir.fails(&["lab", "ycsb", "-p", "reedproportion=1"], 2, "reedproportion");
    dir.fails(&["lab", "ycsb", "-p", "esker.nonsense=1"], 2, "nonsense");
}

#[test]
fn engines_are_listed_and_run_in_subprocess_if_required() {
    let dir = TestDir::new();
    let list = dir.ok(&["lab", "engines"]);
    for name in ["esker", "leveldb", "rocksdb", "sqlite", "wiredtiger", "berkeleydb", "sled"] {
        assert!(list.lines().any(|line| line.trim().starts_with(name)), "{name}: {list}");
    }
    let ready = |name: &str| {
        let json = dir.ok(&["--json", "lab", "engines"]);
        let own = json.lines().find(|line| line.contains(&format!("\"engine\":\"{name}\"")));
        own.is_some_and(|line| {
            line.contains("\"ready\":true") && line.contains("own_process\":true")
        })
    };
    dir.fails(&["lab", "engines", "install", "lmdb"], 2, "liblmdb0");
    for name in ["berkeleydb", "wiredtiger"] {
        if !ready(name) {
            continue;
        }
        dir.file("mine.toml", TEXT);
        let text = dir.ok(&["lab", "run", "mine.toml", "--engines", &format!("esker,{name}")]);
        assert!(text.contains(name) && !text.contains("n/a"), "{text}");
        let bench = ["bench", "--num=500", "--repetitions=2", "--record=none"];
        let engines = format!("--engines={name}");
        let rows = dir.ok(&[&bench[..], &[&engines, "--benchmarks=fillseq,readrandom"]].concat());
        assert!(rows.contains("(500 of 500 found)"), "{rows}");
        let lines = dir.ok(&["lab", "ycsb", "--db", name, "-P", "workloada", "--run"]);
        assert!(lines.contains("[READ], Operations"), "{lines}");
    }
}

#[test]
fn library_is_selected_by_path_and_wrong_path_is_an_error() {
    let dir = TestDir::new();
    dir.file("mine.toml", TEXT);
    dir.file("lib.so", "no library");
    let path = format!("fork:{}", dir.path("lib.so").display());
    let ran = dir.run(&["lab", "run", "mine.toml", "--engines", &format!("esker,{path}")]);
    assert_eq!(ran.code, 2, "an engine that was named by its path is never left out: {}", ran.err);
    assert!(ran.err.contains("cannot load") && ran.out.is_empty(), "{}", ran.err);
    let ran = dir.run(&["bench", "--engines=reference,mine:/nope.so", "--num=10", "--record=none"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("mine") && ran.err.contains("/nope.so"), "{}", ran.err);
}

#[test]
fn killed_engines_keep_acknowledged_writes() {
    let dir = TestDir::new();
    let kill = ["lab", "engines", "kill", "--kills", "3", "--json"];
    let counts = |engine: &str, durability: &str| -> serde_json::Value {
        let args = [&kill[..], &[engine, "--durability", durability]].concat();
        serde_json::from_str(dir.ok(&args).trim()).expect("one object")
    };
    for durability in ["buffered", "sync"] {
        let kept = counts("esker", durability);
        assert_eq!(
            (&kept["kills"], &kept["lost_keys"], &kept["wrong_keys"]),
            (&3.into(), &0.into(), &0.into())
        );
        assert!(kept["acknowledged"].as_u64().expect("a number") > 0, "{kept}");
        assert_eq!(kept["failure"], serde_json::Value::Null);
    }
    // Without a log, an engine loses what it has in memory: the counts can show a loss.
    let kept = counts("esker", "none");
    assert!(kept["lost_keys"].as_u64().expect("a number") > 0, "{kept}");
    dir.fails(&["lab", "engines", "kill", "reference"], 2, "keeps nothing in files");
    dir.fails(&["lab", "engines", "kill", "nobody"], 2, "unknown engine");
    let listed = dir.ok(&["lab", "engines", "--json"]);
    let is_berkeley = |line: &str| line.contains("\"berkeleydb\"") && line.contains("ready\":true");
    if listed.lines().any(is_berkeley) {
        let args = ["lab", "engines", "kill", "berkeleydb", "--durability", "sync"];
        dir.fails(&args, 2, "cannot sync");
    }
    dir.fails(&["lab", "engines", "kill", "esker", "--durability", "some"], 2, "buffered");
    dir.fails(&["lab", "engines", "kill", "esker", "--kills", "0"], 2, "--kills");
}

const LONG: &str = "title = \"Long\"\nengines = [\"reference\"]\nrepetitions = 40\n\n[[series]]\n\
                    name = \"fill\"\ntasks = \"fillrandom,readrandom\"\nentries = 60000\n";

#[test]
fn interrupted_run_keeps_measurements_and_resumes() {
    let dir = TestDir::new();
    dir.file("long.toml", LONG);
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("esker"))
        .args(["lab", "run", "long.toml"])
        .current_dir(dir.path("."))
        .env("TMPDIR", dir.path("."))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // At the start of the third round, two rounds are in the record.
    while !line.contains("round 3 of 40") {
        line.clear();
        let read = std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
        assert!(read > 0, "it ended before its third round");
    }
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    std::io::Read::read_to_string(&mut stderr, &mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{line}");
    let message = "the record file, if there is one, holds the measurements so far";
    assert!(line.contains(message), "{line}");
    let names = std::fs::read_dir(dir.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|n| n.to_string_lossy().starts_with("esker-bench-")).collect();
    assert!(left.is_empty(), "stores are left behind: {left:?}");
    let files = std::fs::read_dir(dir.path("bench/record")).unwrap();
    let files: Vec<_> = files.map(|entry| entry.unwrap().path().display().to_string()).collect();
    let [record] = files.as_slice() else { panic!("half a record is left behind: {files:?}") };
    let kept = dir.ok(&["lab", "report", record, "--form", "csv"]);
    assert!(kept.lines().count() == 3 && kept.contains("readrandom"), "{kept}");
    let ran = dir.run(&["lab", "run", "long.toml", "--resume", record]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        !ran.err.contains("round 2 of 40") && ran.err.contains("round 40 of 40"),
        "{}",
        ran.err
    );
}

#[test]
fn full_disk_is_an_error_and_keeps_measurements() {
    let dir = TestDir::new();
    let tasks = "fillseq,readrandom,fillrandom,overwrite,overwrite,overwrite";
    let text =
        TEXT.replace("fillseq,readrandom", tasks).replace("entries = 300", "entries = 60000");
    dir.file("mine.toml", text.replace("reference", "leveldb"));
    std::fs::create_dir(dir.path("small")).unwrap();
    // A small tmpfs, removed with the process. Without permission to mount it, the test checks
    // nothing.
    let script = "mount -t tmpfs -o size=4m none small 2>/dev/null || exit 99; \
                  \"$0\" lab run mine.toml --db small/db --record record";
    let output = std::process::Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .arg(assert_cmd::cargo::cargo_bin!("esker"))
        .current_dir(dir.path("."))
        .output();
    let Ok(output) = output else { return };
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !matches!(output.status.code(), Some(0..=5)) {
        return;
    }
    assert_eq!(output.status.code(), Some(4), "{err}");
    assert!(err.contains("space") && !err.contains("panicked"), "{err}");
    assert!(out.contains("fillseq") && out.contains("n/a"), "{out}");
    assert!(std::fs::read_dir(dir.path("record")).unwrap().next().is_some());
}

#[test]
fn store_of_a_killed_process_is_opened_and_compared() {
    let dir = TestDir::new();
    let tasks = "fillrandom,recover,readrandom,recover,open,readseq";
    dir.file("mine.toml", TEXT.replace("fillseq,readrandom", tasks));
    let text = dir.ok(&["lab", "run", "mine.toml"]);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("recover")).collect();
    assert!(rows.iter().any(|row| row.contains("recover#2")), "{text}");
    let csv = dir.ok(&["lab", "report", "mine", "--form", "csv"]);
    let has = |engine: &str, wanted: &str| {
        csv.lines()
            .any(|line| line.contains(engine) && line.contains("recover,") && line.contains(wanted))
    };
    assert!(has("esker", ",1,") && has("reference", "stores nothing on disk"), "{csv}");
    // Without a log the writes are gone with the process, and the task must say so.
    let lost = dir.run(&["lab", "run", "mine.toml", "--set", "durability=none"]);
    assert!(lost.err.contains("the pair that was written last is not there"), "{}", lost.err);
}

#[test]
fn missing_column_error_lists_columns() {
    let dir = TestDir::new();
    dir.file("rows.csv", "id,title\na,b\nc,d\n");
    dir.file("rows.jsonl", "{\"id\":\"a\",\"title\":\"b\"}\n{\"id\":\"c\",\"title\":\"d\"}\n");
    let text = "title = \"T\"\nengines = [\"reference\"]\nrepetitions = 1\n\n[phases.fill]\nstart = \"empty\"\n\
                update = 1\nkeys = \"sequential\"\n\n[[series]]\nname = \"s\"\nphases = [\"fill\"]\nentries = 200\n\
                csv = { key = \"id\", value = \"name\" }\n";
    dir.file("mine.toml", text);
    for file in ["rows.csv", "rows.jsonl"] {
        let ran = dir.run(&["lab", "run", "mine.toml", "--csv", file]);
        assert!(ran.err.contains("no column \"name\"; its columns are id, title"), "{}", ran.err);
        let column = "--value-column=title";
        let csv = format!("--csv={file}");
        let key = "--key-column=id";
        let base = ["bench", "--engines=reference", "--repetitions=1", "--record=none"];
        let rows =
            dir.ok(&[&base[..], &[&csv, key, column, "--benchmarks=fillseq,readrandom"]].concat());
        assert!(rows.contains("(2 of 2 found)"), "{rows}");
    }
}

#[test]
fn skipped_rows_are_reported() {
    let dir = TestDir::new();
    let rows: String = (0..200).map(|i| format!("{i},value {i}\n")).collect();
    dir.file("rows.csv", format!("id,title\n{rows}only one field\n"));
    let text = "title = \"T\"\nengines = [\"reference\"]\nrepetitions = 1\n\n[phases.fill]\nstart = \"empty\"\n\
                update = 1\nkeys = \"sequential\"\n\n[[series]]\nname = \"s\"\nphases = [\"fill\"]\nentries = 100\n\
                csv = { key = \"id\", value = \"title\" }\n";
    dir.file("mine.toml", text);
    let ran = dir.run(&["lab", "run", "mine.toml", "--csv", "rows.csv", "--scale", "full"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("1 bad row(s) were skipped, the first is line 202"), "{}", ran.err);
}

/// Operations that arrive at a fixed rate are equally many on every engine, so no engine is faster
/// by that count. The page must contain the target of each of its links.
#[test]
fn arrival_rates_are_not_compared_as_speed() {
    let dir = TestDir::new();
    let text = "title = \"T\"\nengines = [\"esker\", \"reference\"]\nrepetitions = 2\n\n[phases.serve]\nstart = \"filled\"\n\
                read = 1\nkeys = \"uniform\"\nrate = 20000\n\n[[series]]\nname = \"s\"\nphases = [\"serve\"]\nentries = 300\n";
    dir.file("mine.toml", text);
    let ran = dir.run(&["lab", "run", "mine.toml", "--scale", "full", "--html", "page.html"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let row = ran.out.lines().find(|line| line.starts_with(" serve ")).unwrap();
    assert!(!row.contains('('), "{row}");
    let page = std::fs::read_to_string(dir.path("page.html")).unwrap();
    for (_, target) in
        page.match_indices("href=\"#").map(|(at, link)| (at, &page[at + link.len()..]))
    {
        let name = target.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{name}\"")), "nothing is called {name}");
    }
}

/// Runs a built-in experiment at its smallest scale; all its expectations must hold.
fn smallest(name: &str) {
    let dir = TestDir::new();
    let args =
        ["lab", "run", name, "--scale", "0.00001", "--repetitions", "1", "--engines", "esker"];
    let ran = dir.run(&args);
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

#[test]
fn queue_and_bulk_load_run() {
    smallest("queue");
    smallest("bulk-load");
}

#[test]
fn mixgraph_runs() {
    smallest("mixgraph");
}

/// Runs the series of `speed` that differ from all series tested above; the others take minutes in
/// total.
#[test]
fn series_of_speed_run_by_name() {
    let dir = TestDir::new();
    let mut args = vec!["lab", "run", "speed", "--scale", "0.00001", "--engines", "esker"];
    for series in ["seek and 50 next", "deletes", "stalls", "open", "space"] {
        args.extend(["--series", series]);
    }
    args.extend(["--repetitions", "1"]);
    let ran = dir.run(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in ["deletes, slowest operation, ms", "longest pause, ms", "disk / live data", "ms/op"]
    {
        assert!(ran.out.contains(part), "{part} is missing: {}", ran.out);
    }
    assert!(!ran.out.contains("YCSB"), "{}", ran.out);
    let ran = dir.run(&["lab", "run", "speed", "--series", "seeks"]);
    assert!(ran.code != 0 && ran.err.contains("the series are in order; at random"), "{}", ran.err);
}

/// A writer with a rate beside a reader that goes on until the writer is done.
#[test]
fn states_runs_by_name() {
    let dir = TestDir::new();
    let mut args = vec!["lab", "run", "states", "--scale", "0.001", "--engines", "esker"];
    for series in ["reads while writing", "reads while writing, faster"] {
        args.extend(["--series", series]);
    }
    args.extend(["--repetitions", "1"]);
    let ran = dir.run(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in ["reads p99.9, us", "slowest write, ms", "gets, 20,000 puts a second"] {
        assert!(ran.out.contains(part), "{part} is missing: {}", ran.out);
    }
}
