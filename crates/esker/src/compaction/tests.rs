//! Tests of the pickers.
