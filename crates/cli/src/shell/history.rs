//! History of the lines typed in earlier sessions, and its storage location.
//!
//! Invariants:
//! 1. Only the owner can read the file, also during its creation.
//! 2. `ESKER_HISTORY=off` keeps no history.
//! 3. The shell works without a history; a failure to keep one is reported once.

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustyline::Editor;
use rustyline::history::FileHistory;

use super::complete::Completions;
use crate::failure::print_line;

/// Maximum number of lines kept.
pub const LINES_MAX: usize = 1_000;

/// History file of a session, if the session keeps a history.
pub struct History {
    path: Option<PathBuf>,
}

type Line = Editor<Completions, FileHistory>;

impl History {
    /// Loads the lines of earlier sessions into `editor`.
    pub fn begin(editor: &mut Line) -> History {
        let path = place(|name| std::env::var_os(name));
        let mut history = History { path };
        if let Some(path) = history.path.clone() {
            let loaded = prepare(&path)
                .map_err(|error| error.to_string())
                .and_then(|()| editor.load_history(&path).map_err(|error| error.to_string()));
            if let Err(why) = loaded {
                history.give_up(&path, &why);
            }
        }
        history
    }

    /// Appends `line` to the file at once, since a signal may end the session.
    pub fn keep(&mut self, editor: &mut Line, line: &str) {
        let added = editor.add_history_entry(line).unwrap_or(false);
        if let (true, Some(path)) = (added, self.path.clone())
            && let Err(error) = editor.append_history(&path)
        {
            self.give_up(&path, &error.to_string());
        }
    }

    fn give_up(&mut self, path: &Path, why: &str) {
        print_line(&format!("esker: {}: cannot save the history: {why}", path.display()));
        self.path = None;
    }
}

/// Returns `ESKER_HISTORY`, unless it is `off`; by default, a file in the user's state directory,
/// if a home directory is known.
fn place(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(named) = variable("ESKER_HISTORY") {
        return (!named.is_empty() && named != "off").then(|| PathBuf::from(named));
    }
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let states = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(states.join("esker/history"))
}

/// Creates the file and its parent directories if missing, with access for the owner only.
fn prepare(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_path_follows_environment() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, OsString)> =
                pairs.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
            place(|name| pairs.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone()))
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(of(&[("HOME", "/h")]), path("/h/.local/state/esker/history"));
        assert_eq!(of(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), path("/s/esker/history"));
        assert_eq!(
            of(&[("HOME", "/h"), ("XDG_STATE_HOME", "not/absolute")]),
            path("/h/.local/state/esker/history")
        );
        assert_eq!(of(&[("HOME", "/h"), ("ESKER_HISTORY", "mine")]), path("mine"));
        assert_eq!(of(&[("HOME", "/h"), ("ESKER_HISTORY", "off")]), None);
        assert_eq!(of(&[("HOME", "/h"), ("ESKER_HISTORY", "")]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn history_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some/where/history");
        prepare(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        std::fs::write(&path, "#V2\nget a\n").unwrap();
        prepare(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(std::fs::read(&path).unwrap(), b"#V2\nget a\n");
    }
}
