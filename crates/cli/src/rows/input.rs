//! Physical lines of a file or of standard input, numbered, of bounded length.

use std::io::{self, BufRead, BufReader, Read};

/// The longest row: the longest value, as escaped as can be, and its key.
pub const ROW_BYTES_MAX: usize = (4 << 30) + (1 << 20);

/// Lines with their number.
pub struct Input {
    source: BufReader<Box<dyn Read>>,
    /// The number of the last line read, from 1.
    pub line: u64,
    /// Bytes read so far.
    pub read_bytes: u64,
}

/// How a line came.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Into the buffer, with its newline if it has one.
    Whole,
    /// Longer than allowed: the buffer holds its beginning, the rest was passed over.
    TooLong,
    /// There is none.
    End,
}

impl Input {
    /// Lines of `source`.
    pub fn new(source: Box<dyn Read>) -> Input {
        Input { source: BufReader::with_capacity(256 << 10, source), line: 0, read_bytes: 0 }
    }

    /// What comes next, without consuming it; empty at the end.
    pub fn peek(&mut self) -> io::Result<&[u8]> {
        self.source.fill_buf()
    }

    /// Appends the next line to `out`, passing over the part beyond [`ROW_BYTES_MAX`]. A byte
    /// order mark before the first line is dropped.
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

/// A line without its newline.
pub fn trim_newline(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
