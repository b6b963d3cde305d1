//! `esker put`: writes one pair.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use esker::{Batch, Durability, WriteOptions};
use serde_json::json;

use super::{bytes_of, print};
use crate::args::{Global, KeyspaceFlag};
use crate::failure::{Failure, Outcome};
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
    let value = match &args.value {
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
    match args.ttl {
        Some(ttl) => {
            let mut batch = Batch::new();
            batch.put_with_ttl_in(&keyspace, &key, &value, ttl);
            db.write_with(&batch, &options)?;
        }
        None => keyspace.put_with(&key, &value, &options)?,
    }
    db.close()?;
    print(form, || json!({ "ok": true }), String::new)?;
    Ok(0)
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
