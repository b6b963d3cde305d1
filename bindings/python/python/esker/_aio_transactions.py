"""The transactions of ``esker.aio``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ._aio import Exc, Iterator, Object

if TYPE_CHECKING:
    from typing_extensions import Buffer

    import esker

    from .aio import Keyspace


def _plain(keyspace: Keyspace | None) -> esker.Keyspace | None:
    return None if keyspace is None else keyspace.sync


class Savepoint(Object):
    """A savepoint of a transaction. An exception of the block takes back the writes after it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: Exc) -> None:
        await self._threads.finish(lambda: self._plain.__exit__(*exception))


class Transaction(Object):
    """See ``esker.Transaction``. Committed at the end of an ``async with`` block.

    An exception of the block, also a cancellation, rolls it back. Its calls run on a thread of its
    own, one after the other.
    """

    async def get(
        self, key: Buffer, default: Any = None, *, keyspace: Keyspace | None = None
    ) -> Any:
        """See ``esker.Transaction.get``."""
        return await self._threads.run(self._plain.get, key, default, keyspace=_plain(keyspace))

    async def get_for_update(
        self, key: Buffer, default: Any = None, *, keyspace: Keyspace | None = None
    ) -> Any:
        """See ``esker.Transaction.get_for_update``."""
        call = self._plain.get_for_update
        return await self._threads.run(call, key, default, keyspace=_plain(keyspace))

    async def put(
        self,
        key: Buffer,
        value: Buffer,
        *,
        ttl: float | None = None,
        keyspace: Keyspace | None = None,
    ) -> None:
        """See ``esker.Transaction.put``."""
        await self._threads.run(self._plain.put, key, value, ttl=ttl, keyspace=_plain(keyspace))

    async def merge(
        self, key: Buffer, operand: Buffer, *, keyspace: Keyspace | None = None
    ) -> None:
        """See ``esker.Transaction.merge``."""
        await self._threads.run(self._plain.merge, key, operand, keyspace=_plain(keyspace))

    async def delete(self, key: Buffer, *, keyspace: Keyspace | None = None) -> None:
        """See ``esker.Transaction.delete``."""
        await self._threads.run(self._plain.delete, key, keyspace=_plain(keyspace))

    async def delete_range(
        self, start: Buffer, stop: Buffer, *, keyspace: Keyspace | None = None
    ) -> None:
        """See ``esker.Transaction.delete_range``."""
        call = self._plain.delete_range
        await self._threads.run(call, start, stop, keyspace=_plain(keyspace))

    async def savepoint(self) -> Savepoint:
        """Sets a savepoint: ``async with await transaction.savepoint()``.

        See ``esker.Transaction.savepoint``.
        """
        return Savepoint(self._threads, await self._threads.run(self._plain.savepoint))

    async def rollback_to_savepoint(self) -> None:
        """See ``esker.Transaction.rollback_to_savepoint``."""
        await self._threads.run(self._plain.rollback_to_savepoint)

    async def pop_savepoint(self) -> None:
        """See ``esker.Transaction.pop_savepoint``."""
        await self._threads.run(self._plain.pop_savepoint)

    async def prepare(self, name: str) -> None:
        """See ``esker.Transaction.prepare``. ``DB.commit_prepared`` ends it."""
        await self._threads.run(self._plain.prepare, name)

    def iterator(self, *, keyspace: Keyspace | None = None, **arguments: Any) -> Iterator[Any]:
        """See ``esker.Transaction.iterator``."""
        arguments["keyspace"] = _plain(keyspace)
        return Iterator(self._threads, lambda: self._plain.iterator(**arguments))

    async def commit(self) -> None:
        """See ``esker.Transaction.commit``."""
        await self._threads.run(self._plain.commit)

    async def rollback(self) -> None:
        """See ``esker.Transaction.rollback``."""
        await self._threads.finish(self._plain.rollback)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: Exc) -> None:
        # Waits for a call of the block that still runs on its thread.
        try:
            await self._threads.finish(lambda: self._plain.__exit__(*exception))
        finally:
            self._threads.end()
