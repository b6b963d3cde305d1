//! Collects the events of a store and calls its listeners.
//!
//! An event happens where a lock is held, and a listener may call the store. So an event is first
//! put into a list ([`Listeners::push`]). A thread without a lock delivers the list
//! ([`Listeners::deliver`]).
//!
//! Invariants:
//! 1. No lock is held while a listener is called, neither of this file nor of the store.
//! 2. One thread at a time delivers. Each listener gets the events in their order.
//! 3. An event that is pushed before a call of [`Listeners::deliver`] is delivered by that call, or
//!    by the thread that delivers at that time.
//! 4. Without listeners nothing is collected.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::SystemTime;

use super::event::{Event, EventListener};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::error::{Error, ErrorKind, panic_text};
use crate::metrics::Counter;

/// Maximum number of events that wait for their delivery.
const PENDING_MAX: usize = 4096;

/// A function that gets the events after the listeners, with the time at which each happened.
pub type EventSink = Box<dyn Fn(&[(SystemTime, Event)]) + Send + Sync>;

/// A listener.
struct Registered {
    listener: Arc<dyn EventListener>,
    /// Whether the listener has panicked. It is not called again.
    panicked: AtomicBool,
}

/// The listeners of a store, and the events that wait for their delivery.
pub struct Listeners {
    listeners: Vec<Registered>,
    sink: Option<EventSink>,
    pending: Mutex<Vec<(SystemTime, Event)>>,
    /// Whether `pending` holds an event. Changed under its lock.
    is_pending: AtomicBool,
    /// Whether a thread delivers.
    is_delivering: AtomicBool,
    panics: Counter,
    lost: Counter,
}

/// Guard of the thread that delivers.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Listeners {
    /// Creates the list of `listeners`, with `sink` after them.
    pub fn new(listeners: &[Arc<dyn EventListener>], sink: Option<EventSink>) -> Listeners {
        let registered = |listener: &Arc<dyn EventListener>| Registered {
            listener: listener.clone(),
            panicked: AtomicBool::new(false),
        };
        Listeners {
            listeners: listeners.iter().map(registered).collect(),
            sink,
            pending: Mutex::new(Vec::new()),
            is_pending: AtomicBool::new(false),
            is_delivering: AtomicBool::new(false),
            panics: Counter::default(),
            lost: Counter::default(),
        }
    }

    /// Returns whether nobody gets events.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.sink.is_none()
    }

    /// Adds the event that `event` returns to the list. Does not call `event` without listeners.
    /// Any lock may be held.
    #[inline]
    pub fn push(&self, event: impl FnOnce() -> Event) {
        if !self.is_empty() {
            self.add(event());
        }
    }

    #[cold]
    fn add(&self, event: Event) {
        let mut pending = self.pending.lock();
        if pending.len() >= PENDING_MAX {
            self.lost.add(1);
            return;
        }
        pending.push((SystemTime::now(), event));
        self.is_pending.store(true, Ordering::SeqCst);
    }

    /// Returns whether a call of [`Listeners::deliver`] would deliver something.
    pub fn needs_delivery(&self) -> bool {
        self.is_pending.load(Ordering::SeqCst) && !self.is_delivering.load(Ordering::SeqCst)
    }

    /// Calls the listeners with the events of the list, unless another thread does so. The caller
    /// holds no lock.
    #[inline]
    pub fn deliver(&self) {
        if self.is_pending.load(Ordering::Relaxed) {
            self.deliver_pending();
        }
    }

    #[cold]
    fn deliver_pending(&self) {
        // Checked again after the turn: another thread may have added an event and left it to us.
        while self.is_pending.load(Ordering::SeqCst) {
            if self.is_delivering.swap(true, Ordering::SeqCst) {
                return;
            }
            let turn = Turn(&self.is_delivering);
            loop {
                let events = self.take();
                if events.is_empty() {
                    break;
                }
                self.call(&events);
            }
            drop(turn);
        }
    }

    fn take(&self) -> Vec<(SystemTime, Event)> {
        let mut pending = self.pending.lock();
        self.is_pending.store(false, Ordering::SeqCst);
        std::mem::take(&mut *pending)
    }

    fn call(&self, events: &[(SystemTime, Event)]) {
        for one in &self.listeners {
            for (_, event) in events {
                if one.panicked.load(Ordering::Relaxed) {
                    break;
                }
                let call = AssertUnwindSafe(|| one.listener.on_event(event));
                if let Err(cause) = catch_unwind(call) {
                    one.panicked.store(true, Ordering::Relaxed);
                    self.panics.add(1);
                    self.add(panicked(&*cause));
                }
            }
        }
        if let Some(sink) = &self.sink {
            sink(events);
        }
    }

    /// Returns the number of listeners that have panicked.
    pub fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// Returns the number of events that were dropped, because too many were waiting.
    pub fn lost(&self) -> u64 {
        self.lost.get()
    }
}

/// Returns the event for a panic of a listener.
fn panicked(cause: &(dyn Any + Send)) -> Event {
    let message = format!(
        "an event listener panicked ({}); it is not called again until the store is opened again",
        panic_text(cause)
    );
    let error = Error::new(ErrorKind::InvalidArgument, message);
    Event::BackgroundError { job: "event listener".to_string(), error }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use std::sync::Mutex as StdMutex;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;

    /// Records the numbers of the tables in `TableRemoved`.
    #[derive(Default)]
    struct Numbers(StdMutex<Vec<u64>>);

    impl EventListener for Numbers {
        fn on_event(&self, event: &Event) {
            if let Event::TableRemoved { number } = event {
                self.0.lock().unwrap().push(*number);
            }
        }
    }

    fn removed(number: u64) -> Event {
        Event::TableRemoved { number }
    }

    fn with(listener: Arc<dyn EventListener>) -> Listeners {
        Listeners::new(&[listener], None)
    }

    #[test]
    fn events_are_made_only_for_listeners() {
        let none = Listeners::new(&[], None);
        none.push(|| panic!("an event was made"));
        assert!(none.is_empty() && !none.needs_delivery());
        none.deliver();
        struct Silent;
        impl EventListener for Silent {}
        let silent = with(Arc::new(Silent));
        silent.push(|| removed(1));
        assert!(silent.needs_delivery());
        silent.deliver();
        assert!(!silent.needs_delivery());
    }

    #[test]
    fn events_arrive_in_order_from_many_threads() {
        const THREADS: u64 = 4;
        const EACH: u64 = 500;
        let seen = Arc::new(Numbers::default());
        let listeners = with(seen.clone());
        let next = AtomicU64::new(0);
        let turn = StdMutex::new(());
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        {
                            let _turn = turn.lock().unwrap();
                            let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            listeners.push(|| removed(number));
                        }
                        listeners.deliver();
                    }
                });
            }
        });
        let seen = seen.0.lock().unwrap();
        assert_eq!(*seen, (0..THREADS * EACH).collect::<Vec<_>>());
        assert_eq!(listeners.lost(), 0);
    }

    /// A listener that waits for a permission at each event.
    struct Slow {
        entered: mpsc::SyncSender<()>,
        go_on: StdMutex<mpsc::Receiver<()>>,
    }

    impl EventListener for Slow {
        fn on_event(&self, _: &Event) {
            self.entered.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
    }

    #[test]
    fn nobody_waits_for_a_slow_listener_and_excess_events_are_dropped() {
        let (entered, entries) = mpsc::sync_channel(PENDING_MAX * 2);
        let (permit, permits) = mpsc::channel();
        let listeners = with(Arc::new(Slow { entered, go_on: StdMutex::new(permits) }));
        std::thread::scope(|scope| {
            listeners.push(|| removed(0));
            scope.spawn(|| listeners.deliver());
            entries.recv().unwrap();
            for number in 0..PENDING_MAX as u64 + 3 {
                listeners.push(|| removed(number));
                // Returns at once, because the other thread delivers.
                listeners.deliver();
            }
            assert!(!listeners.needs_delivery());
            assert_eq!(listeners.lost(), 3);
            (0..=PENDING_MAX).for_each(|_| permit.send(()).unwrap());
        });
        assert_eq!(entries.try_iter().count(), PENDING_MAX);
        assert!(!listeners.needs_delivery());
    }

    struct Panics;

    impl EventListener for Panics {
        fn on_event(&self, event: &Event) {
            if let Event::TableRemoved { number: 2 } = event {
                panic!("deliberate panic");
            }
        }
    }

    #[test]
    fn panicking_listener_is_not_called_again_and_others_are() {
        let seen = Arc::new(Numbers::default());
        let (texts, sent) = mpsc::channel();
        let texts = StdMutex::new(texts);
        let sink: EventSink = Box::new(move |events| {
            events.iter().for_each(|(_, e)| texts.lock().unwrap().send(e.to_string()).unwrap());
        });
        let listeners = Listeners::new(&[Arc::new(Panics), seen.clone()], Some(sink));
        for number in 1..=4 {
            listeners.push(|| removed(number));
        }
        listeners.deliver();
        listeners.push(|| removed(2));
        listeners.deliver();
        assert_eq!(*seen.0.lock().unwrap(), [1, 2, 3, 4, 2]);
        assert_eq!(listeners.panics(), 1);
        let texts: Vec<String> = sent.try_iter().collect();
        assert_eq!(texts.len(), 6, "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("deliberate panic")), "{texts:?}");
    }

    #[test]
    fn listener_may_add_events() {
        /// Adds a further event at the first one.
        struct Adds(StdMutex<Option<Arc<Listeners>>>, Numbers);
        impl EventListener for Adds {
            fn on_event(&self, event: &Event) {
                self.1.on_event(event);
                if let Some(listeners) = self.0.lock().unwrap().take() {
                    listeners.push(|| removed(8));
                    listeners.deliver();
                }
            }
        }
        let adds = Arc::new(Adds(StdMutex::new(None), Numbers::default()));
        let listeners = Arc::new(Listeners::new(&[adds.clone() as Arc<dyn EventListener>], None));
        *adds.0.lock().unwrap() = Some(listeners.clone());
        listeners.push(|| removed(7));
        listeners.deliver();
        assert_eq!(*adds.1.0.lock().unwrap(), [7, 8]);
    }
}
