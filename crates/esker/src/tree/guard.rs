//! Runs, guards and levels.

use std::sync::Arc;

use super::fragment::{FileMeta, Fragment};

/// Slices that do not overlap, in key order.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its age within the guard: larger is newer.
    pub order: u64,
    /// The slices.
    pub fragments: Vec<Arc<Fragment>>,
}

impl Run {
    /// Roughly its bytes.
    pub fn bytes(&self) -> u64 {
        self.fragments.iter().map(|f| f.est_bytes()).sum()
    }
}

/// A key range with its runs, newest first.
#[derive(Debug, Clone)]
pub struct Guard {
    /// The first key; `None` is the beginning.
    pub lo: Option<Vec<u8>>,
    /// The first key of the next guard; `None` is the end.
    pub hi: Option<Vec<u8>>,
    /// The runs.
    pub runs: Vec<Run>,
}

impl Guard {
    /// Roughly its bytes.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(Run::bytes).sum()
    }

    /// Its slices, newest run first.
    pub fn fragments(&self) -> impl Iterator<Item = (u64, &Arc<Fragment>)> {
        self.runs.iter().flat_map(|run| run.fragments.iter().map(|f| (run.order, f)))
    }
}

/// What a level holds of a file, before it is cut into guards.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The age of the run it belongs to.
    pub order: u64,
    /// The file.
    pub file: Arc<FileMeta>,
    /// The first key shown.
    pub lo: Option<Vec<u8>>,
    /// The first key not shown any more.
    pub hi: Option<Vec<u8>>,
}

/// A level: a partition of the key space into guards.
#[derive(Debug, Clone, Default)]
pub struct Level {
    /// The guards in key order; never none.
    pub guards: Vec<Arc<Guard>>,
    /// Where guards but the first start.
    pub(super) bounds: Vec<Vec<u8>>,
    /// What the guards were cut from.
    pub(super) pieces: Vec<Piece>,
}

impl Level {
    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Roughly its bytes.
    pub fn bytes(&self) -> u64 {
        self.guards.iter().map(|g| g.bytes()).sum()
    }

    /// Where guards but the first start.
    pub fn bounds(&self) -> &[Vec<u8>] {
        &self.bounds
    }
}
