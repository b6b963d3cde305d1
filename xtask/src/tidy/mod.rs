//! Checks of the source tree's structure against the promises of `ARCHITECTURE.md`.

pub mod cycles;
pub mod dead;
pub mod documents;
pub mod hops;
pub mod imports;
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
        let text = std::fs::read_to_string(root.join(&path))?;
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
        unsafe_code(source, &mut problems);
        imports::check(source, &mut problems);
    }
    dead::check(&sources, &mut problems);
    cycles::check(&sources, &mut problems);
    documents::check(root, &mut problems)?;
    hops::check(root, &sources, &mut problems)?;
    Ok(problems)
}

/// Collects Rust, Markdown, shell and TOML files under `dir`, relative to `root`.
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
        } else if [".rs", ".md", ".sh", ".toml"].iter().any(|end| name.ends_with(end)) {
            files.push(path.strip_prefix(root).unwrap_or(&path).to_path_buf());
        }
    }
    Ok(())
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

fn unsafe_code(source: &Source, problems: &mut Vec<String>) {
    if rules::UNSAFE_FILES.iter().any(|file| source.path == Path::new(file)) {
        return;
    }
    for at in source.words("unsafe") {
        let line = source.line_of(at);
        problems.push(format!("{}:{line}: unsafe outside the named files", source.path.display()));
    }
}
