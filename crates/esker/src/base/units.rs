//! Byte sizes: units, formatting and parsing.

/// 1,024 bytes.
pub const KIB: u64 = 1 << 10;
/// 1,024 KiB.
pub const MIB: u64 = 1 << 20;
/// 1,024 MiB.
pub const GIB: u64 = 1 << 30;

/// Formats `bytes` with a unit, such as `4.0 KiB`.
pub fn human_bytes(bytes: u64) -> String {
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..MIB => format!("{:.1} KiB", bytes as f64 / KIB as f64),
        MIB..GIB => format!("{:.1} MiB", bytes as f64 / MIB as f64),
        _ => format!("{:.2} GiB", bytes as f64 / GIB as f64),
    }
}

/// Parses a size: a number, optionally followed by a unit such as `k`, `m`, `g`, `t`, `KiB` or
/// `MB`. Every unit is a power of 1,024. The number may contain `_` and a fraction. Returns `None`
/// for an invalid number, an unknown unit, or a size that does not fit in a `u64`.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit = match suffix.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => KIB,
        "m" | "mb" | "mib" => MIB,
        "g" | "gb" | "gib" => GIB,
        "t" | "tb" | "tib" => 1024 * GIB,
        _ => return None,
    };
    let number = number.replace('_', "");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let value = number.parse::<f64>().ok()? * unit as f64;
    (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then_some(value as u64)
}
