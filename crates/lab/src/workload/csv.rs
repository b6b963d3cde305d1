//! Pairs from a CSV file, or from a JSON lines file by its name.
//!
//! Quoted fields may contain line breaks. A bad row is counted and reported with its line, never
//! silently dropped.

use std::path::Path;

use crate::error::{LabError, LabErrorKind, Result};

/// An unusable row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// First line of the row in the file, from 1.
    pub line: u64,
    /// Reason why it is unusable.
    pub why: String,
}

/// Pairs of a file, in file order.
#[derive(Clone, Debug, Default)]
pub struct CsvPairs {
    /// Key and value of each good row.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Unusable rows.
    pub bad_rows: Vec<BadRow>,
}

impl CsvPairs {
    /// Describes the number of bad rows and the reason of the first; `None` without bad rows.
    pub fn left_out(&self) -> Option<String> {
        let BadRow { line, why } = self.bad_rows.first()?;
        let count = self.bad_rows.len();
        Some(format!("{count} bad row(s) were skipped, the first is line {line}: {why}"))
    }
}

/// Maximum key length in bytes.
pub(super) const KEY_BYTES_MAX: usize = 64 << 10;

/// Reads at most `rows_max` good rows of `path`. Columns are given by the header's name or by
/// number from 1. Fails if the file cannot be read or a column does not exist.
pub fn read_pairs(
    path: &Path,
    key_column: &str,
    value_column: &str,
    rows_max: Option<u64>,
) -> Result<CsvPairs> {
    if super::jsonl::is_json_lines(path) {
        return super::jsonl::read_pairs(path, key_column, value_column, rows_max);
    }
    let file = std::fs::File::open(path).map_err(|e| LabError::io("read", path, &e))?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let fail = |e: &csv::Error| {
        LabError::new(LabErrorKind::Data, format!("cannot read {}: {e}", path.display()))
    };
    let header = reader.byte_headers().map_err(|e| fail(&e))?.clone();
    let key_index = column(&header, key_column, path)?;
    let value_index = column(&header, value_column, path)?;
    let mut found = CsvPairs::default();
    let mut row = csv::ByteRecord::new();
    while rows_max.is_none_or(|max| (found.pairs.len() as u64) < max) {
        match reader.read_byte_record(&mut row) {
            Ok(false) => break,
            Ok(true) => {}
            Err(e) if e.is_io_error() => return Err(fail(&e)),
            Err(e) => {
                let line = e.position().map_or(0, csv::Position::line);
                found.bad_rows.push(BadRow { line, why: e.to_string() });
                continue;
            }
        }
        match pair_of(&row, header.len(), key_index, value_index) {
            Ok(pair) => found.pairs.push(pair),
            Err(why) => {
                let line = row.position().map_or(0, csv::Position::line);
                found.bad_rows.push(BadRow { line, why });
            }
        }
    }
    if found.pairs.is_empty() {
        let message = format!("{} has no usable row", path.display());
        return Err(LabError::new(LabErrorKind::Data, message));
    }
    Ok(found)
}

fn pair_of(
    row: &csv::ByteRecord,
    fields: usize,
    key: usize,
    value: usize,
) -> std::result::Result<(Vec<u8>, Vec<u8>), String> {
    if row.len() != fields {
        return Err(format!("number of fields: {}, expected {fields} as in the header", row.len()));
    }
    let (key, value) = (row.get(key).unwrap_or_default(), row.get(value).unwrap_or_default());
    if key.is_empty() {
        return Err("the key is empty".into());
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(format!("the key has {} bytes, more than {KEY_BYTES_MAX}", key.len()));
    }
    Ok((key.to_vec(), value.to_vec()))
}

fn column(header: &csv::ByteRecord, wanted: &str, path: &Path) -> Result<usize> {
    let clean = |name: &[u8]| {
        String::from_utf8_lossy(name.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(name)).into_owned()
    };
    let names: Vec<String> = header.iter().map(clean).collect();
    if let Some(index) = names.iter().position(|name| name == wanted) {
        return Ok(index);
    }
    match wanted.parse::<usize>() {
        Ok(number) if (1..=names.len()).contains(&number) => Ok(number - 1),
        _ => Err(LabError::new(
            LabErrorKind::Data,
            format!(
                "{} has no column {wanted:?}; its columns are {}",
                path.display(),
                names.join(", ")
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), text).expect("written");
        file
    }

    #[test]
    fn quoted_fields_and_bad_rows() {
        let file = file("id,n,title\na,1,\"one,\ntwo\"\nb,2\n,3,x\nc,4,\"\"\"q\"\"\"\n");
        let found = read_pairs(file.path(), "id", "3", None).expect("readable");
        let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(found.pairs, [pair("a", "one,\ntwo"), pair("c", "\"q\"")]);
        let lines: Vec<u64> = found.bad_rows.iter().map(|bad| bad.line).collect();
        assert_eq!(lines, [4, 5]);
        assert!(found.bad_rows[0].why.contains("number of fields: 2"), "{:?}", found.bad_rows);
    }

    #[test]
    fn unknown_column_error_lists_columns() {
        let file = file("id,title\na,b\n");
        let error = read_pairs(file.path(), "id", "name", None).expect_err("no such column");
        assert_eq!(error.kind(), LabErrorKind::Data);
        assert!(error.to_string().contains("id, title"), "{error}");
        assert!(read_pairs(file.path(), "3", "1", None).is_err());
        assert!(read_pairs(Path::new("/nonexistent.csv"), "1", "2", None).is_err());
    }

    #[test]
    fn row_limit_is_respected() {
        let file = file("id,title\na,1\nb,2\nc,3\n");
        let found = read_pairs(file.path(), "1", "2", Some(2)).expect("readable");
        assert_eq!(found.pairs.len(), 2);
    }
}
