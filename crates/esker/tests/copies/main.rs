//! What goes into a store and comes out of it as a whole: ingests, the change feed, forks, comparisons, backups. One program: each further one takes seconds to link.

mod backup;
#[path = "../common/mod.rs"]
mod common;
mod diff_model;
mod feed;
mod feed_ingest;
mod feed_model;
mod fork;
mod format_versions;
mod ingest;
mod ingest_model;
mod ingest_readers;
