//! The change feed: committed batches in order, slots that keep their logs, and the stream that
//! brings them to another store.
//!
//! * `slot_file.rs`: the file of a slot; `slots.rs`: its handle; `state.rs`: which logs are kept.
//! * `walk.rs`: from record to record of the logs; `changes.rs`: the feed made of them, as batches of
//!   `change.rs`.
//! * `kept_tables.rs`: the tables of ingests that slots need; `ingest_parts.rs`: the feed made of them.
//! * `keyspace_log.rs`: the keyspaces in the order of the feed.
//! * `stream.rs`: the feed as bytes; `content.rs`: what it begins with; `apply.rs`: the other end.
//!
//! Decision 0044 says why.

mod apply;
mod change;
mod changes;
mod content;
mod ingest_parts;
mod kept_tables;
mod keyspace_log;
mod slot_file;
mod slots;
mod state;
mod stream;
pub(super) mod walk;

pub use apply::Applier;
pub use change::{Change, ChangeBatch};
pub use changes::Changes;
#[cfg(feature = "internals")]
pub use slot_file::{SlotFate, SlotFile as FeedSlotFile};
pub use slots::{Slot, SlotInfo, SlotOptions};
pub(crate) use state::Feed;
pub use stream::{ChangeReader, ChangeWriter, StreamItem};

/// Decodes bytes as each of the records that the feed keeps in a store. Returns how many they are.
#[cfg(feature = "internals")]
pub fn decode_feed_records(bytes: &[u8]) -> usize {
    let found = [
        keyspace_log::KeyspaceRecord::decode(bytes).is_some(),
        apply::Applied::decode(bytes).is_some(),
        kept_tables::IngestRecord::decode(bytes).is_some(),
    ];
    found.into_iter().filter(|is_record| *is_record).count()
}
