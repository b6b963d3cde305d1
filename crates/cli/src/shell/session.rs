//! The shell's session: a store, perhaps a batch being gathered, perhaps a snapshot to read from.

use std::io::Write;
use std::ops::Bound;
use std::path::Path;

use esker::{Batch, Db, DbIterator, Durability, ReadOptions, Snapshot, WriteOptions};
use serde_json::json;

use super::answer::Answers;
use super::words::Words;
use crate::commands::stats;
use crate::failure::Failure;

const HELP: &str = "\
put KEY VALUE             set KEY; VALUE is the rest of the line
get KEY                   the value, or NOT FOUND
delete KEY                delete KEY, whether it is there or not
deleterange FROM TO       delete every key from FROM up to, not including, TO
batch                     gather the writes that follow
commit                    write them all at once
abort                     forget them
scan [FROM [TO]]          pairs from FROM up to, not including, TO, as put takes them
rscan [FROM [TO]]         the same pairs from the last to the first
prefix PREFIX             pairs whose key starts with PREFIX
count [FROM [TO]]         how many pairs scan would show
snapshot [on|off]         read the store as it is now, until off
sync on|off               whether a write must survive a power loss before its OK
flush                     write what is in memory to files
compact [FROM [TO]]       merge files
checkpoint DIR            make a second store in DIR by hard links
stats                     what the store consists of and has done
set NAME VALUE            change an option
option NAME               the value of an option
help                      this
quit                      end (so does the end of the input)
KEY, VALUE: \\xNN is a byte, \\\\ a backslash; \"quoted\" where spaces matter, \"\" is empty; # comment";

/// Whether the session goes on.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// With the next line.
    Line,
    /// No.
    Quit,
}

/// The state of a shell.
pub struct Session<'a> {
    db: &'a Db,
    batch: Option<Batch>,
    snapshot: Option<Snapshot>,
    durability: Option<Durability>,
}

/// What a command came to.
enum Reply {
    Ok,
    Value(Option<Vec<u8>>),
    Number(u64),
    Quit,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::usage(message)
}

impl<'a> Session<'a> {
    /// A session on `db`.
    pub fn new(db: &'a Db) -> Session<'a> {
        Session { db, batch: None, snapshot: None, durability: None }
    }

    /// How many operations wait for `commit`, while a batch is open.
    pub fn uncommitted(&self) -> Option<usize> {
        self.batch.as_ref().map(Batch::len)
    }

    /// Runs one line and answers it; blank lines and comments have no answer.
    ///
    /// # Errors
    /// Only when the answer cannot be written; errors of commands are answers.
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
                // `put K` says nothing about a value; `put K ` and `put K ""` say an empty one.
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
            "sync" | "snapshot" | "set" | "option" | "checkpoint" => {
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

    /// Into the open batch, or at once.
    fn change(&mut self, change: impl FnOnce(&mut Batch)) -> Result<Reply, Failure> {
        let mut single = Batch::new();
        change(&mut single);
        match &mut self.batch {
            // A batch takes only what could be written.
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
        WriteOptions { durability: self.durability }
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
                let mut iter = self.iter(Some(key.to_vec()), None)?;
                iter.seek_to_first()?;
                while iter.valid() && iter.key().starts_with(key) {
                    answers.pair(iter.key(), iter.value())?;
                    iter.advance()?;
                }
                Ok(Reply::Ok)
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
        if command == "compact" {
            self.db.compact_range(from.as_deref(), to.as_deref())?;
            return Ok(Reply::Ok);
        }
        let mut iter = self.iter(from, to)?;
        let reverse = command == "rscan";
        if reverse {
            iter.seek_to_last()?
        } else {
            iter.seek_to_first()?
        }
        let mut count = 0;
        while iter.valid() {
            if command == "count" {
                count += 1;
            } else {
                answers.pair(iter.key(), iter.value())?;
            }
            if reverse { iter.retreat()? } else { iter.advance()? }
        }
        Ok(if command == "count" { Reply::Number(count) } else { Reply::Ok })
    }

    fn iter(&self, from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> Result<DbIterator, Failure> {
        let lower = from.map_or(Bound::Unbounded, Bound::Included);
        let upper = to.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.db.iter_with(&self.read_options(), (lower, upper))?)
    }

    fn read_options(&self) -> ReadOptions<'_> {
        ReadOptions { snapshot: self.snapshot.as_ref(), ..ReadOptions::default() }
    }

    fn setting(&mut self, command: &str, mut words: Words<'_>) -> Result<Reply, Failure> {
        let mut text = || words.raw().map(|word| String::from_utf8_lossy(word).into_owned());
        let (first, second) = (text(), text());
        end(command, &words)?;
        match (command, first.as_deref(), second.as_deref()) {
            ("sync", Some("on"), None) => self.durability = Some(Durability::Sync),
            ("sync", Some("off"), None) => self.durability = None,
            ("sync", ..) => return Err(usage("sync is on or off")),
            ("snapshot", None | Some("on"), None) => self.snapshot = Some(self.db.snapshot()),
            ("snapshot", Some("off"), None) => self.snapshot = None,
            ("snapshot", ..) => return Err(usage("snapshot takes nothing, on or off")),
            ("set", Some(name), Some(value)) => self.db.set_option(name, value)?,
            ("set", ..) => return Err(usage("set takes a name and a value")),
            ("option", Some(name), None) => {
                let value = self.db.option(name);
                let value = value.ok_or_else(|| usage(format!("there is no option {name:?}")))?;
                return Ok(Reply::Value(Some(value.into_bytes())));
            }
            ("option", ..) => return Err(usage("option takes a name")),
            (_, Some(dir), None) => self.db.checkpoint(Path::new(dir))?,
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
            ("commit" | "abort", None) => return Err(usage("there is no batch")),
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
            "flush" => self.db.flush()?,
            "stats" => {
                let metrics = self.db.metrics();
                answers.lines(&stats::to_text(&metrics), || stats::to_json(&metrics))?;
            }
            "help" | "?" | ".help" => answers.lines(HELP, || json!({ "help": HELP }))?,
            "quit" | "exit" | ".quit" | ".exit" => return Ok(Reply::Quit),
            _ => return Err(usage(format!("there is no command {command:?}; try help"))),
        }
        Ok(Reply::Ok)
    }
}

fn end(command: &str, words: &Words<'_>) -> Result<(), Failure> {
    if words.is_empty() {
        return Ok(());
    }
    Err(usage(format!("{command} takes fewer words; quote a key that holds a space")))
}
