//! The objects of one thread of JavaScript, by number, and the buffers that it shares with Rust.
//!
//! Invariants:
//! 1. Each environment of Node has a thread of its own, and so has objects of its own.
//! 2. The end of the environment drops all its objects: an open store is closed then.
//! 3. Work in other threads holds references of its own, so that no object ends during a call.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use esker::diff::Diff;
use esker::{Keyspace, Runtime, Snapshot, ValueReader};
use esker_bindings::handle::Opened;
use napi::Env;
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;

use crate::errors::{caught, closed, invalid};
use crate::feed::Feed;
use crate::follower::Follower;
use crate::ingest::Load;
use crate::iterator::Pairs;
use crate::shared::Store;
use crate::transaction::Held;
use crate::wire::{Applying, Content, Sender};

/// The store of a directory, and one of its keyspaces.
pub struct Part {
    /// The store, until it is closed.
    pub store: Arc<Store>,
    /// The keyspace; the default one if `None`.
    pub keyspace: Option<Keyspace>,
}

impl Part {
    /// Returns the store if it is open.
    #[inline]
    pub fn open(&self) -> esker::Result<Opened> {
        self.store.open()
    }
}

/// An object that JavaScript names by a number.
#[derive(Clone)]
pub enum Object {
    /// A store or a keyspace.
    Part(Arc<Part>),
    /// An iterator.
    Pairs(Arc<Mutex<Pairs>>),
    /// A snapshot.
    Snapshot(Arc<Snapshot>),
    /// A transaction.
    Transaction(Arc<Held>),
    /// A change feed.
    Feed(Arc<Feed>),
    /// A comparison.
    Diff(Arc<Mutex<Diff>>),
    /// Bytes from JavaScript: of a bulk load, a value or a stream.
    Load(Arc<Load>),
    /// A follower.
    Follower(Arc<Follower>),
    /// A runtime.
    Runtime(Runtime),
    /// A reader of a value.
    Value(Arc<Mutex<ValueReader>>),
    /// A writer of changes as bytes.
    Sender(Arc<Sender>),
    /// The content of a store as bytes.
    Content(Arc<Content>),
    /// An applier of changes.
    Applier(Arc<Applying>),
}

/// What a thread of JavaScript shares with Rust.
#[derive(Default)]
pub struct Shared {
    objects: Vec<Option<Object>>,
    free: Vec<u32>,
    /// Keys and operations, written by JavaScript.
    pub input: Buffer,
    /// Values and pairs, written by Rust.
    pub output: Buffer,
    /// A reply that did not fit into `output`.
    pub large: Vec<u8>,
    /// Memory for replies that are being made.
    pub scratch: Vec<u8>,
}

thread_local! {
    static SHARED: RefCell<Shared> = RefCell::default();
}

/// Passes what this thread shares to `work`.
#[inline]
pub fn with<R>(work: impl FnOnce(&mut Shared) -> esker::Result<R>) -> napi::Result<R> {
    caught(|| SHARED.with_borrow_mut(|shared| work(shared)))
}

impl Shared {
    /// Adds an object and returns its number.
    pub fn add(&mut self, object: Object) -> u32 {
        if let Some(number) = self.free.pop() {
            self.objects[number as usize] = Some(object);
            return number;
        }
        self.objects.push(Some(object));
        (self.objects.len() - 1) as u32
    }

    #[inline]
    fn find(&self, number: u32) -> Option<&Object> {
        self.objects.get(number as usize)?.as_ref()
    }

    /// Returns a store or keyspace.
    #[inline]
    pub fn part(&self, number: u32) -> esker::Result<&Arc<Part>> {
        match self.find(number) {
            Some(Object::Part(part)) => Ok(part),
            _ => Err(closed("database")),
        }
    }

    /// Returns an iterator.
    #[inline]
    pub fn pairs(&self, number: u32) -> esker::Result<&Arc<Mutex<Pairs>>> {
        match self.find(number) {
            Some(Object::Pairs(pairs)) => Ok(pairs),
            _ => Err(closed("iterator")),
        }
    }

    /// Returns the snapshot of a read, which has none if `number` is negative.
    #[inline]
    pub fn snapshot(&self, number: i32) -> esker::Result<Option<&Arc<Snapshot>>> {
        let Ok(number) = u32::try_from(number) else { return Ok(None) };
        match self.find(number) {
            Some(Object::Snapshot(snapshot)) => Ok(Some(snapshot)),
            _ => Err(closed("snapshot")),
        }
    }

    /// Returns a transaction.
    pub fn transaction(&self, number: u32) -> esker::Result<&Arc<Held>> {
        match self.find(number) {
            Some(Object::Transaction(held)) => Ok(held),
            _ => Err(closed("transaction")),
        }
    }

    /// Returns a change feed.
    pub fn feed(&self, number: u32) -> esker::Result<&Arc<Feed>> {
        match self.find(number) {
            Some(Object::Feed(feed)) => Ok(feed),
            _ => Err(closed("change feed")),
        }
    }

    /// Returns a comparison.
    pub fn diff(&self, number: u32) -> esker::Result<&Arc<Mutex<Diff>>> {
        match self.find(number) {
            Some(Object::Diff(diff)) => Ok(diff),
            _ => Err(closed("comparison")),
        }
    }

    /// Returns a load.
    pub fn load(&self, number: u32) -> esker::Result<&Arc<Load>> {
        match self.find(number) {
            Some(Object::Load(load)) => Ok(load),
            _ => Err(closed("load")),
        }
    }

    /// Returns a follower.
    pub fn follower(&self, number: u32) -> esker::Result<&Arc<Follower>> {
        match self.find(number) {
            Some(Object::Follower(follower)) => Ok(follower),
            _ => Err(closed("follower")),
        }
    }

    /// Returns a runtime.
    pub fn runtime(&self, number: u32) -> esker::Result<&Runtime> {
        match self.find(number) {
            Some(Object::Runtime(runtime)) => Ok(runtime),
            _ => Err(closed("runtime")),
        }
    }

    /// Returns a reader of a value.
    pub fn value(&self, number: u32) -> esker::Result<&Arc<Mutex<ValueReader>>> {
        match self.find(number) {
            Some(Object::Value(value)) => Ok(value),
            _ => Err(closed("reader of the value")),
        }
    }

    /// Returns a writer of changes.
    pub fn sender(&self, number: u32) -> esker::Result<&Arc<Sender>> {
        match self.find(number) {
            Some(Object::Sender(sender)) => Ok(sender),
            _ => Err(closed("change writer")),
        }
    }

    /// Returns the content of a store.
    pub fn content(&self, number: u32) -> esker::Result<&Arc<Content>> {
        match self.find(number) {
            Some(Object::Content(content)) => Ok(content),
            _ => Err(closed("content")),
        }
    }

    /// Returns an applier of changes.
    pub fn applier(&self, number: u32) -> esker::Result<&Arc<Applying>> {
        match self.find(number) {
            Some(Object::Applier(applier)) => Ok(applier),
            _ => Err(closed("applier")),
        }
    }

    /// Returns the first `bytes` of the input.
    #[inline]
    pub fn input(&self, bytes: u32) -> esker::Result<&[u8]> {
        self.input.get(..bytes as usize).ok_or_else(|| invalid("a length is beyond the input"))
    }

    /// Hands `scratch` to JavaScript, in `output` if it fits. Returns whether it did.
    pub fn hand_over(&mut self) -> bool {
        let bytes = self.scratch.len();
        match self.output.get_mut(..bytes) {
            Some(place) => {
                place.copy_from_slice(&self.scratch);
                true
            }
            None => {
                self.large = std::mem::take(&mut self.scratch);
                false
            }
        }
    }
}

/// Sets the shared buffers of this thread, and clears its objects at the end of its environment.
#[napi(strict)]
pub fn start(env: Env, input: Buffer, output: Buffer) -> napi::Result<()> {
    env.add_env_cleanup_hook((), |()| drop(SHARED.take()))?;
    with(|shared| {
        (shared.input, shared.output) = (input, output);
        Ok(())
    })
}

/// Replaces the input by a larger one.
#[napi(strict)]
pub fn set_input(input: Buffer) -> napi::Result<()> {
    with(|shared| {
        shared.input = input;
        Ok(())
    })
}

/// Returns the reply that did not fit into the output.
#[napi]
pub fn take_large() -> napi::Result<Buffer> {
    with(|shared| Ok(Buffer::from(std::mem::take(&mut shared.large))))
}

/// Drops an object. A number without an object is ignored.
#[napi]
pub fn drop_object(number: u32) -> napi::Result<()> {
    let object = with(|shared| {
        let object = shared.objects.get_mut(number as usize).and_then(Option::take);
        if object.is_some() {
            shared.free.push(number);
        }
        Ok(object)
    })?;
    drop(object);
    Ok(())
}
