//! YCSB's core workloads with the sizes of a benchmark's flags, and their result lines.
//!
//! Invariants:
//! 1. A record has ten fields of equal length, as in YCSB.
//! 2. Each workload has a store of its own, loaded before it. The load of workload A is reported.

use serde_json::{Map, Value, json};

use crate::error::{LabError, Result};
use crate::mix::ycsb::{Properties, result_lines};
use crate::record::schema::TaskSample;
use crate::run::config::BenchConfig;

/// The workloads, in the order of their reports.
pub const WORKLOADS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Fields of a record.
const FIELDS: usize = 10;

/// Returns whether the load phase of a workload is reported.
pub fn reports_load(letter: &str) -> bool {
    letter == WORKLOADS[0]
}

/// Returns the properties of a workload.
///
/// # Errors
/// The value size cannot be divided among the fields.
pub fn properties(letter: &str, config: &BenchConfig) -> Result<Properties> {
    if config.value_size == 0 || !config.value_size.is_multiple_of(FIELDS) {
        return Err(LabError::usage(format!(
            "--value_size must be a multiple of {FIELDS} with --preset ycsb, whose records have \
             {FIELDS} fields, found {}",
            config.value_size
        )));
    }
    let mut properties = Properties::core(letter)
        .ok_or_else(|| LabError::usage(format!("YCSB has no workload {letter:?}")))?;
    let records = config.num.unwrap_or(1);
    properties.set("recordcount", &records.to_string());
    properties.set("operationcount", &config.reads.unwrap_or(records).max(1).to_string());
    properties.set("fieldcount", &FIELDS.to_string());
    properties.set("fieldlength", &(config.value_size / FIELDS).to_string());
    properties.set("threadcount", &config.threads.to_string());
    Ok(properties)
}

/// Returns the name of a phase: `Load A`, or `A`.
pub fn phase_name(letter: &str, sample: &TaskSample) -> String {
    let letter = letter.to_uppercase();
    if sample.task == "load" { format!("Load {letter}") } else { letter }
}

/// Returns the result lines of a phase, after a line that names it.
pub fn text(engine: &str, letter: &str, sample: &TaskSample) -> String {
    let name = phase_name(letter, sample);
    let repetition = sample.repetition + 1;
    format!("# {engine}, workload {name}, run {repetition}\n{}", result_lines(sample))
}

/// Returns the result lines as an object: the values by section and name.
pub fn object(engine: &str, letter: &str, sample: &TaskSample) -> Value {
    let mut sections: Map<String, Value> = Map::new();
    for line in result_lines(sample).lines() {
        let mut parts = line.splitn(3, ", ");
        let (Some(section), Some(name), Some(value)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let section = section.trim_matches(['[', ']']);
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
        let values = sections.entry(section).or_insert_with(|| json!({}));
        values[name] = json!(number);
    }
    json!({
        "preset": "ycsb",
        "engine": engine,
        "workload": phase_name(letter, sample),
        "repetition": sample.repetition,
        "results": sections,
        "error": sample.error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_flags_become_properties() {
        let mut config = BenchConfig::default();
        for (flag, value) in [("num", "200"), ("reads", "50"), ("value_size", "80")] {
            config.set(flag, value).expect("a flag");
        }
        let of = |config: &BenchConfig| properties("e", config).map(|properties| properties.text());
        let text = of(&config).expect("right");
        for line in ["recordcount=200", "operationcount=50", "fieldlength=8", "threadcount=1"] {
            assert!(text.lines().any(|own| own == line), "{text}");
        }
        config.set("value_size", "85").expect("a flag");
        let error = of(&config).expect_err("not a multiple").to_string();
        assert!(error.contains("multiple of 10"), "{error}");
    }

    #[test]
    fn object_has_the_result_lines() {
        let mut sample = TaskSample::new("esker", "load", 0, 0);
        sample.elapsed_seconds = 1.0;
        let object = object("esker", "a", &sample);
        assert_eq!(object["workload"], "Load A");
        assert_eq!(object["results"]["OVERALL"]["RunTime(ms)"], 1000.0);
        assert!(object["results"]["OVERALL"]["Throughput(ops/sec)"].is_null());
        assert!(
            text("esker", "a", &sample).starts_with("# esker, workload Load A, run 1\n[OVERALL], ")
        );
    }
}
