//! Visible cursors over runs of slices, compared with a list, in both directions and with
//! reversals. Covers moves within a row batch ([`crate::base::rows`]) and moves of the source.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cursors::{Entry, KEYS, Random, key, kind, run, tables};
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::order::KeyOrder;
use crate::base::thresholds::Thresholds;
use crate::fs::Fs;
use crate::fs::MemFs;
use crate::iter::merge::MergeCursor;
use crate::iter::visible::VisibleCursor;
use crate::tree::cursor::run_cursor;

/// Returns the keys visible at `snapshot` with their values.
fn visible(shown: &[Entry], snapshot: SeqNo) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut newest: BTreeMap<&[u8], SeqNo> = BTreeMap::new();
    for (key, seqno) in shown.iter().filter(|(_, seqno)| seqno.0 <= snapshot) {
        let known = newest.entry(key).or_default();
        *known = seqno.0.max(*known);
    }
    let put = newest.into_iter().filter(|(_, seqno)| kind(*seqno) == Kind::Put);
    put.map(|(key, seqno)| (key.to_vec(), seqno.to_string().into_bytes())).collect()
}

/// Seeks, and moves in changing directions. Returns the number of moves within a block, and the
/// number of pairs passed to a visitor without a move.
fn compare(
    cursor: &mut VisibleCursor<MergeCursor>,
    model: &[(Vec<u8>, Vec<u8>)],
    random: &mut Random,
) -> (u64, u64) {
    let (mut within, mut shown) = (0, 0);
    for _ in 0..60 {
        let target = key(random.below(KEYS));
        let after = model.partition_point(|(key, _)| *key < target);
        let mut forward = random.below(2) == 0;
        let mut at = if random.below(2) == 0 {
            cursor.seek(&target).unwrap();
            Some(after)
        } else {
            cursor.seek_for_prev(&target).unwrap();
            model.partition_point(|(key, _)| *key <= target).checked_sub(1)
        };
        for _ in 0..random.below(30) {
            let expected = at.and_then(|at| model.get(at));
            let here = cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec()));
            assert_eq!(here.as_ref(), expected, "from {}", target.escape_ascii());
            if !cursor.valid() {
                break;
            }
            forward ^= random.below(8) == 0;
            if random.below(4) == 0 {
                let start = at.unwrap();
                at = show(cursor, forward, random.below(20) as usize, model, start);
                shown += at.unwrap().abs_diff(start) as u64;
            }
            if forward {
                cursor.next().unwrap();
                at = at.map(|at| at + 1);
            } else {
                cursor.prev().unwrap();
                at = at.and_then(|at| at.checked_sub(1));
            }
            within += u64::from(cursor.is_in_batch());
        }
    }
    (within, shown)
}

/// Passes pairs to a visitor until it has seen `wanted` more pairs or the source would have to
/// move. Compares the pairs with the model from `start` on, and returns the position of the last
/// pair.
fn show(
    cursor: &mut VisibleCursor<MergeCursor>,
    forward: bool,
    wanted: usize,
    model: &[(Vec<u8>, Vec<u8>)],
    start: usize,
) -> Option<usize> {
    let mut seen = Vec::new();
    let more = cursor.for_each_row(forward, &mut |key, value| {
        seen.push((key.to_vec(), value.to_vec()));
        seen.len() <= wanted
    });
    assert!(!seen.is_empty() && more == (seen.len() <= wanted));
    let last = if forward { start + seen.len() - 1 } else { start + 1 - seen.len() };
    if !forward {
        seen.reverse();
    }
    assert_eq!(seen, model[start.min(last)..=start.max(last)]);
    let here = (cursor.key().to_vec(), cursor.value().to_vec());
    assert!(cursor.valid() && here == model[last], "the cursor is not on the last pair visited");
    Some(last)
}

#[test]
fn row_batch_iteration_matches_step_iteration() {
    for (runs, more) in [(1, 40), (2, 40), (3, 40), (2, 4)] {
        let (mut within, mut showed) = (0, 0);
        for seed in 0..80 {
            let thresholds =
                if seed % 4 == 3 { Thresholds::default() } else { Thresholds::small() };
            let fs: Arc<dyn Fs> = MemFs::new();
            let mut random = Random(seed * 7 + runs);
            let (mut children, mut shown) = (Vec::new(), Vec::new());
            for order in (1..=runs).rev() {
                let (run, entries) = run(&fs, order, more, &mut random);
                children.push(run_cursor(&tables(&fs), &run, false).unwrap());
                shown.extend(entries);
            }
            let snapshot = match random.below(3) {
                0 => 1 + random.below(runs * 1000 + 400),
                _ => SEQNO_MAX,
            };
            let order = KeyOrder::Bytewise;
            let merge = MergeCursor::new(order.clone(), children);
            let cursor = VisibleCursor::new(merge, order, snapshot, None);
            let mut cursor = cursor.with_thresholds(&thresholds);
            let counts = compare(&mut cursor, &visible(&shown, snapshot), &mut random);
            (within, showed) = (within + counts.0, showed + counts.1);
        }
        // Row batches are rare where every key has many versions or where runs interleave.
        let expected = if (runs, more) == (1, 40) { 2_000 } else { 1 };
        assert!(showed >= expected, "{showed} pairs shown without a move, of {runs} runs");
        assert!(within >= expected, "{within} moves within blocks of {runs} runs");
    }
}
