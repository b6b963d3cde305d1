//! Copies a directory from one file system to another, through the `Fs` trait alone.

use std::io;
use std::path::Path;

use esker::fs::Fs;

/// Copies the directory `path` with its whole content from `from` to the same path of `to`. Creates
/// missing parent directories in `to`. Replaces existing files of `to`. Syncs nothing.
///
/// # Errors
/// The first error of either file system. Part of the directory may have been copied.
pub fn copy_dir(from: &dyn Fs, to: &dyn Fs, path: &Path) -> io::Result<()> {
    let above: Vec<&Path> = path.ancestors().skip(1).collect();
    for dir in above.into_iter().rev() {
        if !dir.as_os_str().is_empty() && !to.exists(dir)? {
            to.create_dir(dir)?;
        }
    }
    copy_below(from, to, path)
}

fn copy_below(from: &dyn Fs, to: &dyn Fs, path: &Path) -> io::Result<()> {
    to.create_dir(path)?;
    for entry in from.list(path)? {
        let child = path.join(&entry.name);
        if !entry.is_file {
            copy_below(from, to, &child)?;
            continue;
        }
        if to.exists(&child)? {
            to.remove(&child)?;
        }
        to.create_new(&child)?.append(&from.read(&child, u64::MAX)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::fs::MemFs;

    #[test]
    fn files_and_directories_are_copied_completely() {
        let (from, to) = (MemFs::new(), MemFs::new());
        let deep = Path::new("/a/b/c");
        for dir in ["/a", "/a/b", "/a/b/c"] {
            from.create_dir(Path::new(dir)).unwrap();
        }
        from.create_new(&deep.join("x")).unwrap().append(b"new").unwrap();
        from.create_new(Path::new("/a/outside")).unwrap();
        copy_dir(&*from, &*to, Path::new("/a/b")).unwrap();
        assert_eq!(to.read(&deep.join("x"), 9).unwrap(), b"new");
        assert!(!to.exists(Path::new("/a/outside")).unwrap());
        copy_dir(&*from, &*to, Path::new("/a/b")).unwrap();
        assert_eq!(to.read(&deep.join("x"), 9).unwrap(), b"new");
    }
}
