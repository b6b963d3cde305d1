//! Threads for work that may wait for another transaction's lock.
//!
//! libuv's pool has four threads by default. If all of them waited for locks, the work that frees
//! the locks would find none. So this pool has as many threads as there is work.
//!
//! Invariant: work never waits for a thread. An idle thread ends after [`IDLE`].

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use esker::{ErrorKind, internals};
use napi::Env;
use napi::bindgen_prelude::Object;

use crate::errors::caught;
use crate::work::{Answer, JsAnswer};

/// Time for which a thread waits for further work.
const IDLE: Duration = Duration::from_secs(2);

type Job = Box<dyn FnOnce() + Send>;
type Resolver = Box<dyn FnOnce(Env) -> napi::Result<JsAnswer>>;

struct Queue {
    jobs: VecDeque<Job>,
    /// Number of threads that wait for work.
    idle: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), idle: 0 });
static MORE: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `job` in a thread in which it may wait. Returns a promise.
pub fn in_a_thread(
    env: &Env,
    job: impl FnOnce() -> esker::Result<Answer> + Send + 'static,
) -> napi::Result<Object<'_>> {
    let (deferred, promise) = env.create_deferred::<JsAnswer, Resolver>()?;
    let mut queue = queue();
    queue.jobs.push_back(Box::new(move || match caught(job) {
        Ok(answer) => deferred.resolve(Box::new(move |_| answer.into_js())),
        Err(error) => deferred.reject(error),
    }));
    if queue.jobs.len() > queue.idle {
        let thread = std::thread::Builder::new().name("esker-transaction".to_string());
        if let Err(error) = thread.spawn(work) {
            let message = format!("a thread for a transaction cannot be started: {error}");
            // The job is the last one, because the queue is still locked. Its promise is dropped.
            queue.jobs.pop_back();
            return caught(|| Err(internals::error(ErrorKind::Io, message, None)));
        }
    }
    drop(queue);
    MORE.notify_one();
    Ok(promise)
}

/// Does work until there is none.
fn work() {
    let mut queue = queue();
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            job();
            queue = self::queue();
            continue;
        }
        queue.idle += 1;
        let (woken, waited) =
            MORE.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
        queue = woken;
        queue.idle -= 1;
        if waited.timed_out() && queue.jobs.is_empty() {
            return;
        }
    }
}
