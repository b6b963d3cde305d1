"""Streams of changes for ``esker.aio``: the change feed as bytes, for files, pipes and connections.

Invariants:

1. A stream has a thread of its own, which makes its calls, and waits for a blocking file.
2. The event loop reads and writes an asynchronous file, never the thread.
3. A stream of which a part of an item may be on its way is never continued.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeGuard, TypeVar

import esker

from ._aio import (
    AsyncSource,
    Awaited,
    AwaitedSource,
    Changes,
    Exc,
    Source,
    Threads,
    is_asynchronous,
    slices,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

_T = TypeVar("_T")
_GRACE = 1.0  # seconds for a cancelled call to end


class Sink(Protocol):
    """A binary file object that is written."""

    def write(self, data: bytes, /) -> int | None:
        """Takes bytes, and returns how many; None stands for all."""


class AsyncSink(Protocol):
    """An asynchronous binary file object that is written.

    Its ``write`` is a coroutine function, or it has a ``drain`` that is one, as
    ``asyncio.StreamWriter`` has.
    """

    def write(self, data: bytes, /) -> Any:
        """Takes bytes."""


def _is_coroutine(file: object, name: str) -> bool:
    return inspect.iscoroutinefunction(getattr(file, name, None))


def _is_asynchronous_sink(file: Sink | AsyncSink) -> TypeGuard[AsyncSink]:
    return _is_coroutine(file, "write") or _is_coroutine(file, "drain")


class _AwaitedSink(Awaited):
    """An asynchronous file object as one that blocks while it is written."""

    def __init__(self, file: AsyncSink) -> None:
        super().__init__()
        self._file: Any = file

    async def _send(self, data: bytes) -> int | None:
        taken = self._file.write(data)
        if inspect.isawaitable(taken):
            taken = await taken
        for name in ("flush", "drain"):
            if _is_coroutine(self._file, name):
                await getattr(self._file, name)()
        return None if taken is None else int(taken)

    def write(self, data: bytes, /) -> int | None:
        """Writes bytes, which the loop does."""
        return self.wait_for(self._send(data))


async def _begun(
    make: Callable[[Any], _T], file: object, awaited: Awaited | None
) -> tuple[Threads, _T]:
    """Begins a stream on a thread of its own."""
    threads = Threads(1)
    try:
        return threads, await threads.run(make, file if awaited is None else awaited)
    except BaseException:
        if awaited is not None:
            awaited.cancel()
        threads.end()
        raise


class _Stream:
    """A stream, its thread, and its file if that is asynchronous."""

    def __init__(self, threads: Threads, plain: Any, awaited: Awaited | None) -> None:
        self._threads = threads
        self._plain = plain
        self._awaited = awaited

    def __repr__(self) -> str:
        return f"<esker.aio of {self._plain!r}>"

    def _end(self) -> None:
        if self._awaited is not None:
            self._awaited.cancel()
        self._threads.end()

    async def _run(self, grace: float, call: Callable[..., _T], *arguments: Any) -> _T:
        """Makes a call. If it is cancelled and does not end within ``grace``, the stream ends."""
        if self._threads.has_ended():
            raise RuntimeError("the stream has ended: it was closed, or a call of it was cancelled")
        running = asyncio.ensure_future(self._threads.run(call, *arguments))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if grace > 0:
                await asyncio.wait({running}, timeout=grace)
            if not running.done():
                self._end()
            # Nobody waits for the outcome any more.
            running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            raise

    async def aclose(self) -> None:
        """Ends the stream and its thread. Later calls raise RuntimeError. The file stays open."""
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: Exc) -> None:
        await self.aclose()


class ChangeWriter(_Stream):
    """A writer of the changes of a database as bytes; see ``esker.ChangeWriter``.

    ``async with await db.change_writer(file) as writer`` ends its thread at the end of the block. A
    call that is cancelled while it waits for a change writes nothing, and the stream goes on. One
    whose bytes are not all written within a second of that ends the stream: later calls raise
    RuntimeError, and the receiver keeps what it has.
    """

    def __init__(
        self, threads: Threads, plain: esker.ChangeWriter, awaited: Awaited | None
    ) -> None:
        super().__init__(threads, plain, awaited)
        self._position: int | None = None

    @property
    def position(self) -> int | None:
        """The position after the last batch or content that was written; None before the first one.

        It counts a call that was cancelled after it had written, too.
        """
        return self._position

    def _next(self, changes: Changes, longest: float) -> int | None:
        written: int | None = changes.write_to(self._plain, longest)
        if written is not None:
            self._position = written
        return written

    def _content(self) -> int:
        position: int = self._plain.content()
        self._position = position
        return position

    async def write_next(self, changes: Changes, timeout: float | None = None) -> int | None:
        """See ``esker.ChangeWriter.write_next``."""
        for longest in slices(timeout):
            written = await self._run(_GRACE, self._next, changes, longest)
            if written is not None:
                return written
        return None

    async def content(self) -> int:
        """See ``esker.ChangeWriter.content``. A cancelled call ends the stream."""
        return await self._run(0, self._content)

    async def alive(self, position: int) -> None:
        """See ``esker.ChangeWriter.alive``."""
        await self._run(_GRACE, self._plain.alive, position)

    async def end(self, position: int) -> None:
        """See ``esker.ChangeWriter.end``."""
        await self._run(_GRACE, self._plain.end, position)


class Applier(_Stream):
    """Reads a stream of a ``ChangeWriter`` and applies it; see ``esker.Applier``.

    ``async for item in applier`` gives each item once it is applied. A cancelled step ends the
    stream: the item that it applies is applied wholly or not at all, and a new stream begins at
    ``DB.applied_position()``.
    """

    @property
    def source(self) -> int:
        """The ``store_id`` of the database whose changes the stream has."""
        source: int = self._plain.source
        return source

    async def position(self) -> int | None:
        """See ``esker.Applier.position``."""
        return await self._run(_GRACE, lambda: self._plain.position)

    async def start_at(self, position: int) -> None:
        """See ``esker.Applier.start_at``."""
        await self._run(_GRACE, self._plain.start_at, position)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> esker.StreamItem:
        item: esker.StreamItem | None = await self._run(0, next, self._plain, None)
        if item is None:
            raise StopAsyncIteration
        return item


async def change_writer(plain: esker.DB, file: Sink | AsyncSink) -> ChangeWriter:
    """Begins a stream of the changes of a database."""
    awaited = _AwaitedSink(file) if _is_asynchronous_sink(file) else None
    threads, made = await _begun(plain.change_writer, file, awaited)
    return ChangeWriter(threads, made, awaited)


async def applier(plain: esker.DB, file: Source | AsyncSource) -> Applier:
    """Begins to apply a stream to a database."""
    awaited = AwaitedSource(file) if is_asynchronous(file) else None
    threads, made = await _begun(plain.applier, file, awaited)
    return Applier(threads, made, awaited)
