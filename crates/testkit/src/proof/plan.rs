//! What is run and judged: the subjects, the planted bugs, the parameters of a child process, and
//! the keys of an operation.
//!
//! Invariants:
//! * A child's parameters survive the way over its command line.
//! * The number of started operations of a history, over all of its children, selects the keys in
//!   use. So each key has a bounded number of operations, and the next child uses keys that the
//!   last one has used.

use std::path::PathBuf;
use std::sync::Arc;

use esker::{Options, Policy};

use crate::campaign::script::{Theme, options};
use crate::rng::SplitMix64;
use crate::torture::plan::rng_at;

/// Maximum number of threads of a child.
pub const THREADS_MAX: u64 = 16;
/// Maximum number of sessions of a child. A session is one opening of the store.
pub const SESSIONS_MAX: u64 = 64;

/// What a history is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Transactions under `Isolation::Snapshot`.
    Snapshot,
    /// Transactions under `Isolation::Serializable`.
    Serializable,
    /// Plain puts, gets, deletes and removals.
    Plain,
}

impl Subject {
    /// Every subject.
    pub const ALL: [Subject; 3] = [Subject::Snapshot, Subject::Serializable, Subject::Plain];

    /// Returns the name on the command line and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Snapshot => "snapshot",
            Subject::Serializable => "serializable",
            Subject::Plain => "plain",
        }
    }

    /// Returns the number of keys in use at a time.
    fn keys(self) -> u64 {
        if self == Subject::Plain { 6 } else { 15 }
    }

    /// Returns the number of operations after which the keys move on by one.
    fn step(self) -> u64 {
        if self == Subject::Plain { 300 } else { 14 }
    }

    /// Returns the key of an operation, when `started` operations were started before. One in
    /// twelve is an old key, whose data may be in tables.
    pub fn key(self, rng: &mut SplitMix64, started: u64) -> u64 {
        let first = started / self.step();
        if rng.chance(12) {
            first.saturating_sub(rng.below(64))
        } else {
            first + rng.below(self.keys())
        }
    }

    /// Returns the keys that were used shortly before `started` operations were started.
    pub fn recent_keys(self, started: u64) -> std::ops::Range<u64> {
        let first = started / self.step();
        first.saturating_sub(32)..first + self.keys()
    }
}

/// A bug between the workload and the store. The judge must find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// No bug.
    None,
    /// One transaction in ten is committed as a batch, without a check for conflicts.
    LostUpdate,
    /// Transactions that should be serializable run under snapshot isolation.
    WriteSkew,
    /// One transaction in ten reads what is newest at each read.
    ReadSkew,
    /// Serializable transactions protect the keys that a scan found, not its range.
    Phantom,
    /// One transaction in ten commits the writes of each keyspace by themselves.
    TornBatch,
    /// One plain get in 500 reads an old snapshot.
    StaleRead,
    /// One plain put in ten is not logged, so a death loses it.
    LostWrite,
    /// One plain put in ten that expires is stored without its expiry.
    ResurrectedExpiry,
}

impl Plant {
    /// Every bug.
    pub const BUGS: [Plant; 8] = [
        Plant::LostUpdate,
        Plant::WriteSkew,
        Plant::ReadSkew,
        Plant::Phantom,
        Plant::TornBatch,
        Plant::StaleRead,
        Plant::LostWrite,
        Plant::ResurrectedExpiry,
    ];

    /// Returns the name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Plant::None => "none",
            Plant::LostUpdate => "lost-update",
            Plant::WriteSkew => "write-skew",
            Plant::ReadSkew => "read-skew",
            Plant::Phantom => "phantom",
            Plant::TornBatch => "torn-batch",
            Plant::StaleRead => "stale-read",
            Plant::LostWrite => "lost-write",
            Plant::ResurrectedExpiry => "resurrected-expiry",
        }
    }

    /// Returns the subject whose judge must find the bug.
    pub fn subject(self) -> Subject {
        match self {
            Plant::None | Plant::LostUpdate | Plant::ReadSkew | Plant::TornBatch => {
                Subject::Snapshot
            }
            Plant::WriteSkew | Plant::Phantom => Subject::Serializable,
            Plant::StaleRead | Plant::LostWrite | Plant::ResurrectedExpiry => Subject::Plain,
        }
    }

    /// Returns how the judge's names of the finding begin. All but the last are those of `adya`. A
    /// lost append is either seen by its writer, or it was read before another one took its place: two
    /// reads of the list then have incompatible orders.
    pub fn findings(self) -> &'static [&'static str] {
        match self {
            Plant::None => &[""],
            Plant::LostUpdate => &["lost-update", "incompatible-order"],
            Plant::ReadSkew | Plant::TornBatch => &["G-single"],
            Plant::WriteSkew | Plant::Phantom => &["G2-item"],
            Plant::StaleRead | Plant::LostWrite | Plant::ResurrectedExpiry => &["not linearizable"],
        }
    }
}

/// How a child ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It closes the store and exits.
    Finish,
    /// It is killed from outside.
    Outside,
    /// It kills itself at a file operation, if it comes to it.
    Inside,
    /// Syncs fail, and it is killed from outside.
    Syncs,
}

impl End {
    const ALL: [End; 4] = [End::Finish, End::Outside, End::Inside, End::Syncs];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            End::Finish => "finish",
            End::Outside => "outside",
            End::Inside => "inside",
            End::Syncs => "syncs",
        }
    }
}

/// The parameters of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildParams {
    /// The directory of the store, `db`, and of the recorded events.
    pub dir: PathBuf,
    /// The kind of operations.
    pub subject: Subject,
    /// The planted bug.
    pub plant: Plant,
    /// The seed of the history.
    pub seed: u64,
    /// The number of children of the history before this one.
    pub round: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of operations that earlier children have started.
    pub started: u64,
    /// The first number of the clock, above every number that an earlier child has recorded.
    pub clock: u64,
    /// Number of operations to start.
    pub count: u64,
    /// How the child ends.
    pub end: End,
}

impl ChildParams {
    /// Returns the words of the command line after `child`.
    pub fn to_words(&self) -> Vec<String> {
        let numbers =
            [self.seed, self.round, self.threads, self.started, self.clock, self.count].into_iter();
        [self.subject.name(), self.plant.name(), self.end.name()]
            .map(str::to_string)
            .into_iter()
            .chain(numbers.map(|number| number.to_string()))
            .collect()
    }

    /// Returns the parameters in a directory and the words of [`ChildParams::to_words`], or `None`
    /// for other words.
    pub fn from_words(dir: PathBuf, words: &[String]) -> Option<ChildParams> {
        let [subject, plant, end, numbers @ ..] = words else { return None };
        let plants = [Plant::None].into_iter().chain(Plant::BUGS);
        let numbers = numbers.iter().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let [seed, round, threads, started, clock, count] = numbers[..] else { return None };
        Some(ChildParams {
            dir,
            subject: Subject::ALL.into_iter().find(|known| known.name() == subject)?,
            plant: plants.into_iter().find(|known| known.name() == plant)?,
            end: End::ALL.into_iter().find(|known| known.name() == end)?,
            seed,
            round,
            threads,
            started,
            clock,
            count,
        })
    }

    /// Returns the number of a session in the history.
    pub fn session(&self, number: u64) -> u64 {
        self.round * SESSIONS_MAX + number
    }

    /// Returns the number of a process in the history: one thread of one session of one child.
    pub fn process(&self, session: u64, thread: u64) -> u64 {
        self.session(session) * THREADS_MAX + thread
    }
}

/// Returns the time that the store's clock shows during a session. Time passes between sessions alone,
/// so that a pair expires when no operation runs.
pub fn session_ms(session: u64) -> u64 {
    1_700_000_000_000 + 1000 * session
}

/// A clock that shows the time of a session.
struct SessionClock(u64);

impl esker::Clock for SessionClock {
    fn now_ms(&self) -> u64 {
        session_ms(self.0)
    }
}

/// Returns the options of a session: small enough that it flushes and compacts.
pub fn session_options(seed: u64, round: u64, session: u64) -> Options {
    let mut rng = rng_at(seed, 71, round * SESSIONS_MAX + session);
    let policy = Policy::ALL[rng.below(Policy::ALL.len() as u64) as usize];
    let theme = Theme::ALL[rng.below(Theme::ALL.len() as u64) as usize];
    let mut options = options(policy, theme, rng.below(1 << 20));
    options.background_threads = Some([1, 2, 1, 0][rng.below(4) as usize]);
    options.sync_every_ms = [0, 0, 3][rng.below(3) as usize];
    let sizes = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
    options.memtable_size_bytes = Some(sizes[rng.below(4) as usize]);
    options.file_size_max_bytes = 64 << 10;
    options.guard_size_max_bytes = 128 << 10;
    options.clock = Some(Arc::new(SessionClock(round * SESSIONS_MAX + session)));
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_survive_the_command_line() {
        for plant in Plant::BUGS {
            let params = ChildParams {
                dir: PathBuf::from("/x"),
                subject: plant.subject(),
                plant,
                seed: 1,
                round: 2,
                threads: 3,
                started: 4,
                clock: 5,
                count: 6,
                end: End::Syncs,
            };
            let words = params.to_words();
            assert_eq!(ChildParams::from_words(PathBuf::from("/x"), &words), Some(params));
            assert_eq!(ChildParams::from_words(PathBuf::from("/x"), &words[1..]), None);
        }
    }

    #[test]
    fn keys_move_on() {
        let mut rng = SplitMix64::new(1);
        for subject in Subject::ALL {
            let early: Vec<u64> = (0..200).map(|_| subject.key(&mut rng, 0)).collect();
            let late: Vec<u64> = (0..200).map(|_| subject.key(&mut rng, 100_000)).collect();
            assert!(early.iter().all(|key| *key < 64) && late.iter().all(|key| *key > 200));
            let recent = subject.recent_keys(100_000);
            assert!(late.iter().filter(|key| recent.contains(key)).count() > 180);
        }
    }
}
