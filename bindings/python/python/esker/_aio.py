"""The parts of ``esker.aio`` that need no database: threads, iterators, batches and feeds."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from collections.abc import Iterator as IteratorProtocol
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeGuard, TypeVar

import esker

if TYPE_CHECKING:
    from typing_extensions import Buffer

_T = TypeVar("_T")
Exc = type[BaseException] | BaseException | TracebackType | None
_CHUNK_MAX = 1024
_PIECE_BYTES = 64 << 10
WAIT_MAX = 0.1  # seconds that a thread waits after its caller was cancelled


def slices(timeout: float | None) -> IteratorProtocol[float]:
    """Cuts a wait into parts of at most ``WAIT_MAX`` seconds, so that a thread ends it soon after its
    caller was cancelled. The last part of a wait with an end takes no time.
    """
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = WAIT_MAX if end is None else max(0.0, end - time.monotonic())
        yield min(left, WAIT_MAX)
        if left == 0:
            return


class Source(Protocol):
    """A binary file object that is read."""

    def read(self, size: int, /) -> Buffer | None:
        """Returns the next bytes, at most ``size``; none at the end."""


class AsyncSource(Protocol):
    """An asynchronous binary file object that is read, such as ``asyncio.StreamReader``."""

    async def read(self, size: int, /) -> Buffer:
        """Returns the next bytes, at most ``size``; none at the end."""


def is_asynchronous(file: Source | AsyncSource) -> TypeGuard[AsyncSource]:
    """Returns whether ``read`` of a file object is a coroutine function."""
    return inspect.iscoroutinefunction(getattr(file, "read", None))


class Awaited:
    """What the event loop does for a thread other than its own that waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._running: concurrent.futures.Future[Any] | None = None

    def wait_for(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Returns the outcome of a coroutine, which the loop runs."""
        with self._lock:
            if self._is_cancelled:
                work.close()
                raise RuntimeError("the call that uses the file object was cancelled")
            running = self._running = asyncio.run_coroutine_threadsafe(work, self._loop)
        return running.result()

    def cancel(self) -> None:
        """Ends a coroutine that runs, and refuses further ones."""
        with self._lock:
            self._is_cancelled = True
            if self._running is not None:
                self._running.cancel()


class AwaitedSource(Awaited):
    """An asynchronous file object as one that blocks while it is read."""

    def __init__(self, file: AsyncSource) -> None:
        super().__init__()
        self._file = file

    async def _read(self, size: int) -> Buffer:
        return await self._file.read(size)

    def read(self, size: int, /) -> Buffer:
        """Returns the next bytes, which the loop reads."""
        return self.wait_for(self._read(size))


class Threads:
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

    def __init__(self, threads: Threads, make: Callable[[], esker.Iterator[_T]]) -> None:
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


class Object:
    """An object of the plain interface, and the threads that make its calls."""

    def __init__(self, threads: Threads, plain: Any) -> None:
        self._threads = threads
        self._plain = plain

    def __repr__(self) -> str:
        return f"<esker.aio of {self._plain!r}>"


class Reads(Object):
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


_AT_ONCE = ("put", "merge", "delete", "delete_range", "clear", "append", "count", "operations")


class WriteBatch(Object):
    """A batch: operations are added at once, without a thread, and written by ``write``.

    As an ``async with`` block, it is written at the end, and not at all if the block raised.
    """

    def __getattr__(self, name: str) -> Any:
        if name in _AT_ONCE:
            return getattr(self._plain, name)
        raise AttributeError(name)

    def __iter__(self) -> IteratorProtocol[esker.Operation]:
        operations: IteratorProtocol[esker.Operation] = iter(self._plain)
        return operations

    async def write(self, *, timeout: float | None = None) -> None:
        """See ``esker.WriteBatch.write``."""
        await self._threads.run(self._plain.write, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: Exc) -> None:
        if exception[0] is None:
            await self.write()


class ValueReader(Object):
    """The value of a key, read in parts; see ``esker.ValueReader``.

    ``async with await db.get_reader(key) as reader`` closes it at the end of the block. ``async for``
    gives the bytes from the position on, in pieces of at most 64 KiB.
    """

    @property
    def size_bytes(self) -> int:
        """The length of the whole value, in bytes."""
        size: int = self._plain.size_bytes
        return size

    async def read(self, size: int | None = -1) -> bytes:
        """See ``esker.ValueReader.read``."""
        return await self._threads.run(self._plain.read, size)

    async def readinto(self, buffer: Buffer) -> int:
        """See ``esker.ValueReader.readinto``. ``buffer`` must not be used before the call has ended."""
        return await self._threads.run(self._plain.readinto, buffer)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self.read(_PIECE_BYTES)
        if not piece:
            raise StopAsyncIteration
        return piece

    async def seek(self, offset: int, whence: int = 0) -> int:
        """See ``esker.ValueReader.seek``."""
        return await self._threads.run(self._plain.seek, offset, whence)

    async def tell(self) -> int:
        """See ``esker.ValueReader.tell``."""
        return await self._threads.run(self._plain.tell)

    async def aclose(self) -> None:
        """Releases the file and the memory."""
        await self._threads.finish(self._plain.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: Exc) -> None:
        await self.aclose()


class Changes:
    """A change feed; see ``esker.Changes``. Its waits run on a thread of its own.

    ``async for`` gives the batches up to the present, ``wait`` the next one. A batch that a cancelled
    wait has read is the next one's.
    """

    def __init__(self, plain: esker.Changes) -> None:
        self._threads = Threads(1)
        self._plain = plain
        self._read: deque[esker.ChangeBatch] = deque()
        self._position = plain.position

    @property
    def position(self) -> int:
        """The sequence number of the last batch of which all parts were returned."""
        return self._position

    def write_to(self, writer: esker.ChangeWriter, longest: float) -> int | None:
        """Writes the next batch, on the thread of a stream."""
        if self._read:
            raise RuntimeError(
                "a cancelled wait has read the next batch of these changes already: take it with "
                "wait(), or begin a feed at its position"
            )
        written = writer.write_next(self._plain, longest)
        if written is not None:
            self._position = self._plain.position
        return written

    def _fetch(self, longest: float) -> None:
        if not self._read:
            batch = self._plain.wait(longest)
            if batch is not None:
                self._read.append(batch)

    async def wait(self, timeout: float | None = None) -> esker.ChangeBatch | None:
        """See ``esker.Changes.wait``."""
        for longest in slices(timeout):
            await self._threads.run(self._fetch, longest)
            if self._read:
                batch = self._read.popleft()
                if not batch.continues:
                    self._position = batch.sequence
                return batch
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

    async def __aexit__(self, *_exception: Exc) -> None:
        await self.aclose()


class Slot(Object):
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
