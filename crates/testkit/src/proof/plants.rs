//! A transaction between the workload and the store. With a planted bug it does what a store with
//! that bug would do, by means of the public interface.
//!
//! Invariants: without a bug every call is one call of the [`Transaction`].

use esker::{
    Batch, Concurrency, Durability, Isolation, Result, Slice, Transaction, TransactionOptions,
    WriteOptions,
};

use super::plan::Plant;
use super::store::{Place, Store, row_prefix};

/// A write of a transaction with a bug.
struct Write {
    place: Place,
    key: String,
    value: Vec<u8>,
}

/// A transaction, perhaps with a bug.
pub struct Access<'a> {
    store: &'a Store,
    transaction: Transaction,
    options: TransactionOptions,
    bug: Plant,
    /// The writes so far, if a bug needs them.
    writes: Vec<Write>,
    /// A torn batch: the transaction of each keyspace.
    parts: Vec<Transaction>,
}

impl<'a> Access<'a> {
    /// Begins a transaction.
    pub fn begin(store: &'a Store, options: TransactionOptions, bug: Plant) -> Access<'a> {
        let options = match bug {
            Plant::None => options,
            Plant::WriteSkew => options.isolation(Isolation::Snapshot),
            _ => options.isolation(Isolation::Snapshot).concurrency(Concurrency::Optimistic),
        };
        // Their snapshots are older than the transaction's, so that they find every conflict of it.
        let parts = if bug == Plant::TornBatch { 3 } else { 0 };
        let parts = (0..parts).map(|_| store.db.transaction(options)).collect();
        let transaction = store.db.transaction(options);
        Access { store, transaction, options, bug, writes: Vec::new(), parts }
    }

    /// Returns the transaction, for calls that no bug changes.
    pub fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// Returns whether the transaction has a bug.
    pub fn has_bug(&self) -> bool {
        self.bug != Plant::None
    }

    fn wrote(&self, place: Place, prefix: &str) -> bool {
        self.writes.iter().any(|write| write.place == place && write.key.starts_with(prefix))
    }

    /// Reads a value that the history shows.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get(&self, place: Place, key: &str) -> Result<Option<Slice>> {
        let keyspace = self.store.keyspace(place);
        match self.bug {
            Plant::ReadSkew if !self.wrote(place, key) => keyspace.get(key),
            Plant::Phantom => self.transaction.get_for_update_in(keyspace, key),
            _ => self.transaction.get_in(keyspace, key),
        }
    }

    /// Reads a list of rows that the history shows.
    ///
    /// # Errors
    /// As [`Transaction::prefix`].
    pub fn scan(&self, list: u64) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (prefix, keyspace) = (row_prefix(list), self.store.keyspace(Place::Rows));
        if self.bug == Plant::ReadSkew && !self.wrote(Place::Rows, &prefix) {
            return keyspace.prefix(&prefix)?.collect();
        }
        let pairs: Vec<_> =
            self.transaction.prefix_in(keyspace, &prefix)?.collect::<Result<_>>()?;
        if self.bug == Plant::Phantom {
            for (key, _) in &pairs {
                self.transaction.get_for_update_in(keyspace, key)?;
            }
        }
        Ok(pairs)
    }

    /// Sets a value.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put(&mut self, place: Place, key: String, value: Vec<u8>) -> Result<()> {
        self.transaction.put_in(self.store.keyspace(place), &key, &value)?;
        if self.has_bug() {
            self.writes.push(Write { place, key, value });
        }
        Ok(())
    }

    /// Commits.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit(self) -> Result<()> {
        match self.bug {
            Plant::LostUpdate => self.commit_unchecked(),
            Plant::TornBatch => self.commit_in_parts(),
            _ => self.transaction.commit(),
        }
    }

    /// Prepares the transaction, which has no bug.
    ///
    /// # Errors
    /// As [`Transaction::prepare`].
    pub fn prepare(self, name: &str) -> Result<()> {
        self.transaction.prepare(name)
    }

    fn commit_unchecked(self) -> Result<()> {
        self.transaction.rollback();
        let mut batch = Batch::new();
        for write in &self.writes {
            batch.put_in(self.store.keyspace(write.place), &write.key, &write.value);
        }
        let durability = self.options.durability.or(Some(Durability::Buffered));
        self.store.db.write_with(&batch, &WriteOptions::default().durability(durability))
    }

    fn commit_in_parts(self) -> Result<()> {
        self.transaction.rollback();
        let mut committed = 0;
        for (place, part) in
            [Place::Default, Place::Values, Place::Rows].into_iter().zip(self.parts)
        {
            let mut writes = self.writes.iter().filter(|write| write.place == place).peekable();
            if writes.peek().is_none() {
                continue;
            }
            let put =
                |write: &Write| part.put_in(self.store.keyspace(place), &write.key, &write.value);
            match writes.try_for_each(put).and_then(|()| part.commit()) {
                Err(error) if committed == 0 => return Err(error),
                // The bug: the commit succeeds, although only a part was written.
                _ => committed += 1,
            }
            (0..20).for_each(|_| std::thread::yield_now());
        }
        Ok(())
    }
}
