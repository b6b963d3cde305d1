//! Numbered physical lines of a file or of standard input, bounded in length.

use std::io::{self, BufRead, BufReader, Read};

/// Maximum length of a row in bytes: the longest value with every byte escaped, plus its key.
pub const ROW_BYTES_MAX: usize = (4 << 30) + (1 << 20);

/// Input as numbered lines.
pub struct Input {
    source: BufReader<Box<dyn Read>>,
    /// Number of the last line read, from 1.
    pub line: u64,
    /// Number of bytes read so far.
    pub read_bytes: u64,
}

/// Result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Line stored in the buffer, with its newline if present.
    Whole,
    /// Line longer than allowed: the buffer contains its beginning, and the remainder was skipped.
    TooLong,
    /// End of the input.
    End,
}

impl Input {
    /// Creates the lines of `source`.
    pub fn new(source: Box<dyn Read>) -> Input {
        Input { source: BufReader::with_capacity(256 << 10, source), line: 0, read_bytes: 0 }
    }

    /// Returns the next bytes without consuming them; empty at the end.
    pub fn peek(&mut self) -> io::Result<&[u8]> {
        self.source.fill_buf()
    }

    /// Appends the next line to `out`, and skips the part beyond [`ROW_BYTES_MAX`]. A byte order
    /// mark before the first line is dropped.
    pub fn read_line(&mut self, out: &mut Vec<u8>) -> io::Result<Line> {
        let start = out.len();
        let room = (ROW_BYTES_MAX.saturating_sub(start)) as u64;
        let read = (&mut self.source).take(room).read_until(b'\n', out)? as u64;
        self.read_bytes += read;
        let ended = out.last() == Some(&b'\n') || self.peek()?.is_empty();
        if read == 0 && ended && room > 0 {
            return Ok(Line::End);
        }
        self.line += 1;
        if self.line == 1 && out[start..].starts_with(b"\xef\xbb\xbf") {
            out.drain(start..start + 3);
        }
        if ended && room > 0 {
            return Ok(Line::Whole);
        }
        self.pass_line()?;
        Ok(Line::TooLong)
    }

    fn pass_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.source.fill_buf()?;
            let (used, done) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.source.consume(used);
            self.read_bytes += used as u64;
            if done {
                return Ok(());
            }
        }
    }
}

/// Returns a line without its newline.
pub fn trim_newline(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
