from . import DB as DB
from . import CorruptionError as CorruptionError
from . import Error as Error
from . import IOError as IOError
from . import IteratorInvalidError as IteratorInvalidError
from . import __version__ as __version__
from . import destroy_db as destroy_db
from . import repair_db as repair_db

__leveldb_version__: str
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
