//! The counts in the text of RocksDB's property `rocksdb.stats`.
//!
//! Invariants:
//! 1. A number that the text lacks is `None`.
//! 2. Counts are those since the open, never those of an interval.

use std::ffi::CStr;

use esker_lab::target::LsmCounts;

/// Name of the property.
pub(crate) const PROPERTY: &CStr = c"rocksdb.stats";

const GB: f64 = (1u64 << 30) as f64;

/// Reads the counts.
pub(crate) fn counts(text: &str) -> LsmCounts {
    let line = |start: &str| text.lines().find_map(|line| line.trim_start().strip_prefix(start));
    let names: Vec<&str> = line("Level ").unwrap_or_default().split_whitespace().collect();
    let sum = line("Sum ").map(|rest| Sum::of(&names, rest)).unwrap_or_default();
    let gigabytes = |text: &str| Some((number(text)? * GB) as u64);
    LsmCounts {
        table_bytes: sum.bytes,
        blob_bytes: line("Blob file count:").and_then(blob_bytes),
        flush_bytes: line("Flush(GB): cumulative").and_then(gigabytes),
        written_bytes: line("Cumulative compaction:").and_then(gigabytes),
        compaction_seconds: sum.seconds,
        compaction_cpu_seconds: sum.cpu_seconds,
        blob_read_bytes: sum.blob_read,
        blob_written_bytes: sum.blob_written,
        stalled_seconds: line("Cumulative stall:").and_then(seconds),
        stalls: line("Write Stall (count):")
            .and_then(stalls)
            .or_else(|| line("Stalls(count):").map(older_stalls)),
        uptime_seconds: line("Uptime(secs):").and_then(number),
    }
}

/// The line of the sums over all levels.
#[derive(Default)]
struct Sum {
    bytes: Option<u64>,
    seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    blob_read: Option<u64>,
    blob_written: Option<u64>,
}

impl Sum {
    /// Reads what follows the word `Sum`: files, the size with its unit, then the columns. `names` are
    /// those of the columns after the level, and the size is one of them.
    fn of(names: &[&str], rest: &str) -> Sum {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let bytes = match words[..] {
            [_, size, unit, ..] => size_of(size, unit),
            _ => None,
        };
        let real = |column: &str| {
            // The unit of the size is a word without a name.
            let place = names.iter().position(|name| *name == column)? + 1;
            words.get(place)?.parse::<f64>().ok()
        };
        let gigabytes = |column: &str| Some((real(column)? * GB) as u64);
        Sum {
            bytes,
            seconds: real("Comp(sec)"),
            cpu_seconds: real("CompMergeCPU(sec)"),
            blob_read: gigabytes("Rblob(GB)"),
            blob_written: gigabytes("Wblob(GB)"),
        }
    }
}

/// Returns the number at the beginning of a text.
fn number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.trim_end_matches(',').parse().ok()
}

fn size_of(size: &str, unit: &str) -> Option<u64> {
    let factor = match unit {
        "B" => 1u64,
        "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    Some((size.parse::<f64>().ok()? * factor as f64) as u64)
}

/// Returns the size in `3, total size: 1.5 GB, ...`, which some versions follow without a comma.
fn blob_bytes(rest: &str) -> Option<u64> {
    let mut words = rest.split_once("total size:")?.1.split_whitespace();
    size_of(words.next()?, words.next()?.trim_end_matches(','))
}

/// Returns the seconds in `00:01:2.500 H:M:S, 0.1 percent`.
fn seconds(rest: &str) -> Option<f64> {
    let parts = rest.split_whitespace().next()?.split(':');
    parts.map(|part| part.parse::<f64>().ok()).try_fold(0.0, |sum, part| Some(sum * 60.0 + part?))
}

/// Adds the totals in `l0-file-count-limit-stops: 0, ..., total-delays: 2, total-stops: 1`.
fn stalls(rest: &str) -> Option<u64> {
    let total = |name: &str| {
        let mut parts = rest.split(',').filter_map(|part| part.trim().split_once(": "));
        parts.find(|(own, _)| *own == name)?.1.parse::<u64>().ok()
    };
    Some(total("total-delays")? + total("total-stops")?)
}

/// Adds the counts in `1 level0_slowdown, 0 level0_slowdown_with_compaction, ...`, without those that
/// repeat others and those of an interval.
fn older_stalls(rest: &str) -> u64 {
    let parts = rest.split(',').map(|part| part.split_whitespace());
    let each = parts.filter_map(|mut words| {
        let count: u64 = words.next()?.parse().ok()?;
        let name = words.next()?;
        Some(count).filter(|_| !name.ends_with("_with_compaction"))
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
** Compaction Stats [default] **
Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)
----
  L0      2/0    1.00 MB   0.5      0.0     0.0      0.0       0.1      0.1       0.0   1.0      0.0     60.0      1.50              1.20         8    0.200       0      0       0.0       0.0
 Sum      7/0   12.50 MB   0.0      0.1     0.0      0.1       0.2      0.1       0.0   2.0     50.0     60.0      3.25              2.75        16    0.200   1000     10       0.5       0.25
 Int      0/0    0.00 KB   0.0      0.0     0.0      0.0       0.0      0.0       0.0   0.0      0.0      0.0      0.00              0.00         0    0.000       0      0       0.0       0.0

Blob file count: 3, total size: 1.5 GB, garbage size: 0.0 GB, space amp: 1.0

Uptime(secs): 12.5 total, 2.5 interval
Flush(GB): cumulative 0.125, interval 0.000
Cumulative compaction: 0.25 GB write, 20.00 MB/s write, 0.10 GB read, 8.00 MB/s read, 3.2 seconds
Interval compaction: 9.00 GB write, 0.00 MB/s write, 0.00 GB read, 0.00 MB/s read, 0.0 seconds
Stalls(count): 2 level0_slowdown, 1 level0_slowdown_with_compaction, 3 level0_numfiles, 0 level0_numfiles_with_compaction, 0 stop for pending_compaction_bytes, 4 slowdown for pending_compaction_bytes, 0 memtable_compaction, 0 memtable_slowdown, interval 7 total count
Cumulative stall: 00:01:2.500 H:M:S, 8.3 percent
";

    #[test]
    fn counts_since_the_open_are_read() {
        let counts = counts(TEXT);
        assert_eq!(counts.table_bytes, Some(12 << 20 | 512 << 10));
        assert_eq!(counts.blob_bytes, Some(3 << 29));
        assert_eq!((counts.flush_bytes, counts.written_bytes), (Some(1 << 27), Some(1 << 28)));
        assert_eq!(counts.compaction_seconds, Some(3.25));
        assert_eq!(counts.compaction_cpu_seconds, Some(2.75));
        let blobs = (counts.blob_read_bytes, counts.blob_written_bytes);
        assert_eq!(blobs, (Some(1 << 29), Some(1 << 28)));
        assert_eq!((counts.stalled_seconds, counts.stalls), (Some(62.5), Some(9)));
        assert_eq!(counts.uptime_seconds, Some(12.5));
    }

    #[test]
    fn other_columns_and_an_empty_text_give_no_numbers() {
        assert_eq!(counts(""), LsmCounts::default());
        let fewer = counts(" Sum 7/0 12.00 KB 0.0 1.0 2.0\n");
        assert_eq!((fewer.table_bytes, fewer.compaction_seconds), (Some(12 << 10), None));
        let other = counts("Level Files Size Score Comp(sec)\n Sum 7/0 12.00 KB 0.0 1.5\n");
        assert_eq!((other.compaction_seconds, other.blob_read_bytes), (Some(1.5), None));
        let newer = counts("Write Stall (count): x-stops: 9, total-delays: 2, total-stops: 1\n");
        assert_eq!(newer.stalls, Some(3));
    }
}
