//! The time that a thread waited for a processor, from the kernel's statistics.
//!
//! Invariant: waits for a device, for a lock or for the end of a sleep are not counted.

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
    #[cfg(all(target_os = "linux", not(miri)))]
    fn wait_time_is_monotonic() {
        let wait = ProcessorWait::of_this_thread();
        let before = wait.waited();
        std::thread::yield_now();
        assert!(wait.waited() >= before);
    }
}
