//! `esker man`: manual pages, generated from the definitions of the command line parser.
//!
//! Invariant: every command shown by `esker help` has a page, and a page names only flags that its
//! command takes.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use esker_lab::preset::PRESETS;
use esker_lab::run::config::FLAGS;

use super::stdout;
use crate::args::Cli;
use crate::failure::{Failure, Outcome};

/// Manual section of commands.
const SECTION: &str = "1";

/// Arguments of `man`.
#[derive(Args)]
pub struct ManArgs {
    /// Command, such as `bench` or `lab run` [default: the page esker(1)]
    command: Vec<String>,
    /// Write the pages of all commands to this directory, as esker.1, esker-get.1 and so on
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Prints a page, or writes all pages.
pub fn run(args: &ManArgs) -> Outcome {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(|error| Failure::file("create", dir, &error))?;
            for page in pages(&root, None)? {
                let path = dir.join(format!("{}.{SECTION}", page.name));
                std::fs::write(&path, page.text)
                    .map_err(|error| Failure::file("write", &path, &error))?;
            }
        }
        None => {
            let name = ["esker"].into_iter().chain(args.command.iter().map(String::as_str));
            let name = name.collect::<Vec<_>>().join("-");
            let pages = pages(&root, None)?;
            let page = pages.iter().find(|page| page.name == name).ok_or_else(|| {
                Failure::usage(format!(
                    "unknown command {:?}; `esker help` lists the commands",
                    args.command.join(" ")
                ))
            })?;
            let mut out = stdout();
            out.write_all(&page.text)?;
            out.flush()?;
        }
    }
    Ok(0)
}

/// A manual page.
struct Page {
    /// Page name without the section, such as `esker-lab-run`.
    name: String,
    text: Vec<u8>,
}

/// Returns the page of `command` and the pages of its subcommands.
fn pages(command: &Command, above: Option<&str>) -> Result<Vec<Page>, Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
    let mut found = Vec::new();
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        found.extend(pages(below, Some(&name))?);
    }
    let text = page(command, &name, above)?;
    found.push(Page { name, text });
    Ok(found)
}

fn page(command: &Command, name: &str, above: Option<&str>) -> Result<Vec<u8>, Failure> {
    let man = Man::new(command.clone())
        .title(name)
        .section(SECTION)
        .source(concat!("Esker ", env!("CARGO_PKG_VERSION")))
        .manual("Esker");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let mut rest = Roff::default();
    if name == "esker-bench" {
        bench_flags(&mut rest);
    }
    rest.to_writer(&mut text)?;
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::default();
    notes(command, &mut rest);
    if let Some(above) = above {
        rest.control("SH", ["SEE ALSO"]);
        rest.text([bold(above), roman(format!("({SECTION})"))]);
    }
    rest.to_writer(&mut text)?;
    Ok(text)
}

/// Adds the flags of `bench`, which are parsed by the lab.
fn bench_flags(page: &mut Roff) {
    page.control("SH", ["FLAGS"]);
    for (name, value, what) in FLAGS {
        page.control("TP", []);
        let mut flag = vec![bold(format!("--{name}"))];
        if !value.is_empty() {
            flag.extend([roman("="), italic(*value)]);
        }
        page.text(flag);
        page.text([roman(*what)]);
    }
    let presets: Vec<&str> = PRESETS.iter().map(|(name, ..)| *name).collect();
    page.control("TP", []);
    page.text([bold("--preset"), roman("="), italic("NAME")]);
    page.text([roman(format!("table of a community: {}", presets.join(", ")))]);
    page.control("PP", []);
    page.text([roman("Each store option of Esker is also a flag: see "), bold("esker-options")]);
    page.text([roman(format!("({SECTION})."))]);
}

/// Adds the help text that follows the flags, with the exit codes under their own heading.
fn notes(command: &Command, page: &mut Roff) {
    let Some(help) = command.get_after_help() else { return };
    let mut heading = "";
    for paragraph in help.to_string().split("\n\n") {
        let wanted = if paragraph.starts_with("Exit codes:") { "EXIT STATUS" } else { "NOTES" };
        if wanted == heading {
            page.control("PP", []);
        } else {
            page.control("SH", [wanted]);
            heading = wanted;
        }
        page.text([roman(paragraph.trim())]);
    }
}
