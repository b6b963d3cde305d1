//! Splits a line of the shell into a command, words and, for `put`, the remainder of the line.

use crate::bytes::Encoding;

/// The unread part of a line.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    rest: &'a [u8],
    went_on: bool,
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

impl<'a> Words<'a> {
    /// Creates the words of a line, with or without its newline.
    pub fn new(line: &'a [u8]) -> Words<'a> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Words { rest: line.strip_suffix(b"\r").unwrap_or(line), went_on: false }
    }

    /// Returns whether only spaces remain.
    pub fn is_empty(&self) -> bool {
        self.rest.iter().all(|byte| is_space(*byte))
    }

    /// Returns whether a space followed the last word read.
    pub fn went_on(&self) -> bool {
        self.went_on
    }

    /// Returns the next word undecoded, and skips the single space after it.
    pub fn raw(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|byte| !is_space(*byte))?;
        let text = &self.rest[start..];
        let end = text.iter().position(|byte| is_space(*byte)).unwrap_or(text.len());
        self.went_on = end < text.len();
        self.rest = text.get(end + 1..).unwrap_or_default();
        Some(&text[..end])
    }

    /// Returns the next word or quoted text as decoded bytes.
    pub fn bytes(&mut self, encoding: Encoding) -> Result<Option<Vec<u8>>, String> {
        let Some(start) = self.rest.iter().position(|byte| !is_space(*byte)) else {
            return Ok(None);
        };
        let text = &self.rest[start..];
        if text[0] != b'"' {
            return self.raw().map(|word| encoding.read(word)).transpose();
        }
        let (inside, after) = quoted(text).ok_or("a quote is not closed")?;
        self.went_on = !after.is_empty();
        match after.first() {
            None => self.rest = after,
            Some(byte) if is_space(*byte) => self.rest = &after[1..],
            Some(_) => return Err("text after the closing quote".into()),
        }
        read_quoted(inside, encoding).map(Some)
    }

    /// Returns the remainder: quoted as a whole, or unquoted with inner and trailing spaces.
    pub fn rest(&mut self, encoding: Encoding) -> Result<Vec<u8>, String> {
        let text = std::mem::take(&mut self.rest);
        if text.first() == Some(&b'"')
            && let Some((inside, after)) = quoted(text)
            && after.is_empty()
        {
            return read_quoted(inside, encoding);
        }
        encoding.read(text)
    }
}

/// Returns the content of a quoted text, with escapes undecoded, and the text after it.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'"' => return Some((&text[1..at], &text[at + 1..])),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// Decodes the content of a quoted text, in which `\"` is a quote.
fn read_quoted(inside: &[u8], encoding: Encoding) -> Result<Vec<u8>, String> {
    let mut text = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let [first, after @ ..] = rest {
        match (first, after) {
            (b'\\', [b'"', after @ ..]) => {
                text.push(b'"');
                rest = after;
            }
            (b'\\', [next, after @ ..]) => {
                text.extend([b'\\', *next]);
                rest = after;
            }
            _ => {
                text.push(*first);
                rest = after;
            }
        }
    }
    encoding.read(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_and_rest(line: &str) -> (Vec<u8>, Vec<u8>) {
        let mut words = Words::new(line.as_bytes());
        let key = words.bytes(Encoding::Text).unwrap().unwrap();
        (key, words.rest(Encoding::Text).unwrap())
    }

    #[test]
    fn value_is_rest_of_line() {
        assert_eq!(key_and_rest("k a  b \n"), (b"k".to_vec(), b"a  b ".to_vec()));
        assert_eq!(key_and_rest("k  two\r\n"), (b"k".to_vec(), b" two".to_vec()));
        assert_eq!(key_and_rest("k "), (b"k".to_vec(), b"".to_vec()));
        assert_eq!(key_and_rest("\"\" \"\""), (b"".to_vec(), b"".to_vec()));
        assert_eq!(key_and_rest("\"a b\" \"c\" d"), (b"a b".to_vec(), b"\"c\" d".to_vec()));
        assert_eq!(key_and_rest("\"q\\\"\\x00\\\\\" v"), (b"q\"\x00\\".to_vec(), b"v".to_vec()));
    }

    #[test]
    fn unbalanced_quotes_are_errors() {
        assert!(Words::new(b"\"abc").bytes(Encoding::Text).is_err());
        assert!(Words::new(b"\"abc\"d").bytes(Encoding::Text).is_err());
        assert!(Words::new(b"\"abc\\").bytes(Encoding::Text).is_err());
        assert!(Words::new(b"\"abc\\\"").bytes(Encoding::Text).is_err());
        assert_eq!(Words::new(b"  ").bytes(Encoding::Text), Ok(None));
    }

    #[test]
    fn printed_words_parse_back() {
        for key in [&b""[..], b"a b", b"\"x\"", b"\\", b"\t\n\xff", b"\\\""] {
            let mut line = Vec::new();
            Encoding::Text.write_word(key, &mut line);
            line.push(b' ');
            Encoding::Text.write_word(key, &mut line);
            let mut words = Words::new(&line);
            assert_eq!(words.bytes(Encoding::Text).unwrap().unwrap(), key);
            assert_eq!(words.rest(Encoding::Text).unwrap(), key);
        }
    }
}
