//! Tab completion: commands, options and their values, files, keyspaces, and keys of the keyspace
//! in use.
//!
//! Invariants:
//! 1. A completion reads few keys and changes nothing.
//! 2. A completed word reads back as the key it stands for.

use esker::Keyspace;
use esker::schema::OptionRange as Range;
use esker::schema::{Mutability, OPTIONS, OptionSpec};
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
    ("begin", 0),
    ("checkpoint", 0),
    ("commit", 0),
    ("compact", 2),
    ("count", 2),
    ("delete", 1),
    ("deleterange", 2),
    ("flush", 0),
    ("get", 1),
    ("getforupdate", 1),
    ("help", 0),
    ("keyspace", 0),
    ("keyspaces", 0),
    ("limit", 0),
    ("option", 0),
    ("prefix", 1),
    ("put", 1),
    ("quit", 0),
    ("release", 0),
    ("rollback", 0),
    ("rscan", 2),
    ("savepoint", 0),
    ("scan", 2),
    ("session", 0),
    ("set", 0),
    ("snapshot", 0),
    ("stats", 0),
    ("sync", 0),
    ("use", 0),
];

/// Words after `begin`.
const BEGIN: &[&str] = &["optimistic", "pessimistic", "serializable", "snapshot"];

/// Completer of a session.
pub struct Completions {
    keyspace: Keyspace,
    encoding: Encoding,
    files: FilenameCompleter,
}

impl Completions {
    /// Creates a completer for keys of `keyspace`, spelled in `encoding`.
    pub fn new(keyspace: Keyspace, encoding: Encoding) -> Completions {
        Completions { keyspace, encoding, files: FilenameCompleter::new() }
    }

    /// Completes keys of another keyspace from now on.
    pub fn set_keyspace(&mut self, keyspace: Keyspace) {
        self.keyspace = keyspace;
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
            ["begin", ..] => starting(word, BEGIN.iter().copied()),
            ["rollback"] => starting(word, ["to savepoint"].into_iter()),
            ["release"] | ["rollback", "to"] => starting(word, ["savepoint"].into_iter()),
            ["limit"] => starting(word, ["off"].into_iter()),
            ["set"] => starting(word, names(|spec| spec.mutability == Mutability::Live)),
            ["option"] => starting(word, names(|_| true)),
            ["set", name] => starting(word, values(name).into_iter()),
            ["keyspace"] => starting(word, ["create", "drop", "rename"].into_iter()),
            ["use"] | ["keyspace", "drop" | "rename"] => self.keyspaces(word),
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

    /// Returns the keyspaces whose names begin with `word`.
    fn keyspaces(&self, word: &str) -> Vec<String> {
        let spelled = |name: &String| {
            let mut text = Vec::new();
            Encoding::Text.write_word(name.as_bytes(), &mut text);
            String::from_utf8(text).ok().filter(|text| text.starts_with(word))
        };
        let names = self.keyspace.db().keyspaces();
        names.iter().filter_map(spelled).take(KEYS_MAX).collect()
    }

    /// Returns keys with the prefix `word`; `None` if `word` is not yet a valid spelling of bytes.
    fn keys(&self, word: &str) -> Option<Vec<String>> {
        if self.encoding == Encoding::Base64 || word.starts_with('"') {
            return None;
        }
        let prefix = self.encoding.read(word.as_bytes()).ok()?;
        let mut iter = self.keyspace.prefix(&prefix).ok()?;
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
        Some(Range::RealOrOff(..) | Range::WholeOrOff(..)) => vec!["off"],
        _ => Vec::new(),
    }
}

impl Completer for Completions {
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

impl Hinter for Completions {
    type Hint = String;
}

impl Highlighter for Completions {}

impl Validator for Completions {}

impl Helper for Completions {}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::{Db, KeyspaceOptions, Options};

    fn completions(db: &Db, keyspace: &str) -> Completions {
        Completions::new(db.existing_keyspace(keyspace).unwrap().unwrap(), Encoding::Text)
    }

    #[test]
    fn completes_commands_options_values_and_keys() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        for key in [&b"apple"[..], b"apricot", b"a b", b"b\xff", &[b'c'; 300]] {
            db.put(key, b"v").unwrap();
        }
        let completions = completions(&db, "default");
        let words = |head: &str| completions.words(head).1;
        assert_eq!(words("deleter"), ["deleterange "]);
        let with_s = ["savepoint ", "scan ", "session ", "set ", "snapshot ", "stats ", "sync "];
        assert_eq!(words("S"), with_s);
        assert_eq!(words("begin pessimistic s"), ["serializable ", "snapshot "]);
        assert_eq!(words("rollback to s"), ["savepoint "]);
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
        assert_eq!(completions(&db, "default").words("get k").1.len(), KEYS_MAX);
    }

    #[test]
    fn completes_keyspaces_and_their_keys() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let users = db.keyspace("users", &KeyspaceOptions::default()).unwrap();
        db.keyspace("user index", &KeyspaceOptions::default()).unwrap();
        users.put("ada", "1").unwrap();
        db.put("apple", "1").unwrap();
        let mut completions = completions(&db, "default");
        assert_eq!(completions.words("use us").1, ["user\\x20index", "users"]);
        assert_eq!(completions.words("keyspace d").1, ["drop "]);
        assert_eq!(completions.words("keyspace rename d").1, ["default"]);
        assert_eq!(completions.words("get a").1, ["apple"]);
        completions.set_keyspace(users);
        assert_eq!(completions.words("get a").1, ["ada"]);
    }
}
