//! Tests of the mapped file alone: appended bytes are in the file at once, even if pages become
//! unavailable.
#![allow(unsafe_code)]

use super::*;

fn mapped(path: &std::path::Path) -> MappedFile {
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(path).unwrap();
    MappedFile::new(file).ok().unwrap()
}

#[test]
fn appends_of_every_size_are_visible_in_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut file = mapped(&path);
    let mut want = Vec::new();
    let window = WINDOW_BYTES as usize;
    for (step, len) in [1, 100, window, window - 101, 3 * window + 5, 0, 7].iter().enumerate() {
        let bytes: Vec<u8> = (0..*len).map(|i| (i * 31 + step) as u8 | 1).collect();
        file.append(&bytes).unwrap();
        want.extend_from_slice(&bytes);
        let read = std::fs::read(&path).unwrap();
        assert_eq!(read[..want.len()], want);
        assert!(read[want.len()..].iter().all(|b| *b == 0));
    }
    // The first window is not filled with zeros. The second is not either, unless the file reaches
    // the window before the preparing thread.
    assert!([WINDOW_BYTES, 2 * WINDOW_BYTES].contains(&file.mapped_bytes()));
    file.sync().unwrap();
    file.set_len(50).unwrap();
    file.append(b"after the cut").unwrap();
    want.truncate(50);
    want.extend_from_slice(b"after the cut");
    assert_eq!(std::fs::read(&path).unwrap()[..want.len()], want);
    file.write_at(b"X", 0).unwrap();
    want[0] = b'X';
    file.set_len(want.len() as u64).unwrap();
    drop(file);
    let read = std::fs::read(&path).unwrap();
    assert_eq!(read[..want.len()], want);
    assert!(read[want.len()..].iter().all(|b| *b == 0));
}

#[test]
fn preallocation_does_not_overwrite_appended_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut file = mapped(&path);
    let (mut want, mut state) = (Vec::new(), 1u64);
    let mut below = |most: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % most
    };
    for step in 0..400 {
        match below(8) {
            0 => {
                want.truncate(below(want.len() + 1));
                file.set_len(want.len() as u64).unwrap();
            }
            1 => {
                let at = below(want.len() + 1);
                file.write_at(b"in between", at as u64).unwrap();
                want.resize(want.len().max(at + 10), 0);
                want[at..at + 10].copy_from_slice(b"in between");
            }
            kind => {
                let most = if kind < 5 { 1000 } else { WINDOW_BYTES as usize * 3 / 2 };
                let bytes = vec![step as u8 | 1; below(most)];
                file.append(&bytes).unwrap();
                want.extend_from_slice(&bytes);
            }
        }
        if want.len() > 8 * WINDOW_BYTES as usize {
            want.truncate(100);
            file.set_len(100).unwrap();
        }
        let read = std::fs::read(&path).unwrap();
        assert!(read[..want.len()] == want[..], "step {step}");
        assert!(read[want.len()..].iter().all(|b| *b == 0), "step {step}");
    }
}

#[test]
fn small_appends_cross_prepared_windows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut file = mapped(&path);
    let mut want = Vec::new();
    for number in 0..40_000u64 {
        let bytes = [&number.to_le_bytes()[..], b"record"].concat();
        file.append(&bytes).unwrap();
        want.extend_from_slice(&bytes);
    }
    let read = std::fs::read(&path).unwrap();
    assert_eq!(read[..want.len()], want);
    assert!(read[want.len()..].iter().all(|b| *b == 0));
}

/// Waits until the next window is prepared, because its allocation extends the file.
fn settle(file: &MappedFile) {
    while matches!(*file.next.lock(), Next::Asked) {
        std::thread::yield_now();
    }
}

/// Creates a directory for tests that depend on the file system (`scripts/mapped.sh`).
fn dir() -> tempfile::TempDir {
    match std::env::var_os("ESKER_MAPPED_DIR") {
        Some(dir) => tempfile::Builder::new().prefix("mapped").tempdir_in(dir).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

#[test]
fn append_to_unavailable_page_is_written_or_fails() {
    let (dir, window) = (dir(), WINDOW_BYTES as usize);
    let path = dir.path().join("f");
    let mut file = mapped(&path);
    let mut want = vec![7; window / 2];
    file.append(&want).unwrap();
    settle(&file);
    // Another handle truncates the file at its end, so that its next page no longer belongs to it.
    let other = File::options().write(true).open(&path).unwrap();
    other.set_len(want.len() as u64).unwrap();
    let before = file.mapped_bytes();
    for len in [1, 15, 16, 100, 5000, 40_000] {
        file.append(&vec![len as u8; len]).unwrap();
        want.extend_from_slice(&vec![len as u8; len]);
    }
    assert_eq!(file.mapped_bytes(), before, "nothing was copied");
    file.write_behind_end(b"a mark").unwrap();
    file.append(b"over it").unwrap();
    want.extend_from_slice(b"over it");
    assert_eq!(std::fs::read(&path).unwrap(), want);
    let mut file = mapped(&dir.path().join("g"));
    file.append(&vec![7; window / 2]).unwrap();
    settle(&file);
    let other = File::options().write(true).open(dir.path().join("g")).unwrap();
    other.set_len(10).unwrap();
    let error = file.append(b"behind what is lost").unwrap_err().to_string();
    assert!(error.contains("found 10") && error.contains("131072"), "{error}");
}

#[test]
fn bytes_behind_end_are_overwritten_by_next_append() {
    let dir = dir();
    let path = dir.path().join("f");
    let (mut file, mut want) = (mapped(&path), Vec::new());
    // With these lengths, some markers cross the end of a window.
    for number in 0..40_000u64 {
        let bytes = vec![number as u8 | 1; 24 + (number % 9) as usize * 8];
        file.append(&bytes).unwrap();
        want.extend_from_slice(&bytes);
        file.write_behind_end(&[0xee; 24]).unwrap();
    }
    let read = std::fs::read(&path).unwrap();
    assert!(read[..want.len()] == want[..]);
    assert_eq!(read[want.len()..][..24], [0xee; 24]);
    assert!(read[want.len() + 24..].iter().all(|b| *b == 0));
    file.set_len(want.len() as u64).unwrap();
    assert!(std::fs::read(&path).unwrap() == want);
}

#[test]
fn thread_that_blocks_sigbus_uses_write_and_others_use_map() {
    let dir = dir();
    let path = dir.path().join("f");
    let (mut file, mut want) = (mapped(&path), Vec::new());
    for round in 0..6 {
        let blocked = round % 2 == 1;
        let before = file.mapped_bytes();
        let append = |file: &mut MappedFile, want: &mut Vec<u8>| {
            if blocked {
                // SAFETY: the set is initialized by the calls that fill it, and only the mask of
                // this thread is changed.
                unsafe {
                    let mut set = std::mem::zeroed();
                    libc::sigfillset(&mut set);
                    assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()), 0);
                }
            }
            for _ in 0..2000 {
                let bytes = [round as u8 | 1; 200];
                // Prevents writing zeros to windows, so that all copied bytes are counted.
                file.syncs = SYNCS_MAX + 1;
                file.append(&bytes).unwrap();
                want.extend_from_slice(&bytes);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| append(&mut file, &mut want));
        });
        let copied = file.mapped_bytes() - before;
        assert_eq!(copied, if blocked { 0 } else { 400_000 }, "round {round}");
    }
    let read = std::fs::read(&path).unwrap();
    assert!(read[..want.len()] == want[..]);
    assert!(read[want.len()..].iter().all(|b| *b == 0));
}

/// `scripts/mapped.sh` sets `ESKER_MAPPED_FAULT` to a command that makes the pages of files in
/// `ESKER_MAPPED_DIR` unavailable.
#[test]
fn unavailable_pages_are_errors_or_written() {
    let Ok(fault) = std::env::var("ESKER_MAPPED_FAULT") else { return };
    let dir = dir();
    let path = dir.path().join("f");
    let (mut file, mut want) = (mapped(&path), Vec::new());
    let append = |file: &mut MappedFile, want: &mut Vec<u8>| {
        let done = file.append(&[7; 1000]);
        if done.is_ok() {
            want.extend_from_slice(&[7; 1000]);
        }
        done
    };
    (0..100).for_each(|_| append(&mut file, &mut want).unwrap());
    file.sync().unwrap();
    assert!(std::process::Command::new("sh").args(["-c", &fault]).status().unwrap().success());
    let (mapped, mut failed) = (file.mapped_bytes(), None);
    for _ in 0..4000 {
        let _ = append(&mut file, &mut want).map_err(|error| failed = Some(error));
        let _ = file.write_behind_end(&[0xee; 24]);
    }
    let copied = file.mapped_bytes() - mapped;
    eprintln!("{copied} bytes were copied on, {} are there; {failed:?}", want.len());
    assert!(!file.maps || copied > 0);
}
