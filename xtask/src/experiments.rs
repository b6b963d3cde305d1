//! Generates the page of each repeated experiment, and its pictures, from its committed record.
//!
//! Invariant: `docs/results/NAME.md` and `docs/results/NAME/*.svg` contain nothing but what
//! `docs/results/NAME/record.json.zst` and the experiment's claims say. A check fails if they
//! differ.

use std::path::{Path, PathBuf};

use esker_lab::experiment::check::Experiment;
use esker_lab::experiment::claim;
use esker_lab::record::lab::LabRecord;
use esker_lab::record::store::load_lab;
use esker_lab::report::grid::{SeriesView, views};
use esker_lab::report::lab_html::{heading, whos};
use esker_lab::report::lab_picture::picture;
use esker_lab::report::lab_text::{Form, write_with};

const FOLDER: &str = "docs/results";
const RECORD: &str = "record.json.zst";

/// Writes the pages and pictures, and removes pictures that no page has any more.
///
/// # Errors
/// A sentence, if a file cannot be read or written.
pub fn write(root: &Path) -> Result<(), String> {
    for name in names(root)? {
        let made = make(root, &name)?;
        for old in pictures(root, &name)? {
            std::fs::remove_file(&old).map_err(|e| format!("{}: {e}", old.display()))?;
        }
        for (path, text) in made {
            std::fs::write(root.join(&path), text).map_err(|e| format!("{path}: {e}"))?;
        }
    }
    Ok(())
}

/// Compares the pages and pictures with the records.
///
/// # Errors
/// A sentence with the name of the file that differs.
pub fn check(root: &Path) -> Result<(), String> {
    for name in names(root)? {
        let made = make(root, &name)?;
        for (path, text) in &made {
            let found = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            if found != *text {
                return Err(format!(
                    "{path} differs from {FOLDER}/{name}/{RECORD}; run `cargo xtask results`"
                ));
            }
        }
        let kept = |path: &PathBuf| made.iter().any(|(own, _)| root.join(own) == *path);
        if let Some(extra) = pictures(root, &name)?.iter().find(|path| !kept(path)) {
            return Err(format!("no page shows {}; run `cargo xtask results`", extra.display()));
        }
    }
    Ok(())
}

/// Returns the names of the folders that have a record.
fn names(root: &Path) -> Result<Vec<String>, String> {
    let own = paths(&root.join(FOLDER))?.filter(|path| path.join(RECORD).is_file());
    let mut names: Vec<String> =
        own.filter_map(|path| Some(path.file_name()?.to_str()?.to_string())).collect();
    names.sort();
    Ok(names)
}

fn pictures(root: &Path, name: &str) -> Result<Vec<PathBuf>, String> {
    let paths = paths(&root.join(FOLDER).join(name))?;
    Ok(paths.filter(|path| path.extension().is_some_and(|ending| ending == "svg")).collect())
}

/// Returns the paths in a folder.
fn paths(folder: &Path) -> Result<impl Iterator<Item = PathBuf> + use<>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()))
}

/// Returns the page and the pictures of a record: path and text.
fn make(root: &Path, name: &str) -> Result<Vec<(String, String)>, String> {
    let path = format!("{FOLDER}/{name}/{RECORD}");
    let record = load_lab(&root.join(&path)).map_err(|e| e.to_string())?;
    let mut experiment = Experiment::of_record(&record.experiment, &record.text)
        .map_err(|mistake| format!("{path}: line {}: {}", mistake.line, mistake.message))?;
    claim::adopt(&mut experiment);
    let views = views(&experiment, &record);
    let whos = whos(&views);
    let mut made = Vec::new();
    let mut shown: Vec<(String, String)> = Vec::new();
    for (index, view) in views.iter().enumerate() {
        // A series shown in several units is drawn in the first of them.
        if shown.iter().any(|(series, _)| *series == view.series.name) {
            continue;
        }
        let file = format!("{name}/{}.svg", index + 1);
        made.push((format!("{FOLDER}/{file}"), picture(view, &whos)));
        let line = format!("![{}]({file})", heading(&views, view));
        shown.push((view.series.name.clone(), line));
    }
    let mut below = |view: &SeriesView<'_>| {
        let place = shown.iter().position(|(series, _)| *series == view.series.name)?;
        Some(shown.remove(place).1)
    };
    let mut out = Vec::new();
    write_with(&experiment, &record, Form::Markdown, &mut below, &mut out)
        .map_err(|e| e.to_string())?;
    let text = String::from_utf8(out).map_err(|e| e.to_string())?;
    let (title, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let page = format!("{title}\n{}\n{rest}", conditions(&experiment, &record, name));
    made.push((format!("{FOLDER}/{name}.md"), tidied(&page)));
    Ok(made)
}

/// Describes the experiment, and how to repeat it.
fn conditions(experiment: &Experiment, record: &LabRecord, name: &str) -> String {
    let document = experiment.file.document.as_ref();
    let document = document.map_or(String::new(), |text| format!(" Repeats: {text}."));
    let engines = record.measured_engines().join(",");
    let rounds = record.points.iter().map(|point| point.repetitions).max().unwrap_or(1);
    let mut series: Vec<&str> = Vec::new();
    for point in &record.points {
        if !series.contains(&point.series.as_str()) {
            series.push(&point.series);
        }
    }
    let only = match series.len() == experiment.file.series.len() {
        true => String::new(),
        false => series.iter().map(|series| format!(" --series {series:?}")).collect(),
    };
    let csv = experiment.file.series.iter().any(|one| one.get_ref().csv.is_some());
    let csv = if csv { " --csv FILE" } else { "" };
    // Only documents leave something to explain.
    let cause = match experiment.file.document {
        Some(_) => "- **Cause.** [What the documents could not explain](experiments.md).\n",
        None => "",
    };
    let commit = record.commit.as_deref().map_or("unknown", |c| c.get(..8).unwrap_or(c));
    format!(
        "\n{}{document}\n\n- **Repeat it.** `esker lab run {} --scale {} --repetitions {rounds} \
         --engines {engines}{only}{csv}`\n- **Commit.** {commit}.\n- **Record.** \
         [{name}/{RECORD}]({name}/{RECORD}): `zstd -d` it, then `esker lab report FILE` prints this \
         page, and `--html PAGE` draws it with latencies and throughput over time.\n{cause}",
        experiment.file.about, record.experiment, record.scale
    )
}

/// Removes spaces at ends of lines and repeated spaces of aligned table cells, and fences the lines
/// that are aligned by spaces.
fn tidied(page: &str) -> String {
    let mut text = String::new();
    let mut fenced = false;
    for line in page.lines() {
        let aligned = line.starts_with(' ');
        if aligned != fenced && !(fenced && line.is_empty()) {
            text.push_str("```\n");
            fenced = aligned;
        }
        text.push_str(&tidied_line(line));
        text.push('\n');
    }
    text.push_str(if fenced { "```\n" } else { "" });
    text
}

fn tidied_line(line: &str) -> String {
    let mut text = line.trim_end().to_string();
    for (long, short) in [("  ", " "), ("----", "---")] {
        while line.starts_with('|') && text.contains(long) {
            text = text.replace(long, short);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_lines_are_fenced_and_cells_are_not_padded() {
        let page = "text\n\n engine  p50\n esker   0.2\n\n stalls\nend\n| a   | b |\n|-----|--:|\n";
        assert_eq!(
            tidied(page),
            "text\n\n```\n engine  p50\n esker   0.2\n\n stalls\n```\nend\n| a | b |\n|---|--:|\n"
        );
    }
}
