//! The knobs whose value is a word, and how each is spelled.

use std::fmt;

/// A knob whose value is one of a few words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal $(| $alias:literal)*),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word for this value.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// The value of a word or one of its aliases, in any case.
            pub fn parse(text: &str) -> Option<$name> {
                let text = text.to_ascii_lowercase();
                match text.as_str() { $($word $(| $alias)* => Some($name::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.name()) }
        }
    };
}

words! {
    /// How a write survives.
    Durability {
        /// No log: lost when the process ends before a flush. For bulk loads.
        None = "none",
        /// Handed to the operating system before the call returns: survives `kill -9`, not power loss.
        Buffered = "buffered",
        /// Synced to the device before the call returns: survives power loss.
        Sync = "sync",
    }
}
words! {
    /// How a log record reaches the operating system.
    WalIo {
        /// Copied into a mapping of the log file: no system call, and as safe from `kill -9`.
        Mmap = "mmap",
        /// Handed over by a write call.
        Write = "write" | "pwrite",
    }
}
words! {
    /// The structure of the table in memory that takes the writes.
    MemtableKind {
        /// A B+tree over key heads: the default and the fastest.
        Btree = "btree" | "redblacktree",
        /// A skip list.
        Skiplist = "skiplist",
        /// A vector sorted at the first read or at the flush: for bulk loads.
        Vector = "vector",
    }
}
words! {
    /// Which block leaves a full cache.
    CachePolicy {
        /// The least recently used.
        Lru = "lru",
        /// The first not used since the hand last passed.
        Clock = "clock",
        /// SIEVE (Zhang et al., NSDI 2024).
        Sieve = "sieve",
        /// S3-FIFO (Yang et al., SOSP 2023): the default.
        S3Fifo = "s3fifo",
        /// Nothing is cached.
        None = "none",
    }
}
words! {
    /// How entries lie in a data block.
    BlockLayout {
        /// Columns: key heads, key tails, values. The default where keys are ordered bytewise.
        Columnar = "columnar",
        /// Keys as differences to the one before, with restart points (`restart_interval`).
        Delta = "delta",
    }
}
words! {
    /// How a block's bytes are compressed.
    Compression {
        /// Not at all.
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
    /// How a table's index is searched.
    IndexSearch {
        /// A static multiway tree of `index_fanout` (default).
        Btree = "btree",
        /// Binary search.
        Binary = "binary" | "binarysearch",
        /// Interpolation over key heads, then binary.
        Interpolation = "interpolation",
    }
}
words! {
    /// How files are arranged and merged.
    Policy {
        /// One run per level; a push merges into the child (LevelDB, RocksDB).
        Leveled = "leveled" | "level",
        /// `fan_out` runs per level, merged into one run of the next (Cassandra, universal).
        Tiered = "tiered" | "universal",
        /// Guards with several fragments, never merged with the base (PebblesDB, SOSP 2017).
        Fragmented = "fragmented" | "flsm",
        /// Tiered above, one run in the last level (Dostoevsky, SIGMOD 2018).
        Lazy = "lazy",
        /// Fragments everywhere, the base rewritten only when as much is new (default).
        Fluid = "fluid",
    }
}
