//! The process that dies: it opens the store, runs the workload with many threads beside
//! maintenance, closes the store and opens it again, until it is killed or has done its part.
//!
//! On its standard output it says `opened` after each opening, `serving` before its first
//! operation, `failed N` after N syncs failed, and `done` at its end. A child that shall be killed
//! then waits for the end of its standard input, so that it does not outlive its parent.
//!
//! Invariants: where no fault is planned, any error of the store other than a conflict ends the
//! process with a message. After such an error, or an error of unknown effect, no operation of that
//! session starts.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use esker::fs::OsFs;
use esker::{Error, Result};
use parking_lot::Mutex;

use super::plan::{ChildParams, End, SESSIONS_MAX, Subject, session_options};
use super::record::{Clock, Recorder};
use super::store::{Place, Store};
use super::{plain, transactions};
use crate::fault::{Fault, FaultFs, FaultKind, Op, OpMask};
use crate::rng::SplitMix64;
use crate::torture::plan::rng_at;
use crate::torture::victim::{die, kill_point};

/// Says a line to the parent.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Without a parent nobody listens.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Ends the process because of a broken promise.
fn broken(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(3);
}

struct Child {
    params: ChildParams,
    fs: Arc<FaultFs>,
    clock: Clock,
    /// Number of operations that the history has started.
    started: AtomicU64,
}

/// What the threads of a session share.
struct Session<'a> {
    number: u64,
    store: &'a Store,
    /// The operations end here.
    limit: u64,
    stop: AtomicBool,
    working: AtomicU64,
    errors: Mutex<Vec<Error>>,
}

/// Runs by `params`, and ends the process.
pub fn run(params: ChildParams) -> ! {
    let fs = FaultFs::new(OsFs::shared());
    if params.end == End::Inside {
        fs.at_death(Arc::new(|_, _| die()));
        fs.arm(kill_point(&mut rng_at(params.seed, 72, params.round)));
    }
    let (clock, started) = (Clock::new(params.clock), AtomicU64::new(params.started));
    let child = Child { params, fs, clock, started };
    child.run_sessions();
    say("done");
    if matches!(child.params.end, End::Outside | End::Syncs) {
        // The parent kills now. At its own end the input ends.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    }
    std::process::exit(0);
}

impl Child {
    fn run_sessions(&self) {
        let mut rng = rng_at(self.params.seed, 73, self.params.round);
        let end = self.params.started + self.params.count;
        for number in 0..SESSIONS_MAX {
            let started = self.started.load(Ordering::Relaxed);
            let left = end.saturating_sub(started);
            if left == 0 {
                return;
            }
            let last = number + 1 == SESSIONS_MAX || rng.chance(3);
            let limit = if last { end } else { started + 1 + rng.below(left) };
            self.run_session(number, limit);
        }
    }

    /// Opens the store, works on it and closes it.
    fn run_session(&self, number: u64, limit: u64) {
        let params = &self.params;
        let options = session_options(params.seed, params.round, number);
        let path = params.dir.join("db");
        let store = Store::open(self.fs.clone(), &path, options)
            .unwrap_or_else(|error| broken(&format!("open: {error}")));
        say("opened");
        if number == 0 {
            say("serving");
        }
        let mut rng = rng_at(params.seed ^ params.round, 74, number);
        resolve_prepared(&store, &mut rng)
            .unwrap_or_else(|error| broken(&format!("end a prepared transaction: {error}")));
        if params.end == End::Syncs {
            self.fs.arm(failing_sync(&mut rng));
        }
        let session = Session {
            number,
            store: &store,
            limit,
            stop: AtomicBool::new(false),
            working: AtomicU64::new(params.threads),
            errors: Mutex::new(Vec::new()),
        };
        std::thread::scope(|scope| {
            for thread in 0..params.threads {
                let session = &session;
                scope.spawn(move || {
                    let _ended = Ended(session);
                    if let Err(error) = self.work(session, thread) {
                        session.stop.store(true, Ordering::Relaxed);
                        session.errors.lock().push(error);
                    }
                });
            }
            maintain(&session, &mut rng);
        });
        let errors = session.errors.into_inner();
        self.end_session(store, errors);
    }

    fn end_session(&self, store: Store, mut errors: Vec<Error>) {
        let is_faulty = self.params.end == End::Syncs;
        if is_faulty {
            say(&format!("failed {}", self.fs.hits()));
            self.fs.disarm();
        }
        let Store { db, .. } = store;
        errors.extend(db.close().err());
        match errors.into_iter().next() {
            Some(error) if !is_faulty => broken(&format!("an operation: {error}")),
            _ => {}
        }
    }

    /// Runs the operations of one thread: first it reads what was written before.
    fn work(&self, session: &Session<'_>, thread: u64) -> Result<()> {
        let params = &self.params;
        let process = params.process(session.number, thread);
        let recorder = Recorder::create(&params.dir, process, &self.clock).expect("record events");
        let rng = rng_at(params.seed, 75, process);
        let threads = params.threads as usize;
        let recent = params.subject.recent_keys(self.started.load(Ordering::Relaxed));
        let recent: Vec<u64> = recent.skip(thread as usize).step_by(threads).collect();
        let sync_one_in = if params.end == End::Syncs { 10 } else { 100 };
        if params.subject == Subject::Plain {
            let (store, plant) = (session.store, params.plant);
            let (session_id, old) = (params.session(session.number), None);
            let mut worker = plain::Worker {
                store,
                plant,
                session: session_id,
                rng,
                recorder,
                old,
                sync_one_in,
            };
            let done = recent.iter().try_for_each(|key| worker.read(*key));
            let done = done.and_then(|()| self.repeat(session, |n| worker.one(n)));
            worker.recorder.flush().expect("record events");
            return done;
        }
        let (store, subject, plant) = (session.store, params.subject, params.plant);
        let mut worker = transactions::Worker { store, subject, plant, rng, recorder, sync_one_in };
        let done = recent.chunks(3).try_for_each(|lists| worker.read(lists));
        let done = done.and_then(|()| self.repeat(session, |n| worker.one(n)));
        worker.recorder.flush().expect("record events");
        done
    }

    fn repeat(&self, session: &Session<'_>, mut one: impl FnMut(u64) -> Result<()>) -> Result<()> {
        while !session.stop.load(Ordering::Relaxed) {
            let started = self.started.fetch_add(1, Ordering::Relaxed);
            if started >= session.limit {
                self.started.fetch_sub(1, Ordering::Relaxed);
                break;
            }
            one(started)?;
        }
        Ok(())
    }
}

/// Notes the end of a thread, also after a panic.
struct Ended<'a, 'b>(&'a Session<'b>);

impl Drop for Ended<'_, '_> {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Release);
    }
}

/// Commits the prepared transactions that the last session has left, or rolls them back.
fn resolve_prepared(store: &Store, rng: &mut SplitMix64) -> Result<()> {
    store.db.prepared_transactions().iter().try_for_each(|name| match rng.chance(3) {
        true => store.db.rollback_prepared(name),
        false => store.db.commit_prepared(name),
    })
}

/// Returns a sync that fails, or from which on all fail.
fn failing_sync(rng: &mut SplitMix64) -> Fault {
    let syncs = OpMask::of(&[Op::Sync, Op::SyncDir]);
    let most = [2, 8, 40][rng.below(3) as usize];
    let nth = 1 + rng.below(most);
    let fault = match rng.chance(2) {
        true => Fault::for_ever(syncs, nth, FaultKind::Io),
        false => Fault::once(syncs, nth, FaultKind::Io),
    };
    fault.on(["", ".wal", ".wal", ".sst", "manifest-"][rng.below(5) as usize])
}

/// Runs maintenance until the threads have ended.
fn maintain(session: &Session<'_>, rng: &mut SplitMix64) {
    let db = &session.store.db;
    while session.working.load(Ordering::Acquire) > 0 {
        let done = match rng.below(12) {
            0 => db.flush(),
            1 => db.compact_range(None, None),
            2 => session.store.keyspace(Place::Rows).compact_range(None, None),
            3 => db.sync(),
            4 => {
                let sizes = ["16384", "65536", "1048576"];
                db.set_options(&[("memtable_size_bytes", sizes[rng.below(3) as usize])])
            }
            _ if db.option("background_threads").as_deref() == Some("0") => {
                db.run_one_job().map(drop)
            }
            _ => Ok(()),
        };
        if let Err(error) = done {
            session.stop.store(true, Ordering::Relaxed);
            session.errors.lock().push(error);
        }
        std::thread::sleep(Duration::from_micros(rng.below(4_000)));
    }
}
