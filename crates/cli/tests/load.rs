//! Tests of `esker load`: formats, columns, bad rows.

mod common;

use common::TestDir;

#[test]
fn csv_by_name_and_number() {
    let dir = TestDir::new();
    let text = "id,title,views\n\
                a,\"one, \"\"two\"\"\nthree\",5\n\
                b,plain,6\n\
                \n\
                ,nokey,7\n";
    dir.file("in.csv", text);
    let out = dir.ok(&["load", "db", "in.csv", "--key-column", "id", "--value-column", "title"]);
    assert!(out.starts_with("loaded 3 pairs, no bad row"), "{out}");
    let expected = "\tnokey\na\tone, \"two\"\\x0athree\nb\tplain\n";
    assert_eq!(dir.ok(&["scan", "db"]), expected);
    dir.ok(&["load", "other", "in.csv", "--key-column=1", "--value-column=3"]);
    assert_eq!(dir.ok(&["scan", "other"]), "\t7\na\t5\nb\t6\n");
}

#[test]
fn wrong_columns_and_files_create_no_store() {
    let dir = TestDir::new();
    dir.file("in.csv", "k,v\na,1\n");
    dir.fails(&["load", "db", "in.csv", "--key-column", "key"], 2, "the columns are k, v");
    dir.fails(&["load", "db", "in.csv", "--value-column", "3"], 2, "no column 3");
    dir.fails(&["load", "db", "in.csv", "--key-column", "0"], 2, "no column 0");
    dir.fails(&["load", "db", "none.csv"], 4, "none.csv");
    dir.fails(&["load", "db", "."], 4, "cannot read");
    dir.fails(&["load", "db", "in.csv", "--format", "xml"], 2, "xml");
    dir.file("empty.csv", "");
    dir.fails(&["load", "db", "empty.csv"], 2, "empty");
    assert!(!dir.path("db").exists());
}

#[test]
fn bad_rows_are_reported_and_counted() {
    let dir = TestDir::new();
    let long = "k".repeat(1_100_000);
    let text = format!("k,v\na,1\nb\nc,\"x\"y\nd,1,2\n{long},6\ne,\"7\n7\"\nf,\"open\ng,8\n");
    dir.file("in.csv", text);
    let ran = dir.run(&["load", "db", "in.csv"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.out.starts_with("loaded 2 pairs, 5 bad rows"), "{}", ran.out);
    for message in [
        "line 3: number of fields: 1",
        "line 4: ",
        "line 5: number of fields: 3",
        "line 6: the key has 1100000",
    ] {
        assert!(ran.err.contains(message), "{message}: {}", ran.err);
    }
    assert!(ran.err.contains("line 9: ") && ran.err.contains("lines 9 to 10"), "{}", ran.err);
    assert_eq!(dir.ok(&["scan", "db"]), "a\t1\ne\t7\\x0a7\n");
    let ran = dir.run(&["load", "db", "in.csv", "--allow-bad-rows", "--json"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("{\"loaded\":2,\"bad_rows\":5,"), "{}", ran.out);
}

#[test]
fn many_bad_rows_are_counted_and_few_are_printed() {
    let dir = TestDir::new();
    dir.file("in.csv", format!("k,v\n{}", "x\n".repeat(500)));
    let ran = dir.run(&["load", "db", "in.csv"]);
    assert!(ran.out.contains("500 bad rows"), "{}", ran.out);
    assert!(ran.err.lines().count() < 110 && ran.err.contains("only counted"), "{}", ran.err);
}

#[test]
fn tsv_plain_and_escaped() {
    let dir = TestDir::new();
    dir.file("in.tsv", "a\tC:\\dir\nb\t\"quoted\ttab\"\n");
    dir.ok(&["load", "db", "in.tsv"]);
    assert_eq!(dir.ok(&["scan", "db"]), "a\tC:\\\\dir\nb\tquoted\\x09tab\n");
    dir.file("named.tsv", "id\ttext\nx\t1\n");
    dir.ok(&["load", "db", "named.tsv", "--key-column", "text", "--value-column", "id"]);
    assert_eq!(dir.ok(&["get", "db", "1"]), "x\n");
    dir.ok(&["put", "db", "\\x00\\xff", "\"\\x0a"]);
    dir.file("scan.tsv", dir.ok(&["scan", "db"]));
    dir.ok(&["load", "other", "scan.tsv", "--escaped"]);
    assert_eq!(dir.ok(&["scan", "other"]), dir.ok(&["scan", "db"]));
}

#[test]
fn json_lines() {
    let dir = TestDir::new();
    let text = "{\"key\":\"a\",\"value\":\"1\"}\n\n{\"key\":7,\"value\":{\"x\":[1]}}\n\
                {\"key\":{\"base64\":\"/w==\"},\"value\":true}\nnot json\n{\"key\":\"b\"}\n\
                {\"key\":\"c\",\"value\":null}\n[]\n";
    dir.file("in.jsonl", text);
    let ran = dir.run(&["load", "db", "in.jsonl"]);
    assert_eq!(ran.code, 2);
    assert!(ran.out.starts_with("loaded 3 pairs, 4 bad rows"), "{}", ran.out);
    for message in ["line 5: not JSON", "line 6: no field \"value\"", "line 7: ", "line 8: "] {
        assert!(ran.err.contains(message), "{message}: {}", ran.err);
    }
    assert_eq!(dir.ok(&["scan", "db"]), "7\t{\"x\":[1]}\na\t1\n\\xff\ttrue\n");
    dir.file("back.jsonl", dir.ok(&["scan", "db", "--json"]));
    dir.ok(&["load", "other", "back.jsonl"]);
    assert_eq!(dir.ok(&["scan", "other"]), dir.ok(&["scan", "db"]));
    dir.file("named.jsonl", "{\"id\":\"n\",\"t\":\"v\"}\n");
    dir.ok(&["load", "db", "named.jsonl", "--key-column", "id", "--value-column", "t"]);
    assert_eq!(dir.ok(&["get", "db", "n"]), "v\n");
}

#[test]
fn from_standard_input() {
    let dir = TestDir::new();
    let out = dir.run_with_input(&["load", "db"], b"k,v\na,1\n").out;
    assert!(out.starts_with("loaded 1 pair, no bad row"), "{out}");
    dir.run_with_input(&["load", "db", "-"], b"{\"key\":\"b\",\"value\":\"2\"}\n");
    let dump = dir.ok(&["dump", "db"]);
    dir.run_with_input(&["load", "other"], dump.as_bytes());
    assert_eq!(dir.ok(&["scan", "other"]), "a\t1\nb\t2\n");
    let hex = dir.run_with_input(&["load", "db", "--hex", "--no-header"], b"ff,00\nzz,00\n");
    assert!(hex.code == 2 && hex.err.contains("line 2: the key: "), "{}", hex.err);
    assert_eq!(dir.ok(&["get", "db", "\\xff"]), "\\x00\n");
}

#[test]
fn sorted_load_sorts_what_is_not_sorted_and_the_last_of_equal_keys_counts() {
    let dir = TestDir::new();
    let mut text = String::new();
    for n in 0..3000u32 {
        text += &format!("k{:05},{n}\n", n.wrapping_mul(7919) % 2000);
    }
    dir.file("in.csv", &text);
    let load = ["load", "db", "in.csv", "--no-header", "--sorted", "--json"];
    let out = dir.ok(&load);
    assert!(out.starts_with("{\"loaded\":2000,\"bad_rows\":0,"), "{out}");
    dir.ok(&["load", "plain", "in.csv", "--no-header"]);
    assert_eq!(dir.ok(&["scan", "db"]), dir.ok(&["scan", "plain"]));
    let stats = dir.ok(&["stats", "db", "--json"]);
    assert!(stats.contains("\"table_files\":1,"), "the pairs are in a table: {stats}");
    // A second load replaces the first, and nothing of the sort is left.
    dir.file("more.csv", "k00001,new\nk00000,newer\n");
    dir.ok(&["load", "db", "more.csv", "--no-header", "--sorted"]);
    assert_eq!(dir.ok(&["get", "db", "k00000"]), "newer\n");
    let names = std::fs::read_dir(dir.path(".")).unwrap();
    let names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("esker-sort")), "{names:?}");
    dir.ok(&["verify", "db"]);
}

#[test]
fn sorted_load_of_a_dump_keeps_keyspaces_and_a_cut_dump_loads_nothing() {
    let dir = TestDir::new();
    dir.ok(&["put", "db", "a", "1"]);
    dir.ok(&["keyspace", "create", "db", "other", "--order", "reverse"]);
    for key in ["x", "y", "z"] {
        dir.ok(&["put", "db", key, "2", "--keyspace", "other"]);
    }
    let dump = dir.ok(&["dump", "db", "--all-keyspaces"]);
    dir.file("all.dump", &dump);
    dir.ok(&["load", "copy", "all.dump", "--sorted"]);
    assert_eq!(dir.ok(&["dump", "copy", "--all-keyspaces"]), dump);
    let cut = &dump[..dump.len() - 20];
    dir.file("cut.dump", cut);
    let ran = dir.run(&["load", "half", "cut.dump", "--sorted"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("no pair of the last keyspace was loaded"), "{}", ran.err);
    assert_eq!(dir.ok(&["scan", "half", "--keyspace", "other"]), "");
}

#[test]
fn ingest_takes_files_of_a_sorted_writer() {
    let dir = TestDir::new();
    let options = esker::Options::default();
    let write = |name: &str, key: &str| {
        let mut writer = esker::ingest::SortedWriter::create(dir.path(name), &options).unwrap();
        writer.put(key, "1").unwrap();
        writer.finish().unwrap();
    };
    write("a.sst", "a");
    write("b.sst", "b");
    let out = dir.ok(&["ingest", "db", "b.sst", "a.sst", "--copy", "--json"]);
    assert!(out.starts_with("{\"ok\":true,\"files\":2,\"entries\":2,"), "{out}");
    dir.fails(&["ingest", "db", "a.sst", "a.sst"], 2, "twice");
    dir.fails(&["ingest", "db", "c.sst"], 4, "c.sst");
    dir.file("text", "no table");
    dir.fails(&["ingest", "db", "text"], 3, "not a finished table");
    let out = dir.ok(&["ingest", "db", "a.sst", "b.sst"]);
    assert!(out.starts_with("ingested 2 tables: 2 entries, "), "{out}");
    assert_eq!(dir.ok(&["scan", "db"]), "a\t1\nb\t1\n");
    assert!(!dir.path("a.sst").exists());
}
