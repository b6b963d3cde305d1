//! Damage to the files of a closed store, and its repair.

use std::path::{Path, PathBuf};

use esker::Db;
use esker_testkit::crash::CrashModel;

use super::{DIR, Output, Session, number, output_of, relative};

/// Returns a position in a file of `len_bytes`. A negative one counts from the end.
fn position(text: &str, len_bytes: usize) -> Result<usize, String> {
    let at = match text.strip_prefix('-') {
        Some(back) => len_bytes.checked_sub(number(back)? as usize),
        None => Some(number(text)? as usize),
    };
    at.filter(|at| *at <= len_bytes).ok_or_else(|| format!("the file has {len_bytes} bytes"))
}

impl Session {
    pub(super) fn damage(&mut self, name: &str, words: &[&str]) -> Output {
        if name == "repair" {
            return self.repair();
        }
        let mut image = self.disk.image(CrashModel::Everything);
        let path_of = |name: &str| Path::new(DIR).join(name);
        let add = |image: &mut esker_testkit::crash::Image, path: PathBuf, bytes: Vec<u8>| {
            image.files.insert(path, image.contents.len());
            image.contents.push(std::sync::Arc::new(bytes));
        };
        let (file, rest) = words.split_first().ok_or("expected a file")?;
        if name == "create" {
            add(&mut image, path_of(file), b"a stray file".to_vec());
            return self.replace(&image);
        }
        let path = path_of(&self.file_name(file)?);
        let bytes = image.bytes_mut(&path).ok_or("the file does not exist")?;
        match (name, rest) {
            ("cut", [len]) => bytes.truncate(position(len, bytes.len())?),
            ("zero", [at, len]) => {
                let at = position(at, bytes.len())?;
                let end = at + number(len)? as usize;
                bytes.get_mut(at..end).ok_or("the range exceeds the file")?.fill(0);
            }
            ("flip", [at]) => {
                let at = position(at, bytes.len())?;
                *bytes.get_mut(at).ok_or("the offset exceeds the file")? ^= 1;
            }
            ("grow", [len]) => bytes.resize(bytes.len() + number(len)? as usize, 0),
            ("grow", [len, byte]) => {
                bytes.resize(bytes.len() + number(len)? as usize, number(byte)? as u8);
            }
            ("remove", []) => drop(image.files.remove(&path)),
            ("copy", [to]) => {
                let bytes = bytes.clone();
                add(&mut image, path_of(to), bytes);
            }
            _ => return Err("unknown form of the command".to_string()),
        }
        self.replace(&image)
    }

    fn replace(&mut self, image: &esker_testkit::crash::Image) -> Output {
        self.disks += 1;
        self.disk = image.to_disk(self.disks);
        Ok(Vec::new())
    }

    fn repair(&self) -> Output {
        let repaired = Db::repair_on(self.disk.clone(), DIR, self.options.clone());
        output_of(repaired, |report| {
            let manifest = if report.manifest_readable { "readable" } else { "unreadable" };
            let mut lines = vec![format!(
                "manifest {manifest}, tables {}, logs {}, pairs {}",
                report.tables, report.logs, report.pairs
            )];
            lines.extend(report.lost.iter().map(|lost| format!("lost: {}", relative(lost))));
            lines
        })
    }
}
