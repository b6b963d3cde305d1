"""The asynchronous methods on keyspaces, prepared transactions, arrays and streamed values."""

import array
import asyncio
import io
import time

import pytest

import esker
from esker import aio


def run(work, place, **options):
    async def main():
        async with aio.open(place, create_if_missing=True, **options) as db:
            await asyncio.wait_for(work(db), 300)

    asyncio.run(main())


def test_keyspaces_are_listed_renamed_and_dropped(place):
    async def work(db):
        users = await db.keyspace("users", order="esker.reverse")
        await users.put(b"k", b"v")
        assert users.name == "users" and await db.keyspaces() == ["default", "users"]
        await db.rename_keyspace("users", "people")
        assert await db.find_keyspace("users") is None
        people = await db.find_keyspace("people")
        assert await people.get(b"k") == b"v" and await people.size_bytes() == 0
        await people.clear()
        assert await people.get(b"k") is None
        await db.drop_keyspace("people")
        assert await db.keyspaces() == ["default"]
        with pytest.raises(esker.IOError):
            await db.drop_keyspace("people")
        with pytest.raises(esker.IOError):
            await db.rename_keyspace("people", "users")

    run(work, place)


def test_transactions_have_savepoints_and_range_deletions(place):
    async def work(db):
        users = await db.keyspace("users")
        for part in (db, users):
            await part.update([(b"a", b"1"), (b"b", b"2")])
        async with await db.transaction() as transaction:
            await transaction.delete_range(b"a", b"b")
            await transaction.delete_range(b"b", b"c", keyspace=users)
            with pytest.raises(ValueError):
                async with await transaction.savepoint():
                    await transaction.put(b"never", b"1")
                    raise ValueError
            async with await transaction.savepoint():
                await transaction.put(b"kept", b"1")
            await transaction.savepoint()
            await transaction.put(b"undone", b"1")
            await transaction.rollback_to_savepoint()
            await transaction.savepoint()
            await transaction.pop_savepoint()
            with pytest.raises(esker.IOError):
                await transaction.pop_savepoint()
        assert [key async for key, _ in db] == [b"b", b"kept"]
        assert [key async for key, _ in users] == [b"a"]

    run(work, place)


def test_prepared_transactions_are_ended_by_name(place):
    async def work(db):
        for name in ("first", "second"):
            async with await db.transaction() as transaction:
                await transaction.put(name.encode(), b"1")
                await transaction.prepare(name)
        assert await db.prepared_transactions() == ["first", "second"]
        assert await db.get(b"first") is None
        await db.commit_prepared("first")
        await db.rollback_prepared("second")
        assert await db.prepared_transactions() == []
        assert await db.get(b"first") == b"1" and await db.get(b"second") is None
        for call in (db.commit_prepared, db.rollback_prepared):
            with pytest.raises(esker.IOError):
                await call("first")

    run(work, place)


def test_cancelled_block_of_a_savepoint_takes_its_writes_back(place):
    async def work(db):
        async with await db.transaction() as transaction:
            inside = asyncio.Event()

            async def block():
                async with await transaction.savepoint():
                    await transaction.put(b"k", b"v")
                    inside.set()
                    await asyncio.sleep(600)

            task = asyncio.ensure_future(block())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await transaction.get(b"k") is None

    run(work, place)


def test_arrays_and_times_of_expiry(place):
    async def work(db):
        await db.put_array(b"abc", array.array("d", [1.0, 2.0, 3.0]), durability="buffered")
        found = array.array("d", [0.0, 0.0])
        assert await db.get_array(b"cx", found) == b"\1\0" and found[0] == 3.0
        place = bytearray(8)
        assert await db.get_into(b"a", place) == 8 and await db.get_into(b"x", place) is None
        await db.put(b"t", b"1", ttl=1000, timeout=5)
        assert await db.expiry(b"t") > time.time() + 900 and await db.expiry(b"a") is None
        value, expires = await db.get_with_expiry(b"t")
        assert value == b"1" and expires == await db.expiry(b"t")
        with pytest.raises(KeyError):
            await db.expiry(b"x")
        with pytest.raises(ValueError):
            await db.put(b"k", b"v", sync=True, durability="none")

    run(work, place)


def test_values_are_streamed(place):
    async def work(db):
        value = b"film" * 500_000
        assert await db.put_reader(b"film", io.BytesIO(value)) == len(value)
        async with await db.get_reader(b"film") as reader:
            assert reader.size_bytes == len(value)
            assert await reader.read(5) == value[:5] and await reader.tell() == 5
            assert await reader.seek(-3, 2) == len(value) - 3 and await reader.read() == b"ilm"
        with pytest.raises(RuntimeError, match="closed"):
            await reader.read()
        assert await db.get_reader(b"none") is None

    run(work, place)


def test_values_are_read_in_pieces_and_into_buffers(place):
    async def work(db):
        value = b"film" * 50_000
        await db.put(b"film", value)
        async with await db.get_reader(b"film") as reader:
            pieces = [piece async for piece in reader]
            assert b"".join(pieces) == value and max(map(len, pieces)) == 64 << 10
            assert [piece async for piece in reader] == []
            await reader.seek(-10, 2)
            buffer = bytearray(16)
            assert await reader.readinto(buffer) == 10 and buffer == value[-10:] + bytes(6)

    run(work, place)


def test_values_are_put_from_asynchronous_files(place):
    class Fails:
        async def read(self, size):
            await asyncio.sleep(0)
            raise ValueError("no more")

    class Text:
        async def read(self, size):
            return "text"

    async def work(db):
        value = bytes(range(256)) * 10_000
        stream = asyncio.StreamReader()
        task = asyncio.ensure_future(db.put_reader(b"film", stream))
        for at in range(0, len(value), 100_000):
            stream.feed_data(value[at : at + 100_000])
            await asyncio.sleep(0)
        assert not task.done() and await db.get(b"film") is None
        stream.feed_eof()
        assert await task == len(value) and await db.get(b"film") == value
        users = await db.keyspace("users")
        with pytest.raises(ValueError, match="no more"):
            await users.put_reader(b"k", Fails())
        with pytest.raises(TypeError):
            await users.put_reader(b"k", Text())
        assert await users.get(b"k") is None

    run(work, place)


def test_cancelled_put_of_an_asynchronous_file_writes_nothing(place):
    async def work(db):
        stream = asyncio.StreamReader()
        stream.feed_data(b"begin")
        task = asyncio.ensure_future(db.put_reader(b"k", stream))
        # More streams than the database has threads, and none holds other calls.
        others = [asyncio.ensure_future(db.put_reader(b"k", asyncio.StreamReader())) for _ in "123"]
        while stream._waiter is None:
            await asyncio.sleep(0.001)
        await db.put(b"other", b"v")
        for each in (task, *others):
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each
        stream.feed_eof()
        await db.flush()
        assert await db.get(b"k") is None and await db.get(b"other") == b"v"

    # The end of the block waits for the calls that were cancelled.
    run(work, place, threads=1)
    with esker.DB(place) as db:
        assert list(db) == [(b"other", b"v")]


def test_batch_lists_its_operations(place):
    async def work(db):
        async with db.write_batch() as batch:
            batch.put(b"a", b"1")
            batch.delete(b"b")
            assert [(each.kind, each.key) for each in batch] == [("put", b"a"), ("delete", b"b")]
            assert len(batch.operations()) == batch.count() == 2
        assert await db.get(b"a") == b"1"

    run(work, place)


def test_upkeep(place):
    async def work(db):
        async with db.write_batch(durability="sync") as batch:
            batch.put(b"k", b"v")
            assert batch.count() == 1
        async with await db.snapshot() as snapshot:
            assert snapshot.position == 1
        await db.flush()
        await db.compact_all()
        await db.wait_idle()
        assert [table.entries for table in await db.tables()] == [1]
        await db.set_options(policy="leveled", fan_out=10)
        assert await db.option("fan_out") == "10" and await db.stall() is None
        assert await db.applied_position() is None
        seen = []
        report = await db.verify(progress=lambda done, of: seen.append((done, of)))
        assert report == [] and report.files == 1 and seen
        await db.sync_log()
        assert await db.approximate_size(b"a", b"z") == (await db.approximate_sizes((b"a", b"z")))[0]
        assert (await db.lineage()).ancestors == []
        assert await db.recovery_notes() == [] and "esker_user_ops" in await db.openmetrics()
        await db.aclose()
        for call in (db.compact_all, db.tables, db.keyspaces, db.prepared_transactions):
            with pytest.raises(RuntimeError):
                await call()

    run(work, place)
