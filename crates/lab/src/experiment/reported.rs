//! Figures reported by a document, one by one, with their position in the series.

use std::collections::BTreeMap;

use toml::Value;

use super::check::shown;
use super::file::{ReportedFile, SeriesFile};
use super::plan::text_of;
use crate::stats::unit::Unit;

/// One figure of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// Store the figure is for.
    pub by: String,
    /// Its parameters; a parameter not named may have any value.
    pub params: BTreeMap<String, String>,
    /// Its phase; `None` for all phases.
    pub phase: Option<String>,
    /// Value.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
}

/// Returns every figure reported for a series, in order.
pub fn figures(series: &SeriesFile) -> Vec<Reported> {
    series.reported.iter().flat_map(|table| of_table(series, table.get_ref())).collect()
}

/// Parses a cell as a number: a plain number, or a multiple (`"0.31x"`) of `base`; `None` for an
/// empty text.
pub fn number(cell: &Value, base: Option<f64>) -> Result<Option<f64>, String> {
    let fail = || format!("{} is not a figure; write a number, \"1.5x\" or \"\"", shown(cell));
    match cell {
        Value::Float(number) => Ok(Some(*number)),
        Value::Integer(number) => Ok(Some(*number as f64)),
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) => {
            let factor = text.strip_suffix('x').and_then(|text| text.parse::<f64>().ok());
            let factor = factor.ok_or_else(fail)?;
            Ok(base.map(|base| base * factor))
        }
        _ => Err(fail()),
    }
}

/// Returns the units requested by a series.
pub fn own_units(series: &SeriesFile) -> Vec<Unit> {
    let mut units = vec![unit_of(series)];
    for unit in series.also.iter().filter_map(|name| Unit::parse(name.get_ref())) {
        if !units.contains(&unit) {
            units.push(unit);
        }
    }
    units
}

/// Returns the main unit of a series.
pub fn unit_of(series: &SeriesFile) -> Unit {
    let named = series.unit.as_ref().and_then(|unit| Unit::parse(unit.get_ref()));
    named.unwrap_or(Unit::MicrosPerOp)
}

fn of_table(series: &SeriesFile, table: &ReportedFile) -> Vec<Reported> {
    let own = table.unit.as_ref().and_then(|unit| Unit::parse(unit.get_ref()));
    let unit = own.unwrap_or_else(|| unit_of(series));
    let mut found = Vec::new();
    let first: Vec<Option<f64>> = table.data.first().map_or_else(Vec::new, |row| {
        row.get_ref().iter().map(|cell| number(cell, None).ok().flatten()).collect()
    });
    for row in &table.data {
        let cells = row.get_ref();
        let head = cells.first().map(text_of).unwrap_or_default();
        for (place, cell) in cells.iter().enumerate().skip(1) {
            let base = first.get(place).copied().flatten();
            let Ok(Some(value)) = number(cell, base) else { continue };
            let mut figure = Reported {
                by: table.by.clone().unwrap_or_default(),
                params: table.at.iter().map(|(name, at)| (name.clone(), text_of(at))).collect(),
                phase: None,
                value,
                unit,
            };
            figure.put(table.rows.get_ref(), head.clone());
            figure
                .put(&table.across, table.columns.get(place - 1).map(text_of).unwrap_or_default());
            found.push(figure);
        }
    }
    found
}

impl Reported {
    fn put(&mut self, axis: &str, value: String) {
        match axis {
            "by" => self.by = value,
            "phase" => self.phase = Some(value),
            _ => {
                self.params.insert(axis.into(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::check::Experiment;
    use crate::experiment::check::tests::{known, sample};

    #[test]
    fn multiples_use_first_row_and_skip_empty_cells() {
        let experiment = Experiment::parse("sample", &sample(), &known()).expect("right");
        let figures = figures(experiment.series(0));
        assert_eq!(figures.len(), 3);
        let last = &figures[2];
        assert_eq!(last.phase.as_deref(), Some("readrandom#2"));
        assert_eq!(last.params.get("block_size").map(String::as_str), Some("1024"));
        assert_eq!((last.value, last.by.as_str()), (0.75, "LevelDB"));
        assert_eq!(last.unit, Unit::MicrosPerOp);
    }
}
