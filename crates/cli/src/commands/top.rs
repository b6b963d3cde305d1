//! `esker top`: what running stores publish about their work, refreshed.
//!
//! Invariants:
//! 1. No store is opened, and no lock is taken. The stores do not notice.
//! 2. A terminal is cleared before each refresh. Elsewhere lines follow each other.
//! 3. A rate is the change between the last two publications of a store, per second. In the first line it is the
//!    average since the store was opened.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use esker::internals::human_bytes;
use esker::report::LiveStatus;
use esker::{Db, Error};
use serde_json::{Value, json};

use super::{stats, stdout};
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::store::file_system;

/// Moves the cursor of a terminal to its top and clears it.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Arguments of `top`.
#[derive(Args)]
pub struct TopArgs {
    /// Store directories
    #[arg(required = true)]
    dbs: Vec<PathBuf>,
    /// Seconds between two refreshes, from 0.01 to 86400
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Number of refreshes [default: until Ctrl-C]
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| (0.01..=86_400.0).contains(s));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("expected seconds from 0.01 to 86400, found {text:?}"))
}

/// Prints a line for each store at each refresh.
pub fn run(args: &TopArgs, global: &Global) -> Outcome {
    let mut stores: Vec<Watched> = args.dbs.iter().map(|path| Watched::new(path)).collect();
    let is_terminal = std::io::stdout().is_terminal();
    let mut refreshes = 0;
    while args.count.is_none_or(|count| refreshes < count) {
        if refreshes > 0 {
            std::thread::sleep(args.interval);
        }
        stores.iter_mut().for_each(Watched::read);
        if refreshes == 0
            && let Some(error) = unreadable(&stores)
        {
            return Err(error.into());
        }
        let mut out = stdout();
        if global.json {
            stores.iter().try_for_each(|store| writeln!(out, "{}", store.to_json()))?;
        } else {
            if is_terminal {
                write!(out, "{CLEAR}")?;
            }
            if is_terminal || refreshes == 0 {
                writeln!(out, "{}", line(HEADINGS, "store"))?;
            }
            stores.iter().try_for_each(|store| writeln!(out, "{}", store.to_text()))?;
        }
        out.flush()?;
        refreshes += 1;
    }
    Ok(0)
}

/// Returns the first error if no store can be read.
fn unreadable(stores: &[Watched]) -> Option<Error> {
    let errors = stores.iter().map(|store| store.error.clone());
    errors.collect::<Option<Vec<Error>>>()?.into_iter().next()
}

/// A store, its last publication, and the rates up to it.
struct Watched {
    path: PathBuf,
    last: Option<LiveStatus>,
    rates: Rates,
    /// Why the last attempt to read failed.
    error: Option<Error>,
}

/// Rates of a store per second.
#[derive(Default, Clone, Copy, PartialEq, Debug)]
struct Rates {
    user_ops: f64,
    user_bytes: f64,
    /// Bytes written by flushes and compactions.
    table_bytes: f64,
    /// Blocks looked up in the cache.
    cache_lookups: f64,
    /// Hits per lookup; `None` without lookups.
    cache_hit_rate: Option<f64>,
    /// Part of the time in which writers were stalled or slowed, from 0; several writers add up.
    waited: f64,
}

impl Rates {
    /// Returns the rates from `before`, or from the opening of the store, to `now`.
    fn between(before: Option<&LiveStatus>, now: &LiveStatus) -> Rates {
        let since = before.map_or(now.opened, |before| before.updated);
        let elapsed = now.updated.duration_since(since).unwrap_or_default().as_secs_f64();
        let seconds = elapsed.max(0.001);
        let start = before.map(|before| before.metrics.clone()).unwrap_or_default();
        let end = &now.metrics;
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let hits = rate(start.cache_hits, end.cache_hits);
        let lookups = hits + rate(start.cache_misses, end.cache_misses);
        let waited_us =
            rate(start.stalled_us, end.stalled_us) + rate(start.slowed_us, end.slowed_us);
        Rates {
            user_ops: rate(start.user_ops, end.user_ops),
            user_bytes: rate(start.user_bytes, end.user_bytes),
            table_bytes: rate(start.flush_bytes, end.flush_bytes)
                + rate(start.compaction_bytes, end.compaction_bytes),
            cache_lookups: lookups,
            cache_hit_rate: (lookups > 0.0).then(|| hits / lookups),
            waited: waited_us / 1e6,
        }
    }
}

/// Headings of the columns before the name of the store.
const HEADINGS: [&str; 10] = [
    "age s",
    "writes/s",
    "written/s",
    "tables/s",
    "blocks/s",
    "hits",
    "waited",
    "debt",
    "memory",
    "files",
];

/// Formats a line of columns. The name of the store is last, because its width is not known.
fn line(columns: [impl AsRef<str>; 10], store: &str) -> String {
    let mut text = String::new();
    for column in columns {
        text += &format!("{:>11}", column.as_ref());
    }
    format!("{text}  {store}")
}

impl Watched {
    fn new(path: &Path) -> Watched {
        Watched { path: path.to_path_buf(), last: None, rates: Rates::default(), error: None }
    }

    /// Reads the last publication.
    fn read(&mut self) {
        match Db::live_status_on(file_system(), &self.path) {
            Ok(now) => {
                self.error = None;
                self.take(now);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Takes a publication. The rates stay if it is the same as before, and begin anew if the store
    /// was opened again.
    fn take(&mut self, now: LiveStatus) {
        let before = self.last.as_ref().filter(|before| before.opened == now.opened);
        if before.is_none_or(|before| before.version != now.version) {
            self.rates = Rates::between(before, &now);
        }
        self.last = Some(now);
    }

    fn to_text(&self) -> String {
        let name = self.path.display().to_string();
        let live = match (&self.error, &self.last) {
            (Some(error), _) => return format!("{name}: {error}"),
            (None, None) => return name,
            (None, Some(live)) => live,
        };
        let (rates, metrics) = (&self.rates, &live.metrics);
        let memory = &metrics.memory;
        let memory_bytes = memory.active_memtable_bytes
            + memory.frozen_memtables_bytes
            + memory.pooled_bytes
            + memory.cache_bytes
            + memory.cache_spare_bytes
            + memory.tables_bytes;
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let columns = [
            format!("{:.1}", stats::age(live.updated).as_secs_f64()),
            format!("{:.0}", rates.user_ops),
            human_bytes(rates.user_bytes as u64),
            human_bytes(rates.table_bytes as u64),
            format!("{:.0}", rates.cache_lookups),
            rates.cache_hit_rate.map_or("-".to_string(), percent),
            percent(rates.waited),
            human_bytes(metrics.debt_bytes),
            human_bytes(memory_bytes),
            metrics.table_files.to_string(),
        ];
        line(columns, &name)
    }

    fn to_json(&self) -> Value {
        let mut object = match (&self.error, &self.last) {
            (Some(error), _) => Failure::from(error.clone()).to_json(),
            (None, None) => json!({}),
            (None, Some(live)) => json!({
                "live": stats::live_json(live),
                "rates": {
                    "user_ops_per_second": self.rates.user_ops,
                    "user_bytes_per_second": self.rates.user_bytes,
                    "table_bytes_per_second": self.rates.table_bytes,
                    "cache_lookups_per_second": self.rates.cache_lookups,
                    "cache_hit_rate": self.rates.cache_hit_rate,
                    "waited": self.rates.waited,
                },
                "metrics": stats::to_json(&live.metrics),
            }),
        };
        object["db"] = json!(self.path.display().to_string());
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::Options;

    fn published() -> LiveStatus {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
        let live = Db::live_status(db.path()).unwrap();
        db.close().unwrap();
        live
    }

    #[test]
    fn rates_are_those_between_two_publications() {
        let mut watched = Watched::new(Path::new("store"));
        let mut now = published();
        now.updated = now.opened + Duration::from_secs(10);
        now.metrics.user_ops = 1_000;
        watched.take(now.clone());
        assert_eq!((watched.rates.user_ops, watched.rates.cache_hit_rate), (100.0, None));
        now.version += 1;
        now.updated += Duration::from_secs(2);
        now.metrics.user_ops += 500;
        now.metrics.cache_hits += 30;
        now.metrics.cache_misses += 10;
        now.metrics.stalled_us += 1_000_000;
        watched.take(now.clone());
        let rates = watched.rates;
        assert_eq!((rates.user_ops, rates.cache_lookups, rates.waited), (250.0, 20.0, 0.5));
        assert_eq!(rates.cache_hit_rate, Some(0.75));
        // The same publication again changes nothing.
        watched.take(now.clone());
        assert_eq!(watched.rates, rates);
        // The store was opened again.
        now.opened += Duration::from_secs(60);
        now.updated = now.opened + Duration::from_secs(1);
        now.version = 1;
        now.metrics.user_ops = 7;
        watched.take(now);
        assert_eq!(watched.rates.user_ops, 7.0);
        let text = watched.to_text();
        assert!(text.ends_with("  store") && text.contains(" 7 "), "{text}");
        assert_eq!(watched.to_json()["rates"]["user_ops_per_second"], json!(7.0));
    }

    #[test]
    fn intervals_are_positive_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "1e9", "x", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
