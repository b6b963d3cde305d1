//! `esker keyspace`: lists, creates, drops and renames the keyspaces of a store.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use esker::internals::{DEFAULT_KEYSPACE, check_keyspace_name, human_bytes};
use esker::{Db, Keyspace};
use serde_json::{Value, json};

use super::destroy::confirmed;
use super::{print, stdout};
use crate::args::{Global, Opening, Telling};
use crate::failure::{Failure, Outcome};
use crate::keyspaces::{
    KeyspaceSpec, Order, create, find, name_of, options_to_json, options_to_text, shown,
};
use crate::store::{open_reader, open_writer, split};

/// Arguments of `keyspace`.
#[derive(Args)]
pub struct KeyspaceArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the keyspaces: name, number, tree, key order, approximate table bytes, own options
    ///
    /// Keyspaces with the same key order and the same own options share a tree.
    List(Opening<ListArgs>),
    /// Create a keyspace, creating the store if needed
    Create(Telling<CreateArgs>),
    /// Drop a keyspace with all its keys, after confirmation
    ///
    /// The space is freed in the background while the store is open for writing, or by `esker
    /// compact`.
    Drop(Opening<DropArgs>),
    /// Give a keyspace another name
    Rename(Opening<RenameArgs>),
}

#[derive(Args)]
struct ListArgs {
    /// Store directory
    db: PathBuf,
}

#[derive(Args)]
struct CreateArgs {
    /// Store directory; created if missing
    db: PathBuf,
    /// Name: 1 to 255 bytes of text without control characters
    name: OsString,
    /// Key order, which cannot change later
    #[arg(long, value_enum, default_value = "bytewise")]
    order: Order,
    /// Give the keyspace an option of its own, recorded with it; the others are the store's;
    /// repeatable
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

#[derive(Args)]
struct DropArgs {
    /// Store directory
    db: PathBuf,
    /// Name
    name: OsString,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

#[derive(Args)]
struct RenameArgs {
    /// Store directory
    db: PathBuf,
    /// Name
    name: OsString,
    /// New name, which no other keyspace has
    new_name: OsString,
}

impl KeyspaceArgs {
    /// Returns whether `--json` was given.
    pub fn json(&self) -> bool {
        match &self.what {
            What::List(of) => of.global().json,
            What::Create(of) => of.global().json,
            What::Drop(of) => of.global().json,
            What::Rename(of) => of.global().json,
        }
    }
}

/// Lists, creates, drops or renames.
pub fn run(args: &KeyspaceArgs) -> Outcome {
    match &args.what {
        What::List(of) => list(&of.args.db, &of.global()),
        What::Create(of) => create_one(&of.args, &of.global()),
        What::Drop(of) => drop_one(&of.args, &of.global()),
        What::Rename(of) => rename(&of.args, &of.global()),
    }
}

fn list(store: &Path, global: &Global) -> Outcome {
    let db = open_reader(store, global)?;
    let entries = entries(&db)?;
    let mut out = stdout();
    if global.json {
        for entry in &entries {
            writeln!(out, "{}", entry.to_json())?;
        }
    } else {
        writeln!(out, "{}", to_text(&entries))?;
    }
    out.flush()?;
    Ok(0)
}

fn create_one(args: &CreateArgs, global: &Global) -> Outcome {
    let name = name_of(&args.name)?;
    check_keyspace_name(&name)?;
    let mut options = Vec::new();
    for pair in &args.set {
        let (name, value) = split(pair)?;
        options.push((name.to_string(), value.to_string()));
    }
    let spec = KeyspaceSpec { name, order: args.order, options };
    // A wrong option must not leave a new store behind.
    spec.to_options()?;
    let db = open_writer(&args.db, global, true)?;
    let keyspace = create(&db, &spec)?;
    db.close()?;
    print(
        global.form(),
        || {
            let (number, tree) = (keyspace.id(), keyspace.tree());
            json!({ "ok": true, "name": spec.name, "number": number, "tree": tree })
        },
        || format!("keyspace {} created: {}", keyspace.id(), shown(&spec.name)),
    )?;
    Ok(0)
}

fn drop_one(args: &DropArgs, global: &Global) -> Outcome {
    let name = name_of(&args.name)?;
    let db = open_writer(&args.db, global, false)?;
    find(&db, &name)?;
    // The engine refuses to drop the default keyspace.
    if name != DEFAULT_KEYSPACE && !args.yes {
        let (name, store) = (shown(&name), args.db.display());
        if !confirmed(&format!("Drop the keyspace \"{name}\" of {store} with all its keys?")) {
            return Err(Failure::usage("nothing was dropped; answer y, or pass --yes"));
        }
    }
    db.drop_keyspace(&name)?;
    db.close()?;
    print(global.form(), || json!({ "ok": true }), String::new)?;
    Ok(0)
}

fn rename(args: &RenameArgs, global: &Global) -> Outcome {
    let (name, new_name) = (name_of(&args.name)?, name_of(&args.new_name)?);
    let db = open_writer(&args.db, global, false)?;
    find(&db, &name)?;
    db.rename_keyspace(&name, &new_name)?;
    db.close()?;
    print(global.form(), || json!({ "ok": true }), String::new)?;
    Ok(0)
}

/// A keyspace with the size of its tables.
pub struct Entry {
    keyspace: Keyspace,
    table_bytes: u64,
}

impl Entry {
    /// Returns the entry as an object, with units in the field names.
    pub fn to_json(&self) -> Value {
        let keyspace = &self.keyspace;
        json!({
            "name": keyspace.name(), "number": keyspace.id(), "tree": keyspace.tree(),
            "order": Order::of(keyspace).name(), "table_bytes": self.table_bytes,
            "options": options_to_json(&keyspace.options()),
        })
    }
}

/// Returns the keyspaces of a store: `default`, then the others by name.
pub fn entries(db: &Db) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    for name in db.keyspaces() {
        if let Some(keyspace) = db.existing_keyspace(&name)? {
            let table_bytes = keyspace.size_bytes()?;
            entries.push(Entry { keyspace, table_bytes });
        }
    }
    Ok(entries)
}

/// Formats entries as a table.
pub fn to_text(entries: &[Entry]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["name", "number", "tree", "order", "bytes", "options"]);
    for Entry { keyspace, table_bytes } in entries {
        table.add_row([
            shown(&keyspace.name()),
            keyspace.id().to_string(),
            keyspace.tree().to_string(),
            Order::of(keyspace).name().to_string(),
            human_bytes(*table_bytes),
            options_to_text(&keyspace.options()),
        ]);
    }
    for column in [1, 2, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
