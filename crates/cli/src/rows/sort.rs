//! Sorts pairs outside of memory: an external merge sort.
//!
//! Pairs that come in order go to one run as they come. The others are collected, sorted and written
//! as runs; the runs are then merged.
//!
//! Invariants:
//! 1. Memory holds at most the given number of bytes of pairs while they come, and one pair and one
//!    buffer of each of [`FAN_IN`] runs while they go.
//! 2. Of pairs with equal keys the last one wins.
//! 3. The runs are in a directory of their own, which is removed with the sorter.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use esker::KeyOrder;

/// Maximum number of runs that are merged at once.
const FAN_IN: usize = 128;
/// Size of the buffer of a run, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes counted for a pair in memory, besides its key and value.
const PAIR_BYTES: usize = 64;

/// A key and a value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Collects pairs and returns them sorted.
pub struct Sorter {
    order: KeyOrder,
    dir: RunDir,
    memory_bytes_max: usize,
    /// Finished runs, oldest first.
    runs: Vec<PathBuf>,
    /// The first run, while all pairs have come in order.
    in_order: Option<(RunWriter, Vec<u8>)>,
    pairs: Vec<Pair>,
    pairs_bytes: usize,
    count: u64,
}

/// The directory of the runs, which is removed when this is dropped.
struct RunDir {
    path: PathBuf,
    next: u64,
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if self.next > 0 {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A run that is being written.
struct RunWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl RunWriter {
    fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        for part in [key, value] {
            let bytes = u32::try_from(part.len()).map_err(io::Error::other)?;
            self.file.write_all(&bytes.to_le_bytes())?;
        }
        self.file.write_all(key)?;
        self.file.write_all(value)
    }

    fn finish(mut self) -> io::Result<PathBuf> {
        self.file.flush()?;
        Ok(self.path)
    }
}

impl Sorter {
    /// Creates a sorter. `dir` is the directory for its runs, which is created with the first run and
    /// must not exist.
    pub fn new(order: KeyOrder, dir: PathBuf, memory_bytes_max: usize) -> Sorter {
        Sorter {
            order,
            dir: RunDir { path: dir, next: 0 },
            memory_bytes_max,
            runs: Vec::new(),
            in_order: None,
            pairs: Vec::new(),
            pairs_bytes: 0,
            count: 0,
        }
    }

    /// Returns the number of runs so far.
    #[cfg(test)]
    fn runs(&self) -> usize {
        self.runs.len() + usize::from(self.in_order.is_some())
    }

    fn begin_run(&mut self) -> io::Result<RunWriter> {
        if self.dir.next == 0 {
            fs::create_dir(&self.dir.path)?;
        }
        let path = self.dir.path.join(self.dir.next.to_string());
        self.dir.next += 1;
        let file = BufWriter::with_capacity(BUFFER_BYTES, File::create_new(&path)?);
        Ok(RunWriter { path, file })
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// A run cannot be written.
    pub fn add(&mut self, key: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
        self.count += 1;
        if self.count == 1 {
            self.in_order = Some((self.begin_run()?, Vec::new()));
        }
        if let Some((run, last)) = &mut self.in_order {
            if self.count == 1 || self.order.compare(last, &key).is_lt() {
                run.add(&key, &value)?;
                *last = key;
                return Ok(());
            }
            self.end_in_order()?;
        }
        self.pairs_bytes += key.len() + value.len() + PAIR_BYTES;
        self.pairs.push((key, value));
        if self.pairs_bytes >= self.memory_bytes_max { self.spill() } else { Ok(()) }
    }

    fn end_in_order(&mut self) -> io::Result<()> {
        if let Some((run, _)) = self.in_order.take() {
            self.runs.push(run.finish()?);
        }
        Ok(())
    }

    /// Writes the collected pairs as a run.
    fn spill(&mut self) -> io::Result<()> {
        let mut pairs = std::mem::take(&mut self.pairs);
        self.pairs_bytes = 0;
        // The sort is stable, so that the last of equal keys is the last that came.
        pairs.sort_by(|a, b| self.order.compare(&a.0, &b.0));
        let mut run = self.begin_run()?;
        let mut pairs = pairs.into_iter().peekable();
        while let Some((key, value)) = pairs.next() {
            let is_last = pairs.peek().is_none_or(|next| self.order.compare(&key, &next.0).is_ne());
            if is_last {
                run.add(&key, &value)?;
            }
        }
        self.runs.push(run.finish()?);
        Ok(())
    }

    /// Returns all pairs in order.
    ///
    /// # Errors
    /// A run cannot be written or read.
    pub fn finish(mut self) -> io::Result<Sorted> {
        self.end_in_order()?;
        if !self.pairs.is_empty() {
            self.spill()?;
        }
        while self.runs.len() > FAN_IN {
            // Neighbours in age, so that the last of equal keys still wins.
            let oldest: Vec<PathBuf> = self.runs.drain(..FAN_IN).collect();
            let mut merged = Merge::open(&self.order, &oldest)?;
            let mut run = self.begin_run()?;
            while let Some((key, value)) = merged.next()? {
                run.add(&key, &value)?;
            }
            let path = run.finish()?;
            for path in oldest {
                fs::remove_file(path)?;
            }
            self.runs.insert(0, path);
        }
        let merge = Merge::open(&self.order, &self.runs)?;
        Ok(Sorted { merge, _dir: self.dir })
    }
}

/// The sorted pairs.
pub struct Sorted {
    merge: Merge,
    _dir: RunDir,
}

impl Iterator for Sorted {
    type Item = io::Result<Pair>;

    fn next(&mut self) -> Option<io::Result<Pair>> {
        self.merge.next().transpose()
    }
}

/// A merge of runs.
struct Merge {
    runs: Vec<BufReader<File>>,
    heads: BinaryHeap<Head>,
}

/// The next pair of a run.
struct Head {
    pair: Pair,
    /// Number of the run. A larger one is newer.
    run: usize,
    order: KeyOrder,
}

impl Ord for Head {
    /// The greatest head comes first: the least key, and of equal keys the newest.
    fn cmp(&self, other: &Head) -> Ordering {
        let by_key = self.order.compare(&other.pair.0, &self.pair.0);
        by_key.then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl Merge {
    fn open(order: &KeyOrder, paths: &[PathBuf]) -> io::Result<Merge> {
        let mut merge = Merge { runs: Vec::new(), heads: BinaryHeap::new() };
        for (run, path) in paths.iter().enumerate() {
            merge.runs.push(BufReader::with_capacity(BUFFER_BYTES, File::open(path)?));
            merge.advance(run, order)?;
        }
        Ok(merge)
    }

    /// Reads the next pair of a run.
    fn advance(&mut self, run: usize, order: &KeyOrder) -> io::Result<()> {
        if let Some(pair) = read_pair(&mut self.runs[run])? {
            self.heads.push(Head { pair, run, order: order.clone() });
        }
        Ok(())
    }

    /// Returns the next pair, the newest of its key.
    fn next(&mut self) -> io::Result<Option<Pair>> {
        let Some(Head { pair, run, order }) = self.heads.pop() else { return Ok(None) };
        self.advance(run, &order)?;
        while let Some(older) =
            self.heads.peek().filter(|h| order.compare(&h.pair.0, &pair.0).is_eq())
        {
            let run = older.run;
            self.heads.pop();
            self.advance(run, &order)?;
        }
        Ok(Some(pair))
    }
}

/// Reads a pair; `None` at the end of the run.
fn read_pair(run: &mut BufReader<File>) -> io::Result<Option<Pair>> {
    let mut lengths = [0; 8];
    let read = run.read(&mut lengths)?;
    if read == 0 {
        return Ok(None);
    }
    run.read_exact(&mut lengths[read..])?;
    let length = |at: usize| {
        let bytes = [lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]];
        u32::from_le_bytes(bytes) as usize
    };
    let (mut key, mut value) = (vec![0; length(0)], vec![0; length(4)]);
    run.read_exact(&mut key)?;
    run.read_exact(&mut value)?;
    Ok(Some((key, value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Sorts `pairs` with little memory and compares with a map. Returns the number of runs.
    fn sorts(order: KeyOrder, pairs: &[(u32, u32)], memory_bytes_max: usize) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let runs_dir = dir.path().join("runs");
        let mut sorter = Sorter::new(order.clone(), runs_dir.clone(), memory_bytes_max);
        let mut map = BTreeMap::new();
        for (key, value) in pairs {
            let (key, value) = (key.to_be_bytes().to_vec(), value.to_be_bytes().to_vec());
            sorter.add(key.clone(), value.clone()).unwrap();
            map.insert(key, value);
        }
        let runs = sorter.runs();
        let sorted = sorter.finish().unwrap().map(Result::unwrap);
        let expected: Vec<Pair> = match order {
            KeyOrder::Reverse => map.into_iter().rev().collect(),
            _ => map.into_iter().collect(),
        };
        assert!(sorted.eq(expected));
        assert!(!runs_dir.exists(), "the runs are removed");
        runs
    }

    fn mixed(count: u32) -> Vec<(u32, u32)> {
        let mixed = |n: u32| n.wrapping_mul(2_654_435_761) % (count / 2).max(1);
        (0..count).map(|n| (mixed(n), n)).collect()
    }

    #[test]
    fn pairs_are_sorted_and_the_last_of_equal_keys_wins() {
        for order in [KeyOrder::Bytewise, KeyOrder::Reverse] {
            for count in [0, 1, 2, 50, 5000] {
                sorts(order.clone(), &mixed(count), 1 << 20);
                sorts(order.clone(), &mixed(count), 2000);
            }
        }
    }

    #[test]
    fn sorted_input_is_one_run_and_many_runs_are_merged_in_steps() {
        let ascending: Vec<(u32, u32)> = (0..5000).map(|n| (n, n)).collect();
        assert_eq!(sorts(KeyOrder::Bytewise, &ascending, 1000), 1);
        assert!(sorts(KeyOrder::Bytewise, &mixed(9000), 1) > 8 * FAN_IN);
        // Equal keys in a row end the ascending run.
        sorts(KeyOrder::Bytewise, &[(1, 1), (2, 1), (2, 2), (3, 1), (1, 9)], 1000);
    }
}
