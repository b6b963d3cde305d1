//! Dumps: a first line that names the format, one pair per line, and a last line with the number of
//! pairs and their checksum. A dump without the last line is incomplete.
//!
//! A dump of version 1 has the pairs of one keyspace, without the name of the keyspace:
//! ```text
//! esker dump 1 text
//! KEY<tab>VALUE
//! end of dump: 1 pairs, checksum 0123456789abcdef
//! ```
//! A dump of version 2 describes keyspaces. The pairs after a keyspace line belong to the keyspace:
//! ```text
//! esker dump 2 text
//! keyspace {"name":"users","order":"bytewise","options":{"compression":"zstd"}}
//! KEY<tab>VALUE
//! end of dump: 1 pairs in 1 keyspaces, checksum 0123456789abcdef
//! ```
//! A dump of version 3 is one of version 1 or 2 of a store whose pairs may expire. A pair that does
//! has a third column, the time in milliseconds since 1970:
//! ```text
//! KEY<tab>VALUE<tab>1800000000000
//! ```
//! With `--json` the lines are objects: `{"esker_dump":1,…}`, `{"key":…,"value":…}`, `{"end":…}`.
//! Version 2 also has `{"create_keyspace":{"name":…,…}}`, and each pair repeats the name of its
//! keyspace: `{"keyspace":…,"key":…,"value":…}`. Version 3 has the field `expires_ms`. Keyspace lines
//! and the last line contain no tab and so cannot be taken for a pair.

use std::io;

use esker::internals::checksum;
use serde_json::{Value, json};

use super::input::{Input, Line, trim_newline};
use super::{Content, Row, Rows};
use crate::bytes::{Encoding, Form};
use crate::keyspaces::KeyspaceSpec;

const MAGIC: &str = "esker dump ";
const JSON_MAGIC: &str = "{\"esker_dump\":";
const KEYSPACE: &str = "keyspace ";
const JSON_KEYSPACE: &str = "{\"create_keyspace\":";

/// Version of a dump that describes no keyspaces.
const VERSION_PLAIN: u64 = 1;
/// Version of a dump that describes keyspaces.
const VERSION_KEYSPACES: u64 = 2;
/// Version of a dump whose pairs may expire, whether it describes keyspaces or not.
const VERSION_EXPIRY: u64 = 3;

/// Number of pairs and of described keyspaces, and checksum over all of them in order.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Number of pairs.
    pub count: u64,
    /// Number of keyspaces; 0 in a dump that describes none.
    pub keyspaces: u64,
    /// Chained checksum: the checksum of each key and value, and of each part of the description of
    /// a keyspace, is seeded with the previous one.
    pub checksum: u64,
}

impl Tally {
    /// Adds a pair, with the time at which it expires.
    pub fn add(&mut self, key: &[u8], value: &[u8], expires_ms: Option<u64>) {
        self.count += 1;
        self.checksum = checksum(value, checksum(key, self.checksum));
        if let Some(expires_ms) = expires_ms {
            self.checksum = checksum(&expires_ms.to_le_bytes(), self.checksum);
        }
    }

    /// Adds the description of a keyspace.
    pub fn add_keyspace(&mut self, spec: &KeyspaceSpec) {
        self.keyspaces += 1;
        let options = spec.options.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        for part in [spec.name.as_str(), spec.order.name()].into_iter().chain(options) {
            self.checksum = checksum(part.as_bytes(), self.checksum);
        }
    }

    /// Returns the last line of the dump.
    pub fn last_line(&self, form: Form) -> String {
        let (pairs, keyspaces) = (self.count, self.keyspaces);
        let sum = format!("{:016x}", self.checksum);
        match (form.json, keyspaces) {
            (true, 0) => json!({ "end": { "pairs": pairs, "checksum": sum } }).to_string(),
            (true, _) => {
                let end = json!({ "pairs": pairs, "keyspaces": keyspaces, "checksum": sum });
                json!({ "end": end }).to_string()
            }
            (false, 0) => format!("end of dump: {pairs} pairs, checksum {sum}"),
            (false, _) => {
                format!("end of dump: {pairs} pairs in {keyspaces} keyspaces, checksum {sum}")
            }
        }
    }
}

/// Returns the first line of a dump. `keyspaces` says that it describes keyspaces, `may_expire` that
/// its pairs may have times.
pub fn first_line(form: Form, keyspaces: bool, may_expire: bool) -> String {
    let version = match (keyspaces, may_expire) {
        (_, true) => VERSION_EXPIRY,
        (true, false) => VERSION_KEYSPACES,
        (false, false) => VERSION_PLAIN,
    };
    if form.json {
        return json!({ "esker_dump": version, "encoding": form.encoding.name() }).to_string();
    }
    format!("{MAGIC}{version} {}", form.encoding.name())
}

/// Returns the line that describes a keyspace.
pub fn keyspace_line(form: Form, spec: &KeyspaceSpec) -> String {
    let spec = spec.to_json();
    if form.json {
        return json!({ "create_keyspace": spec }).to_string();
    }
    format!("{KEYSPACE}{spec}")
}

/// Returns whether a file with this beginning is a dump.
pub fn is_dump(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC.as_bytes()) || beginning.starts_with(JSON_MAGIC.as_bytes())
}

/// Rows of a dump.
pub struct DumpRows {
    input: Input,
    form: Form,
    version: u64,
    tally: Tally,
    /// Name of the keyspace of the next pair; `None` before the first keyspace line and after a bad
    /// one.
    keyspace: Option<String>,
    /// Whether a keyspace line was read, good or bad.
    describes_keyspaces: bool,
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
        let Some((version, form)) = parse_first_line(trim_newline(&line)) else {
            return Ok(Err(
                "expected the first line of a dump of version 1, 2 or 3, found another line".into(),
            ));
        };
        Ok(Ok(DumpRows {
            input,
            form,
            version,
            tally: Tally::default(),
            keyspace: None,
            describes_keyspaces: version == VERSION_KEYSPACES,
            bad: 0,
            end: None,
            after_end: false,
            buffer: Vec::new(),
        }))
    }

    fn content(&self, line: &[u8]) -> Result<Content, String> {
        if self.is_keyspace(line) {
            return self.spec(line).map(Content::Keyspace);
        }
        if self.form.json {
            let object = parse(line)?;
            self.check_place(object.get("keyspace").and_then(Value::as_str))?;
            let field = |name| self.form.read_json(object.get(name).unwrap_or(&Value::Null));
            let expires_ms = object.get("expires_ms").filter(|_| self.version == VERSION_EXPIRY);
            let expires_ms = expires_ms.map(|time| time.as_u64().ok_or("expires_ms is no number"));
            return self.pair(field("key")?, field("value")?, expires_ms.transpose()?);
        }
        self.check_place(self.keyspace.as_deref())?;
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or("the line has no tab")?;
        let read = |text| self.form.encoding.read(text);
        let (value, expires_ms) = match line.iter().rposition(|byte| *byte == b'\t') {
            Some(last) if last > tab && self.version == VERSION_EXPIRY => {
                let time = std::str::from_utf8(&line[last + 1..]).ok();
                let time = time.and_then(|time| time.parse().ok());
                (&line[tab + 1..last], Some(time.ok_or("the third column is no time")?))
            }
            _ => (&line[tab + 1..], None),
        };
        self.pair(read(&line[..tab])?, read(value)?, expires_ms)
    }

    fn pair(
        &self,
        key: Vec<u8>,
        value: Vec<u8>,
        expires_ms: Option<u64>,
    ) -> Result<Content, String> {
        Ok(match self.version {
            VERSION_EXPIRY => Content::Timed(key, value, expires_ms),
            _ => Content::Pair(key, value),
        })
    }

    fn spec(&self, line: &[u8]) -> Result<KeyspaceSpec, String> {
        if self.form.json {
            return KeyspaceSpec::from_json(&parse(line)?["create_keyspace"]);
        }
        KeyspaceSpec::from_json(&parse(&line[KEYSPACE.len()..])?)
    }

    /// Checks that a pair of the keyspace `name` follows the line of this keyspace.
    fn check_place(&self, name: Option<&str>) -> Result<(), String> {
        if !self.describes_keyspaces || (name.is_some() && name == self.keyspace.as_deref()) {
            return Ok(());
        }
        Err("the pair does not follow the line of its keyspace".into())
    }

    fn is_keyspace(&self, line: &[u8]) -> bool {
        let mark = if self.form.json { JSON_KEYSPACE } else { KEYSPACE };
        self.version >= VERSION_KEYSPACES
            && line.starts_with(mark.as_bytes())
            && !line.contains(&b'\t')
    }

    fn is_end(&self, line: &[u8]) -> bool {
        let mark: &[u8] = if self.form.json { b"{\"end\":" } else { b"end of dump: " };
        line.starts_with(mark) && !line.contains(&b'\t')
    }
}

fn parse(line: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))
}

/// Returns the version and the form of a dump with this first line.
fn parse_first_line(line: &[u8]) -> Option<(u64, Form)> {
    let line = std::str::from_utf8(line).ok()?;
    let known = |version: &u64| (VERSION_PLAIN..=VERSION_EXPIRY).contains(version);
    if let Some(rest) = line.strip_prefix(MAGIC) {
        let (version, name) = rest.split_once(' ')?;
        let version = version.parse::<u64>().ok().filter(known)?;
        return Some((version, Form { encoding: Encoding::parse(name)?, json: false }));
    }
    let object: Value = serde_json::from_str(line).ok()?;
    let encoding = Encoding::parse(object.get("encoding")?.as_str()?)?;
    let version = object.get("esker_dump")?.as_u64().filter(known)?;
    Some((version, Form { encoding, json: true }))
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
        let is_keyspace = self.is_keyspace(line);
        self.describes_keyspaces |= is_keyspace;
        let content = match read {
            Line::TooLong => Err("the row exceeds the maximum length of a value".into()),
            _ => self.content(line),
        };
        match &content {
            Ok(Content::Pair(key, value)) => self.tally.add(key, value, None),
            Ok(Content::Timed(key, value, time)) => self.tally.add(key, value, *time),
            Ok(Content::Keyspace(spec)) => {
                self.tally.add_keyspace(spec);
                self.keyspace = Some(spec.name.clone());
            }
            Err(_) => {
                self.bad += 1;
                if is_keyspace {
                    self.keyspace = None;
                }
            }
        }
        Ok(Some(Row { line: self.input.line, content }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspaces::Order;

    fn spec(name: &str) -> KeyspaceSpec {
        let options = vec![("policy".to_string(), "leveled".to_string())];
        KeyspaceSpec { name: name.into(), order: Order::Reverse, options }
    }

    /// Returns the rows of a dump, and its check.
    fn read(text: &str) -> (Vec<Result<Content, String>>, Result<(), String>) {
        let input = Input::new(Box::new(io::Cursor::new(text.as_bytes().to_vec())));
        let mut rows = DumpRows::open(input).unwrap().unwrap();
        let mut all = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            all.push(row.content);
        }
        let end = rows.check_end();
        (all, end)
    }

    fn pair(key: &str, value: &str) -> Result<Content, String> {
        Ok(Content::Pair(key.into(), value.into()))
    }

    /// Returns a dump of the keyspaces `a` and `b`, with one pair in each.
    fn dump(form: Form) -> String {
        let mut tally = Tally::default();
        let mut text = first_line(form, true, false) + "\n";
        for name in ["a", "b"] {
            tally.add_keyspace(&spec(name));
            tally.add(b"keyspace {", name.as_bytes(), None);
            text += &keyspace_line(form, &spec(name));
            text += &match form.json {
                true => format!(
                    "\n{{\"keyspace\":\"{name}\",\"key\":\"keyspace {{\",\"value\":\"{name}\"}}\n"
                ),
                false => format!("\nkeyspace {{\t{name}\n"),
            };
        }
        text + &tally.last_line(form) + "\n"
    }

    #[test]
    fn keyspaces_come_back_with_their_pairs() {
        for json in [false, true] {
            let text = dump(Form { encoding: Encoding::Text, json });
            let (rows, end) = read(&text);
            let keyspace = |name: &str| Ok(Content::Keyspace(spec(name)));
            let wanted =
                [keyspace("a"), pair("keyspace {", "a"), keyspace("b"), pair("keyspace {", "b")];
            assert_eq!(rows, wanted, "{text}");
            assert_eq!(end, Ok(()), "{text}");
        }
    }

    #[test]
    fn times_come_back_and_a_changed_one_is_damage() {
        for (json, described) in [(false, false), (true, false), (false, true), (true, true)] {
            let form = Form { encoding: Encoding::Text, json };
            let mut tally = Tally::default();
            let mut text = first_line(form, described, true) + "\n";
            if described {
                tally.add_keyspace(&spec("a"));
                text += &(keyspace_line(form, &spec("a")) + "\n");
            }
            tally.add(b"k", b"v", Some(1_800_000_000_000));
            tally.add(b"l", b"w", None);
            let place = if described { "\"keyspace\":\"a\"," } else { "" };
            text += &match json {
                true => format!(
                    "{{{place}\"key\":\"k\",\"value\":\"v\",\"expires_ms\":1800000000000}}\n\
                     {{{place}\"key\":\"l\",\"value\":\"w\"}}\n"
                ),
                false => "k\tv\t1800000000000\nl\tw\n".to_string(),
            };
            text += &(tally.last_line(form) + "\n");
            let (rows, end) = read(&text);
            let timed =
                |key: &str, value: &str, time| Ok(Content::Timed(key.into(), value.into(), time));
            let wanted = [timed("k", "v", Some(1_800_000_000_000)), timed("l", "w", None)];
            assert_eq!(rows[usize::from(described)..], wanted, "{text}");
            assert_eq!(end, Ok(()), "{text}");
            let (_, end) = read(&text.replace("1800000000000", "1800000000001"));
            assert!(end.is_err_and(|why| why.contains("damaged")), "{text}");
            let (rows, end) = read(&text.replace("1800000000000", "soon"));
            assert!(rows.iter().any(Result::is_err) && end.is_err(), "{text}");
        }
    }

    #[test]
    fn changed_keyspace_lines_are_damage_and_their_pairs_are_bad() {
        for json in [false, true] {
            let text = dump(Form { encoding: Encoding::Text, json });
            let changes = [
                ("\"name\":\"b\"", "\"name\":\"c\""),
                ("leveled", "tiered"),
                ("reverse", "bytewise"),
            ];
            for (from, to) in changes {
                let (_, end) = read(&text.replacen(from, to, 1));
                assert!(end.unwrap_err().contains("damaged"), "{from}");
            }
            // No pair may go to the keyspace before a bad line.
            let (rows, end) = read(&text.replace("\"name\":\"b\"", "\"name\":7"));
            assert_eq!(rows[1], pair("keyspace {", "a"));
            assert!(rows[2].is_err() && rows[3].is_err() && end.is_err(), "{rows:?}");
        }
    }

    #[test]
    fn pairs_without_a_keyspace_line_are_bad_in_version_2() {
        for text in [
            "esker dump 2 text\na\t1\n",
            "{\"esker_dump\":2,\"encoding\":\"text\"}\n{\"key\":\"a\",\"value\":\"1\"}\n",
        ] {
            let (rows, _) = read(text);
            assert!(rows[0].as_ref().unwrap_err().contains("its keyspace"), "{rows:?}");
        }
        let (rows, _) = read("esker dump 1 text\nkeyspace {\t1\n");
        assert_eq!(rows, [pair("keyspace {", "1")]);
    }
}
