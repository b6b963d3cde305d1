//! Expected results of a phase, as amounts relative to the sizes of a point.

use toml::Value;

use super::check::shown;
use super::file::Expect;
use crate::record::schema::TaskSample;

/// A number, or a multiple or fraction of the point's entries or of the phase's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    of: Of,
    times: u64,
    parts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    One,
    Entries,
    /// The quantity counted in context: operations of a sample, or records before a phase.
    Counted,
}

impl Amount {
    /// Parses `1000`, `entries`, `entries/1000`, `entries*2`. Expectations of a phase may use
    /// `operations`, and operation counts of a phase may use `records`, the number of records at
    /// its start.
    pub fn parse(value: &Value) -> Result<Amount, String> {
        let fail = || {
            let found = shown(value);
            format!(
                "{found} is not an amount; write a number, entries, operations or records, then /N \
                 or *N"
            )
        };
        if let Some(number) = value.as_integer() {
            let times = u64::try_from(number).map_err(|_| fail())?;
            return Ok(Amount::number(times));
        }
        let text = value.as_str().ok_or_else(fail)?;
        let end = text.find(['/', '*']).unwrap_or(text.len());
        let of = match text[..end].trim() {
            "entries" => Of::Entries,
            "operations" | "records" => Of::Counted,
            _ => return Err(fail()),
        };
        if end == text.len() {
            return Ok(Amount { of, times: 1, parts: 1 });
        }
        let number: u64 = text[end + 1..].trim().parse().map_err(|_| fail())?;
        match &text[end..=end] {
            "/" if number > 0 => Ok(Amount { of, times: 1, parts: number }),
            "*" => Ok(Amount { of, times: number, parts: 1 }),
            _ => Err(fail()),
        }
    }

    /// Returns an amount that depends on nothing.
    pub fn number(number: u64) -> Amount {
        Amount { of: Of::One, times: number, parts: 1 }
    }

    /// Returns the number of an amount that depends on nothing; `None` for any other.
    pub fn fixed(&self) -> Option<u64> {
        (self.of == Of::One).then(|| self.value(0, 0))
    }

    /// Returns the amount for the given numbers of entries, and of operations or records.
    pub fn value(&self, entries: u64, counted: u64) -> u64 {
        let base = match self.of {
            Of::One => 1,
            Of::Entries => entries,
            Of::Counted => counted,
        };
        // A fraction of a nonzero number is at least 1, as in the tasks.
        let whole = base.saturating_mul(self.times);
        (whole / self.parts).max(whole.min(1))
    }
}

/// Returns a sentence about the first unmet expectation of the sample; `None` if all are met.
pub fn missed(expect: &Expect, sample: &TaskSample, entries: u64) -> Option<String> {
    if sample.error.is_some() {
        return None;
    }
    let checks = [
        ("operations", &expect.operations, Some(sample.operations)),
        ("keys found", &expect.found, sample.found),
    ];
    for (what, expected, found) in checks {
        let Some(expected) = expected else { continue };
        let Ok(amount) = Amount::parse(expected.get_ref()) else { continue };
        let wanted = amount.value(entries, sample.operations);
        if found != Some(wanted) {
            let found = found.map_or("none counted".into(), |found| found.to_string());
            return Some(format!("expected {wanted} {what}, got {found}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed() {
        let value = |value: Value| Amount::parse(&value).map(|amount| amount.value(5000, 300));
        assert_eq!(value(Value::from(7)), Ok(7));
        assert_eq!(value(Value::from("entries")), Ok(5000));
        assert_eq!(value(Value::from("entries/1000")), Ok(5));
        assert_eq!(value(Value::from("entries/9999")), Ok(1));
        assert_eq!(value(Value::from(0)), Ok(0));
        assert_eq!(value(Value::from("operations * 2")), Ok(600));
        for bad in ["", "entries/0", "entries/x", "all", "entries-1"] {
            assert!(value(Value::from(bad)).is_err(), "{bad}");
        }
        assert!(value(Value::from(-1)).is_err());
    }

    #[test]
    fn unmet_expectation_is_described() {
        let expect: Expect =
            toml::from_str("operations = \"entries\"\nfound = \"operations\"").expect("a table");
        let mut sample = TaskSample::new("e", "readrandom", 0, 0);
        (sample.operations, sample.found) = (100, Some(100));
        assert_eq!(missed(&expect, &sample, 100), None);
        sample.found = Some(99);
        let missed_text = missed(&expect, &sample, 100).expect("one is missing");
        assert_eq!(missed_text, "expected 100 keys found, got 99");
        assert!(missed(&expect, &sample, 101).expect("short").contains("101 operations"));
    }
}
