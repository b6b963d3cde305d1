//! What every step of a repair shares: the file system, the key order, the losses, and the count of
//! the entries in memory.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::values::SalvageValues;
use crate::base::order::KeyOrder;
use crate::fs::Fs;
use crate::table::ReadConfig;

/// Count of the entries in memory: the current number and the maximum so far.
#[derive(Debug, Default)]
pub struct EntryCount {
    now: u64,
    /// Maximum number at once.
    pub max: u64,
}

impl EntryCount {
    /// Adds `count` entries.
    pub fn more(&mut self, count: usize) {
        self.now += count as u64;
        self.max = self.max.max(self.now);
    }

    /// Subtracts `count` entries.
    pub fn less(&mut self, count: usize) {
        self.now -= count as u64;
    }
}

/// Shared state of a running repair.
pub struct SalvageContext {
    pub fs: Arc<dyn Fs>,
    pub order: KeyOrder,
    pub config: ReadConfig,
    pub held: EntryCount,
    /// The values of entries that are not in tables.
    pub values: SalvageValues,
    losses: Vec<String>,
    recorded: HashSet<String>,
}

impl SalvageContext {
    /// Creates the state of a repair of the store in `originals`, without losses.
    pub fn new(
        fs: Arc<dyn Fs>,
        order: KeyOrder,
        config: ReadConfig,
        originals: PathBuf,
    ) -> SalvageContext {
        SalvageContext {
            values: SalvageValues::new(fs.clone(), originals),
            fs,
            order,
            config,
            held: EntryCount::default(),
            losses: Vec::new(),
            recorded: HashSet::new(),
        }
    }

    /// Lists a loss, once.
    pub fn record_loss(&mut self, what: String) {
        if self.recorded.insert(what.clone()) {
            self.losses.push(what);
        }
    }

    /// Returns the losses, in the order in which they were recorded.
    pub fn into_losses(self) -> Vec<String> {
        self.losses
    }
}
