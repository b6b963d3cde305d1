//! Followers: read-only views of a store that another process writes.
//!
//! Invariants:
//! 1. A wait ends with its follower, and with the environment.
//! 2. A view and a promoted store are stores of their own: they stay open when the follower is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker::Db;
use esker::fs::OsFs;
use esker_bindings::follower::FollowerHandle;
use napi::Env;
use napi::bindgen_prelude::{AsyncTask, Object as JsObject};
use napi_derive::napi;

use crate::errors::{caught, closed, invalid};
use crate::objects::{Object, Part, with};
use crate::open::chosen_of;
use crate::shared::Store;
use crate::waits::in_a_thread;
use crate::work::{Answer, Work, later};

/// What a follower shares with its waits.
struct Following {
    handle: FollowerHandle,
    /// Whether no object of JavaScript has it any more.
    has_ended: AtomicBool,
}

/// A follower of one thread of JavaScript. Its end ends its waits.
pub struct Follower(Arc<Following>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
    }
}

fn follower_of(number: u32) -> napi::Result<Arc<Following>> {
    with(|shared| Ok(shared.follower(number)?.0.clone()))
}

/// Returns a view or a promoted store.
fn part(db: Db) -> Answer {
    let part = Part { store: Arc::new(Store::own(db)), keyspace: None };
    Answer::Object(Object::Part(Arc::new(part)))
}

/// Returns a time in milliseconds; `None` for one that does not end.
fn time_of(ms: f64) -> esker::Result<Option<Duration>> {
    if ms.is_nan() || ms < 0.0 {
        return Err(invalid(format!("a time is a number of milliseconds of at least 0, not {ms}")));
    }
    Ok(Duration::try_from_secs_f64(ms / 1000.0).ok())
}

/// Follows a store. Returns the number of the follower.
#[napi]
pub fn follow_later(
    path: String,
    options: Vec<String>,
    runtime: Option<u32>,
) -> napi::Result<AsyncTask<Work>> {
    let mut chosen = caught(|| chosen_of(options))?;
    chosen.share(runtime)?;
    Ok(later(move || {
        let (below, key) = (OsFs::shared(), chosen.key.as_ref());
        let handle = FollowerHandle::follow(below, path.as_ref(), chosen.options, key)?;
        let follower = Follower(Arc::new(Following { handle, has_ended: AtomicBool::new(false) }));
        Ok(Answer::Object(Object::Follower(Arc::new(follower))))
    }))
}

/// Returns the number of the default keyspace of the newest view.
#[napi]
pub fn follower_view_later(number: u32) -> napi::Result<AsyncTask<Work>> {
    let following = follower_of(number)?;
    Ok(later(move || Ok(part(following.handle.open()?.db()))))
}

/// Returns the position of the newest view.
#[napi]
pub fn follower_position(number: u32) -> napi::Result<f64> {
    let following = follower_of(number)?;
    caught(|| Ok(following.handle.open()?.position() as f64))
}

/// Makes a newer view. Returns its position.
#[napi]
pub fn catch_up_later(number: u32) -> napi::Result<AsyncTask<Work>> {
    let following = follower_of(number)?;
    Ok(later(move || Ok(Answer::Number(following.handle.open()?.catch_up()? as f64))))
}

/// Lets a thread make newer views, with so many milliseconds between them.
#[napi]
pub fn catch_up_every(number: u32, interval_ms: f64) -> napi::Result<()> {
    let following = follower_of(number)?;
    caught(|| {
        let interval = time_of(interval_ms)?.unwrap_or(Duration::MAX);
        following.handle.open()?.catch_up_every(interval)
    })
}

/// Waits for a position for so many milliseconds. Returns whether the newest view shows it.
#[napi]
pub fn wait_for_position_later(
    env: &Env,
    number: u32,
    position: f64,
    wait_ms: f64,
) -> napi::Result<JsObject<'_>> {
    let following = follower_of(number)?;
    in_a_thread(env, move || {
        let goes_on = || !following.has_ended.load(Ordering::Acquire);
        let longest = time_of(wait_ms)?;
        let is_shown = following.handle.wait_for(position as u64, longest, goes_on)?;
        if !is_shown && !goes_on() {
            return Err(closed("follower"));
        }
        Ok(Answer::Truth(is_shown))
    })
}

/// Returns the position of the newest view, that of the store, the operations between them, the age in
/// milliseconds, and why the last catch-up failed or nothing.
#[napi]
pub fn follower_lag_later(number: u32) -> napi::Result<AsyncTask<Work>> {
    let following = follower_of(number)?;
    Ok(later(move || {
        let lag = following.handle.open()?.lag()?;
        Ok(Answer::Texts(vec![
            lag.position.to_string(),
            lag.newest.to_string(),
            lag.operations.to_string(),
            (lag.age.as_secs_f64() * 1000.0).to_string(),
            lag.error.map(|error| error.to_string()).unwrap_or_default(),
        ]))
    }))
}

/// Opens the store for writing. Returns the number of its default keyspace.
#[napi]
pub fn promote_later(number: u32) -> napi::Result<AsyncTask<Work>> {
    let following = follower_of(number)?;
    Ok(later(move || Ok(part(following.handle.open()?.promote()?))))
}

/// Closes a follower, and waits for the calls that run on it.
#[napi]
pub fn close_follower_later(number: u32) -> napi::Result<AsyncTask<Work>> {
    let following = follower_of(number)?;
    Ok(later(move || following.handle.close().map(|()| Answer::Nothing)))
}
