//! Layer 0: types and utilities shared by all other modules. This layer does no file I/O.

pub mod checksum;
pub mod chunk;
pub mod coding;
pub mod crew;
pub mod cursor;
pub mod filter_policy;
pub mod frame;
pub mod frame_pool;
pub mod key;
pub mod large_slice;
pub mod locks;
pub mod ops;
pub mod order;
pub mod own_places;
pub mod prefetch;
pub mod range_delete;
pub mod readers;
pub mod rows;
pub mod shown;
pub mod sync;
pub mod thread_number;
pub mod units;
