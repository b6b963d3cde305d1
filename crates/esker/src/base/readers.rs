//! Readers that write to nothing others read: what they look at is freed when all who may look at it
//! have gone on.
//!
//! A count of users costs two locked instructions a look, each of which holds up every read behind
//! it, and a get of a cached pair made five. Here a reader says where it is in a word of its own, with
//! plain stores: odd while it is inside. Who frees makes the thing unreachable, lets every processor
//! of this process catch up, and leaves it to those that were inside to free it when they come out.
//! ("Read-copy update": McKenney and Slingwine, PDCS 1998; in user space
//! Desnoyers et al., IEEE TPDS 2012, from which is the barrier that only who frees pays for, Linux's
//! `membarrier`.) Where there is no such barrier, readers pay for one; where the system comes to refuse
//! it later, nothing is freed any more before the readers' end.
//!
//! What stays true: what is retired is dropped after every [`Reading`] has ended that began before
//! [`Readers::retire`] was called; a thread's word is written by that thread alone.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use super::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence, fence};
use super::sync::{Bug, Mutex, is_seeded};
use super::thread_number::ThreadNumber;

/// So many threads have a word from the beginning; every further group is twice as large.
const FIRST: usize = if cfg!(feature = "shuttle") { 1 } else { 16 };
/// So many groups there can be.
const GROUPS: usize = 24;

/// One thread's word, alone on its cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    /// Odd while the thread is inside; one more at each coming and going.
    turn: AtomicUsize,
    /// How many readings it has begun and not ended.
    depth: Depth,
    /// Whether something may wait for it to come out.
    awaited: AtomicBool,
}

/// A number for the slot's thread alone.
#[derive(Default)]
struct Depth(std::sync::atomic::AtomicUsize);

impl Depth {
    #[inline]
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, depth: usize) {
        self.0.store(depth, Ordering::Relaxed);
    }
}

/// Something nobody new can reach.
struct Retired {
    /// Which slots were inside, and in what turn; `None` until that is known.
    waits: Option<Arc<[(usize, usize)]>>,
    #[expect(dead_code, reason = "it is kept to be dropped")]
    garbage: Box<dyn Any + Send>,
}

/// Those who read some shared things.
pub struct Readers {
    /// Whether who frees can make every processor catch up.
    asymmetric: bool,
    /// In a child of a `fork`, nothing is freed: who holds the lock may be a thread that is not there.
    process: u32,
    first: Box<[Slot]>,
    more: [OnceLock<Box<[Slot]>>; GROUPS],
    retired: Mutex<Vec<Retired>>,
}

impl Default for Readers {
    fn default() -> Readers {
        Readers {
            asymmetric: barrier::register(),
            process: std::process::id(),
            first: slots(FIRST, false),
            more: std::array::from_fn(|_| OnceLock::new()),
            retired: Mutex::new(Vec::new()),
        }
    }
}

fn slots(count: usize, awaited: bool) -> Box<[Slot]> {
    let slot = || Slot { awaited: AtomicBool::new(awaited), ..Slot::default() };
    (0..count).map(|_| slot()).collect()
}

impl Readers {
    /// Begins to read: what is retired from now on stays until this is dropped. Readings of one
    /// thread may lie within each other; the outermost counts.
    #[inline]
    pub fn enter(&self) -> Reading<'_> {
        let thread = ThreadNumber::mine();
        let slot = self.slot(thread.get());
        let depth = slot.depth.get();
        slot.depth.set(depth + 1);
        if depth == 0 {
            // Release: who finds this turn knows that all before it is over.
            slot.turn.store(slot.turn.load(Ordering::Relaxed) + 1, Ordering::Release);
            self.light_barrier();
        }
        Reading { readers: self, slot, thread, own: PhantomData }
    }

    /// Drops `garbage`, which no reader who enters from now on can reach, when all who are inside have
    /// come out: at once, or later by one of them. It may run while locks of the caller are held.
    pub fn retire<T: Send + 'static>(&self, garbage: T) {
        if self.is_forked() {
            std::mem::forget(garbage);
            return;
        }
        let retired = Retired { waits: None, garbage: Box::new(garbage) };
        self.retired.lock().push(retired);
        self.settle(None);
    }

    /// Drops what is left to be dropped and can be.
    pub fn flush(&self) {
        self.settle(None);
    }

    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    #[inline]
    fn slot(&self, number: usize) -> &Slot {
        match self.first.get(number) {
            Some(slot) => slot,
            None => self.far_slot(number),
        }
    }

    #[cold]
    fn far_slot(&self, number: usize) -> &Slot {
        // Group n has FIRST << n slots, from number FIRST << n on.
        let group = (number / FIRST).ilog2() as usize;
        // Awaited from the beginning: who settles may have told those it saw before this was here, and
        // finds it when it looks who is inside.
        let slots = self.more[group].get_or_init(|| slots(FIRST << group, true));
        &slots[number - (FIRST << group)]
    }

    /// Every slot that a thread may have, with its number.
    fn slots(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let more = self.more.iter().enumerate().filter_map(|(group, slots)| {
            let slots = slots.get()?;
            Some(slots.iter().enumerate().map(move |(at, slot)| ((FIRST << group) + at, slot)))
        });
        self.first.iter().enumerate().chain(more.flatten())
    }

    /// What [`barrier::heavy`] orders: a reader's store before this and its loads after it.
    #[inline]
    fn light_barrier(&self) {
        if self.asymmetric {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Drops what nobody waits for any more. `out` is the slot of the caller if it has just come out.
    #[cold]
    fn settle(&self, out: Option<&Slot>) {
        if self.is_forked() {
            return;
        }
        let mut over = Vec::new();
        let mut retired = self.retired.lock();
        if let Some(slot) = out {
            // With the lock held, so that no wait for a later turn of this thread is forgotten.
            slot.awaited.store(false, Ordering::Relaxed);
        }
        if retired.iter().any(|one| one.waits.is_none()) {
            // Before the barrier: whoever comes out and is not seen outside below sees this.
            self.slots().for_each(|(_, slot)| slot.awaited.store(true, Ordering::Relaxed));
            if barrier::heavy(self.asymmetric) {
                let inside: Arc<[(usize, usize)]> = self
                    .slots()
                    .map(|(number, slot)| (number, slot.turn.load(Ordering::Acquire)))
                    .filter(|(_, turn)| turn % 2 == 1)
                    .collect();
                for one in &mut *retired {
                    one.waits.get_or_insert_with(|| inside.clone());
                }
            }
        }
        let passed = |&(number, turn): &(usize, usize)| {
            self.slot(number).turn.load(Ordering::Acquire) != turn || is_seeded(Bug::FreeAtOnce)
        };
        over.extend(retired.extract_if(.., |one| {
            one.waits.as_ref().is_some_and(|waits| waits.iter().all(passed))
        }));
        drop(retired);
        // What is dropped may retire more.
        drop(over);
    }
}

/// A thread that is reading. Not for other threads.
pub struct Reading<'r> {
    readers: &'r Readers,
    slot: &'r Slot,
    #[expect(dead_code, reason = "the slot is this thread's as long as its number is")]
    thread: ThreadNumber,
    own: PhantomData<Cell<*const ()>>,
}

impl Reading<'_> {
    /// Whether it is one of `readers`.
    #[inline]
    pub fn is_of(&self, readers: &Readers) -> bool {
        std::ptr::eq(self.readers, readers)
    }
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        let slot = self.slot;
        let depth = slot.depth.get() - 1;
        slot.depth.set(depth);
        if depth == 0 {
            // Release: what was read was read before it is freed.
            slot.turn.store(slot.turn.load(Ordering::Relaxed) + 1, Ordering::Release);
            self.readers.light_barrier();
            if slot.awaited.load(Ordering::Relaxed) && !is_seeded(Bug::LeaveUnasked) {
                self.readers.settle(Some(slot));
            }
        }
    }
}

#[cfg(all(target_os = "linux", not(any(miri, feature = "shuttle"))))]
mod barrier {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::atomic::{Ordering, fence};

    /// Whether [`heavy`] can do without the readers' help.
    pub fn register() -> bool {
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    /// Has every thread of this process see what this one has written, and this one what they have.
    /// False if the system could not, for want of memory: then it is to be tried again.
    pub fn heavy(asymmetric: bool) -> bool {
        if asymmetric {
            return membarrier(MembarrierCommand::PrivateExpedited).is_ok();
        }
        fence(Ordering::SeqCst);
        true
    }
}

#[cfg(not(all(target_os = "linux", not(any(miri, feature = "shuttle")))))]
mod barrier {
    use super::super::sync::atomic::{Ordering, fence};

    pub fn register() -> bool {
        false
    }

    pub fn heavy(_: bool) -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::base::shown::Shown;
    use std::sync::Barrier;

    #[test]
    fn what_is_retired_is_dropped_when_those_inside_have_come_out() {
        let readers = Readers::default();
        let users = Arc::new(());
        readers.retire(users.clone());
        assert_eq!(Arc::strong_count(&users), 1, "nobody was inside");
        let outer = readers.enter();
        let inner = readers.enter();
        readers.retire(users.clone());
        drop(inner);
        assert_eq!(Arc::strong_count(&users), 2);
        let other = readers.enter();
        readers.retire(users.clone());
        drop(outer);
        assert_eq!(Arc::strong_count(&users), 3, "readings need not end in order");
        drop(other);
        assert_eq!(Arc::strong_count(&users), 1);
        let stores = [Readers::default(), Readers::default()];
        let reading = stores[0].enter();
        stores[1].retire(users.clone());
        assert_eq!(Arc::strong_count(&users), 1, "readers of something else");
        assert!(reading.is_of(&stores[0]) && !reading.is_of(&stores[1]));
    }

    #[test]
    fn many_threads_are_waited_for_each_and_not_for_what_they_begin_later() {
        let readers = Readers::default();
        let users = Arc::new(());
        let threads = if cfg!(miri) { FIRST + 4 } else { 5 * FIRST };
        let inside = Barrier::new(threads + 1);
        std::thread::scope(|scope| {
            let spawned: Vec<_> = (0..threads)
                .map(|_| {
                    let (readers, inside, users) = (&readers, &inside, &users);
                    scope.spawn(move || {
                        let reading = readers.enter();
                        inside.wait();
                        inside.wait();
                        assert_eq!(Arc::strong_count(users), 2, "one is still inside");
                        inside.wait();
                        drop(reading);
                    })
                })
                .collect();
            inside.wait();
            readers.retire(users.clone());
            inside.wait();
            // Begun after it was retired.
            let later = readers.enter();
            inside.wait();
            spawned.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(Arc::strong_count(&users), 1);
            drop(later);
        });
    }

    #[test]
    fn a_drop_may_read_and_retire_and_a_thread_that_ends_may_read() {
        struct More(Arc<Readers>, Arc<()>);
        impl Drop for More {
            fn drop(&mut self) {
                let reading = self.0.enter();
                self.0.retire(self.1.clone());
                drop(reading);
            }
        }
        thread_local! {
            static LAST: Cell<Option<More>> = const { Cell::new(None) };
        }
        let (readers, users) = (Arc::<Readers>::default(), Arc::new(()));
        let reading = readers.enter();
        readers.retire(More(readers.clone(), users.clone()));
        drop(reading);
        for early in [true, false] {
            let (readers, users) = (readers.clone(), users.clone());
            let thread = std::thread::spawn(move || {
                if !early {
                    drop(readers.enter());
                }
                LAST.set(Some(More(readers.clone(), users)));
                drop(readers.enter());
            });
            thread.join().unwrap();
        }
        assert_eq!(Arc::strong_count(&users), 1);
    }

    #[test]
    fn threads_that_look_at_what_is_replaced_see_it_whole() {
        let rounds = if cfg!(miri) { 60 } else { 50_000 };
        let shown = Shown::new(Arc::new((0u64, !0u64)), Arc::default());
        std::thread::scope(|scope| {
            for start in 0..2 {
                let shown = &shown;
                scope.spawn(move || {
                    for n in start..start + rounds {
                        shown.replace(Arc::new((n, !n)));
                    }
                });
            }
            for long in [false, true] {
                let shown = &shown;
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for _ in 0..rounds {
                        let reading = shown.readers().enter();
                        let seen = shown.see(&reading);
                        if long && kept.len() < 10 {
                            kept.push(shown.load());
                        }
                        assert_eq!(seen.0, !seen.1);
                    }
                    assert!(kept.iter().all(|kept| kept.0 == !kept.1));
                });
            }
        });
        let last = shown.load();
        drop(shown);
        assert_eq!(Arc::strong_count(&last), 1);
    }
}
