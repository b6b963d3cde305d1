//! A filter policy that holds flushes and compactions while its gate is shut.

use std::sync::{Arc, Condvar, Mutex};

use esker::FilterPolicy;

/// A gate. It is open at first.
#[derive(Default)]
pub struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    /// Creates a gate that is shut.
    pub fn shut() -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        gate.set(true);
        gate
    }

    /// Shuts the gate, or opens it.
    pub fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.changed.notify_all();
    }

    /// Opens the gate.
    pub fn open(&self) {
        self.set(false);
    }
}

/// Opens the gate also when a test fails, so that the store can be closed.
pub struct OpenAtEnd(pub Arc<Gate>);

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Holds each table at its filter while the gate is shut.
pub struct GatePolicy(pub Arc<Gate>);

impl FilterPolicy for GatePolicy {
    fn name(&self) -> &str {
        "test.Gate"
    }

    fn create(&self, _: &[&[u8]]) -> Vec<u8> {
        let mut is_shut = self.0.is_shut.lock().unwrap();
        while *is_shut {
            is_shut = self.0.changed.wait(is_shut).unwrap();
        }
        Vec::new()
    }

    fn may_contain(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}
