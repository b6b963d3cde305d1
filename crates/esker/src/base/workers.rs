//! Worker threads that many stores share: jobs in classes, timers, and fairness between stores.
//!
//! A store is a [`Member`]. It owns no thread. It says that there may be work of a class, and a
//! worker then calls [`Jobs::run`], which does one job at most.
//!
//! Invariants:
//! 1. Of each class except [`JobClass::Compact`], one job of a member runs at a time.
//! 2. Members wait in the order in which they asked. After a job a member waits behind the others.
//! 3. One worker does only short jobs, and one more does no long job. So a short job waits for no
//!    flush, and a flush waits for no compaction. While compactions wait, flushes leave one worker
//!    to them. While flushes wait, short jobs leave one worker to them.
//! 4. A request during a job leads to another job after it.
//! 5. No job of a member runs after [`Member::leave`] has returned, except the one that called it.
//! 6. Workers start and end by the rules of [`super::thread_group`].

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::sync::{Condvar, Mutex};
use super::thread_group::ThreadGroup;

/// Minimum number of workers that a pool may have: one for short jobs, one for flushes, one for
/// long jobs.
pub const WORKERS_MIN: usize = 3;
/// Number of compactions after which another long job goes first.
const COMPACTIONS_IN_TURN: usize = 8;

/// A class of jobs, by urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobClass {
    /// Syncs of logs, new logs, removal of files, delivery of events, publication of metrics.
    Short,
    /// Flushes.
    Flush,
    /// Compactions: pushes and merges.
    Compact,
    /// Searches for empty-range hints, and the scrub.
    Idle,
}

impl JobClass {
    /// All classes, by urgency.
    pub const ALL: [JobClass; 4] =
        [JobClass::Short, JobClass::Flush, JobClass::Compact, JobClass::Idle];
}

/// When a member has the next job of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextJob {
    /// When it asks again.
    WhenAsked,
    /// Perhaps now.
    Now,
    /// At this time, or when it asks before.
    At(Instant),
}

/// The jobs of a member.
pub trait Jobs: Send + Sync {
    /// Does one job of `class`, if there is one. The caller holds no lock. Must not panic.
    fn run(&self, class: JobClass) -> NextJob;
}

std::thread_local! {
    /// The member whose job this worker runs, or 0.
    static RUNNING: Cell<u64> = const { Cell::new(0) };
}

/// What the pool knows of one class of a member.
#[derive(Default, Clone, Copy)]
struct ClassState {
    is_queued: bool,
    running: usize,
    /// Whether the member asked while a job ran.
    is_asked: bool,
    due: Option<Instant>,
}

struct Entry {
    jobs: Weak<dyn Jobs>,
    classes: [ClassState; 4],
    running: usize,
    /// Whether jobs may run.
    is_active: bool,
}

#[derive(Default)]
struct State {
    members: HashMap<u64, Entry>,
    last_number: u64,
    ready: [VecDeque<u64>; 4],
    timers: BTreeSet<(Instant, u64, JobClass)>,
    running: [usize; 4],
    /// Compactions begun since the last other long job.
    compactions: usize,
    workers: usize,
    waiting: usize,
    /// Whether a waiting worker watches the first timer.
    is_timed: bool,
    is_stopped: bool,
}

impl State {
    /// Puts a class of a member into the queue of ready ones.
    fn ask(&mut self, number: u64, class: JobClass) {
        let Some(entry) = self.members.get_mut(&number).filter(|entry| entry.is_active) else {
            return;
        };
        let one = &mut entry.classes[class as usize];
        if one.is_queued {
            return;
        }
        if one.running > 0 && class != JobClass::Compact {
            one.is_asked = true;
            return;
        }
        one.is_queued = true;
        if let Some(due) = one.due.take() {
            self.timers.remove(&(due, number, class));
        }
        self.ready[class as usize].push_back(number);
    }

    /// Moves what is due from the timers to the queues.
    fn fire_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(&(due, number, class)) = self.timers.first().filter(|first| first.0 <= now) {
            self.timers.pop_first();
            if let Some(entry) = self.members.get_mut(&number) {
                debug_assert_eq!(entry.classes[class as usize].due, Some(due));
                entry.classes[class as usize].due = None;
            }
            self.ask(number, class);
        }
    }

    /// Returns whether a job of `class` may begin, of a pool with `most` workers.
    fn is_allowed(&self, class: JobClass, most: usize) -> bool {
        let flushes = self.running[JobClass::Flush as usize];
        let long = self.running[JobClass::Compact as usize] + self.running[JobClass::Idle as usize];
        let is_room = flushes + long + 1 < most;
        match class {
            JobClass::Short => {
                let is_wanted = flushes == 0 && !self.ready[JobClass::Flush as usize].is_empty();
                !is_wanted || self.running.iter().sum::<usize>() + 1 < most
            }
            JobClass::Flush => {
                let is_wanted = !self.ready[JobClass::Compact as usize].is_empty();
                is_room && (!is_wanted || long > 0 || flushes + 2 < most)
            }
            _ => is_room && long + 2 < most,
        }
    }

    /// Takes the next job that may begin, of a pool with `most` workers.
    fn take(&mut self, most: usize) -> Option<(u64, JobClass)> {
        let mut order = JobClass::ALL;
        if self.compactions >= COMPACTIONS_IN_TURN {
            order.swap(2, 3);
        }
        for class in order {
            if self.ready[class as usize].is_empty() || !self.is_allowed(class, most) {
                continue;
            }
            let number = self.ready[class as usize].pop_front()?;
            let Some(entry) = self.members.get_mut(&number) else { continue };
            let one = &mut entry.classes[class as usize];
            one.is_queued = false;
            one.running += 1;
            entry.running += 1;
            self.running[class as usize] += 1;
            match class {
                JobClass::Compact => self.compactions += 1,
                JobClass::Idle => self.compactions = 0,
                _ => {}
            }
            return Some((number, class));
        }
        None
    }

    /// Records the end of a job.
    fn finish(&mut self, number: u64, class: JobClass, next: NextJob) {
        self.running[class as usize] -= 1;
        let Some(entry) = self.members.get_mut(&number) else { return };
        entry.running -= 1;
        let one = &mut entry.classes[class as usize];
        one.running -= 1;
        let is_asked = std::mem::take(&mut one.is_asked);
        match next {
            _ if is_asked => self.ask(number, class),
            NextJob::WhenAsked => {}
            NextJob::Now => self.ask(number, class),
            NextJob::At(due) if entry.is_active && !one.is_queued && one.due.is_none() => {
                one.due = Some(due);
                self.timers.insert((due, number, class));
            }
            NextJob::At(_) => {}
        }
    }

    /// Removes a member from the queues and the timers.
    fn retire(&mut self, number: u64) {
        let Some(entry) = self.members.get_mut(&number) else { return };
        entry.is_active = false;
        for class in JobClass::ALL {
            let one = &mut entry.classes[class as usize];
            if std::mem::take(&mut one.is_queued) {
                self.ready[class as usize].retain(|waiting| *waiting != number);
            }
            if let Some(due) = one.due.take() {
                self.timers.remove(&(due, number, class));
            }
        }
    }
}

/// A pool of worker threads. It has the threads until [`Workers::end`].
pub struct Workers {
    state: Mutex<State>,
    /// Signalled when there is work, or an earlier timer, or the end.
    changed: Condvar,
    /// Signalled when a job of a leaving member has ended.
    ended: Condvar,
    group: ThreadGroup,
    /// Held while a worker is started.
    starting: Mutex<()>,
    most: usize,
}

impl Workers {
    /// Creates a pool of at most `most` workers, but at least [`WORKERS_MIN`]. None is started.
    pub fn new(most: usize) -> Arc<Workers> {
        Arc::new(Workers {
            state: Mutex::default(),
            changed: Condvar::new(),
            ended: Condvar::new(),
            group: ThreadGroup::default(),
            starting: Mutex::new(()),
            most: most.max(WORKERS_MIN),
        })
    }

    /// Returns the number of long jobs that may run at a time.
    pub fn long_jobs_max(&self) -> usize {
        self.most - 2
    }

    /// Returns the number of started workers.
    pub fn threads(&self) -> usize {
        self.state.lock().workers
    }

    /// Returns the number of members.
    pub fn members(&self) -> usize {
        self.state.lock().members.len()
    }

    /// Adds a member, whose jobs do not run before [`Member::activate`].
    pub fn join(self: &Arc<Workers>, jobs: Weak<dyn Jobs>) -> Member {
        let mut state = self.state.lock();
        state.last_number += 1;
        let number = state.last_number;
        let classes = [ClassState::default(); 4];
        let entry = Entry { jobs, classes, running: 0, is_active: false };
        state.members.insert(number, entry);
        Member { workers: self.clone(), number }
    }

    /// Starts workers until there are `count`.
    ///
    /// # Errors
    /// The operating system's error, if not even one worker exists.
    fn ensure(self: &Arc<Workers>, count: usize) -> io::Result<()> {
        let _serial = self.starting.lock();
        loop {
            let number = {
                let state = self.state.lock();
                if state.workers >= count.min(self.most) || state.is_stopped {
                    return Ok(());
                }
                state.workers + 1
            };
            let pool = self.clone();
            let started = self.group.start(&format!("esker-worker-{number}"), move || pool.serve());
            match started {
                Ok(()) => self.state.lock().workers = number,
                Err(_) if number > 1 => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// The body of a worker.
    fn serve(self: Arc<Workers>) {
        let mut state = self.state.lock();
        while !state.is_stopped {
            state.fire_timers();
            let Some((number, class)) = state.take(self.most) else {
                state.waiting += 1;
                match state.timers.first().map(|first| first.0).filter(|_| !state.is_timed) {
                    Some(due) => {
                        state.is_timed = true;
                        self.changed.wait_until(&mut state, due);
                        state.is_timed = false;
                    }
                    None => self.changed.wait(&mut state),
                }
                state.waiting -= 1;
                continue;
            };
            let is_last = state.waiting == 0 && state.workers < self.most;
            if state.waiting > 0 && !state.is_timed && !state.timers.is_empty() {
                // Another worker has to watch the timers meanwhile.
                self.changed.notify_all();
            }
            let jobs = state.members.get(&number).and_then(|entry| entry.jobs.upgrade());
            let workers = state.workers;
            drop(state);
            if is_last {
                // One more worker is to wait for the next job. If it cannot be started, the existing
                // workers do the job.
                let _ = self.ensure(workers + 1);
            }
            let next = jobs.map_or(NextJob::WhenAsked, |jobs| {
                let before = RUNNING.replace(number);
                let next = jobs.run(class);
                // The drop may be that of the store, which leaves the pool.
                drop(jobs);
                RUNNING.set(before);
                next
            });
            state = self.state.lock();
            let first = state.timers.first().map(|first| first.0);
            state.finish(number, class, next);
            self.ended.notify_all();
            // This worker takes the next job. The end of a flush or of a long job can allow others.
            let is_earlier = state.timers.first().map(|first| first.0) != first;
            let is_ready = state.ready.iter().map(VecDeque::len).sum::<usize>() > 1;
            if state.waiting > 0 && (is_ready || (is_earlier && state.is_timed)) {
                self.changed.notify_all();
            }
        }
    }

    fn ask(&self, number: u64, class: JobClass) {
        let mut state = self.state.lock();
        state.ask(number, class);
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Ends the workers and waits for them. If the caller is a worker, it is not waited for.
    pub fn end(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
        // A worker that is being started is in the group before this lock is free.
        drop(self.starting.lock());
        self.group.end();
    }
}

/// A member of a pool. Dropping it leaves the pool.
pub struct Member {
    workers: Arc<Workers>,
    number: u64,
}

impl Member {
    /// Lets the jobs of this member run, and starts workers for them.
    ///
    /// # Errors
    /// The operating system's error, if no worker can be started.
    pub fn activate(&self) -> io::Result<()> {
        self.workers.ensure(2)?;
        if let Some(entry) = self.workers.state.lock().members.get_mut(&self.number) {
            entry.is_active = true;
        }
        JobClass::ALL.into_iter().for_each(|class| self.ask(class));
        Ok(())
    }

    /// Says that there may be work of `class`. Any lock may be held.
    pub fn ask(&self, class: JobClass) {
        self.workers.ask(self.number, class);
    }

    /// Returns a handle that calls [`ask`](Self::ask). It may outlive the member, and then does
    /// nothing.
    pub fn asker(&self) -> Asker {
        Asker { workers: self.workers.clone(), number: self.number }
    }

    /// Returns whether another member waits for a worker with a job of `class`.
    pub fn do_others_wait(&self, class: JobClass) -> bool {
        let state = self.workers.state.lock();
        state.ready[class as usize].iter().any(|number| *number != self.number)
    }

    /// Leaves the pool: no job begins from now on, and the running ones have ended when this
    /// returns. A job that calls this is not waited for.
    pub fn leave(&self) {
        let own = usize::from(RUNNING.get() == self.number);
        let mut state = self.workers.state.lock();
        state.retire(self.number);
        while state.members.get(&self.number).is_some_and(|entry| entry.running > own) {
            self.workers.ended.wait(&mut state);
        }
        state.members.remove(&self.number);
    }
}

/// Asks for the jobs of a member. It keeps neither the member nor its store.
#[derive(Clone)]
pub struct Asker {
    workers: Arc<Workers>,
    number: u64,
}

impl Asker {
    /// Says that there may be work of `class`. Any lock may be held.
    pub fn ask(&self, class: JobClass) {
        self.workers.ask(self.number, class);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests;
