//! A driver without instrumentation: valid inputs, changed at random, for a number of cases.
//!
//! Invariants: the same seed makes the same inputs. A failure reports the seed and the case number,
//! and the first 4 KiB of the input.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Target;
use crate::campaign::tally::guarded;
use crate::rng::SplitMix64;

/// Maximum size of a generated input, in bytes.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// The extent of a run of a target.
#[derive(Debug, Clone, Copy)]
pub enum Effort {
    /// A number of inputs.
    Cases(u64),
    /// A duration.
    For(Duration),
}

/// Returns the files of `dir`, in order of their names. A missing directory has none.
pub fn corpus(dir: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// Runs the target on its valid inputs, on the inputs in `more`, and on changes of them. Returns
/// the number of inputs.
///
/// # Errors
/// The first input with a panic, its seed, and the panic's message.
pub fn drive(
    target: &Target,
    more: Vec<Vec<u8>>,
    seed: u64,
    effort: Effort,
) -> Result<u64, String> {
    let mut pool = (target.seeds)();
    pool.extend(more);
    for input in &pool {
        attempt(target, input, "as it is")?;
    }
    let began = Instant::now();
    let mut case = 0;
    loop {
        let done = match effort {
            Effort::Cases(count) => case >= count,
            Effort::For(time) => began.elapsed() >= time,
        };
        if done {
            return Ok(case + pool.len() as u64);
        }
        let mut rng = SplitMix64::new(seed.wrapping_mul(1_000_003).wrapping_add(case));
        let input = change(&pool, &mut rng);
        attempt(target, &input, &format!("seed {seed}, case {case}"))?;
        case += 1;
    }
}

fn attempt(target: &Target, input: &[u8], what: &str) -> Result<(), String> {
    guarded(|| (target.run)(input)).map_err(|panic| {
        let shown: String = input.iter().take(4096).map(|b| format!("{b:02x}")).collect();
        format!("{}: {what}: {panic}; input of {} bytes: {shown}", target.name, input.len())
    })
}

/// Returns an input of the pool, changed in one to eight places.
fn change(pool: &[Vec<u8>], rng: &mut SplitMix64) -> Vec<u8> {
    let pick = |rng: &mut SplitMix64| &pool[rng.below(pool.len() as u64) as usize];
    let mut out = pick(rng).clone();
    for _ in 0..1 + rng.below(8) {
        let at = rng.below(out.len() as u64 + 1) as usize;
        match rng.below(8) {
            0 | 1 if at < out.len() => out[at] ^= 1 << rng.below(8),
            2 if at < out.len() => {
                out[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][rng.below(6) as usize];
            }
            3 => {
                // A number in place of a field: small, at an edge, or arbitrary.
                let number = match rng.below(3) {
                    0 => rng.below(300),
                    1 => (1u64 << rng.below(64)).wrapping_sub(rng.below(2)),
                    _ => rng.next_u64(),
                };
                let width = [1, 2, 4, 8][rng.below(4) as usize].min(out.len() - at);
                out[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
            }
            4 => out.truncate(at.max(1)),
            5 => {
                let mut fresh = vec![0; 1 + rng.below(16) as usize];
                rng.fill(&mut fresh);
                out.splice(at..at, fresh);
            }
            6 => {
                let other = pick(rng);
                let from = rng.below(other.len() as u64 + 1) as usize;
                let to = from + rng.below((other.len() - from) as u64 + 1) as usize;
                out.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                let to = at + rng.below((out.len() - at) as u64 + 1) as usize;
                out.drain(at..to);
            }
        }
        out.truncate(INPUT_BYTES_MAX);
    }
    out
}
