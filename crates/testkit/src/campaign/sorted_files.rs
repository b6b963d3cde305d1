//! Files of sorted pairs, for ingests.
//!
//! Invariant: the files together have the operations on keys, each once, in key order. Operations on
//! ranges are left out: a sorted file has none here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use esker::Options;
use esker::fs::Fs;
use esker::ingest::SortedWriter;

use super::ops::Op;

/// Writes the operations, which are on distinct keys, to files of `each` entries, in the key order of
/// `options`. `path_of` names the file with a number, from 0 on; a file that an interrupted ingest left
/// under this name is removed. Returns the paths.
///
/// # Errors
/// The writer's error.
pub fn write(
    fs: &Arc<dyn Fs>,
    options: &Options,
    (ops, each): (&[Op], usize),
    path_of: impl Fn(usize) -> PathBuf,
) -> esker::Result<Vec<PathBuf>> {
    let key = |op: &Op| op.key().cloned().unwrap_or_default();
    let mut sorted: Vec<&Op> = ops.iter().collect();
    sorted.sort_by(|a, b| options.key_order.compare(&key(a), &key(b)));
    let mut paths = Vec::new();
    for (number, ops) in sorted.chunks(each).enumerate() {
        let path = path_of(number);
        let _ = fs.remove(&path);
        let mut writer = SortedWriter::create_on(fs.clone(), &path, options)?;
        ops.iter().try_for_each(|op| add(&mut writer, op))?;
        writer.finish()?;
        paths.push(path);
    }
    Ok(paths)
}

fn add(writer: &mut SortedWriter, op: &Op) -> esker::Result<()> {
    match op {
        Op::Put(_, key, value) => writer.put(key, value),
        Op::PutExpiring(_, key, value, ttl_ms) => {
            writer.put_with_ttl(key, value, Duration::from_millis(*ttl_ms))
        }
        Op::Merge(_, key, operand) => writer.merge(key, operand),
        Op::Delete(_, key) => writer.delete(key),
        Op::DeleteRange(..) | Op::Clear(_) => Ok(()),
    }
}
