//! Reports: rows, tables, JSON lines and pages with charts, made from a record alone.

pub mod axes;
pub mod dots;
pub mod front;
pub mod grid;
pub mod html;
pub mod json;
pub mod lab_charts;
pub mod lab_claims;
pub mod lab_compare;
pub mod lab_html;
pub mod lab_measures;
pub mod lab_picture;
pub mod lab_space;
pub mod lab_summary;
pub mod lab_tables;
pub mod lab_text;
pub mod lab_time;
pub mod lines;
pub mod page_text;
pub mod plot;
pub mod site;
pub mod sizes;
pub mod table;
pub mod trend;
mod tune_curves;
pub mod tune_html;
pub mod tune_text;
