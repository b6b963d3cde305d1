//! `esker put`: writes one pair.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use esker::{Batch, Durability, Keyspace, WriteOptions};
use serde_json::json;

use super::{bytes_of, print};
use crate::args::{Global, KeyspaceFlag};
use crate::failure::{Failure, Outcome};
use crate::progress::{Count, Progress};
use crate::store::open_writer;

/// Arguments of `put`.
#[derive(Args)]
pub struct PutArgs {
    /// Store directory; created if missing, unless --keyspace names a keyspace
    db: PathBuf,
    /// Key
    key: OsString,
    /// Value; all of standard input, unchanged, if omitted
    value: Option<OsString>,
    /// File with the value, unchanged, or - for standard input; a long value is not read into memory
    #[arg(long, value_name = "FILE", conflicts_with_all = ["value", "ttl"])]
    from: Option<PathBuf>,
    /// Sync the write before the close; the pair is durable in any case, because the command
    /// closes the store
    #[arg(long)]
    sync: bool,
    /// Time after which the pair does not exist any more: a number and ms, s, m, h or d
    #[arg(long, value_name = "TIME", value_parser = time_to_live)]
    ttl: Option<Duration>,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// Writes the pair.
pub fn run(args: &PutArgs, global: &Global) -> Outcome {
    let form = global.form();
    let key = bytes_of(form, "key", &args.key)?;
    let source = args.from.as_deref().map(open_source).transpose()?;
    let value = match &args.value {
        _ if source.is_some() => Vec::new(),
        Some(value) => bytes_of(form, "value", value)?,
        None => {
            let mut value = Vec::new();
            let limit = (1 << 30) + 1;
            std::io::stdin().lock().take(limit).read_to_end(&mut value).map_err(|error| {
                Failure::file("read the value", "standard input".as_ref(), &error)
            })?;
            value
        }
    };
    let db = open_writer(&args.db, global, !args.keyspace.is_other())?;
    let keyspace = args.keyspace.open(&db)?;
    let durability = args.sync.then_some(Durability::Sync);
    let options = WriteOptions::default().durability(durability);
    match (source, args.ttl) {
        (Some(source), _) => {
            put_from(&keyspace, &key, source)?;
            if args.sync {
                db.sync()?;
            }
        }
        (None, Some(ttl)) => {
            let mut batch = Batch::new();
            batch.put_with_ttl_in(&keyspace, &key, &value, ttl);
            db.write_with(&batch, &options)?;
        }
        (None, None) => keyspace.put_with(&key, &value, &options)?,
    }
    db.close()?;
    print(form, || json!({ "ok": true }), String::new)?;
    Ok(0)
}

/// Returns a file or standard input, and its length if it is known.
fn open_source(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let failed = |error| Failure::file("read the value", path, &error);
    let file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    Ok((Box::new(file), found.is_file().then_some(found.len())))
}

/// A reader that shows how much of it was read.
struct Watched {
    reader: Box<dyn Read>,
    read_bytes: u64,
    progress: Progress,
}

impl Read for Watched {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(out)?;
        self.read_bytes += read as u64;
        self.progress.set(self.read_bytes);
        Ok(read)
    }
}

/// Writes the value from a reader.
fn put_from(
    keyspace: &Keyspace,
    key: &[u8],
    (reader, len_bytes): (Box<dyn Read>, Option<u64>),
) -> Result<(), Failure> {
    let progress = Progress::new("put", len_bytes, Count::Bytes);
    keyspace.put_reader(key, Watched { reader, read_bytes: 0, progress })?;
    Ok(())
}

/// Parses a time to live such as `90s` or `1h`.
fn time_to_live(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("expected a number and ms, s, m, h or d, such as 90s or 1h".to_string()),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number of 64 bits".to_string())?;
    let ms = number.checked_mul(unit_ms).ok_or("the time does not fit 64 bits of milliseconds")?;
    Ok(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        for (text, ms) in
            [("0ms", 0), ("5ms", 5), ("90s", 90_000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(time_to_live(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(time_to_live("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for text in ["", "1", "h", "-1h", "1.5h", "1 h", "1w", "99999999999999999999s"] {
            assert!(time_to_live(text).is_err(), "{text}");
        }
        assert!(time_to_live("18446744073709551615h").is_err());
    }
}
