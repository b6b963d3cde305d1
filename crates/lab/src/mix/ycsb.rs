//! YCSB's core workload from its property files: the load phase, the run phase, and the result
//! lines.
//!
//! Properties have YCSB's names and defaults. Properties of a store have the names used by YCSB-cpp
//! (`leveldb.block_size`). An unknown property that could change the workload is an error, never
//! ignored.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::generators::Distribution;
use super::phase::{Phase, PhaseFile, Start};
use super::space::{FIELD_BYTES_MAX, FieldLength, KeyForm, Space};
use crate::record::schema::TaskSample;

/// Properties by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

/// Shares and distributions of the core workloads, from YCSB's files `workloada` to `workloadf`.
const CORE: &[(&str, &str)] = &[
    ("a", "readproportion=0.5\nupdateproportion=0.5\nrequestdistribution=zipfian"),
    ("b", "readproportion=0.95\nupdateproportion=0.05\nrequestdistribution=zipfian"),
    ("c", "readproportion=1\nupdateproportion=0\nrequestdistribution=zipfian"),
    (
        "d",
        "readproportion=0.95\nupdateproportion=0\ninsertproportion=0.05\nrequestdistribution=latest",
    ),
    (
        "e",
        "readproportion=0\nupdateproportion=0\nscanproportion=0.95\ninsertproportion=0.05\n\
         requestdistribution=zipfian\nmaxscanlength=100\nscanlengthdistribution=uniform",
    ),
    (
        "f",
        "readproportion=0.5\nupdateproportion=0\nreadmodifywriteproportion=0.5\n\
         requestdistribution=zipfian",
    ),
];

/// Properties of YCSB's client without an effect here.
const WITHOUT_EFFECT: &[&str] = &[
    "workload",
    "table",
    "db",
    "dbname",
    "exporter",
    "exportfile",
    "measurementtype",
    "measurement.interval",
    "hdrhistogram.percentiles",
    "hdrhistogram.fileoutput",
    "hdrhistogram.output.path",
    "histogram.buckets",
    "timeseries.granularity",
    "reportlatencyforeacherror",
    "status.interval",
    "sleepafterload",
    "silence",
    "dotransactions",
];

/// A core workload: its records and its two phases.
#[derive(Debug)]
pub struct Workload {
    /// Number of records to load.
    pub records: u64,
    /// Number of threads of both phases.
    pub threads: usize,
    /// Form of the keys.
    pub form: KeyForm,
    /// Number of fields of a record.
    pub fields: usize,
    /// Length of a field.
    pub length: FieldLength,
    /// Load phase.
    pub load: Phase,
    /// Run phase.
    pub run: Phase,
}

impl Properties {
    /// Returns YCSB's core workload `a` to `f`.
    pub fn core(letter: &str) -> Option<Properties> {
        let text = CORE.iter().find(|(name, _)| *name == letter)?.1;
        let mut properties = Properties::default();
        properties.read(text).ok()?;
        Some(properties)
    }

    /// Adds the lines of a property file. The error names the number of a line that is not a
    /// `name=value`.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let Some((name, value)) = line.split_once(['=', ':']) else {
                return Err(format!("line {}: expected name=value, found {line:?}", index + 1));
            };
            self.set(name.trim(), value.trim());
        }
        Ok(())
    }

    /// Sets one property.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.into(), value.into());
    }

    /// Formats all properties as a file.
    pub fn text(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
    }

    /// Returns the value of one property.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the names of the store properties that the lab sets itself, identically for every
    /// engine: the directory, an empty initial store, one value per record.
    pub fn decided_here(&self, engines: &[&str]) -> Vec<String> {
        let ours = |name: &str, value: &str| match name.split_once('.') {
            Some((engine, "format")) => engines.contains(&engine) && value == "single",
            Some((engine, own)) => engines.contains(&engine) && DECIDED_HERE.contains(&own),
            None => false,
        };
        let all = self.0.iter().filter(|(name, value)| ours(name, value));
        all.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the properties of stores, such as `leveldb.block_size`.
    pub fn of_stores(&self, engines: &[&str]) -> Vec<(String, String)> {
        let is_store = |name: &str| name.split_once('.').is_some_and(|(e, _)| engines.contains(&e));
        let decided = self.decided_here(engines);
        self.0
            .iter()
            .filter(|(name, _)| is_store(name) && !decided.contains(name))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect()
    }

    fn number(&self, name: &str, default: f64) -> Result<f64, String> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| format!("{name} must be a number, 0 or more, found {text:?}"))
    }

    fn whole(&self, name: &str, default: u64, least: u64, most: u64) -> Result<u64, String> {
        let number = self.number(name, default as f64)?;
        if number.fract() != 0.0 || number < least as f64 || number > most as f64 {
            return Err(format!(
                "{name} must be a whole number, {least} to {most}, found {number}"
            ));
        }
        Ok(number as u64)
    }

    fn switch(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(text) => Err(format!("{name} must be true or false, found {text:?}")),
        }
    }

    /// Builds the workload described by the properties; `engines` are the stores with known
    /// properties.
    pub fn workload(&self, engines: &[&str]) -> Result<Workload, String> {
        self.refuse_unknown(engines)?;
        let records = self.whole("recordcount", 1000, 1, u64::from(u32::MAX) - 2)?;
        if self.whole("insertstart", 0, 0, u64::MAX)? != 0 {
            return Err("insertstart must be 0, because one client loads all records".into());
        }
        let inserts = self.whole("insertcount", records, 1, records)?;
        let operations = self.whole("operationcount", 1000, 1, u64::from(u32::MAX) - 2)?;
        let threads = self.whole("threadcount", self.whole("threads", 1, 1, 1024)?, 1, 1024)?;
        let hashed = match self.get("insertorder").unwrap_or("hashed") {
            "hashed" => true,
            "ordered" => false,
            other => return Err(format!("insertorder must be hashed or ordered, found {other:?}")),
        };
        let padding = self.whole("zeropadding", 1, 1, 40)? as usize;
        let fields = self.whole("fieldcount", 10, 1, 255)? as usize;
        let target = self.number("target", 0.0)?;
        let mut load = PhaseFile {
            insert: 1.0,
            keys: Some("sequential".into()),
            operations: Some((inserts as i64).into()),
            ..PhaseFile::default()
        };
        load.rate = (target > 0.0).then_some(target);
        Ok(Workload {
            records,
            threads: threads as usize,
            form: KeyForm::User { hashed, padding },
            fields,
            length: self.field_length()?,
            load: load.phase("load")?,
            run: self.run_phase(operations, load.rate)?,
        })
    }

    fn run_phase(&self, operations: u64, rate: Option<f64>) -> Result<Phase, String> {
        let file = PhaseFile {
            read: self.number("readproportion", 0.95)?,
            update: self.number("updateproportion", 0.05)?,
            insert: self.number("insertproportion", 0.0)?,
            scan: self.number("scanproportion", 0.0)?,
            rmw: self.number("readmodifywriteproportion", 0.0)?,
            operations: Some((operations as i64).into()),
            rate,
            ..PhaseFile::default()
        };
        let mut phase = file.phase("run")?;
        phase.keys = self.distribution()?;
        phase.scan.least = self.whole("minscanlength", 1, 1, u64::from(u16::MAX))?;
        let most = u64::from(u16::MAX);
        phase.scan.most = self.whole("maxscanlength", 1000, phase.scan.least, most)?;
        phase.scan.zipfian = match self.get("scanlengthdistribution").unwrap_or("uniform") {
            "uniform" => false,
            "zipfian" => true,
            other => return Err(format!("scanlengthdistribution {other:?} is not supported")),
        };
        phase.write_all_fields = self.switch("writeallfields", false)?;
        phase.read_all_fields = self.switch("readallfields", true)?;
        if self.number("fieldcount", 10.0)? == 1.0 {
            // A single field is the whole record.
            phase.write_all_fields = true;
        }
        Ok(phase)
    }

    fn distribution(&self) -> Result<Distribution, String> {
        let name = self.get("requestdistribution").unwrap_or("uniform");
        let known = ["uniform", "zipfian", "latest", "sequential", "hotspot", "exponential"];
        match Distribution::parse(name).filter(|_| known.contains(&name)) {
            Some(Distribution::Hotspot { data, operations }) => Ok(Distribution::Hotspot {
                data: self.number("hotspotdatafraction", data)?.min(1.0),
                operations: self.number("hotspotopnfraction", operations)?.min(1.0),
            }),
            Some(Distribution::Exponential { percentile, share }) => {
                Ok(Distribution::Exponential {
                    percentile: self
                        .number("exponential.percentile", percentile)?
                        .clamp(1.0, 99.999),
                    share: self.number("exponential.frac", share)?.clamp(1e-6, 1.0),
                })
            }
            Some(distribution) => Ok(distribution),
            None => Err(format!("requestdistribution {name:?} is not one of {}", known.join(", "))),
        }
    }

    fn field_length(&self) -> Result<FieldLength, String> {
        let most = self.whole("fieldlength", 100, 1, FIELD_BYTES_MAX as u64)? as usize;
        let least = self.whole("minfieldlength", 1, 1, most as u64)? as usize;
        match self.get("fieldlengthdistribution").unwrap_or("constant") {
            "constant" => Ok(FieldLength::Constant(most)),
            "uniform" => Ok(FieldLength::Uniform(least, most)),
            "zipfian" => Ok(FieldLength::zipfian(least, most)),
            other => Err(format!("fieldlengthdistribution {other:?} is not supported")),
        }
    }

    fn refuse_unknown(&self, engines: &[&str]) -> Result<(), String> {
        let (stores, decided) = (self.of_stores(engines), self.decided_here(engines));
        for name in self.0.keys() {
            let known = UNDERSTOOD.contains(&name.as_str())
                || WITHOUT_EFFECT.contains(&name.as_str())
                || stores.iter().any(|(store, _)| store == name)
                || decided.contains(name);
            if !known {
                return Err(format!("unknown property {name:?}"));
            }
        }
        Ok(())
    }
}

/// Store properties in YCSB-cpp's property files that the lab sets itself.
const DECIDED_HERE: &[&str] = &["dbname", "dbpath", "destroy", "max_open_files"];

/// Properties that affect the workload.
const UNDERSTOOD: &[&str] = &[
    "recordcount",
    "operationcount",
    "insertstart",
    "insertcount",
    "threadcount",
    "threads",
    "target",
    "fieldcount",
    "fieldlength",
    "minfieldlength",
    "fieldlengthdistribution",
    "readallfields",
    "writeallfields",
    "readproportion",
    "updateproportion",
    "insertproportion",
    "scanproportion",
    "readmodifywriteproportion",
    "requestdistribution",
    "minscanlength",
    "maxscanlength",
    "scanlengthdistribution",
    "insertorder",
    "zeropadding",
    "hotspotdatafraction",
    "hotspotopnfraction",
    "exponential.percentile",
    "exponential.frac",
];

impl Workload {
    /// Returns the form of the records; values compress to about `ratio`.
    pub fn space(&self, ratio: f64, seed: u64) -> Space {
        Space::new(self.form, self.fields, self.length.clone(), ratio, seed)
    }

    /// Returns the load phase on an empty store. It is hidden unless it `is_measured`.
    pub fn load_phase(&self, is_measured: bool) -> Phase {
        Phase { start: Start::Empty, hidden: !is_measured, ..self.load.clone() }
    }
}

/// Formats YCSB's result lines for a phase.
pub fn result_lines(sample: &TaskSample) -> String {
    let mut text = String::new();
    let mut line = |kind: &str, name: &str, value: String| {
        let _ = writeln!(text, "[{kind}], {name}, {value}");
    };
    let rate = sample.ops_per_sec.map_or("NaN".into(), |rate| format!("{rate}"));
    line("OVERALL", "RunTime(ms)", format!("{:.0}", sample.elapsed_seconds * 1e3));
    line("OVERALL", "Throughput(ops/sec)", rate);
    for kind in &sample.kinds {
        let latency = &kind.latency;
        let name = kind.kind.as_str();
        line(name, "Operations", latency.count.to_string());
        line(name, "AverageLatency(us)", format!("{:.3}", latency.mean_micros));
        line(name, "MinLatency(us)", format!("{:.3}", latency.min_micros));
        line(name, "MaxLatency(us)", format!("{:.3}", latency.max_micros));
        line(name, "95thPercentileLatency(us)", format!("{:.3}", latency.p95_micros));
        line(name, "99thPercentileLatency(us)", format!("{:.3}", latency.p99_micros));
        line(name, "99.9PercentileLatency(us)", format!("{:.3}", latency.p999_micros));
        line(name, "99.99PercentileLatency(us)", format!("{:.3}", latency.p9999_micros));
        line(name, "Return=OK", kind.ok.to_string());
        if kind.ok < latency.count {
            line(name, "Return=NOT_FOUND", (latency.count - kind.ok).to_string());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::phase::OpKind;

    fn core(letter: &str, more: &str) -> Result<Workload, String> {
        let mut properties = Properties::core(letter).expect("a to f");
        properties.read(more)?;
        properties.workload(&["leveldb", "esker"])
    }

    #[test]
    fn six_workloads_have_standard_shares() {
        let shares = |letter: &str| core(letter, "").expect("right").run.shares;
        use OpKind::{Insert, Read, ReadModifyWrite, Scan, Update};
        assert_eq!(shares("a"), [(Read, 0.5), (Update, 0.5)]);
        assert_eq!(shares("b"), [(Read, 0.95), (Update, 0.05)]);
        assert_eq!(shares("c"), [(Read, 1.0)]);
        assert_eq!(shares("d"), [(Read, 0.95), (Insert, 0.05)]);
        assert_eq!(shares("e"), [(Insert, 0.05), (Scan, 0.95)]);
        assert_eq!(shares("f"), [(Read, 0.5), (ReadModifyWrite, 0.5)]);
        assert_eq!(core("d", "").expect("right").run.keys, Distribution::Latest);
        let scans = core("e", "").expect("right").run.scan;
        assert_eq!((scans.least, scans.most, scans.zipfian), (1, 100, false));
        assert!(Properties::core("g").is_none());
    }

    #[test]
    fn java_property_files_are_parsed() {
        let text = "# a comment\n! another\n\nrecordcount = 5000\noperationcount:700\n\
                    insertorder=ordered\nthreadcount=4\nleveldb.block_size=8192\nworkload=x\n";
        let workload = core("a", text).expect("right");
        assert_eq!((workload.records, workload.threads), (5000, 4));
        assert_eq!(workload.form, KeyForm::User { hashed: false, padding: 1 });
        assert_eq!(workload.run.operations.value(1, 1), 700);
        assert_eq!(workload.fields, 10);
        assert!(!workload.run.write_all_fields && workload.run.read_all_fields);
        assert!(core("a", "fieldcount=1").expect("right").run.write_all_fields);
        let mut properties = Properties::default();
        properties.read(text).expect("right");
        let stores = properties.of_stores(&["leveldb"]);
        assert_eq!(stores, [("leveldb.block_size".into(), "8192".into())]);
    }

    #[test]
    fn ycsb_cpp_property_files_are_parsed() {
        let mut properties = Properties::default();
        let text = "leveldb.dbname=/tmp/db\nleveldb.format=single\nleveldb.destroy=false\n\
                    leveldb.max_open_files=1000\nleveldb.filter_bits=10\n";
        properties.read(text).expect("right");
        properties.workload(&["leveldb"]).expect("nothing is unknown");
        let one = [("leveldb.filter_bits".to_string(), "10".to_string())];
        assert_eq!(properties.of_stores(&["leveldb"]), one);
        assert_eq!(properties.decided_here(&["leveldb"]).len(), 4);
        properties.set("leveldb.format", "row");
        assert_eq!(
            properties.of_stores(&["leveldb"]).len(),
            2,
            "another layout is not passed over"
        );
        assert_eq!(properties.decided_here(&["rocksdb"]).len(), 0);
    }

    #[test]
    fn unknown_properties_are_refused() {
        for (text, words) in [
            ("recordcount=many", "recordcount"),
            ("recordcount=0", "recordcount"),
            ("insertstart=100", "insertstart"),
            ("requestdistribution=normal", "normal"),
            ("insertorder=random", "insertorder"),
            ("readproportion=-1", "readproportion"),
            ("fieldlengthdistribution=histogram", "histogram"),
            ("maxscanlength=99999999", "maxscanlength"),
            ("rocksdb.block_size=1", "rocksdb.block_size"),
            ("reedproportion=1", "reedproportion"),
            ("nonsense", "line 1"),
        ] {
            let error = core("a", text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn result_lines_match_ycsb_format() {
        let mut sample = TaskSample::new("esker", "run", 0, 0);
        sample.elapsed_seconds = 2.0;
        sample.ops_per_sec = Some(50.0);
        let mut latencies = crate::measure::histogram::Latencies::new();
        (1..=100u64).for_each(|micros| latencies.record(micros * 1000));
        let latency = latencies.summary().expect("counted");
        let kind = crate::record::schema::KindSample { kind: "READ".into(), ok: 99, latency };
        sample.kinds.push(kind);
        let lines = result_lines(&sample);
        for line in [
            "[OVERALL], RunTime(ms), 2000",
            "[OVERALL], Throughput(ops/sec), 50",
            "[READ], Operations, 100",
            "[READ], 95thPercentileLatency(us), 95.",
            "[READ], Return=OK, 99",
            "[READ], Return=NOT_FOUND, 1",
        ] {
            assert!(lines.contains(line), "{line} is missing: {lines}");
        }
    }
}
