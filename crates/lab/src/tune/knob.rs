//! Knobs: the options of an engine that the tuner may change, and the values that it tries.
//!
//! Invariants:
//! 1. A [`Setting`] holds only the knobs that differ from the default set, so the default set is
//!    the empty setting, and equal sets are equal settings.
//! 2. A setting returned by [`KnobTable::fitted`] gives memtables and cache no more memory than the
//!    budget, unless the default set exceeds the budget.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::run::config::bytes_of;

/// Purpose of a knob, which decides its place in the start sets and in the memory budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Size of a memtable, of which the engine may hold this many at once.
    Memtable(u64),
    /// Size of the block cache.
    Cache,
    /// Size of a data block.
    Block,
    /// Size of a table file.
    File,
    /// Filter bits per key.
    Filter,
    /// Compression of blocks.
    Compression,
    /// Anything else.
    Other,
}

/// One knob.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// Name of the option in the engine's own documentation.
    pub name: String,
    /// Name of the flag that sets it, for [`crate::BenchConfig::set`].
    pub flag: String,
    /// Value in the default set, as text.
    pub default: String,
    /// Number of bytes that the default stands for, if it is a word such as `auto`.
    pub default_bytes: Option<u64>,
    /// Values that the tuner tries, in order for numbers.
    pub levels: Vec<String>,
    /// Whether neighbouring levels have similar effects. Named values have no order.
    pub ordered: bool,
    /// Purpose of the knob.
    pub role: Role,
}

/// The knobs that differ from the default set: name and value. A set that a user names may also have
/// options that are no knobs, as `ENGINE.name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Setting(pub BTreeMap<String, String>);

impl Setting {
    /// Returns whether this is the default set.
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the same set with one knob at its default.
    pub fn without(&self, knob: &str) -> Setting {
        let mut other = self.clone();
        other.0.remove(knob);
        other
    }
}

/// Lists the knobs as `name=value`, or says that the set is the default.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_default() {
            return f.write_str("the default set");
        }
        let pairs: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&pairs.join(" "))
    }
}

/// All knobs of an engine.
#[derive(Clone, Debug, Default)]
pub struct KnobTable {
    /// Name of the engine.
    pub engine: String,
    /// The knobs.
    pub knobs: Vec<Knob>,
    /// Flags that every set gets, before its knobs: name and value.
    pub fixed: Vec<(String, String)>,
    /// Maximum bytes of memtables and cache together; `None` if the engine has no such knobs.
    pub memory_budget_bytes: Option<u64>,
}

impl Knob {
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.flag == flag_of(name)
    }

    /// Makes `value` the default.
    pub fn set_default(&mut self, value: &str) {
        self.default = value.into();
        if bytes_of(value).is_some() {
            self.default_bytes = None;
        }
    }
}

/// Returns the flag that a name stands for: `bench` has two names for the bits of filters.
fn flag_of(name: &str) -> &str {
    if name == "bloom_bits" { "filter_bits" } else { name }
}

impl KnobTable {
    /// Returns the knob of that name.
    pub fn find(&self, name: &str) -> Option<&Knob> {
        self.knobs.iter().find(|knob| knob.name == name)
    }

    /// Keeps only the knobs with these names.
    ///
    /// # Errors
    /// A name is no knob of the engine; the error lists the knobs.
    pub fn only(&mut self, names: &[String]) -> Result<()> {
        if let Some(wrong) = names.iter().find(|name| self.find(name).is_none()) {
            return Err(self.unknown(wrong));
        }
        self.knobs.retain(|knob| names.contains(&knob.name));
        Ok(())
    }

    /// Returns the knob that has `name` as its name, its flag, or another name of its flag.
    pub fn find_mut(&mut self, name: &str) -> Option<&mut Knob> {
        self.knobs.iter_mut().find(|knob| knob.is_called(name))
    }

    /// Returns the set with these options, each under the name of a knob, of its flag, or of a YCSB
    /// property (`ENGINE.name`). A name `ENGINE.name` that is no knob stays as it is: it may be another
    /// option of the engine.
    ///
    /// # Errors
    /// Any other name is no knob of the engine; the error lists the knobs.
    pub fn named(&self, options: &[(String, String)]) -> Result<Setting> {
        let mut setting = Setting::default();
        for (option, value) in options {
            let own = option.strip_prefix(&self.engine).and_then(|rest| rest.strip_prefix('.'));
            let name = own.unwrap_or(option);
            match self.knobs.iter().find(|knob| knob.is_called(name)) {
                Some(knob) => setting = self.with(&setting, knob, value),
                None if own.is_some() => {
                    setting.0.insert(option.clone(), value.clone());
                }
                None => return Err(self.unknown(name)),
            }
        }
        Ok(setting)
    }

    fn unknown(&self, name: &str) -> LabError {
        let known: Vec<&str> = self.knobs.iter().map(|knob| knob.name.as_str()).collect();
        let (engine, known) = (&self.engine, known.join(", "));
        LabError::usage(format!("{engine} has no knob {name:?}; its knobs are {known}"))
    }

    /// Returns a set as YCSB properties: every knob under the name of its flag.
    pub fn properties(&self, setting: &Setting) -> Vec<(String, String)> {
        let own = format!("{}.", self.engine);
        let property = |knob: &Knob| {
            let is_own = knob.flag.starts_with(&own);
            let name = if is_own { knob.flag.clone() } else { format!("{own}{}", knob.flag) };
            (name, self.value(knob, setting).to_string())
        };
        self.knobs.iter().map(property).collect()
    }

    /// Returns the value of a knob in a set.
    pub fn value<'a>(&'a self, knob: &'a Knob, setting: &'a Setting) -> &'a str {
        setting.0.get(&knob.name).unwrap_or(&knob.default)
    }

    /// Returns the set with one more knob, which is left out if the value is the default.
    pub fn with(&self, setting: &Setting, knob: &Knob, value: &str) -> Setting {
        let mut other = setting.without(&knob.name);
        if value != knob.default {
            other.0.insert(knob.name.clone(), value.into());
        }
        other
    }

    /// Returns the levels next to the value of an ordered knob in a set: the next smaller and the
    /// next larger one. A value that is no level, such as `auto`, stands for its bytes.
    pub fn neighbours<'a>(
        &self,
        knob: &'a Knob,
        setting: &Setting,
    ) -> (Option<&'a str>, Option<&'a str>) {
        let Some(now) = bytes_of(self.value(knob, setting)).or(knob.default_bytes) else {
            return (None, None);
        };
        let sized = || knob.levels.iter().filter_map(|level| Some((bytes_of(level)?, level)));
        let smaller = sized().filter(|(bytes, _)| *bytes < now).max_by_key(|(bytes, _)| *bytes);
        let larger = sized().filter(|(bytes, _)| *bytes > now).min_by_key(|(bytes, _)| *bytes);
        (smaller.map(|(_, level)| level.as_str()), larger.map(|(_, level)| level.as_str()))
    }

    /// Returns the set with the next larger memtable, within the memory budget; `None` if there is
    /// none, or if the budget leaves no room for it.
    pub fn with_larger_memtable(&self, setting: &Setting) -> Option<Setting> {
        let knob = self.knobs.iter().find(|knob| matches!(knob.role, Role::Memtable(_)))?;
        let (_, larger) = self.neighbours(knob, setting);
        let wanted = larger?;
        let fitted = self.fitted(&self.with(setting, knob, wanted));
        (self.value(knob, &fitted) == wanted).then_some(fitted)
    }

    /// Returns the bytes that memtables and cache may take in a set.
    pub fn memory_bytes(&self, setting: &Setting) -> u64 {
        let of = |knob: &Knob| {
            let count = match knob.role {
                Role::Memtable(count) => count,
                Role::Cache => 1,
                _ => return 0,
            };
            let own = bytes_of(self.value(knob, setting)).or(knob.default_bytes).unwrap_or(0);
            own.saturating_mul(count)
        };
        self.knobs.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Returns the set with the cache, and then the memtables, lowered until both fit the memory
    /// budget. A knob without a smaller level stays as it is.
    pub fn fitted(&self, setting: &Setting) -> Setting {
        let mut fitted = setting.clone();
        let Some(budget) = self.memory_budget_bytes else { return fitted };
        let is = |cache: bool, knob: &Knob| match knob.role {
            Role::Cache => cache,
            Role::Memtable(_) => !cache,
            _ => false,
        };
        for cache in [true, false] {
            for knob in self.knobs.iter().filter(|knob| is(cache, knob)) {
                while self.memory_bytes(&fitted) > budget {
                    let now = bytes_of(self.value(knob, &fitted)).or(knob.default_bytes);
                    let smaller = |level: &&String| bytes_of(level).is_some_and(|b| Some(b) < now);
                    let Some(next) = knob.levels.iter().rev().find(smaller) else { break };
                    fitted = self.with(&fitted, knob, next);
                }
            }
        }
        fitted
    }
}

/// Returns the powers of two from `least` to `most`, as levels of a knob.
pub fn powers(least: u64, most: u64) -> Vec<String> {
    let steps = std::iter::successors(Some(least.max(1)), |value| value.checked_mul(2));
    steps.take_while(|&value| value <= most).map(|value| value.to_string()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn knob(name: &str, default: &str, levels: Vec<String>, role: Role) -> Knob {
        Knob {
            name: name.into(),
            flag: name.into(),
            default: default.into(),
            default_bytes: None,
            ordered: levels.iter().all(|level| bytes_of(level).is_some()),
            levels,
            role,
        }
    }

    /// Two memory knobs, a block size and a named value.
    pub(crate) fn table() -> KnobTable {
        let words = ["none", "snappy"].map(String::from).to_vec();
        KnobTable {
            engine: "made-up".into(),
            knobs: vec![
                knob("buffer", "2097152", powers(1 << 20, 64 << 20), Role::Memtable(2)),
                knob("cache", "4194304", powers(1 << 20, 64 << 20), Role::Cache),
                knob("block", "4096", powers(1 << 10, 64 << 10), Role::Block),
                knob("compression", "snappy", words, Role::Compression),
            ],
            fixed: Vec::new(),
            memory_budget_bytes: Some(64 << 20),
        }
    }

    #[test]
    fn sizes_are_parsed_with_binary_units() {
        for (text, bytes) in [("4096", 4096), ("4 KiB", 4096), ("2m", 2 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(bytes_of(text), Some(bytes), "{text}");
        }
        for bad in ["", "auto", "-1", "4 parsecs", "99999999999999999999", "99999999999999g"] {
            assert_eq!(bytes_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn fitted_set_lowers_the_cache_first_and_stays_in_the_budget() {
        let table = table();
        let set = |buffer: &str, cache: &str| {
            let setting = Setting::default();
            let setting = table.with(&setting, &table.knobs[0], buffer);
            table.with(&setting, &table.knobs[1], cache)
        };
        let large = (64 << 20).to_string();
        let fitted = table.fitted(&set("16777216", &large));
        assert_eq!(fitted.0["buffer"], "16777216");
        assert_eq!(fitted.0["cache"], (32 << 20).to_string());
        let both = table.fitted(&set(&large, &large));
        assert!(table.memory_bytes(&both) <= 64 << 20, "{both}");
        assert_eq!(table.fitted(&Setting::default()), Setting::default());
    }

    #[test]
    fn neighbours_of_a_word_are_those_of_its_bytes() {
        let mut table = table();
        let next = |table: &KnobTable| -> Vec<Option<u64>> {
            let (smaller, larger) = table.neighbours(&table.knobs[0], &Setting::default());
            [smaller, larger].map(|level| level.and_then(bytes_of)).to_vec()
        };
        assert_eq!(next(&table), [Some(1 << 20), Some(4 << 20)]);
        table.knobs[0].default = "auto".into();
        assert_eq!(next(&table), [None, None]);
        table.knobs[0].default_bytes = Some(3 << 20);
        assert_eq!(next(&table), [Some(2 << 20), Some(4 << 20)]);
        table.knobs[0].default_bytes = Some(1 << 20);
        assert_eq!(next(&table), [None, Some(2 << 20)]);
    }

    #[test]
    fn larger_memtable_is_one_step_and_within_the_budget() {
        let table = table();
        let mut setting = Setting::default();
        let mut sizes = Vec::new();
        while let Some(larger) = table.with_larger_memtable(&setting) {
            assert!(table.memory_bytes(&larger) <= 64 << 20, "{larger}");
            sizes.push(table.value(&table.knobs[0], &larger).to_string());
            setting = larger;
        }
        // Two memtables of 32 MiB leave nothing for the smallest cache.
        assert_eq!(sizes, ["4194304", "8388608", "16777216"]);
    }

    #[test]
    fn default_values_are_not_part_of_a_setting() {
        let mut table = table();
        let block = table.knobs[2].clone();
        let changed = table.with(&Setting::default(), &block, "8192");
        assert_eq!(changed.to_string(), "block=8192");
        assert!(table.with(&changed, &block, "4096").is_default());
        assert!(table.find_mut("blocks").is_none());
        table.find_mut("block").expect("a knob").set_default("8192");
        assert!(table.only(&["blok".into()]).expect_err("unknown").to_string().contains("block"));
        table.only(&["block".into()]).expect("known");
        assert_eq!(table.knobs.len(), 1);
        assert_eq!(table.knobs[0].default, "8192");
    }

    #[test]
    fn set_is_named_by_knobs_flags_and_properties() {
        let mut table = table();
        table.knobs.push(knob("filter_bits", "0", powers(1, 16), Role::Filter));
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let options = [("made-up.block", "3000"), ("bloom_bits", "10"), ("compression", "snappy")];
        let set = table.named(&pairs(&options)).expect("known");
        assert_eq!(set.to_string(), "block=3000 filter_bits=10");
        let other = table.named(&pairs(&[("made-up.syncs", "3")])).expect("maybe an option");
        assert_eq!(other.to_string(), "made-up.syncs=3");
        let error = table.named(&pairs(&[("blok", "1")])).expect_err("unknown").to_string();
        assert!(error.contains("\"blok\"") && error.contains("compression"), "{error}");
        table.find_mut("bloom_bits").expect("a knob").set_default("10");
        assert_eq!(table.named(&pairs(&options)).expect("known").to_string(), "block=3000");
    }
}
