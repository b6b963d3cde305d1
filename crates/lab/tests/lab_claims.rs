//! Tests of a document's claims on an artificial record: no engine runs.

mod artificial;

use artificial::{experiment, record, speed, text};
use esker_lab::experiment::claim;
use esker_lab::report::grid::views;
use esker_lab::report::lab_claims::{Verdict, tested};
use esker_lab::report::{lab_claims, lab_html, lab_picture, lab_text, site};

const FILE: &str = r#"title = "Claims"
engines = ["esker", "leveldb"]

[[series]]
name = "blocks"
tasks = "fillseq,readrandom"
entries = 1000
vary = { block_size = [1024, 4096] }
rows = "phase"
columns = "block_size"

[[series.reported]]
by = "LevelDB"
rows = "phase"
across = "block_size"
columns = [1024, 4096]
data = [["fillseq", 4.0, 2.0], ["readrandom", 2.0, 3.0]]

[[claim]]
text = "Larger blocks are filled faster."
series = "blocks"
of = { phase = "fillseq", block_size = 4096 }
to = { phase = "fillseq", block_size = 1024 }
by = "LevelDB"
expect = "below 1"
explanation = "Fewer blocks have fewer checksums."

[[claim]]
text = "Reads take as long with both."
series = "blocks"
of = { phase = "readrandom", block_size = 4096 }
to = { phase = "readrandom", block_size = 1024 }
expect = "0.9 to 1.1"
engines = ["leveldb"]

[[claim]]
text = "LevelDB reads at half of Esker's speed."
series = "blocks"
of = { phase = "readrandom", block_size = 1024, engine = "leveldb" }
to = { phase = "readrandom", block_size = 1024, engine = "esker" }
unit = "ops/s"
expect = "0.4 to 0.6"
"#;

fn made_up() -> (esker_lab::experiment::Experiment, esker_lab::record::lab::LabRecord) {
    let experiment = experiment(FILE);
    let record = record(&experiment, "1", |at, sample| {
        let faster = if at.param("block_size") == "4096" { 1.5 } else { 1.0 };
        let engine = if at.engine == "esker" { 2.0 } else { 1.0 };
        // Esker's larger blocks are filled more slowly.
        let faster = match (at.phase, at.engine) {
            ("fillseq", "esker") => 1.0 / faster,
            ("readrandom", "leveldb") => 1.0 / (faster * faster),
            _ => faster,
        };
        speed(at, sample, 1e6 * engine * faster);
    });
    (experiment, record)
}

#[test]
fn each_claim_has_a_verdict_for_each_engine() {
    let (experiment, record) = made_up();
    let all = tested(&experiment, &record);
    let verdicts: Vec<Vec<(&str, Verdict)>> = all
        .iter()
        .map(|one| one.tests.iter().map(|t| (t.engine.as_str(), t.verdict)).collect())
        .collect();
    assert_eq!(
        verdicts,
        [
            vec![("esker", Verdict::Refuted), ("leveldb", Verdict::Confirmed)],
            vec![("leveldb", Verdict::Refuted)],
            vec![("leveldb / esker", Verdict::Confirmed)],
        ]
    );
    assert_eq!(all[0].reported, Some(0.5));
    assert_eq!(all[1].reported, None);
    assert!((all[0].tests[1].ratio.ratio - 1.0 / 1.5).abs() < 0.03);
}

#[test]
fn each_form_of_a_report_shows_claims() {
    let (experiment, record) = made_up();
    let markdown = text(&experiment, &record);
    for part in [
        "## Claims of the document",
        "- leveldb: 1 of 2 confirmed, 1 refuted, 0 not shown.",
        "| 1. Larger blocks are filled faster. (us/op) | below 1 | 0.500 | esker |",
        "| **refuted** |",
        "**1.** Fewer blocks have fewer checksums.",
    ] {
        assert!(markdown.contains(part), "{part} is missing: {markdown}");
    }
    let mut out = Vec::new();
    lab_text::write(&experiment, &record, lab_text::Form::Terminal, &mut out).expect("written");
    let terminal = String::from_utf8(out).expect("text");
    assert!(terminal.contains("2. Reads take as long with both."), "{terminal}");
    assert!(terminal.contains("us/op, expected 0.9 to 1.1, document –"), "{terminal}");
    let mut csv = Vec::new();
    lab_claims::write_claims_csv(&experiment, &record, &mut csv).expect("written");
    let csv = String::from_utf8(csv).expect("text");
    assert_eq!(csv.lines().count(), 1 + 2 + 1 + 1, "{csv}");
    assert!(csv.contains("Larger blocks are filled faster.,us/op,below 1,0.5,leveldb,"), "{csv}");
    let page = lab_html::page(&experiment, &record);
    for part in ["href=\"#claims\"", "<td class=\"bad\">refuted</td>", "Fewer blocks have fewer"] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
}

#[test]
fn a_claim_about_a_series_that_did_not_run_is_not_measured() {
    let (experiment, mut record) = made_up();
    record.points.clear();
    record.samples.clear();
    record.sessions.clear();
    assert!(tested(&experiment, &record).iter().all(|one| one.tests.is_empty()));
    assert!(text(&experiment, &record).contains("| not measured |"));
}

#[test]
fn a_record_of_a_built_in_experiment_gets_its_claims_of_today() {
    let now = esker_lab::experiment::find::find("projectdb").expect("built in");
    let (before, _) = now.text.split_once("[[claim]]").expect("it has claims");
    let parse = |text: &str| {
        esker_lab::experiment::Experiment::of_record("projectdb", text).expect("an experiment")
    };
    let mut old = parse(before);
    assert!(old.file.claims.is_empty());
    claim::adopt(&mut old);
    assert_eq!(old.file.claims.len(), parse(&now.text).file.claims.len());
    // Claims about a series that the record does not have are left out.
    let mut other = parse(&before.replace("index block 2 kB", "index block 3 kB"));
    claim::adopt(&mut other);
    assert!(!other.file.claims.is_empty() && other.file.claims.len() < old.file.claims.len());
}

#[test]
fn picture_is_complete_without_a_page() {
    let (experiment, record) = made_up();
    let views = views(&experiment, &record);
    let svg = lab_picture::picture(&views[0], &lab_html::whos(&views));
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
    for part in ["--e0:#", "blocks", "esker", "leveldb", "<style>"] {
        assert!(svg.contains(part), "{part} is missing: {svg}");
    }
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
}

#[test]
fn site_has_an_index_and_a_page_for_each_record_and_loads_nothing() {
    let entry = || {
        let (experiment, record) = made_up();
        site::Entry { experiment, record }
    };
    let files = site::files(&[entry(), entry()]);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["index.html", "made-up.html", "made-up-2.html"]);
    let index = &files[0].1;
    for name in &names[1..] {
        assert!(index.contains(&format!("href=\"{name}\"")), "{name}: {index}");
    }
    assert!(index.contains("leveldb: 1 of 2 confirmed, 1 refuted, 0 not shown"), "{index}");
    for (name, page) in &files {
        // The name of SVG's own namespace is no address to load.
        let rest = page.replace("http://www.w3.org/2000/svg", "");
        let loads = ["http", "src=", "<link", "@import", "url("];
        assert!(!loads.iter().any(|word| rest.contains(word)), "{name} loads something");
    }
}
