//! The text of the shell's `help`.

/// One line for each command.
pub const HELP: &str = "\
put KEY VALUE             set KEY to VALUE, which is the rest of the line
get KEY                   print the value, or NOT FOUND
delete KEY                delete KEY; a missing KEY is not an error
deleterange FROM TO       delete the keys from FROM (included) to TO (excluded)
batch                     collect the following writes, which nobody reads until their commit
begin [WORD ...]          begin a transaction, which reads its own writes; the words: optimistic or
                          pessimistic, snapshot or serializable, lock_timeout_ms=N
getforupdate KEY          get KEY, and protect it from others as a write would
savepoint                 set a savepoint in the transaction; savepoints nest
rollback to savepoint     take back the writes after the last savepoint, and remove it
release savepoint         remove the last savepoint and keep the writes after it
commit                    apply the batch or the transaction atomically
rollback, abort           discard the batch or the transaction
session [NAME]            continue in the session NAME, which has its own batch or transaction,
                          snapshot, sync and keyspace; print the name of the session
scan [FROM [TO]]          print the pairs from FROM (included) to TO (excluded), as put takes them
rscan [FROM [TO]]         print the same pairs in reverse order
prefix PREFIX             print the pairs whose key starts with PREFIX
count [FROM [TO]]         print the number of pairs from FROM to TO
limit [N|off]             limit the pairs that scan, rscan and prefix print; 100 at a terminal
snapshot [on|off]         read from a snapshot of the store, until off
sync on|off               make each write and commit survive a power loss before its OK
flush                     write the memtable to table files
compact [FROM [TO]]       compact the tables of the keyspace in use
use [NAME]                use the keyspace NAME from now on; print the name of the one in use
keyspaces                 print the keyspaces of the store
keyspace create NAME ...  create a keyspace; then order=reverse and options, as NAME=VALUE
keyspace drop NAME        drop a keyspace with all its keys
keyspace rename NAME NEW  give a keyspace another name
checkpoint DIR            create a copy of the store in DIR with hard links
stats                     print the layout and statistics of the store
set NAME VALUE            change an option
option NAME               print the value of an option
help                      print this help
quit                      end the session (the end of the input does the same)
Ctrl-C stops a command, Tab completes, the arrow keys recall lines of this and earlier sessions.
KEY, VALUE: \\xNN is a byte, \\\\ a backslash; \"quoted\" keeps spaces, \"\" is empty; # comment";
