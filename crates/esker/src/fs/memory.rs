//! The memory available to this process: the machine's memory, or a lower limit of a control group.
//!
//! Linux limits a process by its own control group and by all groups above, up to the root, in each
//! hierarchy: the `memory` controller of version 1, the unified hierarchy of version 2, or both.
//! The lowest of these limits applies.
//!
//! Invariant: no function here fails. A missing, unreadable or malformed file sets no limit.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Returns the memory that this process may use, in bytes; at most the machine's memory.
pub fn available_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    group_limit(Path::new("/")).map_or(machine, |limit| limit.min(machine))
}

/// Returns the lowest limit of this process's control groups, in bytes, or `None` without a limit.
/// `root` replaces `/` in all paths.
fn group_limit(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let groups = read("proc/self/cgroup")?;
    let mounts: Vec<Mount> =
        read("proc/self/mountinfo")?.lines().filter_map(Mount::parse).collect();
    let own = groups.lines().filter_map(Membership::parse);
    own.filter_map(|group| group.limit(root, &mounts)).min()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    /// The `memory` controller of version 1.
    Memory,
    /// The unified hierarchy of version 2.
    Unified,
}

impl Hierarchy {
    /// Returns the names of a group's files that may contain a limit.
    fn files(self) -> &'static [&'static str] {
        match self {
            Hierarchy::Memory => &["memory.limit_in_bytes"],
            // Above `high`, the kernel throttles the process instead of killing it.
            Hierarchy::Unified => &["memory.max", "memory.high"],
        }
    }

    /// Returns the lowest limit in the files of the group directory `dir`.
    fn limit_of(self, dir: &Path) -> Option<u64> {
        let read = |name: &str| fs::read_to_string(dir.join(name)).ok();
        let own = self.files().iter().filter_map(|name| read(name)?.trim().parse::<u64>().ok());
        // In version 1, this file also covers the limits of the groups above, even of groups that
        // are not mounted here.
        let above = match self {
            Hierarchy::Memory => read("memory.stat").and_then(|text| {
                let line = text.lines().find_map(|l| l.strip_prefix("hierarchical_memory_limit "));
                line?.trim().parse().ok()
            }),
            Hierarchy::Unified => None,
        };
        own.chain(above).min()
    }
}

/// A line of `/proc/self/cgroup`: the process's group in a hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Membership {
    hierarchy: Hierarchy,
    path: PathBuf,
}

impl Membership {
    /// Parses `number:controllers:path`. Returns `None` for a hierarchy that does not limit memory.
    fn parse(line: &str) -> Option<Membership> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let hierarchy = match controllers {
            "" if number == "0" => Hierarchy::Unified,
            _ if controllers.split(',').any(|name| name == "memory") => Hierarchy::Memory,
            _ => return None,
        };
        Some(Membership { hierarchy, path: PathBuf::from(path) })
    }

    /// Returns the lowest limit on the path from the group up to the mount point of its hierarchy.
    fn limit(&self, root: &Path, mounts: &[Mount]) -> Option<u64> {
        let own = || mounts.iter().filter(|mount| mount.hierarchy == self.hierarchy);
        let mut dirs: Vec<PathBuf> = own().filter_map(|mount| mount.dir_of(&self.path)).collect();
        if dirs.is_empty() {
            // The group lies outside the mounted parts of the hierarchy. The mounted groups are
            // taken as groups above it.
            dirs.extend(own().map(|mount| mount.point.clone()));
        }
        let on_path = |dir: PathBuf| {
            let above = dir.ancestors().map(Path::to_path_buf).collect::<Vec<_>>();
            let points: Vec<&Path> = own().map(|mount| mount.point.as_path()).collect();
            above.into_iter().filter(move |dir| points.iter().any(|point| dir.starts_with(point)))
        };
        let limits = dirs.into_iter().flat_map(on_path).filter_map(|dir| {
            let dir = dir.strip_prefix("/").unwrap_or(&dir);
            self.hierarchy.limit_of(&root.join(dir))
        });
        limits.min()
    }
}

/// A line of `/proc/self/mountinfo`: the mount of a part of a hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    hierarchy: Hierarchy,
    /// The group at the root of the mount.
    top: PathBuf,
    /// The mount point.
    point: PathBuf,
}

impl Mount {
    /// Parses a line. Returns `None` for a mount that does not limit memory.
    fn parse(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (top, point) = (unescape(before.next()?), unescape(before.next()?));
        let mut after = after.split(' ');
        let hierarchy = match (after.next()?, after.next_back()?) {
            ("cgroup2", _) => Hierarchy::Unified,
            ("cgroup", options) if options.split(',').any(|name| name == "memory") => {
                Hierarchy::Memory
            }
            _ => return None,
        };
        Some(Mount { hierarchy, top, point })
    }

    /// Returns the directory of the group `path`, if the group is in this part of the hierarchy.
    fn dir_of(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.top).ok()?;
        let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
        inside.then(|| self.point.join(below))
    }
}

/// Decodes a path in which blanks and some other bytes are octal escapes, such as `\040`.
fn unescape(text: &str) -> PathBuf {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let digits = rest.get(at + 1..at + 4);
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) else {
            break;
        };
        out.push_str(&rest[..at]);
        out.push(char::from(byte));
        rest = &rest[at + 4..];
    }
    PathBuf::from(out + rest)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    /// File content of version 1 for "no limit".
    const NONE: &str = "9223372036854771712\n";

    /// A fake root directory with prepared files.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(cgroup: &str, mountinfo: &str) -> Machine {
            let machine = Machine(tempfile::tempdir().unwrap());
            machine.with("proc/self/cgroup", cgroup).with("proc/self/mountinfo", mountinfo);
            machine
        }

        fn with(&self, path: &str, text: &str) -> &Machine {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn limit_mib(&self) -> Option<u64> {
            group_limit(self.0.path()).map(|bytes| bytes / MIB)
        }
    }

    fn mib(count: u64) -> String {
        format!("{}\n", count * MIB)
    }

    const V1: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
    const V2: &str =
        "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn cgroup_v1_uses_lowest_limit_up_to_root() {
        let machine = Machine::new("4:memory:/a/b\n3:cpuset:/other\n0::/\n", V1);
        assert_eq!(machine.limit_mib(), None, "no files");
        let group = "sys/fs/cgroup/memory";
        machine.with(&format!("{group}/memory.limit_in_bytes"), NONE);
        machine.with(&format!("{group}/a/b/memory.limit_in_bytes"), &mib(96));
        assert_eq!(machine.limit_mib(), Some(96));
        machine.with(&format!("{group}/a/memory.limit_in_bytes"), &mib(64));
        assert_eq!(machine.limit_mib(), Some(64));
        machine.with(&format!("{group}/a/c/memory.limit_in_bytes"), &mib(1));
        machine.with("sys/fs/cgroup/cpuset/other/memory.limit_in_bytes", &mib(1));
        assert_eq!(machine.limit_mib(), Some(64), "others' limits do not count");
        let stat = format!("cache 0\nhierarchical_memory_limit {}", mib(48));
        machine.with(&format!("{group}/a/b/memory.stat"), &stat);
        assert_eq!(machine.limit_mib(), Some(48), "a group above what is mounted");
    }

    #[test]
    fn cgroup_v2_uses_lowest_limit_up_to_root() {
        let machine = Machine::new("0::/user.slice/app.scope\n", V2);
        let group = "sys/fs/cgroup/user.slice";
        machine.with(&format!("{group}/app.scope/memory.max"), "max\n");
        assert_eq!(machine.limit_mib(), None);
        machine.with(&format!("{group}/memory.max"), &mib(512));
        assert_eq!(machine.limit_mib(), Some(512));
        machine.with(&format!("{group}/app.scope/memory.high"), &mib(100));
        assert_eq!(machine.limit_mib(), Some(100));
        machine.with(&format!("{group}/app.scope/memory.high"), "max\n");
        machine.with(&format!("{group}/app.scope/memory.max"), &mib(96));
        assert_eq!(machine.limit_mib(), Some(96));
        machine.with(&format!("{group}/app.scope/memory.max"), "nonsense");
        assert_eq!(machine.limit_mib(), Some(512));
    }

    #[test]
    fn both_cgroup_versions_with_unusual_mount_points() {
        let mounts = "\
            40 1 0:32 / /mnt/my\\040groups rw - cgroup memory rw,relatime,memory\n\
            41 1 0:38 / /mnt/unified rw - cgroup2 cgroup2 rw\n";
        let machine = Machine::new("5:cpu,memory:/box\n0::/box\n", mounts);
        machine.with("mnt/my groups/box/memory.limit_in_bytes", &mib(80));
        assert_eq!(machine.limit_mib(), Some(80));
        machine.with("mnt/unified/box/memory.max", &mib(70));
        assert_eq!(machine.limit_mib(), Some(70));
    }

    #[test]
    fn container_sees_its_own_part_of_hierarchy() {
        // The group's path is the host's path. The mount starts at that group.
        let v1 = "50 1 0:32 /docker/7 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let machine = Machine::new("4:memory:/docker/7/inner\n", v1);
        machine.with("sys/fs/cgroup/memory/memory.limit_in_bytes", &mib(128));
        assert_eq!(machine.limit_mib(), Some(128));
        machine.with("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", &mib(32));
        assert_eq!(machine.limit_mib(), Some(32));
        // In its own namespace, the root is the group itself. The path of a process from outside
        // the namespace starts with `/..`.
        for path in ["/", "/../../other"] {
            let machine = Machine::new(&format!("0::{path}\n"), V2);
            machine.with("sys/fs/cgroup/memory.max", &mib(200));
            assert_eq!(machine.limit_mib(), Some(200), "{path}");
        }
        let machine = Machine::new("4:memory:/docker/8\n", v1);
        machine.with("sys/fs/cgroup/memory/memory.limit_in_bytes", &mib(16));
        assert_eq!(machine.limit_mib(), Some(16), "a group outside of what is mounted");
    }

    #[test]
    fn unparsable_files_mean_no_limit() {
        assert_eq!(group_limit(Path::new("/nowhere/at/all")), None);
        for (cgroup, mounts) in [
            ("", ""),
            ("4:memory\n:::\n0::\n", "1 2 3\n - cgroup2 x y\n"),
            ("4:memory:/a\n", V2),
            ("0::/a\n", "29 23 0:26 / - cgroup2\n29 23 0:26 / /\\77 rw - cgroup2 cgroup2 rw\n"),
        ] {
            assert_eq!(Machine::new(cgroup, mounts).limit_mib(), None, "{cgroup}");
        }
        assert_eq!(unescape("/a\\134b\\011\\x"), Path::new("/a\\b\t\\x"));
    }

    #[test]
    fn memory_of_this_process_is_positive() {
        assert!(available_bytes() > MIB);
    }
}
