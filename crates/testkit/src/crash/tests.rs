//! Effects of each crash model on bytes, names and locks.

use super::*;

fn content(fs: &MemFs, path: &str) -> Option<Vec<u8>> {
    fs.read(Path::new(path), u64::MAX).ok()
}

#[test]
fn bytes_need_file_sync_and_names_need_directory_sync() {
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
fn unsynced_directory_loses_its_files() {
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
fn prefix_model_keeps_prefix_and_sector_model_keeps_old_new_or_zero() {
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
fn overwritten_bytes_are_old_or_new() {
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
fn lock_is_released_when_process_ends() {
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

/// Returns whether the file is at `/a/f` and at `/b/f`, under every model and 200 seeds.
fn places(fs: &CrashFs) -> BTreeSet<(bool, bool)> {
    let mut seen = BTreeSet::new();
    for model in (0..200).flat_map(CrashModel::all) {
        let image = fs.crash_image(model);
        let at = |path| match content(&image, path) {
            Some(bytes) => {
                assert_eq!(bytes, b"moved", "{model:?}");
                true
            }
            None => false,
        };
        seen.insert((at("/a/f"), at("/b/f")));
    }
    seen
}

const OLD: (bool, bool) = (true, false);
const NEW: (bool, bool) = (false, true);
const BOTH: (bool, bool) = (true, true);

/// Returns a disk with two directories and the durable file `/a/f`.
fn two_dirs() -> Arc<CrashFs> {
    let fs = CrashFs::new();
    for dir in ["/a", "/b"] {
        fs.create_dir(Path::new(dir)).unwrap();
    }
    fs.create_new(Path::new("/a/f")).unwrap().append(b"moved").unwrap();
    fs.sync_everything();
    fs
}

fn rename(fs: &CrashFs, from: &str, to: &str) {
    fs.rename(Path::new(from), Path::new(to)).unwrap();
}

fn sync_dirs(fs: &CrashFs, dirs: &[&str]) {
    dirs.iter().for_each(|dir| fs.sync_dir(Path::new(dir)).unwrap());
}

#[test]
fn file_renamed_across_directories_has_old_new_or_both_names() {
    let fs = two_dirs();
    rename(&fs, "/a/f", "/b/f");
    assert!(!fs.exists(Path::new("/a/f")).unwrap() && fs.exists(Path::new("/b/f")).unwrap());
    assert_eq!(places(&fs), [OLD, NEW, BOTH].into(), "nothing synced");
    sync_dirs(&fs, &["/b"]);
    assert_eq!(places(&fs), [NEW, BOTH].into(), "the new name synced");
    sync_dirs(&fs, &["/a"]);
    assert_eq!(places(&fs), [NEW].into(), "both synced");
    // A sync of the old name's loss makes the new name durable too.
    let fs = two_dirs();
    rename(&fs, "/a/f", "/b/f");
    sync_dirs(&fs, &["/a"]);
    assert_eq!(places(&fs), [NEW].into(), "the old name's loss synced");
}

#[test]
fn directory_sync_makes_only_its_own_names_durable() {
    let fs = two_dirs();
    rename(&fs, "/a/f", "/b/f");
    fs.create_new(Path::new("/b/other")).unwrap();
    fs.create_new(Path::new("/a/other")).unwrap();
    sync_dirs(&fs, &["/a"]);
    let image = fs.crash_image(CrashModel::SyncedOnly);
    assert!(content(&image, "/b/f").is_some() && content(&image, "/a/other").is_some());
    assert!(content(&image, "/b/other").is_none());
}

#[test]
fn file_renamed_and_back_always_has_a_name() {
    let fs = two_dirs();
    fs.create_dir(Path::new("/c")).unwrap();
    fs.sync_everything();
    rename(&fs, "/a/f", "/c/f");
    rename(&fs, "/c/f", "/b/f");
    let in_c = |fs: &CrashFs, model| content(&fs.crash_image(model), "/c/f").is_some();
    let nowhere = |fs: &CrashFs| {
        (0..500).flat_map(CrashModel::all).find(|model| {
            let image = fs.crash_image(*model);
            ["/a/f", "/b/f", "/c/f"].iter().all(|path| content(&image, path).is_none())
        })
    };
    assert_eq!(nowhere(&fs), None);
    assert!((0..100).any(|seed| in_c(&fs, CrashModel::StrictNames { seed })));
    rename(&fs, "/b/f", "/a/f");
    assert_eq!(nowhere(&fs), None);
    // A new file under the old name does not remove the moved file from the device.
    rename(&fs, "/a/f", "/b/f");
    fs.create_new(Path::new("/a/f")).unwrap().append(b"new").unwrap();
    for model in (0..500).flat_map(CrashModel::all) {
        let image = fs.crash_image(model);
        let all = ["/a/f", "/b/f", "/c/f"].map(|path| content(&image, path));
        assert!(all.contains(&Some(b"moved".to_vec())), "{model:?}");
    }
    for dirs in [["/a", "/b"], ["/b", "/a"]] {
        sync_dirs(&fs, &dirs);
        let image = fs.crash_image(CrashModel::SyncedOnly);
        assert_eq!(content(&image, "/b/f"), Some(b"moved".to_vec()));
        assert!(content(&image, "/a/f").is_some());
    }
}

#[test]
fn removed_directory_may_return_without_moved_files() {
    let fs = two_dirs();
    rename(&fs, "/a/f", "/b/f");
    fs.remove_dir(Path::new("/a")).unwrap();
    assert!(!fs.exists(Path::new("/a")).unwrap());
    assert_eq!(places(&fs), [OLD, NEW, BOTH].into());
    sync_dirs(&fs, &["/"]);
    assert_eq!(places(&fs), [NEW].into());
    assert!(fs.crash_image(CrashModel::SyncedOnly).list(Path::new("/a")).is_err());
}

#[test]
fn rename_over_hard_link_of_same_file_does_nothing() {
    let fs = two_dirs();
    fs.hard_link(Path::new("/a/f"), Path::new("/b/f")).unwrap();
    rename(&fs, "/a/f", "/b/f");
    fs.sync_everything();
    assert_eq!(places(&fs), [BOTH].into());
}
