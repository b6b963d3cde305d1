"""Calls on closed objects raise RuntimeError, for every class and thread; none crashes or hangs."""

import gc
import io
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

import esker


def everything_of(db):
    """Returns each call on a database and its objects, by name."""
    part, batch, snapshot = db.prefixed_db(b"p"), db.write_batch(), db.snapshot()
    keyspace = db.keyspace("keyspace")
    in_keyspace = keyspace.prefixed_db(b"p")
    steps, raw = db.iterator(), db.raw_iterator()
    transaction = db.transaction()
    savepoint, of_transaction = transaction.savepoint(), transaction.iterator()
    of_snapshot, raw_of_snapshot = snapshot.iterator(), snapshot.raw_iterator()
    key, value = b"k", b"v"
    calls = {
        "db.write_batch": db.write_batch,
        "db.iterator": db.iterator,
        "db.raw_iterator": db.raw_iterator,
        "db.snapshot": db.snapshot,
        "db.flush": db.flush,
        "db.sync": db.sync,
        "db.verify": db.verify,
        "db.compact_range": db.compact_range,
        "db.clear": db.clear,
        "db.get_many": lambda: db.get_many([key]),
        "db.delete_range": lambda: db.delete_range(key, value),
        "db.get_property": lambda: db.get_property(b"leveldb.stats"),
        "db.approximate_size": lambda: db.approximate_size(key, value),
        "db.approximate_sizes": lambda: db.approximate_sizes((key, value)),
        "db.approximate_sizes of nothing": lambda: db.approximate_sizes(),
        "db.upgrade_format": lambda: db.upgrade_format(2),
        "db.checkpoint": lambda: db.checkpoint("never-made"),
        "db.option": lambda: db.option("policy"),
        "db.set_option": lambda: db.set_option("fan_out", 4),
        "db.set_options": lambda: db.set_options(fan_out=4),
        "db.compact_all": db.compact_all,
        "db.wait_idle": db.wait_idle,
        "db.tables": db.tables,
        "db.path": lambda: db.path,
        "db.applied_position": db.applied_position,
        "db.change_writer": lambda: db.change_writer(io.BytesIO()),
        "db.applier": lambda: db.applier(io.BytesIO()),
        "part.snapshot": part.snapshot,
        "part.write_batch": part.write_batch,
        "batch.write": batch.write,
        "batch.clear": batch.clear,
        "batch.put": lambda: batch.put(key, value),
        "batch.delete": lambda: batch.delete(key),
        "batch.append": lambda: batch.append(batch),
        "batch.approximate_size": batch.approximate_size,
        "batch.count": batch.count,
        "batch.__enter__": batch.__enter__,
        "snapshot.iterator": snapshot.iterator,
        "snapshot.raw_iterator": snapshot.raw_iterator,
        "snapshot.get": lambda: snapshot.get(key),
        "snapshot.position": lambda: snapshot.position,
        "snapshot[]": lambda: snapshot[key],
        "len(keys)": lambda: len(db.keys()),
        "db.keyspace": lambda: db.keyspace("other"),
        "db.find_keyspace": lambda: db.find_keyspace("keyspace"),
        "db.keyspaces": db.keyspaces,
        "db.rename_keyspace": lambda: db.rename_keyspace("keyspace", "other"),
        "db.drop_keyspace": lambda: db.drop_keyspace("keyspace"),
        "keyspace.write_batch": keyspace.write_batch,
        "keyspace.raw_iterator": keyspace.raw_iterator,
        "keyspace.snapshot": keyspace.snapshot,
        "keyspace.compact_range": keyspace.compact_range,
        "keyspace.size_bytes": keyspace.size_bytes,
        "keyspace.approximate_size": lambda: keyspace.approximate_size(key, value),
        "keyspace.clear": keyspace.clear,
        "keyspace.get_many": lambda: keyspace.get_many([key]),
        "keyspace.delete_range": lambda: keyspace.delete_range(key, value),
        "keyspace in a batch": lambda: batch.put(key, value, keyspace=keyspace),
        "snapshot.keyspace": lambda: snapshot.keyspace(keyspace),
        "db.transaction": db.transaction,
        "db.transact": lambda: db.transact(print),
        "db.prepared_transactions": db.prepared_transactions,
        "db.commit_prepared": lambda: db.commit_prepared("name"),
        "db.rollback_prepared": lambda: db.rollback_prepared("name"),
        "db.openmetrics": db.openmetrics,
        "transaction.get": lambda: transaction.get(key),
        "transaction.get in a keyspace": lambda: transaction.get(key, keyspace=keyspace),
        "transaction.get_for_update": lambda: transaction.get_for_update(key),
        "transaction.put": lambda: transaction.put(key, value),
        "transaction.delete": lambda: transaction.delete(key),
        "transaction.delete_range": lambda: transaction.delete_range(key, value),
        "transaction[]": lambda: transaction[key],
        "transaction in": lambda: key in transaction,
        "transaction.iterator": transaction.iterator,
        "transaction.savepoint": transaction.savepoint,
        "transaction.rollback_to_savepoint": transaction.rollback_to_savepoint,
        "transaction.pop_savepoint": transaction.pop_savepoint,
        "transaction.prepare": lambda: transaction.prepare("name"),
        "transaction.commit": transaction.commit,
        "transaction.rollback": transaction.rollback,
        "transaction.__enter__": transaction.__enter__,
        "transaction.__exit__": lambda: transaction.__exit__(None, None, None),
        "savepoint.__exit__": lambda: savepoint.__exit__(None, None, None),
    }
    wholes = {"db": db, "part": part, "keyspace": keyspace, "in_keyspace": in_keyspace}
    for name, whole in wholes.items():
        calls[f"{name}.get"] = lambda whole=whole: whole.get(key)
        calls[f"{name}.put"] = lambda whole=whole: whole.put(key, value)
        calls[f"{name}.delete"] = lambda whole=whole: whole.delete(key)
        calls[f"{name}[]"] = lambda whole=whole: whole[key]
        calls[f"{name} in"] = lambda whole=whole: key in whole
        calls[f"{name} iter"] = lambda whole=whole: list(whole)
        calls[f"{name}.get_with_expiry"] = lambda whole=whole: whole.get_with_expiry(key)
        calls[f"{name}.get_reader"] = lambda whole=whole: whole.get_reader(key)
        calls[f"{name}.put_reader"] = lambda whole=whole: whole.put_reader(key, io.BytesIO(value))
    walks = {"steps": steps, "of_snapshot": of_snapshot, "of_transaction": of_transaction}
    for name, walk in walks.items():
        calls[f"next({name})"] = walk.__next__
        calls[f"{name}.prev"] = walk.prev
        calls[f"{name}.seek"] = lambda walk=walk: walk.seek(key)
        calls[f"{name}.seek_to_start"] = walk.seek_to_start
        calls[f"{name}.seek_to_stop"] = walk.seek_to_stop
    for name, walk in {"raw": raw, "raw_of_snapshot": raw_of_snapshot}.items():
        for method in (
            "valid", "seek_to_first", "seek_to_last", "next", "prev", "key", "value", "item", "expiry"
        ):
            calls[f"{name}.{method}"] = getattr(walk, method)
        calls[f"{name}.seek"] = lambda walk=walk: walk.seek(key)
    return calls, (batch, snapshot, steps, raw, of_snapshot, raw_of_snapshot, of_transaction)


def test_calls_on_closed_database_raise(db, place):
    db[b"k"] = b"v"
    calls, made = everything_of(db)
    db.close()
    db.close()
    assert db.closed and "closed" in repr(db)
    for name, call in calls.items():
        with pytest.raises(RuntimeError, match="closed"):
            call()
            pytest.fail(f"{name} did not raise")
    for thing in made[1:]:
        thing.close()
    # Objects of the closed database do not prevent another open.
    with esker.DB(place) as again:
        assert again[b"k"] == b"v"


def test_calls_on_closed_objects_raise(db):
    db[b"k"] = b"v"
    for make in (db.iterator, db.raw_iterator, db.snapshot):
        with make() as thing:
            pass
        thing.close()
        for method in ("__next__", "prev", "valid", "key", "seek_to_first", "iterator"):
            if hasattr(thing, method):
                with pytest.raises(RuntimeError, match="closed"):
                    getattr(thing, method)()
    assert db[b"k"] == b"v"


def test_iterator_outlives_snapshot(db):
    db[b"k"] = b"v"
    with db.snapshot() as snapshot:
        steps = snapshot.iterator()
    db[b"l"] = b"w"
    assert list(steps) == [(b"k", b"v")]


def test_dropped_database_is_closed(place):
    db = esker.DB(place, create_if_missing=True)
    db[b"k"] = b"v"
    seen = weakref.ref(db)
    steps = db.iterator()
    del db
    gc.collect()
    assert seen() is None
    # The database was not closed, and its iterator keeps it open.
    assert list(steps) == [(b"k", b"v")]
    with pytest.raises(esker.IOError):
        esker.DB(place)
    del steps
    gc.collect()
    with esker.DB(place) as db:
        assert db[b"k"] == b"v"


def test_close_during_calls_of_other_threads(place):
    for _ in range(5):
        db = esker.DB(place, create_if_missing=True)
        began, unexpected = threading.Barrier(9), []

        def work(number):
            began.wait()
            try:
                while True:
                    db.put(b"%d" % number, b"v" * 100)
                    db.get(b"0")
                    for _ in db.iterator():
                        pass
                    with db.write_batch() as batch:
                        batch.put(b"x%d" % number, b"v")
                    db.snapshot().get(b"0")
                    db.flush()
            except RuntimeError:
                return
            except BaseException as error:
                unexpected.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        began.wait()
        while not db.get(b"7"):
            pass
        db.close()
        for thread in threads:
            thread.join()
        assert unexpected == []


def python(text, *arguments):
    """Runs a Python program, which must exit by itself with no output on stderr."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(text), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_program_may_exit_with_open_objects(place):
    python(
        """
        import sys, threading, esker
        order = lambda a, b: (a > b) - (a < b)
        db = esker.DB(sys.argv[1], create_if_missing=True, comparator=order, comparator_name=b"o",
                      write_buffer_size=65536)
        def work():
            try:
                while True:
                    for number in range(1000):
                        db[b"%d" % number] = b"v" * 200
            except RuntimeError:
                pass
        threading.Thread(target=work, daemon=True).start()
        while b"999" not in db:
            pass
        steps, raw, snapshot, batch = db.iterator(), db.raw_iterator(), db.snapshot(), db.write_batch()
        next(steps)
        """,
        place,
    )
    order = dict(comparator=lambda a, b: (a > b) - (a < b), comparator_name=b"o")
    with esker.DB(place, **order) as db:
        assert len(db.keys()) == 1000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_database_is_closed_in_forked_child(place):
    output = python(
        """
        import io, os, sys, esker
        db = esker.DB(sys.argv[1], create_if_missing=True)
        db[b"k"] = b"v"
        steps, reader = db.iterator(), db.get_reader(b"k")
        stream = db.change_writer(io.BytesIO())
        child = os.fork()
        if child == 0:
            for call in (
                lambda: db.get(b"k"),
                lambda: db.put(b"k", b"w"),
                lambda: next(steps),
                lambda: db.snapshot(),
                lambda: db.snapshot_with_position(),
                lambda: reader.read(),
                lambda: stream.alive(0),
            ):
                try:
                    call()
                    print("did not raise")
                except RuntimeError as error:
                    print(error)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        db[b"after"] = b"x"
        db.close()
        """,
        place,
    )
    assert output.count("closed") == 7 and "did not raise" not in output
    with esker.DB(place) as db:
        assert list(db) == [(b"after", b"x"), (b"k", b"v")]
