//! Encrypted stores from the command line: keys, refusals, copies and a new key.

mod common;

use common::TestDir;

fn with_keys() -> TestDir {
    let dir = TestDir::new();
    dir.file("key", "5a".repeat(32));
    dir.file("other", "0b".repeat(32));
    dir
}

#[test]
fn encrypted_store_is_used_with_its_key_only() {
    let dir = with_keys();
    let with_key = ["--key-file", "key"];
    let ok = |args: &[&str]| dir.ok(&[&with_key, args].concat());
    ok(&["put", "db", "a", "a secret value"]);
    // The flag may also follow the command.
    assert_eq!(dir.ok(&["get", "db", "a", "--key-file=key"]), "a secret value\n");
    dir.fails(&["get", "db", "a"], 2, "the store is encrypted");
    dir.fails(&["get", "db", "a", "--key-file", "other"], 2, "does not open this store");
    dir.fails(&["get", "db", "a", "--key-file", "none"], 2, "cannot read the key file none");
    dir.ok(&["put", "plain", "a", "1"]);
    dir.fails(&["get", "plain", "a", "--key-file", "key"], 2, "the store is not encrypted");
    dir.fails(&["options", "--key-file", "key"], 2, "--key-file has no effect");
    ok(&["verify", "db"]);
    ok(&["backup", "db", "backups"]);
    assert!(ok(&["backup", "list", "backups"]).starts_with("1\t"));
    ok(&["restore", "backups", "restored"]);
    ok(&["checkpoint", "db", "copy"]);
    for copy in ["restored", "copy"] {
        assert!(ok(&["dump", copy]).contains("a secret value"), "{copy}");
        dir.fails(&["dump", copy], 2, "the store is encrypted");
    }
    ok(&["repair", "copy"]);
    assert_eq!(ok(&["get", "copy", "a"]), "a secret value\n");
    assert!(ok(&["doctor", "db"]).contains("db"));
    for entry in std::fs::read_dir(dir.path("db")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"secret"), "{}", path.display());
    }
    dir.ok(&["destroy", "db", "--yes"]);
}

#[test]
fn rekey_replaces_the_key() {
    let dir = with_keys();
    dir.ok(&["put", "db", "a", "1", "--key-file", "key"]);
    let needed = "the present key is needed";
    dir.fails(&["rekey", "db", "--new-key-file", "other"], 2, needed);
    let made = dir.ok(&["rekey", "db", "--key-file", "key", "--new-key-file", "other"]);
    assert!(made.starts_with("rekey: "), "{made}");
    dir.fails(&["get", "db", "a", "--key-file", "key"], 2, "does not open this store");
    assert_eq!(dir.ok(&["get", "db", "a", "--key-file", "other"]), "1\n");
    dir.ok(&["compact", "db", "--key-file", "other"]);
    assert_eq!(dir.ok(&["get", "db", "a", "--key-file", "other"]), "1\n");
}
