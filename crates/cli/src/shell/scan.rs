//! Scans of the shell: the range, the cursor over the store or over a transaction, and the note
//! that more pairs follow.

use std::ops::Bound;

use esker::{DbIterator, KeyBounds, TransactionIterator};

use crate::bytes::Encoding;

/// Maximum key length, in bytes, repeated in the proposal of the next command.
const PROPOSED_KEY_BYTES_MAX: usize = 200;

/// Range and direction of a scan.
pub struct ScanRange {
    /// Its bounds, in the order of the keyspace.
    pub bounds: KeyBounds,
    /// Whether it begins at its end.
    pub reverse: bool,
}

impl ScanRange {
    /// Creates the range from `from`, included, to `to`, excluded.
    pub fn new(from: Option<Vec<u8>>, to: Option<Vec<u8>>, reverse: bool) -> ScanRange {
        let lower = from.map_or(Bound::Unbounded, Bound::Included);
        let upper = to.map_or(Bound::Unbounded, Bound::Excluded);
        ScanRange { bounds: (lower, upper), reverse }
    }
}

/// The cursor of a scan, of the store or of a transaction.
pub enum Cursor {
    /// Of the store or of a snapshot.
    Store(DbIterator),
    /// Of a transaction.
    Transaction(Box<TransactionIterator>),
}

/// Calls the same method of either iterator.
macro_rules! either {
    ($cursor:expr, $iter:ident => $call:expr) => {
        match $cursor {
            Cursor::Store($iter) => $call,
            Cursor::Transaction($iter) => $call,
        }
    };
}

impl Cursor {
    /// Moves to the first pair, or in reverse to the last.
    pub fn begin(&mut self, reverse: bool) -> esker::Result<()> {
        either!(self, iter => if reverse { iter.seek_to_last() } else { iter.seek_to_first() })
    }

    /// Moves to the next pair, or in reverse to the previous.
    pub fn advance(&mut self, reverse: bool) -> esker::Result<()> {
        either!(self, iter => if reverse { iter.move_prev() } else { iter.move_next() })
    }

    /// Returns whether there is a current pair.
    pub fn valid(&self) -> bool {
        either!(self, iter => iter.valid())
    }

    /// Returns the key of the current pair.
    pub fn key(&self) -> &[u8] {
        either!(self, iter => iter.key())
    }

    /// Returns the value of the current pair.
    pub fn value(&self) -> &[u8] {
        either!(self, iter => iter.value())
    }
}

/// Returns the first key after all keys with `prefix`; `None` if every byte of it is 255.
pub fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let len = prefix.iter().rposition(|byte| *byte < u8::MAX)? + 1;
    let mut behind = prefix[..len].to_vec();
    behind[len - 1] += 1;
    Some(behind)
}

/// Formats the note that a scan stopped at the limit, with the command that continues at `next`.
/// `has_least_key` says that the empty key is the first in the order.
pub fn more(
    shown: u64,
    range: &ScanRange,
    next: &[u8],
    has_least_key: bool,
    encoding: Encoding,
) -> String {
    let mut text = format!("-- {shown} pairs shown, more follow; `limit off` shows all");
    let edges = match (range.reverse, &range.bounds) {
        (true, (Bound::Included(from), _)) => [Some(&from[..]), Some(next)],
        (true, (Bound::Unbounded, _)) if has_least_key => [Some(&b""[..]), Some(next)],
        (false, (_, Bound::Excluded(to))) => [Some(next), Some(&to[..])],
        (false, (_, Bound::Unbounded)) => [Some(next), None],
        // No command spells the other bounds.
        _ => return text,
    };
    if edges.iter().flatten().any(|key| key.len() > PROPOSED_KEY_BYTES_MAX) {
        return text;
    }
    text += if range.reverse { ", `rscan" } else { ", `scan" };
    for key in edges.into_iter().flatten() {
        let mut word = vec![b' '];
        encoding.write_word(key, &mut word);
        text += &String::from_utf8_lossy(&word);
    }
    text + "` continues"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_after_all_keys_with_prefix() {
        assert_eq!(behind_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(behind_prefix(b"\xff"), None);
        assert_eq!(behind_prefix(b""), None);
    }

    #[test]
    fn next_command_is_proposed_unless_keys_are_long() {
        let range = |reverse| ScanRange::new(None, Some(b"z z".to_vec()), reverse);
        let text = more(5, &range(false), b"k\xff", true, Encoding::Text);
        assert!(text.ends_with("`scan k\\xff z\\x20z` continues"), "{text}");
        let text = more(5, &range(true), b"k", true, Encoding::Text);
        assert!(text.ends_with("`rscan \"\" k` continues"), "{text}");
        assert!(more(5, &range(false), &[b'k'; 300], true, Encoding::Text).ends_with("shows all"));
        assert!(more(5, &range(true), b"k", false, Encoding::Text).ends_with("shows all"));
    }
}
