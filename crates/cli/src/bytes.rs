//! Conversion between bytes and text for keys and values.
//!
//! Invariant: printed text contains no control character, stays on its line, and reads back as the
//! same bytes under the same flags.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Spelling of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Printable text unchanged, `\\` for a backslash, `\xNN` for every other byte.
    Text,
    /// Two hexadecimal digits per byte.
    Hex,
    /// Standard base64 with padding.
    Base64,
}

impl Encoding {
    /// Returns the encoding's name, as in a dump's first line.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Text => "text",
            Encoding::Hex => "hex",
            Encoding::Base64 => "base64",
        }
    }

    /// Returns the encoding with the given name.
    pub fn parse(name: &str) -> Option<Encoding> {
        [Encoding::Text, Encoding::Hex, Encoding::Base64].into_iter().find(|e| e.name() == name)
    }

    /// Appends the spelling of `bytes`.
    pub fn write(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Encoding::Text => escape(bytes, false, out),
            Encoding::Hex => bytes.iter().for_each(|byte| push_hex(*byte, out)),
            Encoding::Base64 => out.extend_from_slice(STANDARD.encode(bytes).as_bytes()),
        }
    }

    /// Appends the spelling of `bytes` as one word: without spaces, and `""` if empty.
    pub fn write_word(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            _ if bytes.is_empty() => out.extend_from_slice(b"\"\""),
            Encoding::Text => escape(bytes, true, out),
            _ => self.write(bytes, out),
        }
    }

    /// Returns the bytes that `text` spells.
    pub fn read(self, text: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Encoding::Text => unescape(text),
            Encoding::Hex => read_hex(text),
            Encoding::Base64 => {
                STANDARD.decode(text).map_err(|e| format!("{:?} is not base64: {e}", lossy(text)))
            }
        }
    }
}

/// Format of keys and values in input and output.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// Spelling of the bytes.
    pub encoding: Encoding,
    /// Whether the output is JSON lines.
    pub json: bool,
}

impl Form {
    /// Returns `bytes` as JSON: a string, or `{"base64": "…"}` for non-UTF-8 bytes in text
    /// encoding.
    pub fn to_json(self, bytes: &[u8]) -> Value {
        match (self.encoding, std::str::from_utf8(bytes)) {
            (Encoding::Text, Ok(text)) => json!(text),
            (Encoding::Text, Err(_)) => json!({ "base64": STANDARD.encode(bytes) }),
            (encoding, _) => {
                let mut out = Vec::new();
                encoding.write(bytes, &mut out);
                json!(lossy(&out))
            }
        }
    }

    /// Returns the bytes of a JSON value, the inverse of [`Form::to_json`]. Numbers, booleans,
    /// arrays and other objects stand for their own JSON text.
    pub fn read_json(self, value: &Value) -> Result<Vec<u8>, String> {
        match value {
            Value::String(text) if self.encoding == Encoding::Text => Ok(text.clone().into_bytes()),
            Value::String(text) => self.encoding.read(text.as_bytes()),
            Value::Null => Err("is null".into()),
            Value::Object(fields) if fields.len() == 1 && fields.contains_key("base64") => {
                match &fields["base64"] {
                    Value::String(text) => Encoding::Base64.read(text.as_bytes()),
                    _ => Err("has a base64 value that is not a string".into()),
                }
            }
            other => Ok(other.to_string().into_bytes()),
        }
    }
}

/// Returns the bytes of a command-line argument as passed by the operating system.
pub fn of_arg(arg: &std::ffi::OsStr) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(arg)
}

/// Parses a count such as `250`, `1_000`, `10k` or `1.5m`. The suffixes `k`, `m` and `g` are
/// decimal: thousand, million and thousand million.
pub fn read_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a count, such as 250, 10k or 1m");
    let (digits, zeros) = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'k') => (&text[..text.len() - 1], 3),
        Some(b'm') => (&text[..text.len() - 1], 6),
        Some(b'g') => (&text[..text.len() - 1], 9),
        _ => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.replace('_', "");
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(&whole) || !is_number(part) || part.len() > zeros {
        return Err(wrong());
    }
    let padding = zeros - part.len();
    format!("{whole}{part}{:0<padding$}", "").parse().map_err(|_| wrong())
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn push_hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    push_hex(byte, out);
}

/// Appends `bytes`, with a backslash as `\\` and unprintable characters as `\xNN`. With `word`,
/// spaces and a leading quote are escaped too.
fn escape(bytes: &[u8], word: bool, out: &mut Vec<u8>) {
    let first_quote = word && bytes.first() == Some(&b'"');
    let bytes = if first_quote {
        push_escape(b'"', out);
        &bytes[1..]
    } else {
        bytes
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let encoded = c.encode_utf8(&mut buffer).as_bytes();
            match c {
                '\\' => out.extend_from_slice(b"\\\\"),
                ' ' if word => push_escape(b' ', out),
                c if hidden(c) => encoded.iter().for_each(|byte| push_escape(*byte, out)),
                _ => out.extend_from_slice(encoded),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_escape(*byte, out));
    }
}

/// Returns whether a character moves the cursor, changes the text direction or is invisible.
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{3000}')
}

/// Decodes the escapes `\xNN` and `\\`; any other backslash stands for itself.
fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        match rest {
            [b'\\', after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [b'x', after @ ..] => {
                let digits = after.get(..2).ok_or("\\x needs two hexadecimal digits")?;
                out.extend(read_hex(digits).map_err(|_| "\\x needs two hexadecimal digits")?);
                rest = &after[2..];
            }
            _ => out.push(b'\\'),
        }
    }
    out.extend_from_slice(rest);
    Ok(out)
}

fn read_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|d| d as u8);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.chunks(2)
        .map(pair)
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| format!("{:?} is not hexadecimal with two digits per byte", lossy(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(encoding: Encoding, bytes: &[u8]) -> String {
        let mut out = Vec::new();
        encoding.write(bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_byte_pair_round_trips_in_every_encoding() {
        for encoding in [Encoding::Text, Encoding::Hex, Encoding::Base64] {
            for first in 0..=255u8 {
                for second in 0..=255u8 {
                    let bytes = [first, second];
                    let text = written(encoding, &bytes);
                    assert_eq!(encoding.read(text.as_bytes()).unwrap(), bytes, "{text}");
                    assert!(!text.chars().any(char::is_control));
                }
            }
        }
    }

    #[test]
    fn words_contain_no_space_and_are_never_empty() {
        let mut out = Vec::new();
        Encoding::Text.write_word(b"a b\t", &mut out);
        assert_eq!(out, b"a\\x20b\\x09");
        out.clear();
        Encoding::Text.write_word(b"", &mut out);
        assert_eq!(out, b"\"\"");
        out.clear();
        Encoding::Text.write_word(b"\"q", &mut out);
        assert_eq!(out, b"\\x22q");
    }

    #[test]
    fn control_characters_are_escaped_and_text_is_not() {
        assert_eq!(written(Encoding::Text, "naïve 鍵 \u{1b}[31m".as_bytes()), "naïve 鍵 \\x1b[31m");
        assert_eq!(written(Encoding::Text, "\u{202e}x".as_bytes()), "\\xe2\\x80\\xaex");
        assert_eq!(written(Encoding::Text, b"C:\\dir\xff"), "C:\\\\dir\\xff");
    }

    #[test]
    fn counts_accept_decimal_suffixes() {
        let read = |text| read_count(text).unwrap();
        assert_eq!((read("0"), read("250"), read("1_000")), (0, 250, 1_000));
        assert_eq!((read("1k"), read("10K"), read("1.5m")), (1_000, 10_000, 1_500_000));
        assert_eq!(read("2g"), 2_000_000_000);
        assert_eq!(read("18446744073709551615"), u64::MAX);
        for bad in ["", "k", "-1", "1.5", "1x", "1.2345k", "18446744073709551616", "1 k", "ten"] {
            assert!(read_count(bad).unwrap_err().contains("count"), "{bad}");
        }
    }

    #[test]
    fn malformed_input_returns_error_message() {
        assert!(Encoding::Text.read(b"\\xz1").unwrap_err().contains("hexadecimal"));
        assert!(Encoding::Text.read(b"end\\x4").is_err());
        assert!(Encoding::Hex.read(b"abc").unwrap_err().contains("abc"));
        assert!(Encoding::Base64.read(b"!").unwrap_err().contains("base64"));
        assert_eq!(Encoding::Text.read(b"a\\nb").unwrap(), b"a\\nb");
    }

    #[test]
    fn json_round_trips_text_and_binary() {
        let form = Form { encoding: Encoding::Text, json: true };
        for bytes in [&b"plain"[..], b"\xff\x00", b""] {
            assert_eq!(form.read_json(&form.to_json(bytes)).unwrap(), bytes);
        }
        assert_eq!(form.read_json(&json!(5)).unwrap(), b"5");
        assert!(form.read_json(&Value::Null).is_err());
    }
}
