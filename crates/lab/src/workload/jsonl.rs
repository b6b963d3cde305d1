//! Pairs from a JSON lines file: one object per line, with key and value under two field names.
//!
//! A JSON string stands for its bytes, any other value for its JSON text. A bad row is counted and
//! reported with its line, as in CSV files.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

use super::csv::{BadRow, CsvPairs, KEY_BYTES_MAX};
use crate::error::{LabError, LabErrorKind, Result};

/// Returns whether the file name is that of a JSON lines file.
pub fn is_json_lines(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ending == "jsonl" || ending == "ndjson")
}

/// Reads at most `rows_max` good rows of `path`. Fails if the file cannot be read, if no row has
/// both fields (the error lists the fields of the first row), or if no row is usable.
pub fn read_pairs(path: &Path, key: &str, value: &str, rows_max: Option<u64>) -> Result<CsvPairs> {
    let file = std::fs::File::open(path).map_err(|e| LabError::io("read", path, &e))?;
    let mut found = CsvPairs::default();
    let mut names: Option<Vec<String>> = None;
    for (index, line) in BufReader::new(file).split(b'\n').enumerate() {
        if rows_max.is_some_and(|max| found.pairs.len() as u64 >= max) {
            break;
        }
        let line = line.map_err(|e| LabError::io("read", path, &e))?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let row = serde_json::from_slice::<Value>(&line);
        if let (None, Ok(Value::Object(object))) = (&names, &row) {
            names = Some(object.keys().cloned().collect());
        }
        match row.map_err(|e| format!("not JSON: {e}")).and_then(|row| pair_of(&row, key, value)) {
            Ok(pair) => found.pairs.push(pair),
            Err(why) => found.bad_rows.push(BadRow { line: index as u64 + 1, why }),
        }
    }
    if !found.pairs.is_empty() {
        return Ok(found);
    }
    let names = names.unwrap_or_default();
    let missing = [key, value].into_iter().find(|name| !names.iter().any(|known| known == name));
    let message = match missing {
        Some(name) if !names.is_empty() => {
            let known = names.join(", ");
            format!("{} has no column {name:?}; its columns are {known}", path.display())
        }
        _ => format!("{} has no usable row", path.display()),
    };
    Err(LabError::new(LabErrorKind::Data, message))
}

fn pair_of(row: &Value, key: &str, value: &str) -> std::result::Result<(Vec<u8>, Vec<u8>), String> {
    let field = |name: &str| match row.get(name) {
        Some(Value::String(text)) => Ok(text.clone().into_bytes()),
        Some(other) => Ok(other.to_string().into_bytes()),
        None => Err(format!("no field {name:?}")),
    };
    let (key, value) = (field(key)?, field(value)?);
    match key.len() {
        0 => Err("the key is empty".into()),
        bytes if bytes > KEY_BYTES_MAX => {
            Err(format!("the key has {bytes} bytes, more than {KEY_BYTES_MAX}"))
        }
        _ => Ok((key, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::csv::read_pairs as read_any;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().expect("a temporary file");
        std::fs::write(file.path(), text).expect("written");
        file
    }

    #[test]
    fn strings_are_raw_bytes_and_other_values_are_json() {
        let file = file(
            "{\"id\":\"a\",\"title\":\"one\\ntwo\"}\n\n{\"id\":7,\"title\":{\"x\":[1]}}\n\
             {\"id\":\"b\"}\nnonsense\n{\"id\":\"\",\"title\":1}\n",
        );
        let found = read_any(file.path(), "id", "title", None).expect("readable");
        let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(found.pairs, [pair("a", "one\ntwo"), pair("7", "{\"x\":[1]}")]);
        let lines: Vec<u64> = found.bad_rows.iter().map(|bad| bad.line).collect();
        assert_eq!(lines, [4, 5, 6]);
        let one = read_any(file.path(), "id", "title", Some(1)).expect("readable");
        assert_eq!(one.pairs.len(), 1);
    }

    #[test]
    fn unknown_field_error_lists_fields() {
        let file = file("{\"id\":\"a\",\"title\":\"b\"}\n");
        let error = read_any(file.path(), "id", "name", None).expect_err("no such name");
        assert!(
            error.to_string().contains("no column \"name\"; its columns are id, title"),
            "{error}"
        );
        assert!(is_json_lines(Path::new("x.NDJSON")) && !is_json_lines(Path::new("x.csv")));
    }
}
