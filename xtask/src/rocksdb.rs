//! Generates the table of functions in `docs/rocksdb.md`, from the table from which the functions
//! themselves are made.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

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

/// Returns the generated part of the page.
fn render(rows: &[Row<'_>]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, status, _) in rows {
        *counts.entry(*status).or_default() += 1;
    }
    let count = |status: &str| counts.get(status).copied().unwrap_or(0);
    let mut text = format!(
        "\n## Functions\n\n{} functions: {} done, {} accepted, {} refused.\n\n\
         | function | status | note |\n|---|---|---|\n",
        rows.len(),
        count("done"),
        count("accepted"),
        count("refused")
    );
    for (name, status, note) in rows {
        let name = name.strip_prefix("rocksdb_").unwrap_or(name);
        let _ = writeln!(text, "| `{name}` | {status} | {} |", note.replace('|', "\\|"));
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
    let page = page(root)?;
    std::fs::write(root.join(FILE), page).map_err(|error| format!("{FILE}: {error}"))
}

/// Checks that the page equals the output of [`write()`].
pub fn check(root: &Path) -> Result<(), String> {
    if read(root, FILE)? == page(root)? {
        return Ok(());
    }
    Err(format!("{FILE} differs from {TABLE}: run `cargo xtask rocksdb` and commit it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_and_listed() {
        let table =
            "# head\nrocksdb_a\tp>v\tdone\trust\t\nrocksdb_b\te>v\trefused\trefuse\tno | b\n";
        let text = render(&rows(table).unwrap());
        assert!(text.contains("2 functions: 1 done, 0 accepted, 1 refused."), "{text}");
        assert!(text.contains("| `a` | done |  |\n| `b` | refused | no \\| b |\n"), "{text}");
        assert!(rows("rocksdb_a\tp>v\n").is_err());
    }
}
