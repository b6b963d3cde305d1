"""What a verification and a repair found: lists of sentences, with numbers."""


class VerifyReport(list):
    """What ``DB.verify`` found: the list of problems, one sentence each, with what was read.

    It is empty, and false, if the database is intact.
    """

    format_version = 0
    """Format version of the database."""
    files = 0
    """Number of table files read."""
    value_files = 0
    """Number of value files read."""
    logs = 0
    """Number of logs read."""
    bytes = 0
    """Bytes of tables, value files, logs and the manifest."""
    entries = 0
    """Number of entries in tables, with old versions and deletes."""
    range_deletes = 0
    """Number of range deletions in tables."""


class RepairReport(list):
    """What ``repair_db`` could not read: a list of sentences, with numbers of the repair."""

    manifest_readable = False
    """Whether the manifest was readable. Only it says which tables are valid, in which order."""
    tables = 0
    """Number of tables read."""
    logs = 0
    """Number of logs read."""
    pairs = 0
    """Number of pairs in the repaired database."""
    entries_held_max = 0
    """Maximum number of entries in memory at once."""
    originals = ""
    """The directory that now holds the original files."""


for _class in (VerifyReport, RepairReport):
    _class.__module__ = "esker"
del _class
