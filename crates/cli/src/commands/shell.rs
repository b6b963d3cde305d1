//! `esker shell`: commands by hand with line editing, or a script on standard input.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use esker::ErrorKind;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::args::Global;
use crate::failure::{Failure, Outcome, say, tell};
use crate::shell::answer::Answers;
use crate::shell::session::{Next, Session};
use crate::store::{open_reader, open_writer};

const AFTER_HELP: &str = "\
One command a line, one answer a command: OK, the value, NOT FOUND, or ERROR kind: message. The \
lines of scan, stats and help come before their OK. Answers are flushed at once, so another \
program can drive a store through a pipe. `help` lists the commands.";

/// Arguments of `shell`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct ShellArgs {
    /// The store's directory; made if it is not there
    db: PathBuf,
    /// Open for reading only, also while another process has the store
    #[arg(long)]
    read_only: bool,
    /// End at the first error
    #[arg(long)]
    bail: bool,
}

/// Runs the session; the exit code is that of the first error, 0 when there was none.
pub fn run(args: &ShellArgs, global: &Global) -> Outcome {
    let db = match args.read_only {
        true => open_reader(&args.db, global)?,
        false => open_writer(&args.db, global, true)?,
    };
    let mut answers = Answers::new(std::io::stdout(), global.form());
    let mut session = Session::new(&db);
    let by_hand = std::io::stdin().is_terminal();
    let ended = if by_hand {
        interact(&mut session, &mut answers, args)
    } else {
        script(&mut session, &mut answers, args)
    };
    let code = answers.first_error_code();
    if let Some(count) = session.uncommitted() {
        tell(global.json, &format!("esker: the batch of {count} operations was not committed"));
    }
    drop(session);
    db.close()?;
    ended?;
    Ok(if by_hand { 0 } else { code })
}

type Out = Answers<std::io::Stdout>;

fn script(session: &mut Session<'_>, answers: &mut Out, args: &ShellArgs) -> Result<(), Failure> {
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.read_until(b'\n', &mut line);
        let read = read.map_err(|e| Failure::file("read", "standard input".as_ref(), &e))?;
        if read == 0 || session.run(&line, answers)? == Next::Quit {
            return Ok(());
        }
        if args.bail && answers.first_error_code() != 0 {
            return Ok(());
        }
    }
}

fn interact(session: &mut Session<'_>, answers: &mut Out, args: &ShellArgs) -> Result<(), Failure> {
    let terminal =
        |error: ReadlineError| Failure::of(ErrorKind::Io, format!("the terminal: {error}"));
    let mut editor = DefaultEditor::new().map_err(terminal)?;
    // Keys and values are the user's business: they are kept in a file only where asked for.
    let history = std::env::var_os("ESKER_HISTORY").map(PathBuf::from);
    if let Some(path) = &history {
        let _ = editor.load_history(path);
    }
    let _ = writeln!(std::io::stderr(), "{}: `help` lists the commands", args.db.display());
    let result = loop {
        let prompt = if session.uncommitted().is_some() { "batch> " } else { "esker> " };
        match editor.readline(prompt) {
            Ok(line) => {
                let _ = editor.add_history_entry(&line);
                if session.run(line.as_bytes(), answers)? == Next::Quit {
                    break Ok(());
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break Ok(()),
            Err(error) => break Err(terminal(error)),
        }
    };
    save_history(&mut editor, history.as_deref());
    result
}

fn save_history(editor: &mut DefaultEditor, path: Option<&Path>) {
    if let Some(path) = path
        && let Err(error) = editor.save_history(path)
    {
        say(&format!("esker: {}: cannot save the history: {error}", path.display()));
    }
}
