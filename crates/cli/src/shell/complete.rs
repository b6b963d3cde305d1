//! Tab completion: commands, options and their values, files, and keys of the store.
//!
//! Invariants:
//! 1. A completion reads few keys and changes nothing.
//! 2. A completed word reads back as the key it stands for.

use esker::OptionRange as Range;
use esker::{Db, Mutability, OPTIONS, OptionSpec};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::bytes::Encoding;

/// Maximum number of keys shown.
const KEYS_MAX: usize = 50;
/// Maximum length in bytes of a key shown.
const KEY_BYTES_MAX: usize = 256;

/// Commands of the shell, with the number of leading key arguments of each.
pub const COMMANDS: &[(&str, usize)] = &[
    ("abort", 0),
    ("batch", 0),
    ("checkpoint", 0),
    ("commit", 0),
    ("compact", 2),
    ("count", 2),
    ("delete", 1),
    ("deleterange", 2),
    ("flush", 0),
    ("get", 1),
    ("help", 0),
    ("limit", 0),
    ("option", 0),
    ("prefix", 1),
    ("put", 1),
    ("quit", 0),
    ("rscan", 2),
    ("scan", 2),
    ("set", 0),
    ("snapshot", 0),
    ("stats", 0),
    ("sync", 0),
];

/// Completer of a session.
pub struct Completions<'a> {
    db: &'a Db,
    encoding: Encoding,
    files: FilenameCompleter,
}

impl<'a> Completions<'a> {
    /// Creates a completer for keys of `db`, spelled in `encoding`.
    pub fn new(db: &'a Db, encoding: Encoding) -> Completions<'a> {
        Completions { db, encoding, files: FilenameCompleter::new() }
    }

    /// Returns the start of the word to complete in `head`, the line up to the cursor, and the
    /// possible completions.
    fn words(&self, head: &str) -> (usize, Vec<String>) {
        let start = head.rfind([' ', '\t']).map_or(0, |at| at + 1);
        let word = &head[start..];
        let before: Vec<&str> = head[..start].split_whitespace().collect();
        let found = match before.as_slice() {
            [] => starting(word, COMMANDS.iter().map(|(name, _)| *name)),
            ["sync"] | ["snapshot"] => starting(word, ["on", "off"].into_iter()),
            ["limit"] => starting(word, ["off"].into_iter()),
            ["set"] => starting(word, names(|spec| spec.mutability == Mutability::Live)),
            ["option"] => starting(word, names(|_| true)),
            ["set", name] => starting(word, values(name).into_iter()),
            [command, keys @ ..] => {
                let takes = COMMANDS.iter().find(|(name, _)| name == command);
                match takes {
                    Some((_, takes)) if keys.len() < *takes => self.keys(word).unwrap_or_default(),
                    _ => Vec::new(),
                }
            }
        };
        (start, found)
    }

    /// Returns keys with the prefix `word`; `None` if `word` is not yet a valid spelling of bytes.
    fn keys(&self, word: &str) -> Option<Vec<String>> {
        if self.encoding == Encoding::Base64 || word.starts_with('"') {
            return None;
        }
        let prefix = self.encoding.read(word.as_bytes()).ok()?;
        let mut iter = self.db.prefix(&prefix).ok()?;
        iter.seek_to_first().ok()?;
        let mut found = Vec::new();
        while iter.valid() && found.len() < KEYS_MAX {
            if iter.key().len() <= KEY_BYTES_MAX {
                let mut text = Vec::new();
                self.encoding.write_word(iter.key(), &mut text);
                found.push(String::from_utf8(text).ok()?);
            }
            iter.move_next().ok()?;
        }
        Some(found)
    }
}

fn starting<'w>(word: &str, names: impl Iterator<Item = &'w str>) -> Vec<String> {
    let word = word.to_ascii_lowercase();
    names.filter(|name| name.starts_with(&word)).map(|name| format!("{name} ")).collect()
}

fn names(wanted: impl Fn(&OptionSpec) -> bool) -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().filter(move |spec| wanted(spec)).map(|spec| spec.name)
}

/// Returns the words accepted by an option; empty for other kinds of options.
fn values(name: &str) -> Vec<&'static str> {
    match OPTIONS.iter().find(|spec| spec.name == name).map(|spec| &spec.range) {
        Some(Range::Words(words)) => words.clone(),
        Some(Range::Switch) => vec!["true", "false"],
        Some(Range::WholeOrAuto(..)) => vec!["auto"],
        _ => Vec::new(),
    }
}

impl Completer for Completions<'_> {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if line.trim_start().starts_with("checkpoint ") {
            return self.files.complete(line, cursor, context);
        }
        let (start, words) = self.words(&line[..cursor]);
        let pair = |word: String| Pair { display: word.trim_end().to_string(), replacement: word };
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completions<'_> {
    type Hint = String;
}

impl Highlighter for Completions<'_> {}

impl Validator for Completions<'_> {}

impl Helper for Completions<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::Options;

    #[test]
    fn completes_commands_options_values_and_keys() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        for key in [&b"apple"[..], b"apricot", b"a b", b"b\xff", &[b'c'; 300]] {
            db.put(key, b"v").unwrap();
        }
        let completions = Completions::new(&db, Encoding::Text);
        let words = |head: &str| completions.words(head).1;
        assert_eq!(words("deleter"), ["deleterange "]);
        assert_eq!(words("S"), ["scan ", "set ", "snapshot ", "stats ", "sync "]);
        assert_eq!(words("set wal_"), ["wal_io "]);
        assert_eq!(words("set wal_io "), ["mmap ", "write "]);
        assert_eq!(words("option create_if"), ["create_if_missing "]);
        assert_eq!(words("set create_if"), Vec::<String>::new(), "cannot change while open");
        assert_eq!(words("snapshot of"), ["off "]);
        assert_eq!(words("get ap"), ["apple", "apricot"]);
        assert_eq!(completions.words("scan apple ap"), (11, words("get ap")));
        assert_eq!(words("get a"), ["a\\x20b", "apple", "apricot"]);
        assert_eq!(words("put b"), ["b\\xff"]);
        assert_eq!(words("get \\x6"), Vec::<String>::new(), "half an escape");
        assert_eq!(words("put apple v"), Vec::<String>::new(), "values are not keys");
        assert_eq!(words("get c"), Vec::<String>::new(), "too long to be shown");
    }

    #[test]
    fn number_of_completed_keys_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        (0..200).for_each(|number| db.put(format!("k{number}"), b"v").unwrap());
        assert_eq!(Completions::new(&db, Encoding::Text).words("get k").1.len(), KEYS_MAX);
    }
}
