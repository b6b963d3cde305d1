//! Dumps: a first line that names the format, one pair per line, and a last line with the number of
//! pairs and their checksum. A dump without the last line is incomplete.
//!
//! ```text
//! esker dump 1 text
//! KEY<tab>VALUE
//! end of dump: 1 pairs, checksum 0123456789abcdef
//! ```
//! With `--json` the lines are objects: `{"esker_dump":1,…}`, `{"key":…,"value":…}`, `{"end":…}`.
//! The last line contains no tab and so cannot be taken for a pair.

use std::io;

use esker::internals::checksum;
use serde_json::{Value, json};

use super::input::{Input, Line, trim_newline};
use super::{Pair, Row, Rows};
use crate::bytes::{Encoding, Form};

const MAGIC: &str = "esker dump 1 ";
const JSON_MAGIC: &str = "{\"esker_dump\":";

/// Number of pairs, and checksum over all pairs in order.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Number of pairs.
    pub count: u64,
    /// Chained checksum: the checksum of each key and value is seeded with the previous one.
    pub checksum: u64,
}

impl Tally {
    /// Adds a pair.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.count += 1;
        self.checksum = checksum(value, checksum(key, self.checksum));
    }

    /// Returns the last line of the dump.
    pub fn last_line(&self, form: Form) -> String {
        let sum = format!("{:016x}", self.checksum);
        if form.json {
            return json!({ "end": { "pairs": self.count, "checksum": sum } }).to_string();
        }
        format!("end of dump: {} pairs, checksum {sum}", self.count)
    }
}

/// Returns the first line of a dump.
pub fn first_line(form: Form) -> String {
    if form.json {
        return json!({ "esker_dump": 1, "encoding": form.encoding.name() }).to_string();
    }
    format!("{MAGIC}{}", form.encoding.name())
}

/// Returns whether a file with this beginning is a dump.
pub fn is_dump(beginning: &[u8]) -> bool {
    beginning.starts_with(b"esker dump ") || beginning.starts_with(JSON_MAGIC.as_bytes())
}

/// Rows of a dump.
pub struct DumpRows {
    input: Input,
    form: Form,
    tally: Tally,
    bad: u64,
    end: Option<String>,
    after_end: bool,
    buffer: Vec<u8>,
}

impl DumpRows {
    /// Opens a dump and reads its first line.
    pub fn open(mut input: Input) -> io::Result<Result<DumpRows, String>> {
        let mut line = Vec::new();
        input.read_line(&mut line)?;
        let Some(form) = parse_first_line(trim_newline(&line)) else {
            return Ok(Err(
                "expected the first line of a dump of version 1, found another line".into()
            ));
        };
        let buffer = Vec::new();
        let tally = Tally::default();
        Ok(Ok(DumpRows { input, form, tally, bad: 0, end: None, after_end: false, buffer }))
    }

    fn pair(&self, line: &[u8]) -> Pair {
        if self.form.json {
            let object: Value =
                serde_json::from_slice(line).map_err(|e| format!("not JSON: {e}"))?;
            let field = |name| self.form.read_json(object.get(name).unwrap_or(&Value::Null));
            return Ok((field("key")?, field("value")?));
        }
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or("the line has no tab")?;
        let read = |text| self.form.encoding.read(text);
        Ok((read(&line[..tab])?, read(&line[tab + 1..])?))
    }

    fn is_end(&self, line: &[u8]) -> bool {
        let mark: &[u8] = if self.form.json { b"{\"end\":" } else { b"end of dump: " };
        line.starts_with(mark) && !line.contains(&b'\t')
    }
}

fn parse_first_line(line: &[u8]) -> Option<Form> {
    let line = std::str::from_utf8(line).ok()?;
    if let Some(name) = line.strip_prefix(MAGIC) {
        return Some(Form { encoding: Encoding::parse(name)?, json: false });
    }
    let object: Value = serde_json::from_str(line).ok()?;
    let encoding = Encoding::parse(object.get("encoding")?.as_str()?)?;
    (object.get("esker_dump")? == &json!(1)).then_some(Form { encoding, json: true })
}

impl Rows for DumpRows {
    fn next(&mut self) -> io::Result<Option<Row>> {
        self.buffer.clear();
        let read = self.input.read_line(&mut self.buffer)?;
        if read == Line::End {
            return Ok(None);
        }
        let line = trim_newline(&self.buffer);
        if self.is_end(line) && self.end.is_none() {
            self.end = Some(String::from_utf8_lossy(line).into_owned());
            return self.next();
        }
        self.after_end |= self.end.is_some();
        let pair = match read {
            Line::TooLong => Err("the row exceeds the maximum length of a value".into()),
            _ => self.pair(line),
        };
        match &pair {
            Ok((key, value)) => self.tally.add(key, value),
            Err(_) => self.bad += 1,
        }
        Ok(Some(Row { line: self.input.line, pair }))
    }

    fn read_bytes(&self) -> u64 {
        self.input.read_bytes
    }

    fn check_end(&self) -> Result<(), String> {
        let found = self.tally.last_line(self.form);
        match &self.end {
            None => Err("the dump has no last line; it is truncated".into()),
            Some(_) if self.after_end => Err("the dump continues after its last line".into()),
            Some(end) if *end != found || self.bad > 0 => Err(format!(
                "the dump is damaged: expected the last line {found:?} from its pairs, found \
                 {end:?}"
            )),
            Some(_) => Ok(()),
        }
    }
}
