//! Generates `bindings/c/include/esker.h`, and a copy for Go, from the functions themselves.

use std::path::Path;

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};

use crate::document;

/// The header, and its copy in the Go module, which a program gets without the rest of the tree.
const FILES: &[&str] = &["bindings/c/include/esker.h", "bindings/go/esker.h"];

/// Files whose public items form the header, in order.
const SOURCES: &[&str] = &[
    "failure.rs",
    "callbacks.rs",
    "own/common.rs",
    "own/options.rs",
    "own/store.rs",
    "own/db.rs",
    "own/batch.rs",
    "own/read.rs",
    "own/iter.rs",
    "own/bulk.rs",
    "own/keyspace.rs",
    "own/keyspace_data.rs",
    "own/merge_and_ttl.rs",
    "own/transaction.rs",
    "own/transaction_data.rs",
    "own/backup.rs",
    "own/runtime.rs",
    "own/observe.rs",
    "own/feed.rs",
    "own/fork.rs",
    "own/ingest.rs",
    "own/encryption.rs",
    "own/follower.rs",
    "own/stream.rs",
    "own/inspect.rs",
    "own/wire.rs",
    "own/reports.rs",
];

const INTRODUCTION: &str = "\
/* Esker's C interface. Made by `cargo xtask headers`; not to be edited by hand.
 *
 * Ownership:
 *  1. An object returned by an esker_*_create function, by esker_open, esker_follow,
 *     esker_get_reader, esker_keyspace_get_reader or esker_transaction_begin is freed once, by the function of the same type that ends in
 *     _destroy, and a keyspace and a slot by esker_keyspace_close and esker_slot_close. Freeing NULL does nothing. The store may be
 *     freed before or after its iterators, snapshots, keyspaces and transactions. Iterators stay
 *     readable until the store is opened again, removed or repaired. Then they may fail, but return
 *     no other data. Snapshots, keyspaces and transactions fail with ESKER_CLOSED.
 *  2. A buffer (a pointer and a length), a string or a path that is passed in is borrowed for the
 *     call. A buffer of length 0 may be NULL. Strings end with a zero byte. Names of keyspaces and
 *     prepared transactions, and names and values of options, are UTF-8.
 *  3. A returned value or text belongs to the caller and is freed with esker_free (or free). Keys
 *     and values of an iterator, and values passed to a callback, are borrowed until the iterator
 *     moves or the callback returns.
 *  4. A function that can fail returns ESKER_OK or one of the codes below. Its last argument may be
 *     NULL. Otherwise *message must be NULL or a text from an earlier call. Only a failure sets it,
 *     to a message that is freed with esker_free. A missing key is not a failure.
 *  5. A NULL handle or a closed store is a failure (ESKER_INVALID_ARGUMENT, ESKER_CLOSED), never a
 *     crash. In a forked child, reads, writes, snapshots and closes of the parent's store fail with
 *     ESKER_CLOSED. A freed handle must not be used.
 *
 * Threads: a store may be used by many threads at once, as may a snapshot, a keyspace and a follower; options,
 * batches, iterators, feeds, diffs, sorted writers, readers of values and transactions by one at a time. A transaction checks that: a call during a
 * call of another thread fails with ESKER_INVALID_ARGUMENT. The caller's own functions
 * (comparators, filters, merge operators, compaction filters, sources of keys, clocks) are called from any thread,
 * by several at once, and listeners by one at a time. They must not throw or jump out, and must not use the store they are called
 * for: its functions then fail with ESKER_INVALID_ARGUMENT.
 *
 * Keys have at most 1 MiB, values at most 1 GiB.
 */";

/// Renders the header.
pub fn render(root: &Path) -> Result<String, String> {
    let config = Config {
        language: Language::C,
        cpp_compat: true,
        include_guard: Some("ESKER_H".into()),
        header: Some(INTRODUCTION.into()),
        style: Style::Type,
        documentation_style: DocumentationStyle::C99,
        line_length: 100,
        sys_includes: vec!["stddef.h".into(), "stdint.h".into()],
        no_includes: true,
        usize_is_size_t: true,
        ..Config::default()
    };
    let mut builder = Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root.join("bindings/c/src").join(source));
    }
    let bindings = builder.generate().map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    Ok(with_void_inputs(&text))
}

/// Declares the byte buffers that functions read as `const void *`, so that a caller passes a
/// `char *` without a cast. Results, structs and the caller's functions keep `const uint8_t *`.
fn with_void_inputs(text: &str) -> String {
    let mut in_functions = false;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        in_functions |= line.starts_with("extern \"C\"");
        if in_functions && !line.starts_with("//") {
            // An argument has a blank or a parenthesis before its type; the type of a result does
            // not.
            let line = line.replace(" const uint8_t *", " const void *");
            out.push_str(&line.replace("(const uint8_t *", "(const void *"));
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Writes the header and its copy.
pub fn write(root: &Path) -> Result<(), String> {
    let text = render(root)?;
    FILES.iter().try_for_each(|file| document::write(root, file, &text))
}

/// Checks that the header and its copy equal the output of [`write()`].
pub fn check(root: &Path) -> Result<(), String> {
    let advice = "the generated header: run `cargo xtask headers` and commit it";
    let text = render(root)?;
    FILES.iter().try_for_each(|file| document::check(root, file, &text, advice))
}

#[cfg(test)]
mod tests {
    use super::with_void_inputs;

    #[test]
    fn only_arguments_of_functions_become_void() {
        let header = "typedef void (*visit_t)(void*, const uint8_t*, size_t);\n\
                      typedef struct {\n  const uint8_t *key;\n} change_t;\n\
                      extern \"C\" {\n\
                      // Reads a const uint8_t *key.\n\
                      const uint8_t *key_of(const uint8_t *key, uint8_t *buffer, \
                      const uint8_t *const *keys);\n";
        let (before, functions) = header.split_once("extern").unwrap();
        let void = with_void_inputs(header);
        let (same, changed) = void.split_once("extern").unwrap();
        assert_eq!(same, before);
        assert_eq!(changed.matches("const uint8_t *").count(), 2);
        assert_eq!(changed.matches("const void *").count(), 2);
        assert_eq!(changed.replace("const void", "const uint8_t"), functions);
    }
}
