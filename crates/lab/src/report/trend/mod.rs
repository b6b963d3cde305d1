//! The trend of one series over several records: figures by record, changes, and a verdict for each
//! row.
//!
//! Invariant: text, JSON and page are made from the same [`judge::Trend`].

pub mod html;
pub mod judge;
pub mod sources;
pub mod text;
