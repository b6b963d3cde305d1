//! The rules: each names one sick state by numbers, and says which one change to make.
//!
//! Invariants:
//! 1. A rule has a finding only with evidence in numbers. What was not measured is no evidence.
//! 2. The advice is a command or an option with its value, and how to undo it.

use esker::internals::human_bytes;

use super::evidence::Evidence;

/// A sick state of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Short name of the state.
    pub name: &'static str,
    /// Whether data is damaged.
    pub is_damage: bool,
    /// What limits the store, as a sentence.
    pub text: String,
    /// The numbers that show it.
    pub evidence: Vec<String>,
    /// The one change to make: a command, or an option as `name=value`.
    pub advice: String,
    /// What the change should bring.
    pub expected: &'static str,
    /// How to undo the change.
    pub undo: &'static str,
}

type Rule = fn(&Evidence) -> Option<Finding>;

/// All rules, the most urgent first.
pub const RULES: &[Rule] = &[
    damage,
    stalls,
    held_snapshot,
    no_filter,
    cache_too_small,
    memtable_too_small,
    too_many_runs,
    policy_against_the_workload,
    tombstones,
    space,
];

/// Returns the findings of all rules.
pub fn findings(evidence: &Evidence) -> Vec<Finding> {
    RULES.iter().filter_map(|rule| rule(evidence)).collect()
}

/// Minimum number of block reads from which their shares are judged.
const BLOCK_READS_MIN: u64 = 10_000;
/// Minimum number of evictions from which the cache counts as full.
const EVICTIONS_MIN: u64 = 1_000;
/// Minimum number of flushes from which their size is judged.
const FLUSHES_MIN: u64 = 16;
/// Minimum number of tombstones that are judged.
const TOMBSTONES_MIN: u64 = 1_000;
const NO_UNDO: &str = "nothing needs to be undone";
const OLD_VALUE: &str = "give the option its old value";

fn damage(own: &Evidence) -> Option<Finding> {
    let first = own.problems.first()?;
    let mut evidence: Vec<String> = own.problems.iter().take(5).cloned().collect();
    evidence.insert(0, format!("{} problem(s) found", own.problems.len()));
    Some(Finding {
        name: "damage",
        is_damage: true,
        text: format!("Data is damaged: {first}"),
        evidence,
        advice: format!("esker repair {}", own.path),
        expected: "the store opens with all intact data; the repair lists what is lost",
        undo: "the repair keeps the original files",
    })
}

fn stalls(own: &Evidence) -> Option<Finding> {
    let mut evidence = Vec::new();
    if let Some(live) = &own.live {
        let open_us = live.open_for.as_micros() as f64;
        let (stalled, slowed) = (live.metrics.stalled_us as f64, live.metrics.slowed_us as f64);
        if stalled >= 0.01 * open_us && stalled >= 10_000.0 {
            evidence.push(format!(
                "writers stood for {:.2} s, {:.1} % of the time since the opening",
                stalled / 1e6,
                stalled / open_us * 100.0
            ));
        }
        if slowed >= 0.05 * open_us && slowed >= 10_000.0 {
            evidence.push(format!(
                "the write throttle slowed writers by {:.2} s; {} wait for compaction",
                slowed / 1e6,
                human_bytes(live.metrics.debt_bytes)
            ));
        }
    }
    if own.stalls.count >= 3 {
        evidence.push(format!(
            "LOG has {} write stalls since the last opening, the last: {}",
            own.stalls.count, own.stalls.example
        ));
    }
    if evidence.is_empty() {
        return None;
    }
    let is_small = own.number("memtable_size_bytes").is_some_and(|bytes| bytes < 16e6);
    let (advice, expected) = if own.option("background_threads") == "0" {
        ("background_threads=auto".into(), "flushes and compactions run beside the writers")
    } else if is_small {
        ("memtable_size_bytes=auto".into(), "fewer flushes, and more room for bursts of writes")
    } else {
        let frozen = own.number("frozen_memtables_max").unwrap_or(3.0);
        let advice = format!("frozen_memtables_max={}", (frozen * 2.0).min(64.0));
        (advice, "room for longer bursts; writes above the device's speed still wait")
    };
    Some(Finding {
        name: "stalls",
        is_damage: false,
        text: "Writers wait for flushes or compactions.".into(),
        evidence,
        advice,
        expected,
        undo: OLD_VALUE,
    })
}

fn held_snapshot(own: &Evidence) -> Option<Finding> {
    let metrics = own.counters().filter(|metrics| metrics.snapshots > 0)?;
    let ratio = space_ratio(own).filter(|ratio| *ratio >= 1.5)?;
    Some(Finding {
        name: "held snapshot",
        is_damage: false,
        text: "A snapshot keeps overwritten or deleted data on disk.".into(),
        evidence: vec![
            format!("{} live snapshot(s) or iterators with one", metrics.snapshots),
            space_line(own, ratio),
        ],
        advice: format!("drop the snapshots in the program, then esker compact {}", own.path),
        expected: "compactions remove what only the snapshot reads",
        undo: NO_UNDO,
    })
}

/// Returns the block reads for each get that found its key in a table; `None` without enough reads.
fn reads_per_get(own: &Evidence) -> Option<(u64, f64)> {
    let metrics = own.counters()?;
    let reads = metrics.cache_hits + metrics.cache_misses;
    let found: u64 = metrics.levels.iter().map(|level| level.table_gets).sum();
    (reads >= BLOCK_READS_MIN).then(|| (reads, reads as f64 / found.max(1) as f64))
}

fn no_filter(own: &Evidence) -> Option<Finding> {
    let (reads, each) = reads_per_get(own)?;
    if own.number("filter_bits_per_key") != Some(0.0) || each < 2.0 {
        return None;
    }
    Some(Finding {
        name: "no filter",
        is_damage: false,
        text: "Gets read blocks of tables that do not have their key.".into(),
        evidence: vec![
            "filter_bits_per_key is 0".into(),
            format!("{reads} block reads, {each:.1} for each get that found its key in a table"),
        ],
        advice: format!(
            "filter_bits_per_key=10, then esker compact {} --set filter_bits_per_key=10",
            own.path
        ),
        expected: "99 of 100 reads of tables without the key end at the filter",
        undo: OLD_VALUE,
    })
}

fn cache_too_small(own: &Evidence) -> Option<Finding> {
    let metrics = own.counters()?;
    let reads = metrics.cache_hits + metrics.cache_misses;
    let capacity = metrics.memory.cache_capacity_bytes;
    let share = metrics.cache_misses as f64 / reads.max(1) as f64;
    // Not every block that is read enters the cache, so there are fewer evictions than misses.
    let is_full = metrics.cache_evictions >= EVICTIONS_MIN;
    if reads < BLOCK_READS_MIN || share < 0.3 || !is_full || own.tables.raw_bytes <= capacity {
        return None;
    }
    let wanted = (own.tables.raw_bytes.max(capacity * 4)).next_power_of_two().min(1 << 40);
    Some(Finding {
        name: "cache too small",
        is_damage: false,
        text: "Reads miss the block cache.".into(),
        evidence: vec![
            format!(
                "{} of {reads} block reads missed ({:.0} %)",
                metrics.cache_misses,
                share * 100.0
            ),
            format!("{} evictions", metrics.cache_evictions),
            format!(
                "the cache has {}, the tables {} before compression",
                human_bytes(capacity),
                human_bytes(own.tables.raw_bytes)
            ),
        ],
        advice: format!("cache_size_bytes={wanted}"),
        expected: "the blocks that are read again stay in memory, if the machine has that much",
        undo: OLD_VALUE,
    })
}

fn memtable_too_small(own: &Evidence) -> Option<Finding> {
    let metrics = own.counters().filter(|metrics| metrics.flushes >= FLUSHES_MIN)?;
    let each = metrics.user_bytes / metrics.flushes;
    let size = own.number("memtable_size_bytes").filter(|bytes| *bytes < 4e6)?;
    if each as f64 > 2.0 * size {
        return None;
    }
    let amplification = metrics.write_amplification().unwrap_or(0.0);
    Some(Finding {
        name: "memtable too small",
        is_damage: false,
        text: "Memtables are flushed before they hold much.".into(),
        evidence: vec![
            format!("memtable_size_bytes is {size}"),
            format!("{} flushes, each after {} of writes", metrics.flushes, human_bytes(each)),
            format!("write amplification {amplification:.1}"),
        ],
        advice: "memtable_size_bytes=auto".into(),
        expected: "fewer and larger flushes, and fewer merges of the same data",
        undo: OLD_VALUE,
    })
}

/// Returns the largest number of runs that a read may look into.
fn runs(own: &Evidence) -> u64 {
    own.metrics.levels.iter().map(|level| level.runs_max).sum()
}

fn too_many_runs(own: &Evidence) -> Option<Finding> {
    let runs = runs(own);
    let level0 = own.metrics.levels.first().map_or(0, |level| level.runs_max);
    let trigger = own.number("l0_runs_max").unwrap_or(4.0);
    if runs < 24 && (level0 as f64) < 4.0 * trigger.max(3.0) {
        return None;
    }
    let is_off = own.option("auto_compaction") == "false";
    let advice = match is_off {
        true => "auto_compaction=true".to_string(),
        false => format!("esker compact {}", own.path),
    };
    let off = if is_off { "auto_compaction is off" } else { "compactions are behind the writes" };
    Some(Finding {
        name: "too many runs",
        is_damage: false,
        text: "Seeks and gets look into many runs.".into(),
        evidence: vec![
            format!("{runs} runs over all levels, {level0} of them in level 0"),
            off.into(),
        ],
        advice,
        expected: "a read looks into a few runs",
        undo: if is_off { OLD_VALUE } else { NO_UNDO },
    })
}

fn policy_against_the_workload(own: &Evidence) -> Option<Finding> {
    let metrics = own.counters()?;
    let policy = own.option("policy");
    let found: u64 = metrics.levels.iter().map(|level| level.table_gets).sum();
    let amplification = metrics.write_amplification().unwrap_or(0.0);
    let writes_much = metrics.user_ops >= 10 * found.max(1);
    if policy == "leveled" && writes_much && amplification >= 6.0 && metrics.compactions >= 8 {
        return Some(Finding {
            name: "policy against the workload",
            is_damage: false,
            text: "The policy merges at each push, and the workload mostly writes.".into(),
            evidence: vec![
                format!("policy is {policy}, write amplification {amplification:.1}"),
                format!("{} writes, {found} gets from tables", metrics.user_ops),
            ],
            advice: "policy=fluid".into(),
            expected: "less write amplification, with more runs per read",
            undo: OLD_VALUE,
        });
    }
    let (reads, each) = reads_per_get(own)?;
    let reads_much = found >= 10 * metrics.user_ops.max(1) || found >= 4 * own.tables.entries;
    let is_lazy = ["tiered", "fragmented"].contains(&policy);
    if !is_lazy || !reads_much || runs(own) < 6 {
        return None;
    }
    Some(Finding {
        name: "policy against the workload",
        is_damage: false,
        text: "The policy leaves many runs, and the workload mostly reads.".into(),
        evidence: vec![
            format!("policy is {policy}, {} runs over all levels", runs(own)),
            format!("{} writes, {found} gets from tables", metrics.user_ops),
            format!("{reads} block reads, {each:.1} for each get"),
        ],
        advice: "policy=fluid".into(),
        expected: "fewer runs per read, with more write amplification",
        undo: OLD_VALUE,
    })
}

fn tombstones(own: &Evidence) -> Option<Finding> {
    let tables = &own.tables;
    let count = tables.deletes + tables.range_deletes;
    let all = (tables.entries + tables.range_deletes).max(1);
    let share = count as f64 / all as f64;
    if count < TOMBSTONES_MIN || share < 0.25 {
        return None;
    }
    Some(Finding {
        name: "tombstones",
        is_damage: false,
        text: "Much of what the tables have is tombstones, which scans step over.".into(),
        evidence: vec![format!(
            "{count} tombstones among {all} entries ({:.0} %), {} of them for ranges",
            share * 100.0,
            tables.range_deletes
        )],
        advice: format!("esker compact {}", own.path),
        expected: "the tombstones and what they hide leave the store",
        undo: NO_UNDO,
    })
}

fn space_ratio(own: &Evidence) -> Option<f64> {
    own.space.map(|space| space.stored_bytes / space.live_bytes)
}

fn space_line(own: &Evidence, ratio: f64) -> String {
    let bytes = |bytes: f64| human_bytes(bytes as u64);
    let (stored, live) = own.space.map_or((0.0, 0.0), |s| (s.stored_bytes, s.live_bytes));
    format!(
        "a sample of the keys takes {} for {} of visible data ({ratio:.1} times)",
        bytes(stored),
        bytes(live)
    )
}

fn space(own: &Evidence) -> Option<Finding> {
    let ratio = space_ratio(own).filter(|ratio| *ratio >= 2.0)?;
    // The finding about snapshots explains the same space.
    if held_snapshot(own).is_some() {
        return None;
    }
    Some(Finding {
        name: "space",
        is_damage: false,
        text: "The store takes much more space than its visible data.".into(),
        evidence: vec![space_line(own, ratio)],
        advice: format!("esker compact {}", own.path),
        expected: "overwritten and deleted data leaves; base_rewrite_ratio=0.5 keeps it so",
        undo: NO_UNDO,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use esker::Metrics;
    use esker::report::LevelMetrics;
    use esker::schema::OPTIONS;

    use super::super::evidence::{Live, Space, Stalls};
    use super::*;

    /// A busy store that lacks nothing.
    fn healthy() -> Evidence {
        let options = OPTIONS.iter().map(|spec| (spec.name.to_string(), spec.default.clone()));
        let mut metrics = Metrics::default();
        let mut level = LevelMetrics::default();
        (level.runs_max, level.table_gets) = (3, 1_000_000);
        metrics.levels = vec![level.clone(), level];
        (metrics.cache_hits, metrics.cache_misses) = (1_900_000, 100_000);
        (metrics.user_ops, metrics.user_bytes) = (1_000_000, 100 << 20);
        (metrics.flushes, metrics.flush_bytes, metrics.log_bytes) = (2, 100 << 20, 100 << 20);
        metrics.memory.cache_capacity_bytes = 256 << 20;
        let mut own = Evidence {
            path: "/db".into(),
            options: options.collect(),
            metrics: metrics.clone(),
            space: Some(Space { stored_bytes: 1.2e8, live_bytes: 1e8 }),
            live: Some(Live { metrics, open_for: Duration::from_secs(100) }),
            ..Evidence::default()
        };
        own.tables.entries = 1_000_000;
        own.tables.deletes = 100;
        own.tables.raw_bytes = 120 << 20;
        own
    }

    fn named(own: &Evidence) -> Vec<&'static str> {
        for finding in findings(own) {
            assert!(!finding.evidence.is_empty() && !finding.advice.is_empty(), "{finding:?}");
        }
        findings(own).iter().map(|finding| finding.name).collect()
    }

    fn sick(change: impl Fn(&mut Evidence, &mut Metrics)) -> Vec<&'static str> {
        let mut own = healthy();
        let mut live = own.live.take().expect("counters");
        change(&mut own, &mut live.metrics);
        own.live = Some(live);
        named(&own)
    }

    fn set(own: &mut Evidence, name: &str, value: &str) {
        assert!(own.options.insert(name.into(), value.into()).is_some(), "{name}");
    }

    #[test]
    fn healthy_store_has_no_finding() {
        assert_eq!(named(&healthy()), [] as [&str; 0]);
        assert_eq!(named(&Evidence { live: None, ..healthy() }), [] as [&str; 0]);
        assert_eq!(named(&Evidence::default()), [] as [&str; 0]);
    }

    #[test]
    fn each_sick_state_has_its_own_finding() {
        assert_eq!(sick(|own, _| own.problems.push("bad block".into())), ["damage"]);
        assert_eq!(sick(|_, live| live.stalled_us = 5_000_000), ["stalls"]);
        assert_eq!(sick(|_, live| live.slowed_us = 9_000_000), ["stalls"]);
        assert_eq!(
            sick(|own, _| own.stalls = Stalls { count: 9, example: "write stall".into() }),
            ["stalls"]
        );
        assert_eq!(
            sick(|own, live| {
                live.snapshots = 1;
                own.space = Some(Space { stored_bytes: 5e8, live_bytes: 1e8 });
            }),
            ["held snapshot"]
        );
        assert_eq!(
            sick(|own, live| {
                set(own, "filter_bits_per_key", "0");
                live.cache_hits = 9_000_000;
            }),
            ["no filter"]
        );
        assert_eq!(
            sick(|_, live| {
                live.cache_misses = 1_500_000;
                live.cache_evictions = 1_400_000;
                live.memory.cache_capacity_bytes = 1 << 20;
            }),
            ["cache too small"]
        );
        assert_eq!(
            sick(|own, live| {
                set(own, "memtable_size_bytes", "65536");
                live.flushes = 1600;
            }),
            ["memtable too small"]
        );
        assert_eq!(sick(|own, _| own.metrics.levels[0].runs_max = 40), ["too many runs"]);
        assert_eq!(sick(|own, _| own.tables.deletes = 400_000), ["tombstones"]);
        assert_eq!(
            sick(|own, _| own.space = Some(Space { stored_bytes: 5e8, live_bytes: 1e8 })),
            ["space"]
        );
    }

    #[test]
    fn policy_is_judged_by_writes_and_by_reads() {
        let writes = sick(|own, live| {
            set(own, "policy", "leveled");
            live.levels.iter_mut().for_each(|level| level.table_gets = 10);
            (live.cache_hits, live.cache_misses) = (10, 0);
            (live.compactions, live.compaction_bytes) = (50, 900 << 20);
        });
        assert_eq!(writes, ["policy against the workload"]);
        let reads = sick(|own, live| {
            set(own, "policy", "tiered");
            live.user_ops = 1000;
            live.user_bytes = 100_000;
        });
        assert_eq!(reads, ["policy against the workload"]);
    }

    #[test]
    fn advice_about_stalls_follows_the_options() {
        let advice = |name: &str, value: &str| {
            let mut own = healthy();
            own.stalls.count = 9;
            set(&mut own, name, value);
            findings(&own)[0].advice.clone()
        };
        assert_eq!(advice("background_threads", "0"), "background_threads=auto");
        assert_eq!(advice("memtable_size_bytes", "65536"), "memtable_size_bytes=auto");
        assert_eq!(advice("frozen_memtables_max", "3"), "frozen_memtables_max=6");
    }
}
