//! A folder of pages that needs no network: an index, and the page of each record.

use std::fmt::Write;

use super::html::escape;
use super::lab_claims::{counts, tested};
use super::lab_html::page;
use super::lab_text::circumstances;
use super::page_text::{SCRIPT, STYLE};
use crate::experiment::check::Experiment;
use crate::record::lab::LabRecord;

/// One record of a site.
pub struct Entry {
    /// Its experiment.
    pub experiment: Experiment,
    /// The record.
    pub record: LabRecord,
}

/// Returns the files of a site: names and contents, the index first. Records of the same experiment
/// are numbered in the given order.
pub fn files(entries: &[Entry]) -> Vec<(String, String)> {
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let plain: String = entry.experiment.name.chars().map(plain).collect();
        let numbered = (1..).map(|number| match number {
            1 => format!("{plain}.html"),
            _ => format!("{plain}-{number}.html"),
        });
        let mut free = numbered.filter(|name| !names.contains(name) && name != "index.html");
        names.extend(free.next());
    }
    let mut files = vec![("index.html".to_string(), index(entries, &names))];
    let pages = entries.iter().map(|entry| page(&entry.experiment, &entry.record));
    files.extend(names.into_iter().zip(pages));
    files
}

/// Returns a character that is safe in a file name and a link.
fn plain(character: char) -> char {
    if character.is_ascii_alphanumeric() || "-_.".contains(character) { character } else { '_' }
}

fn index(entries: &[Entry], names: &[String]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Experiments</title><style>{STYLE}</style></head><body><main>\n\
         <h1>Experiments</h1><p>Key-value stores, measured side by side. Each page has pictures, \
         tables, and the claims of the document that it repeats.</p>\n<div class=\"grid\">\n"
    );
    for (entry, name) in entries.iter().zip(names) {
        let claims = counts(&tested(&entry.experiment, &entry.record));
        let engines = entry.record.measured_engines().join(", ");
        let document = entry.experiment.file.document.as_deref().unwrap_or("");
        let _ = write!(
            text,
            "<figure><figcaption><a href=\"{name}\">{}</a><small>{}</small></figcaption>\
             <p>Engines: {}.</p><p class=\"soft\">{}</p>",
            escape(&entry.experiment.file.title),
            escape(document),
            escape(&engines),
            escape(&circumstances(&entry.experiment, &entry.record))
        );
        if !claims.is_empty() {
            let items: Vec<String> =
                claims.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
            let _ = write!(text, "<p>Claims of the document:</p><ul>{}</ul>", items.concat());
        }
        text.push_str("</figure>\n");
    }
    let _ = writeln!(text, "</div><script>{SCRIPT}</script></main></body></html>");
    text
}
