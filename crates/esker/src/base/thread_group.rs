//! Thread groups: starting and joining the background threads of a store.
//!
//! A thread holds locks of the standard library while it starts or exits. A child of `fork` has one
//! thread. A lock held by another thread at the time of the fork stays locked in the child for
//! ever, and the child hangs when it starts a thread. Therefore thread start and exit happen under
//! one process-wide lock, and the C library's `fork` takes that lock first (`pthread_atfork`).
//!
//! Invariants:
//! 1. [`ThreadGroup::start`] returns after the thread has begun to run, or returns an error.
//! 2. Outside [`ThreadGroup::start`] and [`ThreadGroup::end`] no thread of a group is starting or
//!    exiting. A thread waits after its body has returned or panicked, until the group ends.
//! 3. No thread of a group is starting or exiting when the C library's `fork` runs. A direct system
//!    call, which bypasses the C library, has no such protection.
#![allow(unsafe_code)]

use std::io;
use std::sync::Arc;

use super::sync::thread::{self, JoinHandle};
use super::sync::{Condvar, Mutex};

/// Number of memory mappings that must be available before a thread starts. A thread needs about
/// six for its stacks and its heap. Its work needs more.
pub const MAPPINGS_PER_THREAD: usize = 64;

/// A group of threads that end together. Dropping a group detaches its threads.
#[derive(Default)]
pub struct ThreadGroup {
    gate: Arc<Barrier>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The synchronization point of a group. A thread reports here when it has begun, and waits here
/// after its body.
#[derive(Default)]
struct Barrier {
    state: Mutex<State>,
    changed: Condvar,
}

std::thread_local! {
    /// Whether this thread belongs to a group.
    static IN_A_GROUP: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[derive(Default)]
struct State {
    begun: usize,
    done: usize,
    open: bool,
}

impl Barrier {
    fn begin(&self) {
        self.state.lock().begun += 1;
        self.changed.notify_all();
    }

    /// Waits until the group ends.
    fn leave(&self) {
        let mut state = self.state.lock();
        state.done += 1;
        self.changed.notify_all();
        while !state.open {
            self.changed.wait(&mut state);
        }
    }

    fn wait_until(&self, holds: impl Fn(&State) -> bool) {
        let mut state = self.state.lock();
        while !holds(&state) {
            self.changed.wait(&mut state);
        }
    }

    fn open(&self) {
        self.state.lock().open = true;
        self.changed.notify_all();
    }
}

impl ThreadGroup {
    /// Starts a thread and returns after it has begun to run.
    ///
    /// # Errors
    /// The operating system's error: `WouldBlock` at the limit of threads, `OutOfMemory` at the
    /// limit of memory mappings. The limit of mappings is checked beforehand, because a thread that
    /// cannot map its stacks aborts the process.
    pub fn start(&self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let gate = self.gate.clone();
        let _fork_hold = process::hold_forks();
        check_mappings(MAPPINGS_PER_THREAD)?;
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            IN_A_GROUP.set(true);
            gate.begin();
            catch_panic(body);
            gate.leave();
        })?;
        threads.push(thread);
        self.gate.wait_until(|state| state.begun == threads.len());
        Ok(())
    }

    /// Waits until every body has returned, then joins every thread. If the caller is a thread of
    /// the group, it is not waited for.
    pub fn end(&self) {
        let mut threads = std::mem::take(&mut *self.threads.lock());
        // Only for group threads: `thread::current` on a foreign (C) thread allocates a handle that
        // is never freed.
        if IN_A_GROUP.get() {
            let own = thread::current().id();
            threads.retain(|thread| thread.thread().id() != own);
        }
        let others = threads.len();
        self.gate.wait_until(|state| state.done >= others);
        let _fork_hold = process::hold_forks();
        self.gate.open();
        for thread in threads {
            // `catch_panic` caught a panic of the body, so `join` cannot fail.
            let _ = thread.join();
        }
    }
}

/// Checks that the process can create about `count` more memory mappings. An allocator that cannot
/// map memory aborts the process. This check allows the store to return an error before that.
///
/// # Errors
/// The operating system's `OutOfMemory` if fewer mappings are available.
pub fn check_mappings(count: usize) -> io::Result<()> {
    process::check_mappings(count)
}

/// Runs `body` and catches its panic. The panic hook has already reported it.
fn catch_panic(body: impl FnOnce()) {
    if cfg!(esker_shuttle) {
        // The scheduler must see panics, and uses panics of its own to end threads.
        return body();
    }
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
}

/// The process-wide fork lock and the check for memory mappings, on Linux.
#[cfg(all(target_os = "linux", not(any(miri, esker_shuttle, esker_portable))))]
mod process {
    use std::cell::Cell;
    use std::ffi::c_int;
    use std::io;
    use std::mem::ManuallyDrop;
    use std::ptr;

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use crate::base::locks::{Mutex, MutexGuard};

    /// The lock held while a thread starts or exits. The value tells whether the fork handlers are
    /// registered.
    static START_STOP: Mutex<bool> = Mutex::new(false);

    thread_local! {
        /// Whether this thread holds `START_STOP` to start or join threads.
        static HOLDS: Cell<bool> = const { Cell::new(false) };
        /// The guard of `START_STOP` while this thread forks.
        static FORKING: Cell<Option<ManuallyDrop<MutexGuard<'static, bool>>>> =
            const { Cell::new(None) };
    }

    /// A guard that prevents the process from forking.
    pub struct Held(
        #[expect(dead_code, reason = "it keeps the mutex locked")] MutexGuard<'static, bool>,
    );

    impl Drop for Held {
        fn drop(&mut self) {
            HOLDS.set(false);
        }
    }

    /// Waits for a fork in progress to finish, and blocks further forks until the guard is dropped.
    pub fn hold_forks() -> Held {
        let mut registered = START_STOP.lock();
        if !*registered {
            // SAFETY: the three functions live as long as this code. They take and release one
            // lock. If the forking thread already holds the lock, they do nothing.
            let failed = unsafe { pthread_atfork(Some(before), Some(after), Some(after)) };
            // If registration fails for lack of memory, forks do not wait.
            *registered = failed == 0;
        }
        HOLDS.set(true);
        Held(registered)
    }

    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> c_int;
    }

    extern "C" fn before() {
        // A signal handler may fork while its own thread starts a thread. Waiting would deadlock.
        if !HOLDS.get() {
            FORKING.set(Some(ManuallyDrop::new(START_STOP.lock())));
        }
    }

    /// Releases the lock, in the parent and in the child. The child's only thread is the forking
    /// thread, which holds the lock.
    extern "C" fn after() {
        if let Some(held) = FORKING.take() {
            drop(ManuallyDrop::into_inner(held));
        }
    }

    /// A multiple of the page size, in bytes.
    const PAGE_BYTES: usize = if cfg!(target_arch = "x86_64") { 4 << 10 } else { 64 << 10 };

    /// Implements [`super::check_mappings`]: creates about `count` mappings and removes them.
    pub fn check_mappings(count: usize) -> io::Result<()> {
        let bytes = (count + 1) * PAGE_BYTES;
        // SAFETY: a new mapping at an address chosen by the kernel touches no memory in use.
        let start = unsafe {
            mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE)?
        };
        let mut checked = Ok(());
        for page in (1..count).step_by(2) {
            let page = start.wrapping_byte_add(page * PAGE_BYTES);
            // SAFETY: the page lies within the new mapping, which nothing else uses. Each such page
            // splits one mapping into three.
            checked = unsafe { mprotect(page, PAGE_BYTES, MprotectFlags::READ) };
            if checked.is_err() {
                break;
            }
        }
        // SAFETY: this is the whole mapping made above, and no pointer into it remains.
        unsafe { munmap(start, bytes)? };
        Ok(checked?)
    }
}

/// The fallback for other systems, the portable half, Miri and Shuttle: no fork lock and no check.
#[cfg(not(all(target_os = "linux", not(any(miri, esker_shuttle, esker_portable)))))]
mod process {
    use std::io;

    /// An empty guard.
    pub struct Held;

    /// Returns an empty guard. It does not hold up forks.
    pub fn hold_forks() -> Held {
        Held
    }

    /// Always succeeds.
    pub fn check_mappings(_: usize) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use crate::base::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn thread_runs_after_start_and_is_joined_by_end() {
        let group = ThreadGroup::default();
        let (began, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        struct Ends(Arc<AtomicUsize>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        std::thread_local! {
            static LAST: std::cell::RefCell<Option<Ends>> = const { std::cell::RefCell::new(None) };
        }
        for count in 1..=3 {
            let ended = ended.clone();
            let began = began.clone();
            group
                .start("group", move || {
                    LAST.set(Some(Ends(ended)));
                    began.fetch_add(1, SeqCst);
                    assert_ne!(began.load(SeqCst), 2, "deliberate panic");
                })
                .unwrap();
            assert_eq!(group.gate.state.lock().begun, count);
        }
        group.gate.wait_until(|state| state.done == 3);
        assert_eq!(ended.load(SeqCst), 0, "a thread ended before the group");
        group.end();
        assert_eq!((began.load(SeqCst), ended.load(SeqCst)), (3, 3));
        group.end();
    }

    #[test]
    fn thread_may_end_its_own_group() {
        let group = Arc::new(ThreadGroup::default());
        let (done, waits) = std::sync::mpsc::channel();
        group.start("other", || {}).unwrap();
        let own = group.clone();
        group
            .start("own", move || {
                own.end();
                done.send(()).unwrap();
            })
            .unwrap();
        waits.recv().unwrap();
    }
}
