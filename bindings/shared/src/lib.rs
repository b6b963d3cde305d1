//! Code shared by the bindings, so that LevelDB's behaviour is implemented once.
//!
//! | module | content |
//! |---|---|
//! | [`calling`] | detection of re-entrant calls from a comparator or filter |
//! | [`closable`] | an object that can be closed while other threads use it |
//! | [`counting`] | the counts of a thread's calls, in parts of a program that nest |
//! | [`cursor`] | a cursor over the pairs of a store or of a transaction |
//! | [`events`] | the events of a store as named fields |
//! | [`encryption`] | keys of encrypted stores, and the change of a key |
//! | [`feed`] | batches of changes and differences as bytes |
//! | [`follower`] | a follower that can be closed while other threads use it |
//! | [`handle`] | a store handle that can be closed while other threads use the store |
//! | [`orders`] | the key orders that keyspaces of a store may have, by name |
//! | [`parts`] | byte strings as C takes them |
//! | [`properties`] | LevelDB's property strings, from Esker's metrics |
//! | [`retry`] | the pause before a transaction runs again |
//! | [`runtime`] | options of a runtime from text, and numbers by name |
//! | [`settings`] | conversion of LevelDB's options to Esker's |
//! | [`removal`] | removal of a store with LevelDB's semantics |
//!
//! Invariants: the crate depends on no foreign language, and has no `unsafe` code.
#![deny(unsafe_code)]

pub mod calling;
pub mod closable;
pub mod counting;
pub mod cursor;
pub mod encryption;
pub mod events;
pub mod feed;
pub mod follower;
pub mod handle;
pub mod orders;
pub mod parts;
pub mod properties;
pub mod removal;
pub mod retry;
pub mod runtime;
pub mod settings;
