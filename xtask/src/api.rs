//! The public interface of the engine: its items, read from rustdoc's JSON, and their number.
//!
//! An item is a module, type, trait, function, method or constant that a program can name. Fields and
//! variants are counted apart: an option or a metric is one of each. A user of the crate depends on
//! all of them, so their number is limited (decision 0055). The limits may only be lowered, except in
//! a commit that adds a feature and says so there.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::tidy::interface::NAMES_MAX as ROOT_NAMES_MAX;

/// Maximum number of items.
const ITEMS_MAX: usize = 431;

/// The items of a crate, by path.
#[derive(Default)]
struct Api {
    items: BTreeSet<String>,
    /// How many of the items are methods, or constants of a type.
    methods: usize,
    parts: BTreeSet<String>,
    root: usize,
}

/// Prints the items and checks their number.
pub fn check(root: &Path, list: bool) -> Result<(), String> {
    let api = read(root)?;
    if list {
        for item in &api.items {
            println!("{item}");
        }
    }
    println!(
        "public items {} (at most {ITEMS_MAX}), of which {} names and {} methods; names in the root \
         {} (at most {ROOT_NAMES_MAX}); fields and variants {}",
        api.items.len(),
        api.items.len() - api.methods,
        api.methods,
        api.root,
        api.parts.len()
    );
    if api.items.len() > ITEMS_MAX || api.root > ROOT_NAMES_MAX {
        return Err("the public interface has too many items: make some of them private".into());
    }
    Ok(())
}

fn read(root: &Path) -> Result<Api, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), |dir| root.join(dir));
    let run = Command::new("cargo")
        .args(["rustdoc", "--quiet", "--package", "esker", "--lib", "--target-dir"])
        .arg(&target)
        .args(["--features", "lz4,snappy,zstd", "--"])
        .args(["-Z", "unstable-options", "--output-format", "json"])
        // The JSON is an unstable format of the stable compiler.
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTDOCFLAGS")
        .current_dir(root)
        .status();
    match run {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("cargo rustdoc ended with {status}")),
        Err(error) => return Err(format!("cargo rustdoc cannot be started: {error}")),
    }
    let path = target.join("doc/esker.json");
    let text = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let json: Value =
        serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut api = Api::default();
    module(&json, &json["root"], "esker", &mut api);
    if api.items.is_empty() {
        return Err(format!("{} lists no items: its format has changed", path.display()));
    }
    Ok(api)
}

fn of<'a>(json: &'a Value, id: &Value) -> &'a Value {
    let id = id.as_u64().map_or_else(|| id.as_str().unwrap_or("").to_string(), |n| n.to_string());
    &json["index"][id.as_str()]
}

fn ids(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn module(json: &Value, id: &Value, path: &str, api: &mut Api) {
    for id in ids(&of(json, id)["inner"]["module"]["items"]) {
        let item = of(json, id);
        if item["visibility"] != "public" {
            continue;
        }
        if path == "esker" {
            api.root += 1;
        }
        let used = &item["inner"]["use"];
        if used.is_object() {
            let name = used["name"].as_str().unwrap_or("?");
            named(json, &used["id"], &format!("{path}::{name}"), api);
        } else {
            let name = item["name"].as_str().unwrap_or("?");
            named(json, id, &format!("{path}::{name}"), api);
        }
    }
}

fn named(json: &Value, id: &Value, path: &str, api: &mut Api) {
    let item = of(json, id);
    api.items.insert(path.to_string());
    let inner = &item["inner"];
    if inner["module"].is_object() {
        return module(json, id, path, api);
    }
    for id in ids(&inner["trait"]["items"]) {
        member(json, id, path, api);
    }
    let fields = &inner["struct"]["kind"]["plain"]["fields"];
    for id in ids(fields).chain(ids(&inner["enum"]["variants"])) {
        let part = of(json, id);
        if part["visibility"] != "crate" {
            api.parts.insert(format!("{path}.{}", part["name"].as_str().unwrap_or("?")));
        }
    }
    for kind in ["struct", "enum"] {
        for id in ids(&inner[kind]["impls"]) {
            let block = &of(json, id)["inner"]["impl"];
            if block["trait"].is_null() {
                for id in ids(&block["items"]) {
                    member(json, id, path, api);
                }
            }
        }
    }
}

fn member(json: &Value, id: &Value, path: &str, api: &mut Api) {
    let item = of(json, id);
    // Members of a trait have its visibility.
    if item["visibility"] == "public" || item["visibility"] == "default" {
        let name = format!("{path}::{}", item["name"].as_str().unwrap_or("?"));
        api.methods += usize::from(api.items.insert(name));
    }
}
