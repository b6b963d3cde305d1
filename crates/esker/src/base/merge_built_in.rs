//! The merge operators that every store knows by their names.
//!
//! Invariants: the result of an operator does not depend on how operands are grouped. A number that
//! does not fit is an error, never another number, and is no error any more after an operand that
//! makes it fit.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use super::merge_operator::MergeOperator;

/// Result of a merge; the error is a sentence.
type Merged = Result<(), String>;

/// Returns the built-in merge operator with this name.
///
/// | name | value after the merges |
/// |---|---|
/// | `add_i64` | sum of the existing value and all operands, each a decimal number of 64 bits with sign |
/// | `add_u64` | the same for numbers without sign |
/// | `max`, `min` | the greatest or the least of the existing value and all operands, bytewise |
/// | `append`, `append(,)` | the existing value and all operands in a row, with the text between the parentheses between any two |
/// | `set_union`, `set_union(,)` | all different elements of the existing value and of the operands, in bytewise order. Elements are separated by a line feed, or by the text between the parentheses. Empty elements are left out |
/// | `json_patch` | the existing value after the operands were applied as JSON merge patches (RFC 7396). Only with the crate's feature `json` |
///
/// Numbers are text, such as `-12`. A key that does not exist counts as 0. A sum that does not fit
/// 64 bits is an error of each read, until another operand makes it fit; no operand is lost.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, Options, built_in_merge_operator};
/// let options =
///     Options { merge_operator: built_in_merge_operator("add_i64"), ..Options::default() };
/// let db = Db::open(dir.path().join("db"), options)?;
/// db.merge("visits", "1")?;
/// db.merge("visits", "41")?;
/// assert_eq!(&*db.get("visits")?.unwrap(), b"42");
/// # Ok(())
/// # }
/// ```
pub fn built_in_merge_operator(name: &str) -> Option<Arc<dyn MergeOperator>> {
    let parameter = |function: &str| {
        let rest = name.strip_prefix(function)?.strip_prefix('(')?;
        Some(rest.strip_suffix(')')?.to_string())
    };
    let operator: Arc<dyn MergeOperator> = match name {
        "add_i64" => Arc::new(AddI64),
        "add_u64" => Arc::new(AddU64),
        "max" => Arc::new(Extreme { is_max: true }),
        "min" => Arc::new(Extreme { is_max: false }),
        "append" => Arc::new(Append { name: name.to_string(), separator: String::new() }),
        "set_union" => Arc::new(SetUnion { name: name.to_string(), separator: "\n".to_string() }),
        #[cfg(feature = "json")]
        "json_patch" => Arc::new(super::json_patch::JsonPatch),
        _ => match (parameter("append"), parameter("set_union")) {
            (Some(separator), _) => Arc::new(Append { name: name.to_string(), separator }),
            (_, Some(separator)) if !separator.is_empty() => {
                Arc::new(SetUnion { name: name.to_string(), separator })
            }
            _ => return None,
        },
    };
    Some(operator)
}

/// Returns the sum of decimal numbers. Sums of operands may exceed the numbers that a value can
/// have.
fn sum<'a>(numbers: impl Iterator<Item = &'a [u8]>) -> Result<i128, String> {
    let mut sum = 0i128;
    for text in numbers {
        sum = sum.checked_add(number(text)?).ok_or("the sum does not fit 128 bits")?;
    }
    Ok(sum)
}

/// Parses a decimal number.
fn number(text: &[u8]) -> Result<i128, String> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        let shown = text[..text.len().min(64)].escape_ascii();
        format!("expected a decimal number such as 12, found \"{shown}\"")
    })
}

/// Appends the sum of `existing` and `operands`, if it is within `range`.
fn add(
    range: std::ops::RangeInclusive<i128>,
    existing: Option<&[u8]>,
    operands: &[&[u8]],
    out: &mut Vec<u8>,
) -> Merged {
    let sum = sum(existing.into_iter().chain(operands.iter().copied()))?;
    if !range.contains(&sum) {
        let (least, most) = range.into_inner();
        return Err(format!("the sum {sum} does not fit: it takes {least} to {most}"));
    }
    write!(out, "{sum}").map_err(|error| error.to_string())
}

/// Appends one number that has the effect of adding `operands`.
fn add_operands(operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
    sum(operands.iter().copied()).is_ok_and(|sum| write!(out, "{sum}").is_ok())
}

/// Checks that an operand is a number within `range`.
fn check_number(range: std::ops::RangeInclusive<i128>, operand: &[u8]) -> Merged {
    let number = number(operand)?;
    if range.contains(&number) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(format!("expected a number from {least} to {most}, found {number}"))
}

/// `add_i64`.
struct AddI64;

impl AddI64 {
    const RANGE: std::ops::RangeInclusive<i128> = i64::MIN as i128..=i64::MAX as i128;
}

impl MergeOperator for AddI64 {
    fn name(&self) -> &str {
        "add_i64"
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Merged {
        add(AddI64::RANGE, existing, operands, out)
    }
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        add_operands(operands, out)
    }
    fn check_operand(&self, operand: &[u8]) -> Merged {
        check_number(AddI64::RANGE, operand)
    }
}

/// `add_u64`.
struct AddU64;

impl AddU64 {
    const RANGE: std::ops::RangeInclusive<i128> = 0..=u64::MAX as i128;
}

impl MergeOperator for AddU64 {
    fn name(&self) -> &str {
        "add_u64"
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Merged {
        add(AddU64::RANGE, existing, operands, out)
    }
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        add_operands(operands, out)
    }
    fn check_operand(&self, operand: &[u8]) -> Merged {
        check_number(AddU64::RANGE, operand)
    }
}

/// `max` and `min`.
struct Extreme {
    is_max: bool,
}

impl Extreme {
    fn of<'a>(&self, values: impl Iterator<Item = &'a [u8]>) -> &'a [u8] {
        let extreme = if self.is_max { values.max() } else { values.min() };
        extreme.unwrap_or_default()
    }
}

impl MergeOperator for Extreme {
    fn name(&self) -> &str {
        if self.is_max { "max" } else { "min" }
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Merged {
        let all = existing.into_iter().chain(operands.iter().copied());
        out.extend_from_slice(self.of(all));
        Ok(())
    }
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.of(operands.iter().copied()));
        true
    }
}

/// `append`.
struct Append {
    name: String,
    separator: String,
}

impl Append {
    fn join<'a>(&self, parts: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        for (at, part) in parts.enumerate() {
            if at > 0 {
                out.extend_from_slice(self.separator.as_bytes());
            }
            out.extend_from_slice(part);
        }
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        &self.name
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Merged {
        self.join(existing.into_iter().chain(operands.iter().copied()), out);
        Ok(())
    }
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        self.join(operands.iter().copied(), out);
        true
    }
}

/// `set_union`.
struct SetUnion {
    name: String,
    /// Not empty.
    separator: String,
}

impl SetUnion {
    fn union<'a>(&self, sets: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        let mut elements = BTreeSet::new();
        for set in sets {
            elements.extend(self.elements(set));
        }
        for (at, element) in elements.into_iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(self.separator.as_bytes());
            }
            out.extend_from_slice(element);
        }
    }

    /// Returns the elements of a set, without empty ones.
    fn elements<'a>(&self, set: &'a [u8]) -> Vec<&'a [u8]> {
        let separator = self.separator.as_bytes();
        let (mut elements, mut start, mut at) = (Vec::new(), 0, 0);
        while at + separator.len() <= set.len() {
            if set[at..].starts_with(separator) {
                elements.push(&set[start..at]);
                at += separator.len();
                start = at;
            } else {
                at += 1;
            }
        }
        elements.push(&set[start..]);
        elements.retain(|element| !element.is_empty());
        elements
    }
}

impl MergeOperator for SetUnion {
    fn name(&self) -> &str {
        &self.name
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Merged {
        self.union(existing.into_iter().chain(operands.iter().copied()), out);
        Ok(())
    }
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        self.union(operands.iter().copied(), out);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(name: &str, existing: Option<&str>, operands: &[&str]) -> Result<String, String> {
        let operator = built_in_merge_operator(name).expect("the operator is built in");
        assert_eq!(operator.name(), name);
        let operands: Vec<&[u8]> = operands.iter().map(|operand| operand.as_bytes()).collect();
        let mut whole = Vec::new();
        let result = operator.full_merge(b"k", existing.map(str::as_bytes), &operands, &mut whole);
        // Every grouping has the same result.
        for split in 2..=operands.len() {
            let (first, rest) = operands.split_at(split);
            let mut combined = Vec::new();
            if !operator.partial_merge(b"k", first, &mut combined) {
                continue;
            }
            let grouped: Vec<&[u8]> =
                std::iter::once(&combined[..]).chain(rest.iter().copied()).collect();
            let mut again = Vec::new();
            let regrouped =
                operator.full_merge(b"k", existing.map(str::as_bytes), &grouped, &mut again);
            assert_eq!((&regrouped, &again), (&result, &whole), "{name} {operands:?}");
        }
        result.map(|()| String::from_utf8(whole).unwrap())
    }

    #[test]
    fn numbers_are_added_exactly_or_not_at_all() {
        assert_eq!(merge("add_i64", None, &["1", "41"]).unwrap(), "42");
        assert_eq!(merge("add_i64", Some("-5"), &["2", "-9", "4"]).unwrap(), "-8");
        let most = i64::MAX.to_string();
        let error = merge("add_i64", Some(&most), &["1", "1"]).unwrap_err();
        assert!(error.contains("9223372036854775809"), "{error}");
        assert_eq!(merge("add_i64", Some(&most), &["1", "1", "-2"]).unwrap(), most);
        assert!(merge("add_i64", Some("x"), &["1"]).unwrap_err().contains("\"x\""));
        assert!(merge("add_i64", None, &["1", "", "2"]).is_err());
        let most = u64::MAX.to_string();
        assert_eq!(merge("add_u64", None, &[&most]).unwrap(), most);
        assert!(merge("add_u64", Some(&most), &["1"]).is_err());
        assert!(merge("add_u64", Some("-1"), &["0"]).is_err());
        let check = |name: &str, operand: &str| {
            built_in_merge_operator(name).unwrap().check_operand(operand.as_bytes())
        };
        check("add_i64", "-9223372036854775808").unwrap();
        check("add_u64", "18446744073709551615").unwrap();
        for (name, operand) in [
            ("add_i64", "9223372036854775808"),
            ("add_i64", "1.5"),
            ("add_i64", ""),
            ("add_u64", "-1"),
            ("add_u64", "18446744073709551616"),
        ] {
            assert!(check(name, operand).is_err(), "{name} {operand}");
        }
    }

    #[test]
    fn extremes_rows_and_sets() {
        assert_eq!(merge("max", None, &["b", "abc", "a"]).unwrap(), "b");
        assert_eq!(merge("max", Some("z"), &["b", "a"]).unwrap(), "z");
        assert_eq!(merge("min", Some("z"), &["b", "", "a"]).unwrap(), "");
        assert_eq!(merge("append", Some("a"), &["b", "c"]).unwrap(), "abc");
        assert_eq!(merge("append(, )", None, &["b", "", "c"]).unwrap(), "b, , c");
        assert_eq!(merge("append(,)", Some(""), &["b"]).unwrap(), ",b");
        assert_eq!(merge("append()", Some("a"), &["b"]).unwrap(), "ab");
        assert_eq!(merge("append())", Some("a"), &["b"]).unwrap(), "a)b");
        assert_eq!(
            merge("set_union", Some("b\na"), &["c\na", "\n\nb", "d"]).unwrap(),
            "a\nb\nc\nd"
        );
        assert_eq!(merge("set_union(::)", None, &["x::y", "a::::x"]).unwrap(), "a::x::y");
        assert_eq!(merge("set_union", None, &["", "\n"]).unwrap(), "");
    }

    #[test]
    fn other_names_are_unknown() {
        for name in ["", "add", "add_i64()", "append(", "append)", "set_union()", "Max", "max "] {
            assert!(built_in_merge_operator(name).is_none(), "{name}");
        }
    }
}
