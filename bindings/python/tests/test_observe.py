"""Listeners, stalls, runtimes, compaction filters, and what a database tells."""

import gc
import os
import sys
import threading
import time
import weakref

import pytest

import esker


def test_listener_gets_events_in_order(place):
    events = []
    with esker.DB(place, create_if_missing=True, policy="leveled", listener=events.append) as db:
        db.keyspace("users")
        db.rename_keyspace("users", "people")
        db.put(b"k", b"v")
        db.flush()
        db.compact_range()
    kinds = [event["kind"] for event in events]
    assert kinds[0] == "opened" and kinds[-1] == "closed"
    assert kinds.index("flush_began") < kinds.index("flush_ended")
    opened, flushed = events[0], events[kinds.index("flush_ended")]
    assert opened["tables"] == 0 and not opened["read_only"] and isinstance(opened["options"], dict)
    assert opened["duration"] >= 0 and flushed["written_bytes"] > 0 and flushed["tables"] == 1
    renamed = events[kinds.index("keyspace_renamed")]
    assert (renamed["name"], renamed["new_name"]) == ("users", "people")
    assert all(isinstance(event["text"], str) and event["text"] for event in events)


def test_listener_that_raises_is_reported_and_called_again(place, monkeypatch):
    caught, calls = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: caught.append(error.exc_value))

    def listener(event):
        calls.append(event["kind"])
        raise ValueError(event["kind"])

    with esker.DB(place, create_if_missing=True, listener=listener) as db:
        db.put(b"k", b"v")
        db.flush()
    assert len(caught) == len(calls) > 2
    assert all(isinstance(error, ValueError) for error in caught)


def test_listener_cannot_use_its_own_database(place):
    caught, box, called = [], [], threading.Event()

    def listener(event):
        if box and event["kind"] == "flush_ended" and not called.is_set():
            for call in (lambda: box[0].put(b"a", b"b"), box[0].flush, box[0].close):
                try:
                    call()
                except esker.Error as error:
                    caught.append(str(error))
            called.set()

    with esker.DB(place, create_if_missing=True, listener=listener) as db:
        box.append(db)
        db.put(b"k", b"v")
        db.flush()
        # The event may be delivered by another thread, after `flush` has returned.
        assert called.wait(60)
        box.clear()
    assert len(caught) == 3 and all("must not use its own store" in text for text in caught)


def test_functions_are_released_with_the_database(place):
    class Listener:
        def __call__(self, event):
            pass

    listener = Listener()
    seen = weakref.ref(listener)
    db = esker.DB(place, create_if_missing=True, listener=listener)
    del listener
    db.close()
    del db
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("options, error", [
    ({"listener": 3}, TypeError),
    ({"runtime": 3}, TypeError),
    ({"compaction_filter": 3}, TypeError),
    ({"compaction_filter": "none"}, ValueError),
    ({"compaction_filters": [1]}, TypeError),
    ({"compaction_filters": {"a": 1}}, TypeError),
    ({"compaction_filters": {1: print}}, TypeError),
], ids=repr)
def test_wrong_functions_are_refused(place, options, error):
    with pytest.raises(error):
        esker.DB(place, create_if_missing=True, **options)
    assert not place.exists()


def expire(key, value):
    if key == b"raises":
        raise ValueError("no decision")
    return {b"kept": True, b"gone": False}.get(key, b"changed")


def test_compaction_filter_keeps_removes_and_replaces(place):
    filters = {"test.expire": expire}
    options = {"compaction_filters": filters, "compaction_filter": expire}
    with esker.DB(place, create_if_missing=True, **options) as db:
        users = db.keyspace("users", compaction_filter="test.expire")
        alike = db.keyspace("alike", compaction_filter=expire)
        plain = db.keyspace("plain")
        for part in (db, users, alike, plain):
            for key in (b"kept", b"gone", b"other"):
                part.put(key, b"1")
        db.compact_range()
        for part in (users, alike, plain):
            part.compact_range()
        for part in (db, users, alike):
            assert list(part) == [(b"kept", b"1"), (b"other", b"changed")]
        assert len(list(plain)) == 3
        with pytest.raises(TypeError):
            db.keyspace("bad", compaction_filter=print)


@pytest.mark.parametrize("answer", ["text", None, 1])
def test_compaction_filter_without_a_decision_keeps_the_pairs(place, answer):
    filters = {"bad": lambda key, value: expire(b"raises", value) if answer == 1 else answer}
    options = {"compaction_filters": filters, "compaction_filter": "bad"}
    with esker.DB(place, create_if_missing=True, **options) as db:
        db.put(b"a", b"1")
        db.compact_range()
        assert list(db) == [(b"a", b"1")]


def test_databases_share_a_runtime(tmp_path):
    runtime = esker.Runtime(memory_budget_bytes="64MiB", threads_max=3, cache_policy="lru")
    dbs = [esker.DB(tmp_path / name, create_if_missing=True, runtime=runtime) for name in "ab"]
    assert runtime.metrics()["stores"] == 2
    assert runtime.metrics()["budget_bytes"] == 64 << 20
    assert "67108864 bytes with 2" in repr(runtime)
    for db in dbs:
        db.put(b"k", b"v")
        db.flush()
    del runtime
    for db in dbs:
        assert db.get(b"k") == b"v"
        db.close()
    for options, error in [
        ({"memory_budget_bytes": 1}, ValueError),
        ({"memory_budget_bytes": "much"}, ValueError),
        ({"threads_max": 2}, ValueError),
        ({"cache_policy": "best"}, ValueError),
        ({"threads": 3}, TypeError),
        ({"threads_max": [3]}, TypeError),
    ]:
        with pytest.raises(error):
            esker.Runtime(**options)


def test_write_with_a_timeout_raises_busy_and_writes_nothing(place):
    opened = threading.Event()

    def gate(key, existing, operands):
        opened.wait(600)
        return b""

    options = {"memtable_size_bytes": "64KiB", "frozen_memtables_max": 1, "merge": "test.gate",
               "merge_operators": {"test.gate": gate}}
    with esker.DB(place, create_if_missing=True, **options) as db:
        try:
            # The flush of this key waits in the operator. Nothing else calls it: a listener could
            # stop the writer, which delivers events too.
            db.put(b"!", b"")
            db.merge(b"!", b"")
            written = 0
            with pytest.raises(esker.BusyError, match="written to tables"):
                while written < 100_000:
                    batch = db.write_batch()
                    batch.put(b"%08d" % written, b"v" * 100)
                    batch.write(timeout=0.02)
                    written += 1
            stall = db.stall()
            assert stall is None or (stall.cause and stall.clears and stall.bytes >= 0)
            assert b"%08d" % written not in db
        finally:
            opened.set()
        batch.write(timeout=float("inf"))
        assert b"%08d" % written in db
        for wrong in (-1, float("nan")):
            with pytest.raises(ValueError):
                batch.write(timeout=wrong)


def test_database_without_threads_runs_its_jobs_when_told(place):
    with esker.DB(place, create_if_missing=True, background_threads=0,
                  memtable_size_bytes="64KiB") as db:
        for number in range(2000):
            db.put(b"%06d" % number, b"v" * 64)
        jobs = 0
        while db.run_one_job():
            jobs += 1
        assert jobs > 0 and db.stall() is None and db.recovery_notes() == []
        store_id = db.store_id
    with esker.DB(place) as db:
        assert db.store_id == store_id
        with pytest.raises(esker.Error):
            db.run_one_job()
    for call in (db.stall, db.recovery_notes, db.run_one_job, lambda: db.store_id):
        with pytest.raises(RuntimeError):
            call()


def test_status_of_an_open_database_is_read_from_its_directory(place):
    with pytest.raises(esker.IOError):
        esker.live_status(place)
    with esker.DB(place, create_if_missing=True) as db:
        db.put(b"k", b"v")
        began = time.monotonic()
        while True:
            try:
                status = esker.live_status(place)
                break
            except esker.IOError:
                assert time.monotonic() - began < 120
        assert status["process"] == os.getpid() and status["opened"] <= status["updated"]
        assert status["levels"] is not None


def test_calls_of_a_thread_are_counted(db):
    db.put(b"k", b"v")
    esker.enable_perf()
    db.get(b"k")
    db.get_many([b"k", b"none"])
    counts = esker.take_perf()
    assert counts["gets"] == 3 and counts["memtable_hits"] == 2
    esker.enable_perf(False)
    db.get(b"k")
    assert not any(esker.take_perf().values())


def test_transactions_merge_and_expire(place):
    with esker.DB(place, create_if_missing=True, merge="add_i64") as db:
        other = db.keyspace("other", merge="append")
        with db.transaction() as transaction:
            transaction.merge(b"n", b"2")
            transaction.merge(b"n", b"3")
            transaction.merge(b"t", b"ab", keyspace=other)
            transaction.put(b"short", b"1", ttl=0)
            transaction.put(b"long", b"1", ttl=1000, keyspace=other)
            assert transaction.get(b"n") == b"5"
        assert db[b"n"] == b"5" and other[b"t"] == b"ab"
        assert b"short" not in db and other.expiry(b"long") > time.time() + 900
        with pytest.raises(esker.Error):
            with db.transaction() as transaction:
                transaction.merge(b"x", b"no number")
        with db.snapshot() as snapshot:
            db[b"n"] = b"9"
            assert snapshot.get_many([b"n", b"none"]) == [b"5", None]
            assert snapshot.keyspace(other).get_many([b"t"]) == [b"ab"]
