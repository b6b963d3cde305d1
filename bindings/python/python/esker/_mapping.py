"""A database, or a part of one, as a mapping."""

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
    """Bytes to bytes, in the order of the keys; what ``DB.mapping()`` gives.

    Iterating, ``keys()``, ``values()`` and ``items()`` show the database as it was when they were
    asked, and ``reversed`` goes backwards. ``len`` and ``values()``'s ``in`` walk over everything.
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
        """The value of ``key``, or ``default``."""
        return self._db.get(key, default)

    def keys(self):
        """The keys."""
        return _Keys(self)

    def values(self):
        """The values."""
        return _Values(self)

    def items(self):
        """The pairs."""
        return _Items(self)

    def setdefault(self, key, default):
        """The value of ``key``, which is set to ``default`` first if it is not there."""
        return super().setdefault(key, default)

    def popitem(self):
        """Takes out the pair with the last key, as a dict takes out its last. KeyError if empty."""
        for key, value in self._db.iterator(reverse=True):
            del self[key]
            return key, value
        raise KeyError("the database is empty")

    def update(self, other=()):
        """Sets many keys, from a mapping or pairs, in one batch: all of them or none."""
        pairs = ((key, other[key]) for key in other.keys()) if hasattr(other, "keys") else other
        with self._db.write_batch(transaction=True) as batch:
            for key, value in pairs:
                batch.put(key, value)

    def clear(self):
        """Deletes every key, in one batch."""
        first = next(self._db.iterator(include_value=False), None)
        last = next(self._db.iterator(include_value=False, reverse=True), None)
        if first is None or last is None:
            return
        with self._db.write_batch(transaction=True) as batch:
            batch.delete_range(first, last)
            batch.delete(last)
