//! The lines of a trace.
//!
//! The first line is `esker trace 1`, and the last is `end` with the number of operations. A line
//! between them is the microseconds since the start, the operation, the key, and a number:
//!
//! ```text
//! 120 get #00f1a2b3c4d5e6f7/16 100
//! ```
//!
//! Invariants:
//! 1. A key is `#`, its hash in 16 hexadecimal digits, `/` and its length; or the key itself in
//!    hexadecimal.
//! 2. Equal keys have equal text, so a trace keeps which operations meet the same key. Hashes keep
//!    no order of keys.
//! 3. A line that is not of this form is an error with its number. Sizes are limited before any
//!    memory is taken for them.

use std::fmt;
use std::io::BufRead;
use std::path::Path;

use crate::error::{LabError, LabErrorKind, Result};
use crate::mix::hash::fnv64;
use crate::workload::rng::mix;

/// First line of a trace.
pub const TITLE: &str = "esker trace 1";
/// Maximum length of a key, in bytes.
pub const KEY_BYTES_MAX: u32 = 1 << 20;
/// Maximum length of a value, in bytes.
pub const VALUE_BYTES_MAX: u32 = 64 << 20;
/// Maximum length of a line, in bytes: a key in hexadecimal and the rest.
const LINE_BYTES_MAX: u64 = 2 * KEY_BYTES_MAX as u64 + 100;

/// A key of a trace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceKey {
    /// Hash and length in bytes.
    Hashed(u64, u32),
    /// The key itself.
    Plain(Vec<u8>),
}

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceOp {
    /// A get, and the length of the value; `None` if the key was missing.
    Get(Option<u32>),
    /// A put of a value of this length.
    Put(u32),
    /// A delete.
    Delete,
    /// A scan from the key, and the number of pairs that it read.
    Scan(u32),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Time since the start of the recording, in microseconds.
    pub at_micros: u64,
    /// The operation.
    pub op: TraceOp,
    /// Its key.
    pub key: TraceKey,
}

/// A whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The operations in order.
    pub lines: Vec<TraceLine>,
    /// Whether the last line was there. Without it the recording was cut off.
    pub is_complete: bool,
}

/// Returns the hash of a key.
pub fn hash_of(key: &[u8]) -> u64 {
    let fold = |sum: u64, chunk: &[u8]| {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum ^ u64::from_le_bytes(word))
    };
    key.chunks(8).fold(fnv64(key.len() as u64), fold)
}

impl TraceKey {
    /// Returns the hashed form of a key.
    pub fn hashed(key: &[u8]) -> TraceKey {
        TraceKey::Hashed(hash_of(key), u32::try_from(key.len()).unwrap_or(KEY_BYTES_MAX))
    }

    /// Writes the key of a replay to `out`: the key itself, or bytes of its length that stand for
    /// its hash. Keys of fewer than eight bytes may coincide.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.clear();
        match self {
            TraceKey::Plain(key) => out.extend_from_slice(key),
            TraceKey::Hashed(hash, length) => {
                out.extend_from_slice(&hash.to_be_bytes());
                out.resize(*length as usize, b'k');
            }
        }
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, number) = match self.op {
            TraceOp::Get(found) => ("get", found),
            TraceOp::Put(length) => ("put", Some(length)),
            TraceOp::Delete => ("delete", None),
            TraceOp::Scan(pairs) => ("scan", Some(pairs)),
        };
        write!(f, "{} {name} ", self.at_micros)?;
        match &self.key {
            TraceKey::Hashed(hash, length) => write!(f, "#{hash:016x}/{length}")?,
            TraceKey::Plain(key) if key.is_empty() => write!(f, "-")?,
            TraceKey::Plain(key) => key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?,
        }
        match (number, self.op) {
            (Some(number), _) => write!(f, " {number}"),
            (None, TraceOp::Get(_)) => write!(f, " -"),
            (None, _) => Ok(()),
        }
    }
}

impl TraceLine {
    /// Parses a line. `None` for any other text.
    pub fn parse(text: &str) -> Option<TraceLine> {
        let mut words = text.split_ascii_whitespace();
        let at_micros = words.next()?.parse().ok()?;
        let (name, key) = (words.next()?, key_of(words.next()?)?);
        let number = words.next();
        let counted = |most: u32| number?.parse::<u32>().ok().filter(|number| *number <= most);
        let op = match name {
            "get" if number == Some("-") => TraceOp::Get(None),
            "get" => TraceOp::Get(Some(counted(VALUE_BYTES_MAX)?)),
            "put" => TraceOp::Put(counted(VALUE_BYTES_MAX)?),
            "scan" => TraceOp::Scan(counted(u32::MAX)?),
            "delete" if number.is_none() => TraceOp::Delete,
            _ => return None,
        };
        words.next().is_none().then_some(TraceLine { at_micros, op, key })
    }
}

fn key_of(text: &str) -> Option<TraceKey> {
    if let Some(hashed) = text.strip_prefix('#') {
        let (hash, length) = hashed.split_once('/')?;
        let length = length.parse().ok().filter(|length| *length <= KEY_BYTES_MAX)?;
        let hash = u64::from_str_radix(hash, 16).ok().filter(|_| hash.len() == 16)?;
        return Some(TraceKey::Hashed(hash, length));
    }
    if text == "-" {
        return Some(TraceKey::Plain(Vec::new()));
    }
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || digits.len() / 2 > KEY_BYTES_MAX as usize {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    Some(TraceKey::Plain(pairs.collect::<Option<Vec<u8>>>()?))
}

/// Reads a trace.
///
/// # Errors
/// The file cannot be read, or a line has another form; the error has the line's number.
pub fn read(path: &Path) -> Result<Trace> {
    let file = std::fs::File::open(path).map_err(|e| LabError::io("read the trace", path, &e))?;
    let bad = |number: usize, what: &str| {
        let place = path.display();
        LabError::new(LabErrorKind::Data, format!("{place}: line {number}: expected {what}"))
    };
    let mut input = std::io::BufReader::new(file);
    let (mut trace, mut text, mut number) = (Trace::default(), String::new(), 0);
    loop {
        text.clear();
        number += 1;
        let mut limited = std::io::Read::take(&mut input, LINE_BYTES_MAX);
        let bytes =
            limited.read_line(&mut text).map_err(|e| LabError::io("read the trace", path, &e))?;
        let is_whole = text.ends_with('\n');
        let line = text.trim_end();
        if bytes == 0 {
            return if number == 1 { Err(bad(1, TITLE)) } else { Ok(trace) };
        }
        if number == 1 {
            if line != TITLE {
                return Err(bad(1, TITLE));
            }
            continue;
        }
        if let Some(count) = line.strip_prefix("end ") {
            if count.parse() != Ok(trace.lines.len()) {
                let what = format!("end {}, for the operations before it", trace.lines.len());
                return Err(bad(number, &what));
            }
            trace.is_complete = true;
            return Ok(trace);
        }
        match TraceLine::parse(line) {
            Some(parsed) => trace.lines.push(parsed),
            // The last line of a recording that was cut off.
            None if !is_whole && bytes < LINE_BYTES_MAX as usize => return Ok(trace),
            None => {
                return Err(bad(number, "microseconds, get, put, delete or scan, a key, a number"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(op: TraceOp, key: TraceKey) -> TraceLine {
        TraceLine { at_micros: 7, op, key }
    }

    #[test]
    fn lines_are_printed_and_parsed() {
        let hashed = TraceKey::hashed(b"key");
        let plain = TraceKey::Plain(b"a\xff".to_vec());
        for (own, text) in [
            (line(TraceOp::Get(Some(9)), plain.clone()), "7 get 61ff 9"),
            (line(TraceOp::Get(None), plain.clone()), "7 get 61ff -"),
            (line(TraceOp::Delete, plain.clone()), "7 delete 61ff"),
            (line(TraceOp::Put(3), TraceKey::Plain(Vec::new())), "7 put - 3"),
            (line(TraceOp::Scan(100), plain), "7 scan 61ff 100"),
        ] {
            assert_eq!(own.to_string(), text);
            assert_eq!(TraceLine::parse(text), Some(own));
        }
        let own = line(TraceOp::Put(3), hashed);
        assert_eq!(TraceLine::parse(&own.to_string()), Some(own));
        for bad in [
            "",
            "7",
            "7 get",
            "7 get 6 1",
            "7 get 61",
            "7 put 61 -",
            "x get 61 1",
            "7 get zz 1",
            "7 delete 61 1",
            "7 get #12/3 1",
            "7 put 61 99999999999",
            "7 get 61 1 1",
            "7 put #0000000000000000/9999999 1",
            "7 jump 61 1",
            "7 get é 1",
        ] {
            assert_eq!(TraceLine::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn keys_of_a_replay_keep_length_and_repetition() {
        let (mut one, mut other, mut same) = (Vec::new(), Vec::new(), Vec::new());
        TraceKey::hashed(b"0123456789abcdef").write_to(&mut one);
        TraceKey::hashed(b"0123456789abcdeg").write_to(&mut other);
        TraceKey::hashed(b"0123456789abcdef").write_to(&mut same);
        assert_eq!((one.len(), &one), (16, &same));
        assert_ne!(one, other);
        assert_ne!(hash_of(b"a"), hash_of(b"a\0"));
    }

    #[test]
    fn files_that_are_no_traces_or_cut_off_are_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("t");
        let parsed = |text: &str| {
            std::fs::write(&path, text).expect("written");
            read(&path).map(|trace| (trace.lines.len(), trace.is_complete))
        };
        assert_eq!(parsed("esker trace 1\n1 get 61 5\nend 1\n").expect("whole"), (1, true));
        assert_eq!(parsed("esker trace 1\n1 get 61 5\n2 pu").expect("cut"), (1, false));
        for (text, words) in [
            ("", "line 1"),
            ("esker trace 2\n", "esker trace 1"),
            ("esker trace 1\n1 get 61 5\nend 2\n", "end 1"),
            ("esker trace 1\nhello\n", "line 2"),
        ] {
            let error = parsed(text).expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
