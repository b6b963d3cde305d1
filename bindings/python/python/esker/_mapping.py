"""A database, a keyspace, or a part of one, as a mapping."""

from collections.abc import ItemsView, KeysView, MutableMapping, ValuesView


class _Keys(KeysView):
    def __reversed__(self):
        return reversed(self._mapping)


class _Values(ValuesView):
    def __iter__(self):
        return self._mapping._db.iterator(include_key=False)

    def __reversed__(self):
        return self._mapping._db.iterator(include_key=False, reverse=True)

    def __contains__(self, value):
        return any(found == value for found in self)


class _Items(ItemsView):
    def __iter__(self):
        return self._mapping._db.iterator()

    def __reversed__(self):
        return self._mapping._db.iterator(reverse=True)


class Mapping(MutableMapping):
    """A mapping from bytes to bytes, ordered by key; the result of ``mapping()``.

    An iteration, also over ``keys()``, ``values()`` and ``items()``, shows the state at its start.
    ``reversed`` iterates backwards. ``len``, and ``in`` on ``values()``, scan all entries.
    """

    __slots__ = ("_db", "__weakref__")

    def __init__(self, db):
        self._db = db

    def __repr__(self):
        return f"<esker.Mapping of {self._db!r}>"

    def __getitem__(self, key):
        return self._db[key]

    def __setitem__(self, key, value):
        self._db[key] = value

    def __delitem__(self, key):
        del self._db[key]

    def __contains__(self, key):
        return key in self._db

    def __iter__(self):
        return self._db.iterator(include_value=False)

    def __reversed__(self):
        return self._db.iterator(include_value=False, reverse=True)

    def __len__(self):
        return sum(1 for _ in self._db.iterator(include_key=False, include_value=False))

    def __bool__(self):
        with self._db.iterator(include_key=False, include_value=False) as entries:
            return any(True for _ in entries)

    def get(self, key, default=None):
        """Returns the value of ``key``, or ``default``."""
        return self._db.get(key, default)

    def keys(self):
        """Returns a view of the keys."""
        return _Keys(self)

    def values(self):
        """Returns a view of the values."""
        return _Values(self)

    def items(self):
        """Returns a view of the pairs."""
        return _Items(self)

    def setdefault(self, key, default):
        """Returns the value of ``key``; a missing key is first set to ``default``."""
        return super().setdefault(key, default)

    def popitem(self):
        """Removes and returns the pair with the last key. Raises KeyError if there is none."""
        for key, value in self._db.iterator(reverse=True):
            del self[key]
            return key, value
        raise KeyError("the database is empty")

    def update(self, other=()):
        """Sets keys from a mapping or pairs, atomically in one batch."""
        pairs = ((key, other[key]) for key in other.keys()) if hasattr(other, "keys") else other
        with self._db.write_batch(transaction=True) as batch:
            for key, value in pairs:
                batch.put(key, value)

    def clear(self):
        """Deletes all keys, in one batch."""
        first = next(self._db.iterator(include_value=False), None)
        last = next(self._db.iterator(include_value=False, reverse=True), None)
        if first is None or last is None:
            return
        with self._db.write_batch(transaction=True) as batch:
            batch.delete_range(first, last)
            batch.delete(last)
