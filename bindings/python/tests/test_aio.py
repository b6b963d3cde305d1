"""The asynchronous methods: results, errors, and cancelled calls."""

import asyncio
import threading

import pytest

import esker
from esker import aio


def run(work, place, **options):
    async def main():
        async with aio.open(place, create_if_missing=True, **options) as db:
            return await asyncio.wait_for(work(db), 300)

    return asyncio.run(main())


def test_reads_and_writes(place):
    async def work(db):
        await db.put(b"a", b"1")
        await db.put(b"t", b"1", ttl=0)
        await db.update([(b"b", b"2"), (b"c", b"3")])
        assert await db.get(b"a") == b"1" and await db.get(b"t", b"none") == b"none"
        assert await db.get_many([b"b", b"x"]) == [b"2", None]
        assert await db.contains(b"c") and not await db.contains(b"x")
        await db.delete(b"a")
        assert [pair async for pair in db] == [(b"b", b"2"), (b"c", b"3")]
        assert [key async for key in db.iterator(include_value=False, reverse=True)] == [b"c", b"b"]
        users = await db.keyspace("users", merge="add_i64")
        await users.merge(b"n", b"2")
        assert await users.get(b"n") == b"2" and await users.touch(b"n", 50)
        async with db.write_batch() as batch:
            batch.put(b"d", b"4")
            batch.put(b"u", b"5", keyspace=users.sync)
        assert users.sync[b"u"] == b"5"
        with pytest.raises(ValueError):
            async with db.write_batch() as batch:
                batch.put(b"never", b"1")
                raise ValueError
        assert b"never" not in db.sync
        async with await db.snapshot() as snapshot:
            await db.delete_range(b"a", b"z")
            assert await snapshot.get(b"d") == b"4" and await db.get(b"d") is None
            assert await snapshot.keyspace(users).get(b"n") == b"2"
        await db.flush()
        await db.compact_range()
        assert (await db.metrics())["flushes"] >= 1 and await db.verify() == []
        return "done"

    assert run(work, place) == "done"
    with esker.DB(place):
        pass


def test_long_iterations_read_all_pairs(place):
    async def work(db):
        keys = [b"%06d" % number for number in range(5000)]
        db.sync.update((key, key) for key in keys)
        assert [key async for key, _ in db.iterator()] == keys
        seen = []
        pairs = db.iterator(include_value=False)
        async for key in pairs:
            seen.append(key)
            if len(seen) == 20:
                break
        await pairs.aclose()
        await pairs.aclose()
        assert seen == keys[:20] and [key async for key in pairs] == []

    run(work, place)


def test_transactions_commit_conflict_and_roll_back(place):
    async def work(db):
        users = await db.keyspace("users")
        async with await db.transaction() as transaction:
            await transaction.put(b"a", b"1")
            await transaction.put(b"a", b"2", keyspace=users)
            assert await transaction.get(b"a") == b"1" and await db.get(b"a") is None
            assert [pair async for pair in transaction.iterator(keyspace=users)] == [(b"a", b"2")]
        assert await db.get(b"a") == b"1" and await users.get(b"a") == b"2"
        with pytest.raises(esker.ConflictError):
            async with await db.transaction() as transaction:
                await transaction.get_for_update(b"a")
                await db.put(b"a", b"3")
                await transaction.delete(b"a")
        with pytest.raises(ValueError):
            async with await db.transaction() as transaction:
                await transaction.put(b"a", b"4")
                raise ValueError
        assert await db.get(b"a") == b"3"

        def add(transaction):
            transaction.put(b"n", b"%d" % (int(transaction.get_for_update(b"n", b"0")) + 1))

        await asyncio.gather(*(db.transact(add) for _ in range(50)))
        assert await db.get(b"n") == b"50"

    run(work, place)


def test_cancelled_transact_rolls_back_before_its_commit(place):
    async def work(db):
        begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

        def slow(transaction):
            transaction.put(b"k", b"v")
            begun.set()
            goes_on.wait(120)
            ended.set()

        task = asyncio.ensure_future(db.transact(slow))
        await asyncio.to_thread(begun.wait, 120)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        goes_on.set()
        await asyncio.to_thread(ended.wait, 120)
        # The next transaction of the key does not wait for the cancelled one, or conflict with it.
        await db.transact(lambda t: t.put(b"other", t.get_for_update(b"k", b"none")),
                          concurrency="pessimistic", lock_timeout_ms=60_000)
        assert await db.get(b"other") == b"none"

    run(work, place)


def test_cancelled_block_rolls_back_and_releases_its_locks(place):
    async def work(db):
        inside = asyncio.Event()

        async def block():
            options = {"concurrency": "pessimistic"}
            async with await db.transaction(**options) as transaction:
                await transaction.put(b"k", b"v")
                inside.set()
                await asyncio.sleep(600)

        task = asyncio.ensure_future(block())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with await db.transaction(concurrency="pessimistic", lock_timeout_ms=0) as transaction:
            await transaction.put(b"k", b"2")
        assert await db.get(b"k") == b"2"

    run(work, place)


def test_holder_of_a_lock_never_queues_behind_those_that_wait_for_it(place):
    async def work(db):
        holder = await db.transaction(concurrency="pessimistic")
        async with holder:
            await holder.put(b"n", b"0")

            def add(transaction):
                number = int(transaction.get_for_update(b"n", b"0"))
                transaction.put(b"n", b"%d" % (number + 1))

            options = {"concurrency": "pessimistic", "lock_timeout_ms": 200_000}
            waiting = [asyncio.ensure_future(db.transact(add, **options)) for _ in range(6)]
            await asyncio.sleep(0.05)
            await holder.put(b"n", b"10")
        await asyncio.gather(*waiting)
        assert await db.get(b"n") == b"16"
        with pytest.raises(RuntimeError):
            await holder.get(b"n")

    run(work, place, threads=2)


def test_cancelled_calls_are_made_wholly_or_not_at_all(place):
    async def work(db):
        value = b"v" * 1000
        for number in range(60):
            pairs = [(b"%d/%d" % (number, part), value) for part in range(20)]
            task = asyncio.ensure_future(db.update(pairs))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
        await db.flush()
        return 0

    run(work, place)
    with esker.DB(place) as db:
        for number in range(60):
            assert sum(1 for _ in db.iterator(prefix=b"%d/" % number)) in (0, 20)


def test_cancelled_iteration_ends(place):
    async def work(db):
        db.sync.update((b"%06d" % number, b"") for number in range(3000))
        pairs = db.iterator()
        task = asyncio.ensure_future(pairs.__anext__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [pair async for pair in pairs] == []

    run(work, place)


def test_closed_database_raises_and_errors_pass_through(place):
    async def work(db):
        with pytest.raises(TypeError):
            await db.put("text", b"v")
        with pytest.raises(RuntimeError):
            await db.transact(lambda t: next(iter([])))
        with pytest.raises(esker.Error):
            await db.merge(b"k", b"1")
        await db.aclose()
        with pytest.raises(RuntimeError):
            await db.get(b"k")
        await db.aclose()

    run(work, place)

    async def twice():
        async with aio.open(place):
            with pytest.raises(esker.IOError):
                async with aio.open(place):
                    pass

    asyncio.run(twice())


def test_close_waits_for_running_calls(place):
    async def work(db):
        writes = [db.put(b"%d" % number, b"v" * 100, sync=True) for number in range(200)]
        tasks = [asyncio.ensure_future(write) for write in writes]
        await asyncio.sleep(0)
        await db.aclose()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        return sum(error is None for error in done)

    written = run(work, place)
    with esker.DB(place) as db:
        assert len(db.mapping()) == written


def test_objects_serve_several_event_loops(place):
    async def opened():
        manager = aio.open(place, create_if_missing=True)
        return manager, await manager.__aenter__()

    loop = asyncio.new_event_loop()
    manager, db = loop.run_until_complete(opened())
    asyncio.run(db.put(b"k", b"v"))
    assert asyncio.run(db.get(b"k")) == b"v"
    loop.run_until_complete(manager.__aexit__(None, None, None))
    loop.close()
