//! The shell's sessions on a store. Each has a keyspace in use, optionally an open batch or an open
//! transaction, and optionally a snapshot to read from. One session is the current one; the others
//! keep their state.
//!
//! Invariants:
//! 1. An interrupted command changes neither the batch nor the session.
//! 2. The keyspace in use exists: the current session does not drop it.
//! 3. A session with a transaction has no snapshot, so a read has one source.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Scope;
use std::time::Duration;

use esker::{
    Batch, Db, Durability, ErrorKind, KeyOrder, Keyspace, ReadOptions, Snapshot, WriteOptions,
};
use serde_json::json;

use super::answer::Answers;
use super::help::HELP;
use super::keyspaces;
use super::scan::{Cursor, ScanRange, behind_prefix, more};
use super::transaction::{Change, Open, begin, is_to_savepoint, transaction_in};
use super::words::Words;
use crate::bytes::read_count;
use crate::commands::keyspace::{entries, to_text};
use crate::commands::stats::Stats;
use crate::failure::Failure;
use crate::interrupt;
use crate::keyspaces::{find, shown};

/// Default number of pairs that an interactive scan shows; `limit` changes it.
const PAIRS_BY_HAND: u64 = 100;
/// Poll interval for Ctrl-C while a command runs in another thread.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Name of the first session.
const FIRST_SESSION: &str = "main";

/// Whether the session continues.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue with the next line.
    Line,
    /// End the session.
    Quit,
}

/// The state that each session of a shell has of its own.
struct State {
    keyspace: Keyspace,
    open: Option<Open>,
    snapshot: Option<Snapshot>,
    durability: Option<Durability>,
}

impl State {
    fn new(keyspace: Keyspace) -> State {
        State { keyspace, open: None, snapshot: None, durability: None }
    }
}

/// The sessions of a shell, of which one is the current one.
pub struct Session<'a, 'e> {
    db: &'a Db,
    name: String,
    state: State,
    others: BTreeMap<String, State>,
    limit: Option<u64>,
    by_hand: Option<&'a Scope<'a, 'e>>,
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
        let (name, others) = (FIRST_SESSION.to_string(), BTreeMap::new());
        Session { db, name, state: State::new(keyspace), others, limit: None, by_hand: None }
    }

    /// Creates an interactive session on `db`: Ctrl-C stops the command, and scans show
    /// [`PAIRS_BY_HAND`] pairs. Uninterruptible operations continue in `threads`.
    pub fn by_hand(db: &'a Db, keyspace: Keyspace, threads: &'a Scope<'a, 'e>) -> Session<'a, 'e> {
        let (limit, by_hand) = (Some(PAIRS_BY_HAND), Some(threads));
        Session { limit, by_hand, ..Session::new(db, keyspace) }
    }

    /// Returns the keyspace in use.
    pub fn keyspace(&self) -> &Keyspace {
        &self.state.keyspace
    }

    /// Returns the prompt: the session unless it is the first one, whether a batch or a transaction
    /// is open, and the keyspace unless it is the default one.
    pub fn prompt(&self) -> String {
        let mut prompt = match self.name.as_str() {
            FIRST_SESSION => String::new(),
            name => format!("{}: ", shown(name)),
        };
        prompt += &self.state.open.as_ref().map_or("esker".to_string(), Open::prompt);
        if self.state.keyspace.id() != 0 {
            prompt += &format!(" {}", shown(&self.state.keyspace.name()));
        }
        prompt + "> "
    }

    /// Returns a message for each session that has an open batch or an open transaction.
    pub fn uncommitted(&self) -> Vec<String> {
        let others = self.others.iter().map(|(name, state)| (name, &state.open));
        let mut all: Vec<_> = others.chain([(&self.name, &self.state.open)]).collect();
        all.sort_by_key(|(name, _)| *name);
        let message = |(name, open): (&String, &Option<Open>)| {
            let session = match name.as_str() {
                FIRST_SESSION => String::new(),
                name => format!(" of the session \"{}\"", shown(name)),
            };
            let what = open.as_ref()?.describe();
            Some(format!("{what}{session} was not committed"))
        };
        all.into_iter().filter_map(message).collect()
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
                return self.change(Change::Put(&key, &value));
            }
            "scan" | "rscan" | "count" | "compact" => {
                let (from, to) = (word()?, word()?);
                end(command, &words)?;
                return self.range_command(command, from, to, answers);
            }
            _ => {}
        }
        let reply = match command {
            "get" | "getforupdate" | "delete" | "del" | "prefix" => {
                let key = word()?.ok_or_else(|| missing("a key"))?;
                end(command, &words)?;
                return self.key_command(command, &key, answers);
            }
            "deleterange" | "delete_range" => {
                let from = word()?.ok_or_else(|| missing("two keys"))?;
                let to = word()?.ok_or_else(|| missing("two keys"))?;
                end(command, &words)?;
                self.change(Change::DeleteRange(&from, &to))?
            }
            "begin" => self.begin(words)?,
            "rollback" if is_to_savepoint(&mut words)? => {
                self.savepoint("rollback to savepoint")?
            }
            "release" => {
                if words.raw().map(<[u8]>::to_ascii_lowercase).as_deref() != Some(b"savepoint") {
                    return Err(usage("release takes `savepoint`"));
                }
                end(command, &words)?;
                self.savepoint("release savepoint")?
            }
            "use" | "keyspace" => return self.keyspace_command(command, words),
            "sync" | "snapshot" | "session" | "set" | "option" | "checkpoint" | "limit" => {
                return self.setting(command, words);
            }
            _ => {
                end(command, &words)?;
                return self.plain(command, answers);
            }
        };
        Ok(reply)
    }

    /// Adds the change to the open batch or transaction, or writes it at once.
    fn change(&mut self, change: Change<'_>) -> Result<Reply, Failure> {
        let options = self.write_options();
        let keyspace = &self.state.keyspace;
        match &mut self.state.open {
            Some(Open::Transaction(transaction)) => change.apply(transaction, keyspace)?,
            Some(Open::Batch(batch)) => {
                let single = change.to_batch(keyspace);
                // A batch accepts only operations that could be written.
                if single.operations().next().is_none() {
                    self.db.write_with(&single, &options)?;
                } else {
                    batch.append(&single);
                }
            }
            None => self.db.write_with(&change.to_batch(keyspace), &options)?,
        }
        Ok(Reply::Ok)
    }

    /// Begins a transaction.
    fn begin(&mut self, words: Words<'_>) -> Result<Reply, Failure> {
        if let Some(open) = &self.state.open {
            return Err(is_open(open));
        }
        if self.state.snapshot.is_some() {
            let message = "a transaction reads its own snapshot; `snapshot off` first";
            return Err(usage(message));
        }
        let transaction = begin(self.db, words, self.state.durability)?;
        self.state.open = Some(Open::Transaction(transaction));
        Ok(Reply::Ok)
    }

    /// Runs a command about savepoints.
    fn savepoint(&self, command: &str) -> Result<Reply, Failure> {
        let transaction = transaction_in(&self.state.open, command)?;
        match command {
            "savepoint" => transaction.savepoint()?,
            "release savepoint" => transaction.pop_savepoint()?,
            _ => transaction.rollback_to_savepoint()?,
        }
        Ok(Reply::Ok)
    }

    /// Continues in the session `name`, which is created if it does not exist, or returns the name
    /// of the current one. A new session uses the same keyspace.
    fn switch(&mut self, name: Option<String>) -> Reply {
        let Some(name) = name else { return Reply::Value(Some(self.name.clone().into_bytes())) };
        if name != self.name {
            let next = self.others.remove(&name);
            let next = next.unwrap_or_else(|| State::new(self.state.keyspace.clone()));
            let state = std::mem::replace(&mut self.state, next);
            self.others.insert(std::mem::replace(&mut self.name, name), state);
        }
        Reply::Ok
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions::default().durability(self.state.durability)
    }

    fn key_command<W: Write>(
        &mut self,
        command: &str,
        key: &[u8],
        answers: &mut Answers<W>,
    ) -> Result<Reply, Failure> {
        match command {
            "get" | "getforupdate" => {
                let keyspace = &self.state.keyspace;
                let value = match &self.state.open {
                    open if command == "getforupdate" => {
                        transaction_in(open, command)?.get_for_update_in(keyspace, key)?
                    }
                    Some(Open::Transaction(transaction)) => transaction.get_in(keyspace, key)?,
                    _ => keyspace.get_with(key, &self.read_options())?,
                };
                Ok(Reply::Value(value.map(|value| value.to_vec())))
            }
            "prefix" => {
                let first = Bound::Included(key.to_vec());
                let behind = behind_prefix(key).map_or(Bound::Unbounded, Bound::Excluded);
                let bounds = match self.state.keyspace.key_order() {
                    KeyOrder::Reverse => (behind, first),
                    _ => (first, behind),
                };
                self.show(&ScanRange { bounds, reverse: false }, answers)
            }
            _ => self.change(Change::Delete(key)),
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
                let keyspace = self.state.keyspace.clone();
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
                let has_least_key = !matches!(self.state.keyspace.key_order(), KeyOrder::Reverse);
                answers.note(&more(shown, range, next, has_least_key, answers.encoding()))?;
                break;
            }
            answers.pair(iter.key(), iter.value())?;
            shown += 1;
            if self.limit == Some(shown) && range.reverse {
                last = iter.key().to_vec();
            }
            iter.advance(range.reverse)?;
        }
        Ok(Reply::Ok)
    }

    fn count(&self, range: &ScanRange) -> Result<Reply, Failure> {
        let mut iter = self.iter(range)?;
        let mut count = 0;
        while iter.valid() {
            interrupt::check()?;
            count += 1;
            iter.advance(false)?;
        }
        Ok(Reply::Number(count))
    }

    /// Returns a cursor on the first pair of `range`.
    fn iter(&self, range: &ScanRange) -> Result<Cursor, Failure> {
        let (keyspace, bounds) = (&self.state.keyspace, range.bounds.clone());
        let mut cursor = match &self.state.open {
            Some(Open::Transaction(transaction)) => {
                Cursor::Transaction(Box::new(transaction.range_in(keyspace, bounds)?))
            }
            _ => Cursor::Store(keyspace.iter_with(&self.read_options(), bounds)?),
        };
        cursor.begin(range.reverse)?;
        Ok(cursor)
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
        ReadOptions::default().snapshot(self.state.snapshot.as_ref())
    }

    /// Runs `use`, or `keyspace` with its subcommand.
    fn keyspace_command(&mut self, command: &str, mut words: Words<'_>) -> Result<Reply, Failure> {
        if command == "keyspace" {
            keyspaces::change(self.db, &self.state.keyspace, words)?;
            return Ok(Reply::Ok);
        }
        let name = keyspaces::name(&mut words)?;
        end(command, &words)?;
        match name {
            None => Ok(Reply::Value(Some(self.state.keyspace.name().into_bytes()))),
            Some(name) => {
                self.state.keyspace = find(self.db, &name)?;
                Ok(Reply::Ok)
            }
        }
    }

    fn setting(&mut self, command: &str, mut words: Words<'_>) -> Result<Reply, Failure> {
        let mut text = || words.raw().map(|word| String::from_utf8_lossy(word).into_owned());
        let (first, second) = (text(), text());
        end(command, &words)?;
        if let ("sync" | "snapshot", Some(Open::Transaction(_))) = (command, &self.state.open) {
            return Err(usage(format!(
                "{command} cannot change in a transaction: commit it or roll it back first"
            )));
        }
        match (command, first.as_deref(), second.as_deref()) {
            ("session", _, None) => return Ok(self.switch(first)),
            ("session", ..) => return Err(usage("session takes no argument or a name")),
            ("sync", Some("on"), None) => self.state.durability = Some(Durability::Sync),
            ("sync", Some("off"), None) => self.state.durability = None,
            ("sync", ..) => return Err(usage("sync takes on or off")),
            ("snapshot", None | Some("on"), None) => {
                self.state.snapshot = Some(self.db.snapshot());
            }
            ("snapshot", Some("off"), None) => self.state.snapshot = None,
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
        match (command, self.state.open.take()) {
            ("batch", None) => self.state.open = Some(Open::Batch(Batch::new())),
            ("commit", Some(Open::Batch(batch))) => {
                self.db.write_with(&batch, &self.write_options())?;
            }
            ("commit", Some(Open::Transaction(transaction))) => transaction.commit()?,
            ("rollback" | "abort", Some(_)) => {}
            ("commit" | "rollback" | "abort", None) => {
                return Err(usage("no batch and no transaction is open"));
            }
            ("batch", Some(open)) => {
                let failure = is_open(&open);
                self.state.open = Some(open);
                return Err(failure);
            }
            (_, open) => {
                self.state.open = open;
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
            "savepoint" => return self.savepoint(command),
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

/// Returns the error that a session has a batch or a transaction already.
fn is_open(open: &Open) -> Failure {
    let what = match open {
        Open::Batch(_) => "a batch is open: commit or abort it first",
        Open::Transaction(_) => "a transaction is open: commit it or roll it back first",
    };
    usage(what)
}

fn end(command: &str, words: &Words<'_>) -> Result<(), Failure> {
    if words.is_empty() {
        return Ok(());
    }
    Err(usage(format!("{command} takes fewer words; quote a key that contains a space")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
