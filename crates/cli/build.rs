//! Passes the commit of the build to the command, as `ESKER_COMMIT` and `ESKER_COMMIT_DIRTY`.
//!
//! Sources of the commit, in order of precedence: the build variable `ESKER_COMMIT`, for packagers;
//! the git checkout that contains this file; the note that `cargo package` writes into a package.
//! Without any of them the commit is empty, and the command prints "unknown".

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ESKER_COMMIT");
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let named = std::env::var("ESKER_COMMIT").ok().filter(|commit| !commit.trim().is_empty());
    let (commit, dirty) = named
        .map(|commit| (commit.trim().to_string(), None))
        .or_else(|| of_checkout(&here))
        .or_else(|| of_package(&here))
        .unwrap_or_default();
    println!("cargo:rustc-env=ESKER_COMMIT={commit}");
    println!(
        "cargo:rustc-env=ESKER_COMMIT_DIRTY={}",
        dirty.map_or("", |dirty| if dirty { "yes" } else { "no" })
    );
    let changes = if dirty == Some(true) { " with changes" } else { "" };
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let short: String = commit.chars().take(12).collect();
    let of = if commit.is_empty() {
        "unknown commit".into()
    } else {
        format!("commit {short}{changes}")
    };
    println!("cargo:rustc-env=ESKER_VERSION={version} ({of})");
}

fn git(here: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(here).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}

/// Returns the commit of the checkout that tracks this package, and whether it has changes.
fn of_checkout(here: &Path) -> Option<(String, Option<bool>)> {
    // A package unpacked inside an unrelated checkout does not belong to that checkout.
    git(here, &["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let commit = git(here, &["rev-parse", "HEAD"])?;
    let changes = git(here, &["status", "--porcelain", "--untracked-files=no"]);
    let top = PathBuf::from(git(here, &["rev-parse", "--show-toplevel"])?);
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(here, &["rev-parse", "--git-path", name]) {
            println!("cargo:rerun-if-changed={}", here.join(path).display());
        }
    }
    // A change of these files can make the checkout differ from its commit, so it reruns the
    // script.
    for folder in ["crates", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", top.join(folder).display());
    }
    Some((commit, changes.map(|changes| !changes.is_empty())))
}

/// Returns the commit recorded by `cargo package`.
fn of_package(here: &Path) -> Option<(String, Option<bool>)> {
    let path = here.join(".cargo_vcs_info.json");
    let text = std::fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?.to_string();
    let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let dirty = text.contains("\"dirty\": true") || text.contains("\"dirty\":true");
    is_commit.then_some((commit, Some(dirty)))
}
