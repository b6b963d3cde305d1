//! Tests of trends over artificial records: no engine runs, so nothing depends on the machine.
//!
//! Invariant: a record is made of speeds that a test names, with a scatter of one per cent.

mod artificial;

use artificial::{experiment, record};
use esker_lab::record::lab::LabRecord;
use esker_lab::report::trend::judge::{Row, Trend, Verdict, Wanted, trend};
use esker_lab::report::trend::sources::{Source, choose, differences};
use esker_lab::report::trend::{html, text};

const TEXT: &str = r#"
title = "Made up"
engines = ["esker", "leveldb"]

[[series]]
name = "at random"
tasks = "fillrandom,readrandom"
entries = 1_000

[[series]]
name = "in order"
tasks = "fillseq"
entries = 1_000
"#;

/// Factors of the speed in each run.
const SCATTER: [f64; 3] = [1.0, 1.01, 0.99];

/// Returns the record of a day: Esker's speed in reads and LevelDB's in all, in thousands.
fn day(day: u64, esker: f64, leveldb: f64) -> Source {
    let experiment = experiment(TEXT);
    let mut record = record(&experiment, "1", |at, sample| {
        let speed = match (at.engine, at.phase) {
            ("esker", "readrandom") => esker,
            ("esker", _) => 800.0,
            _ => leveldb,
        };
        let speed = speed * 1e3 * SCATTER[at.round];
        (sample.ops_per_sec, sample.micros_per_op) = (Some(speed), Some(1e6 / speed));
    });
    record.started_unix_seconds = day * 86_400;
    record.commit = Some(format!("{day}abcdef0123456789"));
    record.machine.optimised_build = true;
    Source { path: format!("{day}.json"), record }
}

fn made(sources: Vec<Source>, wanted: Wanted<'_>) -> Trend {
    trend(&choose(sources, Some("random")).expect("two records"), wanted).expect("figures")
}

/// Returns the row of a phase; `peer` is the other engine of a ratio.
fn row<'a>(trend: &'a Trend, phase: &str, peer: Option<&str>) -> &'a Row {
    let table = trend.tables.iter().find(|table| table.phase == phase).expect("a table");
    table.rows.iter().find(|row| row.peer.as_deref() == peer).expect("a row")
}

fn printed(trend: &Trend) -> String {
    let mut out = Vec::new();
    text::write(trend, &mut out).expect("written");
    String::from_utf8(out).expect("text")
}

#[test]
fn change_is_shown_in_time_and_ratio_and_unchanged_rows_stay() {
    // The order of the arguments does not matter.
    let trend = made(
        vec![day(3, 900.0, 200.0), day(1, 500.0, 200.0), day(2, 510.0, 200.0)],
        Wanted::default(),
    );
    let days: Vec<u64> = trend.records.iter().map(|r| r.started_unix_seconds / 86_400).collect();
    assert_eq!((days, trend.engine.as_str(), trend.judged_rows), (vec![1, 2, 3], "esker", 4));
    let read = row(&trend, "readrandom", None);
    assert_eq!(read.verdict, Verdict::Better);
    let factor = |change: Option<esker_lab::report::trend::judge::Change>| {
        (change.expect("a change").factor * 1000.0).round() / 1000.0
    };
    assert_eq!((factor(read.since_first), factor(read.since_previous)), (1.8, 1.765));
    let beside = row(&trend, "readrandom", Some("leveldb"));
    assert_eq!((beside.verdict, factor(beside.since_first)), (Verdict::Better, 1.8));
    let cell = beside.cells[0].as_ref().expect("a ratio");
    assert!((cell.value - 2.5).abs() < 1e-9 && cell.interval.is_some() && cell.runs == 3);
    for peer in [None, Some("leveldb")] {
        let fill = row(&trend, "fillrandom", peer);
        assert_eq!((fill.verdict, factor(fill.since_first)), (Verdict::NoChangeShown, 1.0));
    }
    let text = printed(&trend);
    assert!(text.contains("1970-01-04 00:00") && text.contains("3abcdef0"), "{text}");
    assert!(text.contains("faster") && text.contains("esker : leveldb"), "{text}");
    assert!(text.contains("2 better, 0 worse, 2 without a change that is shown"), "{text}");
    let page = html::page(&trend);
    assert_eq!(page.matches("<figure>").count(), 4, "two places with two pictures each");
    assert!(page.contains("<svg") && page.contains("n good"), "{page}");
}

#[test]
fn loss_is_worse_in_units_where_less_is_better_too() {
    for unit in ["us/op", "ops/s"] {
        let wanted = Wanted { unit: Some(unit), ..Wanted::default() };
        let trend = made(vec![day(1, 500.0, 200.0), day(2, 400.0, 200.0)], wanted);
        let read = row(&trend, "readrandom", None);
        assert_eq!(read.verdict, Verdict::Worse, "{unit}");
        assert!((read.since_first.expect("a change").factor - 0.8).abs() < 1e-9, "{unit}");
        assert_eq!(trend.count(Verdict::Worse), 2);
        assert!(printed(&trend).contains("slower"));
    }
    let wanted = Wanted { engine: Some("leveldb"), ..Wanted::default() };
    let trend = made(vec![day(1, 500.0, 200.0), day(2, 400.0, 200.0)], wanted);
    let beside = row(&trend, "readrandom", Some("esker"));
    assert_eq!(beside.verdict, Verdict::Better, "the other engine became slower");
    assert_eq!(row(&trend, "readrandom", None).verdict, Verdict::NoChangeShown);
}

#[test]
fn other_machines_are_judged_by_ratios_alone() {
    let mut other = day(2, 2000.0, 400.0);
    other.record.machine.cpu_count = 64;
    let sources = vec![day(1, 500.0, 200.0), other];
    let found = differences(&choose(sources.clone(), Some("random")).expect("records").sources);
    assert!(found.iter().any(|d| d.of_machine && d.what.contains("records 1 and 2: processors")));
    let trend = made(sources, Wanted::default());
    assert!(!trend.same_machine);
    let read = row(&trend, "readrandom", None);
    assert_eq!(
        (read.verdict, read.not_judged_because),
        (Verdict::NotJudged, Some("other machines"))
    );
    assert!(read.since_first.is_none() && read.cells.iter().all(Option::is_some));
    let beside = row(&trend, "readrandom", Some("leveldb"));
    assert_eq!(beside.verdict, Verdict::Better);
    assert!((beside.since_first.expect("a change").factor - 2.0).abs() < 1e-9);
    assert_eq!(trend.judged_rows, 2);
    assert!(printed(&trend).contains("different machines"));
}

#[test]
fn missing_single_and_zero_figures_are_not_judged() {
    let alter = |mut source: Source, change: fn(&mut LabRecord)| {
        change(&mut source.record);
        source
    };
    let single = |record: &mut LabRecord| record.samples.retain(|s| s.sample.repetition == 0);
    let trend =
        made(vec![day(1, 500.0, 200.0), alter(day(2, 900.0, 200.0), single)], Wanted::default());
    let read = row(&trend, "readrandom", None);
    assert_eq!((read.verdict, read.not_judged_because), (Verdict::NotJudged, Some("single runs")));
    assert!(printed(&trend).contains("1.80 ?"), "{}", printed(&trend));
    let gone = |record: &mut LabRecord| record.samples.retain(|s| s.phase == "fillrandom");
    let trend =
        made(vec![day(1, 500.0, 200.0), alter(day(2, 900.0, 200.0), gone)], Wanted::default());
    let read = row(&trend, "readrandom", None);
    assert_eq!(read.not_judged_because, Some("one record"));
    assert!(read.cells[1].is_none() && printed(&trend).contains("n/a"));
    let zero = |record: &mut LabRecord| {
        record.samples.iter_mut().for_each(|s| s.sample.micros_per_op = Some(0.0));
    };
    let trend =
        made(vec![day(1, 500.0, 200.0), alter(day(2, 900.0, 200.0), zero)], Wanted::default());
    assert_eq!(row(&trend, "readrandom", None).not_judged_because, Some("a figure is 0"));
}

#[test]
fn errors_are_sentences_that_list_what_there_is() {
    let fails = |sources: Vec<Source>, series: Option<&str>, part: &str| {
        let error = choose(sources, series).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    let two = || vec![day(1, 500.0, 200.0), day(2, 500.0, 200.0)];
    fails(Vec::new(), None, "no record is named");
    fails(two(), None, "--series: \"at random\" (2 records), \"in order\" (2 records)");
    fails(two(), Some("backwards"), "no record has a series \"backwards\"");
    fails(vec![day(1, 500.0, 200.0)], Some("in order"), "only 1.json has the series");
    fails(vec![day(1, 500.0, 200.0), day(1, 500.0, 200.0)], Some("in order"), "named twice");
    let mut other = two();
    other[1].record.experiment = "mine".into();
    fails(
        other,
        None,
        "several experiments, and a trend is of one: \"made-up\" (1 record), \"mine\"",
    );
    let mut smaller = two();
    smaller[1].record.points.iter_mut().for_each(|point| point.entries = 10);
    let chosen = choose(smaller, Some("in order")).expect("two records");
    let no_common = trend(&chosen, Wanted::default()).expect_err("nothing in common").to_string();
    assert!(no_common.contains("their scales are 1, 1"), "{no_common}");
    let chosen = choose(two(), Some("in order")).expect("two records");
    let wrong = |wanted| trend(&chosen, wanted).expect_err("wrong").to_string();
    let engine = wrong(Wanted { engine: Some("sled"), ..Wanted::default() });
    assert!(engine.contains("the records measured esker, leveldb"), "{engine}");
    let unit = wrong(Wanted { unit: Some("parsecs"), ..Wanted::default() });
    assert!(unit.contains("unknown unit \"parsecs\"") && unit.contains("ops/s"), "{unit}");
}

#[test]
fn records_without_the_series_are_left_out() {
    let mut without = day(2, 500.0, 200.0);
    without.record.points.retain(|point| point.series == "in order");
    without.record.samples.clear();
    let sources = vec![day(1, 500.0, 200.0), without, day(3, 500.0, 200.0)];
    let chosen = choose(sources, Some("at random")).expect("two records");
    assert_eq!((chosen.sources.len(), chosen.left_out), (2, vec!["2.json".to_string()]));
    let record = &chosen.sources[0].record;
    assert!(record.points.iter().all(|point| point.series == "at random"));
    assert_eq!((record.samples.len(), record.sessions.len()), (2 * 2 * 3, 2 * 3));
}

#[test]
fn json_has_every_figure_and_verdict() {
    let trend = made(vec![day(1, 500.0, 200.0), day(2, 900.0, 200.0)], Wanted::default());
    let json = serde_json::to_value(&trend).expect("an object");
    assert_eq!((&json["judged_rows"], &json["family_wise_error"]), (&4.into(), &0.05.into()));
    let table = &json["tables"][1];
    assert_eq!((&table["phase"], &table["unit"]), (&"readrandom".into(), &"us/op".into()));
    let row = &table["rows"][0];
    assert_eq!((&row["verdict"], &row["peer"]), (&"better".into(), &serde_json::Value::Null));
    assert!(row["cells"][1]["interval"].is_array() && row["p_adjusted"].is_number(), "{row}");
    assert!(row["since_first"]["p"].as_f64() <= row["p_adjusted"].as_f64(), "{row}");
}
