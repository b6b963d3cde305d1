//! Tests of an experiment's report on artificial records: no engine runs, so nothing depends on the
//! machine.

mod artificial;

use artificial::{At, experiment, record, speed, text};
use esker_lab::measure::histogram::Latencies;
use esker_lab::measure::space::SpaceTimeline;
use esker_lab::record::schema::TaskSample;
use esker_lab::report::grid::views;
use esker_lab::report::{lab_html, lab_summary, lab_text};

/// Returns the part of a page under the given heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(&format!(">{heading}</h2>")).unwrap_or_else(|| panic!("no {heading}"));
    let rest = &page[start..];
    &rest[..rest.find("<h2").unwrap_or(rest.len())]
}

const ALSO: &str = r#"
title = "Amplification"
engines = ["esker", "rocksdb"]

[[series]]
name = "loads"
tasks = "fillrandom"
entries = 1_000_000
unit = "ops/s"
also = ["write amplification", "p99.9, ms", "an idle thread's longest pause, ms"]
rows = "phase"
columns = "engine"
"#;

fn amplified(at: &At<'_>, sample: &mut TaskSample) {
    let rocksdb = at.engine == "rocksdb";
    speed(at, sample, if rocksdb { 300_000.0 } else { 1_000_000.0 });
    sample.write_amplification = Some(if rocksdb { 1.19 } else { 9.18 });
    let micros = if rocksdb { 8_000 } else { 2_000 };
    let mut latencies = Latencies::new();
    (0..1000).for_each(|_| latencies.record(micros * 1000));
    sample.latency = latencies.summary();
    sample.idle = Some(esker_lab::measure::idle::IdlePauses {
        wakes: 9,
        p999_micros: 100.0,
        max_micros: if rocksdb { 900.0 } else { 100.0 },
        cpu_seconds: 0.0,
    });
}

#[test]
fn ratio_and_colour_match_shown_unit() {
    let experiment = experiment(ALSO);
    let record = record(&experiment, "1", amplified);
    let page = lab_html::page(&experiment, &record);
    let cell = |heading: &str| {
        let own = section(&page, heading);
        let row = &own[own.find("<td>fillrandom</td>").expect("a row")..];
        row[..row.find("</tr>").expect("its end")].to_string()
    };
    let speeds = cell("loads");
    assert!(speeds.contains("<td class=\"n bad\">303,000 (0.30)</td>"), "{speeds}");
    let written = cell("loads, in write amplification");
    assert!(written.contains("<td class=\"n good\">1.19 (7.71)</td>"), "less is better: {written}");
    assert!(written.contains("<td class=\"n\">9.18</td>"), "{written}");
    let slowest = cell("loads, in p99.9, ms");
    assert!(slowest.contains("<td class=\"n bad\">") && slowest.contains("(0.25)"), "{slowest}");
    let pauses = cell("loads, in an idle thread&#39;s longest pause, ms");
    assert!(!pauses.contains('('), "no engine's doing, and not compared: {pauses}");
    let text = text(&experiment, &record);
    for part in [
        "More is better. In brackets: this figure over esker's; above 1 is better than esker.",
        "Less is better. In brackets: esker's figure over this one; above 1 is better than esker.",
        "1.19 (7.71)",
        "303,000 (0.30)",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let mut csv = Vec::new();
    lab_text::write_csv(&experiment, &record, &mut csv).expect("written");
    let csv = String::from_utf8(csv).expect("text");
    let row = csv.lines().find(|line| line.contains("rocksdb,measured,write amplification"));
    assert!(row.expect("a row").contains(",7.714"), "{row:?}");
}

#[test]
fn summary_uses_speed_of_series_shown_in_other_unit() {
    let text = ALSO.replace(
        "unit = \"ops/s\"\nalso = [\"write amplification\", ",
        "unit = \"write amplification\"\nalso = [",
    );
    let experiment = experiment(&text);
    let record = record(&experiment, "1", amplified);
    let all = lab_summary::summaries(&record, &views(&experiment, &record));
    let speed = all[1].speed.expect("measured");
    assert!((speed - 0.3).abs() < 0.001, "{speed}");
    assert_eq!(all[1].places, [0, 1, 0]);
}

#[test]
fn tasks_without_engine_are_excluded_from_means() {
    let text = "title = \"Sums\"\nengines = [\"esker\", \"leveldb\"]\n[[series]]\nname = \"a\"\n\
                tasks = \"fillseq,crc32c,readseq,crc32c\"\nentries = 1000\nrows = \"phase\"\n\
                columns = \"engine\"\n";
    let experiment = experiment(text);
    let record = record(&experiment, "1", |at, sample| {
        let slower = match (at.engine, at.phase) {
            ("leveldb", "fillseq" | "readseq") => 0.5,
            ("leveldb", _) => 20.0,
            _ => 1.0,
        };
        speed(at, sample, 1e6 * slower);
    });
    let all = lab_summary::summaries(&record, &views(&experiment, &record));
    let speed = all[1].speed.expect("measured");
    assert!((speed - 0.5).abs() < 1e-9, "the mean of two halves is {speed}");
    assert_eq!(all[1].places, [0, 2, 0]);
    let plain = self::text(&experiment, &record);
    let row = plain.lines().find(|line| line.contains("crc32c")).expect("still listed");
    assert!(!row.contains('('), "but not compared: {row}");
}

const SIZES: &str = r#"
title = "Sizes"
document = "A report"
engines = ["esker", "leveldb"]
scale = 0.5
scaled_options = ["write_buffer_size"]

[[series]]
name = "growing"
tasks = "fillseq"
entries = [4_000, 8_000, 48_000]
rows = "entries"
columns = "phase"

[[series.reported]]
by = "TheirDB"
rows = "entries"
columns = ["fillseq"]
data = [[4_000, 29.91], [48_000, 131.2]]

[[series]]
name = "buffers"
tasks = "fillseq"
entries = 100_000
rows = "write_buffer_size"
columns = "phase"
vary = { write_buffer_size = ["1M", "4M"] }

[phases.put]
update = 1
keys = "low"

[[series]]
name = "steps"
phases = ["put"]
keys = "binary"
entries = 400_000
steps = 4
step_size = 8
unit = "ops/ms"
rows = "step"
columns = "phase"
"#;

fn sized(at: &At<'_>, sample: &mut TaskSample) {
    speed(at, sample, if at.engine == "esker" { 2e6 } else { 1e6 });
    sample.user_written_bytes = 16 << 10;
}

#[test]
fn tables_show_run_sizes_beside_document_sizes() {
    let experiment = experiment(SIZES);
    let record = record(&experiment, "0.4", sized);
    let text = text(&experiment, &record);
    for part in [
        "20 % of the document's sizes (--scale 0.4)",
        "Ran: 800 to 9,600 entries, 6.2 KiB to 75.0 KiB of keys and values (document 4,000 to 48,000: 20 % of it).",
        "| 800 (document 4000) ",
        "| 9,600 (document 48,000) ",
        "Ran: 20,000 entries, 156.2 KiB of keys and values (document 100,000: 20 % of it).",
        "| 204.8 KiB (document 1M) ",
        "| 819.2 KiB (document 4M) ",
        "| data put so far ",
        "| 16.0 KiB (document 8) ",
        "| 64.0 KiB (document 32) ",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert!(!text.contains("scale 0.4,"), "{text}");
    let reported = text.find("**TheirDB (reported)**").expect("a table of its own");
    assert!(text[reported..].contains("| 48,000 "), "the document's own sizes: {text}");
}

#[test]
fn axes_show_run_sizes_beside_document_sizes() {
    let experiment = experiment(SIZES);
    let record = record(&experiment, "0.4", sized);
    let page = lab_html::page(&experiment, &record);
    assert!(page.contains("20 % of the document&#39;s sizes (--scale 0.4)"));
    let picture = |heading: &str| {
        let own = section(&page, heading);
        let start = own.find("<div class=\"panels").expect("panels");
        own[start..start + own[start..].find("</svg>").expect("a picture")].to_string()
    };
    let axis_holds = |heading: &str, texts: &[&str]| {
        let svg = picture(heading);
        for text in texts {
            assert!(svg.contains(&format!("\n{text}\n")), "{heading}: no {text}: {svg}");
        }
    };
    axis_holds(
        "growing",
        &["800", "4000", "9,600", "48,000", "entries; below, the document&apos;s entries (log)"],
    );
    axis_holds("buffers", &["204.8 KiB", "1M", "819.2 KiB", "4M"]);
    axis_holds("steps", &["16.0 KiB", "8", "64.0 KiB", "32"]);
}

#[test]
fn record_has_run_sizes_beside_document_sizes() {
    let experiment = experiment(SIZES);
    let record = record(&experiment, "0.4", sized);
    let json = serde_json::to_value(&record).expect("JSON");
    let point = &json["points"][0];
    assert_eq!((&point["entries"], &point["bytes"]), (&800.into(), &6400.into()));
    assert_eq!(point["document_entries"], 4000);
    assert_eq!(json["points"][3]["params_run"][1][1], "209715");
    let step = &json["points"][5]["steps"][1];
    assert_eq!((&step["step"], &step["put_bytes"]), (&"16".into(), &(32 << 10).into()));
    assert_eq!(step["put_entries"], 4096);
    let mut old = record.clone();
    for point in &mut old.points {
        (point.params_run, point.bytes, point.document_entries) = (Vec::new(), None, None);
        point.steps.clear();
    }
    old.note_sizes();
    let (was, is) = (text(&experiment, &record), text(&experiment, &old));
    assert_eq!(was, is, "a record from before gives the same text");
}

const KNOB: &str = r#"
title = "A knob"
engines = ["esker", "leveldb"]

[[series]]
name = "buffers"
tasks = "fillseq"
entries = 100_000
vary = { write_buffer_size = ["1M", "4M", "16M"] }
unit = "ops/s"
"#;

fn option_sample(at: &At<'_>, sample: &mut TaskSample) {
    let least = if at.engine == "esker" { 200_000.0 } else { 100_000.0 };
    let megabytes = at.param("write_buffer_size").trim_end_matches('M').parse().unwrap_or(1.0);
    speed(at, sample, least + megabytes * 1000.0);
}

/// Returns the number of figures and of panels in a section.
fn drawn(section: &str) -> (usize, usize) {
    (section.matches("<figure").count(), section.matches("class=\"panel\"").count())
}

#[test]
fn series_over_option_with_two_engines_is_one_chart() {
    let experiment = experiment(KNOB);
    let record = record(&experiment, "1", option_sample);
    let page = lab_html::page(&experiment, &record);
    let own = section(&page, "buffers");
    assert_eq!(drawn(own), (1, 1), "{own}");
    for part in [
        "operations per second over write_buffer_size",
        "a line for each engine",
        "smallest to the largest",
    ] {
        assert!(own.contains(part), "{part} is missing: {own}");
    }
    let picture = &own[own.find("<div class=\"panels").expect("panels")..];
    for part in ["\n1M\n", "\n4M\n", "\n16M\n", "var(--e0)", "var(--e1)", "write_buffer_size (log)"]
    {
        assert!(picture.contains(part), "{part} is missing: {picture}");
    }
}

#[test]
fn phases_of_option_are_panels_on_one_scale() {
    let text = KNOB.replace("\"fillseq\"", "\"fillseq,readseq,fillrandom\"");
    let experiment = experiment(&text);
    let record = record(&experiment, "1", |at, sample| {
        option_sample(at, sample);
        let times = if at.phase == "readseq" { 9.0 } else { 1.0 };
        speed(at, sample, sample.ops_per_sec.unwrap_or(1.0) * times);
    });
    let page = lab_html::page(&experiment, &record);
    let own = section(&page, "buffers");
    assert_eq!(drawn(own), (1, 3), "{own}");
    assert!(own.contains("a panel for each phase, all on one scale"), "{own}");
    let ticks: Vec<usize> =
        own.split("class=\"panel\"").map(|p| p.matches("\n1.5M\n").count()).collect();
    assert_eq!(ticks[1..], [1, 1, 1], "every panel reaches as far as the highest");
}

#[test]
fn only_distant_phases_have_own_scale_despite_slow_round() {
    let text = KNOB.replace("\"fillseq\"", "\"fillseq,readseq,compact\"");
    let experiment = experiment(&text);
    let record = record(&experiment, "1", |at, sample| {
        option_sample(at, sample);
        let times = match at.phase {
            "compact" => 1e-6,
            "readseq" if at.round == 0 => 1e-4,
            "readseq" => 9.0,
            _ => 1.0,
        };
        speed(at, sample, sample.ops_per_sec.unwrap_or(1.0) * times);
    });
    let page = lab_html::page(&experiment, &record);
    let own = section(&page, "buffers");
    assert_eq!(drawn(own), (1, 3), "{own}");
    let blocks: Vec<&str> = own.split("<div class=\"panels\">").skip(1).collect();
    assert_eq!(blocks.len(), 2, "{own}");
    assert!(blocks[0].contains("<b>readseq</b>") && blocks[1].contains("<b>compact</b>"), "{own}");
    assert!(own.contains("the values differ too much for one scale"), "{own}");
}

#[test]
fn policies_over_growing_store_are_lines_of_one_chart() {
    let text = "title = \"Policies\"\nengines = [\"esker\"]\n\
         [phases.put]\nupdate = 1\nkeys = \"low\"\n[phases.get]\nread = 1\nkeys = \"low\"\n\
         [[series]]\nname = \"policies\"\nphases = [\"put\", \"get\"]\nentries = 10_000\nsteps = 16\n\
         step_size = 2\nunit = \"ops/ms\"\nrows = \"step\"\ncolumns = \"phase\"\n\
         vary = { \"esker.cache_policy\" = [\"lru\", \"clock\", \"s3fifo\"] }\n";
    let experiment = experiment(text);
    let record = record(&experiment, "1", |at, sample| {
        speed(at, sample, 1e6 + at.step as f64 * 1000.0);
        sample.user_written_bytes = 80_000;
    });
    let page = lab_html::page(&experiment, &record);
    let own = section(&page, "policies");
    assert_eq!(drawn(own), (1, 2), "{own}");
    for part in
        ["a line for each esker.cache_policy", "lru", "clock", "s3fifo", "over data put so far"]
    {
        assert!(own.contains(part), "{part} is missing: {own}");
    }
}

#[test]
fn policies_without_size_are_marks_on_one_scale() {
    let text = "title = \"Policies\"\nengines = [\"esker\"]\n[[series]]\nname = \"policies\"\n\
                tasks = \"fillseq,readrandom\"\nentries = 10_000\nunit = \"ops/s\"\n\
                vary = { \"esker.cache_policy\" = [\"lru\", \"clock\"] }\n";
    let experiment = experiment(text);
    let record = record(&experiment, "1", |at, sample| {
        speed(
            at,
            sample,
            if at.param("esker.cache_policy") == "lru" { 219_826.0 } else { 206_296.0 },
        );
    });
    let page = lab_html::page(&experiment, &record);
    let own = section(&page, "policies");
    assert_eq!(drawn(own), (1, 1), "{own}");
    assert!(own.contains("a mark for each esker.cache_policy"), "{own}");
}

#[test]
fn space_over_time_has_a_line_for_each_bound() {
    let text = r#"
title = "A storm"
engines = ["esker", "rocksdb"]
repetitions = 1

[phases.storm]
start = "filled"
update = 1
operations = "entries*10"

[[series]]
name = "bounds"
phases = ["storm"]
entries = 1000
vary = { cache_size = ["8M", "16M"] }
unit = "most disk / live data"
also = ["write amplification"]
rows = "cache_size"
columns = "engine"
"#;
    let experiment = experiment(text);
    let record = record(&experiment, "full", |at, sample| {
        speed(at, sample, 1000.0);
        let most = if at.param("cache_size") == "8M" { 250 } else { 400 };
        sample.live_bytes = Some(100);
        sample.space = Some(SpaceTimeline {
            samples: vec![(0, 100), (1000, most), (2000, 150)],
            cpu_seconds: 0.0,
        });
    });
    let page = lab_html::page(&experiment, &record);
    let section = page.split("id=\"space\"").nth(1).expect("drawn");
    let section = section.split("<h2").next().expect("a section");
    assert!(page.contains("href=\"#space\""));
    for line in ["esker, cache_size 8M", "rocksdb, cache_size 16M"] {
        assert!(section.contains(line), "{line} is missing: {section}");
    }
    assert!(section.contains("esker, cache_size 8M at most 2.50"), "{section}");
    let mut out = Vec::new();
    lab_text::write(&experiment, &record, lab_text::Form::Terminal, &mut out).expect("written");
    let out = String::from_utf8(out).expect("text");
    let row = out.lines().find(|line| line.contains("rocksdb, cache_size 16M")).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[words.len() - 4..], ["3", "2.0", "4.00", "1.50"], "{out}");
    let without = self::record(&experiment, "full", |at, sample| speed(at, sample, 1000.0));
    assert!(!lab_html::page(&experiment, &without).contains("Space over time"));
}
