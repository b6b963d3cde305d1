"""Streams of changes in ``esker.aio``: over connections and files, cancelled, and broken off."""

import asyncio
import contextlib
import io
import os
import socket

import pytest

import esker
from esker import aio


def run(work, place, **options):
    async def within():
        async with aio.open(place, create_if_missing=True, **options) as db:
            return await asyncio.wait_for(work(db), 60)

    return asyncio.run(within())


async def connected():
    """Returns the reader of one end of a connection, and the writer of the other one."""
    ends = socket.socketpair()
    reader, unused = await asyncio.open_connection(sock=ends[0])
    _, writer = await asyncio.open_connection(sock=ends[1])
    return reader, writer, unused


async def applied(db, source):
    async with await db.applier(source) as applier:
        return [item async for item in applier]


def test_copy_follows_over_a_connection(place, tmp_path):
    async def send(db, writer):
        slot = await db.subscribe("copy")
        async with await db.change_writer(writer) as stream:
            assert stream.position is None
            position = await stream.content()
            assert stream.position == position
            changes = await slot.changes()
            for number in range(3):
                await db.put(b"late %d" % number, b"x")
                position = await stream.write_next(changes, 5)
                assert position == stream.position == changes.position
            assert await stream.write_next(changes, 0) is None
            await stream.alive(position)
            await stream.end(position)
            await changes.aclose()
        writer.close()
        return position

    async def work(db):
        await db.update((b"%05d" % number, b"v" * 100) for number in range(5000))
        reader, writer, other = await connected()
        async with aio.open(tmp_path / "copy", create_if_missing=True) as copy:
            position, items = await asyncio.gather(send(db, writer), applied(copy, reader))
            assert {item.kind for item in items} == {"content", "content_end", "batch", "alive"}
            assert [item.kind for item in items[-4:]] == ["batch", "batch", "batch", "alive"]
            assert await copy.applied_position() == (db.sync.store_id, position)
            assert [pair async for pair in copy] == [pair async for pair in db]
        other.close()

    run(work, place)


def test_blocking_files_are_used_by_a_thread(place, tmp_path):
    async def work(db):
        file = io.BytesIO()
        async with await db.change_writer(file) as stream:
            changes = await db.changes(0)
            await db.put(b"k", b"v")
            end = await stream.write_next(changes, 5)
            await stream.end(end)
        with pytest.raises(RuntimeError, match="the stream has ended"):
            await stream.alive(end)
        assert not file.closed
        file.seek(0)
        async with aio.open(tmp_path / "copy", create_if_missing=True) as copy:
            async with await copy.applier(file) as applier:
                assert applier.source == db.sync.store_id and await applier.position() is None
                items = [item async for item in applier]
                assert await applier.position() == end
            assert [item.position for item in items] == [end]
            with pytest.raises(RuntimeError, match="the stream has ended"):
                await applier.start_at(1)
            with pytest.raises(esker.Error):  # no stream
                await copy.applier(io.BytesIO(b"no stream at all, of any version"))
        await changes.aclose()

    run(work, place)


def test_writer_goes_on_after_a_cancelled_wait(place, tmp_path):
    async def work(db):
        reader, writer, other = await connected()
        stream, changes = await db.change_writer(writer), await db.changes(0)
        waiting = asyncio.ensure_future(stream.write_next(changes))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await db.put(b"k", b"v")
        end = await stream.write_next(changes, 5)
        await stream.end(end)
        # A batch that a wait of the feed has read cannot be written any more.
        changes._read.append("a batch")
        with pytest.raises(RuntimeError, match="has read the next batch"):
            await stream.write_next(changes, 0)
        async with aio.open(tmp_path / "copy", create_if_missing=True) as copy:
            assert [item.position for item in await applied(copy, reader)] == [end]
        await stream.aclose()
        await changes.aclose()
        for each in (writer, other):
            each.close()

    run(work, place)


def test_cancelled_step_ends_an_applier(place, tmp_path):
    async def work(db):
        await db.put(b"k", b"v")
        file = io.BytesIO()
        plain, feed = db.sync.change_writer(file), db.sync.changes(0)
        end = plain.write_next(feed, 0)
        source = asyncio.StreamReader()
        source.feed_data(file.getvalue())
        async with aio.open(tmp_path / "copy", create_if_missing=True) as copy:
            applier = await copy.applier(source)
            assert (await anext(applier)).position == end
            waiting = asyncio.ensure_future(anext(applier))
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(RuntimeError, match="the stream has ended"):
                await anext(applier)
            assert await copy.applied_position() == (db.sync.store_id, end)
            # A stream that begins there goes on.
            await db.put(b"k", b"w")
            file = io.BytesIO()
            plain, feed = db.sync.change_writer(file), db.sync.changes(end)
            plain.end(plain.write_next(feed, 0))
            await applied(copy, io.BytesIO(file.getvalue()))
            assert await copy.get(b"k") == b"w"

    run(work, place)


def test_receiver_that_takes_nothing_holds_no_cancelled_call(place):
    class Stuck:
        """Takes the header of the stream, and nothing more."""

        calls = 0

        async def write(self, data):
            self.calls += 1
            if self.calls > 1:
                await asyncio.Event().wait()

    async def work(db):
        await db.put(b"k", b"v")
        stream, changes = await db.change_writer(Stuck()), await db.changes(0)
        for call in (stream.write_next(changes), stream.alive(0)):
            task = asyncio.ensure_future(call)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises((asyncio.CancelledError, RuntimeError)):
                await task
        with pytest.raises(RuntimeError, match="the stream has ended"):
            await stream.content()
        await changes.aclose()

    run(work, place)


def test_failures_of_files_are_raised(place, tmp_path):
    class Fails:
        async def read(self, size):
            raise ValueError("no more")

        async def write(self, data):
            raise ValueError("full")

    class Parts:
        """Takes seven bytes at a time, and has to be flushed."""

        def __init__(self):
            self.taken, self.flushed = bytearray(), 0

        async def write(self, data):
            self.taken += data[:7]
            return len(data[:7])

        async def flush(self):
            self.flushed = len(self.taken)

    async def work(db):
        with pytest.raises(ValueError, match="full"):
            await db.change_writer(Fails())
        with pytest.raises(ValueError, match="no more"):
            await db.applier(Fails())
        with pytest.raises(TypeError, match="has no method 'write'"):
            await db.change_writer(object())
        parts = Parts()
        changes = await db.changes(0)
        await db.put(b"k", b"v")
        async with await db.change_writer(parts) as stream:
            await stream.end(await stream.write_next(changes, 5))
        assert parts.flushed == len(parts.taken) > 7
        async with aio.open(tmp_path / "copy", create_if_missing=True) as copy:
            damaged = bytearray(parts.taken)
            damaged[-20] ^= 1
            for wrong in (damaged, parts.taken[:-1]):
                with pytest.raises((esker.CorruptionError, esker.IOError)):
                    await applied(copy, io.BytesIO(wrong))
            await applied(copy, io.BytesIO(parts.taken))
            assert await copy.get(b"k") == b"v"
        await changes.aclose()

    run(work, place)


def test_close_of_the_database_is_not_held_by_a_stream(place):
    async def work(db):
        read, write = os.pipe()
        with open(read, "rb") as incoming, open(write, "wb") as outgoing:
            waiting = asyncio.ensure_future(db.applier(incoming))
            await asyncio.sleep(0.05)
            await db.aclose()
            outgoing.close()
            with contextlib.suppress(Exception):
                await waiting
            assert waiting.exception() is not None

    run(work, place)
