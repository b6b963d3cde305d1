//! CSV per RFC 4180, and TSV: quoted fields, doubled quotes, newlines inside quotes.
//!
//! Invariants:
//! 1. A row is good only if it has as many fields as the first row.
//! 2. An unclosed quote makes the rest of the file bad, since the start of the next row would be a
//!    guess.

use std::io;

use super::input::{Input, Line, trim_newline};
use super::{Pair, Row, Rows};
use crate::bytes::Encoding;

/// Layout of the file and selection of its columns.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Separator between fields.
    pub delimiter: u8,
    /// Whether fields may be quoted.
    pub quotes: bool,
    /// Whether the first row names the columns.
    pub header: bool,
    /// Key column, by name or by number from 1.
    pub key_column: String,
    /// Value column, by name or by number from 1.
    pub value_column: String,
    /// Encoding of bytes in fields; `None` takes fields unchanged.
    pub encoding: Option<Encoding>,
}

/// Rows of a CSV or TSV file.
pub struct CsvRows {
    input: Input,
    layout: Layout,
    columns: Option<Columns>,
    buffer: Vec<u8>,
}

struct Columns {
    count: usize,
    key: usize,
    value: usize,
}

type Fields = Result<Vec<Vec<u8>>, String>;

impl CsvRows {
    /// Opens the file, reads its header and finds the columns.
    pub fn open(input: Input, layout: Layout) -> io::Result<Result<CsvRows, String>> {
        let mut rows = CsvRows { input, layout, columns: None, buffer: Vec::new() };
        if !rows.layout.header {
            return Ok(Ok(rows));
        }
        let header = match rows.next_record()? {
            None => return Ok(Err("the file is empty: it has no header".into())),
            Some((line, Err(why))) => return Ok(Err(format!("line {line}: {why}"))),
            Some((_, Ok(fields))) => fields,
        };
        Ok(rows.find_columns(&header).map(|columns| CsvRows { columns: Some(columns), ..rows }))
    }

    fn find_columns(&self, first: &[Vec<u8>]) -> Result<Columns, String> {
        let find = |column: &str| -> Result<usize, String> {
            if self.layout.header
                && let Some(at) = first.iter().position(|name| name == column.as_bytes())
            {
                return Ok(at);
            }
            match column.parse::<usize>() {
                Ok(number) if (1..=first.len()).contains(&number) => Ok(number - 1),
                Ok(number) => {
                    Err(format!("there is no column {number}: rows have {}", first.len()))
                }
                Err(_) if !self.layout.header => {
                    Err(format!("without a header, a column must be a number, found {column:?}"))
                }
                Err(_) => {
                    let shown: Vec<_> = first.iter().map(|n| String::from_utf8_lossy(n)).collect();
                    Err(format!(
                        "there is no column {column:?}; the columns are {}",
                        shown.join(", ")
                    ))
                }
            }
        };
        let (key, value) = (find(&self.layout.key_column)?, find(&self.layout.value_column)?);
        Ok(Columns { count: first.len(), key, value })
    }

    /// Returns the next record and its first line number; blank lines are skipped.
    fn next_record(&mut self) -> io::Result<Option<(u64, Fields)>> {
        loop {
            self.buffer.clear();
            let mut parser = Parser::new(self.layout.delimiter, self.layout.quotes);
            let first_line = self.input.line + 1;
            loop {
                let start = self.buffer.len();
                match self.input.read_line(&mut self.buffer)? {
                    Line::Whole => {}
                    Line::TooLong => {
                        let why = "the row exceeds the maximum length of a value".to_string();
                        return Ok(Some((first_line, Err(why))));
                    }
                    Line::End if start == 0 => return Ok(None),
                    Line::End => {
                        let why = format!(
                            "a quoted field that starts here has no closing quote; lines \
                             {first_line} to {} are not loaded",
                            self.input.line
                        );
                        return Ok(Some((first_line, Err(why))));
                    }
                }
                if start == 0 && trim_newline(&self.buffer).is_empty() {
                    break;
                }
                if parser.line(&self.buffer[start..]) {
                    let mut fields = parser.finish();
                    if let (Err(why), true) = (&fields, self.input.line > first_line) {
                        fields =
                            Err(format!("{why}; the row continues to line {}", self.input.line));
                    }
                    return Ok(Some((first_line, fields)));
                }
            }
        }
    }

    fn pair(&mut self, fields: Fields) -> Pair {
        let mut fields = fields?;
        if self.columns.is_none() {
            self.columns = Some(self.find_columns(&fields)?);
        }
        let Some(columns) = &self.columns else { return Err("the columns are unknown".into()) };
        if fields.len() != columns.count {
            return Err(format!("number of fields: {}, expected {}", fields.len(), columns.count));
        }
        let value = if columns.value == columns.key {
            fields[columns.key].clone()
        } else {
            std::mem::take(&mut fields[columns.value])
        };
        let key = std::mem::take(&mut fields[columns.key]);
        match self.layout.encoding {
            None => Ok((key, value)),
            Some(encoding) => Ok((
                encoding.read(&key).map_err(|why| format!("the key: {why}"))?,
                encoding.read(&value).map_err(|why| format!("the value: {why}"))?,
            )),
        }
    }
}

impl Rows for CsvRows {
    fn next(&mut self) -> io::Result<Option<Row>> {
        let Some((line, fields)) = self.next_record()? else { return Ok(None) };
        Ok(Some(Row::new(line, self.pair(fields))))
    }

    fn read_bytes(&self) -> u64 {
        self.input.read_bytes
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    FieldStart,
    Plain,
    Quoted,
    QuoteInQuoted,
}

/// Parser of one record, fed line by line.
struct Parser {
    delimiter: u8,
    quotes: bool,
    at: At,
    fields: Vec<Vec<u8>>,
    field: Vec<u8>,
    wrong: Option<String>,
}

impl Parser {
    fn new(delimiter: u8, quotes: bool) -> Parser {
        let (fields, field) = (Vec::new(), Vec::new());
        Parser { delimiter, quotes, at: At::FieldStart, fields, field, wrong: None }
    }

    /// Takes a line with its newline; returns `true` if the line ends the record.
    fn line(&mut self, line: &[u8]) -> bool {
        let text = trim_newline(line);
        for &byte in text {
            self.byte(byte);
        }
        if self.at == At::Quoted {
            self.field.extend_from_slice(&line[text.len()..]);
            return false;
        }
        self.fields.push(std::mem::take(&mut self.field));
        true
    }

    fn byte(&mut self, byte: u8) {
        let end_of_field = byte == self.delimiter;
        self.at = match self.at {
            At::FieldStart if byte == b'"' && self.quotes => At::Quoted,
            At::Quoted if byte == b'"' => At::QuoteInQuoted,
            At::Quoted => {
                self.field.push(byte);
                At::Quoted
            }
            At::QuoteInQuoted if byte == b'"' => {
                self.field.push(b'"');
                At::Quoted
            }
            _ if end_of_field => {
                self.fields.push(std::mem::take(&mut self.field));
                At::FieldStart
            }
            At::QuoteInQuoted => {
                self.wrong.get_or_insert_with(|| {
                    format!("field {}: text after the closing quote", self.fields.len() + 1)
                });
                At::Plain
            }
            At::FieldStart | At::Plain => {
                self.field.push(byte);
                At::Plain
            }
        };
    }

    fn finish(self) -> Fields {
        match self.wrong {
            Some(why) => Err(why),
            None => Ok(self.fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Content;
    use super::*;

    fn layout(key: &str, value: &str) -> Layout {
        Layout {
            delimiter: b',',
            quotes: true,
            header: true,
            key_column: key.into(),
            value_column: value.into(),
            encoding: None,
        }
    }

    fn read(text: &'static str, layout: Layout) -> Result<Vec<(u64, Pair)>, String> {
        let mut rows = CsvRows::open(Input::new(Box::new(text.as_bytes())), layout).unwrap()?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let pair = row.content.map(|content| match content {
                Content::Pair(key, value) => (key, value),
                other => panic!("{other:?} in a file of plain pairs"),
            });
            all.push((row.line, pair));
        }
        assert_eq!(rows.read_bytes(), text.len() as u64);
        Ok(all)
    }

    fn good(key: &str, value: &str) -> Pair {
        Ok((key.into(), value.into()))
    }

    #[test]
    fn quotes_newlines_and_crlf() {
        let text =
            "\u{feff}id,note,more\r\na,\"x, \"\"y\"\"\r\nz\",1\r\n\r\nb,\"\",\"2\"\r\n\"\",5\" d,";
        let rows = read(text, layout("id", "note")).unwrap();
        let expected =
            vec![(2, good("a", "x, \"y\"\r\nz")), (5, good("b", "")), (6, good("", "5\" d"))];
        assert_eq!(rows, expected);
    }

    #[test]
    fn columns_by_name_and_number() {
        assert_eq!(read("k,v\n1,2\n", layout("v", "1")).unwrap(), [(2, good("2", "1"))]);
        assert_eq!(read("k,v\n1,2\n", layout("k", "k")).unwrap(), [(2, good("1", "1"))]);
        assert!(read("k,v\n", layout("key", "v")).unwrap_err().contains("the columns are k, v"));
        assert!(read("k,v\n", layout("3", "v")).unwrap_err().contains("no column 3"));
        assert!(read("", layout("k", "v")).unwrap_err().contains("empty"));
    }

    #[test]
    fn bad_rows_are_reported_and_later_rows_are_read() {
        let text = "k,v\na,1\nb\nc,\"x\"y\nd,1,2\ne,5\nf,\"open\ng,7\n";
        let rows = read(text, layout("k", "v")).unwrap();
        assert_eq!(rows[0], (2, good("a", "1")));
        let why = |at: usize| rows[at].1.clone().unwrap_err();
        assert!(rows[1].0 == 3 && why(1).contains("number of fields: 1, expected 2"), "{rows:?}");
        assert!(rows[2].0 == 4 && why(2).contains("after the closing quote"), "{rows:?}");
        assert_eq!(rows[4], (6, good("e", "5")));
        assert!(rows[5].0 == 7 && why(5).contains("lines 7 to 8"), "{rows:?}");
        assert_eq!(rows.len(), 6);
    }

    #[test]
    fn without_header_and_with_escapes() {
        let layout = Layout {
            delimiter: b'\t',
            quotes: false,
            header: false,
            encoding: Some(Encoding::Text),
            ..layout("1", "2")
        };
        let rows = read("a\\x09\t\"b\\\\\nc\\xZZ\td\n", layout).unwrap();
        assert_eq!(rows[0], (1, good("a\t", "\"b\\")));
        assert!(rows[1].1.is_err());
    }
}
