//! The place of ingested tables: for each the deepest level that is right, and the guard bounds that
//! keep the tables apart from their neighbours.
//!
//! Invariants:
//! 1. No slice in a level above the place, or in the level itself, overlaps the table. So everything
//!    older of its keys is below it. Only in level 0 may older slices overlap it: the table is a new
//!    run there.
//! 2. A running compaction cannot move older data of the table's keys above the table: its inputs in
//!    the levels down to the place do not overlap the table, and its output is not above its inputs.

use super::TreeLimits;
use crate::metrics::LEVELS;
use crate::tree::version::Version;

/// A table to place.
#[derive(Debug, Clone, Copy)]
pub struct PlacedTable<'a> {
    /// Smallest key.
    pub smallest: &'a [u8],
    /// Largest key.
    pub largest: &'a [u8],
    /// File length in bytes.
    pub size_bytes: u64,
}

/// The places of the tables of an ingest.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The level of each table.
    pub levels: Vec<usize>,
    /// Guard bounds to add, with their level.
    pub bounds_added: Vec<(usize, Vec<u8>)>,
}

/// Returns the places of `tables`, which are disjoint and in key order.
pub fn place(version: &Version, limits: &TreeLimits, tables: &[PlacedTable<'_>]) -> Places {
    let bottom = bottom(version, limits, tables.iter().map(|table| table.size_bytes).sum());
    let mut places = Places::default();
    for table in tables {
        let level = (0..=bottom).take_while(|level| is_clear(version, *level, table)).last();
        let level = level.unwrap_or(0);
        places.levels.push(level);
        add_bounds(version, limits, (level, bottom), table, &mut places.bounds_added);
    }
    places
}

/// Returns the deepest level that the tables may go to: the deepest one in use, or a deeper one that
/// has room for them.
fn bottom(version: &Version, limits: &TreeLimits, bytes: u64) -> usize {
    let has_room = |level: &usize| {
        limits.capacity_bytes(*level) >= version.levels[*level].bytes().saturating_add(bytes)
    };
    let roomy = (1..LEVELS - 1).find(has_room).unwrap_or(LEVELS - 1);
    version.deepest_nonempty().unwrap_or(0).max(roomy)
}

/// Returns whether no slice of `level` overlaps the table.
fn is_clear(version: &Version, level: usize, table: &PlacedTable<'_>) -> bool {
    let order = version.order();
    let guards = version.guards_overlapping(level, Some(table.smallest), Some(table.largest));
    guards.iter().flat_map(|guard| guard.fragments()).all(|(_, fragment)| {
        let (last, is_open) = fragment.last(order);
        let before = order.compare(last, table.smallest);
        let is_before = before.is_lt() || (before.is_eq() && is_open);
        is_before || order.compare(table.largest, fragment.first(order)).is_lt()
    })
}

/// Adds the guard bounds of a table, as a move of its slice would, and one behind it where the policy
/// wants one run in each guard.
fn add_bounds(
    version: &Version,
    limits: &TreeLimits,
    (level, bottom): (usize, usize),
    table: &PlacedTable<'_>,
    bounds: &mut Vec<(usize, Vec<u8>)>,
) {
    if level == 0 || !limits.begins_guard(level, bottom, table.size_bytes) {
        return;
    }
    bounds.push((level, table.smallest.to_vec()));
    if limits.shape().wants_one_run() {
        let order = version.order();
        let guard = version.guard_of(level, table.largest);
        let behind = guard.fragments().map(|(_, fragment)| fragment.first(order));
        let behind = behind.filter(|first| order.compare(table.largest, first).is_lt());
        let next = behind.min_by(|a, b| order.compare(a, b));
        bounds.extend(next.map(|next| (level, next.to_vec())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::order::KeyOrder;
    use crate::options::Options;
    use crate::options::kinds::Policy;
    use crate::tree::edit::VersionEdit;
    use crate::tree::fragment::FileMeta;
    use crate::tree::tests::added;

    fn version(slices: &[(usize, &str, &str)]) -> Version {
        let of = |(number, (level, smallest, largest)): (u64, &(usize, &str, &str))| {
            added(*level, number, number, smallest.as_bytes(), largest.as_bytes())
        };
        let slices = (1..).zip(slices).map(of).collect();
        let edit = VersionEdit { added: slices, ..VersionEdit::default() };
        let make =
            |number, info: &crate::table::TableInfo| FileMeta::new(number, info.clone(), None);
        Version::empty(KeyOrder::Bytewise).after(&edit, make).unwrap()
    }

    fn limits(policy: Policy) -> TreeLimits {
        let options = Options { policy, ..Options::default() };
        TreeLimits::new(&options, 1 << 20, KeyOrder::Bytewise)
    }

    fn table<'a>(smallest: &'a str, largest: &'a str, size_bytes: u64) -> PlacedTable<'a> {
        PlacedTable { smallest: smallest.as_bytes(), largest: largest.as_bytes(), size_bytes }
    }

    #[test]
    fn table_goes_down_to_the_first_overlap() {
        let version = version(&[(0, "a", "c"), (2, "f", "h"), (3, "b", "z")]);
        for policy in Policy::ALL {
            for (smallest, largest, level) in [
                ("b", "d", 0),
                ("c", "c", 0),
                ("a", "z", 0),
                ("g", "g", 1),
                ("d", "g", 1),
                ("i", "k", 2),
                ("zz", "zzz", 3),
            ] {
                let found = place(&version, &limits(*policy), &[table(smallest, largest, 1000)]);
                assert_eq!(found.levels, [level], "{policy} {smallest}..{largest}");
            }
        }
    }

    #[test]
    fn much_data_goes_to_a_level_with_room() {
        for policy in Policy::ALL {
            let limits = limits(*policy);
            let empty = version(&[]);
            let small = place(&empty, &limits, &[table("a", "b", 1000)]);
            assert_eq!(small.levels, [1], "{policy}");
            let large = place(&empty, &limits, &[table("a", "b", limits.capacity_bytes(2) + 1)]);
            assert_eq!(large.levels, [3], "{policy}");
            let most = place(&empty, &limits, &[table("a", "b", u64::MAX / 2)]);
            assert_eq!(most.levels, [LEVELS - 1], "{policy}");
        }
    }

    #[test]
    fn one_run_policies_keep_the_neighbours_in_guards_of_their_own() {
        let version = version(&[(1, "a", "c"), (1, "m", "p")]);
        let found = place(&version, &limits(Policy::Leveled), &[table("f", "h", 100)]);
        let bound = |key: &str| (1, key.as_bytes().to_vec());
        assert_eq!(found, Places { levels: vec![1], bounds_added: vec![bound("f"), bound("m")] });
        // A policy with several runs makes no guard for a small table, and level 0 has none.
        let found = place(&version, &limits(Policy::Fragmented), &[table("f", "h", 100)]);
        assert_eq!(found, Places { levels: vec![1], bounds_added: Vec::new() });
        let found = place(&version, &limits(Policy::Leveled), &[table("b", "h", 100)]);
        assert_eq!(found, Places { levels: vec![0], bounds_added: Vec::new() });
    }
}
