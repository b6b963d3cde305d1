//! The shell's answers, as text or as JSON lines.
//!
//! Invariants:
//! 1. Each command gets exactly one closing line: `OK`, a value, `NOT FOUND` or
//!    `ERROR kind: message`. The line is flushed.
//! 2. No value can be confused with `NOT FOUND` or an error.

use std::io::Write;

use serde_json::{Value, json};

use crate::bytes::{Encoding, Form};
use crate::failure::{Failure, print_note};

/// Writer of the answers.
pub struct Answers<W> {
    out: W,
    form: Form,
    line: Vec<u8>,
    first_error_code: u8,
}

impl<W: Write> Answers<W> {
    /// Creates a writer to `out`.
    pub fn new(out: W, form: Form) -> Answers<W> {
        Answers { out, form, line: Vec::new(), first_error_code: 0 }
    }

    /// Returns the encoding of bytes in the answers.
    pub fn encoding(&self) -> Encoding {
        self.form.encoding
    }

    /// Returns the exit code of the first error; 0 without errors.
    pub fn first_error_code(&self) -> u8 {
        self.first_error_code
    }

    /// Answers that the command succeeded.
    pub fn ok(&mut self) -> Result<(), Failure> {
        self.close("OK", || json!({ "ok": true }))
    }

    /// Answers that the key does not exist.
    pub fn not_found(&mut self) -> Result<(), Failure> {
        self.close("NOT FOUND", || json!({ "value": null }))
    }

    /// Answers with a number.
    pub fn number(&mut self, number: u64) -> Result<(), Failure> {
        self.close(&number.to_string(), || json!({ "count": number }))
    }

    /// Answers with a value, or with `NOT FOUND` for `None`.
    pub fn value(&mut self, value: Option<&[u8]>) -> Result<(), Failure> {
        let Some(value) = value else { return self.not_found() };
        if self.form.json {
            let value = self.form.to_json(value);
            return self.close("", || json!({ "value": value }));
        }
        self.line.clear();
        let answer = value == b"NOT FOUND" || value.starts_with(b"ERROR ");
        if answer && self.form.encoding == Encoding::Text {
            let _ = write!(self.line, "\\x{:02x}", value[0]);
            self.form.encoding.write(&value[1..], &mut self.line);
        } else {
            self.form.encoding.write(value, &mut self.line);
        }
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        Ok(self.out.flush()?)
    }

    /// Writes one pair of a scan, in the form accepted by `put`. [`Answers::ok`] closes the scan.
    pub fn pair(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.line.clear();
        if self.form.json {
            let pair = json!({ "key": self.form.to_json(key), "value": self.form.to_json(value) });
            let _ = write!(self.line, "{pair}");
        } else {
            self.form.encoding.write_word(key, &mut self.line);
            self.line.push(b' ');
            // A value that begins with a quote would be read as a quoted word.
            if value.first() == Some(&b'"') && self.form.encoding == Encoding::Text {
                self.line.extend_from_slice(b"\\x22");
                self.form.encoding.write(&value[1..], &mut self.line);
            } else {
                self.form.encoding.write(value, &mut self.line);
            }
        }
        self.line.push(b'\n');
        Ok(self.out.write_all(&self.line)?)
    }

    /// Flushes the answers, then prints a note on stderr.
    pub fn note(&mut self, line: &str) -> Result<(), Failure> {
        self.out.flush()?;
        print_note(self.form.json, line);
        Ok(())
    }

    /// Writes informational lines, or an object. [`Answers::ok`] closes them.
    pub fn lines(&mut self, text: &str, json: impl FnOnce() -> Value) -> Result<(), Failure> {
        let text = if self.form.json { json().to_string() } else { text.trim_end().to_string() };
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Answers with an error; the session continues.
    pub fn error(&mut self, failure: &Failure) -> Result<(), Failure> {
        if self.first_error_code == 0 {
            self.first_error_code = failure.code();
        }
        let message = failure.message().replace(['\n', '\r'], " ");
        self.close(&format!("ERROR {}: {message}", failure.kind()), || failure.to_json())
    }

    fn close(&mut self, text: &str, json: impl FnOnce() -> Value) -> Result<(), Failure> {
        if self.form.json {
            writeln!(self.out, "{}", json())?;
        } else {
            writeln!(self.out, "{text}")?;
        }
        Ok(self.out.flush()?)
    }
}
