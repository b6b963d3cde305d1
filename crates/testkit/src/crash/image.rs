//! The state after a crash, as a value that is cheap to keep, compare, damage and start from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::MemFs;
use esker::internals::checksum;

use super::CrashFs;

/// Directories and files. Two names of one file share an index into `contents`.
#[derive(Clone, Default)]
pub struct Image {
    /// Directories except the roots, parents first.
    pub dirs: Vec<PathBuf>,
    /// Files: path and index.
    pub files: BTreeMap<PathBuf, usize>,
    /// File contents, shared with the disk and with other images until they differ.
    pub contents: Vec<Arc<Vec<u8>>>,
}

impl Image {
    /// Returns the files in `dir` of a file system, with the parent directories.
    pub fn of(fs: &dyn Fs, dir: &Path) -> std::io::Result<Image> {
        let named = |above: &&Path| above.file_name().is_some();
        let mut dirs: Vec<PathBuf> = dir.ancestors().filter(named).map(Path::to_path_buf).collect();
        dirs.reverse();
        let mut image = Image { dirs, ..Image::default() };
        for entry in fs.list(dir)? {
            if entry.is_file {
                let path = dir.join(&entry.name);
                let bytes = fs.read(&path, u64::MAX)?;
                image.files.insert(path, image.contents.len());
                image.contents.push(Arc::new(bytes));
            }
        }
        Ok(image)
    }

    /// Returns the bytes of a file.
    pub fn bytes(&self, path: &Path) -> Option<&[u8]> {
        self.files.get(path).map(|index| self.contents[*index].as_slice())
    }

    /// Returns the bytes of a file for modification.
    pub fn bytes_mut(&mut self, path: &Path) -> Option<&mut Vec<u8>> {
        let index = *self.files.get(path)?;
        Some(Arc::make_mut(&mut self.contents[index]))
    }

    /// Returns a digest of the image. Images with the same digest have the same content, apart from
    /// the lock file's.
    pub fn digest(&self) -> u64 {
        let mut sum = 0;
        for dir in &self.dirs {
            sum = checksum(dir.as_os_str().as_encoded_bytes(), sum);
        }
        for (path, index) in &self.files {
            sum = checksum(path.as_os_str().as_encoded_bytes(), sum);
            if !path.ends_with("LOCK") {
                sum = checksum(&self.contents[*index], sum);
            }
        }
        sum
    }

    /// Returns a file system in memory with this content.
    pub fn to_mem(&self) -> Arc<MemFs> {
        let fs = MemFs::new();
        self.copy_to(&*fs);
        fs
    }

    /// Returns a simulated disk with this content, all of it durable.
    pub fn to_disk(&self, seed: u64) -> Arc<CrashFs> {
        let disk = CrashFs::seeded(seed);
        self.copy_to(&*disk);
        disk.sync_everything();
        disk
    }

    fn copy_to(&self, fs: &dyn Fs) {
        let mut first: BTreeMap<usize, &Path> = BTreeMap::new();
        for dir in &self.dirs {
            fs.create_dir(dir).unwrap_or_else(|e| panic!("image of {}: {e}", dir.display()));
        }
        for (path, index) in &self.files {
            let made = match first.get(index) {
                Some(other) => fs.hard_link(other, path),
                None => {
                    first.insert(*index, path);
                    fs.create_new(path).and_then(|mut f| f.append(&self.contents[*index]))
                }
            };
            made.unwrap_or_else(|e| panic!("image of {}: {e}", path.display()));
        }
    }
}
