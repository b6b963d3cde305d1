//! The shell's session: a store, the keyspace in use, optionally an open batch, and optionally a
//! snapshot to read from.
//!
//! Invariants:
//! 1. An interrupted command changes neither the batch nor the session.
//! 2. The keyspace in use exists: the session does not drop it.

use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Scope;
use std::time::Duration;

use esker::{
    Batch, Db, DbIterator, Durability, ErrorKind, KeyBounds, KeyOrder, Keyspace, ReadOptions,
    Snapshot, WriteOptions,
};
use serde_json::json;

use super::answer::Answers;
use super::keyspaces;
use super::words::Words;
use crate::bytes::{Encoding, read_count};
use crate::commands::keyspace::{entries, to_text};
use crate::commands::stats::Stats;
use crate::failure::Failure;
use crate::interrupt;
use crate::keyspaces::{find, shown};

/// Default number of pairs that an interactive scan shows; `limit` changes it.
const PAIRS_BY_HAND: u64 = 100;
/// Maximum key length, in bytes, repeated in the proposal of the next command.
const PROPOSED_KEY_BYTES_MAX: usize = 200;
/// Poll interval for Ctrl-C while a command runs in another thread.
const LOOK_EVERY: Duration = Duration::from_millis(20);

const HELP: &str = "\
put KEY VALUE             set KEY to VALUE, which is the rest of the line
get KEY                   print the value, or NOT FOUND
delete KEY                delete KEY; a missing KEY is not an error
deleterange FROM TO       delete the keys from FROM (included) to TO (excluded)
batch                     collect the following writes
commit                    apply the collected writes atomically
abort                     discard the collected writes
scan [FROM [TO]]          print the pairs from FROM (included) to TO (excluded), as put takes them
rscan [FROM [TO]]         print the same pairs in reverse order
prefix PREFIX             print the pairs whose key starts with PREFIX
count [FROM [TO]]         print the number of pairs from FROM to TO
limit [N|off]             limit the pairs that scan, rscan and prefix print; 100 at a terminal
snapshot [on|off]         read from a snapshot of the store, until off
sync on|off               make each write survive a power loss before its OK
flush                     write the memtable to table files
compact [FROM [TO]]       compact the tables of the keyspace in use
use [NAME]                use the keyspace NAME from now on; print the name of the one in use
keyspaces                 print the keyspaces of the store
keyspace create NAME ...  create a keyspace; then order=reverse and options, as NAME=VALUE
keyspace drop NAME        drop a keyspace with all its keys
keyspace rename NAME NEW  give a keyspace another name
checkpoint DIR            create a copy of the store in DIR with hard links
stats                     print the layout and statistics of the store
set NAME VALUE            change an option
option NAME               print the value of an option
help                      print this help
quit                      end the session (the end of the input does the same)
Ctrl-C stops a command, Tab completes, the arrow keys recall lines of this and earlier sessions.
KEY, VALUE: \\xNN is a byte, \\\\ a backslash; \"quoted\" keeps spaces, \"\" is empty; # comment";

/// Whether the session continues.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue with the next line.
    Line,
    /// End the session.
    Quit,
}

/// State of a shell session.
pub struct Session<'a, 'e> {
    db: &'a Db,
    keyspace: Keyspace,
    batch: Option<Batch>,
    snapshot: Option<Snapshot>,
    durability: Option<Durability>,
    limit: Option<u64>,
    by_hand: Option<&'a Scope<'a, 'e>>,
}

/// Range and direction of a scan.
struct ScanRange {
    bounds: KeyBounds,
    reverse: bool,
}

impl ScanRange {
    /// Creates the range from `from`, included, to `to`, excluded.
    fn new(from: Option<Vec<u8>>, to: Option<Vec<u8>>, reverse: bool) -> ScanRange {
        let lower = from.map_or(Bound::Unbounded, Bound::Included);
        let upper = to.map_or(Bound::Unbounded, Bound::Excluded);
        ScanRange { bounds: (lower, upper), reverse }
    }
}

/// Result of a command.
enum Reply {
    Ok,
    Value(Option<Vec<u8>>),
    Number(u64),
    Quit,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::usage(message)
}

impl<'a, 'e> Session<'a, 'e> {
    /// Creates a session on `db` for a script: Ctrl-C ends the process, and scans show all pairs.
    /// It begins in `keyspace`.
    pub fn new(db: &'a Db, keyspace: Keyspace) -> Session<'a, 'e> {
        let (batch, snapshot, durability) = (None, None, None);
        Session { db, keyspace, batch, snapshot, durability, limit: None, by_hand: None }
    }

    /// Creates an interactive session on `db`: Ctrl-C stops the command, and scans show
    /// [`PAIRS_BY_HAND`] pairs. Uninterruptible operations continue in `threads`.
    pub fn by_hand(db: &'a Db, keyspace: Keyspace, threads: &'a Scope<'a, 'e>) -> Session<'a, 'e> {
        let (limit, by_hand) = (Some(PAIRS_BY_HAND), Some(threads));
        Session { limit, by_hand, ..Session::new(db, keyspace) }
    }

    /// Returns the keyspace in use.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns the prompt: whether a batch is open, and the keyspace unless it is the default one.
    pub fn prompt(&self) -> String {
        let state = if self.batch.is_some() { "batch" } else { "esker" };
        match self.keyspace.id() {
            0 => format!("{state}> "),
            _ => format!("{state} {}> ", shown(&self.keyspace.name())),
        }
    }

    /// Returns the number of operations in the open batch; `None` without an open batch.
    pub fn uncommitted(&self) -> Option<usize> {
        self.batch.as_ref().map(Batch::len)
    }

    /// Runs one line and answers it. Blank lines and comments have no answer.
    ///
    /// # Errors
    /// The answer cannot be written. Errors of commands are answers.
    pub fn run<W: Write>(
        &mut self,
        line: &[u8],
        answers: &mut Answers<W>,
    ) -> Result<Next, Failure> {
        let mut words = Words::new(line);
        let Some(command) = words.raw() else { return Ok(Next::Line) };
        if command.starts_with(b"#") {
            return Ok(Next::Line);
        }
        let command = String::from_utf8_lossy(command).to_ascii_lowercase();
        match self.command(&command, words, answers) {
            Ok(Reply::Ok) => answers.ok()?,
            Ok(Reply::Value(value)) => answers.value(value.as_deref())?,
            Ok(Reply::Number(number)) => answers.number(number)?,
            Ok(Reply::Quit) => return Ok(Next::Quit),
            Err(Failure::PipeClosed) => return Err(Failure::PipeClosed),
            Err(failure) => answers.error(&failure)?,
        }
        Ok(Next::Line)
    }

    fn command<W: Write>(
        &mut self,
        command: &str,
        mut words: Words<'_>,
        answers: &mut Answers<W>,
    ) -> Result<Reply, Failure> {
        let encoding = answers.encoding();
        let mut word = || words.bytes(encoding).map_err(usage);
        let missing = |what: &str| usage(format!("{command} needs {what}; try help"));
        match command {
            "put" => {
                let key = word()?.ok_or_else(|| missing("a key and a value"))?;
                // `put K` has no value; `put K ` and `put K ""` have an empty value.
                if !words.went_on() {
                    return Err(missing("a value"));
                }
                let value = words.rest(encoding).map_err(usage)?;
                return self.put(&key, &value);
            }
            "scan" | "rscan" | "count" | "compact" => {
                let (from, to) = (word()?, word()?);
                end(command, &words)?;
                return self.range_command(command, from, to, answers);
            }
            _ => {}
        }
        let reply = match command {
            "get" | "delete" | "del" | "prefix" => {
                let key = word()?.ok_or_else(|| missing("a key"))?;
                end(command, &words)?;
                return self.key_command(command, &key, answers);
            }
            "deleterange" | "delete_range" => {
                let from = word()?.ok_or_else(|| missing("two keys"))?;
                let to = word()?.ok_or_else(|| missing("two keys"))?;
                end(command, &words)?;
                self.change(|keyspace, batch| {
                    batch.delete_range_in(keyspace, &from, &to);
                })?
            }
            "use" | "keyspace" => return self.keyspace_command(command, words),
            "sync" | "snapshot" | "set" | "option" | "checkpoint" | "limit" => {
                return self.setting(command, words);
            }
            _ => {
                end(command, &words)?;
                return self.plain(command, answers);
            }
        };
        Ok(reply)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Reply, Failure> {
        self.change(|keyspace, batch| {
            batch.put_in(keyspace, key, value);
        })
    }

    /// Adds the change to the open batch, or writes it at once.
    fn change(&mut self, change: impl FnOnce(&Keyspace, &mut Batch)) -> Result<Reply, Failure> {
        let mut single = Batch::new();
        change(&self.keyspace, &mut single);
        match &mut self.batch {
            // A batch accepts only operations that could be written.
            Some(batch) => {
                let operations: Vec<_> = single.operations().collect();
                if operations.is_empty() {
                    self.db.write_with(&single, &self.write_options())?;
                } else {
                    batch.append(&single);
                }
            }
            None => self.db.write_with(&single, &self.write_options())?,
        }
        Ok(Reply::Ok)
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions::default().durability(self.durability)
    }

    fn key_command<W: Write>(
        &mut self,
        command: &str,
        key: &[u8],
        answers: &mut Answers<W>,
    ) -> Result<Reply, Failure> {
        match command {
            "get" => {
                let options = self.read_options();
                let value = self.keyspace.get_with(key, &options)?;
                Ok(Reply::Value(value.map(|value| value.to_vec())))
            }
            "prefix" => {
                let first = Bound::Included(key.to_vec());
                let behind = behind_prefix(key).map_or(Bound::Unbounded, Bound::Excluded);
                let bounds = match self.keyspace.key_order() {
                    KeyOrder::Reverse => (behind, first),
                    _ => (first, behind),
                };
                self.show(&ScanRange { bounds, reverse: false }, answers)
            }
            _ => self.change(|keyspace, batch| {
                batch.delete_in(keyspace, key);
            }),
        }
    }

    fn range_command<W: Write>(
        &mut self,
        command: &str,
        from: Option<Vec<u8>>,
        to: Option<Vec<u8>>,
        answers: &mut Answers<W>,
    ) -> Result<Reply, Failure> {
        let reverse = command == "rscan";
        match command {
            "compact" => {
                let keyspace = self.keyspace.clone();
                let job = move |_: &Db| keyspace.compact_range(from.as_deref(), to.as_deref());
                self.long(command, job)
            }
            "count" => self.count(&ScanRange::new(from, to, reverse)),
            _ => self.show(&ScanRange::new(from, to, reverse), answers),
        }
    }

    fn show<W: Write>(
        &self,
        range: &ScanRange,
        answers: &mut Answers<W>,
    ) -> Result<Reply, Failure> {
        let mut iter = self.iter(range)?;
        let mut shown = 0;
        let mut last = Vec::new();
        while iter.valid() {
            interrupt::check()?;
            if self.limit == Some(shown) {
                let next = if range.reverse { &last } else { iter.key() };
                let has_least_key = !matches!(self.keyspace.key_order(), KeyOrder::Reverse);
                answers.note(&more(shown, range, next, has_least_key, answers.encoding()))?;
                break;
            }
            answers.pair(iter.key(), iter.value())?;
            shown += 1;
            if self.limit == Some(shown) && range.reverse {
                last = iter.key().to_vec();
            }
            if range.reverse { iter.move_prev()? } else { iter.move_next()? }
        }
        Ok(Reply::Ok)
    }

    fn count(&self, range: &ScanRange) -> Result<Reply, Failure> {
        let mut iter = self.iter(range)?;
        let mut count = 0;
        while iter.valid() {
            interrupt::check()?;
            count += 1;
            iter.move_next()?;
        }
        Ok(Reply::Number(count))
    }

    /// Returns an iterator on the first pair of `range`.
    fn iter(&self, range: &ScanRange) -> Result<DbIterator, Failure> {
        let mut iter = self.keyspace.iter_with(&self.read_options(), range.bounds.clone())?;
        if range.reverse {
            iter.seek_to_last()?
        } else {
            iter.seek_to_first()?
        }
        Ok(iter)
    }

    /// Runs an operation that the engine cannot interrupt. In an interactive session Ctrl-C ends
    /// the wait, and the operation continues.
    fn long(
        &self,
        command: &str,
        job: impl FnOnce(&Db) -> esker::Result<()> + Send + 'a,
    ) -> Result<Reply, Failure> {
        let Some(threads) = self.by_hand else {
            job(self.db)?;
            return Ok(Reply::Ok);
        };
        let db = self.db;
        let (done, wait) = channel();
        threads.spawn(move || {
            // After Ctrl-C the receiver is gone.
            let _ = done.send(job(db));
        });
        loop {
            match wait.recv_timeout(LOOK_EVERY) {
                Ok(outcome) => {
                    outcome?;
                    return Ok(Reply::Ok);
                }
                Err(RecvTimeoutError::Timeout) if interrupt::asked() => {
                    return Err(Failure::interrupted(format!(
                        "{command} continues in the background; the session ends after it has \
                         finished"
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let message = format!("{command} ended without a result: a defect in Esker");
                    return Err(Failure::of(ErrorKind::Io, message));
                }
            }
        }
    }

    fn read_options(&self) -> ReadOptions<'_> {
        ReadOptions::default().snapshot(self.snapshot.as_ref())
    }

    /// Runs `use`, or `keyspace` with its subcommand.
    fn keyspace_command(&mut self, command: &str, mut words: Words<'_>) -> Result<Reply, Failure> {
        if command == "keyspace" {
            keyspaces::change(self.db, &self.keyspace, words)?;
            return Ok(Reply::Ok);
        }
        let name = keyspaces::name(&mut words)?;
        end(command, &words)?;
        match name {
            None => Ok(Reply::Value(Some(self.keyspace.name().into_bytes()))),
            Some(name) => {
                self.keyspace = find(self.db, &name)?;
                Ok(Reply::Ok)
            }
        }
    }

    fn setting(&mut self, command: &str, mut words: Words<'_>) -> Result<Reply, Failure> {
        let mut text = || words.raw().map(|word| String::from_utf8_lossy(word).into_owned());
        let (first, second) = (text(), text());
        end(command, &words)?;
        match (command, first.as_deref(), second.as_deref()) {
            ("sync", Some("on"), None) => self.durability = Some(Durability::Sync),
            ("sync", Some("off"), None) => self.durability = None,
            ("sync", ..) => return Err(usage("sync takes on or off")),
            ("snapshot", None | Some("on"), None) => self.snapshot = Some(self.db.snapshot()),
            ("snapshot", Some("off"), None) => self.snapshot = None,
            ("snapshot", ..) => return Err(usage("snapshot takes no argument, on or off")),
            ("set", Some(name), Some(value)) => self.db.set_options(&[(name, value)])?,
            ("set", ..) => return Err(usage("set takes a name and a value")),
            ("option", Some(name), None) => {
                let value = self.db.option(name);
                let value = value.ok_or_else(|| usage(format!("unknown option {name:?}")))?;
                return Ok(Reply::Value(Some(value.into_bytes())));
            }
            ("option", ..) => return Err(usage("option takes a name")),
            ("limit", None, None) => {
                let limit = self.limit.map_or("off".to_string(), |limit| limit.to_string());
                return Ok(Reply::Value(Some(limit.into_bytes())));
            }
            ("limit", Some("off"), None) => self.limit = None,
            ("limit", Some(count), None) => self.limit = Some(read_count(count).map_err(usage)?),
            ("limit", ..) => return Err(usage("limit takes no argument, a number or off")),
            (_, Some(dir), None) => {
                let dir = PathBuf::from(dir);
                return self.long(command, move |db| db.checkpoint(Path::new(&dir)));
            }
            _ => return Err(usage("checkpoint takes a directory")),
        }
        Ok(Reply::Ok)
    }

    fn plain<W: Write>(
        &mut self,
        command: &str,
        answers: &mut Answers<W>,
    ) -> Result<Reply, Failure> {
        match (command, self.batch.take()) {
            ("batch", None) => self.batch = Some(Batch::new()),
            ("commit", Some(batch)) => self.db.write_with(&batch, &self.write_options())?,
            ("abort", Some(_)) => {}
            ("batch", batch) => {
                self.batch = batch;
                return Err(usage("a batch is open: commit or abort it first"));
            }
            ("commit" | "abort", None) => return Err(usage("no batch is open")),
            (_, batch) => {
                self.batch = batch;
                return self.simple(command, answers);
            }
        }
        Ok(Reply::Ok)
    }

    fn simple<W: Write>(
        &mut self,
        command: &str,
        answers: &mut Answers<W>,
    ) -> Result<Reply, Failure> {
        match command {
            "flush" => return self.long(command, Db::flush),
            "stats" => {
                let stats = Stats::of(self.db)?;
                answers.lines(&stats.to_text(), || stats.to_json())?;
            }
            "keyspaces" => {
                let entries = entries(self.db)?;
                answers.lines(&to_text(&entries), || {
                    let all: Vec<_> = entries.iter().map(|entry| entry.to_json()).collect();
                    json!({ "keyspaces": all })
                })?;
            }
            "help" | "?" | ".help" => answers.lines(HELP, || json!({ "help": HELP }))?,
            "quit" | "exit" | ".quit" | ".exit" => return Ok(Reply::Quit),
            _ => return Err(usage(format!("unknown command {command:?}; try help"))),
        }
        Ok(Reply::Ok)
    }
}

fn end(command: &str, words: &Words<'_>) -> Result<(), Failure> {
    if words.is_empty() {
        return Ok(());
    }
    Err(usage(format!("{command} takes fewer words; quote a key that contains a space")))
}

/// Returns the first key after all keys with `prefix`; `None` if every byte of it is 255.
fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let len = prefix.iter().rposition(|byte| *byte < u8::MAX)? + 1;
    let mut behind = prefix[..len].to_vec();
    behind[len - 1] += 1;
    Some(behind)
}

/// Formats the note that a scan stopped at the limit, with the command that continues at `next`.
/// `has_least_key` says that the empty key is the first in the order.
fn more(
    shown: u64,
    range: &ScanRange,
    next: &[u8],
    has_least_key: bool,
    encoding: Encoding,
) -> String {
    let mut text = format!("-- {shown} pairs shown, more follow; `limit off` shows all");
    let edges = match (range.reverse, &range.bounds) {
        (true, (Bound::Included(from), _)) => [Some(&from[..]), Some(next)],
        (true, (Bound::Unbounded, _)) if has_least_key => [Some(&b""[..]), Some(next)],
        (false, (_, Bound::Excluded(to))) => [Some(next), Some(&to[..])],
        (false, (_, Bound::Unbounded)) => [Some(next), None],
        // No command spells the other bounds.
        _ => return text,
    };
    if edges.iter().flatten().any(|key| key.len() > PROPOSED_KEY_BYTES_MAX) {
        return text;
    }
    text += if range.reverse { ", `rscan" } else { ", `scan" };
    for key in edges.into_iter().flatten() {
        let mut word = vec![b' '];
        encoding.write_word(key, &mut word);
        text += &String::from_utf8_lossy(&word);
    }
    text + "` continues"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_after_all_keys_with_prefix() {
        assert_eq!(behind_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(behind_prefix(b"\xff"), None);
        assert_eq!(behind_prefix(b""), None);
    }

    #[test]
    fn uninterruptible_command_continues_in_background() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), esker::Options::default()).unwrap();
        std::thread::scope(|threads| {
            let default = db.existing_keyspace("default").unwrap().unwrap();
            let session = Session::by_hand(&db, default, threads);
            let (let_go, wait) = channel();
            interrupt::press();
            let asked = session.long("compact", move |_| {
                wait.recv().unwrap();
                Ok(())
            });
            let failure = asked.err().unwrap();
            assert!(failure.message().contains("compact continues"), "{}", failure.message());
            let_go.send(()).unwrap();
            interrupt::begin_command();
            assert!(session.long("flush", Db::flush).is_ok());
        });
    }

    #[test]
    fn next_command_is_proposed_unless_keys_are_long() {
        let range = |reverse| ScanRange::new(None, Some(b"z z".to_vec()), reverse);
        let text = more(5, &range(false), b"k\xff", true, Encoding::Text);
        assert!(text.ends_with("`scan k\\xff z\\x20z` continues"), "{text}");
        let text = more(5, &range(true), b"k", true, Encoding::Text);
        assert!(text.ends_with("`rscan \"\" k` continues"), "{text}");
        assert!(more(5, &range(false), &[b'k'; 300], true, Encoding::Text).ends_with("shows all"));
        assert!(more(5, &range(true), b"k", false, Encoding::Text).ends_with("shows all"));
    }
}
