//! Fuzz tests of the command's external input: rows of files, the shell's lines, the arguments.
//! Nothing is executed. Each input must be accepted or rejected with a reason.
//!
//! `FUZZ_SECONDS` sets the duration of each test.

use std::io::Cursor;
use std::time::Duration;

use clap::Parser;
use esker_testkit::fuzz::Target;
use esker_testkit::fuzz::drive::{Effort, drive};

use crate::args::Cli;
use crate::bytes::{Encoding, Form};
use crate::keyspaces::{KeyspaceSpec, Order};
use crate::rows::Rows;
use crate::rows::csv::{CsvRows, Layout};
use crate::rows::dump::{DumpRows, Tally, first_line, keyspace_line};
use crate::rows::input::Input;
use crate::rows::jsonl::JsonRows;
use crate::shell::words::Words;

fn fuzz(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let effort = match seconds {
        Some(seconds) => Effort::For(Duration::from_secs(seconds)),
        None => Effort::Cases(20_000),
    };
    let target = Target { name, run, seeds };
    drive(&target, Vec::new(), 1, effort).unwrap_or_else(|failed| panic!("{failed}"));
}

/// Reads all rows; a source must end.
fn read_all(rows: &mut dyn Rows, bytes: usize) {
    for _ in 0..=bytes + 1 {
        match rows.next() {
            Ok(Some(row)) => assert!(row.content.map_or_else(|why| !why.is_empty(), |_| true)),
            Ok(None) | Err(_) => {
                let _ = rows.check_end();
                return;
            }
        }
    }
    panic!("more rows than bytes");
}

fn input(bytes: &[u8]) -> Input {
    Input::new(Box::new(Cursor::new(bytes.to_vec())))
}

#[test]
fn fuzz_csv() {
    let run = |bytes: &[u8]| {
        for (quotes, header, encoding) in
            [(true, true, None), (false, false, Some(Encoding::Text)), (true, false, None)]
        {
            let column = |name: &str, number: &str| if header { name } else { number }.to_string();
            let layout = Layout {
                delimiter: b',',
                quotes,
                header,
                key_column: column("k", "1"),
                value_column: column("v", "2"),
                encoding,
            };
            if let Ok(Ok(mut rows)) = CsvRows::open(input(bytes), layout) {
                read_all(&mut rows, bytes.len());
            }
        }
    };
    let seeds = || {
        let texts = ["k,v\na,1\n\"b\nb\",\"2\"\"\"\r\n", "v,k,x\n1,2,3\n", "\u{feff}k,v\n\\x00,\n"];
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    };
    fuzz("csv", run, seeds);
}

#[test]
fn fuzz_json_lines() {
    let run = |bytes: &[u8]| {
        let form = Form { encoding: Encoding::Text, json: true };
        let mut rows = JsonRows::new(input(bytes), form, "key".into(), "value".into());
        read_all(&mut rows, bytes.len());
    };
    let seeds = || {
        let text =
            "{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":{\"base64\":\"AAE=\"},\"value\":\"\"}\n";
        vec![text.as_bytes().to_vec()]
    };
    fuzz("jsonl", run, seeds);
}

#[test]
fn fuzz_dumps() {
    let run = |bytes: &[u8]| {
        if let Ok(Ok(mut rows)) = DumpRows::open(input(bytes)) {
            read_all(&mut rows, bytes.len());
        }
    };
    let seeds = || {
        let form = Form { encoding: Encoding::Text, json: false };
        let mut tally = Tally::default();
        tally.add(b"key", b"value", None);
        let first = first_line(form, false, false);
        let one = format!("{first}\nkey\tvalue\n{}\n", tally.last_line(form));
        let spec = KeyspaceSpec { name: "users".into(), order: Order::Reverse, options: vec![] };
        let named = |form, pair: &str, time: Option<u64>| {
            let mut tally = Tally::default();
            tally.add_keyspace(&spec);
            tally.add(b"key", b"value", time);
            let first = first_line(form, true, time.is_some());
            let keyspace = keyspace_line(form, &spec);
            format!("{first}\n{keyspace}\n{pair}\n{}\n", tally.last_line(form)).into_bytes()
        };
        let json = Form { encoding: Encoding::Text, json: true };
        let pair = r#"{"keyspace":"users","key":"key","value":"value"}"#;
        let timed = r#"{"keyspace":"users","key":"key","value":"value","expires_ms":7}"#;
        vec![
            one.into_bytes(),
            named(form, "key\tvalue", None),
            named(json, pair, None),
            named(form, "key\tvalue\t7", Some(7)),
            named(json, timed, Some(7)),
        ]
    };
    fuzz("dump", run, seeds);
}

#[test]
fn fuzz_shell_words() {
    let run = |bytes: &[u8]| {
        for encoding in [Encoding::Text, Encoding::Hex, Encoding::Base64] {
            let mut words = Words::new(bytes);
            for _ in 0..=bytes.len() {
                match words.bytes(encoding) {
                    Ok(Some(_)) => {}
                    _ => break,
                }
            }
            let _ = Words::new(bytes).rest(encoding);
        }
    };
    let seeds = || vec![b"put \"a b\" 'c' \\x00 68656c6c6f aGVsbG8=".to_vec()];
    fuzz("words", run, seeds);
}

#[test]
fn fuzz_arguments() {
    let run = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let words = std::iter::once("esker").chain(text.split(' '));
        if let Err(error) = Cli::try_parse_from(words) {
            assert!(!error.to_string().is_empty());
        }
    };
    let seeds = || {
        let lines = [
            "get db key --json",
            "put -- db -key value",
            "scan db --from a --to b --limit 3 --reverse",
            "load db file.csv --key-column k",
            "verify db",
            "keyspace create db users --order reverse --set compression=none",
            "--json keyspace list db",
            "dump db --all-keyspaces",
            "options --json",
            "lab ycsb --scale 1/100",
        ];
        lines.iter().map(|line| line.as_bytes().to_vec()).collect()
    };
    fuzz("arguments", run, seeds);
}
