//! Checks of documents: length of the front page, the change log and each decision, size of the
//! glossary, and size of the whole tree.

use std::path::Path;
use std::process::Command;

/// Maximum lines of a file.
const LINES_MAX: &[(&str, usize)] =
    &[("README.md", 120), ("CHANGELOG.md", 60), ("ARCHITECTURE.md", 300)];
/// Maximum words of a decision, and of a paragraph of the page of measurements.
const DECISION_WORDS_MAX: usize = 300;
const PARAGRAPH_WORDS_MAX: usize = 80;
const MEASUREMENTS: &str = "docs/results/speed.md";
/// Maximum number of terms in the glossary, which is a section of this file.
const GLOSSARY_TERMS_MAX: usize = 20;
const GLOSSARY: &str = "ARCHITECTURE.md";
/// Maximum bytes of all files under version control.
const TREE_BYTES_MAX: u64 = 15_600_000;

/// Adds the documents' problems to `problems`.
pub fn check(root: &Path, problems: &mut Vec<String>) -> std::io::Result<()> {
    for (name, most) in LINES_MAX {
        let lines = std::fs::read_to_string(root.join(name))?.lines().count();
        if lines > *most {
            problems.push(format!("{name}:1: {lines} lines; the most is {most}"));
        }
    }
    for entry in std::fs::read_dir(root.join("docs/decisions"))? {
        let path = entry?.path();
        let is_decision = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('0'));
        let words = std::fs::read_to_string(&path)?.split_whitespace().count();
        if is_decision && words > DECISION_WORDS_MAX {
            let path = path.strip_prefix(root).unwrap_or(&path).display();
            problems.push(format!("{path}:1: {words} words; the most is {DECISION_WORDS_MAX}"));
        }
    }
    paragraphs(&std::fs::read_to_string(root.join(MEASUREMENTS))?, problems);
    let terms = glossary_terms(&std::fs::read_to_string(root.join(GLOSSARY))?);
    if terms == 0 || terms > GLOSSARY_TERMS_MAX {
        problems.push(format!(
            "{GLOSSARY}:1: {terms} terms in the table under \"Glossary\"; expected 1 to \
             {GLOSSARY_TERMS_MAX}"
        ));
    }
    if let Some(bytes) = tracked_bytes(root)
        && bytes > TREE_BYTES_MAX
    {
        problems.push(format!(
            "the files under version control have {bytes} bytes; the most is {TREE_BYTES_MAX}"
        ));
    }
    Ok(())
}

/// Reports paragraphs of prose that are too long. Tables, lists, headings and code are not prose.
fn paragraphs(text: &str, problems: &mut Vec<String>) {
    let mut line_number = 1;
    let mut in_code = false;
    for paragraph in text.split("\n\n") {
        let first = paragraph.trim_start().chars().next().unwrap_or('#');
        // A table or a list may follow without an empty line.
        let prose = paragraph.lines().filter(|line| !line.starts_with(['|', '-']));
        let words = prose.flat_map(str::split_whitespace).count();
        let was_code = in_code;
        in_code ^= paragraph.matches("```").count() % 2 == 1;
        let is_prose = !was_code && !in_code && !"|#-*>`<".contains(first);
        if is_prose && words > PARAGRAPH_WORDS_MAX {
            problems.push(format!(
                "{MEASUREMENTS}:{line_number}: a paragraph of {words} words; the most is \
                 {PARAGRAPH_WORDS_MAX}"
            ));
        }
        line_number += paragraph.lines().count() + 1;
    }
}

/// Returns the number of rows of the table under the heading "Glossary".
fn glossary_terms(text: &str) -> usize {
    let Some((_, section)) = text.split_once("\n## Glossary") else { return 0 };
    let section = section.split("\n## ").next().unwrap_or("");
    let rows = section.lines().filter(|line| line.starts_with('|')).count();
    // The heading of the table and the line below it.
    rows.saturating_sub(2)
}

/// Returns the bytes of all tracked files; `None` outside a checkout.
fn tracked_bytes(root: &Path) -> Option<u64> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().ok()?;
    if !listed.status.success() || listed.stdout.is_empty() {
        return None;
    }
    let names = String::from_utf8(listed.stdout).ok()?;
    let sizes = names.split('\0').filter(|name| !name.is_empty());
    Some(sizes.filter_map(|name| root.join(name).symlink_metadata().ok()).map(|m| m.len()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paragraphs_are_found_outside_tables_and_code() {
        let long = "word ".repeat(81);
        let text =
            format!("# a\n\nshort\n\n| {long}|\n\n```\n{long}\n\n{long}\n```\n\n- {long}\n\n");
        let mut problems = Vec::new();
        paragraphs(&text, &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        paragraphs(&format!("{text}{long}\n"), &mut problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("81 words"), "{problems:?}");
    }

    #[test]
    fn glossary_terms_are_counted() {
        let text = "# a\n\n## Glossary\n\n| term | is |\n|---|---|\n| run | x |\n| guard | y |\n\n## b\n| z |";
        assert_eq!(glossary_terms(text), 2);
        assert_eq!(glossary_terms("# a\n"), 0);
    }
}
