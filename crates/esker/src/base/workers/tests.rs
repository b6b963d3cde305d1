//! Tests of the worker pool with members that count, block and fail to be fair.

use super::*;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// A member whose jobs wait while the gate of their class is shut.
#[derive(Default)]
struct Worked {
    counts: [AtomicUsize; 4],
    at_once: [AtomicUsize; 4],
    at_once_max: [AtomicUsize; 4],
    left: [AtomicUsize; 4],
    shut: [AtomicBool; 4],
    changed: (Mutex<()>, Condvar),
    due: Mutex<Option<Instant>>,
}

impl Worked {
    fn set_shut(&self, class: JobClass, is_shut: bool) {
        self.shut[class as usize].store(is_shut, SeqCst);
        let _lock = self.changed.0.lock();
        self.changed.1.notify_all();
    }

    fn count(&self, class: JobClass) -> usize {
        self.counts[class as usize].load(SeqCst)
    }

    fn running(&self, class: JobClass) -> usize {
        self.at_once[class as usize].load(SeqCst)
    }
}

impl Jobs for Worked {
    fn run(&self, class: JobClass) -> NextJob {
        let at = class as usize;
        let running = self.at_once[at].fetch_add(1, SeqCst) + 1;
        self.at_once_max[at].fetch_max(running, SeqCst);
        let mut lock = self.changed.0.lock();
        while self.shut[at].load(SeqCst) {
            self.changed.1.wait(&mut lock);
        }
        drop(lock);
        self.counts[at].fetch_add(1, SeqCst);
        self.at_once[at].fetch_sub(1, SeqCst);
        let left = self.left[at].fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        match (left, *self.due.lock()) {
            (Ok(_), _) => NextJob::Now,
            (Err(_), Some(due)) if class == JobClass::Short && Instant::now() < due => {
                NextJob::At(due)
            }
            _ => NextJob::WhenAsked,
        }
    }
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::yield_now();
    }
}

fn joined(workers: &Arc<Workers>) -> (Arc<Worked>, Member) {
    let jobs = Arc::new(Worked::default());
    let weak: Weak<Worked> = Arc::downgrade(&jobs);
    let member = workers.join(weak);
    (jobs, member)
}

#[test]
fn jobs_run_from_activation_until_the_member_leaves() {
    let workers = Workers::new(3);
    let (jobs, member) = joined(&workers);
    member.ask(JobClass::Short);
    assert_eq!((workers.threads(), workers.members()), (0, 1));
    jobs.left[JobClass::Flush as usize].store(5, SeqCst);
    member.activate().unwrap();
    wait_until("all jobs", || jobs.count(JobClass::Flush) == 6 && jobs.count(JobClass::Idle) == 1);
    jobs.set_shut(JobClass::Compact, true);
    let before = jobs.count(JobClass::Compact);
    member.ask(JobClass::Compact);
    wait_until("a compaction", || jobs.running(JobClass::Compact) == 1);
    std::thread::scope(|scope| {
        let leaving = scope.spawn(|| member.leave());
        wait_until("retirement", || {
            let state = workers.state.lock();
            state.members.values().all(|entry| !entry.is_active)
        });
        assert!(!leaving.is_finished(), "a running job was not waited for");
        jobs.set_shut(JobClass::Compact, false);
        leaving.join().unwrap();
    });
    assert_eq!(jobs.count(JobClass::Compact), before + 1);
    member.ask(JobClass::Short);
    assert_eq!(workers.members(), 0);
    assert!(workers.threads() <= 3);
    workers.end();
    assert_eq!(Arc::strong_count(&workers), 2, "a worker still exists");
}

#[test]
fn flush_waits_for_no_compaction_and_short_job_for_no_flush() {
    let workers = Workers::new(3);
    let members: Vec<_> = (0..4).map(|_| joined(&workers)).collect();
    for (jobs, _) in &members {
        jobs.set_shut(JobClass::Compact, true);
        jobs.set_shut(JobClass::Idle, true);
        jobs.set_shut(JobClass::Flush, true);
    }
    members.iter().for_each(|(_, member)| member.activate().unwrap());
    let running = |class| members.iter().map(|(jobs, _)| jobs.running(class)).sum::<usize>();
    wait_until("a compaction and a flush", || {
        running(JobClass::Compact) == 1 && running(JobClass::Flush) == 1
    });
    for (jobs, member) in &members {
        let before = jobs.count(JobClass::Short);
        member.ask(JobClass::Short);
        wait_until("a short job", || jobs.count(JobClass::Short) > before);
    }
    assert_eq!(running(JobClass::Idle), 0);
    for (jobs, _) in &members {
        JobClass::ALL.into_iter().for_each(|class| jobs.set_shut(class, false));
    }
    for (jobs, _) in &members {
        wait_until("the other jobs", || {
            JobClass::ALL.into_iter().all(|class| jobs.count(class) > 0)
        });
    }
    drop(members);
    workers.end();
}

#[test]
fn members_take_turns_and_one_has_one_flush_at_a_time() {
    let workers = Workers::new(8);
    let members: Vec<_> = (0..5).map(|_| joined(&workers)).collect();
    for (jobs, member) in &members {
        jobs.left[JobClass::Flush as usize].store(200, SeqCst);
        jobs.left[JobClass::Compact as usize].store(200, SeqCst);
        member.activate().unwrap();
    }
    for (jobs, member) in &members {
        (0..100).for_each(|_| member.ask(JobClass::Flush));
        wait_until("all jobs of a member", || {
            jobs.count(JobClass::Flush) >= 201 && jobs.count(JobClass::Compact) >= 201
        });
        assert_eq!(jobs.at_once_max[JobClass::Flush as usize].load(SeqCst), 1);
    }
    assert!(workers.threads() <= 8);
    drop(members);
    workers.end();
}

#[test]
fn job_runs_again_at_its_time_and_when_asked_before() {
    let workers = Workers::new(3);
    let (jobs, member) = joined(&workers);
    *jobs.due.lock() = Some(Instant::now() + Duration::from_millis(30));
    member.activate().unwrap();
    wait_until("the timer", || jobs.count(JobClass::Short) >= 2);
    *jobs.due.lock() = Some(Instant::now() + Duration::from_secs(3600));
    let before = jobs.count(JobClass::Short);
    member.ask(JobClass::Short);
    wait_until("the request", || jobs.count(JobClass::Short) > before);
    wait_until("the new timer", || workers.state.lock().timers.len() == 1);
    member.ask(JobClass::Short);
    wait_until("the request before the timer", || jobs.count(JobClass::Short) > before + 1);
    drop(member);
    assert!(workers.state.lock().timers.is_empty());
    workers.end();
}

#[test]
fn job_may_leave_the_pool_and_requests_of_dropped_members_do_nothing() {
    struct Leaves(Mutex<Option<Member>>, AtomicBool);
    impl Jobs for Leaves {
        fn run(&self, class: JobClass) -> NextJob {
            if class == JobClass::Flush {
                let member = self.0.lock().take();
                if let Some(member) = member {
                    member.leave();
                    self.1.store(true, SeqCst);
                }
            }
            NextJob::Now
        }
    }
    let workers = Workers::new(3);
    let jobs = Arc::new(Leaves(Mutex::new(None), AtomicBool::new(false)));
    let weak: Weak<Leaves> = Arc::downgrade(&jobs);
    let member = workers.join(weak);
    member.activate().unwrap();
    *jobs.0.lock() = Some(member);
    wait_until("the end of the member", || jobs.1.load(SeqCst));
    assert_eq!(workers.members(), 0);
    let (gone, member) = joined(&workers);
    drop(gone);
    member.activate().unwrap();
    wait_until("empty queues", || workers.state.lock().ready.iter().all(VecDeque::is_empty));
    drop(member);
    workers.end();
}
