//! The short form of `make kills` and `make soak`: a few dozen processes die, and an oracle outside
//! judges the remaining stores.

use std::process::Command;

fn torture(arguments: &[&str]) {
    let dir = std::env::temp_dir().join(format!("esker-{}-{}", arguments[0], std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_torture"));
    let ran = command.args(arguments).arg("--dir").arg(&dir).output().unwrap();
    let (row, stderr_text) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && row.contains("| 0 | 0 | 0 |"), "{row}\n{stderr_text}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn killed_stores_keep_acknowledged_writes() {
    torture(&["kills", "--count", "80", "--seed", "7"]);
}

#[test]
fn soak_keeps_acknowledged_writes() {
    torture(&["soak", "--minutes", "0.05", "--seed", "70"]);
}
