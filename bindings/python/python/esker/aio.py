"""Esker for asyncio: the methods of a database as coroutines, run by threads.

::

    from esker import aio

    async with aio.open("/tmp/db", create_if_missing=True) as db:
        await db.put(b"apple", b"red")
        async for key, value in db.iterator(prefix=b"a"):
            print(key, value)
        await db.transact(lambda t: t.put(b"pear", b"green"))

The engine's calls block only briefly, or for the disk. Here they run on threads of the database
(``threads``, at most 8 by default), so that the event loop goes on. Where a read is most likely
served from memory, the plain methods (``db.sync.get``) are faster.

**Cancelling.** A cancelled call that no thread has begun is not made. One that runs goes on to its
end on its thread, and its result is dropped: a write is then made wholly. A batch and a transaction
never take effect in part. ``transact`` checks before its commit whether it was cancelled, and rolls
back then. A cancelled iteration or ``async with`` block releases what it holds. Nothing stays
locked.

Objects belong to no event loop, and may be used from several of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import esker

from ._aio import (
    AsyncSource,
    AwaitedSource,
    Changes,
    Exc,
    Iterator,
    Object,
    Reads,
    Slot,
    Source,
    Threads,
    ValueReader,
    WriteBatch,
    is_asynchronous,
    slices,
)
from ._aio_streams import Applier, AsyncSink, ChangeWriter, Sink, applier, change_writer
from ._aio_transactions import Savepoint, Transaction

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Applier",
    "ChangeWriter",
    "Changes",
    "DB",
    "Follower",
    "Iterator",
    "Keyspace",
    "Savepoint",
    "Slot",
    "Snapshot",
    "Transaction",
    "ValueReader",
    "WriteBatch",
    "follow",
    "open",
]

_T = TypeVar("_T")
_Name = str | bytes | PathLike[str]
_Durability = Literal["none", "buffered", "sync"] | None


class _Writes(Reads):
    async def put(
        self,
        key: Buffer,
        value: Buffer,
        *,
        ttl: float | None = None,
        sync: bool = False,
        durability: _Durability = None,
        timeout: float | None = None,
    ) -> None:
        """See ``esker.DB.put``."""
        how = _how(sync, durability, timeout)
        await self._threads.run(self._plain.put, key, value, ttl=ttl, **how)

    async def merge(
        self,
        key: Buffer,
        operand: Buffer,
        *,
        sync: bool = False,
        durability: _Durability = None,
        timeout: float | None = None,
    ) -> None:
        """See ``esker.DB.merge``."""
        how = _how(sync, durability, timeout)
        await self._threads.run(self._plain.merge, key, operand, **how)

    async def delete(
        self,
        key: Buffer,
        *,
        sync: bool = False,
        durability: _Durability = None,
        timeout: float | None = None,
    ) -> None:
        """See ``esker.DB.delete``."""
        await self._threads.run(self._plain.delete, key, **_how(sync, durability, timeout))

    async def delete_range(
        self,
        start: Buffer,
        stop: Buffer,
        *,
        sync: bool = False,
        durability: _Durability = None,
        timeout: float | None = None,
    ) -> None:
        """See ``esker.DB.delete_range``."""
        how = _how(sync, durability, timeout)
        await self._threads.run(self._plain.delete_range, start, stop, **how)

    async def expiry(self, key: Buffer) -> float | None:
        """See ``esker.DB.expiry``."""
        return await self._threads.run(self._plain.expiry, key)

    async def get_with_expiry(self, key: Buffer) -> tuple[bytes, float | None] | None:
        """See ``esker.DB.get_with_expiry``."""
        return await self._threads.run(self._plain.get_with_expiry, key)

    async def get_into(self, key: Buffer, buffer: Buffer) -> int | None:
        """See ``esker.DB.get_into``. ``buffer`` must not be used before the call has ended."""
        return await self._threads.run(self._plain.get_into, key, buffer)

    async def put_array(
        self,
        keys: Buffer,
        values: Buffer,
        *,
        sync: bool = False,
        durability: _Durability = None,
        timeout: float | None = None,
    ) -> None:
        """See ``esker.DB.put_array``."""
        how = _how(sync, durability, timeout)
        await self._threads.run(self._plain.put_array, keys, values, **how)

    async def get_array(self, keys: Buffer, values: Buffer) -> bytes:
        """See ``esker.DB.get_array``. ``values`` must not be used before the call has ended."""
        return await self._threads.run(self._plain.get_array, keys, values)

    async def put_reader(self, key: Buffer, file: Source | AsyncSource) -> int:
        """See ``esker.DB.put_reader``. A thread reads the file.

        ``file`` may also be an asynchronous file object, whose ``read`` is a coroutine function, such
        as ``asyncio.StreamReader``. The event loop reads it, while a thread of its own waits. If the
        call is cancelled before the end of such a file, nothing is written.
        """
        if not is_asynchronous(file):
            return await self._threads.run(self._plain.put_reader, key, file)
        awaited = AwaitedSource(file)
        thread = Threads(1)
        try:
            return await thread.run(self._plain.put_reader, key, awaited)
        finally:
            # However the call ends: a thread that waits for the file would never end.
            awaited.cancel()
            thread.end()

    async def get_reader(self, key: Buffer) -> ValueReader | None:
        """See ``esker.DB.get_reader``."""
        plain = await self._threads.run(self._plain.get_reader, key)
        return None if plain is None else ValueReader(self._threads, plain)

    async def touch(self, key: Buffer, ttl: float | None) -> bool:
        """See ``esker.DB.touch``."""
        return await self._threads.run(self._plain.touch, key, ttl)

    async def contains(self, key: Buffer) -> bool:
        """Returns whether ``key`` exists."""
        return await self._threads.run(self._plain.__contains__, key)

    async def update(self, pairs: Iterable[tuple[Buffer, Buffer]]) -> None:
        """See ``esker.DB.update``."""
        await self._threads.run(self._plain.update, pairs)

    def write_batch(self, *, sync: bool = False, durability: _Durability = None) -> WriteBatch:
        """Creates an empty batch; see ``WriteBatch``."""
        batch = self._plain.write_batch(transaction=True, sync=sync, durability=durability)
        return WriteBatch(self._threads, batch)

    async def snapshot(self) -> Snapshot:
        """Creates a snapshot: ``async with await db.snapshot() as snapshot``."""
        return Snapshot(self._threads, await self._threads.run(self._plain.snapshot))

    async def compact_range(
        self, *, start: Buffer | None = None, stop: Buffer | None = None
    ) -> None:
        """See ``esker.DB.compact_range``."""
        await self._threads.run(self._plain.compact_range, start=start, stop=stop)

    async def approximate_size(self, start: Buffer, stop: Buffer) -> int:
        """See ``esker.DB.approximate_size``."""
        return await self._threads.run(self._plain.approximate_size, start, stop)

    async def ingest(
        self,
        files: Iterable[_Name],
        *,
        copy: bool = False,
        verify: bool = True,
    ) -> esker.IngestReport:
        """See ``esker.DB.ingest``."""
        return await self._threads.run(self._plain.ingest, files, copy=copy, verify=verify)

    async def bulk_load(self, pairs: Iterable[tuple[Buffer, Buffer]]) -> esker.IngestReport:
        """See ``esker.DB.bulk_load``. A thread takes the pairs."""
        return await self._threads.run(self._plain.bulk_load, pairs)


def _how(sync: bool, durability: _Durability, timeout: float | None) -> dict[str, Any]:
    return {"sync": sync, "durability": durability, "timeout": timeout}


class Snapshot(Reads):
    """See ``esker.Snapshot``."""

    @property
    def position(self) -> int:
        """The position of the snapshot in the change feed."""
        position: int = self._plain.position
        return position

    def keyspace(self, keyspace: Keyspace) -> Snapshot:
        """Returns a snapshot of the same moment that shows ``keyspace``."""
        return Snapshot(self._threads, self._plain.keyspace(keyspace.sync))

    async def aclose(self) -> None:
        """Releases the snapshot."""
        await self._threads.finish(self._plain.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: Exc) -> None:
        await self.aclose()


class Keyspace(_Writes):
    """See ``esker.Keyspace``."""

    @property
    def sync(self) -> esker.Keyspace:
        """The plain keyspace, whose methods block."""
        plain: esker.Keyspace = self._plain
        return plain

    @property
    def name(self) -> str:
        """The name of the keyspace."""
        return self.sync.name

    async def size_bytes(self) -> int:
        """See ``esker.Keyspace.size_bytes``."""
        return await self._threads.run(self._plain.size_bytes)

    async def clear(self) -> None:
        """See ``esker.Keyspace.clear``."""
        await self._threads.run(self._plain.clear)


class DB(_Writes):
    """An open database; see ``open`` and ``esker.DB``."""

    @property
    def sync(self) -> esker.DB:
        """The plain database, whose methods block."""
        plain: esker.DB = self._plain
        return plain

    async def keyspace(self, name: str, **options: Any) -> Keyspace:
        """See ``esker.DB.keyspace``."""
        opened = await self._threads.run(self._plain.keyspace, name, **options)
        return Keyspace(self._threads, opened)

    async def find_keyspace(self, name: str) -> Keyspace | None:
        """See ``esker.DB.find_keyspace``."""
        found = await self._threads.run(self._plain.find_keyspace, name)
        return None if found is None else Keyspace(self._threads, found)

    async def keyspaces(self) -> list[str]:
        """See ``esker.DB.keyspaces``."""
        return await self._threads.run(self._plain.keyspaces)

    async def rename_keyspace(self, name: str, new_name: str) -> None:
        """See ``esker.DB.rename_keyspace``."""
        await self._threads.run(self._plain.rename_keyspace, name, new_name)

    async def drop_keyspace(self, name: str) -> None:
        """See ``esker.DB.drop_keyspace``."""
        await self._threads.run(self._plain.drop_keyspace, name)

    async def prepared_transactions(self) -> list[str]:
        """See ``esker.DB.prepared_transactions``."""
        return await self._threads.run(self._plain.prepared_transactions)

    async def commit_prepared(self, name: str) -> None:
        """See ``esker.DB.commit_prepared``."""
        await self._threads.run(self._plain.commit_prepared, name)

    async def rollback_prepared(self, name: str) -> None:
        """See ``esker.DB.rollback_prepared``."""
        await self._threads.run(self._plain.rollback_prepared, name)

    async def transaction(self, **options: Any) -> Transaction:
        """Begins a transaction: ``async with await db.transaction() as transaction``."""
        begun = await self._threads.run(self._plain.transaction, **options)
        # A thread of its own: the calls of the holder of a lock never queue behind those that wait
        # for the lock.
        return Transaction(Threads(1), begun)

    async def transact(self, work: Callable[[esker.Transaction], _T], **options: Any) -> _T:
        """Runs ``work`` on a thread, with a plain transaction, until it commits.

        See ``esker.DB.transact``. If it is cancelled, the transaction is rolled back, unless its
        commit has begun.
        """
        is_cancelled = threading.Event()

        def checked(transaction: esker.Transaction) -> _T:
            if is_cancelled.is_set():
                raise _Cancelled
            result = work(transaction)
            if is_cancelled.is_set():
                raise _Cancelled
            return result

        def run() -> _T:
            try:
                return self.sync.transact(checked, **options)
            except _Cancelled:
                raise RuntimeError("the transaction was cancelled") from None

        try:
            return await self._threads.run(run)
        except asyncio.CancelledError:
            is_cancelled.set()
            raise

    async def flush(self) -> None:
        """See ``esker.DB.flush``."""
        await self._threads.run(self._plain.flush)

    async def compact_all(self) -> None:
        """See ``esker.DB.compact_all``."""
        await self._threads.run(self._plain.compact_all)

    async def wait_idle(self) -> None:
        """See ``esker.DB.wait_idle``."""
        await self._threads.run(self._plain.wait_idle)

    async def tables(self) -> list[esker.TableEntry]:
        """See ``esker.DB.tables``."""
        return await self._threads.run(self._plain.tables)

    async def option(self, name: str) -> str:
        """See ``esker.DB.option``."""
        return await self._threads.run(self._plain.option, name)

    async def set_options(self, **options: str | int | float | bool | None) -> None:
        """See ``esker.DB.set_options``."""
        await self._threads.run(self._plain.set_options, **options)

    async def stall(self) -> esker.Stall | None:
        """See ``esker.DB.stall``."""
        return await self._threads.run(self._plain.stall)

    async def applied_position(self) -> tuple[int, int] | None:
        """See ``esker.DB.applied_position``."""
        return await self._threads.run(self._plain.applied_position)

    async def backup(
        self, name: _Name, *, take_over: bool = False
    ) -> esker.BackupReport:
        """See ``esker.DB.backup``."""
        return await self._threads.run(self._plain.backup, name, take_over=take_over)

    async def upgrade_format(self, to: int) -> None:
        """See ``esker.DB.upgrade_format``."""
        await self._threads.run(self._plain.upgrade_format, to)

    async def checkpoint(self, name: _Name) -> None:
        """See ``esker.DB.checkpoint``."""
        await self._threads.run(self._plain.checkpoint, name)

    async def changes(self, start: int = 0) -> Changes:
        """See ``esker.DB.changes``."""
        return Changes(await self._threads.run(self._plain.changes, start))

    async def subscribe(self, name: str, **options: Any) -> Slot:
        """See ``esker.DB.subscribe``."""
        return Slot(self._threads, await self._threads.run(self._plain.subscribe, name, **options))

    async def slot(self, name: str) -> Slot:
        """See ``esker.DB.slot``."""
        return Slot(self._threads, await self._threads.run(self._plain.slot, name))

    async def slots(self) -> list[esker.SlotInfo]:
        """See ``esker.DB.slots``."""
        return await self._threads.run(self._plain.slots)

    async def drop_slot(self, name: str) -> None:
        """See ``esker.DB.drop_slot``."""
        await self._threads.run(self._plain.drop_slot, name)

    async def change_writer(self, file: Sink | AsyncSink) -> ChangeWriter:
        """See ``esker.DB.change_writer``. A thread of the stream writes to the file.

        ``file`` may also be an asynchronous file object: one whose ``write`` is a coroutine function,
        or an ``asyncio.StreamWriter``. The event loop writes to it then, and the stream waits until
        it has taken the bytes.
        """
        return await change_writer(self._plain, file)

    async def applier(self, file: Source | AsyncSource) -> Applier:
        """See ``esker.DB.applier``. A thread of the stream reads the file.

        ``file`` may also be an asynchronous file object, such as an ``asyncio.StreamReader``.
        """
        return await applier(self._plain, file)

    async def snapshot_with_position(self) -> tuple[Snapshot, int]:
        """See ``esker.DB.snapshot_with_position``."""
        snapshot, position = await self._threads.run(self._plain.snapshot_with_position)
        return Snapshot(self._threads, snapshot), position

    async def fork(
        self, name: _Name, *, fork_name: str | None = None
    ) -> esker.ForkReport:
        """See ``esker.DB.fork``."""
        return await self._threads.run(self._plain.fork, name, fork_name=fork_name)

    async def verify(
        self, *, progress: Callable[[int, int], object] | None = None
    ) -> esker.VerifyReport:
        """See ``esker.DB.verify``. ``progress`` is called by a thread."""
        return await self._threads.run(self._plain.verify, progress=progress)

    async def sync_log(self) -> None:
        """See ``esker.DB.sync``. Here ``sync`` is the plain database."""
        await self._threads.run(self._plain.sync)

    async def approximate_sizes(self, *ranges: Sequence[Buffer]) -> list[int]:
        """See ``esker.DB.approximate_sizes``."""
        return await self._threads.run(self._plain.approximate_sizes, *ranges)

    async def lineage(self) -> esker.Lineage:
        """See ``esker.DB.lineage``."""
        return await self._threads.run(self._plain.lineage)

    async def recovery_notes(self) -> list[str]:
        """See ``esker.DB.recovery_notes``."""
        return await self._threads.run(self._plain.recovery_notes)

    async def openmetrics(self) -> str:
        """See ``esker.DB.openmetrics``."""
        return await self._threads.run(self._plain.openmetrics)

    async def metrics(self) -> dict[str, Any]:
        """See ``esker.DB.metrics``."""
        return await self._threads.run(self._plain.metrics)

    async def aclose(self) -> None:
        """Closes the database and waits for running calls. Later calls raise RuntimeError."""
        if not self._threads.has_ended():
            await self._threads.finish(self._plain.close)
            self._threads.end()


class Follower(Object):
    """See ``follow`` and ``esker.Follower``. Its calls run on a thread of its own, one after the other."""

    @property
    def sync(self) -> esker.Follower:
        """The plain follower, whose methods block."""
        plain: esker.Follower = self._plain
        return plain

    async def db(self) -> DB:
        """Returns the newest view; see ``esker.Follower.db``. ``aclose()`` of it ends its threads."""
        return DB(Threads(_thread_count()), await self._threads.run(self._plain.db))

    async def catch_up(self) -> int:
        """See ``esker.Follower.catch_up``."""
        return await self._threads.run(self._plain.catch_up)

    async def catch_up_every(self, interval: float) -> None:
        """See ``esker.Follower.catch_up_every``."""
        await self._threads.run(self._plain.catch_up_every, interval)

    async def wait_for(self, position: int, timeout: float | None = None) -> bool:
        """See ``esker.Follower.wait_for``. A cancelled wait ends soon on its thread, too."""
        for longest in slices(timeout):
            if await self._threads.run(self._plain.wait_for, position, longest):
                return True
        return False

    async def lag(self) -> esker.FollowerLag:
        """See ``esker.Follower.lag``."""
        return await self._threads.run(self._plain.lag)

    async def promote(self) -> DB:
        """Opens the database for writing; see ``esker.Follower.promote``."""
        return DB(Threads(_thread_count()), await self._threads.run(self._plain.promote))

    async def aclose(self) -> None:
        """Closes the follower. Views and promoted databases stay open."""
        if not self._threads.has_ended():
            await self._threads.finish(self._plain.close)
            self._threads.end()


def _thread_count() -> int:
    return min(8, (os.cpu_count() or 1) + 4)


class _Cancelled(BaseException):
    """Ends the work of a cancelled transaction; an ``except Exception`` in it does not hold it."""


@contextlib.asynccontextmanager
async def open(  # noqa: A001
    name: _Name, *, threads: int | None = None, **options: Any
) -> AsyncIterator[DB]:
    """Opens a database for an ``async with`` block, and closes it at the end of the block.

    ``threads`` is the number of threads for its calls: by default four more than the machine has
    cores, at most 8. The other arguments are those of ``esker.DB``.
    """
    pool = Threads(threads or _thread_count())
    try:
        opening = asyncio.ensure_future(pool.run(esker.DB, name, **options))
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # A database whose opening goes on is closed when it is open.
            opening.add_done_callback(_close_opened)
            raise
        db = DB(pool, opened)
        try:
            yield db
        finally:
            await db.aclose()
    finally:
        pool.end()


@contextlib.asynccontextmanager
async def follow(name: _Name, **options: Any) -> AsyncIterator[Follower]:
    """Follows a database for an ``async with`` block; see ``esker.follow``."""
    pool = Threads(1)
    try:
        following = asyncio.ensure_future(pool.run(esker.follow, name, **options))
        try:
            plain = await asyncio.shield(following)
        except asyncio.CancelledError:
            following.add_done_callback(_close_opened)
            raise
        follower = Follower(pool, plain)
        try:
            yield follower
        finally:
            await follower.aclose()
    finally:
        pool.end()


def _close_opened(opening: asyncio.Future[Any]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
