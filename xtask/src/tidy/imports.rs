//! Check of imports in the engine: they may refer only to lower layers.

use std::path::Path;

use super::rules::{layer, may_import};
use super::source::{Source, is_word};

/// Names exported by `lib.rs` for use in every layer, with their module.
const ROOT_NAMES: &[(&str, &str)] =
    &[("Error", "error"), ("ErrorKind", "error"), ("Result", "error")];

/// Reports each `crate::x` that refers to the same or a higher layer. Tests may import anything.
pub fn check(source: &Source, problems: &mut Vec<String>) {
    let Ok(inside) = source.path.strip_prefix("crates/esker/src") else { return };
    let Some(module) = module_of(inside) else { return };
    let is_test = inside.components().any(|part| {
        let part = part.as_os_str().to_string_lossy();
        part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs")
    });
    if is_test {
        return;
    }
    if module == "internals" {
        // It only re-exports for the testkit and the command line.
        return;
    }
    if layer(&module).is_none() {
        problems.push(format!("{}:1: {module} is in no layer", source.path.display()));
        return;
    }
    let code = source.code_without_tests();
    for (at, _) in code.match_indices("crate::") {
        if at > 0 && (is_word(code.as_bytes()[at - 1]) || code.as_bytes()[at - 1] == b'$') {
            continue;
        }
        for name in names(&code[at + "crate::".len()..]) {
            let to = ROOT_NAMES.iter().find(|(n, _)| *n == name).map_or(name.as_str(), |(_, m)| m);
            if !may_import(&module, to) {
                let line = source.line_of(at);
                problems.push(format!("{}:{line}: {module} imports {to}", source.path.display()));
            }
        }
    }
}

/// Returns the module of a file: its directory or its name; `None` for `lib.rs`.
fn module_of(inside: &Path) -> Option<String> {
    let first = inside.components().next()?.as_os_str().to_string_lossy().into_owned();
    let module = first.strip_suffix(".rs").unwrap_or(&first).to_string();
    (module != "lib").then_some(module)
}

/// Returns the first names of a path; several if it begins with a brace.
fn names(path: &str) -> Vec<String> {
    let word = |text: &str| text.bytes().take_while(|byte| is_word(*byte)).count();
    let Some(list) = path.strip_prefix('{') else {
        return vec![path[..word(path)].to_string()];
    };
    let (mut names, mut depth, mut fresh) = (Vec::new(), 0, true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            c if c.is_whitespace() => {}
            _ if fresh => {
                names.push(list[at..at + word(&list[at..])].to_string());
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        let mut problems = Vec::new();
        let path = Path::new("crates/esker/src").join(path);
        check(&Source::new(path, text.into()), &mut problems);
        problems.len()
    }

    #[test]
    fn imports_must_refer_to_lower_layers() {
        assert_eq!(problems("tree/set.rs", "use crate::table::Table;\nuse crate::fs::Fs;"), 0);
        assert_eq!(problems("table/mod.rs", "use crate::cache::Cache; use crate::wal::Log;"), 1);
        assert_eq!(problems("cache/mod.rs", "fn f() { crate::table::g() }"), 1);
        assert_eq!(
            problems("base/mod.rs", "use crate::error::Error; use crate::{fs, metrics};"),
            1
        );
        assert_eq!(
            problems("db/open.rs", "use crate::{read::{View, get}, write::batch, iter};"),
            0
        );
        assert_eq!(problems("wal/mod.rs", "use crate::Result; use crate::Db;"), 1);
        assert_eq!(problems("new/mod.rs", ""), 1);
    }

    #[test]
    fn tests_and_comments_may_import_anything() {
        let text = "// crate::db\n#[cfg(test)]\nmod tests { use crate::db::Db; }";
        assert_eq!(problems("fs/mod.rs", text), 0);
        assert_eq!(problems("fs/tests.rs", "use crate::db::Db;"), 0);
    }
}
