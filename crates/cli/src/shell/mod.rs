//! The shell's language: the words of a line, the answers, the session that runs commands, and
//! support for interactive typing.

pub mod answer;
pub mod complete;
pub mod help;
pub mod history;
pub mod keyspaces;
pub mod scan;
pub mod session;
pub mod transaction;
pub mod words;
