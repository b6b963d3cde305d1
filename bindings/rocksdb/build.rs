//! Makes the functions of `functions.tsv` that are not written by hand: `stubs.rs` in `OUT_DIR`.
//!
//! A row has five columns: name, signature, status, how it is made, and a note. A signature has a
//! letter for each argument, `>`, and a letter for the result: `p` pointer, `e` place of an error
//! text, `z` size_t, `i` int, `u` unsigned int, `I` int64_t, `U` uint64_t, `b` unsigned char, `d`
//! double, `v` none, `s` a slice by value. How a function is made:
//!
//! | how | function |
//! |---|---|
//! | `rust` | written by hand in `src/` |
//! | `make`, `free` | creates and frees an object that has settings alone |
//! | `set KEY` | stores its arguments as the setting KEY |
//! | `only KEY VALUE` | the same, and refuses any other value |
//! | `get KEY VALUE` | returns the setting KEY, by default VALUE |
//! | `none` | does nothing and returns 0 or null |
//! | `refuse` | reports that it is refused, in its error text or at the next call that has one |
//! | `refuse state` | the same, and frees the state of its caller: the first two arguments |
//! | `refuse in` | the same, at the next call with the option object that is its first argument |

use std::fmt::Write;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=functions.tsv");
    let table = std::fs::read_to_string("functions.tsv").unwrap_or_else(|error| {
        panic!("functions.tsv cannot be read: {error}");
    });
    let (mut code, mut accepted, mut settings) = (String::new(), Vec::new(), Vec::new());
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, signature, status, how, note] = columns[..] else {
            panic!("functions.tsv: expected five columns in {line:?}");
        };
        let row = Row::new(name, signature, (status, how), note);
        row.write(&mut code);
        let of_store = name.starts_with("rocksdb_options_set_");
        if let Some(key) = how.strip_prefix("set ") {
            if of_store {
                settings.push((key, row.arguments.get(1).copied().unwrap_or('i')));
            }
            if status == "accepted" && (of_store || name.starts_with("rocksdb_block_based_")) {
                accepted.push(key);
            }
        }
    }
    let _ = writeln!(code, "/// Settings of a store and of its tables that have no effect.");
    let _ = writeln!(code, "const ACCEPTED: &[&str] = &{accepted:?};");
    let _ = writeln!(code, "/// Settings of a store, with the letter of their type.");
    let _ = writeln!(code, "const SETTINGS: &[(&str, char)] = &{settings:?};");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(error) = std::fs::write(out.join("stubs.rs"), code) {
        panic!("the functions cannot be written: {error}");
    }
}

struct Row<'a> {
    name: &'a str,
    arguments: Vec<char>,
    result: char,
    is_accepted: bool,
    how: Vec<&'a str>,
    note: &'a str,
}

impl<'a> Row<'a> {
    fn new(
        name: &'a str,
        signature: &'a str,
        (status, how): (&'a str, &'a str),
        note: &'a str,
    ) -> Row<'a> {
        let Some((arguments, result)) = signature.split_once('>') else {
            panic!("functions.tsv: {name}: expected a > in {signature:?}");
        };
        let result = result.chars().next().unwrap_or('v');
        let how = how.split(' ').collect();
        let is_accepted = status == "accepted";
        Row { name, arguments: arguments.chars().collect(), result, is_accepted, how, note }
    }

    fn write(&self, code: &mut String) {
        let body = match self.how[..] {
            ["rust"] => return,
            ["make"] => "settings::make()".to_string(),
            ["free"] => "unsafe { settings::free(a0) }".to_string(),
            ["set", key] => self.setter(key),
            ["only", key, value] => self.guarded_setter(key, value),
            ["get", key, value] => self.getter(key, value),
            ["none"] => zero(self.result).to_string(),
            ["refuse"] => self.refusal(),
            ["refuse", "state"] => format!("unsafe {{ free_state(a0, a1) }}; {}", self.refusal()),
            ["refuse", "in"] => self.refusal_in(),
            _ => panic!("functions.tsv: {}: unknown way {:?}", self.name, self.how),
        };
        let body = match self.how[..] {
            ["set" | "none", ..] if self.is_accepted => format!(
                "static SEEN: AtomicBool = AtomicBool::new(false); accepted::note(&SEEN, {:?}); {body}",
                self.name
            ),
            _ => body,
        };
        let note = if self.note.is_empty() { "Kept without effect." } else { self.note };
        let used = |at: usize| {
            let name = format!("a{at}");
            let mut found = body.match_indices(&name).map(|(start, _)| start + name.len());
            found.any(|end| !body[end..].starts_with(|next: char| next.is_ascii_digit()))
        };
        let arguments = self.arguments.iter().enumerate().map(|(at, kind)| {
            let unused = if used(at) { "" } else { "_" };
            format!("{unused}a{at}: {}", rust(*kind))
        });
        let arguments: Vec<String> = arguments.collect();
        let result = match self.result {
            'v' => String::new(),
            kind => format!(" -> {}", rust(kind)),
        };
        let name = self.name;
        let _ = writeln!(
            code,
            "/// {note}\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}){result} {{\n    \
             // SAFETY: the caller meets RocksDB's contract for its objects and error texts.\n    \
             {body}\n}}\n",
            arguments.join(", ")
        );
    }

    fn setter(&self, key: &str) -> String {
        let mut calls = String::new();
        for (at, kind) in self.arguments.iter().enumerate().skip(1) {
            let key = if at == 1 { key.to_string() } else { format!("{key}.{}", at - 1) };
            let _ = write!(calls, "settings::set(a0, {key:?}, {}); ", bits(at, *kind));
        }
        if calls.is_empty() {
            calls = format!("settings::set(a0, {key:?}, 1); ");
        }
        format!("unsafe {{ {calls}}}")
    }

    fn guarded_setter(&self, key: &str, value: &str) -> String {
        let (name, note) = (self.name, self.note);
        let kind = self.arguments.get(1).copied().unwrap_or('i');
        format!(
            "unsafe {{ settings::set(a0, {key:?}, {}); if a1 != {value} {{ settings::refuse(a0, \
             {name:?}, {note:?}) }} }}",
            bits(1, kind)
        )
    }

    fn getter(&self, key: &str, value: &str) -> String {
        let default = match self.result {
            'd' => format!("f64::to_bits({value}_f64)"),
            'U' | 'z' | 'u' | 'b' => value.to_string(),
            _ => format!("({value}_i64) as u64"),
        };
        let bits = format!("settings::get(a0, {key:?}, {default})");
        let value = match self.result {
            'd' => format!("f64::from_bits({bits})"),
            'U' => bits,
            kind => format!("{bits} as {}", rust(kind)),
        };
        format!("unsafe {{ {value} }}")
    }

    fn refusal(&self) -> String {
        let (name, note, zero) = (self.name, self.note, zero(self.result));
        match self.arguments.iter().position(|kind| *kind == 'e') {
            Some(at) => format!("unsafe {{ refuse(a{at}, {name:?}, {note:?}) }}; {zero}"),
            None => format!("pend(refusal({name:?}, {note:?})); {zero}"),
        }
    }

    /// A null object as the second argument asks for nothing.
    fn refusal_in(&self) -> String {
        let (name, note, zero) = (self.name, self.note, zero(self.result));
        let refuse = format!("unsafe {{ settings::refuse(a0, {name:?}, {note:?}) }}");
        match self.arguments.get(1) {
            Some('p') => format!("if !a1.is_null() {{ {refuse} }} {zero}"),
            _ => format!("{refuse}; {zero}"),
        }
    }
}

fn rust(kind: char) -> &'static str {
    match kind {
        'p' => "*mut c_void",
        'e' => "*mut *mut c_char",
        'z' => "usize",
        'i' => "i32",
        'u' => "u32",
        'I' => "i64",
        'U' => "u64",
        'b' => "u8",
        'd' => "f64",
        other => panic!("functions.tsv: unknown letter {other:?} of a type"),
    }
}

fn zero(kind: char) -> &'static str {
    match kind {
        'v' => "",
        'p' => "std::ptr::null_mut()",
        'd' => "0.0",
        _ => "0",
    }
}

/// Returns an argument as 64 bits.
fn bits(at: usize, kind: char) -> String {
    match kind {
        'U' => format!("a{at}"),
        'd' => format!("a{at}.to_bits()"),
        'p' => format!("u64::from(!a{at}.is_null())"),
        'i' => format!("i64::from(a{at}) as u64"),
        'u' | 'b' => format!("u64::from(a{at})"),
        _ => format!("a{at} as u64"),
    }
}
