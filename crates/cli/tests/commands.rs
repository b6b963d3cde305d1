//! Tests of every command, with valid and invalid input.

mod common;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::TestDir;

fn with_pairs() -> TestDir {
    let dir = TestDir::new();
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        assert_eq!(dir.ok(&["put", "db", key, value]), "");
    }
    dir
}

/// Flips a bit in the middle of every table.
fn corrupt(db: &Path) {
    let mut flipped = 0;
    for entry in std::fs::read_dir(db).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "sst") {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[10] ^= 0x20;
            std::fs::write(&path, bytes).unwrap();
            flipped += 1;
        }
    }
    assert!(flipped > 0, "no table to corrupt");
}

#[test]
fn get_put_delete() {
    let dir = with_pairs();
    assert_eq!(dir.ok(&["get", "db", "b"]), "2\n");
    assert_eq!(dir.ok(&["delete", "db", "b"]), "");
    dir.fails(&["get", "db", "b"], 1, "not found");
    assert_eq!(dir.ok(&["delete", "db", "b"]), "");
    dir.fails(&["delete", "db", "b", "--must-exist"], 1, "not found");
    dir.ok(&["put", "--sync", "db", "b", "again"]);
    assert_eq!(dir.ok(&["get", "db", "b", "--raw"]), "again");
    dir.ok(&["delete", "db", "a", "--to", "c"]);
    assert_eq!(dir.ok(&["scan", "db"]), "c\t3\n");
}

#[test]
fn missing_key_is_json_object() {
    let dir = with_pairs();
    let error = "{\"error\":{\"kind\":\"key not found\",\"message\":\"not found\"}}\n";
    let ran = dir.run(&["get", "db", "x", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, error));
    assert_eq!(ran.out, "{\"key\":\"x\",\"value\":null}\n");
    let ran = dir.run(&["delete", "db", "x", "--must-exist", "--json"]);
    assert_eq!((ran.code, ran.err.as_str(), ran.out.as_str()), (1, error, ""));
    assert_eq!(dir.run(&["get", "db", "x"]).err, "esker: not found\n");
}

#[test]
fn values_from_stdin_are_stored_unchanged() {
    let dir = TestDir::new();
    let value = b"\\x41\n\xff\x00 ";
    assert_eq!(dir.run_with_input(&["put", "db", "k"], value).code, 0);
    assert_eq!(dir.ok(&["get", "db", "k"]), "\\\\x41\\x0a\\xff\\x00 \n");
    assert_eq!(dir.ok(&["get", "db", "6b", "--hex"]), "5c7834310aff0020\n");
}

#[test]
fn keys_and_values_in_every_encoding() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "tab\\x09", "\\xff\\\\"]);
    assert_eq!(dir.ok(&["get", "db", "--hex", "74616209"]), "ff5c\n");
    assert_eq!(dir.ok(&["get", "db", "--base64", "dGFiCQ=="]), "/1w=\n");
    assert_eq!(dir.ok(&["scan", "db"]), "tab\\x09\t\\xff\\\\\n");
    let json = "{\"key\":\"tab\\t\",\"value\":{\"base64\":\"/1w=\"}}\n";
    assert_eq!(dir.ok(&["scan", "db", "--json"]), json);
    assert_eq!(dir.ok(&["--json", "get", "db", "tab\\x09"]), json);
    dir.ok(&["put", "--hex", "db", "00", ""]);
    assert_eq!(dir.ok(&["get", "db", "\\x00"]), "\n");
    dir.fails(&["get", "db", "--hex", "xyz"], 2, "hexadecimal");
    dir.fails(&["get", "db", "--base64", "!"], 2, "base64");
    dir.fails(&["get", "db", "\\xg"], 2, "hexadecimal");
    dir.fails(&["get", "db", "--hex", "--base64", "00"], 2, "cannot be used with");
}

#[test]
fn empty_and_binary_keys() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "", "empty"]);
    assert_eq!(dir.ok(&["get", "db", ""]), "empty\n");
    dir.ok(&["put", "db", "--", "-dash", "--value"]);
    assert_eq!(dir.ok(&["get", "db", "--", "-dash"]), "--value\n");
    let mut command: assert_cmd::Command = assert_cmd::cargo::cargo_bin_cmd!("esker");
    let key = std::ffi::OsStr::from_bytes(b"\xfe\x01");
    command.current_dir(dir.path(".")).arg("put").arg("db").arg(key).arg("raw").assert().success();
    assert_eq!(dir.ok(&["get", "db", "\\xfe\\x01"]), "raw\n");
}

#[test]
fn scans() {
    let dir = with_pairs();
    assert_eq!(dir.ok(&["scan", "db", "b"]), "b\t2\nc\t3\n");
    assert_eq!(dir.ok(&["scan", "db", "a", "c"]), "a\t1\nb\t2\n");
    assert_eq!(dir.ok(&["scan", "db", "--reverse", "--limit", "2"]), "c\t3\nb\t2\n");
    assert_eq!(dir.ok(&["scan", "db", "--prefix", "b", "--keys"]), "b\n");
    assert_eq!(dir.ok(&["scan", "db", "--count"]), "3\n");
    assert_eq!(dir.ok(&["scan", "db", "--count", "--json"]), "{\"count\":3}\n");
    assert_eq!(dir.ok(&["scan", "db", "x", "b"]), "");
}

#[test]
fn missing_store_is_an_error() {
    let dir = TestDir::new();
    for command in ["scan", "dump", "stats", "verify", "repair", "compact"] {
        dir.fails(&[command, "none"], 4, "there is no store here");
    }
    dir.fails(&["get", "none", "k"], 4, "there is no store here");
    dir.fails(&["delete", "none", "k"], 4, "there is no store here");
    dir.fails(&["checkpoint", "none", "copy"], 4, "there is no store here");
    dir.fails(&["destroy", "none", "--yes"], 4, "there is no store here");
    assert!(!dir.path("none").exists());
    let ran = dir.run(&["get", "none", "k", "--json"]);
    assert!(ran.err.starts_with("{\"error\":{\"kind\":\"not found\""), "{}", ran.err);
    dir.file("file", "x");
    let ran = dir.run(&["put", "file", "k", "v"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
}

#[test]
fn usage_error_is_json_object() {
    let dir = TestDir::new();
    for args in [&["get", "--json"][..], &["--json", "no-such-command"], &["put", "db", "--json"]] {
        let ran = dir.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.starts_with("{\"error\":{") && ran.err.lines().count() == 1, "{}", ran.err);
    }
}

#[test]
fn shared_flags_exist_only_where_used() {
    let dir = with_pairs();
    let offers = |command: &[&str], flag: &str| {
        let help = dir.ok(&[command, &["--help"]].concat());
        let offered = help.lines().any(|line| line.trim_start().starts_with(flag));
        // A flag not offered by the command is rejected, also before the command.
        let ran = dir.run(&[command, &[flag]].concat());
        let unknown = ran.err.contains("unexpected argument");
        assert_eq!(unknown, !offered, "{command:?} {flag}: {}", ran.err);
        if !offered {
            let ran = dir.run(&[&[flag], command].concat());
            assert_eq!(ran.code, 2, "{flag} {command:?}: {}", ran.err);
        }
        offered
    };
    for command in ["get", "put", "delete", "scan", "load", "dump", "shell", "compact"] {
        for flag in ["--json", "--hex", "--base64", "--set", "--keyspace"] {
            assert!(offers(&[command], flag), "{command} {flag}");
        }
    }
    for command in ["stats", "verify", "repair", "restore", "checkpoint", "options", "import"] {
        assert!(offers(&[command], "--json") && offers(&[command], "--set"), "{command}");
        assert!(!offers(&[command], "--hex") && !offers(&[command], "--base64"), "{command}");
        assert_eq!(offers(&[command], "--keyspace"), command == "import", "{command}");
    }
    for command in ["list", "create", "drop", "rename"] {
        let command = ["keyspace", command];
        assert!(offers(&command, "--json") && offers(&command, "--set"), "{command:?}");
        assert!(!offers(&command, "--hex") && !offers(&command, "--base64"), "{command:?}");
    }
    for command in [&["destroy"][..], &["backup", "list"], &["backup", "prune"], &["lab", "check"]]
    {
        assert!(offers(command, "--json"), "{command:?}");
        for flag in ["--hex", "--base64", "--set"] {
            assert!(!offers(command, flag), "{command:?} {flag}");
        }
    }
    for command in [&["completions"][..], &["lab", "compare"]] {
        for flag in ["--json", "--hex", "--base64", "--set"] {
            assert!(!offers(command, flag), "{command:?} {flag}");
        }
    }
    assert!(offers(&["lab", "run"], "--set") && !offers(&["lab", "report"], "--set"));
    assert!(offers(&["lab", "ycsb"], "--set") && !offers(&["lab", "ycsb"], "--json"));
    dir.fails(&["backup", "list", "db", "--take-over"], 2, "--take-over");
    dir.fails(&["backup", "--set", "durability=sync", "list", "db"], 2, "--set");
    // The flags are also accepted before the command.
    let json = "{\"key\":\"a\",\"value\":\"1\"}\n";
    assert_eq!(dir.ok(&["--json", "get", "db", "--", "a"]), json);
    assert_eq!(dir.ok(&["--set", "block_size=8k", "--hex", "get", "db", "61"]), "31\n");
    assert_eq!(dir.ok(&["--set=block_size=8k", "get", "db", "a"]), "1\n");
}

#[test]
fn every_failure_is_one_json_object() {
    let dir = with_pairs();
    dir.ok(&["compact", "db"]);
    corrupt(&dir.path("db"));
    dir.file("rows.csv", "key,value\nx,1\nonly\n");
    for (args, code, kind) in [
        (&["get", "db", "a"][..], 3, "corruption"),
        (&["verify", "db"], 3, "corruption"),
        (&["get", "none", "a"], 4, "not found"),
        (&["load", "new", "rows.csv"], 2, "invalid argument"),
        (&["lab", "check", "nothing"], 2, "invalid argument"),
        (&["lab", "report", "nothing"], 4, "i/o"),
        (&["lab", "run", "nothing"], 2, "invalid argument"),
        (&["backup", "db", "db/b"], 2, "invalid argument"),
    ] {
        let ran = dir.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        let lines: Vec<serde_json::Value> = ran
            .err
            .lines()
            .chain(ran.out.lines())
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect();
        let errors: Vec<_> = lines.iter().filter_map(|line| line.get("error")).collect();
        assert_eq!(errors.len(), 1, "{args:?}: {}", ran.err);
        assert_eq!(errors[0]["kind"], kind, "{args:?}: {}", ran.err);
    }
    let ran = dir.run(&["load", "new", "rows.csv", "--json", "--allow-bad-rows"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (bad, note) = ran.err.split_once('\n').unwrap();
    assert!(bad.starts_with("{\"bad_row\":{\"line\":3,"), "{bad}");
    assert_eq!(note, "{\"note\":\"1 bad row not loaded\"}\n");
}

#[test]
fn usage_errors_are_reported() {
    let dir = with_pairs();
    dir.fails(&["fetch", "db"], 2, "fetch");
    dir.fails(&["get", "db"], 2, "KEY");
    dir.fails(&["get", "db", "a", "--set", "block_sise=1"], 2, "block_size");
    dir.fails(&["get", "db", "a", "--set", "block_size"], 2, "NAME=VALUE");
    dir.fails(&["get", "db", "a", "--set", "block_size=3"], 2, "takes");
    assert_eq!(dir.ok(&["scan", "db", "--limit", "1k"]).lines().count(), 3);
    assert_eq!(dir.ok(&["scan", "db", "--limit", "0.002k"]).lines().count(), 2);
    dir.fails(&["scan", "db", "--limit", "many"], 2, "many");
    assert_eq!(dir.ok(&["get", "db", "a", "--set", "block-size=8k"]), "1\n");
    assert!(dir.ok(&["--help"]).contains("Exit codes"));
    let version = dir.ok(&["--version"]);
    let commit = version.strip_prefix("esker ").and_then(|rest| rest.split_once(" ("));
    assert!(commit.is_some_and(|(_, rest)| rest.contains("commit")), "{version}");
}

#[test]
fn foreign_directories_are_refused_and_unchanged() {
    let dir = TestDir::new();
    std::fs::create_dir(dir.path("level")).unwrap();
    for (name, text) in [("CURRENT", "MANIFEST-000004\n"), ("MANIFEST-000004", "x"), ("LOCK", "")] {
        dir.file(&format!("level/{name}"), text);
    }
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(dir.path("level")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for args in [vec!["get", "level", "k"], vec!["put", "level", "k", "v"]] {
        let ran = dir.run(&args);
        assert_eq!(ran.code, 4, "{args:?}: {}", ran.err);
        assert!(ran.err.contains("LevelDB"), "{}", ran.err);
    }
    assert_eq!(dir.run(&["destroy", "level", "--yes"]).code, 4);
    assert_eq!(names(), before);
}

#[test]
fn corruption_has_its_own_exit_code() {
    let dir = with_pairs();
    dir.ok(&["compact", "db"]);
    assert!(dir.ok(&["verify", "db"]).starts_with("OK"));
    assert!(dir.ok(&["verify", "db", "--json"]).starts_with("{\"ok\":true"));
    corrupt(&dir.path("db"));
    let ran = dir.run(&["verify", "db"]);
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    assert!(format!("{}{}", ran.out, ran.err).contains(".sst"), "{}{}", ran.out, ran.err);
    assert_eq!(dir.run(&["scan", "db"]).code, 3);
    let ran = dir.run(&["repair", "db"]);
    assert!(ran.code == 0 || ran.code == 3, "{}", ran.err);
    assert!(ran.out.contains("original files are in"), "{}", ran.out);
    assert!(dir.ok(&["verify", "db"]).starts_with("OK"));
    dir.ok(&["put", "db", "new", "1"]);
    assert_eq!(dir.ok(&["get", "db", "new"]), "1\n");
}

#[test]
fn repair_of_intact_store_loses_nothing() {
    let dir = with_pairs();
    let ran = dir.run(&["repair", "db", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("\"lost\":[]"), "{}", ran.out);
    assert_eq!(dir.ok(&["scan", "db", "--count"]), "3\n");
}

#[test]
fn backups() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "a", "1"]);
    let first = dir.ok(&["backup", "db", "all"]);
    assert!(first.starts_with("backup 1: 1 table copied"), "{first}");
    dir.ok(&["put", "db", "a", "2"]);
    assert!(dir.ok(&["backup", "db", "all"]).contains("1 shared with the previous backup"));
    assert_eq!(dir.ok(&["restore", "all", "old", "--number", "1"]), "backup 1 restored: old\n");
    assert_eq!(dir.ok(&["get", "old", "a"]), "1\n");
    dir.ok(&["restore", "all", "new"]);
    assert_eq!(dir.ok(&["get", "new", "a"]), "2\n");
    dir.fails(&["restore", "all", "new"], 2, "exists and holds");
    dir.fails(&["restore", "all", "x", "--backup", "7"], 4, "there is no backup 7");
    dir.fails(&["restore", "all", "x", "--backup", "7"], 4, "it holds backups 1 to 2");
    dir.fails(&["restore", "none", "x"], 4, "there is no backup directory here");
    dir.fails(&["backup", "db", "db/backups"], 2, "inside a store");
    assert!(!dir.path("x").exists() && !dir.path("none").exists());
}

#[test]
fn backups_are_listed_pruned_and_belong_to_one_store() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "a", "1"]);
    for _ in 0..3 {
        dir.ok(&["backup", "db", "all"]);
    }
    let listed = dir.ok(&["backup", "list", "all"]);
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((lines[0][0], lines[2][0]), ("1", "3"));
    assert!(lines[0][1].ends_with(" UTC") && lines[0][2].starts_with("1 table, "), "{listed}");
    assert!(lines[0][3].contains("/db ("), "{listed}");
    let json = dir.ok(&["--json", "backup", "list", "all"]);
    assert!(json.starts_with("{\"backup\":1,") && json.lines().count() == 3, "{json}");
    assert_eq!(dir.ok(&["backup", "list", "all", "--json"]), json);
    dir.ok(&["put", "other", "a", "1"]);
    dir.fails(&["backup", "other", "all"], 4, "belongs to another store");
    dir.fails(&["backup", "other", "all"], 4, "--take-over");
    dir.fails(&["backup", "prune", "all"], 2, "--keep");
    dir.fails(&["backup", "prune", "all", "--keep", "0"], 2, "keep at least 1");
    assert_eq!(dir.ok(&["backup", "prune", "all", "--keep", "1"]), "2 backups removed, 1 kept\n");
    let out = dir.ok(&["backup", "prune", "all", "--keep", "1", "--json"]);
    assert_eq!(out, "{\"ok\":true,\"removed\":[],\"kept\":[3]}\n");
    let taken = dir.ok(&["backup", "other", "all", "--take-over"]);
    assert!(taken.starts_with("backup 4: 1 table copied"), "{taken}");
    dir.fails(&["backup", "list", "none"], 4, "there is no backup directory");
    dir.fails(&["backup", "list", "db"], 2, "not a backup directory");
    std::fs::create_dir(dir.path("empty")).unwrap();
    assert_eq!(dir.ok(&["backup", "list", "empty"]), "");
    dir.fails(&["backup", "db"], 2, "DIR");
}

#[test]
fn checkpoints() {
    let dir = with_pairs();
    assert_eq!(dir.ok(&["checkpoint", "db", "copy"]), "checkpoint: copy\n");
    dir.ok(&["put", "db", "d", "4"]);
    assert_eq!(dir.ok(&["scan", "copy", "--count"]), "3\n");
    dir.fails(&["checkpoint", "db", "copy"], 2, "exists");
}

#[test]
fn destroy_asks_for_confirmation() {
    let dir = with_pairs();
    dir.fails(&["destroy", "db"], 2, "nothing was removed");
    for answer in [&b"no\n"[..], b"\n", b"yesterday\n"] {
        assert_eq!(dir.run_with_input(&["destroy", "db"], answer).code, 2);
    }
    assert_eq!(dir.ok(&["get", "db", "a"]), "1\n");
    let ran = dir.run_with_input(&["destroy", "db"], b"yes\n");
    assert!(ran.code == 0 && ran.err.contains("[y/N]"), "{}", ran.err);
    assert!(!dir.path("db").exists());
    for answer in [&b"y\n"[..], b"Y\r\n"] {
        dir.ok(&["put", "db", "a", "1"]);
        assert_eq!(dir.run_with_input(&["destroy", "db"], answer).code, 0);
        assert!(!dir.path("db").exists());
    }
    dir.ok(&["put", "db", "a", "1"]);
    dir.ok(&["destroy", "db", "--yes"]);
}

#[test]
fn dumps_round_trip_and_are_never_overwritten() {
    let dir = with_pairs();
    dir.ok(&["put", "db", "\\x00\\xff", "tab\\x09"]);
    for flags in [&[][..], &["--hex"], &["--base64"], &["--json"], &["--json", "--hex"]] {
        let name = format!("dump{}", flags.concat());
        let out = dir.ok(&[&["dump", "db", &name], flags].concat());
        assert!(out.contains('4'), "{out}");
        let mode = std::fs::metadata(dir.path(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        dir.ok(&["load", "other", &name]);
        assert_eq!(dir.ok(&["scan", "other"]), dir.ok(&["scan", "db"]), "{flags:?}");
        dir.ok(&["destroy", "other", "--yes"]);
        dir.fails(&["dump", "db", &name], 2, "does not overwrite");
    }
    let text = dir.ok(&["dump", "db", "--from", "b", "--to", "c"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["esker dump 1 text", "b\t2"]);
    assert!(lines[2].starts_with("end of dump: 1 pairs, checksum "), "{text}");
}

#[test]
fn truncated_or_changed_dumps_are_detected() {
    let dir = with_pairs();
    let whole = dir.ok(&["dump", "db"]);
    let lines: Vec<&str> = whole.lines().collect();
    let cases = [
        ("cut", lines[..3].join("\n"), "it is truncated"),
        ("changed", whole.replace("b\t2", "b\t5"), "damaged"),
        ("missing", whole.replace("b\t2\n", ""), "damaged"),
        ("longer", format!("{whole}z\t9\n"), "continues after its last line"),
        ("no tab", whole.replace("b\t2", "b 2"), "line 3"),
    ];
    for (name, text, message) in cases {
        let path = dir.file(name, text);
        let ran = dir.run(&["load", "other", path.to_str().unwrap()]);
        assert_eq!(ran.code, 3, "{name}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(message), "{name}: {}", ran.err);
    }
    dir.file("future", "esker dump 4 text\n");
    dir.fails(&["load", "other", "future"], 2, "a dump of version 1, 2 or 3");
}

#[test]
fn stats_options_and_completions() {
    let dir = with_pairs();
    let text = dir.ok(&["stats", "db"]);
    assert!(text.contains("write amplification") && text.contains("memory: cache"), "{text}");
    let json = dir.ok(&["stats", "db", "--json"]);
    assert!(json.contains("\"levels\":[") && json.contains("\"memory\":{"), "{json}");
    assert!(dir.ok(&["options"]).contains("block_size_bytes"));
    let json = dir.ok(&["options", "bloom", "--json", "--set", "bloom_bits=7"]);
    assert!(json.contains("\"value\":\"7\"") && json.lines().count() == 1, "{json}");
    dir.fails(&["options", "nothing_like_it"], 2, "nothing_like_it");
    assert!(dir.ok(&["completions", "bash"]).contains("esker"));
    dir.fails(&["completions", "tcsh"], 2, "tcsh");
}

#[test]
fn options_fit_eighty_columns_without_terminal() {
    let text = TestDir::new().ok(&["options"]);
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(wide, Vec::<&str>::new());
    let spec = text.split("\n\n").find(|part| part.starts_with("memtable_size_bytes = auto\n"));
    let spec = spec.expect("an option begins with its name and value");
    assert!(spec.contains("\n    4 KiB to 4 GiB, or auto; can change while the store is open\n"));
    assert!(spec.contains("\n    also called write_buffer_size, "), "{spec}");
    let changed = TestDir::new().ok(&["options", "block_size", "--set", "block_size_bytes=8k"]);
    assert!(changed.starts_with("block_size_bytes = 8192 (default "), "{changed}");
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = TestDir::new();
    assert_eq!(dir.ok(&["man", "--dir", "pages"]), "");
    let help = dir.ok(&["--help"]);
    let commands = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() >= 20 && names.contains(&"bench"), "{names:?}");
    for name in &names {
        let page = std::fs::read_to_string(dir.path(&format!("pages/esker-{name}.1"))).unwrap();
        assert_eq!(page, dir.ok(&["man", name]));
        assert!(page.contains(".TH esker-") && page.contains(".SH SYNOPSIS"), "{page}");
    }
    let main = dir.ok(&["man"]);
    assert_eq!(main, std::fs::read_to_string(dir.path("pages/esker.1")).unwrap());
    // A hyphen in a name has a backslash in the page.
    let plain = main.replace("\\-", "-");
    assert!(main.contains("EXIT STATUS") && names.iter().all(|name| plain.contains(name)));
    assert!(dir.ok(&["man", "bench"]).contains("write_buffer_size"));
    assert!(dir.ok(&["man", "lab", "run"]).contains("repetitions"));
    assert!(!dir.path("pages/esker-lab-round.1").exists(), "a hidden command");
    dir.fails(&["man", "nonsense"], 2, "nonsense");
}

#[test]
fn dot_files_do_not_make_directory_foreign() {
    let dir = TestDir::new();
    std::fs::create_dir_all(dir.path("db/.git")).unwrap();
    dir.file("db/.gitkeep", "");
    dir.ok(&["put", "db", "a", "1"]);
    dir.ok(&["destroy", "db", "--yes"]);
    assert!(dir.path("db/.gitkeep").exists() && dir.path("db/.git").exists());
    dir.file("db/notes", "");
    dir.fails(&["put", "db", "a", "1"], 4, "a directory with other files");
}

#[test]
fn benchmarks() {
    let dir = TestDir::new();
    let out = dir.ok(&[
        "bench",
        "--engines=esker",
        "--num=500",
        "--benchmarks",
        "fillseq,readseq",
        "--record=none",
        "--repetitions=1",
    ]);
    assert!(out.contains("fillseq") && out.contains("micros/op"), "{out}");
    let out = dir.ok(&[
        "bench",
        "--json",
        "--engines=esker",
        "--num=500",
        "--benchmarks=fillrandom",
        "--record=none",
    ]);
    assert!(out.lines().all(|line| line.starts_with('{')), "{out}");
    let help = dir.ok(&["bench", "--help"]);
    for part in ["--benchmarks=LIST", "  zipfiantransaction ", "esker-pessimistic, "] {
        assert!(help.contains(part), "{help}");
    }
    dir.fails(&["bench", "--benchmarks=fillsek"], 2, "fillsek");
    dir.fails(&["bench", "--numb=5"], 2, "numb");
    dir.fails(&["bench", "--num"], 2, "needs a value");
    dir.fails(&["bench", "--csv=none.csv", "--record=none"], 4, "none.csv");
}

#[test]
fn closed_output_pipe_is_not_an_error() {
    use std::io::{BufRead, BufReader};
    let dir = TestDir::new();
    let lines: String = (0..100_000).map(|i| format!("key{i:06},value\n")).collect();
    dir.file("many.csv", lines);
    dir.ok(&["load", "db", "many.csv", "--no-header"]);
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("esker"))
        .args(["scan", "db"])
        .current_dir(dir.path("."))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "key000000\tvalue\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn second_open_is_refused_or_read_only() {
    use std::io::{BufRead, BufReader, Write};
    let dir = with_pairs();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("esker"))
        .args(["shell", "db"])
        .current_dir(dir.path("."))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    // Each answer arrives before the next command is sent.
    for (command, answer) in [("put d 4", "OK\n"), ("get d", "4\n"), ("get e", "NOT FOUND\n")] {
        writeln!(input, "{command}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, answer);
    }
    let commands = [
        &["put", "db", "x", "y"][..],
        &["compact", "db"],
        &["delete", "db", "a"],
        &["repair", "db"],
        &["destroy", "db", "--yes"],
    ];
    for command in commands {
        let holder_text =
            format!("db: the store is open in process {}; end that process first", child.id());
        dir.fails(command, 4, &holder_text);
        let err = dir.run(command).err;
        assert!(err.contains("`esker get`") && !err.contains("open it read-only"), "{err}");
    }
    assert_eq!(dir.ok(&["get", "db", "a"]), "1\n");
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(dir.ok(&["get", "db", "d"]), "4\n");
}

#[test]
fn upgrade_raises_the_format_version_once() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "a", "1", "--set", "format_version=1"]);
    assert!(dir.ok(&["verify", "db"]).contains("format version 1"));
    let said = dir.ok(&["upgrade", "db"]);
    assert!(said.starts_with("upgrade: format version 1 became 2"), "{said}");
    assert_eq!(dir.ok(&["upgrade", "db", "--json"]), "{\"ok\":true,\"from\":2,\"to\":2}\n");
    dir.fails(&["upgrade", "db", "--to", "1"], 2, "cannot be lowered");
    dir.fails(&["upgrade", "db", "--to", "3"], 2, "no format version 3");
    assert!(dir.ok(&["stats", "db"]).contains("format version"));
    assert_eq!(dir.ok(&["get", "db", "a"]), "1\n");
}
