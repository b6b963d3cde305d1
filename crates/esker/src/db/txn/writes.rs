//! The writes of a transaction: puts, deletes and merges of one key.

use std::time::Duration;

use super::Transaction;
use super::state::Write;
use super::target::Target;
use crate::db::keyspace::Keyspace;
use crate::error::Result;
use crate::write::batch::{check_key, check_value};

impl Transaction {
    /// Sets `key` to `value` at the commit. Later reads of the transaction see it at once.
    ///
    /// # Errors
    /// `InvalidArgument` for a key over 1 MiB or a value over 1 GiB, when the transaction would
    /// have more than just under 4 GiB or 2^32 - 1 operations, or after its end; `ReadOnly`. In a
    /// pessimistic transaction also `Busy`, `Deadlock` and `Conflict`, as for
    /// [`Transaction::get_for_update`]. An error changes nothing.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_at(None, key.as_ref(), Write::Put(value.as_ref(), None))
    }

    /// Does the same as [`Transaction::put`], in a keyspace.
    pub fn put_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_at(Some(keyspace), key.as_ref(), Write::Put(value.as_ref(), None))
    }

    /// Deletes `key` at the commit. The key need not exist.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_at(None, key.as_ref(), Write::Delete)
    }

    /// Does the same as [`Transaction::delete`], in a keyspace.
    pub fn delete_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_at(Some(keyspace), key.as_ref(), Write::Delete)
    }

    /// Sets `key` to `value` at the commit, for the time `ttl` from the commit on. The transaction
    /// itself sees the value whatever the `ttl`. See [`Db::put_with_ttl`](crate::Db::put_with_ttl).
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.write_at(None, key.as_ref(), Write::Put(value.as_ref(), Some(ttl)))
    }

    /// Does the same as [`Transaction::put_with_ttl`], in a keyspace.
    pub fn put_with_ttl_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.write_at(Some(keyspace), key.as_ref(), Write::Put(value.as_ref(), Some(ttl)))
    }

    /// Merges `operand` into the value of `key` at the commit. Later reads of the transaction see
    /// the merged value. See [`Db::merge`](crate::Db::merge).
    ///
    /// A merge protects its key as a put does: of two transactions that merge into the same key at
    /// the same time, one fails. [`Db::merge`](crate::Db::merge) outside of a transaction never
    /// fails that way.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Options, TransactionOptions, built_in_merge_operator};
    /// let options =
    ///     Options { merge_operator: built_in_merge_operator("add_i64"), ..Options::default() };
    /// let db = Db::open(dir.path().join("db"), options)?;
    /// db.merge("orders", "1")?;
    /// let transaction = db.transaction(TransactionOptions::default());
    /// transaction.put("order 2", "pears")?;
    /// transaction.merge("orders", "1")?;
    /// assert_eq!(&*transaction.get("orders")?.unwrap(), b"2");
    /// transaction.commit()?;
    /// assert_eq!(&*db.get("orders")?.unwrap(), b"2");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`] and [`Db::merge`](crate::Db::merge).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.write_at(None, key.as_ref(), Write::Merge(operand.as_ref()))
    }

    /// Does the same as [`Transaction::merge`], in a keyspace.
    pub fn merge_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_at(Some(keyspace), key.as_ref(), Write::Merge(operand.as_ref()))
    }

    fn write_at(&self, keyspace: Option<&Keyspace>, key: &[u8], write: Write<'_>) -> Result<()> {
        let shared = &self.shared;
        let target = Target::new(&shared.db, keyspace)?;
        check_key(key)?;
        check_value(write.value())?;
        shared.inner().check_writable()?;
        if let Write::Merge(operand) = write {
            target.rules().check_merge(&target.name(), operand)?;
        }
        let mut state = shared.active()?;
        if shared.options.is_pessimistic() {
            target.with_stored(key, |stored| {
                shared.lock(&mut state, &target, &target.item(stored, true))
            })?;
        }
        shared.write(&mut state, &target, key, write)
    }
}
