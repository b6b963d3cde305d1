"""The exceptions. They have the base classes of plyvel's, for the same ``except`` clauses."""

import builtins


class Error(Exception):
    """A failure of the engine, or a refused call; the base class of the other errors.

    ``kind``, ``path`` and ``offset_bytes`` are None if they do not apply.
    """

    kind = None
    """A short name of the failure, such as ``"corruption"``, or None."""
    path = None
    """The affected file or directory, or None."""
    offset_bytes = None
    """The position in the file, in bytes from its start, or None."""


class IOError(Error, builtins.IOError):
    """The operating system refused an operation; ``errno`` is its error number.

    Also raised if the database or a keyspace is missing, and if the database is open elsewhere or
    accepts no more writes.
    """


class CorruptionError(Error):
    """Bytes on disk differ from the bytes written; they were not returned. See ``repair_db``."""


class IteratorInvalidError(Error):
    """A raw iterator is not at a key."""


class ConflictError(Error):
    """A transaction conflicts with another commit. Nothing was written; run it again.

    ``DB.transact`` does that.
    """


class DeadlockError(ConflictError):
    """Transactions wait for each other's locks; the message names them.

    Roll the transaction back and run it again. ``DB.transact`` does that.
    """


class BusyError(Error):
    """A wait for a lock, or of a write for memory, ended at its deadline. Nothing was written."""


_classes = (
    Error,
    IOError,
    CorruptionError,
    IteratorInvalidError,
    ConflictError,
    DeadlockError,
    BusyError,
)
for _class in _classes:
    _class.__module__ = "esker"
del _class, _classes
