//! Compares the file system in memory with the operating system's: the same calls must give the
//! same answers, so test results from one hold for the other.

use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::MemFs;
use esker::fs::OsFs;

/// The answers of one file system, call by call.
struct Story {
    fs: Arc<dyn Fs>,
    root: PathBuf,
    lines: Vec<String>,
}

impl Story {
    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn note<T>(&mut self, call: &str, result: Result<T>, show: impl Fn(T) -> String) -> &mut Story {
        let answer = match result {
            Ok(value) => show(value),
            Err(error) => format!("{:?}", error.kind()),
        };
        self.lines.push(format!("{call}: {answer}"));
        self
    }

    fn write(&mut self, name: &str, bytes: &[u8]) {
        let made = self.fs.create_new(&self.at(name)).and_then(|mut file| {
            file.append(bytes)?;
            file.write_at(b"#", 1)?;
            file.sync()
        });
        self.note(&format!("create {name}"), made, |()| "made".into());
    }

    fn read(&mut self, name: &str) {
        let path = self.at(name);
        let read = self.fs.read(&path, 6);
        self.note(&format!("read {name}"), read, |bytes| bytes.escape_ascii().to_string());
        let part = self.fs.open_read(&path).and_then(|file| {
            let mut buf = [0; 2];
            file.read_exact_at(&mut buf, 1)?;
            Ok((buf, file.len_bytes()?))
        });
        self.note(&format!("part of {name}"), part, |part| format!("{part:?}"));
        let past = self.fs.open_read(&path).and_then(|file| file.read_exact_at(&mut [0; 2], 5));
        self.note(&format!("past the end of {name}"), past, |()| "read".into());
    }

    fn list(&mut self, name: &str) {
        let listed = self.fs.list(&self.at(name));
        self.note(&format!("list {name}"), listed, |mut entries| {
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            let lengths = |e: &esker::fs::DirEntry| if e.is_file { e.len_bytes } else { 0 };
            entries.iter().map(|e| format!("{} {} {}; ", e.name, e.is_file, lengths(e))).collect()
        });
    }
}

fn story(fs: Arc<dyn Fs>, root: &Path) -> Vec<String> {
    let mut s = Story { fs: fs.clone(), root: root.to_path_buf(), lines: Vec::new() };
    let done = |()| "done".to_string();
    for name in ["d", "d", "no/where"] {
        let made = fs.create_dir(&s.at(name));
        s.note("create_dir", made, done);
    }
    s.write("f", b"hello!");
    s.write("f", b"again");
    s.write("no/f", b"nowhere");
    for name in ["f", "no/f"] {
        s.read(name);
    }
    let too_long = fs.read(&s.at("f"), 5);
    s.note("read at most 5", too_long, |_| "read".into());
    let shorter = fs.open_write(&s.at("f")).and_then(|mut file| file.set_len(3));
    s.note("set_len", shorter, done);
    s.read("f");
    let missing = fs.open_write(&s.at("no")).map(|_| ());
    s.note("open_write", missing, done);
    for (from, to) in [("f", "g"), ("f", "g"), ("g", "d/g"), ("d/g", "no/g"), ("d/g", "g")] {
        let renamed = fs.rename(&s.at(from), &s.at(to));
        s.note("rename", renamed, done);
    }
    for (from, to) in [("g", "h"), ("g", "h"), ("f", "i"), ("g", "no/g")] {
        let linked = fs.hard_link(&s.at(from), &s.at(to));
        s.note("hard_link", linked, done);
    }
    for name in ["", "d", "f", "no"] {
        s.list(name);
        let exists = fs.exists(&s.at(name));
        s.note("exists", exists, |found| found.to_string());
        let synced = fs.sync_dir(&s.at(name)).map_err(|_| ErrorKind::Other.into());
        s.note("sync_dir", synced, done);
    }
    let file_as_dir = fs.create_dir(&s.at("g"));
    s.note("create_dir of a file", file_as_dir, done);
    let locked = fs.lock(&s.at("d/LOCK"), "me");
    let again = fs.lock(&s.at("d/LOCK"), "you").map(|_| ());
    s.note("lock twice", again, done);
    s.note("lock", locked.map(drop), done);
    let again = fs.lock(&s.at("d/LOCK"), "us").map(drop);
    s.note("lock once more", again, done);
    s.read("d/LOCK");
    let nowhere = fs.lock(&s.at("no/LOCK"), "me").map(drop);
    s.note("lock nowhere", nowhere, done);
    for name in ["d", "h", "h", "no"] {
        let kind = |e: std::io::Error| match e.kind() {
            // The system returns `PermissionDenied` or `IsADirectory`, depending on its
            // conformance.
            ErrorKind::PermissionDenied => ErrorKind::IsADirectory.into(),
            _ => e,
        };
        let removed = fs.remove(&s.at(name)).map_err(kind);
        s.note(&format!("remove {name}"), removed, done);
    }
    for name in ["d", "d/LOCK", "d", "d", "g"] {
        let removed =
            if name == "d/LOCK" { fs.remove(&s.at(name)) } else { fs.remove_dir(&s.at(name)) };
        s.note(&format!("remove_dir {name}"), removed, done);
    }
    s.list("");
    s.lines
}

#[test]
fn memory_file_system_matches_operating_system() {
    let dir = tempfile::tempdir().unwrap();
    let memory = MemFs::new();
    memory.create_dir(Path::new("/root")).unwrap();
    let (memory, system) = (story(memory, Path::new("/root")), story(OsFs::shared(), dir.path()));
    for (memory, system) in memory.iter().zip(&system) {
        assert_eq!(memory, system, "in memory, and by the system");
    }
    assert_eq!(memory.len(), system.len());
    assert!(memory.contains(&"read f: h#llo!".to_string()), "{memory:#?}");
}
