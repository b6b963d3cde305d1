//! A memory limit for engine and page cache together, through a control group (cgroup v2 or v1).
//!
//! The process moves into its own group with the limit, and back when the limit is dropped. Memory
//! charged before the move stays with the old group, so the limit counts the run's allocations and
//! the pages of the files it touches. The lab's own memory is added to the limit, so that engine
//! and page cache get the requested amount.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// An active limit; dropping it removes the limit.
#[derive(Debug)]
pub struct MemoryLimit {
    group: PathBuf,
    back: PathBuf,
    file: PathBuf,
    bytes: u64,
}

/// Attempts to lower a limit: the kernel can release dirty pages only after writeback.
const LOWER_TRIES: u32 = 20;
const LOWER_AGAIN_AFTER: Duration = Duration::from_millis(50);

impl MemoryLimit {
    /// Limits this process to `bytes`. The error states why the system does not allow it.
    pub fn set(bytes: u64) -> Result<MemoryLimit, String> {
        let (back, file) = own_group().ok_or("the system has no memory control groups")?;
        remove_stale(&back);
        let group = back.join(name_of(std::process::id()));
        let fail =
            |what: &str, e: std::io::Error| format!("cannot {what} {}: {e}", group.display());
        std::fs::create_dir(&group).map_err(|e| fail("create the control group", e))?;
        let file = group.join(file);
        let limit = MemoryLimit { group: group.clone(), back, file, bytes };
        std::fs::write(&limit.file, bytes.to_string()).map_err(|e| fail("set the limit of", e))?;
        let own = std::process::id().to_string();
        std::fs::write(group.join("cgroup.procs"), own).map_err(|e| fail("enter", e))?;
        Ok(limit)
    }

    /// Removes the control group left by process `id`, an exited child.
    pub fn remove_left(id: u32) {
        if let Some((back, _)) = own_group() {
            // If the child had no limit, or removed it, there is nothing to remove.
            let _ = std::fs::remove_dir(back.join(name_of(id)));
        }
    }

    /// Returns the limit for engine and page cache, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns a readable name of the control group's version.
    pub fn by(&self) -> &'static str {
        let first = self.file.ends_with("memory.limit_in_bytes");
        if first { "a control group (v1)" } else { "a control group (v2)" }
    }

    /// Raises the limit by `own_bytes` for the lab itself. Returns false if the system does not
    /// release enough memory; the limit is then above the requested one.
    pub fn spare(&self, own_bytes: u64) -> bool {
        let wanted = (self.bytes + own_bytes).to_string();
        for tried in 0..LOWER_TRIES {
            if std::fs::write(&self.file, &wanted).is_ok() {
                return true;
            }
            if tried == 0 {
                rustix::fs::sync();
            }
            std::thread::sleep(LOWER_AGAIN_AFTER);
        }
        false
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // A failed cleanup is left to the end of the process.
        let _ = std::fs::write(self.back.join("cgroup.procs"), std::process::id().to_string());
        let _ = std::fs::remove_dir(&self.group);
    }
}

/// Prefix of the group names, before the process id.
const NAME: &str = "esker-lab-";

/// Returns the name of the group of a process with a limit.
fn name_of(id: u32) -> String {
    format!("{NAME}{id}")
}

/// Removes the groups of killed processes. The kernel refuses to remove a group with processes.
fn remove_stale(back: &Path) {
    for entry in std::fs::read_dir(back).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// Returns the group of this process, and the name of the limit's file.
fn own_group() -> Option<(PathBuf, &'static str)> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let (root, own, file) = place(&groups)?;
    Some((root.join(own.trim_start_matches('/')), file))
}

/// Returns the root of the memory hierarchy, this process's path in it, and the limit's file.
fn place(groups: &str) -> Option<(PathBuf, String, &'static str)> {
    let lines = || {
        groups.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            Some((controllers, path.to_string()))
        })
    };
    let first = lines().find(|(names, _)| names.split(',').any(|name| name == "memory"));
    if let Some((_, path)) = first {
        return Some((Path::new("/sys/fs/cgroup/memory").into(), path, "memory.limit_in_bytes"));
    }
    let (_, path) = lines().find(|(names, _)| names.is_empty())?;
    Some((Path::new("/sys/fs/cgroup").into(), path, "memory.max"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cgroup_versions_are_parsed() {
        let (root, own, file) = place("4:memory:/a/b\n0::/\n").expect("the first");
        assert_eq!((root.as_path(), own.as_str()), (Path::new("/sys/fs/cgroup/memory"), "/a/b"));
        assert_eq!(file, "memory.limit_in_bytes");
        let (root, own, file) = place("0::/user.slice\n").expect("the second");
        assert_eq!((root.as_path(), own.as_str()), (Path::new("/sys/fs/cgroup"), "/user.slice"));
        assert_eq!(file, "memory.max");
        assert!(place("").is_none());
    }

    #[test]
    fn groups_of_dead_processes_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = name_of(std::process::id());
        // No process has the highest number: the kernel's limit is 2^22.
        let gone = name_of(u32::MAX);
        for name in [own.as_str(), gone.as_str(), "esker-lab-x", "other-4294967295"] {
            std::fs::create_dir(dir.path().join(name)).expect("made");
        }
        remove_stale(dir.path());
        let left = |name: &str| dir.path().join(name).exists();
        assert!(left(&own) && left("esker-lab-x") && left("other-4294967295"));
        assert!(!left(&gone));
    }

    #[test]
    fn limit_is_set_or_refused_with_message() {
        match MemoryLimit::set(1 << 40) {
            Ok(limit) => {
                let group = limit.group.clone();
                assert!(limit.spare(1 << 30) && limit.by().contains("control group"));
                let set = std::fs::read_to_string(&limit.file).expect("readable");
                assert_eq!(set.trim().parse(), Ok(limit.bytes() + (1 << 30)));
                drop(limit);
                assert!(!group.exists(), "{} was not removed", group.display());
            }
            Err(why) => assert!(why.contains("control group"), "{why}"),
        }
    }
}
