//! `esker scan`: prints pairs in ascending or descending key order.

use std::ffi::OsString;
use std::io::Write;
use std::ops::Bound;
use std::path::PathBuf;

use clap::Args;
use esker::{DbIterator, Keyspace, ReadOptions};
use serde_json::{Map, Value};

use super::{bytes_of, stdout};
use crate::args::{Global, KeyspaceFlag};
use crate::bytes::{Form, read_count};
use crate::failure::{Failure, Outcome};
use crate::store::open_reader;

/// Arguments of `scan`.
#[derive(Args)]
pub struct ScanArgs {
    /// Store directory
    db: PathBuf,
    /// Start key, inclusive [default: the start]
    from: Option<OsString>,
    /// End key, exclusive [default: the end]
    to: Option<OsString>,
    /// Only keys with this prefix
    #[arg(long, conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// Maximum number of pairs, such as 100, 10k (ten thousand) or 1m (a million)
    #[arg(long, value_name = "N", value_parser = read_count)]
    limit: Option<u64>,
    /// Scan from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print only the keys
    #[arg(long)]
    keys: bool,
    /// Print only the number of pairs
    #[arg(long, conflicts_with = "keys")]
    count: bool,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// Prints the pairs, one per line, with key and value separated by a tab.
pub fn run(args: &ScanArgs, global: &Global) -> Outcome {
    let form = global.form();
    let bound = |what: &str, arg: &Option<OsString>| {
        arg.as_ref().map(|arg| bytes_of(form, what, arg)).transpose()
    };
    let (from, to) = (bound("first key", &args.from)?, bound("last key", &args.to)?);
    let prefix = bound("prefix", &args.prefix)?;
    let db = open_reader(&args.db, global)?;
    let keyspace = args.keyspace.open(&db)?;
    let mut iter = match prefix {
        Some(prefix) => keyspace.prefix(prefix)?,
        None => between(&keyspace, from, to)?,
    };
    let mut out = stdout();
    let mut line = Vec::new();
    let mut count = 0;
    if args.reverse {
        iter.seek_to_last()?
    } else {
        iter.seek_to_first()?
    }
    while iter.valid() && args.limit.is_none_or(|limit| count < limit) {
        if !args.count {
            line.clear();
            let value = (!args.keys).then(|| iter.value());
            write_pair(form, None, iter.key(), value, None, &mut line);
            out.write_all(&line)?;
        }
        count += 1;
        if args.reverse { iter.move_prev()? } else { iter.move_next()? }
    }
    if args.count {
        let text = if form.json { format!("{{\"count\":{count}}}") } else { count.to_string() };
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    Ok(0)
}

/// Returns an iterator from `from` to `to`, exclusive, that does not fill the cache.
pub fn between(
    keyspace: &Keyspace,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
) -> Result<DbIterator, Failure> {
    let lower = from.map_or(Bound::Unbounded, Bound::Included);
    let upper = to.map_or(Bound::Unbounded, Bound::Excluded);
    let options = ReadOptions::default().fill_cache(false);
    Ok(keyspace.iter_with(&options, (lower, upper))?)
}

/// Appends the line of a pair: `KEY<tab>VALUE`, or an object, with the keyspace as its first field
/// if there is one, and with the time at which the pair expires as the last one, if that is given.
pub fn write_pair(
    form: Form,
    keyspace: Option<&str>,
    key: &[u8],
    value: Option<&[u8]>,
    expires_ms: Option<u64>,
    line: &mut Vec<u8>,
) {
    if form.json {
        let mut fields = Map::new();
        if let Some(name) = keyspace {
            fields.insert("keyspace".into(), Value::from(name));
        }
        fields.insert("key".into(), form.to_json(key));
        if let Some(value) = value {
            fields.insert("value".into(), form.to_json(value));
        }
        if let Some(expires_ms) = expires_ms {
            fields.insert("expires_ms".into(), Value::from(expires_ms));
        }
        line.extend_from_slice(Value::Object(fields).to_string().as_bytes());
    } else {
        form.encoding.write(key, line);
        if let Some(value) = value {
            line.push(b'\t');
            form.encoding.write(value, line);
        }
        if let Some(expires_ms) = expires_ms {
            line.extend_from_slice(format!("\t{expires_ms}").as_bytes());
        }
    }
    line.push(b'\n');
}
