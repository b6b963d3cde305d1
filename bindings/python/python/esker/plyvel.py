"""A replacement for plyvel: ``import esker.plyvel as plyvel`` is the only change in a program.

To replace plyvel in programs that cannot be changed::

    import sys, esker.plyvel
    sys.modules["plyvel"] = esker.plyvel

Databases have Esker's format; ``esker import leveldb OLD NEW`` copies a LevelDB database.
"""

from . import (
    DB,
    CorruptionError,
    Error,
    IOError,
    IteratorInvalidError,
    __version__,
    destroy_db,
    repair_db,
)

__leveldb_version__ = "1.23"
"""The LevelDB version with the same behaviour."""

__all__ = [
    "CorruptionError",
    "DB",
    "Error",
    "IOError",
    "IteratorInvalidError",
    "__leveldb_version__",
    "__version__",
    "destroy_db",
    "repair_db",
]
