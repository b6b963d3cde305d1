//! What the operating system says about this process and this machine (Linux's /proc).
//!
//! A figure the system does not give is `None`, never 0.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// CPU seconds of all threads of this process so far.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU seconds of the calling thread so far.
pub fn thread_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The same as [`cpu_seconds`], with the children that have ended.
pub fn cpu_seconds_with_children() -> f64 {
    // After the command's name in brackets: state is the first field, cutime the 14th, in ticks.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = rest.split_whitespace().skip(13).take(2).filter_map(|t| t.parse::<f64>().ok());
    cpu_seconds() + ticks.sum::<f64>() / TICKS_A_SECOND
}

/// Linux shows processor time to programs in hundredths of a second.
const TICKS_A_SECOND: f64 = 100.0;

/// CPU seconds that all processes of the machine have used since it started, and those its host
/// took away.
pub fn machine_cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<f64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
    let busy = fields.iter().take(8).enumerate().filter(|(place, _)| !matches!(place, 3 | 4));
    Some(busy.map(|(_, ticks)| ticks).sum::<f64>() / TICKS_A_SECOND)
}

/// Memory of this process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now (`VmRSS`).
    pub resident_bytes: Option<u64>,
    /// The most that was resident since the last reset (`VmHWM`).
    pub peak_bytes: Option<u64>,
}

/// Resident and peak memory of this process.
pub fn memory() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory { resident_bytes: kib(&status, "VmRSS:"), peak_bytes: kib(&status, "VmHWM:") }
}

/// Starts a new peak; false where the system does not allow it (the peak is then since start).
pub fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

fn kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Bytes this process moved so far (`/proc/self/io`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Bytes got from read calls (`rchar`).
    pub read_call_bytes: u64,
    /// Bytes passed to write calls (`wchar`).
    pub write_call_bytes: u64,
    /// Bytes of pages made dirty, on their way to a disk (`write_bytes`); maps included.
    pub write_disk_bytes: u64,
    /// Bytes fetched from a disk (`read_bytes`).
    pub read_disk_bytes: u64,
}

/// The I/O counters; none where the system gives none.
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

/// What a directory takes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of the blocks given to its files, so that holes do not count.
    pub allocated_bytes: u64,
    /// Files in it, in all folders.
    pub files: u64,
}

/// What `dir` takes on disk; files that vanish meanwhile are not counted.
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

/// The file system type `path` lies on, by the longest mount point above it.
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

/// Load of the last minute, in runnable threads.
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
    fn a_folder_is_summed_with_its_folders() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(dir.path().join("inner")).expect("made");
        std::fs::write(dir.path().join("inner/file"), vec![1u8; 10_000]).expect("written");
        std::fs::write(dir.path().join("file"), b"x").expect("written");
        assert_eq!(disk_use(dir.path()).files, 2);
        assert_eq!(disk_use(&dir.path().join("absent")), DiskUse::default());
    }

    #[test]
    fn this_process_has_memory_and_time() {
        assert!(memory().resident_bytes.is_some_and(|bytes| bytes > 0));
        assert!(cpu_seconds() >= 0.0 && cpu_seconds_with_children() >= 0.0);
        assert!(file_system(Path::new("/proc")).is_some_and(|kind| kind == "proc"));
    }
}
