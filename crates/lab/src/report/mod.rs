//! Reports: rows, tables, JSON lines and one page with pictures, made from a record alone.

pub mod html;
pub mod json;
pub mod page_text;
pub mod plot;
pub mod table;
