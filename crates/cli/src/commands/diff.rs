//! `esker diff`: the pairs in which two stores differ.
//!
//! Invariants: as for the program `diff`, the exit code is 0 if the stores are the same and 1 if
//! they differ. It does not depend on `--limit` or `--summary`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use esker::diff::{Diff, DiffOptions, DiffValue, Difference, diff_with};
use serde_json::{Map, Value, json};

use super::{counted, stdout};
use crate::args::Global;
use crate::bytes::{Form, read_count};
use crate::failure::{Failure, NOT_FOUND, Outcome, print_note};
use crate::keyspaces::{name_of, shown};
use crate::store::open_reader;

/// Exit code: the stores differ.
const DIFFERENT: u8 = NOT_FOUND;

/// Arguments of `diff`.
#[derive(Args)]
pub struct DiffArgs {
    /// First store directory
    a: PathBuf,
    /// Second store directory
    b: PathBuf,
    /// Compare only this keyspace
    #[arg(long, value_name = "NAME")]
    keyspace: Option<OsString>,
    /// Print only how many pairs of each keyspace were added, removed and changed
    #[arg(long, conflicts_with = "limit")]
    summary: bool,
    /// Maximum number of differences to print, such as 100, 10k (ten thousand) or 1m (a million)
    #[arg(long, value_name = "N", value_parser = read_count)]
    limit: Option<u64>,
}

/// Number of differences of a keyspace.
#[derive(Default)]
struct Counts {
    added: u64,
    removed: u64,
    changed: u64,
}

/// Prints the differences: lines with `-` are of the first store, lines with `+` of the second.
pub fn run(args: &DiffArgs, global: &Global) -> Outcome {
    let options = match &args.keyspace {
        Some(name) => DiffOptions::default().keyspace(name_of(name)?),
        None => DiffOptions::default(),
    };
    let (a, b) = (open_reader(&args.a, global)?, open_reader(&args.b, global)?);
    let found = diff_with(&a, &b, &options)?;
    if found.shared_files == 0 {
        let note = "esker: note: the stores share no table, so all their pairs are compared";
        print_note(global.json, note);
    }
    let is_other_list =
        !(found.keyspaces_only_in_old.is_empty() && found.keyspaces_only_in_new.is_empty());
    let differ = match args.summary {
        true => summarize(found, global.form())?,
        false => list(found, global.form(), args.limit)?,
    };
    Ok(if differ || is_other_list { DIFFERENT } else { 0 })
}

/// Prints the differences. Returns whether there are any.
fn list(found: Diff, form: Form, limit: Option<u64>) -> Result<bool, Failure> {
    let mut out = stdout();
    for (store, names) in
        [("first", &found.keyspaces_only_in_old), ("second", &found.keyspaces_only_in_new)]
    {
        for name in names {
            match form.json {
                true => writeln!(out, "{}", json!({ "keyspace": name, "only_in": store }))?,
                false => {
                    writeln!(out, "# only the {store} store has the keyspace {}", shown(name))?
                }
            }
        }
    }
    let (mut line, mut keyspace, mut count) = (Vec::new(), None::<Arc<str>>, 0);
    for difference in found {
        let difference = difference?;
        if limit.is_some_and(|limit| count >= limit) {
            count += 1;
            break;
        }
        count += 1;
        line.clear();
        if form.json {
            write_json(form, &difference, &mut line);
        } else {
            let is_new = keyspace.as_ref().is_none_or(|known| *known != difference.keyspace);
            let is_first_default = keyspace.is_none() && *difference.keyspace == *"default";
            if is_new && !is_first_default {
                writeln!(out, "@@ keyspace {}", shown(&difference.keyspace))?;
            }
            keyspace = Some(difference.keyspace.clone());
            for (sign, value) in [(b'-', &difference.old), (b'+', &difference.new)] {
                if let Some(value) = value {
                    write_line(form, sign, &difference.key, value, &mut line);
                }
            }
        }
        out.write_all(&line)?;
    }
    out.flush()?;
    Ok(count > 0)
}

/// Prints the numbers of differences. Returns whether there are any.
fn summarize(found: Diff, form: Form) -> Result<bool, Failure> {
    let relation = found.relation;
    let shared = (found.shared_files, found.shared_bytes);
    let only = [found.keyspaces_only_in_old.clone(), found.keyspaces_only_in_new.clone()];
    let mut counts: BTreeMap<Arc<str>, Counts> = BTreeMap::new();
    for difference in found {
        let difference = difference?;
        let counts = counts.entry(difference.keyspace.clone()).or_default();
        match (&difference.old, &difference.new) {
            (None, _) => counts.added += 1,
            (_, None) => counts.removed += 1,
            _ => counts.changed += 1,
        }
    }
    let mut out = stdout();
    if form.json {
        let of = |counts: &Counts| {
            json!({
                "added": counts.added, "removed": counts.removed, "changed": counts.changed,
            })
        };
        let keyspaces: Map<String, Value> =
            counts.iter().map(|(name, counts)| (name.to_string(), of(counts))).collect();
        let object = json!({
            "relation": relation.to_string(), "shared_files": shared.0, "shared_bytes": shared.1,
            "keyspaces_only_in_first": only[0], "keyspaces_only_in_second": only[1],
            "differences": keyspaces,
        });
        writeln!(out, "{object}")?;
    } else {
        let files = counted(shared.0, "table");
        writeln!(out, "the second store is {relation}; they share {files}")?;
        for (store, names) in ["first", "second"].iter().zip(&only) {
            for name in names {
                writeln!(out, "only the {store} store has the keyspace {}", shown(name))?;
            }
        }
        for (name, Counts { added, removed, changed }) in &counts {
            let name = shown(name);
            writeln!(out, "{name}: {added} added, {removed} removed, {changed} changed")?;
        }
        if counts.is_empty() {
            writeln!(out, "no pair differs")?;
        }
    }
    out.flush()?;
    Ok(!counts.is_empty())
}

fn write_line(form: Form, sign: u8, key: &[u8], value: &DiffValue, line: &mut Vec<u8>) {
    line.push(sign);
    form.encoding.write(key, line);
    line.push(b'\t');
    form.encoding.write(&value.value, line);
    if let Some(expires_ms) = value.expires_ms {
        line.extend_from_slice(format!("\texpires_ms={expires_ms}").as_bytes());
    }
    line.push(b'\n');
}

fn write_json(form: Form, difference: &Difference, line: &mut Vec<u8>) {
    let mut fields = Map::new();
    fields.insert("keyspace".into(), Value::from(&*difference.keyspace));
    fields.insert("key".into(), form.to_json(&difference.key));
    for (name, side) in [("old", &difference.old), ("new", &difference.new)] {
        let value = side.as_ref().map_or(Value::Null, |side| form.to_json(&side.value));
        fields.insert(name.into(), value);
        if let Some(expires_ms) = side.as_ref().and_then(|side| side.expires_ms) {
            fields.insert(format!("{name}_expires_ms"), Value::from(expires_ms));
        }
    }
    line.extend_from_slice(Value::Object(fields).to_string().as_bytes());
    line.push(b'\n');
}
