//! Check that relative links in Markdown point to existing files.

use std::path::Path;

/// Reports the dead links of the Markdown file `path`.
pub fn check(root: &Path, path: &Path, text: &str, problems: &mut Vec<String>) {
    let folder = root.join(path.parent().unwrap_or(Path::new("")));
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(line) {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !elsewhere && !file.is_empty() && !folder.join(file).exists() {
                problems.push(format!("{}:{}: no such file: {target}", path.display(), at + 1));
            }
        }
    }
}

/// Returns the targets of `[text](target)` and `src="target"` in a line, without titles. Code spans
/// are skipped.
fn targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (i, part) in line.split('`').enumerate() {
        if i % 2 == 1 {
            continue;
        }
        for open in ["](", "src=\""] {
            let mut rest = part;
            while let Some(at) = rest.find(open) {
                rest = &rest[at + open.len()..];
                let end = rest.find([')', ' ', '"']).unwrap_or(rest.len());
                targets.push(&rest[..end]);
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_reported() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[a](Cargo.toml) [b](src/lib.rs#L1) [c](https://x.y) [d](#here) `[e](no)`\n\
                    ```\n[f](no)\n```\n[g](nowhere.md \"title\")\n";
        let mut problems = Vec::new();
        check(root, Path::new("README.md"), text, &mut problems);
        assert_eq!(problems, ["README.md:5: no such file: nowhere.md"]);
    }
}
