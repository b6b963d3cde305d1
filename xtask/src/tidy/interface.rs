//! The names in the engine's root module: at most so many that a reader can take them in at once.
//!
//! `cargo xtask api` counts all items of the public interface, and needs rustdoc. This check needs
//! only the text of `lib.rs`.

use std::path::Path;

use super::source::Source;

/// The root module.
const ROOT: &str = "crates/esker/src/lib.rs";
/// Maximum number of public names in it: decision 0055.
pub const NAMES_MAX: usize = 60;

/// Adds a problem to `problems` if the root module has too many names.
pub fn check(source: &Source, problems: &mut Vec<String>) {
    if source.path != Path::new(ROOT) {
        return;
    }
    let names = names(&source.text).len();
    if names > NAMES_MAX {
        problems.push(format!(
            "{ROOT}:1: {names} public names; the most is {NAMES_MAX}: put rarely used names in a \
             documented module"
        ));
    }
}

/// Returns the public names of a root module: its re-exports and modules, without those that the
/// documentation hides and those within a module.
fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_hidden = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_prefix("pub use ") {
            let mut path = path.to_string();
            while !path.contains(';') {
                let Some(next) = lines.next() else { break };
                path += next;
            }
            let end = path.split("::").last().unwrap_or("");
            let listed = end.split(|c: char| "{},; ".contains(c)).filter(|name| !name.is_empty());
            names.extend(listed.map(String::from));
        } else if let Some(name) = line.strip_prefix("pub mod ")
            && !is_hidden
        {
            names.push(name.trim_end_matches([';', '{', ' ']).to_string());
        }
        is_hidden = line == "#[doc(hidden)]" || (is_hidden && line.starts_with("#["));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_re_exports_and_modules_of_the_root_alone() {
        let text = "pub mod codec;\nmod db;\npub use db::{\n    Db, Options,\n};\npub use a::b::C;\n\
                    /// Text.\npub mod feed {\n    pub use crate::db::feed::{Change, Slot};\n}\n\
                    #[doc(hidden)]\n#[cfg(feature = \"internals\")]\npub mod internals;\n";
        assert_eq!(names(text), ["codec", "Db", "Options", "C", "feed"]);
    }
}
