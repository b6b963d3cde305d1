//! `esker shell`: interactive commands with line editing, or a script on standard input.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use clap::Args;
use esker::ErrorKind;
use rustyline::error::ReadlineError;
use rustyline::{CompletionType, Config, Editor};

use crate::args::{Global, KeyspaceFlag};
use crate::failure::{Failure, Outcome, print_line, print_note};
use crate::interrupt;
use crate::shell::answer::Answers;
use crate::shell::complete::Completions;
use crate::shell::history::{History, LINES_MAX};
use crate::shell::session::{Next, Session};
use crate::store::{open_reader, open_writer};

const AFTER_HELP: &str = "\
Each line is one command and gets one answer: OK, the value, NOT FOUND, or ERROR kind: message. \
scan, stats and help print their lines before OK. The shell flushes each answer, so another \
program can drive a store through a pipe. `help` lists the commands.

`begin` begins a transaction, whose reads see its own writes, and `commit` ends it. A conflict is \
`ERROR conflict: message`, and the transaction was rolled back: begin it again. `session NAME` \
continues in another session of the same store, with a transaction of its own.

At a terminal, Ctrl-C stops a command and keeps the session with its open batch or transaction, \
Tab completes commands, options and keys, and scan prints at most 100 pairs (see `limit`). The shell saves input \
lines in esker/history under $XDG_STATE_HOME (~/.local/state), readable only by the owner, except \
lines that begin with a space. ESKER_HISTORY names another file, or is `off`.";

/// Arguments of `shell`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct ShellArgs {
    /// Store directory; created if missing, unless --keyspace names a keyspace
    db: PathBuf,
    /// Open read-only, which also works while another process has the store open
    #[arg(long)]
    read_only: bool,
    /// Stop at the first error
    #[arg(long)]
    bail: bool,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// Runs the session. The exit code of a script is that of its first error, or 0.
pub fn run(args: &ShellArgs, global: &Global) -> Outcome {
    let db = match args.read_only {
        true => open_reader(&args.db, global)?,
        false => open_writer(&args.db, global, !args.keyspace.is_other())?,
    };
    let keyspace = args.keyspace.open(&db)?;
    let mut answers = Answers::new(std::io::stdout(), global.form());
    let by_hand = std::io::stdin().is_terminal();
    let ended = std::thread::scope(|threads| {
        let mut session = if by_hand {
            Session::by_hand(&db, keyspace, threads)
        } else {
            Session::new(&db, keyspace)
        };
        let ended = if by_hand {
            let completions = Completions::new(session.keyspace().clone(), answers.encoding());
            interact(&mut session, &mut answers, args, completions)
        } else {
            script(&mut session, &mut answers, args)
        };
        for message in session.uncommitted() {
            print_note(global.json, &format!("esker: {message}"));
        }
        ended
    });
    db.close()?;
    ended?;
    Ok(if by_hand { 0 } else { answers.first_error_code() })
}

type Out = Answers<std::io::Stdout>;

fn script(
    session: &mut Session<'_, '_>,
    answers: &mut Out,
    args: &ShellArgs,
) -> Result<(), Failure> {
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

fn interact(
    session: &mut Session<'_, '_>,
    answers: &mut Out,
    args: &ShellArgs,
    completions: Completions,
) -> Result<(), Failure> {
    let terminal =
        |error: ReadlineError| Failure::of(ErrorKind::Io, format!("the terminal: {error}"));
    let config = Config::builder()
        .max_history_size(LINES_MAX)
        .map_err(terminal)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .build();
    let mut editor = Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(completions));
    let mut history = History::begin(&mut editor);
    if let Err(error) = interrupt::watch_session() {
        print_line(&format!("esker: cannot handle Ctrl-C, so it ends the session: {error}"));
    }
    print_line(&format!("{}: `help` lists the commands", args.db.display()));
    loop {
        match editor.readline(&session.prompt()) {
            Ok(line) => {
                history.keep(&mut editor, &line);
                interrupt::begin_command();
                if session.run(line.as_bytes(), answers)? == Next::Quit {
                    return Ok(());
                }
                if let Some(completions) = editor.helper_mut() {
                    completions.set_keyspace(session.keyspace().clone());
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal(error)),
        }
    }
}
