"""A stand-in for plyvel: ``import esker.plyvel as plyvel``, and nothing else changes.

To stand in for it in programs that cannot be changed::

    import sys, esker.plyvel
    sys.modules["plyvel"] = esker.plyvel

Databases are Esker's; ``esker import leveldb OLD NEW`` copies one of LevelDB's.
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

#: The version of LevelDB whose behaviour this has.
__leveldb_version__ = "1.23"

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
