//! One store of a script, with its transactions, in one mode.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use esker::fs::MemFs;
use esker::{
    Db, ErrorKind, Keyspace, KeyspaceOptions, Options, Result, Transaction, TransactionOptions,
};

use super::{Mode, Output};

/// A transaction of a script.
struct Actor {
    /// `None` after its end.
    transaction: Option<Transaction>,
    /// Commands that wait for a lock, in their order.
    waiting: VecDeque<Vec<String>>,
}

/// A store and its transactions, by name.
pub struct World {
    mode: Mode,
    fs: Arc<MemFs>,
    db: Db,
    actors: BTreeMap<String, Actor>,
}

/// The bounds of a scan.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A pair of a scan.
type Pair = (Vec<u8>, Vec<u8>);

fn open(fs: Arc<MemFs>) -> Db {
    let options = Options {
        background_threads: Some(0),
        memtable_size_bytes: Some(64 << 10),
        log_file: false,
        status_file: false,
        ..Options::default()
    };
    Db::open_on(fs, "/db", options).expect("a store in memory opens")
}

/// Formats an error of a call.
fn failure(error: &esker::Error) -> String {
    match error.kind() {
        ErrorKind::Conflict => "conflict".to_string(),
        ErrorKind::Busy => "waits".to_string(),
        kind => format!("error {}: {error}", kind.name()),
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn found(value: Option<esker::Slice>) -> Vec<String> {
    vec![value.map_or("none".to_string(), |value| text(&value))]
}

/// Formats the pairs of a scan, or those whose value is divisible.
fn shown(pairs: Vec<Pair>, divisor: Option<u64>) -> Vec<String> {
    let is_shown = |(_, value): &&Pair| match divisor {
        Some(divisor) => {
            text(value).parse().is_ok_and(|number: u64| number.is_multiple_of(divisor))
        }
        None => true,
    };
    let pairs = pairs.iter().filter(is_shown);
    let pairs: Vec<String> = pairs.map(|(k, v)| format!("{}={}", text(k), text(v))).collect();
    if pairs.is_empty() { vec!["no pairs".to_string()] } else { vec![pairs.join(" ")] }
}

impl World {
    pub fn new(mode: Mode) -> World {
        let fs = MemFs::new();
        World { mode, db: open(fs.clone()), fs, actors: BTreeMap::new() }
    }

    /// Runs a command.
    pub fn run(&mut self, words: &[&str]) -> Output {
        match words {
            ["begin", name] => {
                if self.actors.get(*name).is_some_and(|actor| actor.transaction.is_some()) {
                    return Err(format!("the transaction {name} is active"));
                }
                let (isolation, concurrency) = self.mode;
                let options = TransactionOptions::default();
                let options = options.isolation(isolation).concurrency(concurrency);
                let transaction = Some(self.db.transaction(options.lock_timeout_ms(0)));
                let actor = Actor { transaction, waiting: VecDeque::new() };
                self.actors.insert((*name).to_string(), actor);
                Ok(Vec::new())
            }
            [name, rest @ ..] if self.actors.contains_key(*name) => self.act(name, rest),
            _ => self.plain(words),
        }
    }

    /// Returns the keyspace and the key that `KEY` or `KEYSPACE:KEY` names.
    fn place(&self, word: &str) -> (Keyspace, Vec<u8>) {
        let (name, key) = word.split_once(':').unwrap_or(("default", word));
        let keyspace = self.db.keyspace(name, &KeyspaceOptions::default());
        (keyspace.expect("a keyspace of a store in memory"), key.as_bytes().to_vec())
    }

    /// Returns what a scan reads: everything, or from a key to another one.
    fn scan(&self, words: &[&str]) -> std::result::Result<(Keyspace, Bounds, Option<u64>), String> {
        let (words, divisor) = match words {
            [rest @ .., "divisible", divisor] => {
                (rest, Some(divisor.parse().map_err(|_| "expected a number")?))
            }
            words => (words, None),
        };
        let all = (Bound::Unbounded, Bound::Unbounded);
        match words {
            [] => Ok((self.place("").0, all, divisor)),
            [keyspace] if keyspace.ends_with(':') => Ok((self.place(keyspace).0, all, divisor)),
            [start, end] => {
                let ((keyspace, start), (_, end)) = (self.place(start), self.place(end));
                Ok((keyspace, (Bound::Included(start), Bound::Excluded(end)), divisor))
            }
            _ => Err("expected KEYSPACE: or START END".to_string()),
        }
    }

    /// Runs a command outside of transactions.
    fn plain(&mut self, words: &[&str]) -> Output {
        let done = |result: Result<()>| match result {
            Ok(()) => Ok(Vec::new()),
            Err(error) => Ok(vec![failure(&error)]),
        };
        match words {
            ["put", key, value] => {
                let (keyspace, key) = self.place(key);
                done(keyspace.put(key, value))
            }
            ["delete", key] => {
                let (keyspace, key) = self.place(key);
                done(keyspace.delete(key))
            }
            ["delete-range", start, end] => {
                let ((keyspace, start), (_, end)) = (self.place(start), self.place(end));
                done(keyspace.delete_range(start, end))
            }
            ["get", key] => {
                let (keyspace, key) = self.place(key);
                Ok(found(keyspace.get(key).map_err(|error| error.to_string())?))
            }
            ["scan", rest @ ..] => {
                let (keyspace, bounds, divisor) = self.scan(rest)?;
                let pairs = keyspace.range(bounds).and_then(Iterator::collect);
                Ok(shown(pairs.map_err(|error| error.to_string())?, divisor))
            }
            ["flush"] => done(self.db.flush()),
            ["prepared"] => match self.db.prepared_transactions() {
                names if names.is_empty() => Ok(vec!["none".to_string()]),
                names => Ok(vec![names.join(" ")]),
            },
            ["commit-prepared", name] => {
                let ended = self.db.commit_prepared(name);
                self.ended(ended)
            }
            ["rollback-prepared", name] => {
                let ended = self.db.rollback_prepared(name);
                self.ended(ended)
            }
            ["kill"] => {
                // Files in memory keep every written byte, as a killed process leaves them.
                self.actors.clear();
                let fs = self.fs.clone();
                self.db = open(MemFs::new());
                self.db = open(fs);
                Ok(Vec::new())
            }
            _ => Err("unknown command, or a transaction that was not begun".to_string()),
        }
    }

    fn ended(&mut self, ended: Result<()>) -> Output {
        match ended {
            Ok(()) => Ok(self.run_waiting()),
            Err(error) => Ok(vec![failure(&error)]),
        }
    }

    /// Runs a command of a transaction, or lets it wait behind its other commands.
    fn act(&mut self, name: &str, words: &[&str]) -> Output {
        let Some(actor) = self.actors.get_mut(name) else { return Ok(Vec::new()) };
        if actor.transaction.is_none() {
            return Ok(vec!["has ended".to_string()]);
        }
        if matches!(words, ["rollback"]) {
            actor.waiting.clear();
        }
        if !actor.waiting.is_empty() {
            actor.waiting.push_back(words.iter().map(|word| (*word).to_string()).collect());
            return Ok(vec!["waits".to_string()]);
        }
        let mut lines = self.call(name, words)?;
        if lines == ["waits"]
            && let Some(actor) = self.actors.get_mut(name)
        {
            actor.waiting.push_back(words.iter().map(|word| (*word).to_string()).collect());
        }
        if self.actors[name].transaction.is_none() {
            lines.extend(self.run_waiting());
        }
        Ok(lines)
    }

    /// Runs the waiting commands again until none can go on. Returns their outputs.
    fn run_waiting(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let names: Vec<String> = self.actors.keys().cloned().collect();
        let mut again = true;
        while again {
            again = false;
            for name in &names {
                while let Some(command) = self.actors[name].waiting.front().cloned() {
                    let words: Vec<&str> = command.iter().map(String::as_str).collect();
                    let output = self.call(name, &words).unwrap_or_else(|problem| vec![problem]);
                    if output == ["waits"] {
                        break;
                    }
                    let output =
                        if output.is_empty() { "ok".to_string() } else { output.join(" ") };
                    lines.push(format!("{name} {}: {output}", words.join(" ")));
                    let Some(actor) = self.actors.get_mut(name) else { break };
                    actor.waiting.pop_front();
                    if actor.transaction.is_none() {
                        actor.waiting.clear();
                        again = true;
                    }
                }
            }
        }
        lines
    }

    /// Makes a call of a transaction. A conflict rolls it back, as a program does.
    fn call(&mut self, name: &str, words: &[&str]) -> Output {
        let Some(transaction) = self.actors.get_mut(name).and_then(|a| a.transaction.take()) else {
            return Ok(vec!["has ended".to_string()]);
        };
        let ended = match words {
            ["commit"] => Some((transaction.commit(), "committed")),
            ["prepare", id] => Some((transaction.prepare(id), "prepared")),
            ["rollback"] => {
                transaction.rollback();
                return Ok(vec!["rolled back".to_string()]);
            }
            _ => {
                let called = self.statement(&transaction, words)?;
                let is_over =
                    called.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict);
                if !is_over && let Some(actor) = self.actors.get_mut(name) {
                    actor.transaction = Some(transaction);
                }
                return Ok(called.unwrap_or_else(|error| vec![failure(&error)]));
            }
        };
        Ok(ended.map_or_else(Vec::new, |(ended, how)| match ended {
            Ok(()) => vec![how.to_string()],
            Err(error) => vec![failure(&error)],
        }))
    }

    /// Makes a call that does not end the transaction.
    fn statement(
        &self,
        transaction: &Transaction,
        words: &[&str],
    ) -> std::result::Result<Result<Vec<String>>, String> {
        let done = |result: Result<()>| result.map(|()| Vec::new());
        Ok(match words {
            ["get", key] => {
                let (keyspace, key) = self.place(key);
                transaction.get_in(&keyspace, key).map(found)
            }
            ["get-for-update", key] => {
                let (keyspace, key) = self.place(key);
                transaction.get_for_update_in(&keyspace, key).map(found)
            }
            ["put", key, value] => {
                let (keyspace, key) = self.place(key);
                done(transaction.put_in(&keyspace, key, value))
            }
            ["delete", key] => {
                let (keyspace, key) = self.place(key);
                done(transaction.delete_in(&keyspace, key))
            }
            ["delete-range", start, end] => {
                let ((keyspace, start), (_, end)) = (self.place(start), self.place(end));
                done(transaction.delete_range_in(&keyspace, start, end))
            }
            ["scan", rest @ ..] => {
                let (keyspace, bounds, divisor) = self.scan(rest)?;
                let pairs = transaction.range_in(&keyspace, bounds).and_then(Iterator::collect);
                pairs.map(|pairs| shown(pairs, divisor))
            }
            ["savepoint"] => done(transaction.savepoint()),
            ["rollback-to-savepoint"] => done(transaction.rollback_to_savepoint()),
            _ => return Err("unknown command of a transaction".to_string()),
        })
    }
}
