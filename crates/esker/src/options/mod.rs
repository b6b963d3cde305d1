//! Layer 0: every knob. The rows are in `table.rs`; words in `kinds.rs`.

pub mod kinds;
