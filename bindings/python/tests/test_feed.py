"""The change feed: slots, batches, waits, and what ends them."""

import asyncio
import errno
import random
import threading
import time

import pytest

import esker
from esker import aio


def keys_of(changes):
    return [change.key for batch in changes for change in batch]


def test_reader_that_bootstraps_and_follows_has_every_write_once(db):
    db.put(b"0000", b"before")
    slot = db.subscribe("copy")

    def write():
        for number in range(1, 300):
            db.put(b"%04d" % number, b"")

    writer = threading.Thread(target=write)
    writer.start()
    snapshot, position = db.snapshot_with_position()
    with snapshot:
        seen = list(snapshot.iterator(include_value=False))
    slot.confirm(position)
    changes, last = slot.changes(), position
    while len(seen) < 300:
        batch = changes.wait(120)
        assert batch is not None and batch.previous == last and len(batch) == 1
        assert batch.first_sequence == batch.sequence == last + 1 and batch.checksum != 0
        last = batch.sequence
        seen += [change.key for change in batch]
    writer.join()
    assert seen == [b"%04d" % number for number in range(300)]
    assert changes.position == last and list(changes) == [] and changes.wait(0) is None


def test_confirmed_slot_goes_on_after_the_database_was_opened_again(place):
    with esker.DB(place, create_if_missing=True) as db:
        slot = db.subscribe("index", lag_limit_bytes=None)
        for key in (b"a", b"b", b"c"):
            db.put(key, b"1")
        first, second, _ = list(slot)
        slot.confirm(second.sequence)
        slot.confirm(first.sequence)
        assert slot.position == second.sequence and keys_of(slot) == [b"c"]
        with pytest.raises(esker.Error):
            slot.confirm(1000)
    with esker.DB(place) as db:
        slot = db.slot("index")
        assert slot.name == "index" and slot.position == second.sequence
        assert keys_of(db.subscribe("index")) == [b"c"]
        [info] = db.slots()
        assert (info.name, info.position, info.problem) == ("index", second.sequence, None)
        assert info.lag_limit_bytes is None and info.lag_bytes >= 0
        assert keys_of(db.changes(first.sequence)) == [b"b", b"c"]
        slot.drop()
        for call in (slot.changes, lambda: slot.position, slot.drop, lambda: db.slot("index")):
            with pytest.raises(esker.IOError) as caught:
                call()
            assert caught.value.errno == errno.ENOENT
        assert db.slots() == []


def test_bulk_load_comes_in_parts_of_one_batch(place):
    pairs = [(b"%05d" % number, random.Random(number).randbytes(1000)) for number in range(3000)]
    with esker.DB(place, create_if_missing=True) as db:
        slot = db.subscribe("parts")
        begin = slot.position
        db.bulk_load(pairs)
        db.put(b"whole", b"batch")
        changes = slot.changes()
        parts, positions = [], []
        while not parts or parts[-1].continues:
            parts.append(changes.wait(120))
            positions.append(changes.position)
        assert len(parts) > 1 and [part.part for part in parts] == list(range(len(parts)))
        assert [part.continues for part in parts] == [True] * (len(parts) - 1) + [False]
        assert len({(part.sequence, part.checksum, part.previous) for part in parts}) == 1
        assert [(change.key, change.value) for part in parts for change in part] == pairs
        assert positions == [begin] * (len(parts) - 1) + [parts[0].sequence]
        [whole] = changes
        assert whole.part == 0 and whole.continues is False and len(whole) == 1

    async def work():
        async with aio.open(place) as db, await (await db.slot("parts")).changes() as changes:
            async for batch in changes:
                expected = begin if batch.continues else batch.sequence
                assert changes.position == expected
            assert changes.position == whole.sequence
            await (await db.slot("parts")).confirm(changes.position)

    asyncio.run(work())


def test_every_kind_of_change_has_its_attributes(db):
    slot = db.subscribe("all")
    counts = db.keyspace("counts", merge="add_i64")
    with db.write_batch(transaction=True) as batch:
        batch.put(b"k", b"v", ttl=3600)
        batch.merge(b"n", b"1", keyspace=counts)
        batch.delete(b"n", keyspace=counts)
        batch.delete_range(b"a", b"c", keyspace=counts)
    counts.clear()
    db.rename_keyspace("counts", "sums")
    db.drop_keyspace("sums")
    changes = [change for batch in slot for change in batch]
    assert [change.kind for change in changes] == [
        "keyspace_created", "put", "merge", "delete", "delete_range", "clear",
        "keyspace_renamed", "keyspace_dropped",
    ]
    created, put, merge, delete, deleted, clear, renamed, dropped = changes
    assert created.key_order == "esker.bytewise" and "add_i64" in str(created.options)
    assert (put.keyspace, put.key, put.value) == ("default", b"k", b"v")
    assert 3000 < put.expires - time.time() < 4000
    assert (merge.keyspace, merge.key, merge.value) == ("counts", b"n", b"1")
    assert delete.key == b"n" and delete.value is None
    assert (deleted.key, deleted.stop) == (b"a", b"c")
    assert clear.keyspace == "counts" and renamed.new_name == "sums"
    assert dropped.keyspace == "sums" and "put" in repr(put) and "of 4" in repr(list(slot)[1])


def test_slot_that_lags_too_far_is_dropped_and_says_so(db):
    slot = db.subscribe("lagging", lag_limit_bytes=1000)
    for number in range(100):
        db.put(b"%d" % number, b"v" * 100)
    db.flush()
    # A flush drops it with the logs that it removes, which may be after it has woken its caller.
    end = time.monotonic() + 120
    while db.slots()[0].problem is None and time.monotonic() < end:
        time.sleep(0.001)
    [info] = db.slots()
    assert "lagged" in info.problem
    for call in (slot.changes, lambda: slot.confirm(1), lambda: db.subscribe("lagging")):
        with pytest.raises(esker.IOError, match="lagged"):
            call()
    db.drop_slot("lagging")
    db.subscribe("lagging")


def test_close_ends_a_wait_of_another_thread(db):
    slot = db.subscribe("one")
    changes, raised = slot.changes(), []

    def wait():
        try:
            raised.append(changes.wait())
        except RuntimeError as error:
            raised.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    db.close()
    waiter.join(120)
    assert isinstance(raised[0], RuntimeError)
    for call in (
        changes.wait, lambda: next(changes), lambda: slot.confirm(1), slot.changes, slot.drop,
        lambda: slot.position, lambda: db.changes(), lambda: db.subscribe("one"), db.slots,
        lambda: db.drop_slot("one"), db.snapshot_with_position, db.lineage,
    ):
        with pytest.raises(RuntimeError):
            call()


@pytest.mark.parametrize("call, error", [
    (lambda db: db.subscribe(""), esker.Error),
    (lambda db: db.subscribe("a b"), esker.Error),
    (lambda db: db.subscribe(7), TypeError),
    (lambda db: db.subscribe("a", lag_limit_bytes=-1), OverflowError),
    (lambda db: db.changes(5), esker.Error),
    (lambda db: db.changes(-1), OverflowError),
    (lambda db: db.changes().wait(-1), ValueError),
    (lambda db: db.changes().wait(float("nan")), ValueError),
    (lambda db: db.changes().wait("1"), TypeError),
    (lambda db: db.slot("none"), esker.IOError),
    (lambda db: db.drop_slot("none"), esker.IOError),
    (lambda db: db.subscribe("a").confirm("1"), TypeError),
])
def test_wrong_arguments_are_refused(db, call, error):
    with pytest.raises(error):
        call(db)


def test_cancelled_wait_of_asyncio_loses_no_batch(place):
    async def work():
        async with aio.open(place, create_if_missing=True) as db:
            slot = await db.subscribe("one")
            begin = await slot.position()
            async with await slot.changes() as changes:
                task = asyncio.ensure_future(changes.wait())
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                for number in range(20):
                    await db.put(b"%02d" % number, b"")
                batch = await changes.wait(120)
                assert [change.key for change in batch] == [b"00"]
                assert [c.key async for batch in changes for c in batch] == [
                    b"%02d" % number for number in range(1, 20)
                ]
                assert await changes.wait(0) is None and await changes.wait(0.01) is None
                await slot.confirm(changes.position)
            assert slot.name == "one" and await slot.position() == begin + 20
            assert [info.name for info in await db.slots()] == ["one"]
            snapshot, position = await db.snapshot_with_position()
            async with snapshot:
                assert position == begin + 20 and await snapshot.get(b"19") == b""
            async with await (await db.slot("one")).changes() as changes:
                waiting = asyncio.ensure_future(changes.wait())
                await db.aclose()
                with pytest.raises(RuntimeError):
                    await waiting
    asyncio.run(work())
