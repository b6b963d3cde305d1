//! JSON lines: one object per line, with the key and the value under two field names.

use std::io;

use serde_json::Value;

use super::input::{Input, Line, trim_newline};
use super::{Pair, Row, Rows};
use crate::bytes::Form;

/// Rows of a file of JSON lines.
pub struct JsonRows {
    input: Input,
    form: Form,
    key_field: String,
    value_field: String,
    buffer: Vec<u8>,
}

impl JsonRows {
    /// Creates rows from the fields `key_field` and `value_field` of each object.
    pub fn new(input: Input, form: Form, key_field: String, value_field: String) -> JsonRows {
        JsonRows { input, form, key_field, value_field, buffer: Vec::new() }
    }

    fn pair(&self) -> Pair {
        let object: Value =
            serde_json::from_slice(&self.buffer).map_err(|why| format!("not JSON: {why}"))?;
        let field = |name: &str| {
            let value = object.get(name).ok_or_else(|| format!("no field {name:?}"))?;
            self.form.read_json(value).map_err(|why| format!("the field {name:?} {why}"))
        };
        Ok((field(&self.key_field)?, field(&self.value_field)?))
    }
}

impl Rows for JsonRows {
    fn next(&mut self) -> io::Result<Option<Row>> {
        loop {
            self.buffer.clear();
            let read = self.input.read_line(&mut self.buffer)?;
            let line = self.input.line;
            match read {
                Line::End => return Ok(None),
                Line::TooLong => {
                    let pair = Err("the row exceeds the maximum length of a value".into());
                    return Ok(Some(Row::new(line, pair)));
                }
                Line::Whole if trim_newline(&self.buffer).trim_ascii().is_empty() => {}
                Line::Whole => return Ok(Some(Row::new(line, self.pair()))),
            }
        }
    }

    fn read_bytes(&self) -> u64 {
        self.input.read_bytes
    }
}
