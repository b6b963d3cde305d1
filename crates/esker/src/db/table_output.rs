//! How flushes, compactions and replays write tables: the options of a table and the place of its
//! file in level 0.
//!
//! Invariants: a table has the options of its tree at the time when it is begun. Files and tables
//! get numbers that no other file or table of the store has.

use super::state::DbInner;
use super::tree::Tree;
use crate::base::checksum::checksum;
use crate::base::keyspace::TreeId;
use crate::base::sync::atomic::Ordering;
use crate::compaction::{Plan, PlanInput};
use crate::options::Options;
use crate::table::{FilterConfig, ReadConfig, Table, TableOptions};
use crate::tree::edit::{AddedFile, AddedSlice};
use crate::tree::output::{NewFile, Opened, OutputConfig, Pace};

impl DbInner {
    /// Returns the configuration for writing a table of a level of `tree` now.
    pub fn output_config(&self, tree: &Tree, level: usize) -> OutputConfig {
        let options = tree.options.load();
        let numbers = self.numbers.clone();
        let seed = self.next_id();
        let mut step = 0u64;
        OutputConfig {
            fs: self.fs.clone(),
            dir: self.dir.clone(),
            table: table_options(&options, tree.id, level),
            read: ReadConfig { is_flushed: level == 0, ..tree.tables.config().clone() },
            file_size_max_bytes: options.file_size_max_bytes,
            verify: options.verify_tables,
            next_number: Box::new(move || numbers.fetch_add(1, Ordering::Relaxed)),
            next_table_id: Box::new(move || {
                step += 1;
                checksum(&step.to_le_bytes(), seed) | 1
            }),
            opened: Some(Opened::new(&tree.tables)),
            over_others: level == 0,
            pace: self.output_pace(level == 0),
            values: self.value_config(tree),
        }
    }
}

impl DbInner {
    /// Returns the configuration for the output of `plan`.
    pub(super) fn compaction_output(&self, tree: &Tree, plan: &Plan) -> OutputConfig {
        let mut config = self.output_config(tree, plan.output_level);
        // A file may keep other slices, and with them its permit: each slice stands for its share.
        let given_back = |input: &PlanInput| {
            let file = &input.fragment.file;
            let permit_bytes = file.peek(Table::index_permit_bytes).unwrap_or(0);
            let share_bytes = input.fragment.est_bytes().min(file.info.size_bytes);
            let given = u128::from(permit_bytes) * u128::from(share_bytes);
            (given / u128::from(file.info.size_bytes.max(1))) as u64
        };
        config.read.index_credit_bytes = plan.inputs.iter().map(given_back).sum();
        config.read.is_flushed = false;
        config
    }

    /// Returns what each output calls with the bytes that it writes, if the store's runtime limits
    /// them. `is_urgent` for a flush.
    fn output_pace(&self, is_urgent: bool) -> Option<Pace> {
        let limit = self.share.as_ref()?.runtime().rate_limit().clone();
        let store = self.me.clone();
        let is_ended = move || {
            store.upgrade().is_none_or(|store| {
                let queue = store.queue.lock();
                queue.is_stopped() || queue.space_waiters > 0
            })
        };
        Some(Box::new(move |bytes| limit.take(bytes, is_urgent, &is_ended)))
    }
}

/// Returns the slice of a new file of level 0.
pub(super) fn level_zero_slice(file: NewFile, order: u64) -> AddedSlice {
    let NewFile { number, info, hi, .. } = file;
    AddedSlice { level: 0, order, file: AddedFile::New { number, info }, lo: None, hi }
}

/// Returns the table options for a level of `tree` under `options`.
pub(super) fn table_options(options: &Options, tree: TreeId, level: usize) -> TableOptions {
    let filter = match (&options.filter_policy, options.filter_bits_per_key) {
        (Some(policy), _) => FilterConfig::Custom(policy.clone()),
        (None, bits) if bits > 0.0 && options.key_order.equal_keys_are_identical() => {
            FilterConfig::Bloom { bits_per_key: bits }
        }
        _ => FilterConfig::None,
    };
    TableOptions {
        order: options.key_order.clone(),
        block_size_bytes: options.block_size_bytes as usize,
        layout: options.block_layout,
        restart_interval: options.restart_interval as usize,
        compression: match options.compression_upper {
            Some(upper) if level <= 1 => upper,
            _ => options.compression,
        },
        compression_level: options.compression_level as i32,
        dictionary_max_bytes: options.compression_dictionary_max_bytes as usize,
        filter,
        tree,
        external: None,
        direct: options.direct_io,
    }
}
