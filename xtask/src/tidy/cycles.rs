//! Check of imports between files: no file of the engine may import itself through others. Code
//! that forms a cycle can only be read as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::source::Source;

type Module = Vec<String>;

/// Reports each group of files that import each other.
pub fn check(sources: &[Source], problems: &mut Vec<String>) {
    let mut code: BTreeMap<Module, String> = BTreeMap::new();
    for source in sources {
        let Ok(inside) = source.path.strip_prefix("crates/esker/src") else { continue };
        if let Some(module) = module_of(inside) {
            code.insert(module, source.code_without_tests());
        }
    }
    for group in groups(&edges(&code)) {
        let names: Vec<String> = group.iter().map(|module| module.join("/")).collect();
        problems
            .push(format!("crates/esker/src: files that import each other: {}", names.join(", ")));
    }
}

/// Returns the path of a file's module; `None` for tests and for the root.
fn module_of(inside: &Path) -> Option<Module> {
    let name = inside.with_extension("").display().to_string();
    let mut module: Module = name.split('/').map(String::from).collect();
    let is_test = |part: &String| part == "tests" || part.ends_with("_tests");
    if module.iter().any(is_test) || module == ["lib"] || module == ["internals"] {
        return None;
    }
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    Some(module)
}

/// Returns the modules that each module imports with `use`.
fn edges(code: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, text) in code {
        let imported = edges.entry(module.clone()).or_default();
        for (at, _) in text.match_indices("use ") {
            let statement = text[at + 4..].split(';').next().unwrap_or("");
            if !["crate::", "super::", "self::"].iter().any(|root| statement.starts_with(root)) {
                continue;
            }
            for path in paths(statement) {
                let mut target = absolute(module, &path);
                while !target.is_empty() && !code.contains_key(&target) {
                    target.pop();
                }
                if !target.is_empty() && target != *module {
                    imported.insert(target);
                }
            }
        }
    }
    edges
}

/// Returns the paths of a `use` statement, braces expanded.
fn paths(text: &str) -> Vec<Module> {
    let text = text.trim();
    let Some((head, rest)) = text.split_once('{') else {
        let path = text.split(" as ").next().unwrap_or("");
        return vec![path.split("::").map(|part| part.trim().to_string()).collect()];
    };
    let base: Module =
        head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(String::from).collect();
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(paths).map(|path| [base.clone(), path].concat()).collect()
}

/// Returns the path of an import in `module` from the root of the crate.
fn absolute(module: &Module, path: &Module) -> Module {
    let above = path.iter().take_while(|part| *part == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("self") => [module.clone(), path[1..].to_vec()].concat(),
        _ => [&module[..module.len().saturating_sub(above)], &path[above..]].concat(),
    }
}

/// Returns the groups of modules that reach each other.
fn groups(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let reach = |from: &Module| {
        let mut reached: BTreeSet<&Module> = BTreeSet::new();
        let mut next: Vec<&Module> = edges[from].iter().collect();
        while let Some(module) = next.pop() {
            if reached.insert(module) {
                next.extend(edges[module].iter());
            }
        }
        reached
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        edges.keys().map(|module| (module, reach(module))).collect();
    let mut groups: BTreeSet<Vec<Module>> = BTreeSet::new();
    for (module, reaches) in &reached {
        if reaches.contains(module) {
            let mutual = reaches.iter().filter(|other| reached[**other].contains(module));
            groups.insert(mutual.map(|other| (*other).clone()).collect());
        }
    }
    groups.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(files: &[(&str, &str)]) -> BTreeMap<Module, String> {
        let module = |name: &str| name.split('/').map(String::from).collect();
        files.iter().map(|(name, text)| (module(name), text.to_string())).collect()
    }

    #[test]
    fn indirect_cycle_is_found_and_tree_has_none() {
        let cycle = code(&[
            ("db/a", "use super::b::{self, B};"),
            ("db/b", "use crate::db::{c::C as D, d};"),
            ("db/c", "use super::a;"),
            ("db/d", "use crate::tree::t;"),
            ("tree/t", ""),
        ]);
        let found = groups(&edges(&cycle));
        assert_eq!(found.len(), 1);
        let names: Vec<String> = found[0].iter().map(|module| module.join("/")).collect();
        assert_eq!(names, ["db/a", "db/b", "db/c"]);
        let tree = code(&[("db/a", "use super::b::{B, c::{D}};"), ("db/b", ""), ("db/b/c", "")]);
        assert!(groups(&edges(&tree)).is_empty());
    }
}
