"""The exceptions. Those of plyvel have its parents, so that the same ``except`` catches them."""

import builtins


class Error(Exception):
    """Something the engine refused or could not do; the parent of the other errors.

    ``kind`` names it in a word or two (such as ``"corruption"``), ``path`` is the file or directory
    concerned and ``offset_bytes`` the place in it; they are None where they do not apply.
    """

    kind = None
    path = None
    offset_bytes = None


class IOError(Error, builtins.IOError):
    """The operating system refused; ``errno`` says why.

    Also when the database is not there, is open elsewhere, or takes no writes any more.
    """


class CorruptionError(Error):
    """Bytes on disk are not what was written. They were not served; ``repair_db`` saves the rest."""


class IteratorInvalidError(Error):
    """A raw iterator stands on no key."""


for _class in (Error, IOError, CorruptionError, IteratorInvalidError):
    _class.__module__ = "esker"
del _class
