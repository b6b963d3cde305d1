//! Tests of the interactive shell: a pseudo-terminal with the session in its foreground.
//!
//! Invariant: only [`Terminal::expect`] reads from the terminal, so that a command with much output
//! blocks at the point chosen by the test.

mod common;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use common::TestDir;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Time limit against hangs.
const PATIENCE: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// A session at a terminal.
struct Terminal {
    keyboard: File,
    seen: Vec<u8>,
    child: Child,
}

impl Terminal {
    /// Starts `esker shell db` in `dir` and waits for its prompt. `ESKER_HISTORY` is set to
    /// `history`, if given.
    fn begin(dir: &TestDir, history: Option<&str>) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = || OpenOptions::new().read(true).write(true).open(&name).unwrap();
        // util-linux's setsid makes the terminal the controlling terminal, so that Ctrl-C sends a
        // signal.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(assert_cmd::cargo::cargo_bin!("esker"));
        command.args(["shell", "db"]).current_dir(dir.path("."));
        command.env("TERM", "xterm").env("XDG_STATE_HOME", dir.path("state"));
        match history {
            Some(value) => command.env("ESKER_HISTORY", value),
            None => command.env_remove("ESKER_HISTORY"),
        };
        command.stdin(theirs()).stdout(theirs()).stderr(theirs());
        let child = command.spawn().expect("setsid of util-linux");
        let mut terminal = Terminal { keyboard: File::from(ours), seen: Vec::new(), child };
        terminal.expect("esker> ");
        terminal
    }

    fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until `text` appears; returns the output before it.
    fn expect(&mut self, text: &str) -> String {
        loop {
            let at = self.seen.windows(text.len()).position(|part| part == text.as_bytes());
            if let Some(at) = at {
                let rest = self.seen.split_off(at + text.len());
                let shown = std::mem::replace(&mut self.seen, rest);
                return String::from_utf8_lossy(&shown).into_owned();
            }
            let shown = || String::from_utf8_lossy(&self.seen).into_owned();
            let mut fds = [PollFd::new(&self.keyboard, PollFlags::IN)];
            let ready = poll(&mut fds, Some(&PATIENCE)).unwrap();
            assert!(ready > 0, "{text:?} was not shown, but {:?}", shown());
            let mut part = [0; 4096];
            let read = self.keyboard.read(&mut part).unwrap_or(0);
            assert!(read > 0, "the session ended without {text:?}, after {:?}", shown());
            self.seen.extend_from_slice(&part[..read]);
        }
    }

    /// Types a line, expects `answer`, and waits for `prompt`. Returns the output before the
    /// answer.
    fn line(&mut self, line: &str, answer: &str, prompt: &str) -> String {
        self.send(&format!("{line}\r"));
        let shown = self.expect(&format!("{answer}\r\n"));
        self.expect(prompt);
        shown
    }

    /// Ends the session, which must exit successfully.
    fn end(mut self) {
        self.send("quit\r");
        self.expect("quit");
        while self.keyboard.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
        assert!(self.child.wait().unwrap().success());
    }
}

/// Creates a store of `count` pairs with values of `size_bytes`.
fn filled(count: usize, size_bytes: usize) -> TestDir {
    let dir = TestDir::new();
    let value = "v".repeat(size_bytes);
    let rows: String = (0..count).map(|number| format!("key{number:06},{value}\n")).collect();
    dir.file("rows.csv", rows);
    dir.ok(&["load", "db", "rows.csv", "--no-header"]);
    dir
}

#[test]
fn ctrl_c_stops_scan_and_keeps_session_and_batch() {
    let dir = filled(20_000, 1_000);
    let mut terminal = Terminal::begin(&dir, Some("off"));
    terminal.line("batch", "OK", "batch> ");
    terminal.line("put zz 1", "OK", "batch> ");
    terminal.line("limit off", "OK", "batch> ");
    for command in ["scan", "rscan", "prefix key"] {
        terminal.send(&format!("{command}\r"));
        terminal.expect("vvvv\r\nkey");
        // The session blocks on its output, since nothing reads it: Ctrl-C arrives in the middle of
        // the scan.
        terminal.send("\x03");
        std::thread::sleep(Duration::from_millis(200));
        let shown = terminal.expect("ERROR interrupted: the command was interrupted\r\n");
        assert!(shown.matches("\r\nkey").count() < 19_000, "{command} was not stopped");
        terminal.expect("batch> ");
    }
    terminal.line("commit", "OK", "esker> ");
    terminal.line("get zz", "1", "esker> ");
    terminal.line("count", "20001", "esker> ");
    terminal.line("compact", "OK", "esker> ");
    // At the prompt, Ctrl-C clears the line.
    terminal.send("nonsense\x03");
    terminal.expect("esker> ");
    terminal.line("flush", "OK", "esker> ");
    terminal.end();
    assert_eq!(dir.ok(&["get", "db", "zz"]), "1\n");
}

#[test]
fn interactive_scan_shows_100_pairs_and_next_command() {
    let dir = filled(150, 1);
    let mut terminal = Terminal::begin(&dir, Some("off"));
    let shown = terminal.line("scan", "`scan key000100` continues\r\nOK", "esker> ");
    assert_eq!(shown.matches(" v\r\n").count(), 100, "{shown}");
    assert!(shown.contains("-- 100 pairs shown, more follow; `limit off` shows all"), "{shown}");
    let shown = terminal.line("scan key000100", "v\r\nOK", "esker> ");
    assert_eq!(shown.matches(" v\r\n").count(), 50, "{shown}");
    terminal.line("limit 10", "OK", "esker> ");
    terminal.line("prefix key00012", "v\r\nOK", "esker> ");
    let shown =
        terminal.line("prefix key0001", "`scan key000110 key0002` continues\r\nOK", "esker> ");
    assert_eq!(shown.matches(" v\r\n").count(), 10, "{shown}");
    terminal.line("rscan", "`rscan \"\" key000140` continues\r\nOK", "esker> ");
    let shown = terminal.line("rscan \"\" key000140", "OK", "esker> ");
    assert!(shown.contains("\r\nkey000139 v\r\n"), "{shown}");
    terminal.line("limit off", "OK", "esker> ");
    let shown = terminal.line("scan", "v\r\nOK", "esker> ");
    assert_eq!(shown.matches(" v\r\n").count(), 150, "{shown}");
    terminal.end();
    // A script prints all pairs, since another program may drive it.
    let ran = dir.run_with_input(&["shell", "db"], b"scan\nlimit\nlimit 2\nscan\nlimit 1x\n");
    assert_eq!(ran.out.lines().count(), 150 + 1 + 1 + 1 + 3 + 1, "{}", ran.out);
    assert!(ran.out.contains("OK\noff\nOK\n") && ran.out.contains("is not a count"), "{}", ran.out);
    assert!(ran.err.contains("-- 2 pairs shown, more follow"), "{}", ran.err);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn history_of_earlier_sessions_is_loaded() {
    let dir = filled(1, 1);
    let file = dir.path("state/esker/history");
    let mut terminal = Terminal::begin(&dir, None);
    terminal.line("put kept 1", "OK", "esker> ");
    terminal.line(" put secret 1", "OK", "esker> ");
    // The line is saved at once, not at the end.
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains("put kept 1") && !kept.contains("secret"), "{kept}");
    assert_eq!(mode(&file), 0o600);
    terminal.end();
    let mut terminal = Terminal::begin(&dir, None);
    // Up twice: the line before `quit` is the saved line.
    terminal.send("\x1b[A\x1b[A");
    terminal.expect("put kept 1");
    terminal.send("\x1b[B\x15");
    terminal.end();
}

#[test]
fn history_is_not_saved_if_disabled_or_without_terminal() {
    let dir = filled(1, 1);
    let mut terminal = Terminal::begin(&dir, Some("off"));
    terminal.line("put a 1", "OK", "esker> ");
    terminal.end();
    assert_eq!(dir.run_with_input(&["shell", "db"], b"put b 1\n").out, "OK\n");
    assert!(!dir.path("state").exists() && !dir.path("off").exists());
    let mut terminal = Terminal::begin(&dir, Some("mine"));
    terminal.line("put c 1", "OK", "esker> ");
    terminal.end();
    assert!(std::fs::read_to_string(dir.path("mine")).unwrap().contains("put c 1"));
    assert_eq!(mode(&dir.path("mine")), 0o600);
}

#[test]
fn unwritable_history_is_reported_and_shell_works() {
    let dir = filled(1, 1);
    let mut terminal = Terminal::begin(&dir, Some("rows.csv/history"));
    terminal.line("get key000000", "v", "esker> ");
    terminal.end();
}

#[test]
fn tab_completes_commands_options_and_keys() {
    let dir = filled(1, 1);
    let mut terminal = Terminal::begin(&dir, Some("off"));
    terminal.send("deleter\t");
    terminal.expect("deleterange ");
    terminal.send("k1 k2\r");
    terminal.expect("OK\r\n");
    terminal.expect("esker> ");
    terminal.send("set wal_\tw\t\r");
    terminal.expect("OK\r\n");
    terminal.expect("esker> ");
    terminal.line("option wal_io", "write", "esker> ");
    terminal.send("get k\t\r");
    terminal.expect("\r\nv\r\n");
    terminal.end();
}

#[test]
fn prompt_shows_the_keyspace_in_use_and_tab_completes_its_keys() {
    let dir = filled(1, 1);
    let mut terminal = Terminal::begin(&dir, Some("off"));
    terminal.line("keyspace create users", "OK", "esker> ");
    terminal.send("use us\t\r");
    terminal.expect("OK\r\n");
    terminal.expect("esker users> ");
    terminal.line("put ada 1815", "OK", "esker users> ");
    terminal.line("batch", "OK", "batch users> ");
    terminal.line("abort", "OK", "esker users> ");
    terminal.send("get a\t\r");
    terminal.expect("\r\n1815\r\n");
    terminal.expect("esker users> ");
    terminal.line("use default", "OK", "esker> ");
    terminal.end();
}
