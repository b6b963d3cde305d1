//! The OpenMetrics text of a store's metrics, read by a small parser of that format, and the table
//! of the metrics.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::tiny_options;
use esker::fs::MemFs;
use esker::schema::METRICS;
use esker::{Db, Metrics};

/// A family of the format.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    unit: String,
    help: String,
    /// Values by labels, as written.
    samples: BTreeMap<String, f64>,
}

/// Reads a text in the OpenMetrics format 1.0, and checks its rules.
fn parse(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("the text does not end with # EOF")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (word, name, value) = (words.next(), words.next(), words.next());
            let (Some(word), Some(name), Some(value)) = (word, name, value) else {
                return Err(format!("an incomplete line: {line}"));
            };
            if word == "TYPE" {
                // The lines of a family follow each other, so a name does not return.
                if families.insert(name.to_string(), Family::default()).is_some() {
                    return Err(format!("{name} occurs twice"));
                }
                current = name.to_string();
            }
            let family = families.get_mut(name).filter(|_| name == current);
            let family = family.ok_or_else(|| format!("{line} is outside of its family"))?;
            match word {
                "TYPE" => family.kind = value.to_string(),
                "UNIT" => family.unit = value.to_string(),
                "HELP" => family.help = unescape(value)?,
                other => return Err(format!("unknown word {other}")),
            }
            continue;
        }
        let (name_and_labels, value) = line.rsplit_once(' ').ok_or("a line without a value")?;
        let (name, labels) = match name_and_labels.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').ok_or("no closing brace")?),
            None => (name_and_labels, ""),
        };
        check_labels(labels)?;
        let family = families.get_mut(&current).ok_or("a sample before any family")?;
        let suffix = match family.kind.as_str() {
            "counter" => "_total",
            "gauge" => "",
            "info" => "_info",
            other => return Err(format!("unknown type {other}")),
        };
        if name != format!("{current}{suffix}") {
            return Err(format!("{name} is not a sample of {current}, a {}", family.kind));
        }
        let number: f64 = value.parse().map_err(|_| format!("no number: {line}"))?;
        if number < 0.0 || family.kind == "info" && number != 1.0 {
            return Err(format!("a wrong value: {line}"));
        }
        if family.samples.insert(labels.to_string(), number).is_some() {
            return Err(format!("{name_and_labels} occurs twice"));
        }
    }
    for (name, family) in &families {
        let suffix = format!("_{}", family.unit);
        if !family.unit.is_empty() && !name.ends_with(&suffix) {
            return Err(format!("{name} lacks its unit {}", family.unit));
        }
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        if name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_allowed) {
            return Err(format!("{name} is not a name"));
        }
    }
    Ok(families)
}

fn unescape(text: &str) -> Result<String, String> {
    let (mut plain, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some(escaped @ ('\\' | '"'))) => plain.push(escaped),
            ('\\', _) | ('"', _) => return Err(format!("a wrong escape in {text}")),
            (c, _) => plain.push(c),
        }
    }
    Ok(plain)
}

fn check_labels(labels: &str) -> Result<(), String> {
    if labels.is_empty() {
        return Ok(());
    }
    let (name, value) = labels.split_once('=').ok_or("a label without a value")?;
    if !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
        return Err(format!("{name} is not the name of a label"));
    }
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    unescape(value.ok_or("a value without quotes")?).map(drop)
}

fn used_store() -> Metrics {
    let db = Db::open_on(MemFs::new(), "/db", tiny_options()).unwrap();
    for i in 0..5_000u32 {
        db.put((i * 7919 % 4096).to_be_bytes(), [i as u8; 60]).unwrap();
        if i % 3 == 0 {
            db.get(i.to_be_bytes()).unwrap();
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let metrics = db.metrics();
    db.close().unwrap();
    metrics
}

#[test]
fn text_is_valid_and_has_every_number() {
    let metrics = used_store();
    assert!(metrics.levels.len() > 1 && metrics.compactions > 0, "{metrics}");
    let families = parse(&metrics.to_openmetrics()).unwrap();
    assert_eq!(families.len(), METRICS.len());
    for spec in METRICS {
        let family = families.get(spec.name).unwrap_or_else(|| panic!("{} is missing", spec.name));
        let kind = if spec.is_counter { "counter" } else { "gauge" };
        assert_eq!((&*family.kind, &*family.unit), (kind, spec.unit), "{}", spec.name);
        assert_eq!(family.help, spec.doc);
        let scale = if spec.unit == "seconds" { 1e6 } else { 1.0 };
        let is_close = |sample: f64, value: u64| (sample * scale - value as f64).abs() < 0.5;
        match spec.value(&metrics) {
            Some(value) => {
                assert_eq!(family.samples.len(), 1);
                assert!(is_close(family.samples[""], value), "{}: {family:?}", spec.name);
            }
            None => {
                assert_eq!(family.samples.len(), metrics.levels.len());
                for level in &metrics.levels {
                    let label = format!("level=\"{}\"", level.level);
                    let value = spec.level_value(level).unwrap();
                    assert!(is_close(family.samples[&label], value), "{}", spec.name);
                }
            }
        }
    }
    assert!(families["esker_user_bytes"].samples[""] > 0.0);
}

#[test]
fn found_damage_is_a_label_whatever_its_text() {
    let mut metrics = Metrics::default();
    for problem in ["plain", "a \"quoted\" \\ path\nand a line", "é = {x}"] {
        metrics.scrub_problem = Some(problem.to_string());
        let families = parse(&metrics.to_openmetrics()).unwrap();
        let family = &families["esker_scrub_problem"];
        assert_eq!((&*family.kind, family.samples.len()), ("info", 1));
        let label = family.samples.keys().next().unwrap();
        let value = label.strip_prefix("problem=\"").and_then(|v| v.strip_suffix('"')).unwrap();
        assert_eq!(unescape(value).unwrap(), problem);
    }
}

#[test]
fn parser_refuses_wrong_texts() {
    let good = "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes A.\na_bytes_total 1\n";
    assert_eq!(parse(&format!("{good}# EOF\n")).unwrap()["a_bytes"].samples[""], 1.0);
    for (text, why) in [
        (good.to_string(), "# EOF"),
        (format!("{good}{good}# EOF\n"), "twice"),
        (good.replace("_total", "") + "# EOF\n", "is not a sample"),
        (good.replace("UNIT a_bytes bytes", "UNIT a_bytes seconds") + "# EOF\n", "lacks its unit"),
        (good.replace(" 1", " x") + "# EOF\n", "no number"),
        (good.replace(" 1", " -1") + "# EOF\n", "wrong value"),
        (good.replace("total 1", "total{l=\"a\"b\"} 1") + "# EOF\n", "wrong escape"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(why), "{error}\n{text}");
    }
}

#[test]
fn table_names_each_field_once() {
    let names: BTreeSet<&str> = METRICS.iter().map(|spec| spec.name).collect();
    assert_eq!(names.len(), METRICS.len());
    let fields: BTreeSet<(&str, &str)> = METRICS.iter().map(|m| (m.part, m.field)).collect();
    assert_eq!(fields.len(), METRICS.len());
    assert!(fields.contains(&("memory", "cache_bytes")) && fields.contains(&("", "flushes")));
}
