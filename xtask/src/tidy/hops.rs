//! Checks the documents that follow one operation through the engine. Their heading states the
//! number of hops, and a table lists each hop with its function and its file. Every function that
//! such a document names must exist in the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::source::{Source, is_word};

/// The documents, with the most hops that the operation may have.
const DOCUMENTS: &[(&str, usize)] =
    &[("docs/life-of-a-read.md", 20), ("docs/life-of-a-write.md", 15)];
/// Folder of the files that the tables name.
const ENGINE: &str = "crates/esker/src";

/// What the engine defines outside its tests.
#[derive(Default)]
struct Engine {
    /// The names of the functions of each file.
    functions: BTreeMap<PathBuf, BTreeSet<String>>,
    /// The names of types and traits.
    types: BTreeSet<String>,
}

impl Engine {
    fn of(sources: &[Source]) -> Engine {
        let mut engine = Engine::default();
        for source in sources {
            let Ok(path) = source.path.strip_prefix(ENGINE) else { continue };
            let code = source.code_without_tests();
            engine.functions.insert(path.to_path_buf(), defined(&code, "fn ").collect());
            for keyword in ["struct ", "enum ", "trait ", "type "] {
                engine.types.extend(defined(&code, keyword));
            }
        }
        engine
    }

    /// Returns whether a path such as `Type::name` or `module::name` may be a function.
    fn has(&self, path: &str) -> bool {
        let (owner, name) = path.rsplit_once("::").unwrap_or(("", path));
        let owner = owner.rsplit("::").next().unwrap_or("");
        let is_type = owner.starts_with(|first: char| first.is_ascii_uppercase());
        self.functions.values().any(|functions| functions.contains(name))
            && (!is_type || self.types.contains(owner))
    }
}

/// Returns the names after a keyword.
fn defined<'c>(code: &'c str, keyword: &'static str) -> impl Iterator<Item = String> + 'c {
    code.split(keyword).skip(1).map(|rest| {
        let length = rest.bytes().take_while(|byte| is_word(*byte)).count();
        rest[..length].to_string()
    })
}

/// Adds the problems of all documents to `problems`.
pub fn check(root: &Path, sources: &[Source], problems: &mut Vec<String>) -> std::io::Result<()> {
    let engine = Engine::of(sources);
    for (name, most) in DOCUMENTS {
        let text = std::fs::read_to_string(root.join(name))?;
        let found = of_document(&text, *most, &engine);
        problems.extend(found.into_iter().map(|(line, what)| format!("{name}:{line}: {what}")));
    }
    Ok(())
}

/// Returns the problems of one document with their lines.
fn of_document(text: &str, most: usize, engine: &Engine) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    let (mut hops, mut files, mut folders) = (0, BTreeSet::new(), BTreeSet::new());
    for (at, line) in text.lines().enumerate() {
        for name in functions(line) {
            if !engine.has(name) {
                problems.push((at + 1, format!("the engine has no function `{name}`")));
            }
        }
        let Some((number, name, file)) = hop(line) else { continue };
        hops += 1;
        if number != hops {
            problems.push((at + 1, format!("hop {number} is row {hops} of the table")));
        }
        match engine.functions.get(Path::new(file)) {
            None => problems.push((at + 1, format!("no such file: {ENGINE}/{file}"))),
            Some(functions) if !functions.contains(name) => {
                problems.push((at + 1, format!("`{name}` is not in {file}")));
            }
            Some(_) => {}
        }
        files.insert(file);
        folders.insert(Path::new(file).parent());
    }
    let (files, folders) = (files.len(), folders.len());
    let stated = format!("**{hops} hops** in {files} files of {folders} folders");
    if !text.contains(&stated) {
        problems.push((1, format!("the head must say: {stated}")));
    }
    if hops > most {
        problems.push((1, format!("{hops} hops; the most is {most}")));
    }
    problems
}

/// Returns the functions in code spans such as `Type::name` and `module::name`. Constants, types
/// and variants do not count.
fn functions(line: &str) -> Vec<&str> {
    let spans = line.split('`').skip(1).step_by(2);
    let paths = spans.filter(|span| !span.starts_with("crate") && span.contains("::"));
    let names = paths.filter_map(|span| span.split(['(', ' ']).next());
    let is_function = |path: &&str| {
        let name = path.rsplit("::").next().unwrap_or("");
        name.starts_with(|first: char| first.is_ascii_lowercase())
    };
    names.filter(is_function).collect()
}

/// Returns number, function and file of a row such as "| 1 | `Db::get` | `db/mod.rs` | … |".
fn hop(line: &str) -> Option<(usize, &str, &str)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let number = cells.next()?.parse().ok()?;
    let function = cells.next()?.trim_matches('`');
    let file = cells.next()?.trim_matches('`');
    Some((number, function.rsplit("::").next()?, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_rows_and_counts_are_found() {
        let file = |name: &str, text: &str| {
            Source::new(Path::new(ENGINE).join(name), format!("//! x\n{text}"))
        };
        let sources = [
            file(
                "db/mod.rs",
                "struct Db;\nstruct Lookup;\nimpl Db {\n    pub fn get(&self) {}\n}\n",
            ),
            file("read/get.rs", "fn find() {}\n#[cfg(test)]\nmod tests {\n    fn gone() {}\n}\n"),
        ];
        let engine = Engine::of(&sources);
        let good = "# a\n\n**2 hops** in 2 files of 2 folders\n\n| 1 | `Db::get` | `db/mod.rs` | x |\n\
                    | 2 | `Lookup::find` | `read/get.rs` | `Options::VALUE`, `Found::Table` |\n";
        assert_eq!(of_document(good, 2, &engine), []);
        assert_eq!(of_document(good, 1, &engine)[0].1, "2 hops; the most is 1");
        let moved = of_document(&good.replace("read/get.rs", "db/mod.rs"), 2, &engine);
        assert_eq!(moved[0], (6, "`find` is not in db/mod.rs".to_string()));
        assert!(moved[1].1.contains("in 1 files of 1 folders"), "{moved:?}");
        let gone = of_document(&good.replace("Lookup::find", "Lookup::gone"), 2, &engine);
        assert_eq!(gone[0], (6, "the engine has no function `Lookup::gone`".to_string()));
        let other = of_document(&good.replace("Db::get", "Store::get"), 2, &engine);
        assert_eq!(other[0], (5, "the engine has no function `Store::get`".to_string()));
        let lost = of_document(&good.replace("db/mod.rs", "db/lost.rs"), 2, &engine);
        assert_eq!(lost[0], (5, "no such file: crates/esker/src/db/lost.rs".to_string()));
        let order = of_document(&good.replace("| 2 |", "| 3 |"), 2, &engine);
        assert_eq!(order[0], (6, "hop 3 is row 2 of the table".to_string()));
    }
}
