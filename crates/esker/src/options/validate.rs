//! Resolution of `auto`, and conflicts between options.

use super::Options;
use crate::base::chunk::CHUNK_BYTES;
use crate::base::units::{GIB, MIB};
use crate::error::{Error, Result};

/// Maximum length of the name of a merge operator, in bytes.
pub const OPERATOR_NAME_BYTES_MAX: usize = 255;

/// Sizes of an open store, with every `auto` replaced by a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Limit on memtables, cache, filters and indexes together, in bytes.
    pub memory_budget_bytes: u64,
    /// Size at which a memtable becomes immutable, in bytes.
    pub memtable_bytes: u64,
    /// Size of the block cache, in bytes.
    pub cache_bytes: u64,
    /// Debt at which the write throttle is strongest, in bytes.
    pub debt_limit_bytes: u64,
    /// Number of compaction threads.
    pub compaction_threads: usize,
}

/// Rounds `bytes` down to whole memtable chunks. A memtable's last chunk takes its full memory even
/// when it is hardly used.
fn whole_chunks(bytes: u64) -> u64 {
    let chunk = CHUNK_BYTES as u64;
    if bytes < chunk { bytes } else { bytes / chunk * chunk }
}

/// Returns the part of a budget for short-lived memory (cursors with their read-ahead, blocks and
/// filters under construction) and for allocator fragmentation. It is an eighth, but at least the
/// smaller of 64 MiB and a quarter of the budget, because merges need the same memory with any
/// budget.
pub fn transient_bytes(budget_bytes: u64) -> u64 {
    (budget_bytes / 8).max((64 << 20).min(budget_bytes / 4))
}

impl Options {
    /// Checks every range, and whether the memtables fit the memory budget.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] with the name of the option.
    pub fn validate(&self) -> Result<()> {
        if let Some(name) = self.row_out_of_range() {
            let value = self.get(name).unwrap_or_default();
            let range = super::find(name).map(|k| k.range.to_string()).unwrap_or_default();
            return Err(Error::invalid(format!("{name} cannot be {value}: it takes {range}")));
        }
        for compression in [Some(self.compression), self.compression_upper].into_iter().flatten() {
            if !compression.is_built_in() {
                return Err(Error::invalid(compression.missing_feature()));
            }
        }
        for operator in self.merge_operator.iter().chain(&self.merge_operators) {
            let bytes = operator.name().len();
            if bytes == 0 || bytes > OPERATOR_NAME_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "the name of a merge operator has {bytes} bytes; it takes 1 to \
                     {OPERATOR_NAME_BYTES_MAX}"
                )));
            }
        }
        if let (Some(budget), Some(memtable)) = (self.memory_budget_bytes, self.memtable_size_bytes)
            && memtable.saturating_mul(1 + self.frozen_memtables_max) > budget
        {
            return Err(Error::invalid(format!(
                "memory_budget_bytes={budget} is too small for 1 + {} memtables of {memtable} \
                 bytes; raise memory_budget_bytes, or lower memtable_size_bytes or \
                 frozen_memtables_max",
                self.frozen_memtables_max
            )));
        }
        Ok(())
    }

    /// Resolves every `auto` for a process that may use `memory_bytes` on a machine with `cores`
    /// cores.
    pub(crate) fn sizes(&self, memory_bytes: u64, cores: usize) -> Sizes {
        let automatic = (memory_bytes / 4).clamp(4 * MIB, GIB);
        let memtable = |budget: u64| {
            let several = budget / 2 / (1 + self.frozen_memtables_max);
            let automatic = (budget / 8).min(several).min(64 * MIB);
            self.memtable_size_bytes.unwrap_or_else(|| whole_chunks(automatic))
        };
        let memtables = |budget: u64| memtable(budget) * (1 + self.frozen_memtables_max);
        let budget = self.memory_budget_bytes.unwrap_or_else(|| {
            let asked =
                self.cache_size_bytes.map_or(0, |c| (c + memtables(automatic) + 32 * MIB) / 7 * 8);
            let for_memtables = memtables(automatic) * 2;
            automatic.max(asked).max(if self.memtable_size_bytes.is_some() {
                for_memtables
            } else {
                0
            })
        });
        let memtable_bytes = memtable(budget);
        let room = budget.saturating_sub(memtables(budget).min(budget / 2));
        Sizes {
            memory_budget_bytes: budget,
            memtable_bytes,
            cache_bytes: self.cache_size_bytes.unwrap_or(budget / 2).min(room),
            debt_limit_bytes: self.debt_limit_bytes.unwrap_or(24 * memtable_bytes),
            compaction_threads: self
                .background_threads
                .map_or(cores.saturating_sub(1).max(1), |n| n as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_on_small_and_large_machines() {
        let options = Options::default();
        let large = options.sizes(64 * GIB, 16);
        assert_eq!(large.memory_budget_bytes, GIB);
        assert_eq!(large.memtable_bytes, 64 * MIB);
        assert_eq!(large.compaction_threads, 15);
        let small = options.sizes(256 * MIB, 1);
        assert_eq!(small.memory_budget_bytes, 64 * MIB);
        assert_eq!(small.memtable_bytes, 8 * MIB);
        assert_eq!(small.compaction_threads, 1);
        let tight = options.sizes(96 * MIB, 2);
        assert_eq!((tight.memory_budget_bytes, tight.memtable_bytes), (24 * MIB, 2 * MIB));
        let least = options.sizes(MIB, 2);
        assert_eq!((least.memory_budget_bytes, least.memtable_bytes), (4 * MIB, MIB / 2));
    }

    #[test]
    fn memtables_that_do_not_fit_the_budget_are_refused() {
        let mut options = Options {
            memory_budget_bytes: Some(16 * MIB),
            memtable_size_bytes: Some(256 * MIB),
            frozen_memtables_max: 2,
            ..Options::default()
        };
        let error = options.validate().unwrap_err();
        assert!(error.message().contains("memtable_size_bytes"), "{error}");
        options.memtable_size_bytes = Some(5 * MIB);
        options.validate().unwrap();
        options.memtable_size_bytes = None;
        options.frozen_memtables_max = 64;
        options.validate().unwrap();
        assert!(options.sizes(GIB, 2).memtable_bytes * 65 <= 8 * MIB);
    }

    #[test]
    fn cache_size_raises_automatic_budget_and_is_limited_by_explicit_one() {
        let mut options = Options { cache_size_bytes: Some(2 * GIB), ..Options::default() };
        assert_eq!(options.sizes(64 * GIB, 2).cache_bytes, 2 * GIB);
        options.memory_budget_bytes = Some(64 * MIB);
        assert!(options.sizes(64 * GIB, 2).cache_bytes <= 64 * MIB);
    }
}
