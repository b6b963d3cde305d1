//! The encrypted files beside plain ones, damage, and files in each other's place.

use super::*;
use crate::error::ErrorKind;
use crate::fs::MemFs;

fn dir() -> &'static Path {
    Path::new("/d")
}

fn master(byte: u8) -> MasterKey {
    MasterKey::from_bytes([byte; 32])
}

/// Returns files in memory and their encrypting view, with an encrypted directory.
fn encrypted() -> (Arc<MemFs>, Arc<dyn Fs>) {
    let inner = MemFs::new();
    inner.create_dir(dir()).unwrap();
    let fs = EncryptedFs::new(inner.clone(), master(1));
    fs.share_keys(None, dir()).unwrap();
    (inner, fs.pinned(dir()).unwrap().unwrap())
}

/// A reproducible generator of small numbers.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

fn content(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    fs.read(path, 1 << 24).unwrap()
}

#[test]
fn encrypted_files_behave_as_plain_ones() {
    for (name, seed) in [("000001.sst", 1), ("000002.wal", 2), ("CURRENT", 3), ("000003.sst", 4)] {
        let (_, fs) = encrypted();
        let plain = MemFs::new();
        plain.create_dir(dir()).unwrap();
        let path = dir().join(name);
        let mut files = [fs.create_new(&path).unwrap(), plain.create_new(&path).unwrap()];
        let (mut rng, mut len) = (Rng(seed), 0u64);
        for step in 0..150 {
            let longest = if step % 10 == 0 { 150_000 } else { 6_000 };
            let longest = if name == "CURRENT" { 100 } else { longest };
            let size = rng.below(longest) as usize;
            let bytes = rng.bytes(size);
            let at = rng.below(len + 1);
            match rng.below(6) {
                1 if !name.ends_with("wal") => {
                    files.iter_mut().for_each(|file| file.write_at(&bytes, at).unwrap());
                    len = len.max(at + bytes.len() as u64);
                }
                2 if name != "CURRENT" && step % 3 == 0 => {
                    files.iter_mut().for_each(|file| file.set_len(at).unwrap());
                    len = at;
                }
                3 => {
                    files.iter_mut().for_each(|file| file.sync().unwrap());
                    files = [fs.open_write(&path).unwrap(), plain.open_write(&path).unwrap()];
                }
                _ => {
                    files.iter_mut().for_each(|file| file.append(&bytes).unwrap());
                    len += bytes.len() as u64;
                }
            }
            files[0].sync().unwrap();
            let want = content(&*plain, &path);
            assert!(want == content(&*fs, &path), "{name}, step {step}");
            let open = fs.open_read(&path).unwrap();
            let from = rng.below(len + 1) as usize;
            let mut part = vec![0; rng.below((len - from as u64 + 1).min(9_000)) as usize];
            open.read_exact_at(&mut part, from as u64).unwrap();
            assert!(part == want[from..from + part.len()], "{name}, step {step}");
            let beyond = open.read_exact_at(&mut [0; 2], len - len.min(1));
            assert_eq!(beyond.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        let listed = fs.list(dir()).unwrap();
        let entry = listed.iter().find(|entry| entry.name == name).unwrap();
        assert!(entry.len_bytes == len || !name.ends_with("sst"), "{entry:?}, {len}");
    }
}

/// Writes a file of some pages or frames.
fn write_file(fs: &dyn Fs, path: &Path) {
    write_parts(fs, path, 800);
}

/// Writes a file of twelve parts.
fn write_parts(fs: &dyn Fs, path: &Path, part_bytes: usize) {
    let mut file = fs.create_new(path).unwrap();
    for part in 0..12u8 {
        file.append(&vec![part; part_bytes]).unwrap();
    }
    file.sync().unwrap();
}

/// Flips every `step`th byte of a file in turn. Returns the number of flips that gave other bytes without an
/// error; bytes that stand for what is not authentic do not count.
fn unnoticed_flips(inner: &MemFs, fs: &dyn Fs, path: &Path, step: usize) -> usize {
    let (sealed, want) = (content(inner, path), content(fs, path));
    let mut unnoticed = 0;
    for (at, byte) in sealed.iter().enumerate().step_by(step) {
        let mut file = inner.open_write(path).unwrap();
        file.write_at(&[byte ^ (1 << (at % 8))], at as u64).unwrap();
        match fs.read(path, 1 << 24) {
            Ok(found) => {
                let is_known = |(found, want): (&u8, &u8)| found == want || *found == FILLER;
                unnoticed += usize::from(!found.iter().zip(&want).all(is_known));
            }
            Err(error) => {
                let error = Error::io(path, "read", error);
                assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
                assert_eq!(error.path(), Some(path));
                assert!(error.offset_bytes().is_some_and(|offset| offset <= at as u64));
            }
        }
        file.write_at(&[*byte], at as u64).unwrap();
    }
    assert!(content(fs, path) == want);
    unnoticed
}

#[test]
fn no_flipped_byte_gives_other_content() {
    let (inner, fs) = encrypted();
    for name in ["000001.sst", "000001.wal", "manifest-000001"] {
        let path = dir().join(name);
        write_parts(&*fs, &path, 20);
        assert_eq!(unnoticed_flips(&inner, &*fs, &path, 1), 0, "{name}");
    }
    let path = dir().join("000002.sst");
    write_file(&*fs, &path);
    assert_eq!(unnoticed_flips(&inner, &*fs, &path, 31), 0, "several pages");
    // The same search finds each byte of a file that is not authenticated.
    let path = Path::new("/000001.sst");
    write_parts(&*inner, path, 20);
    assert_eq!(unnoticed_flips(&inner, &*inner, path, 1), 12 * 20);
}

#[test]
fn pages_and_files_in_another_place_and_cut_files_are_refused() {
    let (inner, fs) = encrypted();
    let paths = [dir().join("000001.sst"), dir().join("000002.sst")];
    paths.iter().for_each(|path| write_file(&*fs, path));
    let [first, second] = [content(&*inner, &paths[0]), content(&*inner, &paths[1])];
    let put = |path: &Path, bytes: &[u8]| {
        let mut file = inner.open_write(path).unwrap();
        file.set_len(0).unwrap();
        file.append(bytes).unwrap();
    };
    let refused = |path: &Path| {
        let error = Error::io(path, "read", fs.read(path, 1 << 24).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        error.to_string()
    };
    // Two whole pages of a file, exchanged: the second and the third were made longer for this.
    let mut longer = fs.create_new(&dir().join("000003.sst")).unwrap();
    longer.append(&[9; 20_000]).unwrap();
    longer.sync().unwrap();
    let third = dir().join("000003.sst");
    let mut pages = content(&*inner, &third);
    let (left, right) = pages.split_at_mut(8192);
    left[4096..].swap_with_slice(&mut right[..4096]);
    put(&third, &pages);
    assert!(refused(&third).contains("(at byte 4096)"));
    // A file cut at the end of a page, and one with a page of another file.
    put(&paths[0], &first[..8192]);
    refused(&paths[0]);
    let mixed = [&first[..4096], &second[4096..]].concat();
    put(&paths[0], &mixed);
    refused(&paths[0]);
    // Two files, exchanged.
    put(&paths[0], &second);
    assert!(refused(&paths[0]).contains("another name"));
    // A file in plain, and a file of another store.
    put(&paths[0], &[7; 5000]);
    assert!(refused(&paths[0]).contains("expected the header of an encrypted file"));
    let (others, other_fs) = encrypted();
    write_file(&*other_fs, &paths[0]);
    put(&paths[0], &content(&*others, &paths[0]));
    assert!(refused(&paths[0]).contains("data key"));
    put(&paths[0], &first);
    assert_eq!(content(&*fs, &paths[0]).len(), 9600);
}

#[test]
fn no_two_sealed_pages_share_a_nonce_and_nothing_is_written_in_plain() {
    let (inner, fs) = encrypted();
    let path = dir().join("000001.sst");
    let mut nonces = std::collections::BTreeSet::new();
    let mut file = fs.create_new(&path).unwrap();
    let marker = b"a marker that must not be seen";
    for round in 0..50 {
        file.append(marker).unwrap();
        file.sync().unwrap();
        if round % 7 == 0 {
            file = fs.open_write(&path).unwrap();
        }
        let bytes = content(&*inner, &path);
        assert!(nonces.insert(bytes[HEADER_BYTES..HEADER_BYTES + 12].to_vec()), "round {round}");
        assert!(!bytes.windows(9).any(|window| window == &marker[..9]));
    }
    // A directory without keys gets no file, and a file cannot be linked out of its own.
    inner.create_dir(Path::new("/plain")).unwrap();
    assert!(fs.create_new(Path::new("/plain/000001.sst")).is_err());
    assert!(!inner.exists(Path::new("/plain/000001.sst")).unwrap());
    assert!(fs.hard_link(&path, Path::new("/plain/000001.sst")).is_err());
    assert!(fs.hard_link(&path, &dir().join("000009.sst")).is_err());
    // A directory with the keys of the first one takes a link of the same name.
    inner.create_dir(Path::new("/copy")).unwrap();
    fs.share_keys(Some(dir()), Path::new("/copy")).unwrap();
    fs.hard_link(&path, Path::new("/copy/000001.sst")).unwrap();
    assert_eq!(content(&*fs, Path::new("/copy/000001.sst")), content(&*fs, &path));
}

#[test]
fn a_torn_frame_leaves_the_frames_before_and_a_reader_follows_the_writer() {
    let (inner, fs) = encrypted();
    let path = dir().join("000001.wal");
    let mut file = fs.create_new(&path).unwrap();
    file.append(b"one").unwrap();
    file.write_behind_end(b"mark").unwrap();
    let reader = fs.open_read(&path).unwrap();
    assert_eq!(content(&*fs, &path), b"onemark");
    file.append(b"second").unwrap();
    let mut both = [0; 9];
    reader.read_exact_at(&mut both, 0).unwrap();
    assert_eq!(&both, b"onesecond");
    let whole = content(&*inner, &path).len() as u64;
    file.append(&[b'x'; 300]).unwrap();
    inner.open_write(&path).unwrap().set_len(whole + 200).unwrap();
    let torn = content(&*fs, &path);
    assert!(torn.starts_with(b"onesecond") && torn[9..].iter().all(|byte| *byte == FILLER));
    // The next writer cuts the torn end off and goes on.
    let mut file = fs.open_write(&path).unwrap();
    file.set_len(9).unwrap();
    file.append(b"more").unwrap();
    assert_eq!(content(&*fs, &path), b"onesecondmore");
    // A cut within a frame.
    file.set_len(6).unwrap();
    file.append(b"!").unwrap();
    assert_eq!(content(&*fs, &path), b"onesec!");
}

#[test]
fn any_bytes_in_the_place_of_a_file_are_content_filler_or_an_error() {
    let (inner, fs) = encrypted();
    let mut rng = Rng(11);
    let active = KeyRing::load(&*inner, dir(), &master(1)).unwrap().unwrap();
    let active = active.active().map(|key| key.id);
    for name in ["000001.sst", "000001.wal", "CURRENT", "KEYS"] {
        let path = dir().join(name);
        if name != "KEYS" {
            write_file(&*fs, &path);
        }
        let sealed = content(&*inner, &path);
        for case in 0..400 {
            let mut bytes = sealed.clone();
            for _ in 0..=rng.below(4) {
                let len = bytes.len() as u64;
                let (from, to) = (rng.below(len + 1) as usize, rng.below(len + 1) as usize);
                let piece: Vec<u8> = bytes[from.min(to)..from.max(to)].to_vec();
                match rng.below(5) {
                    0 => bytes.truncate(to),
                    1 => drop(bytes.splice(to..to, piece)),
                    2 => drop(bytes.drain(from.min(to)..from.max(to))),
                    3 => drop(bytes.splice(to..to, rng.bytes(from % 200))),
                    _ => bytes.iter_mut().skip(to).take(8).for_each(|byte| *byte = 0xFF),
                }
            }
            let mut file = inner.open_write(&path).unwrap();
            file.set_len(0).unwrap();
            file.append(&bytes).unwrap();
            let Ok(found) = fs.read(&path, 1 << 24) else { continue };
            assert!(found.len() <= bytes.len(), "{name}, case {case}: longer than the file");
            if name == "KEYS" {
                let ring = KeyRing::load(&*inner, dir(), &master(1)).ok().flatten();
                let is_same = ring.is_none_or(|ring| ring.active().map(|key| key.id) == active);
                assert!(is_same, "case {case}");
                continue;
            }
            // Each part of the content has its number everywhere, so none can move unnoticed.
            for (at, byte) in found.iter().enumerate() {
                let is_known = *byte == FILLER || *byte == 0 || usize::from(*byte) == at / 800;
                assert!(is_known, "{name}, case {case}, byte {at}");
            }
        }
    }
}
