//! Parsing, printing and ranges of option values.

use super::kinds::*;
use crate::base::units::parse_bytes;

/// Allowed values of an option.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Range {
    /// A boolean.
    Switch,
    /// One of these names.
    Words(Vec<&'static str>),
    /// A whole number in the closed range.
    Whole(u64, u64),
    /// A whole number in the closed range, or `auto`.
    WholeOrAuto(u64, u64),
    /// A whole number in the closed range, or `off`.
    WholeOrOff(u64, u64),
    /// A number in the closed range.
    Real(f64, f64),
    /// A number in the closed range, or `off`.
    RealOrOff(f64, f64),
}

/// The part of a value that a range checks.
pub enum Measure {
    /// Nothing to check: every value of the type is allowed.
    Any,
    /// A number.
    Number(f64),
}

impl Range {
    pub(super) fn allows(&self, measure: &Measure) -> bool {
        let Measure::Number(n) = measure else { return true };
        match self {
            Range::Switch | Range::Words(_) => true,
            Range::Whole(lo, hi) | Range::WholeOrAuto(lo, hi) | Range::WholeOrOff(lo, hi) => {
                *lo as f64 <= *n && *n <= *hi as f64
            }
            Range::Real(lo, hi) | Range::RealOrOff(lo, hi) => lo <= n && n <= hi,
        }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Range::Switch => write!(f, "true, false"),
            Range::Words(words) => write!(f, "{}", words.join(", ")),
            Range::Whole(lo, hi) => write!(f, "{lo} to {hi}"),
            Range::WholeOrAuto(lo, hi) => write!(f, "{lo} to {hi}, auto"),
            Range::WholeOrOff(lo, hi) => write!(f, "{lo} to {hi}, off"),
            Range::Real(lo, hi) => write!(f, "{lo} to {hi}"),
            Range::RealOrOff(lo, hi) => write!(f, "{lo} to {hi}, off"),
        }
    }
}

/// A type of option value.
pub trait OptionValue: Sized {
    /// Parses the value of a flag or property.
    fn parse(text: &str) -> Option<Self>;
    /// Prints the value in a form that `parse` accepts.
    fn print(&self) -> String;
    /// Returns the range between two bounds. Named values and booleans ignore the bounds.
    fn range(lo: f64, hi: f64) -> Range;
    /// Returns the part of the value that the range checks.
    fn measure(&self) -> Measure;
}

impl OptionValue for bool {
    fn parse(text: &str) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "on" | "yes" | "lsmtreemanager" => Some(true),
            "false" | "0" | "off" | "no" | "btreemanager" => Some(false),
            _ => None,
        }
    }
    fn print(&self) -> String {
        self.to_string()
    }
    fn range(_: f64, _: f64) -> Range {
        Range::Switch
    }
    fn measure(&self) -> Measure {
        Measure::Any
    }
}

impl OptionValue for u64 {
    fn parse(text: &str) -> Option<u64> {
        parse_bytes(text)
    }
    fn print(&self) -> String {
        self.to_string()
    }
    fn range(lo: f64, hi: f64) -> Range {
        Range::Whole(lo as u64, hi as u64)
    }
    fn measure(&self) -> Measure {
        Measure::Number(*self as f64)
    }
}

impl OptionValue for Option<u64> {
    fn parse(text: &str) -> Option<Option<u64>> {
        if text.eq_ignore_ascii_case("auto") { Some(None) } else { parse_bytes(text).map(Some) }
    }
    fn print(&self) -> String {
        self.map_or("auto".to_string(), |v| v.to_string())
    }
    fn range(lo: f64, hi: f64) -> Range {
        Range::WholeOrAuto(lo as u64, hi as u64)
    }
    fn measure(&self) -> Measure {
        self.map_or(Measure::Any, |v| Measure::Number(v as f64))
    }
}

impl OptionValue for ValueSeparation {
    fn parse(text: &str) -> Option<ValueSeparation> {
        if text.trim().eq_ignore_ascii_case("off") {
            Some(ValueSeparation::Off)
        } else {
            parse_bytes(text).map(ValueSeparation::From)
        }
    }
    fn print(&self) -> String {
        match self {
            ValueSeparation::Off => "off".to_string(),
            ValueSeparation::From(bytes) => bytes.to_string(),
        }
    }
    fn range(lo: f64, hi: f64) -> Range {
        Range::WholeOrOff(lo as u64, hi as u64)
    }
    fn measure(&self) -> Measure {
        match self {
            ValueSeparation::Off => Measure::Any,
            ValueSeparation::From(bytes) => Measure::Number(*bytes as f64),
        }
    }
}

impl OptionValue for Option<Compression> {
    fn parse(text: &str) -> Option<Option<Compression>> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("auto") {
            Some(None)
        } else {
            Compression::parse(text).map(Some)
        }
    }
    fn print(&self) -> String {
        self.map_or("auto", Compression::name).to_string()
    }
    fn range(_: f64, _: f64) -> Range {
        let words = Compression::ALL.iter().map(|v| v.name());
        Range::Words(words.chain(["auto"]).collect())
    }
    fn measure(&self) -> Measure {
        Measure::Any
    }
}

impl OptionValue for f64 {
    fn parse(text: &str) -> Option<f64> {
        text.trim().parse::<f64>().ok().filter(|v| v.is_finite())
    }
    fn print(&self) -> String {
        self.to_string()
    }
    fn range(lo: f64, hi: f64) -> Range {
        Range::Real(lo, hi)
    }
    fn measure(&self) -> Measure {
        Measure::Number(*self)
    }
}

impl OptionValue for Option<f64> {
    fn parse(text: &str) -> Option<Option<f64>> {
        if text.trim().eq_ignore_ascii_case("off") {
            Some(None)
        } else {
            f64::parse(text).map(Some)
        }
    }
    fn print(&self) -> String {
        self.map_or("off".to_string(), |v| v.to_string())
    }
    fn range(lo: f64, hi: f64) -> Range {
        Range::RealOrOff(lo, hi)
    }
    fn measure(&self) -> Measure {
        self.map_or(Measure::Any, Measure::Number)
    }
}

/// Implements [`OptionValue`] for a type of named values.
macro_rules! word_value {
    ($($type:ty),+) => { $(
        impl OptionValue for $type {
            fn parse(text: &str) -> Option<Self> {
                <$type>::parse(text.trim())
            }
            fn print(&self) -> String {
                self.name().to_string()
            }
            fn range(_: f64, _: f64) -> Range {
                Range::Words(<$type>::ALL.iter().map(|v| v.name()).collect())
            }
            fn measure(&self) -> Measure {
                Measure::Any
            }
        }
    )+ };
}

word_value!(
    Durability,
    MemtableKind,
    CachePolicy,
    BlockLayout,
    Compression,
    IndexSearch,
    Policy,
    WalIo
);
