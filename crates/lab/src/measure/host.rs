//! Figures of the operating system about this process and this machine (Linux's /proc).
//!
//! An unavailable figure is `None`, never 0.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns the CPU seconds of all threads of this process.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the CPU seconds of the calling thread.
pub fn thread_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns [`cpu_seconds`] plus the CPU seconds of exited children.
pub fn cpu_seconds_with_children() -> f64 {
    // The user and the system time of the children follow those of the process.
    cpu_seconds() + two_times(13).map_or(0.0, |(user, system)| user + system)
}

/// Returns the user and the system CPU seconds of this process, in hundredths.
pub fn cpu_seconds_split() -> Option<(f64, f64)> {
    two_times(11)
}

/// Returns two times of this process, in seconds: those after `skipped` fields. The first field
/// after the command name in parentheses is the state.
fn two_times(skipped: usize) -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace().skip(skipped);
    let mut ticks = || rest.next()?.parse::<f64>().ok();
    Some((ticks()? / TICKS_A_SECOND, ticks()? / TICKS_A_SECOND))
}

/// Linux reports processor time in hundredths of a second.
const TICKS_A_SECOND: f64 = 100.0;

/// Returns the CPU seconds used by all processes of the machine since its start, including time
/// taken by its host (steal).
pub fn machine_cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<f64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user.
    let busy = fields.iter().take(8).enumerate().filter(|(place, _)| !matches!(place, 3 | 4));
    Some(busy.map(|(_, ticks)| ticks).sum::<f64>() / TICKS_A_SECOND)
}

/// Memory of this process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident memory (`VmRSS`).
    pub resident_bytes: Option<u64>,
    /// Peak resident memory since the last reset (`VmHWM`).
    pub peak_bytes: Option<u64>,
}

/// Returns resident and peak memory of this process.
pub fn memory() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory { resident_bytes: kib(&status, "VmRSS:"), peak_bytes: kib(&status, "VmHWM:") }
}

/// Resets the peak. Returns false if the system does not allow it; the peak then dates from the
/// start of the process.
pub fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

fn kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Bytes read and written by this process (`/proc/self/io`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Bytes returned by read calls (`rchar`).
    pub read_call_bytes: u64,
    /// Bytes passed to write calls (`wchar`).
    pub write_call_bytes: u64,
    /// Bytes of pages made dirty, to be written to a disk (`write_bytes`); includes maps.
    pub write_disk_bytes: u64,
    /// Bytes read from a disk (`read_bytes`).
    pub read_disk_bytes: u64,
}

/// Returns the I/O counters; `None` if the system provides none.
pub fn io() -> Option<Io> {
    parse_io(&std::fs::read_to_string("/proc/self/io").ok()?)
}

fn parse_io(text: &str) -> Option<Io> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].trim().parse().ok()
    };
    Some(Io {
        read_call_bytes: field("rchar:")?,
        write_call_bytes: field("wchar:")?,
        write_disk_bytes: field("write_bytes:")?,
        read_disk_bytes: field("read_bytes:")?,
    })
}

/// Disk usage of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of the allocated blocks of its files, so that holes do not count.
    pub allocated_bytes: u64,
    /// Number of files, including those in subdirectories.
    pub files: u64,
}

/// Returns the disk usage of `dir`; files that vanish during the count are skipped.
pub fn disk_use(dir: &Path) -> DiskUse {
    let mut total = DiskUse::default();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) => {
                    total.allocated_bytes += meta.blocks() * 512;
                    total.files += 1;
                }
                Err(_) => {}
            }
        }
    }
    total
}

/// Returns the file system type of `path`, from the longest mount point that contains it.
pub fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        path.starts_with(point).then(|| (point.len(), kind.to_string()))
    });
    above.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// Returns the load average of the last minute, in runnable threads.
pub fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_counters_are_read_by_name() {
        let text = "rchar: 1\nwchar: 20\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 60\n";
        let io = parse_io(text).expect("complete");
        assert_eq!((io.write_call_bytes, io.write_disk_bytes, io.read_disk_bytes), (20, 60, 5));
        assert_eq!(parse_io("rchar: 1\n"), None);
    }

    #[test]
    fn disk_use_includes_subdirectories() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(dir.path().join("inner")).expect("made");
        std::fs::write(dir.path().join("inner/file"), vec![1u8; 10_000]).expect("written");
        std::fs::write(dir.path().join("file"), b"x").expect("written");
        assert_eq!(disk_use(dir.path()).files, 2);
        assert_eq!(disk_use(&dir.path().join("absent")), DiskUse::default());
    }

    #[test]
    fn own_process_has_memory_and_cpu_time() {
        assert!(memory().resident_bytes.is_some_and(|bytes| bytes > 0));
        let (user, system) = cpu_seconds_split().expect("a process has times");
        assert!((0.0..1e6).contains(&(user + system)));
        assert!(cpu_seconds() >= 0.0 && cpu_seconds_with_children() >= 0.0);
        assert!(file_system(Path::new("/proc")).is_some_and(|kind| kind == "proc"));
    }
}
