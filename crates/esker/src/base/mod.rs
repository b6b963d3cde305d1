//! Layer 0: words every other module speaks. Nothing here touches a file.

pub mod checksum;
pub mod coding;
pub mod cursor;
pub mod key;
pub mod order;
pub mod range_delete;
pub mod units;
