//! A cursor over pairs in key order: of a store, or of a transaction with its own writes.
//!
//! Invariant: a move that fails leaves the cursor at no key, or at the key where it was.

use esker::{DbIterator, Result, TransactionIterator};

/// A cursor over the pairs of a store or of a transaction.
pub enum Cursor {
    /// Over a state of the store.
    Store(DbIterator),
    /// Over a transaction. Boxed, because it is the larger and the rarer one.
    Transaction(Box<TransactionIterator>),
}

impl From<DbIterator> for Cursor {
    fn from(iter: DbIterator) -> Cursor {
        Cursor::Store(iter)
    }
}

impl From<TransactionIterator> for Cursor {
    fn from(iter: TransactionIterator) -> Cursor {
        Cursor::Transaction(Box::new(iter))
    }
}

/// Calls a method of the iterator, whichever it is.
macro_rules! forward {
    ($cursor:expr, $iter:ident => $call:expr) => {
        match $cursor {
            Cursor::Store($iter) => $call,
            Cursor::Transaction($iter) => $call,
        }
    };
}

impl Cursor {
    /// Moves to the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        forward!(self, iter => iter.seek_to_first())
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        forward!(self, iter => iter.seek_to_last())
    }

    /// Moves to the first key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        forward!(self, iter => iter.seek(key))
    }

    /// Moves to the last key at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        forward!(self, iter => iter.seek_for_prev(key))
    }

    /// Moves to the next key. Does nothing if the cursor is not at a key.
    #[inline]
    pub fn move_next(&mut self) -> Result<()> {
        forward!(self, iter => iter.move_next())
    }

    /// Moves to the previous key. Does nothing if the cursor is not at a key.
    #[inline]
    pub fn move_prev(&mut self) -> Result<()> {
        forward!(self, iter => iter.move_prev())
    }

    /// Returns whether the cursor is at a key.
    #[inline]
    pub fn valid(&self) -> bool {
        forward!(self, iter => iter.valid())
    }

    /// Returns the time at which the current pair expires, in milliseconds since 1970; `None` if it
    /// does not expire, the cursor is not at a key, or it is over a transaction.
    pub fn expires_ms(&self) -> Option<u64> {
        match self {
            Cursor::Store(iter) => iter.expires_ms(),
            Cursor::Transaction(_) => None,
        }
    }

    /// Returns the current key, or an empty slice.
    #[inline]
    pub fn key(&self) -> &[u8] {
        forward!(self, iter => iter.key())
    }

    /// Returns the current value, or an empty slice.
    #[inline]
    pub fn value(&self) -> &[u8] {
        forward!(self, iter => iter.value())
    }
}

#[cfg(test)]
mod tests {
    use esker::{Db, Options, TransactionOptions};

    use super::*;

    /// Returns the keys of a cursor forwards, and then backwards.
    fn keys(cursor: &mut Cursor) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            up.push(cursor.key().to_vec());
            cursor.move_next().unwrap();
        }
        cursor.seek_to_last().unwrap();
        while cursor.valid() {
            down.push(cursor.key().to_vec());
            cursor.move_prev().unwrap();
        }
        (up, down)
    }

    #[test]
    fn both_kinds_of_cursor_make_the_same_moves() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
        db.put("a", "1").unwrap();
        db.put("c", "3").unwrap();
        let transaction = db.transaction(TransactionOptions::default());
        transaction.put("b", "2").unwrap();
        let mut store = Cursor::from(db.iter().unwrap());
        let mut own = Cursor::from(transaction.iter().unwrap());
        let (up, down) = keys(&mut store);
        assert_eq!((up.concat(), down.concat()), (b"ac".to_vec(), b"ca".to_vec()));
        let (up, down) = keys(&mut own);
        assert_eq!((up.concat(), down.concat()), (b"abc".to_vec(), b"cba".to_vec()));
        store.seek(b"b").unwrap();
        assert_eq!((store.key(), store.value()), (&b"c"[..], &b"3"[..]));
        own.seek_for_prev(b"bb").unwrap();
        assert_eq!((own.key(), own.value()), (&b"b"[..], &b"2"[..]));
    }
}
