//! What the bindings share, so that LevelDB's habits are written once.
//!
//! | in | is |
//! |---|---|
//! | [`calling`] | which of its caller's functions a thread is in |
//! | [`handle`] | a store that can be closed while other threads use it |
//! | [`properties`] | LevelDB's property strings, made from Esker's metrics |
//! | [`settings`] | LevelDB's options as Esker's |
//! | [`upkeep`] | removing a store as LevelDB does |
//!
//! What stays true: nothing here knows a foreign language, and there is no `unsafe`.
#![deny(unsafe_code)]

pub mod calling;
pub mod handle;
pub mod properties;
pub mod settings;
pub mod upkeep;
