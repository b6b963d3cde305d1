//! What a store tells: events, `LOG`, metrics. One program: each further one takes seconds to link.

#[path = "../common/mod.rs"]
mod common;
mod files;
mod info_log;
mod listeners;
mod openmetrics;
