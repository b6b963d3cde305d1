//! Accounts: one per key, whose balance is known before and after every task that changes it.
//!
//! The value of an account is a value of the data set, with its balance in the first 8 bytes, as a
//! little-endian number that wraps around. A transfer moves an amount from one account to another,
//! so it keeps the sum of all balances. The order of the changes does not matter to the balances at
//! the end, so each of them can be checked after a task of several threads.

use super::dataset::Dataset;
use super::keys::KeyBuffer;
use super::values::ValueRef;
use crate::error::Result;
use crate::target::{Direction, Target};

/// Bytes of a balance.
const BALANCE_BYTES: usize = 8;
/// Balance of a new account.
const BALANCE_FIRST: u64 = 1000;
/// Number of different amounts; the smallest is 1.
const AMOUNTS: u64 = 100;

/// The expected accounts of a store.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// By key id: the value, without the balance.
    values: Vec<ValueRef>,
    /// By key id.
    balances: Vec<u64>,
}

/// Accounts of a store that differ from the expected ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongAccounts {
    /// Number of wrong, missing and surplus accounts.
    pub count: u64,
    /// Description of the first one, and of the sum of all balances.
    pub description: String,
}

/// Returns the amount that the transfer number `index` of a list moves.
#[inline]
pub fn amount(index: usize) -> u64 {
    1 + index as u64 % AMOUNTS
}

/// Returns the balance in the value of an account, or `None` if the value is too short.
#[inline]
pub fn balance(value: &[u8]) -> Option<u64> {
    value.first_chunk::<BALANCE_BYTES>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Sets the balance in the value of an account.
#[inline]
pub fn set_balance(value: &mut [u8], balance: u64) {
    if let Some(bytes) = value.first_chunk_mut::<BALANCE_BYTES>() {
        *bytes = balance.to_le_bytes();
    }
}

/// Changes the balance in the value of an account by `change`, which may be the negative of an
/// amount.
#[inline]
pub fn change_balance(value: &mut [u8], change: u64) {
    if let Some(bytes) = value.first_chunk_mut::<BALANCE_BYTES>() {
        *bytes = u64::from_le_bytes(*bytes).wrapping_add(change).to_le_bytes();
    }
}

/// Returns whether `value` is that of an account with the given value of the data set, whatever its
/// balance is.
#[inline]
pub fn is_of_account(value: &[u8], of_data: &[u8]) -> bool {
    value.len() == of_data.len() && value.get(BALANCE_BYTES..) == of_data.get(BALANCE_BYTES..)
}

impl Accounts {
    /// Returns a new account for every key of `data`. `None` if a value is too short for a balance.
    pub fn new(data: &Dataset, generation: u32) -> Option<Accounts> {
        let values = data.values_of(generation)?;
        let balances = vec![BALANCE_FIRST; values.len()];
        let long_enough = |value: &ValueRef| value.len_bytes() >= BALANCE_BYTES as u64;
        values.iter().all(long_enough).then_some(Accounts { values, balances })
    }

    /// Returns the number of accounts.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns whether the values are balances and nothing else, so that they are counters.
    pub fn are_counters(&self) -> bool {
        let is_counter = |value: &ValueRef| value.len_bytes() == BALANCE_BYTES as u64;
        !self.values.is_empty() && self.values.iter().all(is_counter)
    }

    /// Returns the value of account `id` without its balance.
    pub fn value(&self, id: u32) -> ValueRef {
        self.values.get(id as usize).copied().unwrap_or(ValueRef::ABSENT)
    }

    /// Returns the expected balance of account `id`.
    pub fn balance(&self, id: u32) -> u64 {
        self.balances.get(id as usize).copied().unwrap_or_default()
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.values.capacity() * size_of::<ValueRef>() + self.balances.capacity() * 8) as u64
    }

    /// Returns the bytes of keys and values of all accounts, with keys counted at their mean size.
    pub fn live_bytes(&self, data: &Dataset) -> u64 {
        let values: u64 = self.values.iter().map(|value| value.len_bytes()).sum();
        values + (self.values.len() as f64 * data.key_bytes_mean()).round() as u64
    }

    /// Expects the transfers of a list, which has two accounts for each: from the first to the
    /// second.
    pub fn transfer(&mut self, ids: &[u32]) {
        for (index, pair) in ids.chunks_exact(2).enumerate() {
            self.change(pair[0], amount(index).wrapping_neg());
            self.change(pair[1], amount(index));
        }
    }

    /// Expects that each account of a list gets 1 for each time that it is in the list.
    pub fn increment(&mut self, ids: &[u32]) {
        ids.iter().for_each(|&id| self.change(id, 1));
    }

    fn change(&mut self, id: u32, change: u64) {
        if let Some(balance) = self.balances.get_mut(id as usize) {
            *balance = balance.wrapping_add(change);
        }
    }

    /// Compares every account of a store with the expected one. `None` if all are right.
    pub fn wrong_in(&self, target: &dyn Target, data: &Dataset) -> Result<Option<WrongAccounts>> {
        let mut keys = KeyBuffer::with_capacity(self.values.len(), 16);
        (0..self.values.len() as u32).for_each(|id| data.push_key(id, b"", &mut keys));
        let mut seen = vec![false; keys.len()];
        let (mut next, mut count, mut sum) = (0usize, 0u64, 0u64);
        let mut first = None;
        target.scan(Direction::Forward, &mut |key, value| {
            // A store may have an order of its own.
            let expected_next = next < keys.len() && keys.get(next) == key;
            let place = if expected_next { Some(next) } else { position(&keys, key) };
            let found = balance(value).unwrap_or_default();
            sum = sum.wrapping_add(found);
            let known = place.filter(|&place| !std::mem::replace(&mut seen[place], true));
            next = known.map_or(next, |place| place + 1);
            let expected = known.map(|place| self.balance(place as u32));
            let of_data = known.map(|place| data.value(self.value(place as u32)));
            if expected != Some(found) || !of_data.is_some_and(|data| is_of_account(value, data)) {
                count += 1;
                first.get_or_insert_with(|| describe(key, found, expected));
            }
            true
        })?;
        let missing = seen.iter().filter(|seen| !**seen).count();
        if count == 0 && missing == 0 {
            return Ok(None);
        }
        let first = first.unwrap_or_else(|| format!("{missing} accounts are missing"));
        let expected = self.balances.iter().fold(0u64, |sum, balance| sum.wrapping_add(*balance));
        let (sum, expected) = (sum as i64, expected as i64);
        let description = format!("{first}; the sum of all balances is {sum}, expected {expected}");
        Ok(Some(WrongAccounts { count: count + missing as u64, description }))
    }
}

/// Returns the index of `key` among sorted keys.
fn position(keys: &KeyBuffer, key: &[u8]) -> Option<usize> {
    let (mut low, mut high) = (0, keys.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if keys.get(middle) < key { low = middle + 1 } else { high = middle }
    }
    (low < keys.len() && keys.get(low) == key).then_some(low)
}

fn describe(key: &[u8], found: u64, expected: Option<u64>) -> String {
    let (key, found) = (key.escape_ascii(), found as i64);
    match expected {
        None => format!("account {key} must not exist, or exists twice"),
        Some(expected) if expected == found as u64 => {
            format!("account {key} has another value than the one written")
        }
        Some(expected) => {
            format!("account {key} has the balance {found}, expected {}", expected as i64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Reference;
    use crate::target::{Engine, StoreOptions};

    #[test]
    fn transfers_keep_the_sum_and_increments_do_not() {
        let data = Dataset::generated(5, 4, 20, 0.5, 1).expect("small");
        let mut accounts = Accounts::new(&data, 1).expect("long values");
        let sum = |accounts: &Accounts| {
            (0..5).fold(0u64, |sum, id| sum.wrapping_add(accounts.balance(id)))
        };
        accounts.transfer(&[0, 1, 3, 4, 0, 4]);
        assert_eq!([0, 1, 2, 3, 4].map(|id| accounts.balance(id)), [996, 1001, 1000, 998, 1005]);
        assert_eq!(sum(&accounts), 5 * BALANCE_FIRST);
        accounts.increment(&[2, 2, 0]);
        assert_eq!((accounts.balance(2), sum(&accounts)), (1002, 5 * BALANCE_FIRST + 3));
        accounts.balances[0] = 0;
        accounts.transfer(&[0, 1]);
        assert_eq!(accounts.balance(0), u64::MAX, "balances wrap around");
    }

    #[test]
    fn values_without_room_for_a_balance_are_refused() {
        let data = |bytes| Dataset::generated(5, 4, bytes, 0.5, 1).expect("small");
        assert!(Accounts::new(&data(7), 1).is_none());
        assert!(Accounts::new(&data(8), 1).is_some());
    }

    #[test]
    fn each_difference_to_the_store_is_found() {
        let data = Dataset::generated(3, 4, 20, 0.5, 1).expect("small");
        let accounts = Accounts::new(&data, 1).expect("long values");
        let options = StoreOptions::default();
        let store = Reference.open("/".as_ref(), &options).expect("a map");
        let put = |id: u32, change: u64, tear: bool| {
            let mut value = data.value(accounts.value(id)).to_vec();
            set_balance(&mut value, BALANCE_FIRST.wrapping_add(change));
            value[19] ^= u8::from(tear);
            store.put(format!("{id:04}").as_bytes(), &value, false).expect("stored");
        };
        let wrong = || accounts.wrong_in(store.as_ref(), &data).expect("scanned");
        (0..3).for_each(|id| put(id, 0, false));
        assert_eq!(wrong(), None);
        put(1, 5, false);
        let found = wrong().expect("another balance");
        assert_eq!(found.count, 1);
        let text = "account 0001 has the balance 1005, expected 1000; the sum of all balances is \
                    3005, expected 3000";
        assert_eq!(found.description, text);
        put(2, 5u64.wrapping_neg(), false);
        assert_eq!(wrong().map(|wrong| wrong.count), Some(2), "although the sum is right");
        put(1, 0, true);
        put(2, 0, false);
        assert_eq!(wrong().map(|wrong| wrong.count), Some(1), "the end of the value is wrong");
        put(1, 0, false);
        store.put(b"00011", b"12345678", false).expect("stored");
        let found = wrong().expect("one too many");
        assert!(found.count == 1 && found.description.contains("account 00011 must not exist"));
        store.delete(b"00011").expect("deleted");
        store.delete(b"0002").expect("deleted");
        let found = wrong().expect("one is missing");
        assert!(found.count == 1 && found.description.contains("1 accounts are missing"));
    }
}
