//! What the measurements share: numbers from the environment, the middle of figures, and their end.

use std::process::ExitCode;

/// Returns the whole number in the environment variable `name`, or `default` if it is not set.
///
/// # Errors
///
/// The variable is not a whole number of `least` or more.
pub fn number(name: &str, default: u64, least: u64) -> Result<u64, String> {
    let Some(text) = std::env::var_os(name) else { return Ok(default) };
    let text = text.to_string_lossy();
    let parsed = text.parse().ok().filter(|number| *number >= least);
    parsed.ok_or_else(|| format!("{name} must be a whole number of {least} or more, not `{text}`."))
}

/// Returns the median, the least and the greatest of `values`, which must not be empty. The median of an
/// even number of values is the mean of the middle two.
pub fn middle(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
    (values[low].midpoint(values[high]), values[0], values[values.len() - 1])
}

/// Returns the exit code of the measurement `name`, and prints its error.
pub fn ended(name: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{name}: {text}");
            ExitCode::FAILURE
        }
    }
}
