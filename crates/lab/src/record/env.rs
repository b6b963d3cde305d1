//! Environment of a benchmark: machine, operating system, commit, date.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::schema::Machine;
use crate::measure::host;

/// Describes this machine; stores are under `store_dir`.
pub fn machine(store_dir: &Path) -> Machine {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    Machine {
        cpu_model: after(&cpu, "model name", ':'),
        cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_cache: after(&cpu, "cache size", ':'),
        memory_bytes: after(&memory, "MemTotal", ':')
            .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
            .map(|kib| kib * 1024),
        kernel: kernel.map(|release| format!("Linux {}", release.trim())),
        system: after(&release, "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_string()),
        file_system: host::file_system(store_dir),
        optimised_build: !cfg!(debug_assertions),
    }
}

fn after(text: &str, field: &str, mark: char) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(line.split_once(mark)?.1.trim().to_string()).filter(|value| !value.is_empty())
}

/// Returns the seconds since 1970 UTC.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Formats a time in UTC for the name of a file: `YYYYMMDD-HHMMSS`.
pub fn file_time(unix_seconds: u64) -> String {
    utc_text(unix_seconds).replace(['-', ':'], "").replace(' ', "-")
}

/// Formats `YYYY-MM-DD HH:MM:SS` in UTC, with the civil-from-days method (Hinnant, 2013).
pub fn utc_text(unix_seconds: u64) -> String {
    let days = (unix_seconds / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let time = unix_seconds % 86_400;
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Returns conditions of this machine that may distort a benchmark, as sentences.
pub fn warnings(machine: &Machine) -> Vec<String> {
    let mut found = Vec::new();
    if !machine.optimised_build {
        found
            .push("the lab is built without optimisation, so the timings are too slow".to_string());
    }
    if let Some(load) = host::load_average() {
        let cpus = machine.cpu_count as f64;
        if load > cpus * 0.5 {
            found.push(format!(
                "other processes run on this machine (load {load:.2} on {cpus} processors at the \
                 start)"
            ));
        }
    }
    if machine.file_system.as_deref() == Some("tmpfs") {
        found.push(
            "the stores are on tmpfs, where syncs cost nothing; name a folder on a disk with --db"
                .to_string(),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_timestamps_format_as_dates() {
        assert_eq!(utc_text(0), "1970-01-01 00:00:00");
        assert_eq!(utc_text(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(utc_text(1_767_225_599), "2025-12-31 23:59:59");
    }

    #[test]
    fn machine_has_a_processor_name() {
        let machine = machine(Path::new("/"));
        assert!(machine.cpu_count > 0 && machine.memory_bytes.is_some_and(|bytes| bytes > 0));
        assert_eq!(after("a : b c\n", "a", ':').as_deref(), Some("b c"));
    }
}
