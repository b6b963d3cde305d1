//! The timed loops over accounts: transactions, and updates without them.
//!
//! A transaction that conflicts runs again at once, until it commits. So all operations of a list
//! take effect once, and the accounts at the end do not depend on the order of the threads.

use super::work::{Context, Done, each};
use crate::error::{LabError, Result};
use crate::measure::clock::Clock;
use crate::target::{
    Transaction, TransactionError, TransactionKind, TransactionResult, TransactionWork,
};
use crate::workload::accounts::{
    Accounts, amount, balance, change_balance, is_of_account, set_balance,
};
use crate::workload::prepare::OpList;

/// Maximum number of runs of one transaction; a further conflict fails the task.
const ATTEMPTS_MAX: u64 = 100_000;
/// Number of readings that determine the clock's own cost.
const CLOCK_READINGS: u64 = 1000;

/// Counts of the transactions of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionCounts {
    /// Number of runs that ended with a conflict. Each led to another run.
    pub conflicts: u64,
    /// Maximum number of runs of one transaction.
    pub attempts_max: u64,
    /// Time of all commits in nanoseconds, without the cost of the clock, if they were timed.
    pub commit_nanos: Option<u64>,
}

impl TransactionCounts {
    /// Adds the counts of another thread.
    pub fn merge(self, other: TransactionCounts) -> TransactionCounts {
        TransactionCounts {
            conflicts: self.conflicts + other.conflicts,
            attempts_max: self.attempts_max.max(other.attempts_max),
            commit_nanos: self.commit_nanos.zip(other.commit_nanos).map(|(own, more)| own + more),
        }
    }
}

/// Writes the accounts of the list, with their balances.
pub fn fill(context: &Context<'_>, list: &OpList, accounts: &Accounts) -> Result<Done> {
    let mut value = Vec::new();
    let mut done = each(context, list.len(), |index, _| {
        value.clear();
        value.extend_from_slice(context.data.value(list.values[index]));
        set_balance(&mut value, accounts.balance(list.ids[index]));
        context.target.put(list.keys.get(index), &value, false)
    })?;
    done.bytes = list.user_bytes();
    Ok(done)
}

/// Reads the value of an account into `value`.
fn read(
    transaction: &mut dyn Transaction,
    key: &[u8],
    value: &mut Vec<u8>,
) -> TransactionResult<()> {
    value.clear();
    if transaction.get(key, &mut |found| value.extend_from_slice(found))? {
        return Ok(());
    }
    Err(missing(key).into())
}

fn missing(key: &[u8]) -> LabError {
    LabError::engine(format!("account {} was not found", key.escape_ascii()))
}

/// Moves an amount between the two accounts of each pair of the list: reads two, writes two.
pub fn transfers(context: &Context<'_>, list: &OpList, sync: bool) -> Result<Done> {
    let mut counts = TransactionCounts::default();
    let mut values = [Vec::new(), Vec::new()];
    let kind = TransactionKind::ReadWrite { sync };
    let mut done = each(context, list.len() / 2, |index, done| {
        let keys = [list.keys.get(2 * index), list.keys.get(2 * index + 1)];
        let changes = [amount(index).wrapping_neg(), amount(index)];
        until_committed(context, kind, &mut counts, &mut |transaction| {
            for (key, value) in keys.into_iter().zip(&mut values) {
                read(transaction, key, value)?;
            }
            for (place, value) in values.iter_mut().enumerate() {
                let of_data = context.data.value(list.values[2 * index + place]);
                if context.checked && !is_of_account(value, of_data) {
                    done.mistake(|| describe(keys[place]));
                }
                change_balance(value, changes[place]);
                transaction.put(keys[place], value)?;
            }
            Ok(())
        })?;
        done.found += 2;
        Ok(())
    })?;
    done.transactions = Some(counts);
    Ok(done)
}

fn describe(key: &[u8]) -> String {
    format!("account {} has another value than the one written", key.escape_ascii())
}

/// Runs a transaction until it commits, and counts its runs.
#[inline]
fn until_committed(
    context: &Context<'_>,
    kind: TransactionKind,
    counts: &mut TransactionCounts,
    work: TransactionWork<'_>,
) -> Result<()> {
    for attempt in 1..=ATTEMPTS_MAX {
        match context.target.transact(kind, work) {
            Ok(()) => {
                counts.attempts_max = counts.attempts_max.max(attempt);
                return Ok(());
            }
            Err(TransactionError::Failed(error)) => return Err(error),
            Err(TransactionError::Conflict) => counts.conflicts += 1,
        }
    }
    Err(LabError::engine(format!("one transaction conflicted {ATTEMPTS_MAX} times")))
}

/// Reads the two accounts of each pair of the list in a transaction, compares them, and times the
/// commits.
pub fn reads(context: &Context<'_>, list: &OpList, accounts: &Accounts) -> Result<Done> {
    let clock = Clock::new();
    let reading_nanos = reading_nanos(&clock);
    let mut counts = TransactionCounts::default();
    let (mut value, mut commit_nanos, mut before) = (Vec::new(), 0u64, clock.now());
    let mut done = each(context, list.len() / 2, |index, done| {
        until_committed(context, TransactionKind::ReadOnly, &mut counts, &mut |transaction| {
            for place in [2 * index, 2 * index + 1] {
                let key = list.keys.get(place);
                read(transaction, key, &mut value)?;
                let right = is_of_account(&value, context.data.value(list.values[place]))
                    && balance(&value) == Some(accounts.balance(list.ids[place]));
                if context.checked && !right {
                    done.mistake(|| describe(key));
                }
            }
            before = clock.now();
            Ok(())
        })?;
        let after = clock.now();
        commit_nanos += clock.nanos(before, after).saturating_sub(reading_nanos);
        done.found += 2;
        Ok(())
    })?;
    counts.commit_nanos = Some(commit_nanos);
    done.transactions = Some(counts);
    Ok(done)
}

/// Returns the cost of one reading of the clock, in nanoseconds.
fn reading_nanos(clock: &Clock) -> u64 {
    let from = clock.now();
    (1..CLOCK_READINGS).for_each(|_| {
        std::hint::black_box(clock.now());
    });
    clock.nanos(from, clock.now()) / CLOCK_READINGS
}

/// Adds 1 to each counter of the list by a merge.
pub fn merges(context: &Context<'_>, list: &OpList) -> Result<Done> {
    let mut done =
        each(context, list.len(), |index, _| context.target.merge_add(list.keys.get(index), 1))?;
    done.bytes = list.user_bytes();
    Ok(done)
}

/// Gets each account of the list and compares it.
pub fn account_gets(context: &Context<'_>, list: &OpList, accounts: &Accounts) -> Result<Done> {
    each(context, list.len(), |index, done| {
        let (key, id) = (list.keys.get(index), list.ids[index]);
        let (of_data, expected) = (context.data.value(list.values[index]), accounts.balance(id));
        let mut is_right = !context.checked;
        let is_found = context.target.get(key, &mut |value| {
            is_right |= is_of_account(value, of_data) && balance(value) == Some(expected);
        })?;
        done.found += u64::from(is_found);
        if is_found && !is_right {
            done.mistake(|| describe(key));
        }
        Ok(())
    })
}

/// Adds 1 to each account of the list: a get and a put, without a transaction.
pub fn updates(context: &Context<'_>, list: &OpList) -> Result<Done> {
    let mut value = Vec::new();
    let mut done = each(context, list.len(), |index, done| {
        let key = list.keys.get(index);
        value.clear();
        if !context.target.get(key, &mut |found| value.extend_from_slice(found))? {
            return Err(missing(key));
        }
        let of_data = context.data.value(list.values[index]);
        if context.checked && !is_of_account(&value, of_data) {
            done.mistake(|| describe(key));
        }
        change_balance(&mut value, 1);
        done.found += 1;
        context.target.put(key, &value, false)
    })?;
    done.bytes = list.user_bytes();
    Ok(done)
}
