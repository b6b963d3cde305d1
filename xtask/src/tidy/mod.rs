//! Checks of the source tree's structure against the promises of `ARCHITECTURE.md`.

pub mod cycles;
pub mod dead;
pub mod documents;
pub mod hops;
pub mod imports;
pub mod interface;
pub mod links;
pub mod rules;
pub mod sizes;
pub mod source;

use std::io;
use std::path::{Path, PathBuf};

use source::Source;

/// Returns all problems in the tree under `root`, one line each: `path:line: what`.
pub fn problems(root: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    files.sort();
    let mut problems = Vec::new();
    let mut sources = Vec::new();
    for path in files {
        let text = std::fs::read(root.join(&path))?;
        hosts(&path, &String::from_utf8_lossy(&text), &mut problems);
        if ![".rs", ".md", ".sh", ".toml"].iter().any(|end| path.to_string_lossy().ends_with(end)) {
            continue;
        }
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        words(&path, &text, &mut problems);
        if path.extension().is_some_and(|e| e == "md") {
            links::check(root, &path, &text, &mut problems);
        } else if path.extension().is_some_and(|e| e == "rs") {
            sources.push(Source::new(path, text));
        }
    }
    for source in &sources {
        sizes::check(source, &mut problems);
        opening(source, &mut problems);
        former_words(source, &mut problems);
        unsafe_code(source, &mut problems);
        imports::check(source, &mut problems);
        interface::check(source, &mut problems);
    }
    dead::check(&sources, &mut problems);
    cycles::check(&sources, &mut problems);
    documents::check(root, &mut problems)?;
    hops::check(root, &sources, &mut problems)?;
    Ok(problems)
}

/// Collects the files under `dir` that have a rule, relative to `root`.
fn walk(root: &Path, dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            let skipped = name.starts_with('.') && name != ".ci";
            if !skipped && !rules::SKIPPED_FOLDERS.contains(&name.as_str()) {
                walk(root, &path, files)?;
            }
        } else if rules::FILES_WITHOUT_HOSTS.iter().any(|end| name.ends_with(end)) {
            files.push(path.strip_prefix(root).unwrap_or(&path).to_path_buf());
        }
    }
    Ok(())
}

/// Finds names of package registries' hosts.
fn hosts(path: &Path, text: &str, problems: &mut Vec<String>) {
    for (at, line) in text.lines().enumerate() {
        for host in rules::REGISTRY_HOSTS.iter().filter(|host| line.contains(**host)) {
            problems.push(format!(
                "{}:{}: names {host}, a package registry's host: leave it to the user's configuration",
                path.display(),
                at + 1
            ));
        }
    }
}

fn words(path: &Path, text: &str, problems: &mut Vec<String>) {
    for (at, line) in text.lines().enumerate() {
        for word in rules::UNFINISHED {
            if line.contains(word) {
                problems.push(format!("{}:{}: {word}", path.display(), at + 1));
            }
        }
    }
}

fn opening(source: &Source, problems: &mut Vec<String>) {
    if !source.text.starts_with("//!") {
        problems.push(format!("{}:1: does not open with //!", source.path.display()));
    }
}

/// Reports the words of the engine that the field does not use.
fn former_words(source: &Source, problems: &mut Vec<String>) {
    if !source.path.starts_with("crates/esker/src") {
        return;
    }
    for (at, line) in source.text.lines().enumerate() {
        for (former, present) in rules::FORMER_WORDS {
            if has_word(line, former) {
                let path = source.path.display();
                problems.push(format!("{path}:{}: write {present} for \"{former}\"", at + 1));
            }
        }
    }
}

/// Returns whether `word` is in `line`, not as a part of another word.
fn has_word(line: &str, word: &str) -> bool {
    let bytes = line.as_bytes();
    line.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).map(|i| bytes[i]);
        let after = bytes.get(at + word.len()).copied();
        !before.is_some_and(source::is_word) && !after.is_some_and(source::is_word)
    })
}

fn unsafe_code(source: &Source, problems: &mut Vec<String>) {
    if rules::UNSAFE_FILES.iter().any(|file| source.path == Path::new(file)) {
        return;
    }
    for at in source.words("unsafe") {
        let line = source.line_of(at);
        problems.push(format!("{}:{line}: unsafe outside the named files", source.path.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_words_are_found_in_code_and_comments_of_the_engine() {
        let text = "//! A ladder.\nfn step(rung: u8) { outlined(rung) }\n";
        let mut problems = Vec::new();
        former_words(&Source::new("crates/lab/src/a.rs".into(), text.into()), &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        former_words(&Source::new("crates/esker/src/a.rs".into(), text.into()), &mut problems);
        assert_eq!(problems.len(), 2, "{problems:?}");
        let first = "crates/esker/src/a.rs:1: write sorted merge list for \"ladder\"";
        assert_eq!(problems[0], first);
        assert!(problems[1].starts_with("crates/esker/src/a.rs:2: "), "{problems:?}");
    }

    #[test]
    fn a_registry_host_is_found_with_its_line() {
        let mut problems = Vec::new();
        let text = format!("a\nfetch https://index.{}/x\n", rules::REGISTRY_HOSTS[0]);
        hosts(Path::new("Makefile"), &text, &mut problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("Makefile:2: names "), "{problems:?}");
    }
}
