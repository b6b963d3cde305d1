//! Where experiments are found: a path, `experiments/` below the current folder, or built in.

use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};

/// The experiments that come with the lab: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("projectdb", include_str!("../../experiments/projectdb.toml")),
    ("leveldb-knobs", include_str!("../../experiments/leveldb-knobs.toml")),
    ("pebblesdb", include_str!("../../experiments/pebblesdb.toml")),
    ("kvstore", include_str!("../../experiments/kvstore.toml")),
    ("speed", include_str!("../../experiments/speed.toml")),
    ("ycsb-tuning", include_str!("../../experiments/ycsb-tuning.toml")),
];

/// The folder users put their own in.
const FOLDER: &str = "experiments";

/// An experiment's text and where it is from.
#[derive(Clone, Debug)]
pub struct Found {
    /// The name: a file's without its ending.
    pub name: String,
    /// The file, or none where it is built in.
    pub path: Option<PathBuf>,
    /// The TOML.
    pub text: String,
}

/// The experiment called `name`, or in the file `name`. Fails with the names there are.
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
                "unknown experiment {name:?}; there are {}, or give the path of a .toml file",
                names.join(", ")
            )))
        }
    }
}

/// All that can be named: those in the folder, and the built-in ones not among them.
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
