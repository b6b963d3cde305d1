//! What each crash model leaves of bytes, names and locks.

use super::*;

fn content(fs: &MemFs, path: &str) -> Option<Vec<u8>> {
    fs.read(Path::new(path), u64::MAX).ok()
}

#[test]
fn bytes_need_a_sync_and_names_a_sync_of_their_directory() {
    let fs = CrashFs::new();
    let (root, path) = (Path::new("/"), Path::new("/a"));
    let mut file = fs.create_new(path).unwrap();
    file.append(b"one").unwrap();
    file.sync().unwrap();
    file.append(b"two").unwrap();
    assert_eq!(fs.unsynced_bytes(), 3);
    let synced = |fs: &CrashFs| fs.crash_image(CrashModel::SyncedOnly);
    assert_eq!(content(&synced(&fs), "/a"), None);
    assert_eq!(content(&fs.crash_image(CrashModel::Everything), "/a"), Some(b"onetwo".to_vec()));
    fs.sync_dir(root).unwrap();
    assert_eq!(content(&synced(&fs), "/a"), Some(b"one".to_vec()));
    fs.rename(path, Path::new("/b")).unwrap();
    fs.hard_link(Path::new("/b"), Path::new("/c")).unwrap();
    assert_eq!(content(&synced(&fs), "/a"), Some(b"one".to_vec()));
    fs.sync_dir(root).unwrap();
    let image = synced(&fs);
    assert_eq!(content(&image, "/a"), None);
    assert_eq!(content(&image, "/b"), Some(b"one".to_vec()));
    assert_eq!(content(&image, "/c"), Some(b"one".to_vec()));
}

#[test]
fn a_directory_that_was_not_synced_takes_its_files_with_it() {
    let fs = CrashFs::new();
    let dir = Path::new("/d");
    fs.create_dir(dir).unwrap();
    let mut file = fs.create_new(&dir.join("f")).unwrap();
    file.append(b"x").unwrap();
    file.sync().unwrap();
    fs.sync_dir(dir).unwrap();
    assert_eq!(content(&fs.crash_image(CrashModel::SyncedOnly), "/d/f"), None);
    fs.sync_dir(Path::new("/")).unwrap();
    let image = fs.crash_image(CrashModel::SyncedOnly);
    assert_eq!(content(&image, "/d/f"), Some(b"x".to_vec()));
}

#[test]
fn a_prefix_is_a_prefix_and_scattered_sectors_are_old_new_or_zero() {
    let fs = CrashFs::new();
    let mut file = fs.create_new(Path::new("/a")).unwrap();
    file.append(&[1; 700]).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    for _ in 0..5 {
        file.append(&[2; 700]).unwrap();
    }
    let whole = content(&fs.crash_image(CrashModel::Everything), "/a").unwrap();
    let (mut lengths, mut holes) = (BTreeSet::new(), false);
    for seed in 0..200 {
        let prefix = content(&fs.crash_image(CrashModel::Prefix { seed }), "/a").unwrap();
        assert!(prefix.len() >= 700 && whole.starts_with(&prefix), "seed {seed}");
        lengths.insert(prefix.len());
        let some = content(&fs.crash_image(CrashModel::Scattered { seed }), "/a").unwrap();
        assert!(some[..700].iter().all(|b| *b == 1), "seed {seed}");
        assert!(some[700..].iter().all(|b| *b == 2 || *b == 0), "seed {seed}");
        holes |= some.contains(&0);
        let again = content(&fs.crash_image(CrashModel::Scattered { seed }), "/a").unwrap();
        assert_eq!(some, again, "a seed gives the same image each time");
    }
    assert!(lengths.len() > 20 && holes);
}

#[test]
fn a_rewritten_place_is_old_or_new() {
    let fs = CrashFs::new();
    let mut file = fs.create_new(Path::new("/a")).unwrap();
    file.append(&[1; 1024]).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    file.write_at(&[2; 512], 512).unwrap();
    file.set_len(2048).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let image = fs.crash_image(CrashModel::Scattered { seed });
        let bytes = content(&image, "/a").unwrap();
        assert_eq!(bytes[..512], [1; 512]);
        assert!(bytes[512..1024] == [1; 512] || bytes[512..1024] == [2; 512]);
        seen.insert((bytes[512], bytes.len()));
    }
    assert_eq!(seen.len(), 4);
    file.sync().unwrap();
    let bytes = content(&fs.crash_image(CrashModel::SyncedOnly), "/a").unwrap();
    assert_eq!((bytes.len(), bytes[512], bytes[2000]), (2048, 2, 0));
}

#[test]
fn a_lock_ends_with_its_process() {
    let fs = CrashFs::new();
    let path = Path::new("/LOCK");
    let held = fs.lock(path, "me").unwrap();
    assert_eq!(fs.lock(path, "you").err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(held);
    let held = fs.lock(path, "you").unwrap();
    fs.drop_locks();
    let _again = fs.lock(path, "them").unwrap();
    drop(held);
    assert!(fs.lock(path, "me").is_err(), "an old holder does not free a new one's lock");
}
