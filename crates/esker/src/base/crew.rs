//! Threads of the store: how they are started and how they end.
//!
//! A thread that is being born or is dying holds locks of the standard library. A child of `fork` has
//! one thread: a lock that another thread held at that moment stays locked in it for ever, and the
//! child hangs when it starts a thread of its own. So births and deaths happen under one lock of this
//! process, which a `fork` of the C library takes first.
//!
//! What stays true:
//! 1. [`Crew::start`] returns when the thread runs its body, or with an error.
//! 2. Outside of [`Crew::start`] and [`Crew::end`] no thread of a crew is half born or half dead: a
//!    thread whose body has returned, or panicked, waits until the crew ends.
//! 3. No thread of a crew is half born or half dead in a child of `fork`. The system call alone, made
//!    past the C library, does not wait for that.
#![allow(unsafe_code)]

use std::io;
use std::sync::Arc;

use super::sync::thread::{self, JoinHandle};
use super::sync::{Condvar, Mutex};

/// So many mappings of memory must be left before a thread is started: it needs about six for its
/// stacks and its heap, and what it does needs some more.
pub const MAPPINGS_PER_THREAD: usize = 64;

/// Threads that end together. Dropping a crew leaves its threads to themselves.
#[derive(Default)]
pub struct Crew {
    gate: Arc<Gate>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Where a thread says that it runs, and waits after its body.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

std::thread_local! {
    /// Whether this thread is one of a crew.
    static IN_A_CREW: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[derive(Default)]
struct State {
    begun: usize,
    done: usize,
    open: bool,
}

impl Gate {
    fn begin(&self) {
        self.state.lock().begun += 1;
        self.changed.notify_all();
    }

    /// Waits until the crew ends.
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

impl Crew {
    /// Starts a thread and returns when it runs.
    ///
    /// # Errors
    /// The operating system's, when the process may have no more threads (`WouldBlock`), or no more
    /// mappings of memory (`OutOfMemory`): a thread that finds none for its stacks ends the process.
    pub fn start(&self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let gate = self.gate.clone();
        let _births = process::hold_forks();
        check_mappings(MAPPINGS_PER_THREAD)?;
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            IN_A_CREW.set(true);
            gate.begin();
            contain(body);
            gate.leave();
        })?;
        threads.push(thread);
        self.gate.wait_until(|state| state.begun == threads.len());
        Ok(())
    }

    /// Waits until every body has returned, and then until every thread is gone. A thread of the crew
    /// that calls this is not waited for.
    pub fn end(&self) {
        let mut threads = std::mem::take(&mut *self.threads.lock());
        // Asked of no other thread: its handle would be made, and never freed, for one of C's.
        if IN_A_CREW.get() {
            let own = thread::current().id();
            threads.retain(|thread| thread.thread().id() != own);
        }
        let others = threads.len();
        self.gate.wait_until(|state| state.done >= others);
        let _deaths = process::hold_forks();
        self.gate.open();
        for thread in threads {
            // A body's panic was contained, so there is no other outcome.
            let _ = thread.join();
        }
    }
}

/// Fails when the process may have fewer than about `count` more mappings of memory. Where an
/// allocator finds none, the process ends; whoever is about to need memory can be refused before.
///
/// # Errors
/// `OutOfMemory`, of the operating system.
pub fn check_mappings(count: usize) -> io::Result<()> {
    process::check_mappings(count)
}

/// Runs `body`; its panic, which the panic hook has reported, ends it alone.
fn contain(body: impl FnOnce()) {
    if cfg!(feature = "shuttle") {
        // The scheduler has to see it, and ends threads by panics of its own.
        return body();
    }
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
}

/// What belongs to the process.
#[cfg(all(target_os = "linux", not(any(miri, feature = "shuttle"))))]
mod process {
    use std::cell::Cell;
    use std::ffi::c_int;
    use std::io;
    use std::mem::ManuallyDrop;
    use std::ptr;

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use crate::base::locks::{Mutex, MutexGuard};

    /// Held while a thread is born or dies; whether forks take it.
    static BIRTHS: Mutex<bool> = Mutex::new(false);

    thread_local! {
        /// Whether this thread holds `BIRTHS` for a birth or a death.
        static HOLDS: Cell<bool> = const { Cell::new(false) };
        /// The lock, while this thread forks.
        static FORKING: Cell<Option<ManuallyDrop<MutexGuard<'static, bool>>>> =
            const { Cell::new(None) };
    }

    /// While there is one, the process does not fork.
    pub struct Held(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, bool>);

    impl Drop for Held {
        fn drop(&mut self) {
            HOLDS.set(false);
        }
    }

    /// Waits for forks, and makes further ones wait.
    pub fn hold_forks() -> Held {
        let mut registered = BIRTHS.lock();
        if !*registered {
            // SAFETY: the three functions live as long as this code does. They take and release one
            // lock, which the forking thread does not hold, or else they do nothing.
            let failed = unsafe { pthread_atfork(Some(before), Some(after), Some(after)) };
            // Without memory for it, forks are not held up.
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
        // A signal's handler may fork in the middle of a birth, and would wait for itself.
        if !HOLDS.get() {
            FORKING.set(Some(ManuallyDrop::new(BIRTHS.lock())));
        }
    }

    /// In the parent and in the child: there the forking thread is the only one, and holds the lock.
    extern "C" fn after() {
        if let Some(held) = FORKING.take() {
            drop(ManuallyDrop::into_inner(held));
        }
    }

    /// A multiple of the size of a page.
    const PAGE_BYTES: usize = if cfg!(target_arch = "x86_64") { 4 << 10 } else { 64 << 10 };

    /// See [`super::check_mappings`].
    pub fn check_mappings(count: usize) -> io::Result<()> {
        let bytes = (count + 1) * PAGE_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe {
            mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE)?
        };
        let mut checked = Ok(());
        for page in (1..count).step_by(2) {
            let page = start.wrapping_byte_add(page * PAGE_BYTES);
            // SAFETY: the page lies within the mapping just made, which nothing else uses. Each
            // such page makes two mappings more of one.
            checked = unsafe { mprotect(page, PAGE_BYTES, MprotectFlags::READ) };
            if checked.is_err() {
                break;
            }
        }
        // SAFETY: the whole of what was mapped above, to which no pointer is kept.
        unsafe { munmap(start, bytes)? };
        Ok(checked?)
    }
}

/// Where threads and mappings are not the kernel's.
#[cfg(not(all(target_os = "linux", not(any(miri, feature = "shuttle")))))]
mod process {
    use std::io;

    /// Nothing forks here.
    pub struct Held;

    /// Nothing forks here.
    pub fn hold_forks() -> Held {
        Held
    }

    /// There are always enough.
    pub fn check_mappings(_: usize) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::base::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn a_thread_runs_when_start_returns_and_is_gone_when_end_does() {
        let crew = Crew::default();
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
            crew.start("crew", move || {
                LAST.set(Some(Ends(ended)));
                began.fetch_add(1, SeqCst);
                assert_ne!(began.load(SeqCst), 2, "on purpose");
            })
            .unwrap();
            assert_eq!(crew.gate.state.lock().begun, count);
        }
        crew.gate.wait_until(|state| state.done == 3);
        assert_eq!(ended.load(SeqCst), 0, "a thread died before the crew ended");
        crew.end();
        assert_eq!((began.load(SeqCst), ended.load(SeqCst)), (3, 3));
        crew.end();
    }

    #[test]
    fn a_thread_may_end_its_own_crew() {
        let crew = Arc::new(Crew::default());
        let (done, waits) = std::sync::mpsc::channel();
        crew.start("other", || {}).unwrap();
        let own = crew.clone();
        crew.start("own", move || {
            own.end();
            done.send(()).unwrap();
        })
        .unwrap();
        waits.recv().unwrap();
    }
}
