//! Golden scripts about transactions: the scenarios of Martin Kleppmann's Hermitage in
//! `tests/scripts/isolation`, and scripts in the manner of toyDB's tests of its MVCC in
//! `tests/scripts/mvcc`, in words of our own. Each script runs with snapshot isolation and with
//! serializability, optimistic and pessimistic, and has the expected outputs of all four.
//!
//! `ESKER_REWRITE=yes` rewrites the outputs in place; review the diff then.
//!
//! ```text
//! ESKER_REWRITE=yes cargo test -p esker --test isolation_scripts
//! ```
//!
//! # Commands
//!
//! The form of a script is that of `tests/scripts.rs`. A line of output that begins with modes in
//! brackets belongs to these modes, and another line to all four. A key is `KEY`, or `KEYSPACE:KEY`; a keyspace
//! is created when it is named. Commands without a result print nothing, or `ok` if other modes
//! print something.
//!
//! | Command | Effect |
//! |---|---|
//! | `put K V`, `delete K`, `delete-range A B` | writes outside of transactions |
//! | `get K`, `scan [KEYSPACE: \| A B] [divisible N]` | reads the committed pairs |
//! | `begin T` | begins the transaction T |
//! | `T get K`, `T scan …`, `T put K V`, `T delete K`, `T delete-range A B` | calls of T |
//! | `T get-for-update K` | reads a key and protects it as a write does |
//! | `T savepoint`, `T rollback-to-savepoint` | sets a savepoint, and returns to it |
//! | `T commit`, `T rollback` | ends T |
//! | `T prepare NAME` | prepares T under a name |
//! | `prepared`, `commit-prepared NAME`, `rollback-prepared NAME` | of prepared transactions |
//! | `flush` | writes the memtables to tables |
//! | `kill` | ends the process, and opens the store in another one |
//!
//! `divisible N` prints only the pairs with such a value; the scan reads, and protects, all.
//!
//! `conflict` means that the call found a conflict, and T was rolled back. `waits` means that
//! another transaction has a lock that the call needs: T makes the call again after each end of
//! another transaction, and the output then stands under the command that ended it. The later calls
//! of T wait behind it. Where transactions wait for each other, the script rolls one of them back,
//! as a program does after `Deadlock`; `tests/transactions.rs` has the detection.

mod golden_script;
mod isolation_runner;

use golden_script::{Interpreter, run_folder};
use isolation_runner::Session;

/// Returns an interpreter with empty stores.
fn interpreter() -> Interpreter {
    let mut session = Session::new();
    Box::new(move |command| session.run(command))
}

#[test]
fn isolation_scripts() {
    run_folder("isolation", 20, interpreter);
}

#[test]
fn mvcc_scripts() {
    run_folder("mvcc", 20, interpreter);
}

#[test]
fn outputs_that_differ_between_modes_have_labels() {
    let mut run = interpreter();
    for command in ["put 1 10", "begin a", "begin b", "a get 1", "b put 1 11"] {
        run(command).unwrap();
    }
    assert_eq!(
        run("b get 1").unwrap(),
        ["[all but serializable pessimistic] 11", "[serializable pessimistic] waits"]
    );
    assert!(run("c get 1").is_err() && run("a unknown").is_err());
}
