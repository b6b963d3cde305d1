//! Files as text: logs, manifests, tables, and the tree that the manifest describes.

use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::internals::{
    AddedFile, Current, Cursor, FileHeader, FileMeta, Kind, LogEnd, LogReader, Ops,
    RECORD_HEADER_BYTES, ReadConfig, RecordHeader, RecordKind, Table, TableInfo, TableSource,
    Version, VersionEdit, file_names, manifest,
};
use esker::{KeyOrder, Metrics};

use super::{DIR, Output, Session, error_line, output_of, word};

/// Returns `lines`, or one line that says that there are none.
pub fn or_none(lines: Vec<String>, none: &str) -> Vec<String> {
    if lines.is_empty() { vec![none.to_string()] } else { lines }
}

/// Formats a slice's key bounds; empty without bounds.
pub fn bounds(lo: Option<&[u8]>, hi: Option<&[u8]>) -> String {
    let (lo, hi) = (lo.map(word).unwrap_or_default(), hi.map(word).unwrap_or_default());
    if lo.is_empty() && hi.is_empty() { String::new() } else { format!(" only {lo}..{hi}") }
}

fn info_text(info: &TableInfo) -> String {
    let mut text =
        format!("{}..={}, entries {}", word(&info.smallest), word(&info.largest), info.entries);
    if info.deletes > 0 {
        text += &format!(", tombstones {}", info.deletes);
    }
    if info.range_deletes > 0 {
        text += &format!(", range tombstones {}", info.range_deletes);
    }
    text
}

fn operation(op: Option<esker::internals::Op<'_>>) -> String {
    match op {
        None => "invalid operation".to_string(),
        Some(op) => match op.kind {
            Kind::Put => format!("put {} {}", word(op.key), word(op.value)),
            Kind::Merge => format!("merge {} {}", word(op.key), word(op.value)),
            Kind::PutExpiring => format!("put-expiring {} {}", word(op.key), word(op.value)),
            Kind::PutSeparated => format!("put-separated {} {}", word(op.key), word(op.value)),
            Kind::Delete => format!("delete {}", word(op.key)),
            Kind::RangeDelete => format!("delete-range {} {}", word(op.key), word(op.value)),
        },
    }
}

/// Formats a log: header, beginning, records, end, and whole records behind a bad one.
fn log_lines(fs: &dyn Fs, path: &Path, number: u64) -> esker::Result<Vec<String>> {
    let bytes = fs.read(path, u64::MAX).unwrap_or_default();
    let mut lines = match FileHeader::decode(&bytes) {
        Some((_, Some(header))) => vec![format!("header: log {}", header.number)],
        Some((version, None)) => vec![format!("header: version {version}")],
        None => vec!["no header".to_string()],
    };
    let mut reader = match LogReader::open(fs, path, number) {
        Ok(reader) => reader,
        Err(error) => return Ok([lines, vec![error_line(&error)]].concat()),
    };
    match reader.start() {
        Some(start) => lines.push(format!(
            "40 begin: ordinal {}, sequence number {}, durable ordinal {}",
            start.first_ordinal, start.first_seqno, start.durable_ordinal
        )),
        None => lines.push("no beginning".to_string()),
    }
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                let ops: Vec<String> = Ops::new(record.payload).map(operation).collect();
                lines.push(format!(
                    "{} record {}, sequence number {}, durable {}: {}",
                    record.offset_bytes,
                    record.ordinal,
                    record.first_seqno,
                    record.durable_bytes,
                    ops.join("; ")
                ));
                continue;
            }
            Ok(None) => lines.extend(log_end(&reader, &bytes)),
            Err(error) => lines.push(error_line(&error)),
        }
        let behind = reader.at_bytes();
        if !reader.skip_bad()? {
            return Ok(lines);
        }
        lines.push(format!("whole again {} bytes later", reader.at_bytes() - behind));
    }
}

/// Formats a log's end.
fn log_end(reader: &LogReader, bytes: &[u8]) -> Vec<String> {
    let (at, len) = (reader.at_bytes() as usize, bytes.len());
    match reader.end() {
        Some(LogEnd::Closed) => vec![format!("{at} clean close")],
        Some(LogEnd::Continued { number }) => vec![format!("{at} continued in log {number}")],
        Some(LogEnd::Torn { offset_bytes, dropped_bytes }) => {
            vec![format!("{offset_bytes} torn: {dropped_bytes} bytes are left out")]
        }
        _ => {
            let rest = bytes.get(at..).unwrap_or_default();
            let marker = rest.get(..RECORD_HEADER_BYTES).and_then(RecordHeader::decode);
            let marker = marker.filter(|marker| marker.kind == RecordKind::Synced);
            let synced = marker.map(|m| format!("{at} sync marker: durable {}", m.durable_bytes));
            let after = rest.get(if marker.is_some() { RECORD_HEADER_BYTES } else { 0 }..);
            let zeros = after.unwrap_or_default();
            let end = match zeros.iter().all(|byte| *byte == 0) {
                _ if zeros.is_empty() => format!("{len} end of the file"),
                true => format!("{} zeros up to {len}", len - zeros.len()),
                false => format!("{} other bytes up to {len}", len - zeros.len()),
            };
            synced.into_iter().chain([end]).collect()
        }
    }
}

/// Formats an edit: its numbers, and one line for each slice and guard.
fn edit_lines(at: usize, edit: &VersionEdit) -> Vec<String> {
    let mut numbers: Vec<String> = edit.comparator.iter().map(|c| format!("order {c}")).collect();
    for (name, value) in [
        ("next file", edit.next_file),
        ("last sequence number", edit.last_seqno),
        ("first log", edit.min_wal),
        ("its ordinal", edit.min_wal_ordinal),
        ("newest log", edit.newest_wal),
        ("next age", edit.next_order),
    ] {
        numbers.extend(value.map(|value| format!("{name} {value}")));
    }
    numbers.extend(edit.closed_wal.map(|(log, len)| format!("log {log} closed at {len}")));
    let mut lines = vec![format!("edit {at}: {}", numbers.join(", "))];
    for slice in &edit.removed {
        let only = bounds(slice.lo.as_deref(), slice.hi.as_deref());
        lines.push(format!("  remove table {} from level {}{only}", slice.file, slice.level));
    }
    for slice in &edit.added {
        let only = bounds(slice.lo.as_deref(), slice.hi.as_deref());
        let place = format!("level {}, age {}{only}", slice.level, slice.order);
        lines.push(match &slice.file {
            AddedFile::New { number, info } => {
                format!("  add table {number} to {place}: {}", info_text(info))
            }
            AddedFile::Existing(number) => format!("  add existing table {number} to {place}"),
        });
    }
    let guards = |change: &str, bounds: &[(usize, Vec<u8>)]| {
        let line = |(level, key): &(usize, Vec<u8>)| {
            format!("  {change} guard {} of level {level}", word(key))
        };
        bounds.iter().map(line).collect::<Vec<_>>()
    };
    lines.extend(guards("remove", &edit.bounds_removed));
    lines.extend(guards("add", &edit.bounds_added));
    lines
}

impl Session {
    pub(super) fn dump(&self, name: &str, words: &[&str]) -> Output {
        match (name, words) {
            ("log", []) => self.dump_log("log"),
            ("log", [file]) => self.dump_log(file),
            ("table", [file]) => self.dump_table(file),
            ("tree", []) => output_of(self.version(), |version| tree_lines(&version)),
            ("manifest", []) => output_of(self.manifest(), |found| {
                let edits = found.edits.iter().enumerate();
                let mut lines = vec![format!("manifest {}", found.number)];
                lines.extend(edits.flat_map(|(at, edit)| edit_lines(at, edit)));
                lines.extend(found.torn.then(|| "torn tail".to_string()));
                lines
            }),
            ("current", []) => output_of(Current::read(&*self.disk, Path::new(DIR)), |slot| {
                vec![format!("manifest {}, switch {}", slot.manifest, slot.sequence)]
            }),
            ("files", []) => Ok(or_none(
                self.file_names()
                    .into_iter()
                    .map(|(name, len)| match name.ends_with(".wal") {
                        true => format!("{name}, {len} bytes"),
                        false => name,
                    })
                    .collect(),
                "no files",
            )),
            _ => Err("unknown form of the command".to_string()),
        }
    }

    fn dump_log(&self, file: &str) -> Output {
        let name = self.file_name(file)?;
        let number = file_names::parse_log(&name).ok_or("expected a log")?;
        let lines = log_lines(&*self.disk, &Path::new(DIR).join(&name), number);
        output_of(lines, |lines| [vec![name], lines].concat())
    }

    fn dump_table(&self, file: &str) -> Output {
        let name = self.file_name(file)?;
        let number = file_names::parse_table(&name).ok_or("expected a table")?;
        output_of(self.table_lines(&Path::new(DIR).join(&name), number), |lines| {
            [vec![name], lines].concat()
        })
    }

    fn table_lines(&self, path: &Path, number: u64) -> esker::Result<Vec<String>> {
        let identity = Table::identify(&*self.disk, path)?;
        let source = TableSource {
            fs: self.disk.clone(),
            path: path.to_path_buf(),
            file_number: number,
            table_id: identity.table_id,
            size_bytes: identity.size_bytes,
            ingested: None,
        };
        let config = ReadConfig::without_cache(KeyOrder::Bytewise);
        let table = Arc::new(Table::open(source, &config)?);
        let mut lines: Vec<String> = table
            .range_deletes()
            .iter()
            .map(|d| format!("@{} delete-range {} {}", d.seqno, word(d.start), word(d.end)))
            .collect();
        let mut cursor = table.cursor(false);
        cursor.seek_to_first()?;
        while cursor.valid() {
            let (key, seqno) = (word(cursor.key()), cursor.seqno());
            lines.push(match cursor.kind() {
                Kind::Put => format!("@{seqno} put {key} {}", word(cursor.value())),
                _ => format!("@{seqno} delete {key}"),
            });
            cursor.next()?;
        }
        Ok(lines)
    }

    /// Reads the manifest.
    fn manifest(&self) -> esker::Result<manifest::Manifest> {
        let dir = Path::new(DIR);
        let slot = Current::read(&*self.disk, dir)?;
        manifest::read(&*self.disk, dir, slot.manifest, slot.store_id, slot.manifest_bytes)
    }

    /// Builds the version that the manifest describes.
    pub(super) fn version(&self) -> esker::Result<Version> {
        let empty = Version::empty(KeyOrder::Bytewise);
        let make = |number, info: &TableInfo| FileMeta::new(number, info.clone(), None);
        self.manifest()?.edits.iter().try_fold(empty, |version, edit| version.after(edit, make))
    }

    /// Compares the metrics with the manifest.
    pub(super) fn check_levels(&self, metrics: &Metrics) -> Result<(), String> {
        let version = self.version().map_err(|error| error.to_string())?;
        for level in &metrics.levels {
            let guards = &version.levels[level.level].guards;
            let runs = guards.iter().map(|guard| guard.runs.len() as u64).max().unwrap_or(0);
            if (guards.len() as u64, runs) != (level.guards, level.runs_max) {
                return Err(format!("the metrics of level {} differ from `tree`", level.level));
            }
        }
        Ok(())
    }
}

/// Formats the guards, runs and slices of each level.
fn tree_lines(version: &Version) -> Vec<String> {
    let mut lines = Vec::new();
    let used = version.levels.iter().enumerate().filter(|(_, level)| !level.is_empty());
    for (number, level) in used {
        lines.push(format!("level {number}"));
        for guard in &level.guards {
            if level.guards.len() > 1 {
                let lo = guard.lo.as_deref().map_or("the beginning".to_string(), word);
                let empty = if guard.runs.is_empty() { ": empty" } else { "" };
                lines.push(format!("  guard from {lo}{empty}"));
            }
            for run in &guard.runs {
                for fragment in &run.fragments {
                    let only = bounds(fragment.lo.as_deref(), fragment.hi.as_deref());
                    let file = &fragment.file;
                    let info = info_text(&file.info);
                    lines.push(format!(
                        "    age {}: table {}{only}: {info}",
                        run.order, file.number
                    ));
                }
            }
        }
    }
    or_none(lines, "no tables")
}
