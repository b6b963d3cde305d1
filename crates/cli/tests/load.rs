//! Tests of `esker load`: formats, columns, bad rows.

mod common;

use common::Place;

#[test]
fn csv_by_name_and_number() {
    let place = Place::new();
    let text = "id,title,views\n\
                a,\"one, \"\"two\"\"\nthree\",5\n\
                b,plain,6\n\
                \n\
                ,nokey,7\n";
    place.file("in.csv", text);
    let out = place.ok(&["load", "db", "in.csv", "--key-column", "id", "--value-column", "title"]);
    assert!(out.starts_with("loaded 3 pairs, no bad row"), "{out}");
    let expected = "\tnokey\na\tone, \"two\"\\x0athree\nb\tplain\n";
    assert_eq!(place.ok(&["scan", "db"]), expected);
    place.ok(&["load", "other", "in.csv", "--key-column=1", "--value-column=3"]);
    assert_eq!(place.ok(&["scan", "other"]), "\t7\na\t5\nb\t6\n");
}

#[test]
fn wrong_columns_and_files_create_no_store() {
    let place = Place::new();
    place.file("in.csv", "k,v\na,1\n");
    place.fails(&["load", "db", "in.csv", "--key-column", "key"], 2, "the columns are k, v");
    place.fails(&["load", "db", "in.csv", "--value-column", "3"], 2, "no column 3");
    place.fails(&["load", "db", "in.csv", "--key-column", "0"], 2, "no column 0");
    place.fails(&["load", "db", "none.csv"], 4, "none.csv");
    place.fails(&["load", "db", "."], 4, "cannot read");
    place.fails(&["load", "db", "in.csv", "--format", "xml"], 2, "xml");
    place.file("empty.csv", "");
    place.fails(&["load", "db", "empty.csv"], 2, "empty");
    assert!(!place.path("db").exists());
}

#[test]
fn bad_rows_are_reported_and_counted() {
    let place = Place::new();
    let long = "k".repeat(1_100_000);
    let text = format!("k,v\na,1\nb\nc,\"x\"y\nd,1,2\n{long},6\ne,\"7\n7\"\nf,\"open\ng,8\n");
    place.file("in.csv", text);
    let ran = place.run(&["load", "db", "in.csv"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.out.starts_with("loaded 2 pairs, 5 bad rows"), "{}", ran.out);
    for message in [
        "line 3: found 1 fields",
        "line 4: ",
        "line 5: found 3 fields",
        "line 6: the key has 1100000",
    ] {
        assert!(ran.err.contains(message), "{message}: {}", ran.err);
    }
    assert!(ran.err.contains("line 9: ") && ran.err.contains("lines 9 to 10"), "{}", ran.err);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\ne\t7\\x0a7\n");
    let ran = place.run(&["load", "db", "in.csv", "--allow-bad-rows", "--json"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with("{\"loaded\":2,\"bad_rows\":5,"), "{}", ran.out);
}

#[test]
fn many_bad_rows_are_counted_and_few_are_printed() {
    let place = Place::new();
    place.file("in.csv", format!("k,v\n{}", "x\n".repeat(500)));
    let ran = place.run(&["load", "db", "in.csv"]);
    assert!(ran.out.contains("500 bad rows"), "{}", ran.out);
    assert!(ran.err.lines().count() < 110 && ran.err.contains("only counted"), "{}", ran.err);
}

#[test]
fn tsv_plain_and_escaped() {
    let place = Place::new();
    place.file("in.tsv", "a\tC:\\dir\nb\t\"quoted\ttab\"\n");
    place.ok(&["load", "db", "in.tsv"]);
    assert_eq!(place.ok(&["scan", "db"]), "a\tC:\\\\dir\nb\tquoted\\x09tab\n");
    place.file("named.tsv", "id\ttext\nx\t1\n");
    place.ok(&["load", "db", "named.tsv", "--key-column", "text", "--value-column", "id"]);
    assert_eq!(place.ok(&["get", "db", "1"]), "x\n");
    place.ok(&["put", "db", "\\x00\\xff", "\"\\x0a"]);
    place.file("scan.tsv", place.ok(&["scan", "db"]));
    place.ok(&["load", "other", "scan.tsv", "--escaped"]);
    assert_eq!(place.ok(&["scan", "other"]), place.ok(&["scan", "db"]));
}

#[test]
fn json_lines() {
    let place = Place::new();
    let text = "{\"key\":\"a\",\"value\":\"1\"}\n\n{\"key\":7,\"value\":{\"x\":[1]}}\n\
                {\"key\":{\"base64\":\"/w==\"},\"value\":true}\nnot json\n{\"key\":\"b\"}\n\
                {\"key\":\"c\",\"value\":null}\n[]\n";
    place.file("in.jsonl", text);
    let ran = place.run(&["load", "db", "in.jsonl"]);
    assert_eq!(ran.code, 2);
    assert!(ran.out.starts_with("loaded 3 pairs, 4 bad rows"), "{}", ran.out);
    for message in ["line 5: not JSON", "line 6: no field \"value\"", "line 7: ", "line 8: "] {
        assert!(ran.err.contains(message), "{message}: {}", ran.err);
    }
    assert_eq!(place.ok(&["scan", "db"]), "7\t{\"x\":[1]}\na\t1\n\\xff\ttrue\n");
    place.file("back.jsonl", place.ok(&["scan", "db", "--json"]));
    place.ok(&["load", "other", "back.jsonl"]);
    assert_eq!(place.ok(&["scan", "other"]), place.ok(&["scan", "db"]));
    place.file("named.jsonl", "{\"id\":\"n\",\"t\":\"v\"}\n");
    place.ok(&["load", "db", "named.jsonl", "--key-column", "id", "--value-column", "t"]);
    assert_eq!(place.ok(&["get", "db", "n"]), "v\n");
}

#[test]
fn from_standard_input() {
    let place = Place::new();
    let out = place.run_with_input(&["load", "db"], b"k,v\na,1\n").out;
    assert!(out.starts_with("loaded 1 pair, no bad row"), "{out}");
    place.run_with_input(&["load", "db", "-"], b"{\"key\":\"b\",\"value\":\"2\"}\n");
    let dump = place.ok(&["dump", "db"]);
    place.run_with_input(&["load", "other"], dump.as_bytes());
    assert_eq!(place.ok(&["scan", "other"]), "a\t1\nb\t2\n");
    let hex = place.run_with_input(&["load", "db", "--hex", "--no-header"], b"ff,00\nzz,00\n");
    assert!(hex.code == 2 && hex.err.contains("line 2: the key: "), "{}", hex.err);
    assert_eq!(place.ok(&["get", "db", "\\xff"]), "\\x00\n");
}
