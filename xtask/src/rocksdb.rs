//! Generates the table of functions in `docs/rocksdb.md`, from the table from which the functions
//! themselves are made.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::document;

const FILE: &str = "docs/rocksdb.md";
const TABLE: &str = "bindings/rocksdb/functions.tsv";

/// The line after which the generated part begins.
const MARK: &str = "<!-- Below this line: made by `cargo xtask rocksdb`; not to be edited. -->\n";

/// A function: name, status, note.
type Row<'a> = (&'a str, &'a str, &'a str);

fn read(root: &Path, name: &str) -> Result<String, String> {
    let path = root.join(name);
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn rows(table: &str) -> Result<Vec<Row<'_>>, String> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            [name, _, status, _, note] => Ok((name, status, note)),
            _ => Err(format!("{TABLE}: expected five columns in {line:?}")),
        })
        .collect()
}

/// Returns the generated part of the page: the functions by status and note. Functions that are done
/// without a note are the most and are not listed.
fn render(rows: &[Row<'_>]) -> String {
    let mut groups: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, status, note) in rows {
        *counts.entry(*status).or_default() += 1;
        let name = name.strip_prefix("rocksdb_").unwrap_or(name);
        groups.entry((*status, *note)).or_default().push(name);
    }
    let count = |status: &str| counts.get(status).copied().unwrap_or(0);
    let mut text = format!(
        "\n## Functions\n\n{} functions: {} done, {} accepted, {} refused. A function that is not in \
         this table is done. Names lack the prefix `rocksdb_`.\n\n\
         | status | note | functions |\n|---|---|---|\n",
        rows.len(),
        count("done"),
        count("accepted"),
        count("refused")
    );
    groups.remove(&("done", ""));
    for ((status, note), names) in groups {
        let note = note.replace('|', "\\|");
        let _ = writeln!(text, "| {status} | {note} | `{}` |", names.join("`, `"));
    }
    text
}

/// Returns the page with its generated part made again.
fn page(root: &Path) -> Result<String, String> {
    let page = read(root, FILE)?;
    let (by_hand, _) = page.split_once(MARK).ok_or_else(|| format!("{FILE} lacks {MARK}"))?;
    let table = read(root, TABLE)?;
    Ok(format!("{by_hand}{MARK}{}", render(&rows(&table)?)))
}

/// Writes the page.
pub fn write(root: &Path) -> Result<(), String> {
    document::write(root, FILE, &page(root)?)
}

/// Checks that the page equals the output of [`write()`].
pub fn check(root: &Path) -> Result<(), String> {
    let advice = format!("{TABLE}: run `cargo xtask rocksdb` and commit it");
    document::check(root, FILE, &page(root)?, &advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_and_listed() {
        let table = "# head\nrocksdb_a\tp>v\tdone\trust\t\nrocksdb_b\te>v\trefused\trefuse\tno | b\n\
             rocksdb_c\te>v\trefused\trefuse\tno | b\n";
        let text = render(&rows(table).unwrap());
        assert!(text.contains("3 functions: 1 done, 0 accepted, 2 refused."), "{text}");
        assert!(text.ends_with("|\n| refused | no \\| b | `b`, `c` |\n"), "{text}");
        assert!(rows("rocksdb_a\tp>v\n").is_err());
    }
}
