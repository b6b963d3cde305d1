//! Sets of options that a user names, read from a file: the TOML file that a tuning writes, or lines
//! `name=value` as in a YCSB property file.

/// Options of a set: names and values.
pub type Options = Vec<(String, String)>;

/// Returns the options of a TOML file, in it or in its table `engine`, or of lines `name=value`. Those of
/// the table have the names `engine.name`.
///
/// # Errors
/// A line has no `=`, or a value is a list or a table.
pub fn options_of(text: &str, engine: &str) -> Result<Options, String> {
    let Ok(table) = toml::from_str::<toml::Table>(text) else {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let pair = |line: &str| match line.split_once('=') {
            Some((name, value)) => Ok((name.trim().to_string(), value.trim().to_string())),
            None => Err(format!("expected NAME=VALUE, found {line:?}")),
        };
        return lines.filter(|line| !line.starts_with('#')).map(pair).collect();
    };
    // The names of the engine's table get its name in front, as in lines.
    let mut all = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(own) if name == engine => {
                all.extend(
                    own.into_iter().map(|(name, value)| (format!("{engine}.{name}"), value)),
                );
            }
            value => all.push((name, value)),
        }
    }
    let pair = |(name, value): (String, toml::Value)| match value {
        toml::Value::String(text) => Ok((name, text)),
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => {
            Ok((name, value.to_string()))
        }
        _ => Err(format!("{name}: expected a number, a text or true or false, found {value}")),
    };
    all.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_from_toml_tables_and_from_lines() {
        let pairs = |list: [(&str, &str); 2]| {
            Ok(list.map(|(name, value)| (name.to_string(), value.to_string())).to_vec())
        };
        let wanted = pairs([("block_size", "2048"), ("compression", "none")]);
        for text in [
            "block_size = 2048\ncompression = \"none\"",
            "# by hand\nblock_size=2048\n\n compression = none\n",
        ] {
            assert_eq!(options_of(text, "leveldb"), wanted, "{text}");
        }
        let own =
            "# what it brings\n[leveldb]\nblock_size = 2048 # alone\ncompression = \"none\"\n";
        let wanted = pairs([("leveldb.block_size", "2048"), ("leveldb.compression", "none")]);
        assert_eq!(options_of(own, "leveldb"), wanted);
        let both = "block_size = 2048\nleveldb.compression = \"none\"";
        let wanted = pairs([("block_size", "2048"), ("leveldb.compression", "none")]);
        assert_eq!(options_of(both, "leveldb"), wanted);
        assert!(options_of(own, "rocksdb").is_err_and(|why| why.contains("leveldb")));
        assert!(options_of("block_size", "leveldb").is_err_and(|why| why.contains("NAME=VALUE")));
        assert!(options_of("block_size = [1]", "leveldb").is_err());
    }
}
