"""Esker, an embedded, durable, ordered key-value store.

Keys and values are bytes, or any object with the buffer protocol. Keys are ordered. The classes
have plyvel's names and behaviour, so ``import esker.plyvel as plyvel`` runs programs written for
plyvel. In addition, a database has the methods of a mapping, and takes Esker's options by name::

    import esker

    with esker.DB("/tmp/db", create_if_missing=True, policy="leveled") as db:
        db[b"apple"] = b"red"
        with db.write_batch(transaction=True) as batch:
            batch.put(b"banana", b"yellow")
            batch.delete(b"apple")
        for key, value in db.iterator(prefix=b"b"):
            print(key, value)
        users = db.keyspace("users")
        users[b"7"] = b"Ada"
        with db.transaction() as transaction:
            name = transaction.get(b"7", keyspace=users)
            transaction.put(b"name", name)

``esker.aio`` has the methods as coroutines, ``esker.codec`` typed keys. Failures raise
``esker.Error`` or a subclass. Calls on closed objects raise ``RuntimeError``.
"""

import atexit as _atexit
import os as _os

from . import _esker
from ._errors import (
    BusyError,
    ConflictError,
    CorruptionError,
    DeadlockError,
    Error,
    IOError,
    IteratorInvalidError,
)
from ._esker import (
    DB,
    Ancestor,
    Applier,
    Backup,
    BackupReport,
    Change,
    ChangeBatch,
    Changes,
    ChangeWriter,
    Diff,
    Difference,
    Follower,
    FollowerLag,
    ForkReport,
    IngestReport,
    Iterator,
    Keyspace,
    Lineage,
    Operation,
    Option,
    PrefixedDB,
    RawIterator,
    RekeyReport,
    Runtime,
    Savepoint,
    Slot,
    SlotInfo,
    Snapshot,
    SortedFile,
    SortedWriter,
    Stall,
    StreamItem,
    TableEntry,
    Transaction,
    ValueReader,
    WriteBatch,
    destroy_db,
    diff,
    enable_perf,
    follow,
    list_backups,
    live_status,
    options,
    prune_backups,
    rekey_db,
    repair_db,
    restore_db,
    take_perf,
)
from ._mapping import Mapping
from ._reports import RepairReport, VerifyReport

__version__ = _esker.version()
"""The version of the package, such as ``"0.1.0"``."""

__all__ = [
    "Ancestor",
    "Applier",
    "Backup",
    "BackupReport",
    "BusyError",
    "Change",
    "ChangeBatch",
    "ChangeWriter",
    "Changes",
    "ConflictError",
    "CorruptionError",
    "DB",
    "DeadlockError",
    "Diff",
    "Difference",
    "Error",
    "Follower",
    "FollowerLag",
    "ForkReport",
    "IOError",
    "IngestReport",
    "Iterator",
    "IteratorInvalidError",
    "Keyspace",
    "Lineage",
    "Mapping",
    "Operation",
    "Option",
    "PrefixedDB",
    "RawIterator",
    "RekeyReport",
    "RepairReport",
    "Runtime",
    "Savepoint",
    "Slot",
    "SlotInfo",
    "Snapshot",
    "SortedFile",
    "SortedWriter",
    "Stall",
    "StreamItem",
    "TableEntry",
    "Transaction",
    "ValueReader",
    "VerifyReport",
    "WriteBatch",
    "destroy_db",
    "diff",
    "enable_perf",
    "follow",
    "list_backups",
    "live_status",
    "options",
    "prune_backups",
    "rekey_db",
    "repair_db",
    "restore_db",
    "take_perf",
]

_atexit.register(_esker.close_all)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_esker.abandon_all)
