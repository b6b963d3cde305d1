//! The shell's session: a store, optionally an open batch, and optionally a snapshot to read from.
//!
//! Invariant: an interrupted command changes neither the batch nor the session.

use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Scope;
use std::time::Duration;

use esker::{Batch, Db, DbIterator, Durability, ErrorKind, ReadOptions, Snapshot, WriteOptions};
use serde_json::json;

use super::answer::Answers;
use super::words::Words;
use crate::bytes::{Encoding, read_count};
use crate::commands::stats;
use crate::failure::Failure;
use crate::interrupt;

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
compact [FROM [TO]]       compact the tables
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
    batch: Option<Batch>,
    snapshot: Option<Snapshot>,
    durability: Option<Durability>,
    limit: Option<u64>,
    by_hand: Option<&'a Scope<'a, 'e>>,
}

/// Range and direction of a scan.
struct ScanRange {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    reverse: bool,
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
    pub fn new(db: &'a Db) -> Session<'a, 'e> {
        Session { db, batch: None, snapshot: None, durability: None, limit: None, by_hand: None }
    }

    /// Creates an interactive session on `db`: Ctrl-C stops the command, and scans show
    /// [`PAIRS_BY_HAND`] pairs. Uninterruptible operations continue in `threads`.
    pub fn by_hand(db: &'a Db, threads: &'a Scope<'a, 'e>) -> Session<'a, 'e> {
        Session { limit: Some(PAIRS_BY_HAND), by_hand: Some(threads), ..Session::new(db) }
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
                self.change(|batch| {
                    batch.delete_range(&from, &to);
                })?
            }
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
        self.change(|batch| {
            batch.put(key, value);
        })
    }

    /// Adds the change to the open batch, or writes it at once.
    fn change(&mut self, change: impl FnOnce(&mut Batch)) -> Result<Reply, Failure> {
        let mut single = Batch::new();
        change(&mut single);
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
                let value = self.db.get_with(key, &options)?;
                Ok(Reply::Value(value.map(|value| value.to_vec())))
            }
            "prefix" => {
                let (from, to) = (Some(key.to_vec()), behind_prefix(key));
                self.show(&ScanRange { from, to, reverse: false }, answers)
            }
            _ => self.change(|batch| {
                batch.delete(key);
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
                self.long(command, move |db| db.compact_range(from.as_deref(), to.as_deref()))
            }
            "count" => self.count(&ScanRange { from, to, reverse }),
            _ => self.show(&ScanRange { from, to, reverse }, answers),
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
                answers.note(&more(shown, range, next, answers.encoding()))?;
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
        let lower = range.from.clone().map_or(Bound::Unbounded, Bound::Included);
        let upper = range.to.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let mut iter = self.db.iter_with(&self.read_options(), (lower, upper))?;
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
                let metrics = self.db.metrics();
                answers.lines(&stats::to_text(&metrics), || stats::to_json(&metrics))?;
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
fn more(shown: u64, range: &ScanRange, next: &[u8], encoding: Encoding) -> String {
    let edges = if range.reverse {
        [range.from.as_deref().or(Some(b"")), Some(next)]
    } else {
        [Some(next), range.to.as_deref()]
    };
    let mut text = format!("-- {shown} pairs shown, more follow; `limit off` shows all");
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
            let session = Session::by_hand(&db, threads);
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
        let range = |reverse| ScanRange { from: None, to: Some(b"z z".to_vec()), reverse };
        let text = more(5, &range(false), b"k\xff", Encoding::Text);
        assert!(text.ends_with("`scan k\\xff z\\x20z` continues"), "{text}");
        let text = more(5, &range(true), b"k", Encoding::Text);
        assert!(text.ends_with("`rscan \"\" k` continues"), "{text}");
        assert!(more(5, &range(false), &[b'k'; 300], Encoding::Text).ends_with("shows all"));
    }
}
