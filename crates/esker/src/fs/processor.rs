//! Waits for processors and devices, from the kernel's statistics: the time that a thread waited for
//! a processor, and the share of the time in which any task waited for a processor or a device.
//!
//! Invariant: the wait of a thread does not count waits for a device, for a lock or for the end of a
//! sleep.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The kernel's scheduler statistics of the thread that created this value.
pub struct ProcessorWait {
    /// The open statistics file. `None` if the system has none; Linux has it if `/proc` is mounted.
    account: Option<File>,
}

impl ProcessorWait {
    /// Opens the statistics of the calling thread.
    pub fn of_this_thread() -> ProcessorWait {
        ProcessorWait { account: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Returns the total time since its start that the thread was runnable but had no processor.
    /// `None` if the statistics are unavailable.
    pub fn waited(&self) -> Option<Duration> {
        let mut text = [0; 96];
        let length = self.account.as_ref()?.read_at(&mut text, 0).ok()?;
        parse(&text[..length])
    }
}

/// Returns the share of the last ten seconds in which some task of the machine waited for one of the
/// `resources` (`cpu`, `io`), in percent; the largest of them. 0 where the system does not tell. `dir`
/// is the directory with a file for each.
pub fn pressure_percent(dir: &str, resources: &[&str]) -> u32 {
    let share = |resource: &&str| {
        let text = std::fs::read_to_string(std::path::Path::new(dir).join(resource)).ok()?;
        parse_pressure(&text)
    };
    resources.iter().filter_map(share).max().unwrap_or(0)
}

/// Parses the average of ten seconds in the line `some`, in percent, without its fraction.
fn parse_pressure(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let average = line.split_ascii_whitespace().find_map(|pair| pair.strip_prefix("avg10="))?;
    average.split('.').next()?.parse().ok()
}

/// Parses the second of three numbers: nanoseconds run, nanoseconds waited, number of time slices.
fn parse(text: &[u8]) -> Option<Duration> {
    let second = std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?;
    second.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_second_field_of_schedstat() {
        assert_eq!(parse(b"829448 122458 2\n"), Some(Duration::from_nanos(122_458)));
        for text in [&b""[..], b"1", b"1 x 3", b"1 -2 3", b"\xff 1 2"] {
            assert_eq!(parse(text), None);
        }
    }

    #[test]
    fn pressure_is_average_of_ten_seconds_of_some_tasks() {
        let text = "some avg10=12.86 avg60=9.30 avg300=9.62 total=14600614960\n\
                    full avg10=77.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(parse_pressure(text), Some(12));
        for text in ["", "full avg10=1.00", "some", "some avg60=1.00", "some avg10=x.5"] {
            assert_eq!(parse_pressure(text), None, "{text}");
        }
        assert!(pressure_percent("/proc/pressure", &["cpu", "io"]) <= 100);
        assert_eq!(pressure_percent("/nowhere", &["cpu"]), 0);
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn wait_time_is_monotonic() {
        let wait = ProcessorWait::of_this_thread();
        let before = wait.waited();
        std::thread::yield_now();
        assert!(wait.waited() >= before);
    }
}
