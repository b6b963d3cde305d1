//! The tests of the crate `kvdb-shared-tests`, which Parity's stores share, on Esker behind an
//! adapter: a column is a keyspace, and a write of several columns is a transaction.

use std::io;
use std::sync::Mutex;

use esker::fs::MemFs;
use esker::{Db, Keyspace, KeyspaceOptions, Transaction, TransactionOptions};
use esker_testkit::campaign::script::tiny_options;
use kvdb::{DBKey, DBKeyValue, DBOp, DBTransaction, DBValue, IoStats, IoStatsKind, KeyValueDB};

/// The pairs of a column, or the error that ended their iteration.
type Pairs<'a> = Box<dyn Iterator<Item = io::Result<DBKeyValue>> + 'a>;

/// A store whose keyspaces are columns, with counts of its calls.
struct Columns {
    db: Db,
    columns: Vec<Keyspace>,
    /// Since the opening, and since the last query.
    counts: Mutex<[IoStats; 2]>,
}

fn io_error(error: esker::Error) -> io::Error {
    io::Error::other(error.to_string())
}

impl Columns {
    fn open(count: u32) -> Columns {
        let db = Db::open_on(MemFs::new(), "/db", tiny_options()).unwrap();
        let column = |n| db.keyspace(&format!("column {n}"), &KeyspaceOptions::default()).unwrap();
        let columns = (0..count).map(column).collect();
        Columns { db, columns, counts: Mutex::new([IoStats::empty(), IoStats::empty()]) }
    }

    fn column(&self, number: u32) -> io::Result<&Keyspace> {
        let missing = || io::Error::other(format!("there is no column {number}"));
        self.columns.get(number as usize).ok_or_else(missing)
    }

    fn count(&self, add: impl Fn(&mut IoStats)) {
        self.counts.lock().unwrap().iter_mut().for_each(add);
    }

    fn pairs(&self, number: u32, prefix: &[u8]) -> io::Result<Pairs<'_>> {
        let iter = self.column(number)?.prefix(prefix).map_err(io_error)?;
        Ok(Box::new(iter.map(|pair| {
            let (key, value) = pair.map_err(io_error)?;
            Ok((DBKey::from_slice(&key), value))
        })))
    }

    fn apply(&self, transaction: &Transaction, op: &DBOp) -> io::Result<()> {
        let column = self.column(op.col())?;
        let applied = match op {
            DBOp::Insert { key, value, .. } => transaction.put_in(column, key, value),
            DBOp::Delete { key, .. } => transaction.delete_in(column, key),
            DBOp::DeletePrefix { prefix, .. } => match kvdb::end_prefix(prefix) {
                Some(end) => transaction.delete_range_in(column, prefix, end),
                // No key bounds these keys from above.
                None => delete_prefix(transaction, column, prefix),
            },
        };
        applied.map_err(io_error)
    }
}

fn delete_prefix(transaction: &Transaction, column: &Keyspace, prefix: &[u8]) -> esker::Result<()> {
    let pairs = transaction.prefix_in(column, prefix)?.collect::<esker::Result<Vec<_>>>()?;
    pairs.iter().try_for_each(|(key, _)| transaction.delete_in(column, key))
}

impl KeyValueDB for Columns {
    fn get(&self, col: u32, key: &[u8]) -> io::Result<Option<DBValue>> {
        let value = self.column(col)?.get(key).map_err(io_error)?;
        let value_bytes = value.as_ref().map_or(0, |value| value.len());
        self.count(|counts| {
            counts.reads += 1;
            counts.bytes_read += (key.len() + value_bytes) as u64;
        });
        Ok(value.map(|value| value.to_vec()))
    }

    fn get_by_prefix(&self, col: u32, prefix: &[u8]) -> io::Result<Option<DBValue>> {
        let first = self.pairs(col, prefix)?.next();
        Ok(first.transpose()?.map(|(_, value)| value))
    }

    fn write(&self, written: DBTransaction) -> io::Result<()> {
        let transaction = self.db.transaction(TransactionOptions::default());
        for op in &written.ops {
            self.apply(&transaction, op)?;
            let value_bytes = if let DBOp::Insert { value, .. } = op { value.len() } else { 0 };
            self.count(|counts| {
                counts.writes += 1;
                counts.bytes_written += (op.key().len() + value_bytes) as u64;
            });
        }
        self.count(|counts| counts.transactions += 1);
        transaction.commit().map_err(io_error)
    }

    fn iter<'a>(&'a self, col: u32) -> Pairs<'a> {
        self.iter_with_prefix(col, b"")
    }

    fn iter_with_prefix<'a>(&'a self, col: u32, prefix: &'a [u8]) -> Pairs<'a> {
        self.pairs(col, prefix).unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
    }

    fn io_stats(&self, kind: IoStatsKind) -> IoStats {
        let [overall, since] = &mut *self.counts.lock().unwrap();
        match kind {
            IoStatsKind::Overall => overall.clone(),
            IoStatsKind::SincePrevious => std::mem::replace(since, IoStats::empty()),
        }
    }
}

#[test]
fn put_and_get() {
    kvdb_shared_tests::test_put_and_get(&Columns::open(1)).unwrap();
}

#[test]
fn delete_and_get() {
    kvdb_shared_tests::test_delete_and_get(&Columns::open(1)).unwrap();
}

#[test]
fn get_fails_with_non_existing_column() {
    kvdb_shared_tests::test_get_fails_with_non_existing_column(&Columns::open(1)).unwrap();
}

#[test]
fn write_clears_buffered_ops() {
    kvdb_shared_tests::test_write_clears_buffered_ops(&Columns::open(1)).unwrap();
}

#[test]
fn iter() {
    kvdb_shared_tests::test_iter(&Columns::open(1)).unwrap();
}

#[test]
fn iter_with_prefix() {
    kvdb_shared_tests::test_iter_with_prefix(&Columns::open(1)).unwrap();
}

#[test]
fn io_stats() {
    let db = Columns::open(kvdb_shared_tests::IO_STATS_NUM_COLUMNS);
    kvdb_shared_tests::test_io_stats(&db).unwrap();
}

#[test]
fn delete_prefix_of_each_kind() {
    let db = Columns::open(kvdb_shared_tests::DELETE_PREFIX_NUM_COLUMNS);
    kvdb_shared_tests::test_delete_prefix(&db).unwrap();
}

#[test]
fn complex() {
    kvdb_shared_tests::test_complex(&Columns::open(1)).unwrap();
}
