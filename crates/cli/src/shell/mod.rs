//! The shell's language: words of a line, the answers, and the session that runs commands; and what
//! helps to type them.

pub mod answer;
pub mod complete;
pub mod history;
pub mod session;
pub mod words;
