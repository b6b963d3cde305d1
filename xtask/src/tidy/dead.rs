//! Check for dead files: every `.rs` file must be a crate's root or be declared by a `mod`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::source::{Source, is_word};

/// Reports the files without a declaration.
pub fn check(sources: &[Source], problems: &mut Vec<String>) {
    let mut reached: BTreeSet<PathBuf> = BTreeSet::new();
    let mut waiting: Vec<&Source> = sources.iter().filter(|s| is_root(&s.path)).collect();
    while let Some(source) = waiting.pop() {
        if !reached.insert(source.path.clone()) {
            continue;
        }
        let folder = folder_of(&source.path);
        for name in declared(source) {
            let candidates = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
            waiting.extend(sources.iter().filter(|s| candidates.contains(&s.path)));
        }
    }
    for source in sources {
        if !reached.contains(&source.path) {
            problems.push(format!("{}:1: no `mod` declares this file", source.path.display()));
        }
    }
}

/// Returns whether Cargo finds the file by itself.
fn is_root(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parent = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    match parent.as_ref() {
        "src" => name == "lib.rs" || name == "main.rs",
        "tests" | "examples" | "benches" => !path.components().any(|c| c.as_os_str() == "src"),
        "bin" | "fuzz_targets" => true,
        // A directory of `tests` or `benches` with a `main.rs` is a program.
        _ if name == "main.rs" => {
            let above = path.parent().and_then(Path::parent);
            above.is_some_and(|p| p.ends_with("tests") || p.ends_with("benches"))
        }
        _ => name == "build.rs",
    }
}

/// Returns the directory in which a file's declared modules are searched.
fn folder_of(path: &Path) -> PathBuf {
    let parent = path.parent().unwrap_or(Path::new(""));
    let name = path.file_stem().unwrap_or_default();
    if is_root(path) || name == "mod" { parent.to_path_buf() } else { parent.join(name) }
}

/// Returns the names in `mod name;`.
fn declared(source: &Source) -> impl Iterator<Item = &str> {
    source.words("mod").filter_map(|at| {
        let rest = source.code[at + 3..].trim_start();
        let length = rest.bytes().take_while(|byte| is_word(*byte)).count();
        rest[length..].trim_start().starts_with(';').then_some(&rest[..length])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_undeclared_file_is_dead() {
        let files = [
            ("a/src/lib.rs", "mod b; // mod dead;"),
            ("a/src/b.rs", "pub mod c;\nmod inline { }"),
            ("a/src/b/c.rs", ""),
            ("a/src/dead.rs", ""),
            ("a/tests/t.rs", "mod common;"),
            ("a/tests/common/mod.rs", ""),
            ("a/tests/group/main.rs", "mod member;"),
            ("a/tests/group/member.rs", ""),
        ];
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(path.into(), (*text).into())).collect();
        let mut problems = Vec::new();
        check(&sources, &mut problems);
        assert_eq!(problems, ["a/src/dead.rs:1: no `mod` declares this file"]);
    }
}
