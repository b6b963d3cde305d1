//! Files that this crate generates: writes one, or checks that it is current.

use std::path::Path;

/// Writes the generated text of `file`.
pub fn write(root: &Path, file: &str, text: &str) -> Result<(), String> {
    let path = root.join(file);
    let parent = path.parent().unwrap_or(root);
    std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Checks that `file` has the generated text. `advice` ends the message of a difference.
pub fn check(root: &Path, file: &str, text: &str, advice: &str) -> Result<(), String> {
    let found = std::fs::read_to_string(root.join(file)).unwrap_or_default();
    if found == text { Ok(()) } else { Err(format!("{file} differs from {advice}")) }
}
