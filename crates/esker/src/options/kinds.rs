//! The options with a fixed set of values, and the names of the values.

use std::fmt;

use crate::error::Error;

/// Defines an option type with a fixed set of named values.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal $(| $alias:literal)*),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// All values, in the order of the documentation.
            #[doc(hidden)]
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Returns the name of this value, as it is printed and parsed.
            #[doc(hidden)]
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// Returns the value of a name or alias, in any case.
            pub(crate) fn parse(text: &str) -> Option<$name> {
                let text = text.to_ascii_lowercase();
                match text.as_str() { $($word $(| $alias)* => Some($name::$variant),)+ _ => None }
            }
        }

        /// Parses a name or an alias, in any case.
        impl std::str::FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<$name, Error> {
                let names: Vec<&str> = $name::ALL.iter().map(|value| value.name()).collect();
                let expected = || format!("expected one of {}, found {text:?}", names.join(", "));
                $name::parse(text).ok_or_else(|| Error::invalid(expected()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.name()) }
        }
    };
}

/// From which length on values are kept in value files instead of tables. Default: off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueSeparation {
    /// All values are in tables.
    Off,
    /// Values of at least this many bytes are in value files.
    From(u64),
}

impl ValueSeparation {
    /// The default. `scripts/separated.sh` runs the tests with all values in value files.
    pub(crate) const DEFAULT: ValueSeparation =
        if cfg!(esker_separated) { ValueSeparation::From(0) } else { ValueSeparation::Off };
}

impl Default for ValueSeparation {
    fn default() -> ValueSeparation {
        ValueSeparation::DEFAULT
    }
}

words! {
    /// Durability of a write.
    Durability {
        /// The write is not logged. It is lost if the process ends before a flush. For bulk loads.
        None = "none",
        /// The write is in the operating system before the call returns. It survives `kill -9`, but
        /// not a power failure.
        Buffered = "buffered",
        /// The write is synced to the device before the call returns. It survives a power failure.
        Sync = "sync",
    }
}
words! {
    /// Method that moves a log record to the operating system.
    WalIo {
        /// A copy into the memory-mapped log file: no system call, and equally safe from `kill -9`.
        Mmap = "mmap",
        /// A write call.
        Write = "write" | "pwrite",
    }
}
words! {
    /// Data structure of the memtable.
    MemtableKind {
        /// A B+tree over key heads: the default and the fastest.
        Btree = "btree" | "redblacktree",
        /// A skip list.
        Skiplist = "skiplist",
        /// A vector that is sorted at the first read or at the flush. For bulk loads.
        Vector = "vector",
    }
}
words! {
    /// Replacement policy of the block cache.
    CachePolicy {
        /// The least recently used.
        Lru = "lru",
        /// The first block without a use since the clock hand last passed it.
        Clock = "clock",
        /// SIEVE (Zhang et al., NSDI 2024).
        Sieve = "sieve",
        /// S3-FIFO (Yang et al., SOSP 2023): the default.
        S3Fifo = "s3fifo",
        /// No block is cached.
        None = "none",
    }
}
words! {
    /// Layout of the entries in a data block.
    BlockLayout {
        /// Columns of key heads, key tails and values. The default with the bytewise order.
        Columnar = "columnar",
        /// Keys without the bytes shared with the previous key, with restart points
        /// (`restart_interval`).
        Delta = "delta",
    }
}
words! {
    /// Compression of a block.
    Compression {
        /// No compression.
        None = "none" | "0" | "no",
        /// LZ4 block format.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
        /// Snappy.
        Snappy = "snappy" | "1",
    }
}
words! {
    /// Search method of a table's index.
    IndexSearch {
        /// A static multiway tree of fan-out `index_fanout` (default).
        Btree = "btree",
        /// Binary search.
        Binary = "binary" | "binarysearch",
        /// Interpolation over key heads, then binary search.
        Interpolation = "interpolation",
    }
}
words! {
    /// Compaction policy.
    Policy {
        /// One run per level. A push merges into the next level (LevelDB, RocksDB).
        Leveled = "leveled" | "level",
        /// `fan_out` runs per level, merged into one run of the next level (Cassandra, RocksDB's
        /// universal compaction).
        Tiered = "tiered" | "universal",
        /// Guards with several fragments, which are never merged with the base (PebblesDB, SOSP
        /// 2017).
        Fragmented = "fragmented" | "flsm",
        /// Tiered upper levels, one run in the last level (Dostoevsky, SIGMOD 2018).
        Lazy = "lazy",
        /// Fragments in every level. The base is rewritten only when an equal amount is new
        /// (default).
        Fluid = "fluid",
    }
}

impl Compression {
    /// Default of [`crate::Options::compression`]: LZ4 if it is built in, else none.
    pub(crate) const DEFAULT: Compression =
        if cfg!(feature = "lz4") { Compression::Lz4 } else { Compression::None };

    /// Returns the sentence for a build of the engine that lacks the compression.
    pub(crate) fn missing_feature(self) -> &'static str {
        match self {
            Compression::None => "no compression is needed",
            Compression::Lz4 => {
                "the compression lz4 is not built in: build the crate esker with the feature lz4"
            }
            Compression::Zstd => {
                "the compression zstd is not built in: build the crate esker with the feature zstd"
            }
            Compression::Snappy => {
                "the compression snappy is not built in: build the crate esker with the feature \
                 snappy"
            }
        }
    }

    /// Returns whether this build of the engine has the compression. Cargo features decide it: `lz4`
    /// (default), `zstd` and `snappy`.
    pub fn is_built_in(self) -> bool {
        match self {
            Compression::None => true,
            Compression::Lz4 => cfg!(feature = "lz4"),
            Compression::Zstd => cfg!(feature = "zstd"),
            Compression::Snappy => cfg!(feature = "snappy"),
        }
    }
}
