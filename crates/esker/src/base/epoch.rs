//! The epoch collector: memory reclamation for shared values whose readers write no shared memory.
//!
//! Reference counts cost two locked instructions per access. Each one holds up all later loads, and
//! a get of a cached pair made five. Here a reader pins itself with plain stores to an epoch word
//! of its own thread, which is odd while the thread is pinned. The reclaiming thread makes a value
//! unreachable, executes a barrier on all processors that run this process, and records the pinned
//! threads. The value is dropped after these threads have unpinned.
//!
//! Sources: read-copy update (McKenney and Slingwine, PDCS 1998), and user-level RCU (Desnoyers et
//! al., IEEE TPDS 2012), which describes the barrier that only the reclaiming thread pays for,
//! Linux's `membarrier`. On systems without it, each reader executes a fence. If the system refuses
//! `membarrier` later, values are not dropped before the collector is dropped, unless a later
//! attempt succeeds.
//!
//! Invariants:
//! 1. A deferred value is dropped after the end of every guard ([`EpochGuard`]) that began before
//!    the call of [`Collector::defer_drop`].
//! 2. Only the thread itself writes its epoch word.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use super::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence, fence};
use super::sync::{Bug, Mutex, is_seeded};
use super::thread_number::ThreadNumber;

/// Number of thread slots allocated at creation. Each further group of slots is twice as large as
/// the group before.
const FIRST: usize = if cfg!(esker_shuttle) { 1 } else { 16 };
/// Maximum number of further groups.
const GROUPS: usize = 24;

/// The state of one thread, alone on its cache lines to avoid false sharing.
#[derive(Default)]
#[repr(align(128))]
struct ThreadSlot {
    /// The epoch word: odd while the thread is pinned. Each pin and each unpin adds one.
    epoch: AtomicUsize,
    /// Number of live guards of the thread.
    depth: Depth,
    /// Whether a deferred drop may wait for this thread to unpin.
    has_waiters: AtomicBool,
}

/// A counter that only the slot's thread accesses.
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

/// An unreachable value that waits to be dropped.
struct Retired {
    /// The pinned slots to wait for, each with its epoch word; `None` before they are known.
    waits: Option<Arc<[(usize, usize)]>>,
    #[expect(dead_code, reason = "held only to be dropped")]
    garbage: Box<dyn Any + Send>,
}

/// An epoch collector for a set of shared values.
pub struct Collector {
    /// Whether `membarrier` is available, so that readers need no fence.
    asymmetric: bool,
    /// The process that created the collector. A child of a `fork` drops nothing, because the lock
    /// may be held by a thread that does not exist in the child.
    process: u32,
    first: Box<[ThreadSlot]>,
    more: [OnceLock<Box<[ThreadSlot]>>; GROUPS],
    retired: Mutex<Vec<Retired>>,
}

impl Default for Collector {
    fn default() -> Collector {
        Collector {
            asymmetric: barrier::register(),
            process: std::process::id(),
            first: slots(FIRST, false),
            more: std::array::from_fn(|_| OnceLock::new()),
            retired: Mutex::new(Vec::new()),
        }
    }
}

fn slots(count: usize, has_waiters: bool) -> Box<[ThreadSlot]> {
    let slot = || ThreadSlot { has_waiters: AtomicBool::new(has_waiters), ..ThreadSlot::default() };
    (0..count).map(|_| slot()).collect()
}

impl Collector {
    /// Pins the thread. Values deferred from now on live until the guard is dropped. Guards of one
    /// thread may overlap: the thread stays pinned until its last guard is dropped.
    #[inline]
    pub fn pin(&self) -> EpochGuard<'_> {
        let thread = ThreadNumber::mine();
        let slot = self.slot(thread.get());
        let depth = slot.depth.get();
        slot.depth.set(depth + 1);
        if depth == 0 {
            // Release: a thread that loads this epoch word knows that all earlier pins are over.
            slot.epoch.store(slot.epoch.load(Ordering::Relaxed) + 1, Ordering::Release);
            self.light_barrier();
        }
        EpochGuard { collector: self, slot, thread, own: PhantomData }
    }

    /// Defers the drop of `garbage` until all currently pinned threads have unpinned. New readers
    /// must not be able to reach `garbage`. The drop happens in this call if no thread is pinned,
    /// else when the last of those threads unpins. The drop may run while the caller holds locks.
    /// In a forked child `garbage` is leaked.
    pub fn defer_drop<T: Send + 'static>(&self, garbage: T) {
        if self.is_forked() {
            std::mem::forget(garbage);
            return;
        }
        let retired = Retired { waits: None, garbage: Box::new(garbage) };
        self.retired.lock().push(retired);
        self.collect(None);
    }

    /// Drops all deferred values that no pinned thread can reach.
    pub fn flush(&self) {
        self.collect(None);
    }

    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    #[inline]
    fn slot(&self, number: usize) -> &ThreadSlot {
        match self.first.get(number) {
            Some(slot) => slot,
            None => self.overflow_slot(number),
        }
    }

    #[cold]
    fn overflow_slot(&self, number: usize) -> &ThreadSlot {
        // Group n has FIRST << n slots, starting at number FIRST << n.
        let group = (number / FIRST).ilog2() as usize;
        // New slots start with `has_waiters` set. A concurrent `settle` may have marked all slots
        // before this group existed, and may then find this slot pinned.
        let slots = self.more[group].get_or_init(|| slots(FIRST << group, true));
        &slots[number - (FIRST << group)]
    }

    /// Returns all existing slots with their numbers.
    fn slots(&self) -> impl Iterator<Item = (usize, &ThreadSlot)> {
        let more = self.more.iter().enumerate().filter_map(|(group, slots)| {
            let slots = slots.get()?;
            Some(slots.iter().enumerate().map(move |(at, slot)| ((FIRST << group) + at, slot)))
        });
        self.first.iter().enumerate().chain(more.flatten())
    }

    /// Orders a reader's earlier store before its later loads, together with [`barrier::heavy`].
    #[inline]
    fn light_barrier(&self) {
        if self.asymmetric {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Drops all values that no pinned thread can reach. `out` is the caller's slot if the caller
    /// has just unpinned.
    #[cold]
    fn collect(&self, out: Option<&ThreadSlot>) {
        if self.is_forked() {
            return;
        }
        let mut over = Vec::new();
        let mut retired = self.retired.lock();
        if let Some(slot) = out {
            // Cleared under the lock, so that a mark for a later pin of this thread is not lost.
            slot.has_waiters.store(false, Ordering::Relaxed);
        }
        if retired.iter().any(|one| one.waits.is_none()) {
            // Before the barrier: a thread that still appears pinned below sees this mark when it
            // unpins.
            self.slots().for_each(|(_, slot)| slot.has_waiters.store(true, Ordering::Relaxed));
            if barrier::heavy(self.asymmetric) {
                let inside: Arc<[(usize, usize)]> = self
                    .slots()
                    .map(|(number, slot)| (number, slot.epoch.load(Ordering::Acquire)))
                    .filter(|(_, epoch)| epoch % 2 == 1)
                    .collect();
                for one in &mut *retired {
                    one.waits.get_or_insert_with(|| inside.clone());
                }
            }
        }
        let passed = |&(number, epoch): &(usize, usize)| {
            self.slot(number).epoch.load(Ordering::Acquire) != epoch || is_seeded(Bug::FreeAtOnce)
        };
        over.extend(retired.extract_if(.., |one| {
            one.waits.as_ref().is_some_and(|waits| waits.iter().all(passed))
        }));
        drop(retired);
        // Outside the lock, because a drop may defer more drops.
        drop(over);
    }
}

/// A guard that keeps the thread pinned. It is neither `Send` nor `Sync`.
pub struct EpochGuard<'r> {
    collector: &'r Collector,
    slot: &'r ThreadSlot,
    #[expect(
        dead_code,
        reason = "the slot belongs to this thread while the thread keeps its number"
    )]
    thread: ThreadNumber,
    own: PhantomData<Cell<*const ()>>,
}

impl EpochGuard<'_> {
    /// Returns whether the guard belongs to `readers`.
    #[inline]
    pub fn is_of(&self, readers: &Collector) -> bool {
        std::ptr::eq(self.collector, readers)
    }
}

impl Drop for EpochGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let slot = self.slot;
        let depth = slot.depth.get() - 1;
        slot.depth.set(depth);
        if depth == 0 {
            // Release: all reads under the guard happen before the values are freed.
            slot.epoch.store(slot.epoch.load(Ordering::Relaxed) + 1, Ordering::Release);
            self.collector.light_barrier();
            if slot.has_waiters.load(Ordering::Relaxed) && !is_seeded(Bug::UnpinWithoutCheck) {
                self.collector.collect(Some(slot));
            }
        }
    }
}

#[cfg(all(target_os = "linux", not(any(miri, esker_shuttle, esker_portable))))]
mod barrier {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::atomic::{Ordering, fence};

    /// Registers the process for `membarrier`. Returns whether [`heavy`] works without reader
    /// fences.
    pub fn register() -> bool {
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    /// Executes a full memory barrier on all running threads of the process, or a local fence if
    /// the readers execute fences themselves (`asymmetric` is false). Returns `false` if the system
    /// lacked the memory for it. The caller must then try again later.
    pub fn heavy(asymmetric: bool) -> bool {
        if asymmetric {
            return membarrier(MembarrierCommand::PrivateExpedited).is_ok();
        }
        fence(Ordering::SeqCst);
        true
    }
}

#[cfg(not(all(target_os = "linux", not(any(miri, esker_shuttle, esker_portable)))))]
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

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use crate::base::epoch_cell::EpochCell;
    use std::sync::Barrier;

    #[test]
    fn deferred_drop_runs_after_earlier_guards_end() {
        let readers = Collector::default();
        let users = Arc::new(());
        readers.defer_drop(users.clone());
        assert_eq!(Arc::strong_count(&users), 1, "no thread was pinned");
        let outer = readers.pin();
        let inner = readers.pin();
        readers.defer_drop(users.clone());
        drop(inner);
        assert_eq!(Arc::strong_count(&users), 2);
        let other = readers.pin();
        readers.defer_drop(users.clone());
        drop(outer);
        assert_eq!(Arc::strong_count(&users), 3, "guards may end in any order");
        drop(other);
        assert_eq!(Arc::strong_count(&users), 1);
        let stores = [Collector::default(), Collector::default()];
        let reading = stores[0].pin();
        stores[1].defer_drop(users.clone());
        assert_eq!(
            Arc::strong_count(&users),
            1,
            "a guard of another epoch collector delayed the drop"
        );
        assert!(reading.is_of(&stores[0]) && !reading.is_of(&stores[1]));
    }

    #[test]
    fn deferred_drop_waits_for_every_pinned_thread_but_not_for_later_pins() {
        let readers = Collector::default();
        let users = Arc::new(());
        let threads = if cfg!(miri) { FIRST + 4 } else { 5 * FIRST };
        let inside = Barrier::new(threads + 1);
        std::thread::scope(|scope| {
            let spawned: Vec<_> = (0..threads)
                .map(|_| {
                    let (readers, inside, users) = (&readers, &inside, &users);
                    scope.spawn(move || {
                        let reading = readers.pin();
                        inside.wait();
                        inside.wait();
                        assert_eq!(
                            Arc::strong_count(users),
                            2,
                            "a pinned thread did not delay the drop"
                        );
                        inside.wait();
                        drop(reading);
                    })
                })
                .collect();
            inside.wait();
            readers.defer_drop(users.clone());
            inside.wait();
            // Pinned after the drop was deferred.
            let later = readers.pin();
            inside.wait();
            spawned.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(Arc::strong_count(&users), 1);
            drop(later);
        });
    }

    #[test]
    fn drop_and_thread_exit_may_pin_and_defer() {
        struct More(Arc<Collector>, Arc<()>);
        impl Drop for More {
            fn drop(&mut self) {
                let reading = self.0.pin();
                self.0.defer_drop(self.1.clone());
                drop(reading);
            }
        }
        thread_local! {
            static LAST: Cell<Option<More>> = const { Cell::new(None) };
        }
        let (readers, users) = (Arc::<Collector>::default(), Arc::new(()));
        let reading = readers.pin();
        readers.defer_drop(More(readers.clone(), users.clone()));
        drop(reading);
        for early in [true, false] {
            let (readers, users) = (readers.clone(), users.clone());
            let thread = std::thread::spawn(move || {
                if !early {
                    drop(readers.pin());
                }
                LAST.set(Some(More(readers.clone(), users)));
                drop(readers.pin());
            });
            thread.join().unwrap();
        }
        assert_eq!(Arc::strong_count(&users), 1);
    }

    #[test]
    fn concurrent_readers_of_replaced_value_see_it_whole() {
        let rounds = if cfg!(miri) { 60 } else { 50_000 };
        let shown = EpochCell::new(Arc::new((0u64, !0u64)), Arc::default());
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
                        let reading = shown.collector().pin();
                        let seen = shown.load_pinned(&reading);
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
