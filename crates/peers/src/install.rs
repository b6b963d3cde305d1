//! The known engines, instructions to get missing ones, and the download of a RocksDB release:
//! the pinned one, or the requested one. The highest installed version is used.
//!
//! A release is a Maven artifact with the library for every system. Maven itself downloads it from
//! its configured repositories, and rejects a download with a wrong checksum. The SHA-256 of the
//! pinned release's artifact is also compared with the one known here. Apart from Maven's own
//! cache, nothing is written outside the directory of engines, and a library is moved to its final
//! path there only once it is complete.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use esker_lab::bench::print_message;
use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::target::Capabilities;
use sha2::{Digest, Sha256};

use crate::bench::{ENGINES, engine_named};
use crate::installed::{LIBRARY, engines_dir};
use crate::rocksdb::{RocksDb, StoreKind};

/// Release that is installed by default.
pub const ROCKSDB_VERSION: &str = "11.8.1";
const ROCKSDB_SHA256: &str = "628ed387887f4a431df480857954df2a28b4389bfe24858ccdec611cabf65dbf";
const ARTIFACT: &str = "org.rocksdb:rocksdbjni";

/// An entry of the list of engines.
#[derive(Debug)]
pub struct Listed {
    /// Name for requesting the engine.
    pub name: &'static str,
    /// Description, if the engine can be measured.
    pub description: Option<String>,
    /// Reason why the engine is not available.
    pub missing: Option<String>,
    /// Licence of the engine.
    pub licence: &'static str,
    /// Whether it runs in a subprocess.
    pub own_process: bool,
    /// Instructions to get the engine, or its newer release.
    pub how: &'static str,
    /// What a killed process loses of writes without a sync, by the engine's documentation.
    pub lost_by_kill: &'static str,
    /// What a power cut loses of writes without a sync, by the engine's documentation.
    pub lost_by_power_cut: &'static str,
    /// Its capabilities, if it can be measured.
    pub capabilities: Option<Capabilities>,
}

impl Listed {
    /// Returns what the engine does not offer.
    pub fn not_offered(&self) -> Vec<&'static str> {
        let Some(can) = self.capabilities else { return Vec::new() };
        [
            (can.persistent, "files"),
            (can.sync, "synced writes"),
            (can.concurrent_writers, "concurrent writers"),
            (can.transactions, "transactions"),
            (can.merge, "merge"),
            (can.bulk_load, "bulk load"),
            (can.compact, "compaction on request"),
        ]
        .into_iter()
        .filter_map(|(offered, name)| (!offered).then_some(name))
        .collect()
    }
}

/// What is lost of writes without a sync.
const KEPT: &str = "nothing";
const LAST: &str = "the last writes";
const SINCE_SYNC: &str = "writes since the last synced one";
const DAMAGED: &str = "the store may be damaged";
const ALL: &str = "everything";

/// What is known of an engine without loading it.
struct About {
    name: &'static str,
    licence: &'static str,
    how: &'static str,
    lost_by_kill: &'static str,
    lost_by_power_cut: &'static str,
}

const fn about(
    name: &'static str,
    licence: &'static str,
    how: &'static str,
    lost_by_kill: &'static str,
    lost_by_power_cut: &'static str,
) -> About {
    About { name, licence, how, lost_by_kill, lost_by_power_cut }
}

const APACHE_GPL: &str = "Apache-2.0 or GPL-2.0";
const GPL: &str = "GPL-2.0 or GPL-3.0";
const MIT: &str = "MIT or Apache-2.0";
const RUST_ENGINE: &str = "build with --features rust-engines, as make bench does";
const ROCKSDB: &str = "esker lab engines install rocksdb; apt install librocksdb7.8";

/// The engines, with what their documentation promises of writes that request no sync.
/// `esker lab engines kill` tests the first promise.
const ABOUT: &[About] = &[
    about("esker", MIT, "built in", KEPT, LAST),
    about("esker-pessimistic", MIT, "built in: its transactions lock their keys", KEPT, LAST),
    about(
        "leveldb",
        "BSD-3-Clause",
        "apt install libleveldb1d; a relative of it: NAME:PATH",
        KEPT,
        LAST,
    ),
    about("rocksdb", APACHE_GPL, ROCKSDB, KEPT, LAST),
    about("rocksdb-optimistic", APACHE_GPL, "as rocksdb: an OptimisticTransactionDB", KEPT, LAST),
    about("rocksdb-pessimistic", APACHE_GPL, "as rocksdb: a TransactionDB", KEPT, LAST),
    about("lmdb", "OpenLDAP", "apt install liblmdb0", KEPT, DAMAGED),
    about("sqlite", "public domain", "apt install libsqlite3-0", KEPT, LAST),
    about("wiredtiger", GPL, "apt install libwiredtiger0", LAST, LAST),
    about("wiredtiger-lsm", GPL, "apt install libwiredtiger0", LAST, LAST),
    about("berkeleydb", "Sleepycat", "apt install libdb5.3", DAMAGED, DAMAGED),
    about("fjall", MIT, RUST_ENGINE, KEPT, LAST),
    about("fjall-optimistic", MIT, "as fjall: an OptimisticTxDatabase", KEPT, LAST),
    about("redb", MIT, RUST_ENGINE, SINCE_SYNC, SINCE_SYNC),
    about("sled", MIT, RUST_ENGINE, LAST, LAST),
    about("reference", MIT, "built in: a map in memory, to compare answers with", ALL, ALL),
];

/// Returns every engine known by name.
pub fn list() -> Vec<Listed> {
    let listed = |about: &About| {
        let engine = engine_named(about.name, None);
        Listed {
            name: about.name,
            description: engine.as_ref().ok().map(|engine| engine.description()),
            missing: engine.as_ref().err().map(ToString::to_string),
            licence: about.licence,
            own_process: engine.as_ref().is_ok_and(|engine| engine.subprocess_spec().is_some()),
            how: about.how,
            lost_by_kill: about.lost_by_kill,
            lost_by_power_cut: about.lost_by_power_cut,
            capabilities: engine.ok().map(|engine| engine.capabilities()),
        }
    };
    ABOUT.iter().map(listed).collect()
}

/// Installs an engine and returns its path. Only RocksDB can be installed; for other engines the
/// error contains instructions.
pub fn install(name: &str, version: Option<&str>, messages: &mut dyn Write) -> Result<PathBuf> {
    if name != "rocksdb" {
        let how = ABOUT.iter().find(|about| about.name == name).map(|about| about.how);
        return Err(LabError::usage(match how {
            Some(how) => format!("{name} cannot be installed from here: {how}"),
            None => format!("unknown engine {name:?}; there are {}", ENGINES.join(", ")),
        }));
    }
    let dir = engines_dir().ok_or_else(|| {
        LabError::new(LabErrorKind::Io, "there is no folder to install to: set ESKER_ENGINES")
    })?;
    install_rocksdb(version.unwrap_or(ROCKSDB_VERSION), &dir, messages)
}

fn install_rocksdb(version: &str, dir: &Path, messages: &mut dyn Write) -> Result<PathBuf> {
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    if version.is_empty() || !version.chars().all(plain) {
        return Err(LabError::usage(format!(
            "a version is like {ROCKSDB_VERSION}, not {version:?}"
        )));
    }
    let fail = |path: &Path| {
        let path = path.to_path_buf();
        move |e: std::io::Error| LabError::io("write", &path, &e)
    };
    let half = dir.join(format!(".fetching-{}", std::process::id()));
    std::fs::create_dir_all(&half).map_err(fail(&half))?;
    let found = fetch(version, &half, messages).and_then(|jar| unpack(&jar, &half));
    let moved = found.and_then(|library| {
        // The library is loaded as a test before it is moved to its final path.
        RocksDb::load("rocksdb", Some(&library.display().to_string()), StoreKind::Plain)?;
        let home = dir.join(format!("rocksdb-{version}"));
        std::fs::create_dir_all(&home).map_err(fail(&home))?;
        let place = home.join(LIBRARY);
        std::fs::rename(&library, &place).map_err(fail(&place))?;
        Ok(place)
    });
    // Removes downloaded files that are no longer needed.
    let _ = std::fs::remove_dir_all(&half);
    moved
}

/// Lets Maven copy the artifact to `dir`, and compares its checksum.
fn fetch(version: &str, dir: &Path, messages: &mut dyn Write) -> Result<PathBuf> {
    print_message(messages, &format!("fetching {ARTIFACT}:{version} (90 MB) with mvn"));
    let output = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "--strict-checksums", "dependency:copy"])
        .arg(format!("-Dartifact={ARTIFACT}:{version}"))
        .arg(format!("-DoutputDirectory={}", dir.display()))
        .output()
        .map_err(|e| {
            let message = format!(
                "mvn cannot be run ({e}): apt install maven; or unpack the artifact \
                 {ARTIFACT}:{version} yourself and name its library as rocksdb:PATH"
            );
            LabError::new(LabErrorKind::NotInstalled, message)
        })?;
    let jar = dir.join(format!("rocksdbjni-{version}.jar"));
    if !output.status.success() || !jar.exists() {
        let stdout = String::from_utf8_lossy(&output.stdout);
        let line =
            stdout.lines().find(|line| line.contains("ERROR")).unwrap_or("it printed nothing");
        let message = format!("mvn did not fetch {ARTIFACT}:{version}: {line}");
        return Err(LabError::new(LabErrorKind::Io, message));
    }
    let bytes = std::fs::read(&jar).map_err(|e| LabError::io("read", &jar, &e))?;
    let mut sum = String::new();
    for byte in Sha256::digest(&bytes) {
        let _ = write!(sum, "{byte:02x}");
    }
    check(version, &sum, messages)?;
    Ok(jar)
}

fn check(version: &str, sum: &str, messages: &mut dyn Write) -> Result<()> {
    match version == ROCKSDB_VERSION {
        true if sum == ROCKSDB_SHA256 => {
            print_message(messages, &format!("SHA-256 is the one known: {sum}"));
            Ok(())
        }
        true => {
            let message = format!(
                "{ARTIFACT}:{version} has SHA-256 {sum} where {ROCKSDB_SHA256} is known; it is not used"
            );
            Err(LabError::new(LabErrorKind::Data, message))
        }
        false => {
            print_message(
                messages,
                &format!("SHA-256 {sum} (none is known for {version}; Maven's own agreed)"),
            );
            Ok(())
        }
    }
}

/// Extracts this machine's library from the artifact.
fn unpack(jar: &Path, dir: &Path) -> Result<PathBuf> {
    let name = match std::env::consts::ARCH {
        "aarch64" => "librocksdbjni-linux-aarch64.so",
        "riscv64" => "librocksdbjni-linux-riscv64.so",
        _ => "librocksdbjni-linux64.so",
    };
    let bad = |why: String| {
        let message = format!("{} holds no usable {name}: {why}", jar.display());
        LabError::new(LabErrorKind::Data, message)
    };
    let file = std::fs::File::open(jar).map_err(|e| LabError::io("open", jar, &e))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|e| bad(e.to_string()))?;
    let mut entry = archive.by_name(name).map_err(|e| bad(e.to_string()))?;
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(|e| bad(e.to_string()))?;
    let library = dir.join(LIBRARY);
    std::fs::write(&library, bytes).map_err(|e| LabError::io("write", &library, &e))?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_installation_instructions() {
        assert!(ABOUT.iter().map(|about| &about.name).eq(ENGINES));
        for engine in list() {
            assert!(!engine.how.is_empty() && !engine.licence.is_empty(), "{engine:?}");
            assert!(!engine.lost_by_kill.is_empty(), "{engine:?}");
            assert_ne!(engine.description.is_some(), engine.missing.is_some(), "{engine:?}");
        }
    }

    #[test]
    fn wrong_checksum_and_name_are_refused_with_message() {
        let messages = &mut Vec::new();
        assert!(check(ROCKSDB_VERSION, ROCKSDB_SHA256, messages).is_ok());
        let error = check(ROCKSDB_VERSION, "00", messages).expect_err("another sum");
        assert!(error.to_string().contains("is not used"), "{error}");
        assert!(install("lmdb", None, messages).expect_err("apt").to_string().contains("liblmdb0"));
        assert!(
            install("nobody", None, messages).expect_err("unknown").to_string().contains("esker")
        );
        let dir = tempfile::tempdir().expect("a temporary folder");
        assert!(install_rocksdb("11.8.1;x", dir.path(), messages).is_err());
    }

    #[test]
    fn library_is_extracted_from_archive() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let jar = dir.path().join("a.jar");
        std::fs::write(&jar, b"no archive").expect("written");
        assert!(unpack(&jar, dir.path()).expect_err("no archive").to_string().contains("a.jar"));
        let mut archive = zip::ZipWriter::new(std::fs::File::create(&jar).expect("made"));
        let options = zip::write::SimpleFileOptions::default();
        let names = ["librocksdbjni-linux64.so", "librocksdbjni-linux-aarch64.so"];
        for name in names {
            archive.start_file(name, options).expect("begun");
            archive.write_all(b"library").expect("written");
        }
        archive.finish().expect("finished");
        let library = unpack(&jar, dir.path()).expect("there");
        assert_eq!(std::fs::read(library).expect("readable"), b"library");
    }
}
