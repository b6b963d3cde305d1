//! The shell's commands that create, drop and rename keyspaces.
//!
//! Invariant: the keyspace in use is not dropped.

use esker::{Db, Keyspace};

use super::words::Words;
use crate::bytes::Encoding;
use crate::failure::Failure;
use crate::keyspaces::{KeyspaceSpec, Order, create, find, name_of_bytes, shown};

/// Reads the name of a keyspace, which is text in every encoding of keys. Returns `None` if no word
/// is left.
pub fn name(words: &mut Words<'_>) -> Result<Option<String>, Failure> {
    let bytes = words.bytes(Encoding::Text).map_err(Failure::usage)?;
    bytes.map(name_of_bytes).transpose()
}

/// Runs the command `keyspace` with the given words. `current` is the keyspace in use.
///
/// # Errors
/// The words are no such command; an error of the engine.
pub fn change(db: &Db, current: &Keyspace, mut words: Words<'_>) -> Result<(), Failure> {
    let what = words.raw().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase());
    let what = what.unwrap_or_default();
    let missing = || Failure::usage(format!("keyspace {what} needs a name; try help"));
    match what.as_str() {
        "create" => {
            let name = name(&mut words)?.ok_or_else(missing)?;
            create(db, &read_spec(name, words)?)?;
        }
        "drop" => {
            let name = name(&mut words)?.ok_or_else(missing)?;
            end(&words)?;
            if find(db, &name)?.id() == current.id() && current.id() != 0 {
                return Err(Failure::usage(format!(
                    "the keyspace \"{}\" is in use; `use` another one first",
                    shown(&name)
                )));
            }
            db.drop_keyspace(&name)?;
        }
        "rename" => {
            let name_now = name(&mut words)?.ok_or_else(missing)?;
            let name_then = name(&mut words)?.ok_or_else(missing)?;
            end(&words)?;
            find(db, &name_now)?;
            db.rename_keyspace(&name_now, &name_then)?;
        }
        _ => return Err(Failure::usage("keyspace takes create, drop or rename; try help")),
    }
    Ok(())
}

/// Reads the words of `keyspace create` after the name: `order=ORDER`, and options as `NAME=VALUE`.
fn read_spec(name: String, mut words: Words<'_>) -> Result<KeyspaceSpec, Failure> {
    let mut spec = KeyspaceSpec { name, order: Order::Bytewise, options: Vec::new() };
    while let Some(word) = words.raw() {
        let word = String::from_utf8_lossy(word);
        let Some((name, value)) = word.split_once('=') else {
            return Err(Failure::usage(format!(
                "keyspace create takes NAME=VALUE, found {word:?}"
            )));
        };
        if name == "order" {
            spec.order = Order::parse(value).ok_or_else(|| {
                Failure::usage(format!("the order is bytewise or reverse, found {value:?}"))
            })?;
        } else {
            spec.options.push((name.to_string(), value.to_string()));
        }
    }
    Ok(spec)
}

fn end(words: &Words<'_>) -> Result<(), Failure> {
    if words.is_empty() {
        return Ok(());
    }
    Err(Failure::usage("keyspace takes fewer words; quote a name that contains a space"))
}
