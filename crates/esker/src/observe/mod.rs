//! Layer 0: the events of a store, the listeners that get them, and their text.
//!
//! `event.rs` has the events and the trait of a listener. `dispatch.rs` collects events and calls
//! the listeners. `text.rs` formats events as sentences. `stall.rs` describes what writes wait for.
//! `spans.rs` passes events to the crate `tracing`.

mod dispatch;
mod event;
#[cfg(feature = "tracing")]
mod spans;
mod stall;
mod text;

pub use dispatch::{EventSink, Listeners};
pub use event::{Event, EventListener};
#[cfg(feature = "tracing")]
pub use spans::TracingListener;
pub use stall::Stall;
pub use text::utc;
