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
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import esker

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Changes",
    "DB",
    "Follower",
    "Iterator",
    "Keyspace",
    "Slot",
    "Snapshot",
    "Transaction",
    "WriteBatch",
    "follow",
    "open",
]

_T = TypeVar("_T")
_Exc = type[BaseException] | BaseException | TracebackType | None
_CHUNK_MAX = 1024
_WAIT_MAX = 0.1  # seconds that a thread waits after its caller was cancelled


class _Threads:
    """The threads of a database."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="esker")
        self._has_ended = False

    def _check(self) -> None:
        if self._has_ended:
            raise RuntimeError("the database or transaction is closed")

    async def run(self, call: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Makes a call on a thread, and waits for it."""

        def made() -> _T:
            try:
                return call(*arguments, **named)
            except StopIteration as error:  # a future cannot raise it
                raise RuntimeError("the function raised StopIteration") from error

        self._check()
        return await asyncio.get_running_loop().run_in_executor(self._pool, made)

    async def finish(self, call: Callable[[], object]) -> None:
        """Makes a call on a thread, and waits for its end also when cancelled meanwhile."""
        self._check()
        future = self._pool.submit(call)
        waiting = asyncio.ensure_future(asyncio.wrap_future(future))
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await asyncio.wait({waiting})
            raise

    def has_ended(self) -> bool:
        return self._has_ended

    def end(self) -> None:
        """Ends the threads after their calls. Later calls raise RuntimeError."""
        self._has_ended = True
        self._pool.shutdown(wait=False)


class Iterator(Generic[_T]):
    """An asynchronous iterator, which reads ahead in chunks; ``aclose()`` ends it early."""

    def __init__(self, threads: _Threads, make: Callable[[], esker.Iterator[_T]]) -> None:
        self._threads = threads
        self._make = make
        self._source: esker.Iterator[_T] | None = None
        self._chunk: list[_T] = []
        self._size = 16
        self._is_closed = False
        self._lock = threading.Lock()

    def _fetch(self) -> list[_T]:
        with self._lock:
            if self._is_closed:
                return []
            if self._source is None:
                self._source = self._make()
            chunk = list(islice(self._source, self._size))
            if len(chunk) < self._size:
                self._source.close()
                self._is_closed = True
            self._size = min(2 * self._size, _CHUNK_MAX)
            chunk.reverse()
            return chunk

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._source is not None:
                self._source.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _T:
        if not self._chunk:
            try:
                self._chunk = await self._threads.run(self._fetch)
            except asyncio.CancelledError:
                # Pairs of a fetch that goes on would be lost, so the iteration ends here.
                self._is_closed = True
                raise
        if not self._chunk:
            raise StopAsyncIteration
        return self._chunk.pop()

    async def aclose(self) -> None:
        """Ends the iteration and releases what it holds."""
        self._chunk = []
        await self._threads.finish(self._close)


class _Object:
    """An object of the plain interface, and the threads that make its calls."""

    def __init__(self, threads: _Threads, plain: Any) -> None:
        self._threads = threads
        self._plain = plain

    def __repr__(self) -> str:
        return f"<esker.aio of {self._plain!r}>"


class _Reads(_Object):
    async def get(self, key: Buffer, default: Any = None, **options: Any) -> Any:
        """See ``esker.DB.get``."""
        return await self._threads.run(self._plain.get, key, default, **options)

    async def get_many(self, keys: Sequence[Buffer]) -> list[bytes | None]:
        """See ``esker.DB.get_many``."""
        return await self._threads.run(self._plain.get_many, keys)

    def iterator(self, **arguments: Any) -> Iterator[Any]:
        """Returns an asynchronous iterator. Takes the arguments of ``esker.DB.iterator``."""
        return Iterator(self._threads, lambda: self._plain.iterator(**arguments))

    def __aiter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self.iterator()


class WriteBatch(_Object):
    """A batch: operations are added at once, without a thread, and written by ``write``.

    As an ``async with`` block, it is written at the end, and not at all if the block raised.
    """

    def __getattr__(self, name: str) -> Any:
        if name in ("put", "merge", "delete", "delete_range", "clear", "append"):
            return getattr(self._plain, name)
        raise AttributeError(name)

    async def write(self, *, timeout: float | None = None) -> None:
        """See ``esker.WriteBatch.write``."""
        await self._threads.run(self._plain.write, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: _Exc) -> None:
        if exception[0] is None:
            await self.write()


class _Writes(_Reads):
    async def put(
        self, key: Buffer, value: Buffer, *, ttl: float | None = None, sync: bool = False
    ) -> None:
        """See ``esker.DB.put``."""
        await self._threads.run(self._plain.put, key, value, ttl=ttl, sync=sync)

    async def merge(self, key: Buffer, operand: Buffer, *, sync: bool = False) -> None:
        """See ``esker.DB.merge``."""
        await self._threads.run(self._plain.merge, key, operand, sync=sync)

    async def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """See ``esker.DB.delete``."""
        await self._threads.run(self._plain.delete, key, sync=sync)

    async def delete_range(self, start: Buffer, stop: Buffer, *, sync: bool = False) -> None:
        """See ``esker.DB.delete_range``."""
        await self._threads.run(self._plain.delete_range, start, stop, sync=sync)

    async def touch(self, key: Buffer, ttl: float | None) -> bool:
        """See ``esker.DB.touch``."""
        return await self._threads.run(self._plain.touch, key, ttl)

    async def contains(self, key: Buffer) -> bool:
        """Returns whether ``key`` exists."""
        return await self._threads.run(self._plain.__contains__, key)

    async def update(self, pairs: Iterable[tuple[Buffer, Buffer]]) -> None:
        """See ``esker.DB.update``."""
        await self._threads.run(self._plain.update, pairs)

    def write_batch(self, *, sync: bool = False) -> WriteBatch:
        """Creates an empty batch; see ``WriteBatch``."""
        return WriteBatch(self._threads, self._plain.write_batch(transaction=True, sync=sync))

    async def snapshot(self) -> Snapshot:
        """Creates a snapshot: ``async with await db.snapshot() as snapshot``."""
        return Snapshot(self._threads, await self._threads.run(self._plain.snapshot))

    async def compact_range(
        self, *, start: Buffer | None = None, stop: Buffer | None = None
    ) -> None:
        """See ``esker.DB.compact_range``."""
        await self._threads.run(self._plain.compact_range, start=start, stop=stop)


    async def ingest(
        self,
        files: Iterable[str | bytes | PathLike[str]],
        *,
        copy: bool = False,
        verify: bool = True,
    ) -> esker.IngestReport:
        """See ``esker.DB.ingest``."""
        return await self._threads.run(self._plain.ingest, files, copy=copy, verify=verify)

    async def bulk_load(self, pairs: Iterable[tuple[Buffer, Buffer]]) -> esker.IngestReport:
        """See ``esker.DB.bulk_load``. A thread takes the pairs."""
        return await self._threads.run(self._plain.bulk_load, pairs)


class Changes:
    """A change feed; see ``esker.Changes``. Its waits run on a thread of its own.

    ``async for`` gives the batches up to the present, ``wait`` the next one. A batch that a cancelled
    wait has read is the next one's.
    """

    def __init__(self, plain: esker.Changes) -> None:
        self._threads = _Threads(1)
        self._plain = plain
        self._read: deque[esker.ChangeBatch] = deque()
        self._position = plain.position

    @property
    def position(self) -> int:
        """The sequence number of the last batch of which all parts were returned."""
        return self._position

    def _fetch(self, longest: float) -> None:
        if not self._read:
            batch = self._plain.wait(longest)
            if batch is not None:
                self._read.append(batch)

    async def wait(self, timeout: float | None = None) -> esker.ChangeBatch | None:
        """See ``esker.Changes.wait``."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _WAIT_MAX if end is None else max(0.0, end - time.monotonic())
            await self._threads.run(self._fetch, min(left, _WAIT_MAX))
            if self._read:
                batch = self._read.popleft()
                if not batch.continues:
                    self._position = batch.sequence
                return batch
            if left == 0:
                return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> esker.ChangeBatch:
        batch = await self.wait(0)
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        """Ends the thread of the feed. Later calls raise RuntimeError."""
        self._threads.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: _Exc) -> None:
        await self.aclose()


class Slot(_Object):
    """See ``esker.Slot``."""

    @property
    def name(self) -> str:
        """The name of the slot."""
        name: str = self._plain.name
        return name

    async def position(self) -> int:
        """See ``esker.Slot.position``."""
        return await self._threads.run(lambda: int(self._plain.position))

    async def changes(self) -> Changes:
        """Returns the changes after the confirmed position, as ``Changes``."""
        return Changes(await self._threads.run(self._plain.changes))

    async def confirm(self, position: int) -> None:
        """See ``esker.Slot.confirm``."""
        await self._threads.run(self._plain.confirm, position)

    async def drop(self) -> None:
        """See ``esker.Slot.drop``."""
        await self._threads.run(self._plain.drop)


class Snapshot(_Reads):
    """See ``esker.Snapshot``."""

    def keyspace(self, keyspace: Keyspace) -> Snapshot:
        """Returns a snapshot of the same moment that shows ``keyspace``."""
        return Snapshot(self._threads, self._plain.keyspace(keyspace.sync))

    async def aclose(self) -> None:
        """Releases the snapshot."""
        await self._threads.finish(self._plain.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: _Exc) -> None:
        await self.aclose()


class Keyspace(_Writes):
    """See ``esker.Keyspace``."""

    @property
    def sync(self) -> esker.Keyspace:
        """The plain keyspace, whose methods block."""
        plain: esker.Keyspace = self._plain
        return plain


class Transaction(_Object):
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

    async def __aexit__(self, *exception: _Exc) -> None:
        # Waits for a call of the block that still runs on its thread.
        try:
            await self._threads.finish(lambda: self._plain.__exit__(*exception))
        finally:
            self._threads.end()


def _plain(keyspace: Keyspace | None) -> esker.Keyspace | None:
    return None if keyspace is None else keyspace.sync


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

    async def transaction(self, **options: Any) -> Transaction:
        """Begins a transaction: ``async with await db.transaction() as transaction``."""
        begun = await self._threads.run(self._plain.transaction, **options)
        # A thread of its own: the calls of the holder of a lock never queue behind those that wait
        # for the lock.
        return Transaction(_Threads(1), begun)

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

    async def backup(
        self, name: str | bytes | PathLike[str], *, take_over: bool = False
    ) -> esker.BackupReport:
        """See ``esker.DB.backup``."""
        return await self._threads.run(self._plain.backup, name, take_over=take_over)

    async def upgrade_format(self, to: int) -> None:
        """See ``esker.DB.upgrade_format``."""
        await self._threads.run(self._plain.upgrade_format, to)

    async def checkpoint(self, name: str | bytes | PathLike[str]) -> None:
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

    async def snapshot_with_position(self) -> tuple[Snapshot, int]:
        """See ``esker.DB.snapshot_with_position``."""
        snapshot, position = await self._threads.run(self._plain.snapshot_with_position)
        return Snapshot(self._threads, snapshot), position

    async def fork(
        self, name: str | bytes | PathLike[str], *, fork_name: str | None = None
    ) -> esker.ForkReport:
        """See ``esker.DB.fork``."""
        return await self._threads.run(self._plain.fork, name, fork_name=fork_name)

    async def verify(self) -> list[str]:
        """See ``esker.DB.verify``."""
        return await self._threads.run(self._plain.verify)

    async def metrics(self) -> dict[str, Any]:
        """See ``esker.DB.metrics``."""
        return await self._threads.run(self._plain.metrics)

    async def aclose(self) -> None:
        """Closes the database and waits for running calls. Later calls raise RuntimeError."""
        if not self._threads.has_ended():
            await self._threads.finish(self._plain.close)
            self._threads.end()


class Follower(_Object):
    """See ``follow`` and ``esker.Follower``. Its calls run on a thread of its own, one after the other."""

    @property
    def sync(self) -> esker.Follower:
        """The plain follower, whose methods block."""
        plain: esker.Follower = self._plain
        return plain

    async def db(self) -> DB:
        """Returns the newest view; see ``esker.Follower.db``. ``aclose()`` of it ends its threads."""
        return DB(_Threads(_thread_count()), await self._threads.run(self._plain.db))

    async def catch_up(self) -> int:
        """See ``esker.Follower.catch_up``."""
        return await self._threads.run(self._plain.catch_up)

    async def catch_up_every(self, interval: float) -> None:
        """See ``esker.Follower.catch_up_every``."""
        await self._threads.run(self._plain.catch_up_every, interval)

    async def wait_for(self, position: int, timeout: float | None = None) -> bool:
        """See ``esker.Follower.wait_for``. A cancelled wait ends soon on its thread, too."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _WAIT_MAX if end is None else max(0.0, end - time.monotonic())
            if await self._threads.run(self._plain.wait_for, position, min(left, _WAIT_MAX)):
                return True
            if left == 0:
                return False

    async def lag(self) -> esker.FollowerLag:
        """See ``esker.Follower.lag``."""
        return await self._threads.run(self._plain.lag)

    async def promote(self) -> DB:
        """Opens the database for writing; see ``esker.Follower.promote``."""
        return DB(_Threads(_thread_count()), await self._threads.run(self._plain.promote))

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
    name: str | bytes | PathLike[str], *, threads: int | None = None, **options: Any
) -> AsyncIterator[DB]:
    """Opens a database for an ``async with`` block, and closes it at the end of the block.

    ``threads`` is the number of threads for its calls: by default four more than the machine has
    cores, at most 8. The other arguments are those of ``esker.DB``.
    """
    pool = _Threads(threads or _thread_count())
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
async def follow(name: str | bytes | PathLike[str], **options: Any) -> AsyncIterator[Follower]:
    """Follows a database for an ``async with`` block; see ``esker.follow``."""
    pool = _Threads(1)
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
