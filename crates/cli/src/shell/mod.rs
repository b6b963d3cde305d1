//! The shell's language: words of a line, the answers, and the session that runs commands.

pub mod answer;
pub mod session;
pub mod words;
