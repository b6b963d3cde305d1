//! Keyspaces on the command line: their names, the search for one by name, and the description with
//! which a keyspace is created.
//!
//! Invariants:
//! 1. A name is text. It is printed and read with the escapes of text encoding, whatever the
//!    encoding of keys and values.
//! 2. Only `keyspace create`, and a load of a dump that names keyspaces, create keyspaces. Every
//!    other command fails without the keyspace, so that a misspelt name loses no data.

use std::ffi::OsStr;

use clap::ValueEnum;
use esker::internals::check_keyspace_name;
use esker::{Db, ErrorKind, KeyOrder, Keyspace, KeyspaceOptions};
use serde_json::{Map, Value, json};
use strsim::levenshtein;

use crate::bytes::{Encoding, of_arg};
use crate::failure::Failure;

/// Maximum number of similar names in a message.
const SIMILAR_MAX: usize = 3;

/// Key order of a keyspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Bytes in ascending order
    #[default]
    Bytewise,
    /// The reverse of the bytewise order
    Reverse,
}

impl Order {
    /// Returns the name, as in `--order` and in dumps.
    pub fn name(self) -> &'static str {
        match self {
            Order::Bytewise => "bytewise",
            Order::Reverse => "reverse",
        }
    }

    /// Returns the order with the given name.
    pub fn parse(name: &str) -> Option<Order> {
        [Order::Bytewise, Order::Reverse].into_iter().find(|order| order.name() == name)
    }

    /// Returns the order of a keyspace.
    pub fn of(keyspace: &Keyspace) -> Order {
        match keyspace.key_order() {
            KeyOrder::Reverse => Order::Reverse,
            // The command opens no store with a custom order.
            _ => Order::Bytewise,
        }
    }

    fn key_order(self) -> KeyOrder {
        match self {
            Order::Bytewise => KeyOrder::Bytewise,
            Order::Reverse => KeyOrder::Reverse,
        }
    }
}

/// A keyspace as it is created, and as a dump describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceSpec {
    /// Name.
    pub name: String,
    /// Key order.
    pub order: Order,
    /// Options that differ from the store's, with their values as text.
    pub options: Vec<(String, String)>,
}

impl KeyspaceSpec {
    /// Returns the description of a keyspace that exists.
    pub fn of(keyspace: &Keyspace) -> KeyspaceSpec {
        let (name, options) = (keyspace.name(), keyspace.options());
        KeyspaceSpec { name, order: Order::of(keyspace), options }
    }

    /// Returns the options with which the keyspace is created.
    ///
    /// # Errors
    /// An option is unknown, is the whole store's, or cannot have this value.
    pub fn to_options(&self) -> esker::Result<KeyspaceOptions> {
        let mut options = KeyspaceOptions::default().key_order(self.order.key_order());
        for (name, value) in &self.options {
            options = options.set(name, value)?;
        }
        Ok(options)
    }

    /// Returns the description as an object.
    pub fn to_json(&self) -> Value {
        let options = options_to_json(&self.options);
        json!({ "name": self.name, "order": self.order.name(), "options": options })
    }

    /// Reads the object of [`KeyspaceSpec::to_json`].
    pub fn from_json(value: &Value) -> Result<KeyspaceSpec, String> {
        let text = |value: Option<&Value>, what: &str| {
            let text = value.and_then(Value::as_str).map(String::from);
            text.ok_or_else(|| format!("the {what} of the keyspace is no string"))
        };
        let name = text(value.get("name"), "name")?;
        check_keyspace_name(&name).map_err(|error| error.message().to_string())?;
        let order = text(value.get("order"), "order")?;
        let order = Order::parse(&order).ok_or_else(|| {
            format!("the order of the keyspace is {order:?}; expected bytewise or reverse")
        })?;
        let options = value.get("options").and_then(Value::as_object);
        let options = options.ok_or("the options of the keyspace are no object")?;
        let pair = |(name, value): (&String, &Value)| {
            text(Some(value), &format!("option {name:?}")).map(|value| (name.clone(), value))
        };
        let options = options.iter().map(pair).collect::<Result<_, _>>()?;
        Ok(KeyspaceSpec { name, order, options })
    }
}

/// Returns options as an object.
pub fn options_to_json(options: &[(String, String)]) -> Value {
    let fields = options.iter().map(|(name, value)| (name.clone(), json!(value)));
    Value::Object(fields.collect::<Map<String, Value>>())
}

/// Returns options as text: `NAME=VALUE`, separated by spaces.
pub fn options_to_text(options: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}

/// Returns the name that an argument spells.
pub fn name_of(arg: &OsStr) -> Result<String, Failure> {
    let bytes = Encoding::Text.read(of_arg(arg));
    name_of_bytes(bytes.map_err(|why| Failure::usage(format!("the name of the keyspace: {why}")))?)
}

/// Returns the name that consists of these bytes.
pub fn name_of_bytes(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage("the name of a keyspace must be UTF-8 text"))
}

/// Returns a name as it is printed.
pub fn shown(name: &str) -> String {
    let mut out = Vec::new();
    Encoding::Text.write(name.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the keyspace `name` of a store.
///
/// # Errors
/// No keyspace may have this name. Or no keyspace has it; the message has the nearest names.
pub fn find(db: &Db, name: &str) -> Result<Keyspace, Failure> {
    check_keyspace_name(name)?;
    if let Some(keyspace) = db.existing_keyspace(name)? {
        return Ok(keyspace);
    }
    let message = missing(name, &db.keyspaces());
    Err(esker::internals::error(ErrorKind::NotFound, message, Some(db.path())).into())
}

/// Creates a keyspace.
///
/// # Errors
/// The keyspace exists; an error of [`KeyspaceSpec::to_options`] or of [`Db::keyspace`].
pub fn create(db: &Db, spec: &KeyspaceSpec) -> Result<Keyspace, Failure> {
    let options = spec.to_options()?;
    if db.existing_keyspace(&spec.name)?.is_some() {
        let message = format!("the keyspace \"{}\" exists already", shown(&spec.name));
        return Err(Failure::usage(message));
    }
    Ok(db.keyspace(&spec.name, &options)?)
}

/// Returns the message that no keyspace has the name `name`.
fn missing(name: &str, names: &[String]) -> String {
    let quoted: Vec<String> =
        similar(name, names).iter().map(|name| format!("\"{}\"", shown(name))).collect();
    let hint = match (quoted.as_slice(), names.len()) {
        ([], 0 | 1) => "the store has only the keyspace \"default\"".to_string(),
        ([], count) => format!("none of the {count} keyspaces has a similar name"),
        ([nearest], _) => format!("the nearest name is {nearest}"),
        (nearest, _) => format!("the nearest names are {}", nearest.join(", ")),
    };
    format!("there is no keyspace \"{}\"; {hint}", shown(name))
}

/// Returns the names that are most like `name`, the nearest first.
fn similar<'n>(name: &str, names: &'n [String]) -> Vec<&'n str> {
    let wanted = name.to_lowercase();
    let wanted_len = wanted.chars().count();
    let distance_max = (wanted_len / 3).max(1);
    let distance_to = |known: &'n String| {
        let lower = known.to_lowercase();
        if lower.starts_with(&wanted) || wanted.starts_with(&lower) {
            return Some((1, known.as_str()));
        }
        if lower.chars().count().abs_diff(wanted_len) > distance_max {
            return None;
        }
        let found = levenshtein(&wanted, &lower);
        (found <= distance_max).then_some((found, known.as_str()))
    };
    let mut near: Vec<(usize, &str)> = names.iter().filter_map(distance_to).collect();
    near.sort_unstable();
    near.into_iter().take(SIMILAR_MAX).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn similar_names_are_found_and_other_names_are_not() {
        let known = names(&["default", "users", "Orders", "uses", "sessions-2024", "user-index"]);
        assert_eq!(similar("usrs", &known), ["users", "uses"]);
        assert_eq!(similar("orders", &known), ["Orders"]);
        assert_eq!(similar("sessions", &known), ["sessions-2024"]);
        assert_eq!(similar("user", &known), ["user-index", "users", "uses"]);
        assert!(similar("nothing-like-it", &known).is_empty());
        assert_eq!((levenshtein("", "abc"), levenshtein("abc", "")), (3, 3));
        assert_eq!((levenshtein("kitten", "sitting"), levenshtein("same", "same")), (3, 0));
    }

    #[test]
    fn message_for_a_missing_keyspace_has_the_nearest_names() {
        let message = |name: &str, known: &[&str]| missing(name, &names(known));
        assert!(
            message("x", &["default"]).ends_with("; the store has only the keyspace \"default\"")
        );
        assert!(message("x", &["default", "users"]).contains("none of the 2 keyspaces"));
        assert!(message("user", &["default", "users"]).ends_with("the nearest name is \"users\""));
        let two = message("usrs", &["default", "users", "uses"]);
        assert_eq!(two, "there is no keyspace \"usrs\"; the nearest names are \"users\", \"uses\"");
        assert!(message("\u{202e}", &["default"]).contains("\\xe2\\x80\\xae"));
    }

    #[test]
    fn descriptions_round_trip_and_bad_ones_have_a_reason() {
        let options = vec![("compression".to_string(), "none".to_string())];
        let spec = KeyspaceSpec { name: "a \"b\"".into(), order: Order::Reverse, options };
        assert_eq!(KeyspaceSpec::from_json(&spec.to_json()), Ok(spec.clone()));
        assert!(spec.to_options().is_ok());
        for (value, why) in [
            (json!(null), "the name"),
            (json!({ "name": "" }), "is empty"),
            (json!({ "name": "n".repeat(256) }), "256 bytes"),
            (json!({ "name": "a", "order": "up" }), "\"up\""),
            (json!({ "name": "a", "order": "reverse" }), "no object"),
            (json!({ "name": "a", "order": "reverse", "options": { "policy": 1 } }), "\"policy\""),
        ] {
            let found = KeyspaceSpec::from_json(&value).unwrap_err();
            assert!(found.contains(why), "{found} lacks {why}");
        }
    }
}
