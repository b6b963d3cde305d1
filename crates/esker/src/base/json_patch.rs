//! The merge operator `json_patch`: JSON merge patches (RFC 7396).
//!
//! Invariants: the members of a value's objects are in the order of their names, so that the bytes
//! do not depend on how patches are grouped. Integers of 64 bits keep their value. Other numbers
//! are floating-point numbers of 64 bits.

use serde_json::{Map, Value};

use super::merge_operator::MergeOperator;

/// `json_patch`.
pub struct JsonPatch;

/// Parses the JSON text of `what`.
fn parse(what: &str, text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| format!("the {what} is not JSON: {error}"))
}

/// Applies a merge patch.
fn apply(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(patch) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            let Value::Object(members) = target else { return };
            for (name, change) in patch {
                if change.is_null() {
                    members.remove(&name);
                } else {
                    apply(members.entry(name).or_insert(Value::Null), change);
                }
            }
        }
        value => *target = value,
    }
}

/// Returns one merge patch that has the effect of `first` and then `second`. `None`: there is none,
/// because no patch puts an object in the place of another one.
fn compose(first: Value, second: Value) -> Option<Value> {
    match (first, second) {
        (Value::Object(mut first), Value::Object(second)) => {
            for (name, change) in second {
                let composed = match (first.remove(&name), change) {
                    (Some(earlier), Value::Object(change)) => {
                        compose(earlier, Value::Object(change))?
                    }
                    (_, change) => change,
                };
                first.insert(name, composed);
            }
            Some(Value::Object(first))
        }
        (_, Value::Object(_)) => None,
        (_, second) => Some(second),
    }
}

/// Returns the value with the members of its objects in the order of their names.
fn in_order(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(String, Value)> = members.into_iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            let sorted = sorted.into_iter().map(|(name, value)| (name, in_order(value)));
            Value::Object(sorted.collect())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(in_order).collect()),
        value => value,
    }
}

fn write(value: Value, out: &mut Vec<u8>) -> Result<(), String> {
    serde_json::to_writer(out, &in_order(value)).map_err(|error| error.to_string())
}

impl MergeOperator for JsonPatch {
    fn name(&self) -> &str {
        "json_patch"
    }
    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let mut target = existing.map_or(Ok(Value::Null), |text| parse("value", text))?;
        for operand in operands {
            apply(&mut target, parse("patch", operand)?);
        }
        write(target, out)
    }
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        let mut composed: Option<Value> = None;
        for operand in operands {
            let Ok(next) = parse("patch", operand) else { return false };
            composed = match composed.take() {
                None => Some(next),
                Some(first) => match compose(first, next) {
                    Some(both) => Some(both),
                    None => return false,
                },
            };
        }
        composed.is_some_and(|patch| write(patch, out).is_ok())
    }
    fn check_operand(&self, operand: &[u8]) -> Result<(), String> {
        parse("patch", operand).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(existing: Option<&str>, operands: &[&str]) -> String {
        let operands: Vec<&[u8]> = operands.iter().map(|operand| operand.as_bytes()).collect();
        let mut out = Vec::new();
        JsonPatch.full_merge(b"k", existing.map(str::as_bytes), &operands, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn examples_of_the_standard() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, r#"null"#, r#"null"#),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(full(Some(target), &[patch]), result, "{target} {patch}");
        }
        assert_eq!(full(None, &[r#"{"b":1,"a":null}"#]), r#"{"b":1}"#);
    }

    #[test]
    fn every_grouping_of_patches_has_the_same_result() {
        let patches = [
            r#"{"a":1}"#,
            r#"{"a":null}"#,
            r#"{"a":{"x":1,"b":null}}"#,
            r#"{"a":{"x":null,"y":{"z":2}},"b":[1]}"#,
            r#"{"b":{"q":1}}"#,
            r#"7"#,
            r#"{}"#,
        ];
        let targets = [None, Some("5"), Some(r#"{"a":{"x":9,"y":8},"b":{"q":0,"r":1}}"#)];
        let mut combined_count = 0;
        for first in patches {
            for second in patches {
                let mut both = Vec::new();
                let operands = [first.as_bytes(), second.as_bytes()];
                if !JsonPatch.partial_merge(b"k", &operands, &mut both) {
                    continue;
                }
                combined_count += 1;
                let both = String::from_utf8(both).unwrap();
                for target in targets {
                    assert_eq!(
                        full(target, &[&both]),
                        full(target, &[first, second]),
                        "{target:?} {first} {second}"
                    );
                }
            }
        }
        assert!(combined_count > patches.len(), "{combined_count}");
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        assert!(JsonPatch.check_operand(b"{").is_err());
        let mut out = Vec::new();
        let error = JsonPatch.full_merge(b"k", Some(b"x"), &[b"{}"], &mut out).unwrap_err();
        assert!(error.contains("the value is not JSON"), "{error}");
        assert!(!JsonPatch.partial_merge(b"k", &[b"{}", b"x"], &mut out));
        let deep = "[".repeat(100_000);
        assert!(JsonPatch.check_operand(deep.as_bytes()).is_err());
    }
}
