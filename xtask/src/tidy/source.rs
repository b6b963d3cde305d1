//! A Rust file as text and as code. The code is the same text with comments and literals blanked,
//! so that a plain search finds words, braces and lines.

use std::path::PathBuf;

/// A Rust file.
pub struct Source {
    /// Path relative to the repository's root.
    pub path: PathBuf,
    /// The unchanged text.
    pub text: String,
    /// The text with comments and the contents of literals as spaces; newlines and lengths are
    /// kept.
    pub code: String,
}

impl Source {
    /// Creates the source of `text`, with the code blanked.
    pub fn new(path: PathBuf, text: String) -> Source {
        let code = blank(&text);
        Source { path, text, code }
    }

    /// Returns the line of a position in the code, from 1.
    pub fn line_of(&self, at: usize) -> usize {
        1 + self.code[..at].bytes().filter(|byte| *byte == b'\n').count()
    }

    /// Returns every position of `word` as a whole word in the code.
    pub fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let code = self.code.as_bytes();
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| {
            let before = at.checked_sub(1).map(|i| code[i]);
            let after = code.get(at + word.len()).copied();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }

    /// Returns the code without inline `#[cfg(test)]` modules.
    pub fn code_without_tests(&self) -> String {
        let mut code = self.code.clone();
        let test = |code: &str| code.find("#[cfg(test)]").or_else(|| code.find("#[cfg(all(test,"));
        while let Some(at) = test(&code) {
            let end = match code[at..].find(['{', ';']).map(|i| at + i) {
                Some(open) if code.as_bytes()[open] == b'{' => closing_brace(&code, open),
                Some(semicolon) => semicolon,
                None => code.len() - 1,
            };
            let blanked: String =
                code[at..=end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
            code.replace_range(at..=end, &blanked);
        }
        code
    }
}

/// Returns whether a byte can be part of an identifier.
pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the position of the brace that closes the brace at `open`; the last byte if there is
/// none.
pub fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    code.len() - 1
}

/// Returns the text with everything except code replaced by spaces.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match &bytes[at..] {
            [b'/', b'/', ..] => find(bytes, at, b"\n"),
            [b'/', b'*', ..] => comment_end(bytes, at),
            [b'"', ..] => string_end(bytes, at),
            [b'r', ..]
                if !at.checked_sub(1).is_some_and(|i| is_word(bytes[i]) && bytes[i] != b'b') =>
            {
                raw_string_end(bytes, at).unwrap_or(at + 1)
            }
            [b'\'', b'\\', _, ..] => find(bytes, at + 3, b"'") + 1,
            [b'\'', ..] => char_end(text, at).unwrap_or(at + 1),
            _ => at + 1,
        };
        let end = end.min(bytes.len());
        if end > at + 1 {
            out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    rest.windows(what.len()).position(|w| w == what).map_or(bytes.len(), |i| from + i)
}

fn comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes[start + 1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(start + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    Some(find(bytes, start + 2 + hashes, &close) + close.len())
}

/// Returns the end of a character literal; `None` for a lifetime.
fn char_end(text: &str, start: usize) -> Option<usize> {
    let mut chars = text[start + 1..].char_indices();
    chars.next()?;
    let (after, quote) = chars.next()?;
    (quote == '\'').then_some(start + 1 + after + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let text = "let a = \"crate::x\\\"{\"; // crate::y\nfn f<'a>(c: char) { '{'; b'}'; '\\''; \
                    r#\"fn \"}\"# /* { /* */ { */ }";
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        assert!(code.contains("fn f<'a>(c: char) {") && !code.contains("crate"), "{code}");
        assert_eq!(code.matches('{').count(), 1);
        assert_eq!(code.matches('}').count(), 1);
    }

    #[test]
    fn test_modules_are_excluded() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { use crate::db; }\nfn b() {}\n";
        let source = Source::new("x.rs".into(), text.into());
        let code = source.code_without_tests();
        assert!(!code.contains("db") && code.contains("fn b"));
        assert_eq!(source.words("fn").count(), 2);
    }
}
