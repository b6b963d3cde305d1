//! Lookup of experiments: a path, the directory `experiments/` in the current directory, or built
//! in.

use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};

/// Built-in experiments: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("projectdb", include_str!("../../experiments/projectdb.toml")),
    ("leveldb-knobs", include_str!("../../experiments/leveldb-knobs.toml")),
    ("pebblesdb", include_str!("../../experiments/pebblesdb.toml")),
    ("pebblesdb-10m", include_str!("../../experiments/pebblesdb-10m.toml")),
    ("kvstore", include_str!("../../experiments/kvstore.toml")),
    ("speed", include_str!("../../experiments/speed.toml")),
    ("queue", include_str!("../../experiments/queue.toml")),
    ("space", include_str!("../../experiments/space.toml")),
    ("bulk-load", include_str!("../../experiments/bulk-load.toml")),
    ("large-values", include_str!("../../experiments/large-values.toml")),
    ("states", include_str!("../../experiments/states.toml")),
    ("ycsb-tuning", include_str!("../../experiments/ycsb-tuning.toml")),
    ("mixgraph", include_str!("../../experiments/mixgraph.toml")),
    ("distributed", include_str!("../../experiments/distributed.toml")),
    ("applications", include_str!("../../experiments/applications.toml")),
    ("clients", include_str!("../../experiments/clients.toml")),
    ("guard", include_str!("../../experiments/guard.toml")),
];

/// Directory of the user's own experiments.
const FOLDER: &str = "experiments";

/// An experiment's text and its source.
#[derive(Clone, Debug)]
pub struct Found {
    /// Name: the file name without the extension.
    pub name: String,
    /// File path; `None` for a built-in experiment.
    pub path: Option<PathBuf>,
    /// TOML text.
    pub text: String,
}

/// Returns the experiment named `name`, or in the file `name`. The error lists the known names.
pub fn find(name: &str) -> Result<Found> {
    let path = Path::new(name);
    if name.contains('/') || name.ends_with(".toml") {
        return read(path);
    }
    let own = Path::new(FOLDER).join(format!("{name}.toml"));
    if own.is_file() {
        return read(&own);
    }
    match BUILT_IN.iter().find(|(known, _)| *known == name) {
        Some((known, text)) => {
            Ok(Found { name: (*known).into(), path: None, text: (*text).into() })
        }
        None => {
            let names: Vec<String> = all().into_iter().map(|found| found.name).collect();
            Err(LabError::usage(format!(
                "unknown experiment {name:?}; the experiments are {}; or give the path of a .toml \
                 file",
                names.join(", ")
            )))
        }
    }
}

/// Returns all experiments with a name: those in the directory, and the built-in ones not
/// overridden there.
pub fn all() -> Vec<Found> {
    let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let mut found: Vec<Found> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .filter_map(|path| read(&path).ok())
        .collect();
    for (name, text) in BUILT_IN {
        if !found.iter().any(|own| own.name == *name) {
            found.push(Found { name: (*name).into(), path: None, text: (*text).into() });
        }
    }
    found.sort_by(|left, right| left.name.cmp(&right.name));
    found
}

fn read(path: &Path) -> Result<Found> {
    let text =
        std::fs::read_to_string(path).map_err(|e| LabError::io("read the experiment", path, &e))?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    Ok(Found { name, path: Some(path.to_path_buf()), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_the_repository_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(FOLDER);
        let mut files = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            let found = read(&entry.unwrap().path()).unwrap();
            let known = BUILT_IN.iter().find(|(name, _)| *name == found.name);
            assert_eq!(known.map(|(_, text)| *text), Some(found.text.as_str()), "{}", found.name);
            files += 1;
        }
        assert_eq!(files, BUILT_IN.len());
    }
}
