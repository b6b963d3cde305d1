//! The sick states: how each is made, and the figure that its advice must make better.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use esker::{ErrorKind, Result};
use esker_lab::workload::rng::Rng;

use crate::patient::Patient;

/// A sick state.
pub struct Case {
    /// The doctor's name for it.
    pub finding: &'static str,
    /// How the store was made sick.
    pub made_by: &'static str,
    /// What is measured.
    pub figure: &'static str,
    pub more_is_better: bool,
    /// Options that differ from the defaults.
    pub options: &'static [(&'static str, &'static str)],
    /// Whether the device writes slowly.
    pub slow_device: bool,
    /// Whether the doctor judges the counters of the open store.
    pub live: bool,
    pub fill: fn(&mut Patient),
    /// Measures the figure.
    pub work: fn(&mut Patient) -> f64,
}

impl Case {
    /// Returns whether the doctor's name for it has `part`.
    pub fn is_named(&self, part: &str) -> bool {
        self.finding.contains(part)
    }
}

const DEFAULT: Case = Case {
    finding: "",
    made_by: "",
    figure: "",
    more_is_better: true,
    options: &[],
    slow_device: false,
    live: true,
    fill: |_| {},
    work: |_| 0.0,
};

/// All cases.
pub const CASES: &[Case] = &[
    Case {
        finding: "no filter",
        made_by: "no filters, gets of absent keys",
        figure: "gets of absent keys/s",
        options: &[("filter_bits_per_key", "0"), ("cache_size_bytes", "8388608")],
        fill: |patient| {
            // Absent keys between the present ones.
            load(patient, 300_000, |number| number * 2);
        },
        work: |patient| gets(patient, 300_000, |number| number * 2 + 1, false),
        ..DEFAULT
    },
    Case {
        finding: "cache too small",
        made_by: "a cache of 1 MiB for 60 MiB of data",
        figure: "gets/s",
        options: &[("cache_size_bytes", "1048576")],
        fill: |patient| load(patient, 300_000, |number| number),
        work: |patient| gets(patient, 300_000, |number| number, true),
        ..DEFAULT
    },
    Case {
        finding: "memtable too small",
        made_by: "a memtable of 64 KiB",
        figure: "overwrites/s, until the store is idle",
        options: &[("memtable_size_bytes", "65536")],
        fill: |patient| load(patient, 200_000, |number| number),
        work: |patient| overwrites(patient, 200_000, 1).0,
        ..DEFAULT
    },
    Case {
        finding: "stalls",
        made_by: "a device of 20 MB/s, a memtable of 1 MiB, bursts of 8 MiB",
        figure: "ms a burst",
        more_is_better: false,
        options: &[("memtable_size_bytes", "1048576")],
        slow_device: true,
        fill: |patient| {
            // Sick and cured bursts overwrite the same keys.
            _ = bursts(patient);
            patient.db().flush().expect("flushes");
            patient.db().wait_idle().expect("idle");
            patient.reopen();
        },
        work: bursts,
        ..DEFAULT
    },
    Case {
        finding: "tombstones",
        made_by: "no compactions, three of four pairs deleted",
        figure: "pairs of a whole scan/s",
        options: &[("auto_compaction", "false")],
        live: false,
        fill: |patient| {
            load(patient, 200_000, |number| number);
            let db = patient.db();
            let deleted = (0..200_000).filter(|number| number % 4 != 0);
            deleted.for_each(|number| db.delete(key(number)).expect("deletes"));
            db.flush().expect("flushes");
        },
        work: |patient| {
            let mut pairs = 0;
            let rate = per_second(10, || {
                for _ in 0..10 {
                    let (seen, scan) = scanned(patient);
                    scan.expect("scans");
                    pairs += seen;
                }
            });
            assert_eq!(pairs, 500_000);
            rate * 50_000.0
        },
        ..DEFAULT
    },
    Case {
        finding: "held snapshot",
        made_by: "four snapshots, each followed by an overwrite",
        figure: "MiB on disk",
        more_is_better: false,
        fill: |patient| {
            write_all(patient, 50_000, 0);
            for round in 1..=4 {
                let snapshot = patient.db().snapshot();
                patient.snapshots.push(snapshot);
                write_all(patient, 50_000, round);
            }
            patient.db().compact_all().expect("compacts");
        },
        work: disk_mib,
        ..DEFAULT
    },
    Case {
        finding: "space",
        made_by: "no compactions, each pair written five times",
        figure: "MiB on disk",
        more_is_better: false,
        options: &[("auto_compaction", "false")],
        live: false,
        fill: |patient| (0..5).for_each(|round| write_all(patient, 50_000, round)),
        work: disk_mib,
        ..DEFAULT
    },
    Case {
        finding: "too many runs",
        made_by: "no compactions, 30 flushes",
        figure: "seeks/s",
        options: &[("auto_compaction", "false")],
        live: false,
        fill: |patient| {
            for round in 0..30 {
                for number in 0..5_000 {
                    patient.db().put(key(number * 31 + round), value(number, 100)).expect("puts");
                }
                patient.db().flush().expect("flushes");
            }
        },
        // The keys whose number is 30 above a multiple of 31 are absent.
        work: |patient| seeks(patient, 155_000, |number| number % 31 < 30),
        ..DEFAULT
    },
    Case {
        finding: "policy against the workload",
        made_by: "`leveled`, and almost only writes",
        figure: "write amplification",
        more_is_better: false,
        options: &[("policy", "leveled"), ("memtable_size_bytes", "4194304")],
        // Enough data for three levels, on which the policies differ.
        fill: |patient| load(patient, 2_400_000, |number| number),
        work: |patient| overwrites(patient, 2_400_000, 1).1,
        ..DEFAULT
    },
    Case {
        finding: "damage",
        made_by: "a byte flipped in the middle of a table",
        figure: "pairs that a scan returns",
        live: false,
        fill: |patient| {
            load(patient, 100_000, |number| number);
            damage(patient);
        },
        work: |patient| {
            let (pairs, scan) = scanned(patient);
            if let Err(error) = scan {
                let is_expected = !patient.is_cured && error.kind() == ErrorKind::Corruption;
                assert!(is_expected, "a scan: {error}");
            }
            pairs as f64
        },
        ..DEFAULT
    },
];

/// A store with the defaults, whose advice must be none.
pub fn healthy() {
    let mut patient = Patient::new(&[], false);
    load(&mut patient, 100_000, |number| number);
    gets(&mut patient, 100_000, |number| number, true);
    let (live, closed) = (patient.findings(true), patient.findings(false));
    assert!(live.is_empty() && closed.is_empty(), "a healthy store: {live:?} {closed:?}");
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:012}").into_bytes()
}

/// Bytes that no compression shortens much.
fn value(number: u64, len: usize) -> Vec<u8> {
    let (mut rng, mut bytes) = (Rng::new(number), vec![0; len]);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
    }
    bytes
}

/// A spread order of `0..count`; `count` must not be a multiple of 7919.
fn spread(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |number| number * 7919 % count)
}

/// Puts `count` pairs of 200 bytes in spread order, and waits until they are in tables.
fn load(patient: &mut Patient, count: u64, number: impl Fn(u64) -> u64) {
    let db = patient.db();
    for at in spread(count) {
        db.put(key(number(at)), value(at, 200)).expect("puts");
    }
    db.flush().expect("flushes");
    db.wait_idle().expect("idle");
}

fn write_all(patient: &mut Patient, count: u64, round: u64) {
    let db = patient.db();
    for number in 0..count {
        db.put(key(number), value(number + round * 7, 200)).expect("puts");
    }
    db.flush().expect("flushes");
    db.wait_idle().expect("idle");
}

fn per_second(count: u64, body: impl FnOnce()) -> f64 {
    let began = Instant::now();
    body();
    count as f64 / began.elapsed().as_secs_f64()
}

/// Gets a second, of the second of two passes. All keys must be present if `expected`, else absent.
fn gets(patient: &mut Patient, count: u64, number: impl Fn(u64) -> u64, expected: bool) -> f64 {
    let db = patient.db();
    let pass = || {
        for at in spread(count) {
            let is_present = db.get(key(number(at))).expect("gets").is_some();
            assert_eq!(is_present, expected, "key {}", number(at));
        }
    };
    pass();
    per_second(count, pass)
}

/// Seeks a second, of the second of two passes. The store must have the keys of `0..count` that
/// `is_present` names, and no others.
fn seeks(patient: &mut Patient, count: u64, is_present: impl Fn(u64) -> bool) -> f64 {
    let db = patient.db();
    let pass = || {
        for at in spread(count) {
            let mut iter = db.iter().expect("an iterator");
            iter.seek(key(at)).expect("seeks");
            match (at..count).find(|number| is_present(*number)) {
                Some(next) => assert!(iter.valid() && iter.key() == key(next), "key {at}"),
                None => assert!(!iter.valid(), "key {at}"),
            }
        }
    };
    pass();
    per_second(count, pass)
}

/// Overwrites a second until the store is idle, and their write amplification.
fn overwrites(patient: &mut Patient, count: u64, rounds: u64) -> (f64, f64) {
    let db = patient.reopen();
    let rate = per_second(count * rounds, || {
        for (round, number) in (0..rounds).flat_map(|round| spread(count).map(move |n| (round, n)))
        {
            db.put(key(number), value(number + round, 200)).expect("puts");
        }
        db.flush().expect("flushes");
        db.wait_idle().expect("idle");
    });
    (rate, db.metrics().write_amplification().expect("writes"))
}

/// Milliseconds of a burst of 8 MiB, with pauses between the bursts.
fn bursts(patient: &mut Patient) -> f64 {
    const BURSTS: u64 = 10;
    let db = patient.db();
    let mut spent = Duration::ZERO;
    for burst in 0..BURSTS {
        let values: Vec<_> = (0..8192).map(|at| value(burst * 8192 + at, 1024)).collect();
        let began = Instant::now();
        for (at, value) in values.iter().enumerate() {
            db.put(key(burst * 8192 + at as u64), value).expect("puts");
        }
        spent += began.elapsed();
        std::thread::sleep(Duration::from_millis(700));
    }
    spent.as_secs_f64() * 1e3 / BURSTS as f64
}

fn disk_mib(patient: &mut Patient) -> f64 {
    patient.db().metrics().table_bytes as f64 / f64::from(1 << 20)
}

/// The number of pairs that a scan returns before it ends or fails, and whether it fails.
fn scanned(patient: &mut Patient) -> (u64, Result<()>) {
    let (mut iter, mut seen) = (patient.db().iter().expect("an iterator"), 0);
    let scan = iter.for_each_forward(|_, _| {
        seen += 1;
        ControlFlow::Continue(())
    });
    (seen, scan)
}

/// Flips a byte in the middle of the largest table.
fn damage(patient: &mut Patient) {
    let tables = patient.db().tables();
    let largest = tables.iter().max_by_key(|table| table.size_bytes).expect("a table");
    let (number, middle) = (largest.number, largest.size_bytes / 2);
    patient.close();
    let entries = std::fs::read_dir(patient.path()).expect("a directory").flatten();
    let file = entries
        .map(|entry| entry.path())
        .find(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            name.starts_with(&format!("{number:06}")) && !name.ends_with(".wal")
        })
        .expect("the file of the table");
    let mut bytes = std::fs::read(&file).expect("reads");
    bytes[middle as usize] ^= 1;
    std::fs::write(&file, bytes).expect("writes");
}
