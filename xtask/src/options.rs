//! Generates `docs/options.md`, with a table row and a description per option, from the engine's
//! own option table.

use std::fmt::Write;
use std::path::Path;

use esker::internals::is_of_keyspaces;
use esker::schema::{OPTIONS, OptionSpec};

use crate::document;

const FILE: &str = "docs/options.md";

const INTRODUCTION: &str = "\
# Options

Made by `cargo xtask options` from `crates/esker/src/options/table.rs`; not to be edited by hand.

Each option is a field of `Options`, a name for `Options::set` and `Db::set_option`, and a
`--set NAME=VALUE` of every `esker` command (a `--NAME=VALUE` of `esker bench`). Names can be
written in any case and with `-` for `_`; the aliases are what other stores call the same thing.
Sizes take `k`, `m`, `g` in powers of 1,024. `auto` is worked out when the store is opened.
Options that change *while open* take effect through `Db::set_option` without closing the store.
A keyspace can have its own value of the options *per keyspace*: `KeyspaceOptions::set`, or
`esker keyspace create DB NAME --set NAME=VALUE`. The value is recorded in the store.

";

/// Renders the document.
pub fn render() -> String {
    let mut text = String::from(INTRODUCTION);
    text += "| option | default | range | unit | changeable | per keyspace | also called |\n";
    text += "|---|---|---|---|---|---|---|\n";
    for spec in OPTIONS.iter() {
        let _ = writeln!(text, "{}", row(spec));
    }
    text += "\n## What each does\n";
    for spec in OPTIONS.iter() {
        let _ = write!(text, "\n**`{}`** {}\n", spec.name, spec.doc);
    }
    text
}

fn row(spec: &OptionSpec) -> String {
    let aliases: Vec<String> = spec.aliases.iter().map(|alias| format!("`{alias}`")).collect();
    let cells = [
        format!("`{}`", spec.name),
        format!("`{}`", spec.default),
        spec.range.to_string().replace('|', "\\|"),
        spec.unit.to_string(),
        spec.mutability.to_string(),
        if is_of_keyspaces(spec.name) { "yes" } else { "" }.to_string(),
        aliases.join(" "),
    ];
    format!("| {} |", cells.join(" | "))
}

/// Writes the document.
pub fn write(root: &Path) -> Result<(), String> {
    document::write(root, FILE, &render())
}

/// Checks that the document equals the output of [`write()`].
pub fn check(root: &Path) -> Result<(), String> {
    document::check(root, FILE, &render(), "the table of options: run `cargo xtask options`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_a_row_and_a_description() {
        let text = render();
        for spec in OPTIONS.iter() {
            assert!(text.contains(&format!("| `{}` |", spec.name)), "{}", spec.name);
            assert!(spec.doc.ends_with('.'), "{}", spec.name);
        }
    }

    #[test]
    fn rows_say_which_options_a_keyspace_can_have() {
        let cell = |name: &str| {
            let spec = OPTIONS.iter().find(|spec| spec.name == name).unwrap();
            let row = row(spec);
            row.split(" | ").nth(5).unwrap().to_string()
        };
        assert_eq!((cell("compression").as_str(), cell("wal_io").as_str()), ("yes", ""));
    }
}
