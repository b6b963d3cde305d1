//! What a store does and what its writes wait for: listeners, stalls, notes, counts of calls.
//!
//! Invariants: texts passed to a listener are valid during the call; a stall owns its texts.

use std::ffi::{CString, c_char, c_void};

use esker::{Clock, Db, Event, EventListener};
use esker_bindings::calling;
use esker_bindings::counting;
use esker_bindings::events::{self, Value};
use esker_bindings::runtime;

use super::common::c_text;
use super::options::esker_options_t;
use super::store::{esker_db_t, fs_of, on};
use crate::callbacks::{State, esker_destructor_t};
use crate::failure::{ESKER_OK, Failure, Outcome, attempt, code_of, there};
use crate::ffi;

/// Kind of an event that this version of the library has no number for. Its text describes it.
pub const ESKER_EVENT_OTHER: i32 = 0;
/// The store was opened: `read_only`, `is_closed_cleanly`, `tables`, `bytes` (of tables), `logs`,
/// `duration_ns`.
pub const ESKER_EVENT_OPENED: i32 = 1;
/// The opening found that a crash had lost something: `cause`.
pub const ESKER_EVENT_RECOVERY_NOTE: i32 = 2;
/// A flush of memtables began: `job`, `memory_bytes`.
pub const ESKER_EVENT_FLUSH_BEGAN: i32 = 3;
/// A flush ended: `job`, `memory_bytes`, `tables`, `written_bytes`, `duration_ns`; if it failed,
/// `error` and `error_code`.
pub const ESKER_EVENT_FLUSH_ENDED: i32 = 4;
/// A compaction began: `job`, `tree`, `level`, `output_level`, `inputs`, `read_bytes` (estimated),
/// `cause`.
pub const ESKER_EVENT_COMPACTION_BEGAN: i32 = 5;
/// A compaction ended: `job`, `tree`, `level`, `output_level`, `read_bytes`, `written_bytes`,
/// `tables`, `duration_ns`, `cause`; if it failed, `error` and `error_code`, which is
/// `ESKER_CLOSED` if it was stopped for other work or by the close.
pub const ESKER_EVENT_COMPACTION_ENDED: i32 = 6;
/// A store at rest stopped merging: `compactions`, `written_bytes`, `duration_ns`, `cause`.
pub const ESKER_EVENT_REST_ENDED: i32 = 7;
/// A write stall began: `cause`, `bytes` (that have to be written to tables), `clears`,
/// `is_stopped` (0: each write is only slowed).
pub const ESKER_EVENT_STALL_BEGAN: i32 = 8;
/// A write stall ended: `cause`, `bytes`, `clears`, `is_stopped`, `duration_ns`.
pub const ESKER_EVENT_STALL_ENDED: i32 = 9;
/// A table file became part of the store: `tree`, `level`, `number`, `bytes`.
pub const ESKER_EVENT_TABLE_CREATED: i32 = 10;
/// An obsolete table file was removed: `number`.
pub const ESKER_EVENT_TABLE_REMOVED: i32 = 11;
/// A job or a write failed: `name` (of the job), `error`, `error_code`.
pub const ESKER_EVENT_BACKGROUND_ERROR: i32 = 12;
/// The scrub found damage: `error`, `error_code`.
pub const ESKER_EVENT_SCRUB_PROBLEM: i32 = 13;
/// A keyspace was created: `number`, `name`.
pub const ESKER_EVENT_KEYSPACE_CREATED: i32 = 14;
/// A keyspace was renamed: `number`, `name`, `new_name`.
pub const ESKER_EVENT_KEYSPACE_RENAMED: i32 = 15;
/// A keyspace was dropped: `number`, `name`.
pub const ESKER_EVENT_KEYSPACE_DROPPED: i32 = 16;
/// The store is being closed: the last event; if that failed, `error` and `error_code`.
pub const ESKER_EVENT_CLOSED: i32 = 17;
/// A slot of the change feed keeps no logs any more: `name`, `cause`. Its next use fails.
pub const ESKER_EVENT_SLOT_DROPPED: i32 = 18;

/// An event of a store. Its kind tells which fields it has; the others are 0 or NULL. The texts are
/// valid during the call. Later versions may add fields at the end.
#[repr(C)]
pub struct esker_event_t {
    /// `ESKER_EVENT_OPENED` and so on.
    pub kind: i32,
    /// Code of the failure; `ESKER_OK` without one.
    pub error_code: i32,
    /// The event as one sentence; never NULL.
    pub text: *const c_char,
    /// Message of the failure.
    pub error: *const c_char,
    /// Name of a keyspace, of a slot or of a job.
    pub name: *const c_char,
    /// New name of a keyspace.
    pub new_name: *const c_char,
    /// Why it happened.
    pub cause: *const c_char,
    /// What ends a stall.
    pub clears: *const c_char,
    /// Number of a flush or compaction, unique in this opening of the store.
    pub job: u64,
    /// Tree of the tables; tree 0 holds the keyspace `default`.
    pub tree: u64,
    /// Level of a table, or the uppermost level of inputs.
    pub level: u64,
    /// Level of the output.
    pub output_level: u64,
    /// Number of a table file or of a keyspace.
    pub number: u64,
    /// Number of tables.
    pub tables: u64,
    /// Number of inputs of a compaction.
    pub inputs: u64,
    /// Number of compactions.
    pub compactions: u64,
    /// Number of logs that were read.
    pub logs: u64,
    /// Bytes, as the kind tells.
    pub bytes: u64,
    /// Bytes of memory of memtables.
    pub memory_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Duration, in nanoseconds.
    pub duration_ns: u64,
    /// 1 if the store was opened for reading only.
    pub read_only: u8,
    /// 1 if the store was closed before it was opened, and not ended by a crash.
    pub is_closed_cleanly: u8,
    /// Of a stall, 1: writes wait until the cause is gone. 0: each write is only slowed.
    pub is_stopped: u8,
}

/// Receives an event: state, event.
pub type esker_listener_t = Option<unsafe extern "C" fn(*mut c_void, *const esker_event_t)>;

/// Returns the present, in milliseconds since 1970.
pub type esker_clock_t = Option<unsafe extern "C" fn(*mut c_void) -> u64>;

/// An event as C takes it, and the texts that it points to.
struct CEvent {
    event: esker_event_t,
    _texts: Vec<CString>,
}

impl CEvent {
    fn of(event: &Event) -> CEvent {
        // SAFETY: all fields are numbers and pointers, for which zero is a value.
        let mut shown: esker_event_t = unsafe { std::mem::zeroed() };
        let mut texts = vec![c_text(&event.to_string())];
        shown.kind = events::kind(event).0;
        shown.text = texts[0].as_ptr();
        shown.error_code = ESKER_OK;
        for (name, value) in events::fields(event) {
            match value {
                Value::Number(number) => shown.set_number(name, number),
                Value::Time(time) => {
                    shown.duration_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                }
                Value::Flag(flag) => match name {
                    "read_only" => shown.read_only = flag.into(),
                    "is_stopped" => shown.is_stopped = flag.into(),
                    _ => shown.is_closed_cleanly = flag.into(),
                },
                Value::Text(text) => shown.set_text(name, text, &mut texts),
                Value::Failure(failure) => {
                    shown.error_code = code_of(failure.kind());
                    shown.set_text(name, &failure.to_string(), &mut texts);
                }
                // The text names them.
                Value::Pairs(_) => {}
            }
        }
        CEvent { event: shown, _texts: texts }
    }
}

impl esker_event_t {
    fn set_number(&mut self, name: &str, number: u64) {
        let place = match name {
            "job" => &mut self.job,
            "tree" => &mut self.tree,
            "level" => &mut self.level,
            "output_level" => &mut self.output_level,
            "number" => &mut self.number,
            "tables" => &mut self.tables,
            "inputs" => &mut self.inputs,
            "compactions" => &mut self.compactions,
            "logs" => &mut self.logs,
            "bytes" => &mut self.bytes,
            "memory_bytes" => &mut self.memory_bytes,
            "read_bytes" => &mut self.read_bytes,
            "written_bytes" => &mut self.written_bytes,
            _ => return debug_assert!(false, "no field {name}"),
        };
        *place = number;
    }

    fn set_text(&mut self, name: &str, text: &str, texts: &mut Vec<CString>) {
        let place = match name {
            "error" => &mut self.error,
            "name" => &mut self.name,
            "new_name" => &mut self.new_name,
            "cause" => &mut self.cause,
            "clears" => &mut self.clears,
            _ => return debug_assert!(false, "no field {name}"),
        };
        let text = c_text(text);
        *place = text.as_ptr();
        texts.push(text);
    }
}

/// A listener implemented in C.
struct CListener {
    state: State,
    listener: unsafe extern "C" fn(*mut c_void, *const esker_event_t),
}

impl EventListener for CListener {
    fn on_event(&self, event: &Event) {
        let shown = CEvent::of(event);
        // SAFETY: the function and the pointer belong together; the event outlives the call.
        calling::within(self, || unsafe {
            (self.listener)(self.state.pointer, &raw const shown.event)
        });
    }
}

/// Adds a listener, which receives the events of stores opened with the options.
///
/// One thread at a time calls the listeners of a store, in the order of the events, soon after they
/// happened. It is a thread of the store or a thread in a call of the store, and holds no lock. The
/// listener must return soon: it delays the work of that thread. It must not throw or jump out. The
/// functions of the store fail within it with `ESKER_INVALID_ARGUMENT`; another thread may use the
/// store meanwhile, but the listener must not wait for it. Of more than 4,096 events that wait,
/// further ones are dropped and counted in the metric `events_lost`. A crash loses events that were
/// not delivered. Without listeners, and with the option `log_file` off, no event is made.
///
/// `destructor`, which may be NULL, receives `state` once: after the options and every store opened
/// with them are freed, from any thread, or at once if this call fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_add_listener(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    listener: esker_listener_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let state = State { pointer: state, destructor };
        let listener =
            listener.ok_or_else(|| Failure::invalid("the listening function is NULL"))?;
        let listeners = &mut there(options, "options handle")?.options.listeners;
        listeners.push(std::sync::Arc::new(CListener { state, listener }));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// A clock implemented in C.
struct CClock {
    state: State,
    now_ms: unsafe extern "C" fn(*mut c_void) -> u64,
}

impl Clock for CClock {
    fn now_ms(&self) -> u64 {
        // SAFETY: the function and the pointer belong together.
        calling::within(self, || unsafe { (self.now_ms)(self.state.pointer) })
    }
}

/// Sets the clock by which pairs expire, in place of the clock of the system. Reads and compactions
/// call it from any thread and on several at once. It must be quick, must not throw or jump out,
/// and must not use the store. If it goes back, an open store stays at the latest time. The rules
/// for `state` and `destructor` are those of `esker_options_add_listener`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_clock(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    clock: esker_clock_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let state = State { pointer: state, destructor };
        let now_ms = clock.ok_or_else(|| Failure::invalid("the function of the clock is NULL"))?;
        let clock = std::sync::Arc::new(CClock { state, now_ms });
        there(options, "options handle")?.options.clock = Some(clock);
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// What writes wait for. Later versions may add fields at the end.
#[repr(C)]
pub struct esker_stall_t {
    /// Why writes wait, as a sentence without its end.
    pub cause: *mut c_char,
    /// What ends the wait, as a sentence without its end.
    pub clears: *mut c_char,
    /// Bytes that have to be written to tables before writes go on at full speed.
    pub bytes: u64,
    /// Time since the wait began, in nanoseconds.
    pub duration_ns: u64,
    /// 1: writes wait until the cause is gone. 0: each write is only slowed.
    pub is_stopped: u8,
}

/// Sets `*stall` to what writes wait for now, which must be freed with `esker_stall_destroy`, or to
/// NULL if writes run at full speed. Of several stalls, it is the oldest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_stall(
    db: Option<&esker_db_t>,
    stall: Option<&mut *mut esker_stall_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(stall, "place for the stall")?;
        *place = std::ptr::null_mut();
        if let Some(found) = esker_db_t::open(db)?.stall() {
            *place = Box::into_raw(Box::new(esker_stall_t {
                cause: c_text(&found.cause).into_raw(),
                clears: c_text(&found.clears).into_raw(),
                bytes: found.bytes,
                duration_ns: u64::try_from(found.duration.as_nanos()).unwrap_or(u64::MAX),
                is_stopped: found.is_stopped.into(),
            }));
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees a stall and its texts.
#[unsafe(no_mangle)]
pub extern "C" fn esker_stall_destroy(stall: Option<Box<esker_stall_t>>) {
    if let Some(stall) = stall {
        // SAFETY: the texts were made by `esker_stall`, and are freed with the stall, once.
        unsafe {
            drop(CString::from_raw(stall.cause));
            drop(CString::from_raw(stall.clears));
        }
    }
}

/// Gives a text of the store to the caller.
///
/// # Safety
/// As for [`ffi::code`].
unsafe fn give(
    text: Option<&mut *mut c_char>,
    message: Option<&mut *mut c_char>,
    make: impl FnOnce() -> Outcome<String>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(text, "place for the text")?;
        *place = std::ptr::null_mut();
        *place = ffi::give_text(&make()?);
        Ok(())
    });
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Sets `*text` to what the opening of the store found that a crash had lost, one sentence a line;
/// an empty text if nothing was lost. It must be freed with `esker_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_recovery_notes(
    db: Option<&esker_db_t>,
    text: Option<&mut *mut c_char>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { give(text, message, || Ok(esker_db_t::open(db)?.recovery_notes().join("\n"))) }
}

/// Sets `*text` to the metrics, in the OpenMetrics text format, that the process publishes that has
/// the store in the directory `path` open for writing: about a second old, or ten seconds while
/// nothing changes. The text must be freed with `esker_free`. Sets `*process` to the number of that
/// process; it may be NULL. Of the `options`, which may be NULL, only the file system is used. Fails
/// with `ESKER_NOT_FOUND` if no process has the store open, or it publishes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_live_status(
    path: *const c_char,
    options: Option<&esker_options_t>,
    text: Option<&mut *mut c_char>,
    process: Option<&mut u32>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        give(text, message, || {
            let status = Db::live_status_on(fs_of(options), ffi::path(path)?)?;
            if let Some(process) = process {
                *process = status.process;
            }
            Ok(status.metrics.to_openmetrics())
        })
    }
}

/// Sets `*id` to the random number that a store got when it was created, and keeps. A checkpoint and
/// a restored store are stores with numbers of their own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_store_id(
    db: Option<&esker_db_t>,
    id: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        on(db, message, |db| {
            *there(id, "place for the number")? = db.store_id();
            Ok(())
        })
    }
}

/// Runs one flush or compaction that is due, in a store without threads (option
/// `background_threads` 0). Sets `*ran` to 1 if there was one, else to 0; it may be NULL. Fails with
/// `ESKER_INVALID_ARGUMENT` in a store with threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_run_one_job(
    db: Option<&esker_db_t>,
    ran: Option<&mut u8>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        on(db, message, |db| {
            let was_due = db.run_one_job()?;
            if let Some(ran) = ran {
                *ran = was_due.into();
            }
            Ok(())
        })
    }
}

/// Begins to count this thread's calls, with counts of 0 (`on` other than 0), or ends that. A thread
/// does not count at first.
///
/// The calls nest: each one with an `on` other than 0 begins a part of the program that counts, and
/// needs one with 0, which ends the innermost part. The thread counts until the outermost part has
/// ended. Each part counts all that happens in it, also in inner parts, and whatever these take. A
/// call with 0 without such a part has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn esker_perf_enable(on: u8) {
    match on {
        0 => counting::end(),
        _ => counting::begin(),
    }
}

/// Returns the counts of this thread's calls since the last call of this function in the innermost
/// part (`esker_perf_enable`), or since the part began, and sets them to 0: lines of a name, a space
/// and a number, such as `cache_hits 12`. All are 0 if the thread does not count. The names are those
/// of Rust's `PerfContext`. The text must be freed with `esker_free`.
#[unsafe(no_mangle)]
pub extern "C" fn esker_perf_take() -> *mut c_char {
    let counts = runtime::perf(&counting::take());
    let lines = counts.map(|(name, count)| format!("{name} {count}"));
    ffi::give_text(&lines.join("\n"))
}
