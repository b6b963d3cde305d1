//! Check of the length of files and functions.

use super::rules::{FILE_LINES_MAX, FUNCTION_LINES_MAX};
use super::source::{Source, closing_brace};

/// Reports files and functions above the maximum length.
pub fn check(source: &Source, problems: &mut Vec<String>) {
    let path = source.path.display();
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        problems.push(format!("{path}:1: {lines} lines; the most is {FILE_LINES_MAX}"));
    }
    for at in source.words("fn") {
        let Some(open) = body(&source.code, at) else { continue };
        let (first, last) = (source.line_of(at), source.line_of(closing_brace(&source.code, open)));
        let lines = last + 1 - first;
        if lines > FUNCTION_LINES_MAX {
            problems.push(format!(
                "{path}:{first}: a function of {lines} lines; the most is {FUNCTION_LINES_MAX}"
            ));
        }
    }
}

/// Returns the start of the body of the function whose `fn` is at `at`; `None` without a body, as
/// in a trait or a type.
fn body(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (i, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(i),
            b';' | b'}' | b',' | b'=' if depth <= 0 && !arrow(code, i) && !generic(code, at, i) => {
                return None;
            }
            _ if depth < 0 => return None,
            _ => {}
        }
    }
    None
}

/// Returns whether the `=` at `i` is the first of `==`, which does not end a signature.
fn arrow(code: &str, i: usize) -> bool {
    code.as_bytes()[i] == b'=' && matches!(code.as_bytes().get(i + 1), Some(b'='))
}

/// Returns whether a comma or `=` at `i` is within the angle brackets or the `where` of a
/// signature.
fn generic(code: &str, at: usize, i: usize) -> bool {
    let signature = &code[at..i];
    let opened = signature.matches('<').count();
    let closed = signature.matches('>').count() - signature.matches("->").count();
    matches!(code.as_bytes()[i], b',' | b'=') && (opened > closed || signature.contains("where"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: String) -> Vec<String> {
        let mut problems = Vec::new();
        check(&Source::new("x.rs".into(), text), &mut problems);
        problems
    }

    #[test]
    fn long_functions_are_found_and_types_are_ignored() {
        let long = "\n".repeat(80);
        for head in
            ["fn f() {", "fn f<A: Into<B>, B>(a: [u8; 4]) -> Vec<A> where A: X, B: Y<C = D> {"]
        {
            assert_eq!(problems(format!("{head}{long}}}")).len(), 1, "{head}");
        }
        assert!(
            problems(format!("struct S {{ f: fn(u8) -> u8, g: u8 }}\nmod m {{{long}}}")).is_empty()
        );
        assert!(problems(format!("trait T {{ fn f(&self); }}\nmod m {{{long}}}")).is_empty());
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(problems("\n".repeat(601)).len(), 1);
        assert!(problems("\n".repeat(600)).is_empty());
    }
}
